//! Who is asked to review: the owners of the changed files at base, else whom the configuration names; never the bot, and never only
//! who asked for the change.

use crate::domain::BlobMode;
use crate::publish::codeowners::{CodeOwners, PLACES};

use super::{Asked, Start, Stop, Work};

/// More are not asked: a change of many files would call up half a company.
const MOST: usize = 10;
const LARGEST_FILE: u64 = 1 << 20;

/// The names to ask, logins and `organization/team`. That there is none but who set the label is noted for the pull request.
pub(super) async fn of(work: &mut Work<'_>, asked: &Asked<'_>, start: &Start) -> Result<Vec<String>, Stop> {
    let mut names = match code_owners(start).await? {
        Some(file) => work.report.files.iter().flat_map(|(path, _, _)| file.of(path)).collect::<Vec<_>>(),
        None => Vec::new(),
    };
    if names.is_empty() {
        names.clone_from(&work.parts.settings.rules_of(asked.repo).reviewers);
    }
    let myself = asked.forge.myself().await?.login;
    let mut chosen: Vec<String> = Vec::new();
    for name in names {
        if !name.eq_ignore_ascii_case(&myself) && !chosen.iter().any(|there| there.eq_ignore_ascii_case(&name)) {
            chosen.push(name);
        }
    }
    chosen.truncate(MOST);
    let is_labeller = |name: &String| work.checkpoint.requested_by.as_ref().is_some_and(|by| by.eq_ignore_ascii_case(name));
    if chosen.len() == 1 && chosen.iter().all(is_labeller) {
        let note = "nobody but who set the label is named as a reviewer, so nobody was asked: somebody else should look at it".to_owned();
        if !work.report.notes.contains(&note) {
            work.report.notes.push(note);
        }
        chosen.clear();
    }
    Ok(chosen)
}

async fn code_owners(start: &Start) -> Result<Option<CodeOwners>, Stop> {
    let is_file = |mode: BlobMode| !matches!(mode, BlobMode::Symlink | BlobMode::Submodule);
    let found = PLACES.iter().find_map(|place| start.tree.entries.get(place.as_bytes()).filter(|entry| is_file(entry.mode)));
    let Some(entry) = found.filter(|entry| entry.size <= LARGEST_FILE) else { return Ok(None) };
    let contents = start.mirror.blobs(&[&entry.blob]).await?;
    Ok(contents.first().map(|bytes| CodeOwners::parse(&String::from_utf8_lossy(bytes))))
}
