//! What we write on a forge: the status comment, the labels, the branch and the draft pull request.
//!
//! What must hold: every step looks before it creates, so that a repeat changes nothing; a pull request is a draft by the forge's own word,
//! or it is closed again; only a [`GuardedPatch`] is ever pushed.

mod access;
pub mod anchor;
mod back;
pub mod codeowners;
mod comment;
pub mod endings;
pub mod human_review;
pub mod inert;
pub mod replies;
pub mod report;
pub mod text;

use futures_util::future::BoxFuture;

use crate::config::DraftFallback;
use crate::domain::{ObjectId, RepoRef};
use crate::forge::{Forge, ForgeError, LabelSpec, NewDraft, PullRequest};
use crate::git::{GitError, Mirror};
use crate::guard::GuardedPatch;

pub use access::with_access;
pub use back::{take_back, take_back_reference};
pub use comment::{Allowance, Place, StatusComment, Unlimited};

/// On every pull request of ours, before anybody is asked to look at it.
pub const NEEDS_REVIEW: LabelSpec = LabelSpec {
    name: "needs-human-review",
    color: "d93f0b",
    description: "A machine made this change; a person must review it before it is merged",
};

/// On a pull request of ours that alters what existing tests expect.
pub const TESTS_CHANGED: LabelSpec = LabelSpec {
    name: "frognano-tests-changed",
    color: "fbca04",
    description: "It alters what existing tests expect; a person must decide whether that is right",
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
        "what the forge opened as {number} is no draft, so it was closed again; see that drafts are supported and that the forge's usual prefix of their titles (\"Draft:\", \"WIP:\") still makes one"
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
    /// Who asked for the change: asked to review it beside others only.
    pub asked_by: Option<&'a str>,
    /// What is done where the forge makes no drafts.
    pub fallback: DraftFallback,
    /// The change alters what existing tests expect.
    pub changes_tests: bool,
}

/// Pushes the commit of a guarded patch to our branch, on which the human review fails from then on. What of that the forge refused, for
/// [`present`] to say.
///
/// # Errors
/// When the forge or git refuses.
pub async fn push(to: &Destination<'_>, patch: &GuardedPatch, mirror: &Mirror, commit: &ObjectId) -> Result<Vec<String>, PublishError> {
    tracing::info!(branch = to.branch, files = patch.changed().len(), "pushing");
    with_access(to.forge, to.repo, &|remote| Box::pin(async move { mirror.push(&remote, commit, to.branch).await })).await?;
    let mut refused = Vec::new();
    match demand_review(to, commit).await {
        Err(error) if to.fallback == DraftFallback::ReviewStatus => return Err(error.into()),
        demanded => note(&mut refused, demanded)?,
    };
    Ok(refused)
}

/// Opens the draft pull request, or finds the one that is open. One that is `known` to have been a draft when this run opened it is people's to
/// make ready: it is left as it is.
///
/// # Errors
/// When the forge refuses, or the pull request would not be a draft.
pub async fn open(to: &Destination<'_>, known: Option<i64>, title: &str, body: &str) -> Result<PullRequest, PublishError> {
    let pull_request = match to.forge.find_pull_request(to.repo, to.branch).await? {
        Some(there) => there,
        None => open_new(to, title, body).await?,
    };
    let may_be_ready = to.fallback == DraftFallback::ReviewStatus || known == Some(pull_request.number);
    if !pull_request.draft && !may_be_ready {
        to.forge.close_pull_request(to.repo, pull_request.number).await?;
        return Err(PublishError::NotADraft { number: pull_request.number });
    }
    Ok(pull_request)
}

/// Labels the pull request, asks for its review, and says what the forge `refused` so far. Who was asked, as they are named.
///
/// # Errors
/// When the forge does not take the label, or does not answer.
pub async fn present(to: &Destination<'_>, pull_request: &PullRequest, refused: Vec<String>) -> Result<Vec<String>, PublishError> {
    label(to, pull_request.number).await?;
    Ok(call_for_review(to, pull_request, refused).await?)
}

