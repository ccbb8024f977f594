//! Reviews of pull requests: how people write them, how the forges tell of them, and how they list them (forges.md, sections 2.2, 2.3, 4.2, 4.3).

use serde_json::{Value, json};

use super::Kind;
use super::state::{Issue, Repository, Spot, State, timestamp};
use super::webhook::{Delivery, gitea_headers, github_headers};
use super::{gitea, github, gitlab};
use crate::domain::Permission;

/// What a review comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Good as it is.
    Approved,
    /// Not yet.
    ChangesRequested,
    /// Neither.
    Commented,
}

/// A review to write.
#[derive(Debug, Clone, Copy)]
pub struct NewReview<'a> {
    /// What it comes to.
    pub verdict: Verdict,
    /// Its text.
    pub body: &'a str,
    /// Path, line and text of each remark.
    pub lines: &'a [(&'a str, i64, &'a str)],
}

/// A review.
#[derive(Debug, Clone)]
pub struct Review {
    /// The forge's id of it.
    pub id: u64,
    /// The login of its author.
    pub author: String,
    /// What it comes to.
    pub verdict: Verdict,
    /// Its text.
    pub body: String,
    /// Path, line and text of each remark.
    pub lines: Vec<(String, i64, String)>,
    /// The commit at the head when it was written.
    pub commit: String,
    /// When it was written, in milliseconds since the epoch.
    pub at_ms: i64,
    /// It was taken back, or somebody set it aside.
    pub dismissed: bool,
}

impl State {
    /// Writes a review and tells the hooks.
    pub(super) fn review(&mut self, spot: Spot, by: &str, new: &NewReview<'_>) {
        if self.kind == Kind::GitLab {
            return gitlab::verdicts::review(self, spot, by, new);
        }
        let review = self.keep_review(spot, by, new);
        self.tell_of_review(spot, by, &review, "submitted");
    }

    /// Keeps a review of the commit that is at the head now.
    pub(super) fn keep_review(&mut self, spot: Spot, by: &str, new: &NewReview<'_>) -> Review {
        let (id, at_ms) = (self.next_id(), self.observe(spot));
        let (repository, issue) = self.at(spot);
        let commit = issue.pull.as_ref().map(|pull| repository.head_sha(issue, pull)).unwrap_or_default();
        let lines = new.lines.iter().map(|(path, line, text)| ((*path).to_owned(), *line, (*text).to_owned())).collect();
        let review =
            Review { id, author: by.to_owned(), verdict: new.verdict, body: new.body.to_owned(), lines, commit, at_ms, dismissed: false };
        self.issue_mut(spot).reviews.push(review.clone());
        review
    }

    /// Tells the hooks of a review; only GitHub has another action than writing it.
    pub(super) fn tell_of_review(&mut self, spot: Spot, by: &str, review: &Review, action: &'static str) {
        let Some(payload) = self.review_payload(spot, by, review, action) else { return };
        let body = axum::body::Bytes::from(serde_json::to_vec(&payload).unwrap_or_default());
        let (event, action) = match (self.kind, review.verdict) {
            (Kind::GitHub, _) => ("pull_request_review", action),
            (Kind::GitLab, _) => return,
            (_, Verdict::Approved) => ("pull_request_approved", "reviewed"),
            (_, Verdict::ChangesRequested) => ("pull_request_rejected", "reviewed"),
            (_, Verdict::Commented) => ("pull_request_comment", "reviewed"),
        };
        let exact = format!("pull_request_review_{}", word(review.verdict));
        for hook in self.repositories[spot.repository].hooks.clone() {
            let id = self.next_uuid();
            let headers = match self.kind {
                Kind::Gitea => gitea_headers(&["Gitea"], &id, event, &exact, &hook.secret, &body),
                Kind::Forgejo => gitea_headers(&["Forgejo", "Gitea"], &id, event, &exact, &hook.secret, &body),
                Kind::GitHub | Kind::GitLab => {
                    github_headers(&id, event, hook.id, self.repositories[spot.repository].id, &hook.secret, &body)
                }
            };
            self.outbox.push(Delivery { id, what: format!("{event} {action}"), headers, body: body.clone() });
        }
    }

