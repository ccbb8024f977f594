//! Texts of runs that were kept long enough are erased, from the database and from this disk.
//!
//! What must hold: the folder goes before the rows, so that what was begun is done again; each machine clears its own disk of what any of them
//! erased.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Worker;
use crate::store::StoreError;

/// How often it is looked for old ones.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// So many are looked at in one step; between two erasures others have their turn at the database.
const STEP: i64 = 100;

const BETWEEN: Duration = Duration::from_millis(20);

impl Worker {
    /// Erases the texts of every run that is older than they are kept; how many jobs there were.
    ///
    /// # Errors
    /// When the database fails; what was erased stays so.
    pub async fn erase_old_texts(&self) -> Result<u64, StoreError> {
        let (mut erased, mut after) = (0, None);
        loop {
            let now = self.parts.clock.now_ms();
            let (jobs, next) = self.store.jobs_to_erase(&self.settings.keeping, now, after.as_ref(), STEP).await?;
            for job in &jobs {
                if let Some(run) = &job.run {
                    self.remove_folder(run).await;
                }
                self.store.erase(job).await?;
                erased += 1;
                tokio::time::sleep(BETWEEN).await;
            }
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.clear_this_disk().await?;
        Ok(erased)
    }

    /// Removes the folders of runs that another machine erased.
    async fn clear_this_disk(&self) -> Result<(), StoreError> {
        let Ok(mut folders) = tokio::fs::read_dir(&self.parts.settings.runs).await else { return Ok(()) };
        while let Ok(Some(folder)) = folders.next_entry().await {
            let name = folder.file_name();
            let Some(run) = name.to_str() else { continue };
            if self.store.is_erased(run).await? {
                self.remove_folder(run).await;
            }
        }
        Ok(())
    }

    async fn remove_folder(&self, run: &str) {
        let folder = self.parts.settings.runs.join(run);
        match tokio::fs::remove_dir_all(&folder).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, folder = %folder.display(), "the folder of an old run could not be removed");
            }
            _ => {}
        }
    }

    /// Erases at the start and then once a day, until `stop`.
    pub(super) async fn erase_again_and_again(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                erased = self.erase_old_texts() => match erased {
                    Ok(0) => {}
                    Ok(jobs) => tracing::info!(jobs, "the texts of old runs were erased"),
                    Err(error) => tracing::error!(%error, "the texts of old runs can't be erased; it is tried again"),
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }
}