/// Labels the pull request, or closes it again where the forge does not take the label: none of ours stands without.
async fn label(to: &Destination<'_>, number: i64) -> Result<(), ForgeError> {
    match put_labels(to, number).await {
        Err(error @ ForgeError::Unavailable { .. }) => Err(error),
        Err(error) => {
            to.forge.close_pull_request(to.repo, number).await?;
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

async fn put_labels(to: &Destination<'_>, number: i64) -> Result<(), ForgeError> {
    to.forge.label_pull_request(to.repo, number, NEEDS_REVIEW).await?;
    if to.changes_tests {
        to.forge.label_pull_request(to.repo, number, TESTS_CHANGED).await?;
    }
    Ok(())
}

/// Lets the human review of a commit fail until somebody has made it; what turns it is another hand.
async fn demand_review(to: &Destination<'_>, commit: &ObjectId) -> Result<(), ForgeError> {
    match to.forge.status(to.repo, commit.as_str(), human_review::CONTEXT).await? {
        Some(there) if !there.passed => Ok(()),
        _ => to.forge.set_status(to.repo, commit.as_str(), &human_review::unreviewed(commit.as_str())).await,
    }
}

/// Asks the reviewers, one by one: one name that the forge does not take costs the others nothing. Who asked for the change comes last, since
/// some forges keep only one, and not at all where nobody else was taken. What the forge refuses is said on the pull request, once; only a
/// forge that does not answer is an error. Who was asked.
async fn call_for_review(to: &Destination<'_>, pull_request: &PullRequest, mut refused: Vec<String>) -> Result<Vec<String>, ForgeError> {
    let number = pull_request.number;
    let asked_for_it = |name: &&String| to.asked_by.is_some_and(|by| by.eq_ignore_ascii_case(name));
    let (asker, others): (Vec<_>, Vec<_>) = to.reviewers.iter().partition(asked_for_it);
    let mut taken = Vec::new();
    for reviewer in others {
        if note(&mut refused, to.forge.request_review(to.repo, number, reviewer).await)? {
            taken.push(reviewer.clone());
        }
    }
    let somebody_else = !taken.is_empty();
    for reviewer in asker {
        if somebody_else {
            if note(&mut refused, to.forge.request_review(to.repo, number, reviewer).await)? {
                taken.push(reviewer.clone());
            }
        } else {
            refused.push(format!("{reviewer} asked for the change and is not asked to review it alone: somebody else should look at it"));
        }
    }
    if refused.is_empty() {
        return Ok(taken);
    }
    let place = Place { forge: to.forge, repo: to.repo, number, on_pull_request: true, allowance: &Unlimited };
    let said = place.say_once(&format!("not done {}", to.branch), &text::not_done(&refused)).await;
    note(&mut Vec::new(), said.map(drop))?;
    Ok(taken)
}

/// Whether it was done; what the forge refused is said later.
fn note(refused: &mut Vec<String>, done: Result<(), ForgeError>) -> Result<bool, ForgeError> {
    match done {
        Err(error @ ForgeError::Unavailable { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "the pull request stands without it");
            refused.push(error.to_string());
            Ok(false)
        }
        Ok(()) => Ok(true),
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

/// Adds a commit of a guarded patch to the branch of an open pull request: on top of `parent`, never over anybody's commits. What the pull
/// request says holds of all of it, so a label that an earlier round earned and this one does not is taken off.
///
/// # Errors
/// When the forge or git refuses.
pub async fn add(
    to: &Destination<'_>,
    patch: &GuardedPatch,
    mirror: &Mirror,
    (parent, commit): (&ObjectId, &ObjectId),
    number: i64,
    report: &report::Report,
    body: &str,
) -> Result<Added, PublishError> {
    tracing::info!(branch = to.branch, files = patch.changed().len(), "pushing on top of what is there");
    let push = |remote| -> BoxFuture<'_, _> { Box::pin(async move { mirror.push_on(&remote, parent, commit, to.branch).await }) };
    if !with_access(to.forge, to.repo, &push).await? {
        return Ok(Added::Moved);
    }
    note(&mut Vec::new(), demand_review(to, commit).await)?;
    let title = to.forge.pull_request(to.repo, number).await?.title;
    to.forge.edit_pull_request(to.repo, number, text::retitled(&title, report).as_deref(), body).await?;
    put_labels(to, number).await?;
    if !to.changes_tests {
        note(&mut Vec::new(), to.forge.unlabel_pull_request(to.repo, number, TESTS_CHANGED.name).await)?;
    }
    Ok(Added::Done)
}

async fn open_new(to: &Destination<'_>, title: &str, body: &str) -> Result<PullRequest, PublishError> {
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

#[cfg(test)]
mod tests {
    use super::{NEEDS_HUMAN, NEEDS_REVIEW, NO_FIX, TESTS_CHANGED};

    #[test]
    fn every_forge_takes_our_labels() {
        for label in [NEEDS_REVIEW, NO_FIX, NEEDS_HUMAN, TESTS_CHANGED] {
            assert!(label.description.len() <= 100 && label.name.len() <= 50, "GitHub takes no more: {}", label.name);
            assert!(label.color.len() == 6 && label.color.bytes().all(|digit| digit.is_ascii_hexdigit()), "{}", label.color);
        }
    }
}
