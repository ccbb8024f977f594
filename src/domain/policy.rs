//! Who may start a run, and on what.

use serde::{Deserialize, Serialize};

/// What a person may do in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// No access, or not known to the forge.
    None,
    /// May read.
    Read,
    /// May push.
    Write,
    /// May administer.
    Admin,
}

/// Why a label was not accepted. Each is answered once on the issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The issue is closed.
    IssueClosed,
    /// It is a pull request.
    IsPullRequest,
    /// The issue is confidential.
    Confidential,
    /// The label was set by somebody without write access.
    NoWriteAccess,
    /// The label was set by somebody who is not on the administrator's list.
    NotAllowed,
    /// The label was set by a bot.
    ActorIsBot,
    /// The repository is archived.
    RepositoryArchived,
    /// The forge does not say who set the label, so nobody's rights can be checked.
    ActorUnknown,
    /// Deliveries from before and after the label show different words: those that its setter read are not known.
    TextDisputed,
}

impl Refusal {
    /// Every refusal.
    pub const ALL: [Self; 9] = [
        Self::IssueClosed,
        Self::IsPullRequest,
        Self::Confidential,
        Self::NoWriteAccess,
        Self::NotAllowed,
        Self::ActorIsBot,
        Self::RepositoryArchived,
        Self::ActorUnknown,
        Self::TextDisputed,
    ];

    /// The stable name, as stored and shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IssueClosed => "issue_closed",
            Self::IsPullRequest => "is_pull_request",
            Self::Confidential => "confidential",
            Self::NoWriteAccess => "no_write_access",
            Self::NotAllowed => "not_allowed",
            Self::ActorIsBot => "actor_is_bot",
            Self::RepositoryArchived => "repository_archived",
            Self::ActorUnknown => "actor_unknown",
            Self::TextDisputed => "text_disputed",
        }
    }
}