    fn review_payload(&self, spot: Spot, by: &str, review: &Review, action: &str) -> Option<Value> {
        let (repository, issue) = self.at(spot);
        let pull = issue.pull.as_ref()?;
        Some(match self.kind {
            Kind::GitHub => json!({
                "action": action, "review": self.github_review(review),
                "pull_request": github::shape::pull(self, repository, issue, pull),
                "repository": github::shape::repository(self, repository, ""), "sender": github::shape::user(self, by),
            }),
            Kind::Gitea | Kind::Forgejo => json!({
                "action": "reviewed", "number": issue.number, "pull_request": gitea::shape::pull(self, repository, issue, pull),
                "repository": gitea::shape::repository(self, repository, &issue.author), "sender": gitea::shape::user(self, by),
                "review": { "type": format!("pull_request_review_{}", word(review.verdict)), "content": review.body },
            }),
            Kind::GitLab => return None,
        })
    }

    fn github_review(&self, review: &Review) -> Value {
        let state = match review.verdict {
            _ if review.dismissed => "DISMISSED",
            Verdict::Approved => "APPROVED",
            Verdict::ChangesRequested => "CHANGES_REQUESTED",
            Verdict::Commented => "COMMENTED",
        };
        json!({ "id": review.id, "user": github::shape::user(self, &review.author), "body": review.body, "state": state, "commit_id": review.commit })
    }

    /// The reviews as the API lists them.
    pub(super) fn listed_reviews(&self, repository: &Repository, issue: &Issue) -> Vec<Value> {
        let head = issue.pull.as_ref().map(|pull| repository.head_sha(issue, pull)).unwrap_or_default();
        let gitea = |review: &Review| {
            let state = match review.verdict {
                Verdict::Approved => "APPROVED",
                Verdict::ChangesRequested => "REQUEST_CHANGES",
                Verdict::Commented => "COMMENT",
            };
            json!({
                "id": review.id, "user": gitea::shape::user(self, &review.author), "body": review.body, "state": state, "stale": review.commit != head,
                "official": repository.permission(&review.author) >= Permission::Write, "dismissed": review.dismissed, "commit_id": review.commit,
                "submitted_at": timestamp(review.at_ms), "comments_count": review.lines.len(),
            })
        };
        let one = |review: &Review| if self.kind == Kind::GitHub { self.github_review(review) } else { gitea(review) };
        issue.reviews.iter().map(one).collect()
    }

    /// The remarks of a review as the API lists them; none when there is no such review.
    pub(super) fn listed_remarks(&self, repository: &Repository, issue: &Issue, id: &str) -> Option<Vec<Value>> {
        let review = issue.reviews.iter().find(|review| review.id.to_string() == id)?;
        let sha = issue.pull.as_ref().map(|pull| repository.head_sha(issue, pull));
        let one = |(number, (path, line, text)): (usize, &(String, i64, String))| {
            let id = review.id * 1000 + number as u64;
            match self.kind {
                Kind::GitHub => json!({
                    "id": id, "path": path, "line": line, "original_line": line, "position": 1, "body": text, "commit_id": sha,
                    "user": github::shape::user(self, &review.author), "pull_request_review_id": review.id,
                }),
                _ => json!({
                    "id": id, "path": path, "position": line, "original_position": 0, "body": text, "commit_id": sha,
                    "user": gitea::shape::user(self, &review.author), "pull_request_review_id": review.id, "diff_hunk": "",
                }),
            }
        };
        Some(review.lines.iter().enumerate().map(one).collect())
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approved => "approved",
        Verdict::ChangesRequested => "rejected",
        Verdict::Commented => "comment",
    }
}
