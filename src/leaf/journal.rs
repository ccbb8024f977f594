//! A run as lines that are only ever appended: what a step adds is written once, however long the conversation has become.
//!
//! What must hold: a run is rebuilt from its lines exactly as it stood after its last whole line; a line that was cut by a crash is as if it had
//! never been; a last turn that was answered by nothing is asked again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::trajectory::{Recovery, Step, Trajectory, TurnRecord};
use crate::domain::ExitReason;

/// One line of a run's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The run as it begins.
    Begin(Box<Trajectory>),
    /// A finished step.
    Step(Box<Finished>),
    /// The run went on in a new sandbox.
    Recovered(Recovery),
    /// The run has ended.
    End(Ending),
}

/// What a step adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    step: Step,
    messages: Vec<Value>,
    turn: TurnRecord,
    context_tokens: u64,
    elapsed_sec: f64,
    final_message: String,
    /// What the caller keeps of the workspace with this step; null when the step changed nothing.
    pub workspace: Value,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    exit_reason: Option<ExitReason>,
    error: Option<String>,
    final_message: String,
    ending: String,
    n_steps: u64,
    elapsed_sec: f64,
}

/// A run rebuilt from its lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The run after its last whole line.
    pub trajectory: Trajectory,
    /// What was kept of the workspace, step by step.
    pub workspaces: Vec<Value>,
    /// It has ended: nothing is to be asked any more.
    pub has_ended: bool,
}

impl Line {
    /// The last step of a trajectory, whose conversation had `before` messages without it.
    #[must_use]
    pub fn step(trajectory: &Trajectory, before: usize, workspace: Value) -> Option<Self> {
        Some(Self::Step(Box::new(Finished {
            step: trajectory.steps.last()?.clone(),
            messages: trajectory.messages.get(before..)?.to_vec(),
            turn: trajectory.frognano.turns.last()?.clone(),
            context_tokens: trajectory.context_tokens,
            elapsed_sec: trajectory.elapsed_sec,
            final_message: trajectory.final_message.clone(),
            workspace,
        })))
    }

    /// The ending of a trajectory.
    #[must_use]
    pub fn end(trajectory: &Trajectory) -> Self {
        Self::End(Ending {
            exit_reason: trajectory.exit_reason,
            error: trajectory.error.clone(),
            final_message: trajectory.final_message.clone(),
            ending: trajectory.frognano.ending.clone(),
            n_steps: trajectory.n_steps,
            elapsed_sec: trajectory.elapsed_sec,
        })
    }
}

impl Kept {
    /// Rebuilds a run; none when not even its beginning is whole.
    #[must_use]
    pub fn read(journal: &[u8]) -> Option<Self> {
        let mut lines = journal.split(|byte| *byte == b'\n').map_while(|line| serde_json::from_slice::<Line>(line).ok());
        let Line::Begin(trajectory) = lines.next()? else { return None };
        let mut kept = Self { trajectory: *trajectory, workspaces: Vec::new(), has_ended: false };
        for line in lines {
            kept.add(line)?;
        }
        if !kept.has_ended {
            kept.forget_unanswered_turn();
        }
        Some(kept)
    }

    fn add(&mut self, line: Line) -> Option<()> {
        let trajectory = &mut self.trajectory;
        match line {
            Line::Begin(_) => return None,
            Line::Step(finished) => {
                let Finished { step, messages, turn, context_tokens, elapsed_sec, final_message, workspace } = *finished;
                if step.step != trajectory.steps.len() as u64 {
                    return None;
                }
                trajectory.steps.push(step);
                trajectory.n_steps = trajectory.steps.len() as u64;
                trajectory.messages.extend(messages);
                trajectory.frognano.turns.push(turn);
                trajectory.context_tokens = context_tokens;
                trajectory.elapsed_sec = elapsed_sec;
                trajectory.final_message = final_message;
                self.workspaces.push(workspace);
            }
            Line::Recovered(recovery) => trajectory.frognano.recoveries.push(recovery),
            Line::End(ending) => {
                trajectory.exit_reason = ending.exit_reason;
                trajectory.error = ending.error;
                trajectory.final_message = ending.final_message;
                trajectory.frognano.ending = ending.ending;
                trajectory.n_steps = ending.n_steps;
                trajectory.elapsed_sec = ending.elapsed_sec;
                trajectory.partial = false;
                self.has_ended = true;
            }
        }
        Some(())
    }

    /// A run that was lost between its last turn and its ending would else show the model its own last words as if they were a question.
    fn forget_unanswered_turn(&mut self) {
        let trajectory = &mut self.trajectory;
        if trajectory.messages.last().is_some_and(|message| message["role"] == "assistant") {
            trajectory.messages.pop();
            trajectory.steps.pop();
            trajectory.frognano.turns.pop();
            self.workspaces.pop();
            trajectory.n_steps = trajectory.steps.len() as u64;
            trajectory.final_message.clear();
            trajectory.context_tokens = trajectory.frognano.turns.last().map_or(0, |turn| turn.context_tokens);
        }
    }
}
