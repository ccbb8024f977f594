//! Forges: what arrives from them ([`Inbound`]) and what is asked of them ([`Forge`]).
//!
//! A forge is always the configured entry whose name stands in the webhook's path; no header, payload or redirect chooses one, and no
//! address in a payload is ever requested (forges.md, section 6). Whatever creates something on a forge is preceded by a look for it.

mod address;
mod alike;
mod answer;
#[cfg(test)]
mod canned;
mod credentials;
mod ears;
mod etags;
mod examine;
mod find;
pub mod gitea;
pub mod github;
pub mod gitlab;
mod http;
mod limits;
pub mod oauth;
mod own;
mod payload;
mod route;
mod rows;
mod settings;
mod signature;

use std::borrow::Cow;
use std::path::PathBuf;

use async_trait::async_trait;
use secrecy::SecretString;

use crate::domain::{Actor, Check, Checks, Event, Issue, Permission, RepoRef, ReviewState};

pub use ears::Ears;
pub use examine::{Examination, HUMAN_REVIEW};
pub use own::OwnAccounts;
pub use settings::{Pause, Settings, Sleep};
pub use signature::{Unproved, VerifiedDelivery, hmac_sha256_hex};

/// The headers of a delivery: names in lower case, looked up by [`Headers::get`].
#[derive(Debug, Clone, Default)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The one value of a header; none when it is missing **or given twice** (a doubled signature header is nobody's).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str());
        match (values.next(), values.next()) {
            (Some(value), None) => Some(value),
            _ => None,
        }
    }
}

/// Why a delivery was not believed. The answer is 401 in every case and says no more than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotVerified {
    /// No signature came.
    #[error("the signature header is missing or empty: set the webhook's secret on the forge")]
    Missing,
    /// The signature fits none of the configured secrets.
    #[error("the signature fits none of the configured secrets")]
    Wrong,
    /// The signature is that of another time, or gives none.
    #[error("the signed time is missing or more than 5 minutes off: see that the clocks of the forge and of this machine are right")]
    Stale,
}

/// How one kind of forge speaks to us.
pub trait Inbound: Send + Sync {
    /// Checks the signature over the bytes as received, in constant time, against each configured secret.
    ///
    /// # Errors
    /// [`NotVerified`], without saying which secret or which byte.
    fn verify(&self, headers: &Headers, body: &[u8]) -> Result<VerifiedDelivery, NotVerified>;

    /// What a delivery says of itself, believed or not: for an administrator who asks about a recorded one. Nothing may be started by it.
    fn claims(&self, headers: &Headers, body: &[u8]) -> Unproved;

    /// Reads the JSON text of a delivery of this event. Unknown events, actions and fields are [`crate::domain::Verb::Ignore`].
    ///
    /// # Errors
    /// A sentence for the administrator when the body is not what this forge sends (no JSON, or a needed field of the wrong type).
    fn read(&self, event: &str, body: &[u8]) -> Result<Event, String>;

    /// Reads a verified delivery.
    ///
    /// # Errors
    /// As [`Inbound::read`].
    fn event(&self, delivery: &VerifiedDelivery) -> Result<Event, String> {
        self.read(delivery.event(), delivery.body())
    }
}

/// A repository as the forge answers it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Identity and present path.
    pub repo: RepoRef,
    /// The name of the default branch; none in an empty repository.
    pub default_branch: Option<String>,
    /// Read-only.
    pub archived: bool,
    /// False when the forge says that our account may not push.
    pub may_push: bool,
}

/// The latest act of putting the trigger label on an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSet {
    /// Who did it.
    pub by: Actor,
    /// The forge's own id of that act, the same however often we are told of it: one act, at most one run.
    pub episode: String,
}

/// A comment on an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// What [`Forge::edit_comment`] finds it by: the forge's id of it, on GitLab with what it is written on.
    pub id: String,
    /// The login of its author.
    pub author: String,
    /// The text.
    pub body: String,
}

