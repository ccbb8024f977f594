//! A forge whose every write is in the audit chain: that it is to be made, before it is; and what the forge answered.
//!
//! What must hold: where the chain can't be written, nothing is written on the forge. No text of a comment or pull request is in an event, and no
//! secret in a text that is written.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::audit::{Digest, Kind, Note};
use crate::domain::{Actor, Check, Issue, Permission, RepoRef};
use crate::forge::{
    Comment, CommitStatus, Examination, Forge, ForgeError, GitAccess, LabelSet, LabelSpec, LineComment, NewDraft, PullRequest,
    PullRequestNow, Repository, Review,
};
use crate::store::{Store, repository_name};

/// A forge beside the chain.
pub(super) struct Witnessed {
    forge: Arc<dyn Forge>,
    store: Store,
    run: Option<String>,
}

impl Witnessed {
    /// Of a run, or of none.
    pub(super) const fn new(forge: Arc<dyn Forge>, store: Store, run: Option<String>) -> Self {
        Self { forge, store, run }
    }

    async fn told(&self, repo: &RepoRef, number: Option<i64>, facts: Value) -> Result<(), ForgeError> {
        let note = Note { run: self.run.clone(), ..Note::new(Kind::ForgeWrite, facts) }.about(repository_name(repo), number);
        self.store.witness(&note).await.map_err(|error| ForgeError::Unavailable {
            what: "the audit chain, without which nothing is written on a forge".to_owned(),
            message: error.to_string(),
            retry_after_ms: None,
        })
    }

    fn redacted(&self, new: &NewDraft) -> NewDraft {
        let redact = |text: &str| self.store.redactor().text(text).into_owned();
        NewDraft { title: redact(&new.title), body: redact(&new.body), ..new.clone() }
    }

    /// Writes on the forge between two events.
    async fn write<T: Send>(
        &self,
        repo: &RepoRef,
        number: Option<i64>,
        what: Value,
        write: impl Future<Output = Result<T, ForgeError>> + Send,
    ) -> Result<T, ForgeError> {
        self.told(repo, number, json!({"to": &what})).await?;
        let answer = write.await;
        let came_to = match &answer {
            Ok(_) => "done",
            Err(error) => error.name(),
        };
        if let Err(error) = self.told(repo, number, json!({"did": what, "came_to": came_to})).await {
            tracing::error!(%error, "what a forge answered is not in the audit chain; that it was asked is");
        }
        answer
    }
}

fn text(what: &str, text: &str) -> Value {
    json!({"write": what, "text": Digest::of(text.as_bytes())})
}

fn draft(what: &str, draft: &NewDraft) -> Value {
    json!({"write": what, "head": draft.head, "text": Digest::of(draft.body.as_bytes())})
}

#[async_trait]
impl Forge for Witnessed {
    async fn comment(&self, repo: &RepoRef, number: i64, body: &str) -> Result<Comment, ForgeError> {
        let body = &*self.store.redactor().text(body);
        self.write(repo, Some(number), text("comment", body), self.forge.comment(repo, number, body)).await
    }
    async fn edit_comment(&self, repo: &RepoRef, id: &str, body: &str) -> Result<(), ForgeError> {
        let body = &*self.store.redactor().text(body);
        self.write(repo, None, text("edit-comment", body), self.forge.edit_comment(repo, id, body)).await
    }
    async fn add_label(&self, repo: &RepoRef, number: i64, label: LabelSpec) -> Result<(), ForgeError> {
        let what = json!({"write": "add-label", "label": label.name});
        self.write(repo, Some(number), what, self.forge.add_label(repo, number, label)).await
    }
    async fn remove_label(&self, repo: &RepoRef, number: i64, label: &str) -> Result<(), ForgeError> {
        let what = json!({"write": "remove-label", "label": label});
        self.write(repo, Some(number), what, self.forge.remove_label(repo, number, label)).await
    }
    async fn open_draft(&self, repo: &RepoRef, new: &NewDraft) -> Result<PullRequest, ForgeError> {
        let new = &self.redacted(new);
        self.write(repo, None, draft("open-draft", new), self.forge.open_draft(repo, new)).await
    }
    async fn open_ready(&self, repo: &RepoRef, new: &NewDraft) -> Result<PullRequest, ForgeError> {
        let new = &self.redacted(new);
        self.write(repo, None, draft("open-ready", new), self.forge.open_ready(repo, new)).await
    }
    async fn close_pull_request(&self, repo: &RepoRef, number: i64) -> Result<(), ForgeError> {
        let what = json!({"write": "close-pull-request"});
        self.write(repo, Some(number), what, self.forge.close_pull_request(repo, number)).await
    }
    async fn label_pull_request(&self, repo: &RepoRef, number: i64, label: LabelSpec) -> Result<(), ForgeError> {
        let what = json!({"write": "label-pull-request", "label": label.name});
        self.write(repo, Some(number), what, self.forge.label_pull_request(repo, number, label)).await
    }
    async fn unlabel_pull_request(&self, repo: &RepoRef, number: i64, label: &str) -> Result<(), ForgeError> {
        let what = json!({"write": "unlabel-pull-request", "label": label});
        self.write(repo, Some(number), what, self.forge.unlabel_pull_request(repo, number, label)).await
    }
    async fn comment_on_pull_request(&self, repo: &RepoRef, number: i64, body: &str) -> Result<Comment, ForgeError> {
        let body = &*self.store.redactor().text(body);
        let what = text("comment-on-pull-request", body);
        self.write(repo, Some(number), what, self.forge.comment_on_pull_request(repo, number, body)).await
    }
    async fn request_review(&self, repo: &RepoRef, number: i64, reviewer: &str) -> Result<(), ForgeError> {
        let what = json!({"write": "request-review"});
        self.write(repo, Some(number), what, self.forge.request_review(repo, number, reviewer)).await
    }
    async fn set_status(&self, repo: &RepoRef, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let what = json!({"write": "set-status", "commit": commit, "context": status.context, "passed": status.passed});
        self.write(repo, None, what, self.forge.set_status(repo, commit, status)).await
    }
    async fn edit_pull_request(&self, repo: &RepoRef, number: i64, title: Option<&str>, body: &str) -> Result<(), ForgeError> {
        let body = &*self.store.redactor().text(body);
        let title = title.map(|title| self.store.redactor().text(title));
        let title = title.as_deref();
        let what = text("edit-pull-request", body);
        self.write(repo, Some(number), what, self.forge.edit_pull_request(repo, number, title, body)).await
    }

