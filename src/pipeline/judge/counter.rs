//! The counter-proof: the tests that speak for a patch, and some others, run with their checks reversed ([`crate::verify::reversed`]).
//!
//! What must hold: which other files are taken can't be told from the repository and the patch; what is not tried is said.

use sha2::{Digest as _, Sha256};

use crate::domain::{BlobMode, ChangedFile, Kept, Reversal};
use crate::verify::passes_reversed;
use crate::verify::proving::{RUNS, files_of, test_files};
use crate::verify::restore::clean_room;
use crate::verify::reversed::{LARGEST, Reversed, reversed};

use super::super::{Stop, Work};
use super::judged;
use super::proof::{Bench, note};

/// So many test files are reversed, or as many as speak for the patch.
const FILES: usize = 4;

/// A test file with reversed checks.
struct File {
    path: String,
    changed: ChangedFile,
    tests: Vec<String>,
}

impl Bench<'_> {
    /// Runs reversed tests on the patch and, where one passes, without its source.
    pub(super) async fn counter(&self, work: &mut Work<'_>, changed: &[ChangedFile]) -> Result<(), Stop> {
        if work.checkpoint.judging.reversed.is_none() && !self.first(work, changed).await? {
            return Ok(());
        }
        loop {
            let Some(mut reversal) = work.checkpoint.judging.reversed.clone() else { return Ok(()) };
            if reversal.at_base.is_some() || !passes_reversed(&reversal) {
                return Ok(());
            }
            let files = self.reversed_files(work, changed).await?;
            let is_sure = reversal.on_patch.len() >= RUNS;
            let tree = if is_sure { with(&[], &files) } else { with(&self.judged_files(changed), &files) };
            let Some(kept) = self.run_reversed(work, &tree, &files).await? else { return Ok(()) };
            if is_sure {
                reversal.at_base = Some(kept);
            } else {
                reversal.on_patch.push(kept);
            }
            work.checkpoint.judging.reversed = Some(reversal);
            work.keep().await?;
        }
    }

    /// The run that is enough where every reversed test fails; whether there was one.
    async fn first(&self, work: &mut Work<'_>, changed: &[ChangedFile]) -> Result<bool, Stop> {
        let files = self.reversed_files(work, changed).await?;
        let tests = files.iter().flat_map(|file| file.tests.iter().map(|test| (file.path.clone(), test.clone()))).collect::<Vec<_>>();
        if tests.is_empty() {
            note(work, "no check of a test could be reversed, to see that the tests can fail on the patch");
            return Ok(false);
        }
        let Some(kept) = self.run_reversed(work, &with(&self.judged_files(changed), &files), &files).await? else { return Ok(false) };
        work.checkpoint.judging.reversed = Some(Reversal { tests, on_patch: vec![kept], at_base: None });
        work.keep().await?;
        Ok(true)
    }

    async fn run_reversed(&self, work: &mut Work<'_>, tree: &[ChangedFile], files: &[File]) -> Result<Option<Kept>, Stop> {
        let only = files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        let ran = self.run(work, "reversed", tree, Some(&only)).await?;
        if ran.is_none() {
            note(work, "the time for the proof was over before tests had run with their checks reversed");
        }
        Ok(ran)
    }

    /// The files of the tests that speak for the patch, and others by a lot that is drawn for this run.
    async fn reversed_files(&self, work: &Work<'_>, changed: &[ChangedFile]) -> Result<Vec<File>, Stop> {
        let judgement = judged(work);
        let proving = &judgement.evidence.proving;
        let own = test_files(changed, self.tests);
        let base = &self.start.tree.entries;
        let paths = || base.keys().chain(changed.iter().map(|file| &file.path));
        let of_proving = files_of(proving, paths(), self.tests).unwrap_or_default();
        let fixed = judgement.comparison.as_ref().map(|comparison| comparison.fixed.clone()).unwrap_or_default();
        let mut wanted = files_of(&fixed, paths(), self.tests).unwrap_or_default();
        wanted.extend(of_proving.iter().cloned());
        let mut others = base
            .keys()
            .filter(|path| self.tests.is_collected_file(path))
            .filter_map(|path| String::from_utf8(path.clone()).ok())
            .collect::<Vec<_>>();
        others.sort_by_cached_key(|path| Sha256::digest(format!("{} {path}", work.run.0)));
        let speaking = wanted.len();
        wanted.extend(others.into_iter().take(FILES.saturating_sub(speaking)));
        wanted.sort();
        wanted.dedup();
        let mut files = Vec::new();
        for path in wanted {
            let is_own = own.contains(&path) && (of_proving.contains(&path) || !base.contains_key(path.as_bytes()));
            let side = if is_own {
                changed.iter().find(|file| file.path == path.as_bytes()).and_then(|file| file.after.clone())
            } else {
                self.of_base(&path).await?
            };
            let Some((mode @ (BlobMode::File | BlobMode::Executable), content)) = side else { continue };
            let Some(Reversed { text, tests }) = std::str::from_utf8(&content).ok().and_then(reversed) else { continue };
            let changed = ChangedFile { path: path.clone().into_bytes(), before: None, after: Some((mode, text.into_bytes())) };
            files.push(File { path, changed, tests });
        }
        Ok(files)
    }

    fn judged_files(&self, changed: &[ChangedFile]) -> Vec<ChangedFile> {
        clean_room(changed, self.tests).judged
    }

    async fn of_base(&self, path: &str) -> Result<Option<(BlobMode, Vec<u8>)>, Stop> {
        let Some(entry) = self.start.tree.entries.get(path.as_bytes()).filter(|entry| entry.size <= LARGEST) else { return Ok(None) };
        let content = self.start.mirror.blobs(&[&entry.blob]).await?.pop();
        Ok(content.map(|content| (entry.mode, content)))
    }
}

/// A tree with these files in the place of its own.
fn with(tree: &[ChangedFile], files: &[File]) -> Vec<ChangedFile> {
    let is_other = |file: &&ChangedFile| files.iter().all(|reversed| reversed.changed.path != file.path);
    tree.iter().filter(is_other).chain(files.iter().map(|file| &file.changed)).cloned().collect()
}
