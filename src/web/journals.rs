//! The journals of a run that goes on, for the page and the API alike.
//!
//! What must hold: who looks on sees the words of an agent as they will be kept, without secrets; a name from outside leads to no other folder.

use std::path::Path;

use super::Door;
use crate::store::StoreError;

/// More attempts are not looked for.
pub(super) const MOST_ATTEMPTS: usize = 20;
/// A larger journal is not shown while the run goes on, in bytes.
const LARGEST: u64 = 32 * 1024 * 1024;

/// The journals of a run's attempts with their numbers: from its folder on this machine, or from the database that several machines share. `tried`
/// attempts have ended.
pub(super) async fn journals(door: &Door, run: &str, tried: usize) -> Result<Vec<(usize, Vec<u8>)>, StoreError> {
    let mut all = Vec::new();
    if !is_a_folder(run) {
        return Ok(all);
    }
    let folder = door.pages.runs.join(run);
    for number in 1..=(tried + 1).min(MOST_ATTEMPTS) {
        let place = if number == 1 { String::new() } else { format!("attempt-{number}/") };
        let mut journal = read(&folder.join(&place).join("kept/journal.jsonl")).await.unwrap_or_default();
        if journal.is_empty() && door.store.is_shared() {
            journal = door.store.kept_journal(run, &place).await?;
        }
        if !journal.is_empty() {
            all.push((number, door.store.redactor().bytes(&journal).into_owned()));
        }
    }
    Ok(all)
}

/// The patch of a run in its folder on this machine.
pub(super) async fn patch(door: &Door, run: &str) -> Option<Vec<u8>> {
    if !is_a_folder(run) {
        return None;
    }
    let patch = read(&door.pages.runs.join(run).join("patch.diff")).await?;
    Some(door.store.redactor().bytes(&patch).into_owned())
}

fn is_a_folder(run: &str) -> bool {
    !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

async fn read(file: &Path) -> Option<Vec<u8>> {
    let there = tokio::fs::metadata(file).await.ok()?;
    if there.len() > LARGEST { None } else { tokio::fs::read(file).await.ok() }
}
