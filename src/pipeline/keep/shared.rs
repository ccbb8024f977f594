//! The same once more in the database, where several machines share it: a worker on another machine goes on behind the last finished step.
//!
//! What must hold: a line is there together with all that it names, and in the order of the steps; a database that is away for a while costs
//! nothing, since what could not be added is added with the next step; what is there counts, not what an earlier life left on this disk.

use std::path::Path;

use crate::store::{RunFiles, StoreError};

use super::blobs::is_whole;
use super::{BLOBS, JOURNAL};

/// What is kept of one attempt besides.
pub(super) struct Shared {
    files: RunFiles,
    /// The attempt's folder in the run's folder: empty, or with a slash at its end.
    folder: String,
    waiting: Vec<Addition>,
    /// So many of those that wait were given to the database, which did not answer: they are there or not.
    unsure: usize,
}

/// A line of the journal with the names of the contents that it was the first to name.
struct Addition {
    begins: bool,
    blobs: Vec<String>,
    line: Vec<u8>,
}

impl Shared {
    pub(super) const fn new(files: RunFiles, folder: String) -> Self {
        Self { files, folder, waiting: Vec::new(), unsure: 0 }
    }

    /// Adds a line that is on this disk with its contents, behind those that wait. A line that begins a journal forgets the one before.
    pub(super) async fn add(&mut self, on_disk: &Path, begins: bool, blobs: Vec<String>, line: Vec<u8>) -> Result<(), StoreError> {
        self.waiting.push(Addition { begins, blobs, line });
        match self.add_what_waits(on_disk).await {
            Err(StoreError::Failed(why)) => {
                tracing::warn!(why, "a step is kept on this disk alone for now: it is added to the database with the next one");
                Ok(())
            }
            added => added,
        }
    }

    async fn add_what_waits(&mut self, on_disk: &Path) -> Result<(), StoreError> {
        self.forget_what_is_there().await?;
        let mut addition = self.files.add().await?;
        for one in &self.waiting {
            if one.begins {
                addition.forget(&format!("{}kept/", self.folder)).await?;
            }
            for blob in &one.blobs {
                let content = tokio::fs::read(on_disk.join(BLOBS).join(blob)).await;
                let content = content.map_err(|error| StoreError::Failed(format!("{blob}: {error}")))?;
                addition.append(&format!("{}{BLOBS}/{blob}", self.folder), &content).await?;
            }
            addition.append(&format!("{}{JOURNAL}", self.folder), &one.line).await?;
        }
        self.unsure = self.waiting.len();
        addition.commit().await?;
        self.waiting.clear();
        self.unsure = 0;
        Ok(())
    }

    /// Whether an addition without an answer was made can be told by the journal, whose lines are never twice the same.
    async fn forget_what_is_there(&mut self) -> Result<(), StoreError> {
        if self.unsure > 0 {
            let journal = self.files.read(&format!("{}{JOURNAL}", self.folder)).await?;
            let lines = self.waiting.iter().take(self.unsure).flat_map(|one| one.line.iter().copied()).collect::<Vec<_>>();
            if journal.ends_with(&lines) {
                self.waiting.drain(..self.unsure);
            }
            self.unsure = 0;
        }
        Ok(())
    }
}

/// Brings what is kept of an attempt to this disk, in place of what is there; what is not kept leaves it as it is.
pub(in crate::pipeline) async fn fetch(files: &RunFiles, folder: &str, on_disk: &Path) -> Result<(), StoreError> {
    let disk = |error: std::io::Error| StoreError::Failed(format!("{}: {error}", on_disk.display()));
    let journal = files.read(&format!("{folder}{JOURNAL}")).await?;
    if journal.is_empty() {
        return Ok(());
    }
    let blobs = on_disk.join(BLOBS);
    tokio::fs::create_dir_all(&blobs).await.map_err(disk)?;
    let place = format!("{folder}{BLOBS}/");
    for name in files.names(&place).await? {
        let blob = name[place.len()..].to_owned();
        let there = (blobs.clone(), blob.clone());
        if !tokio::task::spawn_blocking(move || is_whole(&there.0, &there.1)).await.unwrap_or(false) {
            tokio::fs::write(blobs.join(blob), files.read(&name).await?).await.map_err(disk)?;
        }
    }
    let fetched = on_disk.join("kept/journal.fetched");
    tokio::fs::write(&fetched, journal).await.map_err(disk)?;
    tokio::fs::rename(&fetched, on_disk.join(JOURNAL)).await.map_err(disk)
}

#[cfg(test)]
mod tests {
    use super::super::tests::files_of_a_run;
    use super::{Addition, BLOBS, JOURNAL, Shared};

    #[tokio::test]
    async fn what_the_database_took_without_an_answer_is_not_added_again() {
        let disk = tempfile::tempdir().unwrap();
        let files = files_of_a_run(disk.path()).await;
        std::fs::create_dir_all(disk.path().join(BLOBS)).unwrap();
        std::fs::write(disk.path().join(BLOBS).join("one"), "content").unwrap();
        let line = |line: &str| line.as_bytes().to_vec();
        let blobs = || vec!["one".to_owned()];
        for was_made in [true, false] {
            let mut shared = Shared::new(files.clone(), String::new());
            shared.add(disk.path(), true, Vec::new(), line("begin\n")).await.unwrap();
            if was_made {
                shared.add(disk.path(), false, blobs(), line("first\n")).await.unwrap();
            }
            shared.waiting.push(Addition { begins: false, blobs: blobs(), line: line("first\n") });
            shared.unsure = 1;
            shared.add(disk.path(), false, Vec::new(), line("second\n")).await.unwrap();
            assert_eq!(files.read(JOURNAL).await.unwrap(), b"begin\nfirst\nsecond\n", "was made: {was_made}");
            assert_eq!(files.read(&format!("{BLOBS}/one")).await.unwrap(), b"content", "was made: {was_made}");
        }
    }
}
