//! The endings of the agent's loop in words for people. Each has its own: a budget that was spent is no circle, and neither is a fault.

use crate::domain::ExitReason;

/// What follows "The agent made N steps" for the ending of this stable name; empty for a name that is none.
pub(super) fn after_steps(name: &str) -> &'static str {
    ExitReason::ALL.into_iter().find(|reason| reason.name() == name).map_or("", |reason| match reason {
        ExitReason::Agent => " and said that it was done",
        ExitReason::MaxTurns => ", all that it is given",
        ExitReason::MaxTime => " until its time was over",
        ExitReason::MaxContextLen => " until the model's context was full",
        ExitReason::MaxTokensPerTurn => "; the last one was cut because it was too long",
        ExitReason::Stuck => "; the last ones were the same again and again",
        ExitReason::LlmQueryError => "; then the model's server refused its request",
        ExitReason::ToolError => "; then a tool answered more than the sandbox lets through",
        ExitReason::Cancelled => " until it was stopped",
        ExitReason::InfrastructureError => "; then the machine or the sandbox failed",
        ExitReason::InternalError => "; then frognano-bot itself failed",
    })
}

/// Why there is no patch when this ending came with the tree as it was.
#[must_use]
pub const fn without_a_change(reason: ExitReason) -> &'static str {
    match reason {
        ExitReason::Agent => "the agent ended its work without changing anything",
        ExitReason::MaxTurns => "the agent used all its steps and had changed nothing",
        ExitReason::MaxTime => "the agent's time was over before it had changed anything",
        ExitReason::MaxContextLen => "the model's context was full before anything was changed",
        ExitReason::MaxTokensPerTurn => "a turn of the model was cut because it was too long, and nothing had been changed before it",
        ExitReason::Stuck => "the agent went round in circles, the same calls with the same answers, and changed nothing",
        ExitReason::LlmQueryError => "the model's server refused a request before anything was changed",
        ExitReason::ToolError => "a tool answered more than the sandbox lets through before anything was changed",
        ExitReason::Cancelled => "the agent was stopped before it had changed anything",
        ExitReason::InfrastructureError => "the machine or the sandbox failed before anything was changed",
        ExitReason::InternalError => "frognano-bot itself failed before anything was changed",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{after_steps, without_a_change};
    use crate::domain::ExitReason;

    #[test]
    fn each_ending_has_words_of_its_own_and_none_is_told_by_its_name() {
        let words = ExitReason::ALL.map(|reason| [after_steps(reason.name()), without_a_change(reason)]);
        for [after, without] in words {
            assert!(after.len() > 10 && without.len() > 10 && !after.contains('_') && !without.contains('_'), "{after} {without}");
        }
        assert_eq!(words.into_iter().flatten().collect::<BTreeSet<_>>().len(), 2 * ExitReason::ALL.len());
        assert!(!without_a_change(ExitReason::Stuck).contains("budget"));
        assert_eq!(after_steps("unknown"), "");
    }
}