    fn pull_request_word(&self) -> &'static str {
        self.forge.pull_request_word()
    }
    fn pull_request_reference(&self, number: i64) -> String {
        self.forge.pull_request_reference(number)
    }
    fn longest_body(&self) -> usize {
        self.forge.longest_body()
    }
    async fn myself(&self) -> Result<Actor, ForgeError> {
        self.forge.myself().await
    }
    async fn repository(&self, repo: &RepoRef) -> Result<Repository, ForgeError> {
        self.forge.repository(repo).await
    }
    async fn issue(&self, repo: &RepoRef, number: i64) -> Result<Issue, ForgeError> {
        self.forge.issue(repo, number).await
    }
    async fn label_set(&self, repo: &RepoRef, number: i64, label: &str) -> Result<Option<LabelSet>, ForgeError> {
        self.forge.label_set(repo, number, label).await
    }
    async fn may_read(&self, repo: &RepoRef, login: &str) -> Result<bool, ForgeError> {
        self.forge.may_read(repo, login).await
    }
    async fn permission(&self, repo: &RepoRef, login: &str) -> Result<Permission, ForgeError> {
        self.forge.permission(repo, login).await
    }
    async fn comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>, ForgeError> {
        self.forge.comments(repo, number).await
    }
    async fn find_pull_request(&self, repo: &RepoRef, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        self.forge.find_pull_request(repo, head).await
    }
    async fn git_access(&self, repo: &RepoRef) -> Result<GitAccess, ForgeError> {
        self.forge.git_access(repo).await
    }
    async fn git_refused(&self, access: &GitAccess) -> bool {
        self.forge.git_refused(access).await
    }
    async fn pull_request_comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>, ForgeError> {
        self.forge.pull_request_comments(repo, number).await
    }
    async fn is_in_team(&self, team: &str, login: &str) -> Result<bool, ForgeError> {
        self.forge.is_in_team(team, login).await
    }
    async fn status(&self, repo: &RepoRef, commit: &str, context: &'static str) -> Result<Option<CommitStatus>, ForgeError> {
        self.forge.status(repo, commit, context).await
    }
    async fn examine(&self, examination: &Examination<'_>) -> Vec<Check> {
        self.forge.examine(examination).await
    }
    async fn pull_request(&self, repo: &RepoRef, number: i64) -> Result<PullRequestNow, ForgeError> {
        self.forge.pull_request(repo, number).await
    }
    async fn reviews(&self, repo: &RepoRef, number: i64) -> Result<Vec<Review>, ForgeError> {
        self.forge.reviews(repo, number).await
    }
    async fn line_comments(&self, repo: &RepoRef, number: i64, review: &str) -> Result<Vec<LineComment>, ForgeError> {
        self.forge.line_comments(repo, number, review).await
    }
    async fn labelled_issues(&self, repo: &RepoRef, label: &str) -> Result<Vec<Issue>, ForgeError> {
        self.forge.labelled_issues(repo, label).await
    }
    async fn repositories(&self) -> Result<Vec<RepoRef>, ForgeError> {
        self.forge.repositories().await
    }
    async fn redeliver_failed(&self, since_ms: i64) -> Result<u64, ForgeError> {
        self.forge.redeliver_failed(since_ms).await
    }
}
