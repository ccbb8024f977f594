//! What we write on a forge: the status comment, the labels, the branch and the draft pull request.
//!
//! What must hold: every step looks before it creates, so that a repeat changes nothing; a pull request is a draft by the forge's own word,
//! or it is closed again; only a [`GuardedPatch`] is ever pushed.

pub mod codeowners;
pub mod endings;
pub mod inert;
pub mod report;
pub mod text;

use crate::config::DraftFallback;
use crate::domain::{ObjectId, RepoRef};
use crate::forge::{Comment, CommitStatus, Forge, ForgeError, LabelSpec, NewDraft, PullRequest};
use crate::git::{GitError, Mirror, Remote};
use crate::guard::GuardedPatch;

/// On every pull request of ours, before anybody is asked to look at it.
pub const NEEDS_REVIEW: LabelSpec = LabelSpec {
    name: "needs-human-review",
    color: "d93f0b",
    description: "A machine made this change; a person must review it before it is merged",
};

/// On an issue that has no fix of ours.
pub const NO_FIX: LabelSpec =
    LabelSpec { name: "frognano-no-fix", color: "cfd3d7", description: "frognano-bot looked at this issue and proposes nothing" };

/// On the head of a pull request that could be no draft: it fails, so that nobody takes silence for a review.
pub const HUMAN_REVIEW: CommitStatus = CommitStatus {
    context: "frognano/human-review",
    passed: false,
    description: "A machine made this change; a person must review it before it is merged",
};

/// What may go wrong while writing to a forge.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The forge's API.
    #[error(transparent)]
    Forge(#[from] ForgeError),
    /// The push.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The forge made a pull request that is no draft; it was closed again.
    #[error(
        "the forge did not make pull request {number} a draft, so it was closed again; see that drafts are supported and that \"WIP:\" is one of its draft prefixes"
    )]
    NotADraft {
        /// Its number.
        number: i64,
    },
}

/// Where a proposal goes.
pub struct Destination<'a> {
    /// The forge.
    pub forge: &'a dyn Forge,
    /// The repository.
    pub repo: &'a RepoRef,
    /// The branch that the pull request is for.
    pub base_branch: &'a str,
    /// Our branch.
    pub branch: &'a str,
    /// Who is asked to review.
    pub reviewers: &'a [String],
    /// What is done where the forge makes no drafts.
    pub fallback: DraftFallback,
}

/// The one status comment of a job on its issue: found again by its marker, edited as the work goes on.
pub struct StatusComment<'a> {
    forge: &'a dyn Forge,
    repo: &'a RepoRef,
    issue: i64,
    job: &'a str,
    known: Option<Comment>,
}

impl<'a> StatusComment<'a> {
    /// The comment of a job; nothing is read or written yet.
    #[must_use]
    pub const fn new(forge: &'a dyn Forge, repo: &'a RepoRef, issue: i64, job: &'a str) -> Self {
        Self { forge, repo, issue, job, known: None }
    }

    /// The job.
    #[must_use]
    pub const fn job(&self) -> &str {
        self.job
    }

    /// Writes or replaces the comment; a text that stands there already is left alone.
    ///
    /// # Errors
    /// When the forge does not take it.
    pub async fn write(&mut self, body: &str) -> Result<(), ForgeError> {
        if self.known.is_none() {
            self.known = self.find().await?;
        }
        match &mut self.known {
            Some(comment) if comment.body.trim() == body.trim() => {}
            Some(comment) => match self.forge.edit_comment(self.repo, &comment.id, body).await {
                Ok(()) => body.clone_into(&mut comment.body),
                // Somebody deleted it.
                Err(ForgeError::NotFound { .. }) => *comment = self.forge.comment(self.repo, self.issue, body).await?,
                Err(error) => return Err(error),
            },
            None => self.known = Some(self.forge.comment(self.repo, self.issue, body).await?),
        }
        Ok(())
    }

    async fn find(&self) -> Result<Option<Comment>, ForgeError> {
        let marker = text::marker(self.job);
        let myself = self.forge.myself().await?;
        let comments = self.forge.comments(self.repo, self.issue).await?;
        Ok(comments.into_iter().find(|comment| comment.author == myself.login && comment.body.contains(&marker)))
    }
}

