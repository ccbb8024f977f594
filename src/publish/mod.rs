//! What we write on a forge: the status comment, the labels, the branch and the draft pull request.
//!
//! What must hold: every step looks before it creates, so that a repeat changes nothing; a pull request is a draft by the forge's own word,
//! or it is closed again; only a [`GuardedPatch`] is ever pushed.

pub mod codeowners;
mod comment;
pub mod endings;
pub mod human_review;
pub mod inert;
pub mod replies;
pub mod report;
pub mod text;

use crate::config::DraftFallback;
use crate::domain::{ObjectId, RepoRef};
use crate::forge::{Forge, ForgeError, LabelSpec, NewDraft, PullRequest};
use crate::git::{GitError, Mirror, Remote};
use crate::guard::GuardedPatch;

pub use comment::{Allowance, Place, StatusComment, Unlimited};

/// On every pull request of ours, before anybody is asked to look at it.
pub const NEEDS_REVIEW: LabelSpec = LabelSpec {
    name: "needs-human-review",
    color: "d93f0b",
    description: "A machine made this change; a person must review it before it is merged",
};

/// On an issue that has no fix of ours.
pub const NO_FIX: LabelSpec =
    LabelSpec { name: "frognano-no-fix", color: "cfd3d7", description: "frognano-bot looked at this issue and proposes nothing" };

/// On a pull request of ours whose reviews asked for more rounds than are made.
pub const NEEDS_HUMAN: LabelSpec =
    LabelSpec { name: "needs-human", color: "b60205", description: "frognano-bot made all its rounds; a person must take over" };

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
    let mut refused = Vec::new();
    match demand_review(to, commit).await {
        Err(error) if ready_is_fine => return Err(error.into()),
        demanded => note(&mut refused, demanded)?,
    }
    let pull_request = match to.forge.find_pull_request(to.repo, to.branch).await? {
        Some(there) => there,
        None => open(to, title, body).await?,
    };
    if !pull_request.draft && !ready_is_fine {
        to.forge.close_pull_request(to.repo, pull_request.number).await?;
        return Err(PublishError::NotADraft { number: pull_request.number });
    }
    label(to, pull_request.number).await?;
    call_for_review(to, &pull_request, refused).await?;
    Ok(pull_request)
}

/// Labels the pull request, or closes it again where the forge does not take the label: none of ours stands without.
async fn label(to: &Destination<'_>, number: i64) -> Result<(), ForgeError> {
    match to.forge.label_pull_request(to.repo, number, NEEDS_REVIEW).await {
        Err(error @ ForgeError::Unavailable { .. }) => Err(error),
        Err(error) => {
            to.forge.close_pull_request(to.repo, number).await?;
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Lets the human review of a commit fail until somebody has made it; what turns it is another hand.
async fn demand_review(to: &Destination<'_>, commit: &ObjectId) -> Result<(), ForgeError> {
    match to.forge.status(to.repo, commit.as_str(), human_review::CONTEXT).await? {
        Some(there) if !there.passed => Ok(()),
        _ => to.forge.set_status(to.repo, commit.as_str(), &human_review::unreviewed(commit.as_str())).await,
    }
}

/// Asks the reviewers, one by one: one name that the forge does not take costs the others nothing. What the forge refuses is said on the
/// pull request, once; only a forge that does not answer is an error.
async fn call_for_review(to: &Destination<'_>, pull_request: &PullRequest, mut refused: Vec<String>) -> Result<(), ForgeError> {
    let number = pull_request.number;
    for reviewer in to.reviewers {
        note(&mut refused, to.forge.request_review(to.repo, number, reviewer).await)?;
    }
    if refused.is_empty() {
        return Ok(());
    }
    let place = Place { forge: to.forge, repo: to.repo, number, on_pull_request: true, allowance: &Unlimited };
    let said = place.say_once(&format!("not done {}", to.branch), &text::not_done(&refused)).await;
    note(&mut Vec::new(), said.map(drop))
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

/// How a further commit went onto the branch of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It is there, and the pull request says what it comes to.
    Done,
    /// Somebody else pushed to the branch meanwhile; nothing was done.
    Moved,
}

/// Adds a commit of a guarded patch to the branch of an open pull request: on top of `parent`, never over anybody's commits.
///
/// # Errors
/// When the forge or git refuses.
pub async fn add(
    to: &Destination<'_>,
    patch: &GuardedPatch,
    mirror: &Mirror,
    (parent, commit): (&ObjectId, &ObjectId),
    number: i64,
    body: &str,
) -> Result<Added, PublishError> {
    tracing::info!(branch = to.branch, files = patch.changed().len(), "pushing on top of what is there");
    let access = to.forge.git_access(to.repo).await?;
    let remote = Remote { url: access.url, credential: Some((access.username, access.token)), ca_file: access.ca_file };
    if !mirror.push_on(&remote, parent, commit, to.branch).await? {
        return Ok(Added::Moved);
    }
    note(&mut Vec::new(), demand_review(to, commit).await)?;
    to.forge.edit_pull_request(to.repo, number, body).await?;
    to.forge.label_pull_request(to.repo, number, NEEDS_REVIEW).await?;
    Ok(Added::Done)
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
