//! Jobs, their stages, and the ways in which they end.
//!
//! Every name here is the same in the database, the logs, the report and the comments, and never changes its meaning.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What was asked: one label on one issue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub String);

/// One leased execution of a job; part of the branch name, so that it survives into the forge.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// How far a job has come. The order is the order of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// In the queue.
    Queued,
    /// The issue, the label and the actor's rights are read from the forge.
    Admitting,
    /// The mirror is brought up to date and the base commit fixed.
    Cloning,
    /// The sandbox is started and must prove that it reaches nothing.
    Proving,
    /// The project's tests run on the base commit.
    TestsBefore,
    /// The agent works.
    Agent,
    /// The model's server does not answer; the queue waits for it.
    WaitingForModel,
    /// The project's tests run on the patched tree in a fresh sandbox.
    TestsAfter,
    /// Branch, pull request, label and comment are written to the forge.
    Publishing,
    /// It has an outcome.
    Done,
}

impl Stage {
    /// The stable name, as stored and shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Admitting => "admitting",
            Self::Cloning => "cloning",
            Self::Proving => "proving",
            Self::TestsBefore => "tests_before",
            Self::Agent => "agent",
            Self::WaitingForModel => "waiting_for_model",
            Self::TestsAfter => "tests_after",
            Self::Publishing => "publishing",
            Self::Done => "done",
        }
    }
}

/// Why the agent's loop ended (leaf.md, "The loop"): the reference's own names, and one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// A turn without a tool call: the agent says that it is done.
    Agent,
    /// The step budget is spent.
    MaxTurns,
    /// The total time is spent.
    MaxTime,
    /// The context is full.
    MaxContextLen,
    /// One turn reached its cap of generated tokens.
    MaxTokensPerTurn,
    /// The same calls gave the same answers too often in a row (ours, an option).
    Stuck,
    /// The model's server kept failing.
    LlmQueryError,
    /// A tool could not be run at all.
    ToolError,
    /// Somebody stopped the run.
    Cancelled,
    /// The machine or the sandbox failed.
    InfrastructureError,
    /// We failed.
    InternalError,
}

impl ExitReason {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Agent,
        Self::MaxTurns,
        Self::MaxTime,
        Self::MaxContextLen,
        Self::MaxTokensPerTurn,
        Self::Stuck,
        Self::LlmQueryError,
        Self::ToolError,
        Self::Cancelled,
        Self::InfrastructureError,
        Self::InternalError,
    ];

    /// The stable name, as in the trajectory.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::MaxTurns => "max_turns",
            Self::MaxTime => "max_time",
            Self::MaxContextLen => "max_context_len",
            Self::MaxTokensPerTurn => "max_tokens_per_turn",
            Self::Stuck => "stuck",
            Self::LlmQueryError => "llm_query_error",
            Self::ToolError => "tool_error",
            Self::Cancelled => "cancelled",
            Self::InfrastructureError => "infrastructure_error",
            Self::InternalError => "internal_error",
        }
    }
}

/// Why there is no patch although everything of ours worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoPatch {
    /// The agent ended its work with the tree as it was.
    NothingChanged,
    /// A budget ran out before anything was changed.
    BudgetSpent,
    /// The agent went round in circles and changed nothing.
    Stuck,
    /// The repository has no commit to start from.
    EmptyRepository,
}

/// Whose fault it is that a job was given up. A fault is never the model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The repository can't be found or read.
    RepositoryGone,
    /// The default branch does not exist.
    DefaultBranchMissing,
    /// The repository is larger than the configured limit.
    RepositoryTooLarge,
    /// The sandbox could reach something: the run was refused before the repository entered.
    NetworkOpen,
    /// The sandbox could not be started or died.
    SandboxFailed,
    /// The model's server kept failing for longer than the configured patience.
    ModelFailed,
    /// The model's server answers what no model server answers (HTML, not JSON): a wrong address or a proxy's page.
    ModelMisconfigured,
    /// The forge kept refusing or failing.
    ForgeFailed,
    /// No room on the disk.
    DiskFull,
    /// The worker was lost again and again on this job.
    WorkerLost,
    /// A fault of our own.
    Internal,
}

impl Fault {
    /// The stable name.
    #[must_use]
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// A draft pull request is open (or, without a forge, would be).
    Proposed {
        /// The page of the pull request; empty without a forge.
        url: String,
    },
    /// Nothing to propose.
    NoPatch {
        /// Why.
        reason: NoPatch,
        /// One sentence for people.
        detail: String,
    },
    /// A rule said no: either the label was not accepted, or the patch was not.
    Refused {
        /// The stable name of the first rule that said no.
        reason: String,
        /// One sentence for people.
        detail: String,
    },
    /// Somebody or something stopped it.
    Cancelled {
        /// Who or what.
        by: String,
    },
    /// Given up for a fault that is not the model's.
    Abandoned {
        /// Which.
        fault: Fault,
        /// What was wrong, where, and what to do.
        detail: String,
    },
}

impl Outcome {
    /// The stable name, as stored and shown.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Proposed { .. } => "proposed",
            Self::NoPatch { .. } => "no_patch",
            Self::Refused { .. } => "refused",
            Self::Cancelled { .. } => "cancelled",
            Self::Abandoned { .. } => "abandoned",
        }
    }

    /// The stable name of the reason, empty for a proposal.
    #[must_use]
    pub fn reason(&self) -> String {
        fn stable<T: Serialize>(value: &T) -> String {
            serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
        }
        match self {
            Self::Proposed { .. } => String::new(),
            Self::NoPatch { reason, .. } => stable(reason),
            Self::Refused { reason, .. } => reason.clone(),
            Self::Cancelled { by } => by.clone(),
            Self::Abandoned { fault, .. } => stable(fault),
        }
    }
}

/// Who is named in the commit and in the pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// The name of the commit's author: the bot.
    pub name: String,
    /// The mail address of the commit's author.
    pub email: String,
}
