//! A run as lines that are only ever appended: what a step adds is written once, however long the conversation has become.
//!
//! What must hold: a run is rebuilt from its lines exactly as it stood after its last whole line; a line that was cut by a crash is as if it had
//! never been; a last turn that was answered by nothing is asked again, and its step's second line counts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::trajectory::{Recovery, Step, Trajectory, TurnRecord};
use crate::domain::ExitReason;

/// One line of a run's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The run as it begins, and the commit that its workspace is kept against.
    Begin {
        /// The commit.
        base: String,
        /// The run.
        trajectory: Box<Trajectory>,
    },
    /// A finished step.
    Step(Box<Finished>),
    /// The run was stopped in order, to be gone on with later: the reason.
    Stopped(String),
    /// The run went on in a new sandbox.
    Recovered(Recovery),
    /// The run has ended.
    End(Ending),
}

/// What a step adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    step: Step,
    /// The length of the conversation without it.
    before: usize,
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
    /// The commit that the workspace is kept against.
    pub base: String,
    /// The run after its last whole line.
    pub trajectory: Trajectory,
    /// What was kept of the workspace, step by step.
    pub workspaces: Vec<Value>,
    /// It has ended: nothing is to be asked any more.
    pub has_ended: bool,
    /// Why it was stopped in order, when that is the last that is known of it.
    pub stopped: Option<String>,
    /// The bytes of the lines that it was rebuilt from; what follows them says nothing.
    pub bytes: usize,
}