/// A label that we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelSpec {
    /// Its name.
    pub name: &'static str,
    /// Six hexadecimal digits, without `#`.
    pub color: &'static str,
    /// One sentence, at most 100 characters.
    pub description: &'static str,
}

/// A pull request to open, always as a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDraft {
    /// Our branch, without `refs/heads/`.
    pub head: String,
    /// The branch it is for.
    pub base: String,
    /// The title without any draft prefix; the forge's own way of saying "draft" is added here.
    pub title: String,
    /// The text.
    pub body: String,
}

/// A pull request as the forge answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// The number shown to people.
    pub number: i64,
    /// Its page for people.
    pub url: String,
    /// Whether the forge itself says that it is a draft.
    pub draft: bool,
    /// The commit at its head, as the forge knows it.
    pub head_sha: String,
}

/// A pull request as it stands now, whoever opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestNow {
    /// The number shown to people.
    pub number: i64,
    /// Its page for people.
    pub url: String,
    /// Open, neither merged nor closed.
    pub open: bool,
    /// The title as it stands, with what makes it a draft where titles do.
    pub title: String,
    /// The branch with the change, without `refs/heads/`; none where it is one of another repository.
    pub head: Option<String>,
    /// The branch it is for, without `refs/heads/`.
    pub base: String,
    /// The commit at its head, as the forge knows it.
    pub head_sha: String,
    /// Merged, not only closed.
    pub merged: bool,
    /// The commit that it was merged as, where the forge says it.
    pub merged_as: Option<String>,
}

/// A review of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// The forge's id of it.
    pub id: String,
    /// The login of its author.
    pub author: String,
    /// What it came to; that of a bot is never more than a comment.
    pub state: ReviewState,
    /// Its text.
    pub body: String,
    /// The commit that was looked at; none where the forge does not say it.
    pub commit: Option<String>,
}

/// What a review says of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineComment {
    /// The file.
    pub path: String,
    /// The line as the forge counts it; none where it does not say.
    pub line: Option<i64>,
    /// The text.
    pub body: String,
}

/// How git gets in: passed by askpass only, never in an argument, a URL or a file.
#[derive(Debug, Clone)]
pub struct GitAccess {
    /// `https://host/owner/name.git`, without any credential.
    pub url: String,
    /// The user name that goes with the token.
    pub username: String,
    /// The token.
    pub token: SecretString,
    /// The certificates (PEM) that alone are trusted, instead of the machine's own.
    pub ca_file: Option<PathBuf>,
}

/// What a call to a forge can end in. The variant decides what we do, the text is for people.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// 404 or 410, or 301 to somewhere else: the thing is not there, or hidden from us.
    #[error("{what}: not found on the forge, or the token may not see it")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// 401 or 403 that is no rate limit: the token is wrong or too narrow.
    #[error("{what}: the forge refuses our token ({message}); check the token's validity and scopes")]
    Denied {
        /// What was asked for.
        what: String,
        /// The forge's own words, shortened.
        message: String,
    },
    /// 409 or 422: what was sent is not acceptable, and will not be the next time.
    #[error("{what}: the forge does not accept it ({message})")]
    Rejected {
        /// What was asked for.
        what: String,
        /// The forge's own words, shortened.
        message: String,
    },
    /// The forge is down, slow, or asks us to wait; a later try may work.
    #[error("{what}: the forge does not answer as it should ({message}); it is tried again later")]
    Unavailable {
        /// What was asked for.
        what: String,
        /// What happened.
        message: String,
        /// The time that the forge asked us to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The forge answered something that we can't read.
    #[error("{what}: the forge's answer can't be read ({message})")]
    Unreadable {
        /// What was asked for.
        what: String,
        /// What was wrong with it.
        message: String,
    },
}