/// Pushes the commit of a guarded patch to our branch and opens the draft pull request, labelled.
///
/// # Errors
/// When the forge or git refuses, or the pull request would not be a draft.
pub async fn propose(
    to: &Destination<'_>,
    patch: &GuardedPatch,
    mirror: &Mirror,
    commit: &ObjectId,
    title: &str,
    body: &str,
) -> Result<PullRequest, PublishError> {
    tracing::info!(branch = to.branch, files = patch.changed().len(), "pushing");
    let access = to.forge.git_access(to.repo).await?;
    let remote = Remote { url: access.url, credential: Some((access.username, access.token)), ca_file: access.ca_file };
    mirror.push(&remote, commit, to.branch).await?;
    let ready_is_fine = to.fallback == DraftFallback::ReviewStatus;
    if ready_is_fine {
        to.forge.set_status(to.repo, commit.as_str(), &HUMAN_REVIEW).await?;
    }
    let pull_request = match to.forge.find_pull_request(to.repo, to.branch).await? {
        Some(there) => there,
        None => open(to, title, body).await?,
    };
    if !pull_request.draft && !ready_is_fine {
        to.forge.close_pull_request(to.repo, pull_request.number).await?;
        return Err(PublishError::NotADraft { number: pull_request.number });
    }
    call_for_review(to, &pull_request).await?;
    Ok(pull_request)
}

/// Labels the pull request and asks the reviewers, one by one: one name that the forge does not take costs the others nothing. What the
/// forge refuses is said on the pull request, once; only a forge that does not answer is an error.
async fn call_for_review(to: &Destination<'_>, pull_request: &PullRequest) -> Result<(), ForgeError> {
    let number = pull_request.number;
    let mut refused = Vec::new();
    note(&mut refused, to.forge.label_pull_request(to.repo, number, NEEDS_REVIEW).await)?;
    for reviewer in to.reviewers {
        note(&mut refused, to.forge.request_review(to.repo, number, reviewer).await)?;
    }
    if refused.is_empty() {
        return Ok(());
    }
    note(&mut Vec::new(), say_once(to, number, &text::marker(to.branch), &text::not_done(to.branch, &refused)).await)
}

/// Writes a comment on the pull request unless one with this mark is there.
async fn say_once(to: &Destination<'_>, number: i64, mark: &str, body: &str) -> Result<(), ForgeError> {
    let there = to.forge.pull_request_comments(to.repo, number).await?;
    if there.iter().any(|comment| comment.body.contains(mark)) {
        return Ok(());
    }
    to.forge.comment_on_pull_request(to.repo, number, body).await.map(drop)
}

fn note(refused: &mut Vec<String>, done: Result<(), ForgeError>) -> Result<(), ForgeError> {
    match done {
        Err(error @ ForgeError::Unavailable { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "the pull request stands without it");
            refused.push(error.to_string());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

async fn open(to: &Destination<'_>, title: &str, body: &str) -> Result<PullRequest, PublishError> {
    let draft = NewDraft { head: to.branch.to_owned(), base: to.base_branch.to_owned(), title: title.to_owned(), body: body.to_owned() };
    match to.forge.open_draft(to.repo, &draft).await {
        Ok(pull_request) => Ok(pull_request),
        Err(ForgeError::Rejected { message, .. }) if makes_no_drafts(&message) && to.fallback == DraftFallback::ReviewStatus => {
            Ok(to.forge.open_ready(to.repo, &draft).await?)
        }
        Err(error @ (ForgeError::Rejected { .. } | ForgeError::Unavailable { .. })) => {
            to.forge.find_pull_request(to.repo, to.branch).await?.ok_or(PublishError::Forge(error))
        }
        Err(error) => Err(error.into()),
    }
}

/// GitHub's words for a private repository whose plan has no drafts.
fn makes_no_drafts(message: &str) -> bool {
    message.contains("Draft pull requests are not supported")
}