impl Line {
    /// The last step of a trajectory, whose conversation had `before` messages without it.
    #[must_use]
    pub fn step(trajectory: &Trajectory, before: usize, workspace: Value) -> Option<Self> {
        Some(Self::Step(Box::new(Finished {
            step: trajectory.steps.last()?.clone(),
            before,
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
    /// Rebuilds a run; none when not even its beginning is whole, or a line does not follow from those before it.
    #[must_use]
    pub fn read(journal: &[u8]) -> Option<Self> {
        let whole = |line: &[u8]| Some((serde_json::from_slice::<Line>(line.strip_suffix(b"\n")?).ok()?, line.len()));
        let mut lines = journal.split_inclusive(|byte| *byte == b'\n').map_while(whole);
        let (Line::Begin { base, trajectory }, bytes) = lines.next()? else { return None };
        let mut kept = Self { base, trajectory: *trajectory, workspaces: Vec::new(), has_ended: false, stopped: None, bytes };
        for (line, bytes) in lines {
            kept.add(line)?;
            kept.bytes += bytes;
        }
        if !kept.has_ended {
            kept.forget_unanswered_turn();
        }
        let ours = &mut kept.trajectory.frognano;
        for reading in ours.turns.iter().filter_map(|turn| turn.reading.as_ref()) {
            ours.readings.add(reading);
        }
        Some(kept)
    }

    fn add(&mut self, line: Line) -> Option<()> {
        let trajectory = &mut self.trajectory;
        self.stopped = None;
        match line {
            Line::Begin { .. } => return None,
            Line::Stopped(why) => self.stopped = Some(why),
            Line::Step(finished) => {
                let Finished { step, before, messages, turn, context_tokens, elapsed_sec, final_message, workspace } = *finished;
                let number = usize::try_from(step.step).ok()?;
                if number > trajectory.steps.len() || before > trajectory.messages.len() {
                    return None;
                }
                trajectory.steps.truncate(number);
                trajectory.frognano.turns.truncate(number);
                self.workspaces.truncate(number);
                trajectory.messages.truncate(before);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Kept, Line};
    use crate::domain::ExitReason;
    use crate::leaf::{Observation, Recovery, Step, Task, Trajectory, TurnRecord};

    fn begun() -> Trajectory {
        Trajectory::begin(Task { trajectory_id: "t".to_owned(), instance_id: "i".to_owned(), seed: None, text: "task".to_owned() })
    }

    /// Adds a step with or without a call, as the loop does.
    fn take_step(trajectory: &mut Trajectory, text: &str, calls: bool) -> usize {
        let before = trajectory.messages.len();
        let step = trajectory.steps.len() as u64;
        trajectory.messages.push(json!({"role": "assistant", "content": text}));
        let mut observations = Vec::new();
        if calls {
            trajectory.messages.push(json!({"role": "tool", "content": "ok"}));
            observations.push(Observation { tool: "Bash".to_owned(), observation: "ok".to_owned() });
        }
        trajectory.steps.push(Step { step, assistant: json!({"content": text}), observations });
        trajectory.n_steps = step + 1;
        let turn = json!({"step": step, "max_completion_tokens": 1, "finish_reason": "", "usage": null, "context_tokens": 7, "model_ms": 0, "tools_ms": 0});
        trajectory.frognano.turns.push(serde_json::from_value::<TurnRecord>(turn).unwrap());
        trajectory.context_tokens = 7;
        before
    }

    fn text(lines: &[Line]) -> Vec<u8> {
        lines.iter().flat_map(|line| [serde_json::to_vec(line).unwrap(), b"\n".to_vec()].concat()).collect()
    }

    fn begin(trajectory: &Trajectory) -> Line {
        Line::Begin { base: "b".to_owned(), trajectory: Box::new(trajectory.clone()) }
    }

    #[test]
    fn a_run_is_rebuilt_as_it_stood_after_any_whole_line() {
        let mut trajectory = begun();
        let mut lines = vec![begin(&trajectory)];
        let mut stood = vec![trajectory.clone()];
        for number in 0..3 {
            let before = take_step(&mut trajectory, &format!("step {number}"), true);
            lines.push(Line::step(&trajectory, before, json!([[number]])).unwrap());
            stood.push(trajectory.clone());
        }
        let whole = text(&lines);
        for cut in 0..=whole.len() {
            let lines_there = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            let kept = Kept::read(&whole[..cut]);
            let expected = lines_there.checked_sub(1).map(|at| stood[at].clone());
            let bytes = whole[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            assert_eq!(kept.as_ref().map_or(0, |kept| kept.bytes), bytes, "cut at {cut}");
            assert_eq!(kept.map(|kept| kept.trajectory), expected, "cut at {cut}");
        }
        assert_eq!(Kept::read(&whole).unwrap().workspaces, [json!([[0]]), json!([[1]]), json!([[2]])]);
    }

    #[test]
    fn a_last_turn_without_an_answer_is_asked_again_and_its_second_line_counts() {
        let mut trajectory = begun();
        let mut lines = vec![begin(&trajectory)];
        let before = take_step(&mut trajectory, "one", true);
        lines.push(Line::step(&trajectory, before, json!(null)).unwrap());
        let one = trajectory.clone();
        let before = take_step(&mut trajectory, "done", false);
        lines.push(Line::step(&trajectory, before, json!(null)).unwrap());
        let kept = Kept::read(&text(&lines)).unwrap();
        assert_eq!((kept.trajectory.messages.len(), kept.trajectory.steps.len()), (one.messages.len(), 1));

        let mut again = one;
        let before = take_step(&mut again, "done, really", false);
        lines.push(Line::Recovered(Recovery { before_step: 1, why: "killed".to_owned(), told: String::new(), in_order: false }));
        lines.push(Line::step(&again, before, json!(null)).unwrap());
        lines.push(Line::Stopped("asked to".to_owned()));
        assert_eq!(Kept::read(&text(&lines)).unwrap().stopped.as_deref(), Some("asked to"));
        again.exit_reason = Some(ExitReason::Agent);
        again.partial = false;
        lines.push(Line::end(&again));
        let kept = Kept::read(&text(&lines)).unwrap();
        assert!(kept.has_ended && kept.stopped.is_none());
        assert_eq!((kept.trajectory.messages, kept.trajectory.steps), (again.messages, again.steps));
        assert_eq!((kept.trajectory.exit_reason, kept.trajectory.frognano.recoveries.len()), (Some(ExitReason::Agent), 1));
    }

    #[test]
    fn nothing_behind_a_damaged_line_counts() {
        let mut trajectory = begun();
        let first = text(&[begin(&trajectory)]);
        let before = take_step(&mut trajectory, "one", true);
        let second = text(&[Line::step(&trajectory, before, json!(null)).unwrap()]);
        let kept = Kept::read(&[&first[..], b"\0\0\0\n", &second].concat()).unwrap();
        assert_eq!((kept.trajectory.steps.len(), kept.bytes), (0, first.len()));
    }

    #[test]
    fn what_does_not_follow_is_not_believed() {
        let mut trajectory = begun();
        let first = begin(&trajectory);
        take_step(&mut trajectory, "one", true);
        let before = take_step(&mut trajectory, "two", true);
        let second = Line::step(&trajectory, before, json!(null)).unwrap();
        assert!(Kept::read(&text(&[first.clone(), second])).is_none());
        assert!(Kept::read(&text(&[first.clone(), first])).is_none());
        assert!(Kept::read(b"").is_none());
        assert!(Kept::read(b"{}\n").is_none());
    }
}
