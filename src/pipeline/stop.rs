//! The reasons for which a run does not reach its end: an outcome of its own, or something for which the job is put back.

use std::path::Path;

use crate::domain::{Fault, NoPatch, Outcome};
use crate::forge::ForgeError;
use crate::git::GitError;
use crate::model::ModelError;
use crate::publish::PublishError;
use crate::sandbox::SandboxError;
use crate::store::StoreError;

/// Why a run stops before a proposal.
#[derive(Debug)]
pub enum Stop {
    /// The job has its outcome.
    Outcome(Outcome),
    /// There is nothing to answer: the label is not there, or an earlier job answered it. The reason's stable name.
    Quiet(&'static str),
    /// The issue is hidden from most people: not a word is written, whatever was written before.
    Hidden,
    /// The model's server does not answer: the queue waits for it.
    ModelDown(String),
    /// The forge or git does not answer: the job is tried again later, with all that is finished.
    Later {
        /// What was tried and what was answered.
        why: String,
        /// The wait that the forge asked for, in milliseconds.
        after_ms: Option<u64>,
    },
    /// The sandbox or the machine failed in a way that another try may not: it is tried again, so often and no more.
    TryAgain(Fault, String),
    /// It may start, but nobody has time for it yet.
    InQueue,
    /// Another worker has the job.
    LeaseLost,
    /// The service is being stopped: the job is put back.
    Shutdown,
}

impl Stop {
    /// The stable name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Outcome(_) => "outcome",
            Self::Quiet(_) => "quiet",
            Self::Hidden => "hidden",
            Self::ModelDown(_) => "model_down",
            Self::Later { .. } => "later",
            Self::TryAgain(..) => "try_again",
            Self::InQueue => "in_queue",
            Self::LeaseLost => "lease_lost",
            Self::Shutdown => "shutdown",
        }
    }

    pub(crate) fn later(why: impl Into<String>) -> Self {
        Self::Later { why: why.into(), after_ms: None }
    }

    pub(crate) fn abandoned(fault: Fault, detail: impl Into<String>) -> Self {
        Self::Outcome(Outcome::Abandoned { fault, detail: detail.into() })
    }

    pub(crate) fn no_patch(reason: NoPatch, detail: impl Into<String>) -> Self {
        Self::Outcome(Outcome::NoPatch { reason, detail: detail.into() })
    }

    pub(crate) fn refused(reason: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Outcome(Outcome::Refused { reason: reason.into(), detail: detail.into() })
    }

    pub(crate) fn disk(place: &Path, error: &std::io::Error) -> Self {
        let text = format!("{}: {error}", place.display());
        if error.kind() == std::io::ErrorKind::StorageFull {
            Self::abandoned(Fault::DiskFull, text)
        } else {
            Self::TryAgain(Fault::Internal, text)
        }
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LeaseLost(_) => Self::LeaseLost,
            StoreError::EpisodeKnown => Self::Quiet("already_answered"),
            StoreError::DiskFull(_) => Self::abandoned(Fault::DiskFull, error.to_string()),
            StoreError::Failed(_) | StoreError::Unreadable { .. } => Self::TryAgain(Fault::Internal, error.to_string()),
        }
    }
}

impl From<GitError> for Stop {
    fn from(error: GitError) -> Self {
        let text = error.to_string();
        match error {
            GitError::RepositoryGone(_) => Self::abandoned(Fault::RepositoryGone, text),
            GitError::Empty => Self::no_patch(NoPatch::EmptyRepository, text),
            GitError::BranchMissing(_) => Self::abandoned(Fault::DefaultBranchMissing, text),
            GitError::TooLarge { .. } => Self::abandoned(Fault::RepositoryTooLarge, text),
            GitError::Unavailable(_) => Self::later(text),
            GitError::PushRefused(_) => Self::abandoned(Fault::ForgeFailed, text),
            GitError::DiskFull(_) => Self::abandoned(Fault::DiskFull, text),
            GitError::Unacceptable(_) => Self::refused("odd-name", text),
            GitError::Failed(_) => Self::TryAgain(Fault::Internal, text),
        }
    }
}

impl From<ForgeError> for Stop {
    fn from(error: ForgeError) -> Self {
        let text = error.to_string();
        match error {
            ForgeError::NotFound { .. } => Self::abandoned(Fault::RepositoryGone, text),
            ForgeError::Unavailable { retry_after_ms, .. } => Self::Later { why: text, after_ms: retry_after_ms },
            ForgeError::Denied { .. } | ForgeError::Rejected { .. } | ForgeError::Unreadable { .. } => {
                Self::abandoned(Fault::ForgeFailed, text)
            }
        }
    }
}

impl From<PublishError> for Stop {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Forge(error) => error.into(),
            PublishError::Git(error) => error.into(),
            PublishError::NotADraft { .. } => Self::abandoned(Fault::ForgeFailed, error.to_string()),
        }
    }
}

impl From<SandboxError> for Stop {
    fn from(error: SandboxError) -> Self {
        let text = error.to_string();
        match error {
            SandboxError::NetworkOpen(_) => Self::abandoned(Fault::NetworkOpen, text),
            SandboxError::NotStarted(_) | SandboxError::Lost(_) => Self::TryAgain(Fault::SandboxFailed, text),
            SandboxError::NoPlaceYet(_) => Self::later(text),
            SandboxError::NoRoom(_) | SandboxError::Unfit(_) => Self::abandoned(Fault::SandboxFailed, text),
            SandboxError::TooLarge { .. } => Self::refused("size", text),
        }
    }
}

impl From<ModelError> for Stop {
    fn from(error: ModelError) -> Self {
        let text = error.to_string();
        match error {
            ModelError::Down(_) => Self::ModelDown(text),
            ModelError::NotAModel(_) => Self::abandoned(Fault::ModelMisconfigured, text),
            ModelError::Refused(_) | ModelError::ContextFull(_) | ModelError::FormatSlip => Self::abandoned(Fault::ModelFailed, text),
        }
    }
}
