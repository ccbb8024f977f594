//! The agent: one conversation with the model, turn by turn, through five tools (leaf.md).
//!
//! The words the model sees are a wire format kept to the letter. What must hold besides: the messages of a request begin with those of the
//! request before, unchanged; no user message follows the first; every call that is sent back has its result; a fault of the server or the
//! sandbox ends a run as an error that keeps the trajectory, never as an ending of the model's.

mod budgets;
mod context;
mod history;
mod journal;
mod lost;
mod prompt;
mod reading;
mod run;
mod schemas;
mod stuck;
mod telling;
mod tokenizer;
mod trajectory;

use std::time::Duration;

use async_trait::async_trait;

use crate::sandbox::{Sandbox, SandboxError};

pub use budgets::Budgets;
pub use journal::{Kept, Line};
pub use prompt::{SYSTEM, TaskText, task_text};
pub use run::{With, run};
pub use schemas::tools;
pub use tokenizer::Tokenizer;
pub use trajectory::{Observation, Ours, Progress, Readings, Recovery, Step, Task, Trajectory, TurnReading, TurnRecord};

/// The budgets of a run. The default is what was evaluated; other values are options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    /// So many turns.
    pub max_steps: u64,
    /// The whole run may take so long. A turn in flight is given up when it is over; a tool call is not.
    pub max_time: Duration,
    /// Generated tokens a turn.
    pub max_tokens_per_turn: u64,
    /// Tokens of the conversation, the generated ones included.
    pub max_context_tokens: u64,
    /// A turn that was cut at its cap is answered once by a note, where steps and context allow, instead of ending the run.
    pub retry_cut_turns: bool,
    /// So many steps in a row with the same calls and the same answers end the run; at least 2. None: never.
    pub stuck_after: Option<u64>,
    /// Counts what the server has not counted yet, instead of an estimate by bytes.
    pub tokenizer: Option<Tokenizer>,
}

impl Preset {
    /// The budgets in one line, for people; the evaluated one is named.
    #[must_use]
    pub fn in_words(&self) -> String {
        let as_evaluated = Self { tokenizer: self.tokenizer.clone(), ..Self::default() };
        let evaluated = if *self == as_evaluated { " (as evaluated)" } else { "" };
        format!(
            "{} steps, {} s, {} tokens a turn, {} tokens of context{evaluated}",
            self.max_steps,
            self.max_time.as_secs(),
            self.max_tokens_per_turn,
            self.max_context_tokens
        )
    }
}

impl Default for Preset {
    fn default() -> Self {
        Self {
            max_steps: 150,
            max_time: Duration::from_secs(10_800),
            max_tokens_per_turn: 8_192,
            max_context_tokens: 131_072,
            retry_cut_turns: false,
            stuck_after: None,
            tokenizer: None,
        }
    }
}

/// Is told how a run goes on.
#[async_trait]
pub trait Observer: Send {
    /// Called after every step, the last one included, with all that is to be kept: what is stored here can be handed to [`run`] again.
    /// [`Trajectory::progress`] has the figures for people.
    ///
    /// # Errors
    /// What the sandbox said when the work could not be taken out of it: the step then counts as not finished.
    async fn on_step(&mut self, trajectory: &Trajectory, sandbox: &mut dyn Sandbox) -> Result<(), SandboxError>;
}

/// Nobody is told.
#[async_trait]
impl Observer for () {
    async fn on_step(&mut self, _: &Trajectory, _: &mut dyn Sandbox) -> Result<(), SandboxError> {
        Ok(())
    }
}

/// Why a run could not be brought to an ending. Each keeps the trajectory up to the last finished step; it can be handed to [`run`] again.
#[derive(Debug, thiserror::Error)]
pub enum LeafError {
    /// The model's server does not answer: the queue waits.
    #[error("the model's server does not answer: {why}")]
    ModelDown {
        /// What was tried and what was answered.
        why: String,
        /// The run so far.
        trajectory: Box<Trajectory>,
    },
    /// What answers at the model's address is no model server.
    #[error("what answers at the model's address is no model server: {why}")]
    NotAModel {
        /// What was answered.
        why: String,
        /// The run so far.
        trajectory: Box<Trajectory>,
    },
    /// The sandbox failed under a tool call.
    #[error("a tool call failed in step {step}: {source}")]
    Sandbox {
        /// The step that was not finished.
        step: u64,
        /// What the sandbox said.
        source: SandboxError,
        /// The run so far; its `interrupted` has the step that was not finished.
        trajectory: Box<Trajectory>,
    },
}

impl LeafError {
    /// The run up to its last finished step.
    #[must_use]
    pub fn trajectory(&self) -> &Trajectory {
        match self {
            Self::ModelDown { trajectory, .. } | Self::NotAModel { trajectory, .. } | Self::Sandbox { trajectory, .. } => trajectory,
        }
    }

    /// The run up to its last finished step, to be kept or continued.
    #[must_use]
    pub fn into_trajectory(self) -> Trajectory {
        match self {
            Self::ModelDown { trajectory, .. } | Self::NotAModel { trajectory, .. } | Self::Sandbox { trajectory, .. } => *trajectory,
        }
    }
}
