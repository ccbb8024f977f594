//! The budgets of a run as its record has them, so that a replay has the same.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Preset;

/// The budgets that a run had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budgets {
    /// Turns.
    pub max_steps: u64,
    /// Seconds for the whole run.
    pub max_seconds: u64,
    /// Generated tokens a turn.
    pub max_tokens_per_turn: u64,
    /// Tokens of the conversation.
    pub max_context: u64,
    /// A turn that was cut at its cap was answered once by a note.
    pub retry_cut_turns: bool,
    /// So many steps in a row with the same calls and the same answers ended the run; none: never.
    pub stuck_after: Option<u64>,
}

impl Budgets {
    pub(super) const fn of(preset: &Preset) -> Self {
        Self {
            max_steps: preset.max_steps,
            max_seconds: preset.max_time.as_secs(),
            max_tokens_per_turn: preset.max_tokens_per_turn,
            max_context: preset.max_context_tokens,
            retry_cut_turns: preset.retry_cut_turns,
            stuck_after: preset.stuck_after,
        }
    }

    /// The preset with these budgets instead of its own.
    #[must_use]
    pub fn hold_in(&self, preset: Preset) -> Preset {
        Preset {
            max_steps: self.max_steps,
            max_time: Duration::from_secs(self.max_seconds),
            max_tokens_per_turn: self.max_tokens_per_turn,
            max_context_tokens: self.max_context,
            retry_cut_turns: self.retry_cut_turns,
            stuck_after: self.stuck_after,
            ..preset
        }
    }
}
