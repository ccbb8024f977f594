//! What reviewers of a merge request want changed (forges.md, section 3.3).
//!
//! GitLab has no reviews. Who wants changes is a reviewer in that state; the words are notes like any others: the threads that this reviewer
//! has left open, and what else the reviewer wrote since the branch last changed.

use serde::Deserialize;
use time::OffsetDateTime;

use super::Client;
use super::approvals::time;
use super::client::{MERGE_REQUESTS, PAGES};
use super::rows::{NoteRow, User};
use crate::domain::{RepoRef, ReviewState};
use crate::forge::http::Rows;
use crate::forge::payload::command;
use crate::forge::{ForgeError, LineComment, Review};

#[derive(Debug, Deserialize)]
struct ReviewerRow {
    user: User,
    #[serde(default)]
    state: String,
}

#[derive(Debug, Deserialize)]
struct ThreadRow {
    #[serde(default)]
    notes: Vec<SaidRow>,
}

#[derive(Debug, Deserialize)]
struct SaidRow {
    #[serde(flatten)]
    note: NoteRow,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    resolved: Option<bool>,
    #[serde(default)]
    position: Option<Position>,
}

/// The lines are none where a note is on a picture or on the whole file.
#[derive(Debug, Deserialize)]
struct Position {
    #[serde(default)]
    new_path: Option<String>,
    #[serde(default)]
    old_path: Option<String>,
    #[serde(default)]
    new_line: Option<i64>,
    #[serde(default)]
    old_line: Option<i64>,
}

impl SaidRow {
    fn is_by(&self, user: i64) -> bool {
        self.note.is_public_comment() && self.note.author.as_ref().is_some_and(|author| author.id == user)
    }

    fn is_open_thread(&self) -> bool {
        self.position.is_some() && self.resolved != Some(true)
    }

    /// Neither on a line nor for us to obey by itself.
    fn is_plain_since(&self, since: Option<OffsetDateTime>) -> bool {
        let is_old = since.is_some_and(|since| self.created_at.as_deref().and_then(time).is_some_and(|at| at < since));
        self.position.is_none() && !is_old && command(self.text()).is_none()
    }

    fn text(&self) -> &str {
        self.note.body.as_deref().unwrap_or_default()
    }

    fn comment(self) -> Option<LineComment> {
        let Position { new_path, old_path, new_line, old_line } = self.position?;
        Some(LineComment { path: new_path.or(old_path)?, line: new_line.or(old_line), body: self.note.body.unwrap_or_default() })
    }
}

impl Client {
    /// The reviewers who want changes, each as a review whose id is another one as soon as more was said.
    pub(super) async fn requested_changes(&self, repo: &RepoRef, number: i64) -> Result<Vec<Review>, ForgeError> {
        let wanting = self.who_want_changes(repo, number).await?;
        if wanting.is_empty() {
            return Ok(Vec::new());
        }
        let since = self.versions(repo, number).await?.iter().filter_map(|version| time(&version.created_at)).max();
        let said = self.said(repo, number).await?;
        Ok(wanting.into_iter().map(|user| wants_changes(user, &said, since)).collect())
    }

    /// What the reviewer of this review has to say of lines, in threads that nobody has resolved.
    pub(super) async fn open_threads(&self, repo: &RepoRef, number: i64, review: &str) -> Result<Vec<LineComment>, ForgeError> {
        let Some(user) = review.strip_prefix("changes-").and_then(|rest| rest.split('-').next()?.parse().ok()) else {
            return Ok(Vec::new());
        };
        let said = self.said(repo, number).await?;
        Ok(said.into_iter().filter(|note| note.is_by(user) && note.is_open_thread()).filter_map(SaidRow::comment).collect())
    }

    async fn who_want_changes(&self, repo: &RepoRef, number: i64) -> Result<Vec<User>, ForgeError> {
        let rows: Rows<ReviewerRow> =
            self.http.list(about("reviewers", repo, number), &below(repo, &number.to_string(), "reviewers"), &[], PAGES).await?;
        Ok(rows.rows.into_iter().filter(|row| row.state == "requested_changes").map(|row| row.user).collect())
    }

    async fn said(&self, repo: &RepoRef, number: i64) -> Result<Vec<SaidRow>, ForgeError> {
        let threads: Rows<ThreadRow> =
            self.http.list(about("threads", repo, number), &below(repo, &number.to_string(), "discussions"), &[], PAGES).await?;
        Ok(threads.rows.into_iter().flat_map(|thread| thread.notes).collect())
    }
}

fn about(what: &str, repo: &RepoRef, number: i64) -> String {
    format!("{what} of merge request {number} of {}", repo.path)
}

fn below<'a>(repo: &'a RepoRef, number: &'a str, what: &'a str) -> [&'a str; 5] {
    ["projects", &repo.id, MERGE_REQUESTS, number, what]
}

fn wants_changes(user: User, said: &[SaidRow], since: Option<OffsetDateTime>) -> Review {
    let words = said.iter().filter(|note| note.is_by(user.id)).collect::<Vec<_>>();
    let plain = words.iter().filter(|note| note.is_plain_since(since)).collect::<Vec<_>>();
    let open = words.iter().filter(|note| note.is_open_thread());
    let newest = open.chain(plain.iter().copied()).map(|note| note.note.id).max().unwrap_or(0);
    Review {
        id: format!("changes-{}-{newest}", user.id),
        author: user.username,
        state: ReviewState::ChangesRequested,
        body: plain.iter().map(|note| note.text().trim()).collect::<Vec<_>>().join("\n\n"),
        commit: None,
    }
}

#[cfg(test)]
#[path = "reviews_tests.rs"]
mod tests;