impl ForgeError {
    /// The stable name of its kind.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not-found",
            Self::Denied { .. } => "denied",
            Self::Rejected { .. } => "rejected",
            Self::Unavailable { .. } => "unavailable",
            Self::Unreadable { .. } => "unreadable",
        }
    }
}

fn not_here(what: String) -> ForgeError {
    ForgeError::Rejected { what, message: "this kind of forge is not asked for it".to_owned() }
}

/// A status on a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// Whose word it is, like `frognano/human-review`.
    pub context: &'static str,
    /// False: it fails, and holds a merge back where the forge demands it.
    pub passed: bool,
    /// One sentence, at most 140 characters.
    pub description: Cow<'static, str>,
}

/// What we ask of a forge. One implementation serves one configured entry.
#[async_trait]
pub trait Forge: Send + Sync {
    /// What people on this forge call a pull request.
    fn pull_request_word(&self) -> &'static str {
        "pull request"
    }
    /// The longest body of a pull request, in characters.
    fn longest_body(&self) -> usize {
        65_536
    }
    /// The account that our token belongs to.
    async fn myself(&self) -> Result<Actor, ForgeError>;
    /// The repository now, at its present path: it may have been renamed.
    async fn repository(&self, repo: &RepoRef) -> Result<Repository, ForgeError>;
    /// The issue now.
    async fn issue(&self, repo: &RepoRef, number: i64) -> Result<Issue, ForgeError>;
    /// The latest time that this label was put on the issue; none when the forge knows of no such act.
    async fn label_set(&self, repo: &RepoRef, number: i64, label: &str) -> Result<Option<LabelSet>, ForgeError>;
    /// What this person may do in the repository. Unknown people and people we may not ask about have [`Permission::None`].
    async fn permission(&self, repo: &RepoRef, login: &str) -> Result<Permission, ForgeError>;
    /// Whether this person may read the repository, as far as the forge tells our account.
    async fn may_read(&self, repo: &RepoRef, login: &str) -> Result<bool, ForgeError> {
        Ok(self.permission(repo, login).await? >= Permission::Read)
    }
    /// All comments, oldest first.
    async fn comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>, ForgeError>;
    /// Writes a comment.
    async fn comment(&self, repo: &RepoRef, number: i64, body: &str) -> Result<Comment, ForgeError>;
    /// Replaces the text of a comment of ours.
    async fn edit_comment(&self, repo: &RepoRef, id: &str, body: &str) -> Result<(), ForgeError>;
    /// Puts a label on an issue or pull request, making the label first where it is missing.
    async fn add_label(&self, repo: &RepoRef, number: i64, label: LabelSpec) -> Result<(), ForgeError>;
    /// Takes a label off; it is no error when it is not there.
    async fn remove_label(&self, repo: &RepoRef, number: i64, label: &str) -> Result<(), ForgeError>;
    /// The open pull request from this branch of the repository itself.
    async fn find_pull_request(&self, repo: &RepoRef, head: &str) -> Result<Option<PullRequest>, ForgeError>;
    /// Opens a pull request as a draft. The answer's `draft` is what the forge says, and the caller must look at it.
    async fn open_draft(&self, repo: &RepoRef, draft: &NewDraft) -> Result<PullRequest, ForgeError>;
    /// Closes a pull request (used when the forge would not make it a draft).
    async fn close_pull_request(&self, repo: &RepoRef, number: i64) -> Result<(), ForgeError>;
    /// How git reads and writes the repository, now: the token may run out within the hour.
    async fn git_access(&self, repo: &RepoRef) -> Result<GitAccess, ForgeError>;
    /// Git was not let in with this. Whether asking for access once more may give another token that is.
    async fn git_refused(&self, _: &GitAccess) -> bool {
        false
    }
    /// Puts a label on a pull request as [`Forge::add_label`] does. Only GitLab numbers pull requests apart from issues.
    async fn label_pull_request(&self, repo: &RepoRef, number: i64, label: LabelSpec) -> Result<(), ForgeError> {
        self.add_label(repo, number, label).await
    }
    /// Takes a label off a pull request as [`Forge::remove_label`] does.
    async fn unlabel_pull_request(&self, repo: &RepoRef, number: i64, label: &str) -> Result<(), ForgeError> {
        self.remove_label(repo, number, label).await
    }
    /// Writes a comment on a pull request; [`Forge::edit_comment`] takes its id.
    async fn comment_on_pull_request(&self, repo: &RepoRef, number: i64, body: &str) -> Result<Comment, ForgeError> {
        self.comment(repo, number, body).await
    }
    /// All comments on a pull request, oldest first.
    async fn pull_request_comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>, ForgeError> {
        self.comments(repo, number).await
    }
    /// Whether this person is a member of `organization/team` now; false also for a team that is not there.
    async fn is_in_team(&self, team: &str, login: &str) -> Result<bool, ForgeError> {
        Err(not_here(format!("whether {login} is in {team}")))
    }
    /// Asks one person, or one `organization/team`, to review a pull request.
    async fn request_review(&self, repo: &RepoRef, number: i64, reviewer: &str) -> Result<(), ForgeError> {
        Err(not_here(format!("a review of {number} of {} by {reviewer}", repo.path)))
    }
    /// Puts a status on a commit, in place of an earlier one of the same context.
    async fn set_status(&self, repo: &RepoRef, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        Err(not_here(format!("the status {} on {commit} of {}", status.context, repo.path)))
    }
    /// The status that a commit has now under a context; none where it has none.
    async fn status(&self, repo: &RepoRef, commit: &str, context: &'static str) -> Result<Option<CommitStatus>, ForgeError> {
        Err(not_here(format!("the status {context} on {commit} of {}", repo.path)))
    }
    /// What an administrator should know: of the forge, of our token, and of these repositories. Changes nothing.
    async fn examine(&self, examination: &Examination<'_>) -> Vec<Check> {
        let mut checks = Checks::of("forge");
        checks.warn("examined", format!("forges of this kind are not examined yet ({} repositories)", examination.repositories.len()));
        checks.done()
    }
    /// Opens a pull request that is ready, for who has said otherwise that it needs a review. Only for forges that refuse drafts outright.
    async fn open_ready(&self, repo: &RepoRef, pull_request: &NewDraft) -> Result<PullRequest, ForgeError> {
        Err(not_here(format!("a ready pull request from {} of {}", pull_request.head, repo.path)))
    }
    /// The pull request now, open or not.
    async fn pull_request(&self, repo: &RepoRef, number: i64) -> Result<PullRequestNow, ForgeError>;
    /// Where git finds the head of a pull request, also when its branch is gone.
    fn pull_request_reference(&self, number: i64) -> String {
        format!("refs/pull/{number}/head")
    }
    /// Replaces the text of a pull request of ours.
    async fn edit_pull_request(&self, repo: &RepoRef, number: i64, title: Option<&str>, body: &str) -> Result<(), ForgeError>;
    /// All reviews of a pull request, oldest first.
    async fn reviews(&self, repo: &RepoRef, number: i64) -> Result<Vec<Review>, ForgeError>;
    /// What a review says of single lines.
    async fn line_comments(&self, repo: &RepoRef, number: i64, review: &str) -> Result<Vec<LineComment>, ForgeError>;
    /// The open issues with this label, newest first, as many as are read of a list.
    async fn labelled_issues(&self, repo: &RepoRef, label: &str) -> Result<Vec<Issue>, ForgeError>;
    /// The repositories that our token reaches, as many as are read of a list.
    async fn repositories(&self) -> Result<Vec<RepoRef>, ForgeError>;
    /// Asks once more for the deliveries since then that did not arrive; how many were asked for. Nothing where the forge can't be asked.
    async fn redeliver_failed(&self, since_ms: i64) -> Result<u64, ForgeError> {
        let _ = since_ms;
        Ok(0)
    }
}
