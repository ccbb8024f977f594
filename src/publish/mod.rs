//! What we write on a forge: the status comment, the labels, the branch and the draft pull request.
//!
//! What must hold: every step looks before it creates, so that a repeat changes nothing; a pull request is a draft by the forge's own word,
//! or it is closed again; only a [`GuardedPatch`] is ever pushed.

pub mod endings;
pub mod inert;
pub mod report;
pub mod text;

use crate::domain::{ObjectId, RepoRef};
use crate::forge::{Comment, Forge, ForgeError, LabelSpec, NewDraft, PullRequest};
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
    let access = to.forge.git_access(to.repo);
    let remote = Remote { url: access.url, credential: Some((access.username, access.token)), ca_file: access.ca_file };
    mirror.push(&remote, commit, to.branch).await?;
    let pull_request = match to.forge.find_pull_request(to.repo, to.branch).await? {
        Some(there) => there,
        None => open(to, title, body).await?,
    };
    if !pull_request.draft {
        to.forge.close_pull_request(to.repo, pull_request.number).await?;
        return Err(PublishError::NotADraft { number: pull_request.number });
    }
    to.forge.label_pull_request(to.repo, pull_request.number, NEEDS_REVIEW).await?;
    Ok(pull_request)
}

async fn open(to: &Destination<'_>, title: &str, body: &str) -> Result<PullRequest, PublishError> {
    let draft = NewDraft { head: to.branch.to_owned(), base: to.base_branch.to_owned(), title: title.to_owned(), body: body.to_owned() };
    match to.forge.open_draft(to.repo, &draft).await {
        Ok(pull_request) => Ok(pull_request),
        Err(error @ (ForgeError::Rejected { .. } | ForgeError::Unavailable { .. })) => {
            to.forge.find_pull_request(to.repo, to.branch).await?.ok_or(PublishError::Forge(error))
        }
        Err(error) => Err(error.into()),
    }
}
