//! Approvals of merge requests, and statuses of commits.
//!
//! What must hold: GitLab approves a merge request and no commit. The commit of an approval is the head of the newest version that was there
//! before it; where its time is not known, it has none, and who needs one must not count it.

use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::client::{Client, MERGE_REQUESTS, PAGES};
use super::payload::is_bot;
use super::rows::User;
use crate::domain::{RepoRef, ReviewState};
use crate::forge::http::Rows;
use crate::forge::{CommitStatus, ForgeError, Review};

/// GitLab's own words in the note that it writes of an approval.
const APPROVED: &str = "approved this merge request";

#[derive(Debug, Deserialize)]
struct ApprovalsRow {
    #[serde(default)]
    approved_by: Vec<ApprovalRow>,
}

#[derive(Debug, Deserialize)]
struct ApprovalRow {
    user: User,
    /// Not told by older versions.
    #[serde(default)]
    approved_at: Option<String>,
}

/// What was pushed at once.
#[derive(Debug, Deserialize)]
pub(super) struct VersionRow {
    head_commit_sha: String,
    pub(super) created_at: String,
}

#[derive(Debug, Deserialize)]
struct SystemNoteRow {
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    author: Option<User>,
    #[serde(default)]
    system: Option<bool>,
    created_at: String,
}

#[derive(Debug, Deserialize)]
struct StatusRow {
    name: String,
    status: String,
    #[serde(default)]
    description: Option<String>,
}

impl Client {
    /// The approvals that stand now, each for the commit that its author saw.
    pub(super) async fn approvals(&self, repo: &RepoRef, number: i64) -> Result<Vec<Review>, ForgeError> {
        let what = format!("approvals of merge request {number} of {}", repo.path);
        let iid = number.to_string();
        let path = ["projects", &repo.id, MERGE_REQUESTS, &iid, "approvals"];
        let mut approvals = self.http.get::<ApprovalsRow>(what, &path).await?.approved_by;
        approvals.retain(|approval| !is_bot(&approval.user.username));
        if approvals.is_empty() {
            return Ok(Vec::new());
        }
        let notes = if approvals.iter().any(|approval| approval.approved_at.is_none()) {
            let what = format!("notes of merge request {number} of {}", repo.path);
            let path = ["projects", &repo.id, MERGE_REQUESTS, &iid, "notes"];
            self.http.list::<SystemNoteRow>(what, &path, &[], PAGES).await?.rows
        } else {
            Vec::new()
        };
        let versions = self.versions(repo, number).await?;
        let review = |approval: ApprovalRow| {
            let at = approval.approved_at.as_deref().and_then(time).or_else(|| noted(&notes, &approval.user.username));
            Review {
                id: format!("{}/{}", approval.user.username, approval.approved_at.unwrap_or_default()),
                author: approval.user.username,
                state: ReviewState::Approved,
                body: String::new(),
                commit: at.and_then(|at| commit_at(&versions, at)),
            }
        };
        Ok(approvals.into_iter().map(review).collect())
    }

    /// What was pushed, newest first.
    pub(super) async fn versions(&self, repo: &RepoRef, number: i64) -> Result<Vec<VersionRow>, ForgeError> {
        let what = format!("versions of merge request {number} of {}", repo.path);
        let path = ["projects", &repo.id, MERGE_REQUESTS, &number.to_string(), "versions"];
        Ok(self.http.list(what, &path, &[], PAGES).await?.rows)
    }

    /// The newest status of this name.
    pub(super) async fn status_now(&self, repo: &RepoRef, commit: &str, context: &'static str) -> Result<Option<CommitStatus>, ForgeError> {
        let what = format!("the status {context} on {commit} of {}", repo.path);
        let path = ["projects", &repo.id, "repository", "commits", commit, "statuses"];
        let there: Rows<StatusRow> = self.http.list(what, &path, &[("name", context.to_owned())], PAGES).await?;
        let row = there.rows.into_iter().find(|row| row.name == context);
        Ok(row.map(|row| CommitStatus {
            context,
            passed: row.status == "success",
            description: row.description.unwrap_or_default().into(),
        }))
    }
}

pub(super) fn time(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok()
}

/// When GitLab last wrote down that this person approved.
fn noted(notes: &[SystemNoteRow], login: &str) -> Option<OffsetDateTime> {
    let is_it = |note: &&SystemNoteRow| {
        note.system == Some(true)
            && note.body.as_deref() == Some(APPROVED)
            && note.author.as_ref().is_some_and(|author| author.username.eq_ignore_ascii_case(login))
    };
    notes.iter().filter(is_it).filter_map(|note| time(&note.created_at)).max()
}

/// The head of the newest version that is older than this time. None when the time of any version can't be read.
fn commit_at(versions: &[VersionRow], at: OffsetDateTime) -> Option<String> {
    let times = versions.iter().map(|version| Some((time(&version.created_at)?, version))).collect::<Option<Vec<_>>>()?;
    let newest = times.into_iter().filter(|(made, _)| *made < at).max_by_key(|(made, _)| *made)?;
    Some(newest.1.head_commit_sha.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::{VersionRow, commit_at, time};

    #[test]
    fn an_approval_is_for_the_commit_that_was_there_before_it() {
        let versions: Vec<VersionRow> = from_value(json!([
            {"head_commit_sha": "b", "created_at": "2026-11-30T10:00:05.250Z"},
            {"head_commit_sha": "a", "created_at": "2026-11-30T10:00:00.000Z"},
        ]))
        .unwrap();
        let of = |at: &str| commit_at(&versions, time(at).unwrap());
        assert_eq!(of("2026-11-30T10:00:01Z").as_deref(), Some("a"));
        assert_eq!(of("2026-11-30T12:00:05.250+02:00").as_deref(), Some("a"), "at the very moment of a push the older one is meant");
        assert_eq!(of("2026-11-30T10:00:05.251Z").as_deref(), Some("b"));
        assert_eq!(of("2026-11-30T09:00:00Z"), None);
        let unreadable: Vec<VersionRow> = from_value(json!([{"head_commit_sha": "a", "created_at": "yesterday"}])).unwrap();
        assert_eq!(commit_at(&unreadable, time("2026-11-30T10:00:01Z").unwrap()), None);
    }
}
