//! The record of a run: the reference's own fields, so that the ecosystem's readers work, and ours under one key.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::{Budgets, prompt, schemas};
use crate::config::ParseToolCalls;
use crate::domain::ExitReason;
use crate::model::qwen::{Channel, Form, Kind};
use crate::model::{ScriptLine, ScriptUsage, Usage};

const FORMAT: &str = "leaf-function-calling";

/// What a run is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The identity of this run of the agent.
    pub trajectory_id: String,
    /// What it is about, for example `forge/owner/name#7`.
    pub instance_id: String,
    /// The one user message.
    pub text: String,
    /// Sent with every request, where one is wanted.
    pub seed: Option<u64>,
}

/// The record of a run. Made by [`Trajectory::begin`], carried on by [`super::run`], kept by the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// Always `leaf-function-calling`.
    pub trajectory_format: String,
    /// The identity of this run of the agent.
    pub trajectory_id: String,
    /// What it is about.
    pub instance_id: String,
    /// The seed of every request.
    pub seed: Option<u64>,
    /// The conversation as the model is sent it.
    pub messages: Vec<Value>,
    /// The tools as the model is told of them.
    pub tools: Value,
    /// The finished steps.
    pub steps: Vec<Step>,
    /// How many turns were asked for.
    pub n_steps: u64,
    /// Why it ended; `running` while it has not.
    #[serde(serialize_with = "reason_or_running", deserialize_with = "reason_unless_running")]
    pub exit_reason: Option<ExitReason>,
    /// What failed, where something did.
    pub error: Option<String>,
    /// The content of the last turn when that ended the run.
    pub final_message: String,
    /// The tokens of the conversation.
    pub context_tokens: u64,
    /// How long the run took, waiting for a model that was down left out.
    pub elapsed_sec: f64,
    /// The patch; the caller puts it in.
    pub output_patch: String,
    /// True for a checkpoint.
    pub partial: bool,
    /// Ours.
    pub frognano: Ours,
}

/// One turn of the model and what its calls gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// From 0.
    pub step: u64,
    /// The assistant's message, arguments as the model wrote them.
    pub assistant: Value,
    /// The results in the order of the calls.
    pub observations: Vec<Observation>,
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The tool's name as the model wrote it; empty for a note of ours on a call that was not understood.
    pub tool: String,
    /// What the model is shown.
    pub observation: String,
}

/// What we record besides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ours {
    /// The model's name as configured.
    pub model: String,
    /// The version of this program.
    pub version: String,
    /// Who reads the calls out of the model's text.
    #[serde(default)]
    pub parse_tool_calls: ParseToolCalls,
    /// The budgets that held; none in the records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Budgets>,
    /// How the turns were read, counted.
    #[serde(default)]
    pub readings: Readings,
    /// One row a finished step.
    pub turns: Vec<TurnRecord>,
    /// One sentence on the ending, in the server's words where it refused.
    pub ending: String,
    /// The step that a failure or a cancellation kept from being finished: its message and the results that were there.
    pub interrupted: Option<Step>,
    /// Each time that the run went on in a new sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Recovery>,
}

/// A lost sandbox or worker, and where the run went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The step that was done next, from 0.
    pub before_step: u64,
    /// What was lost.
    pub why: String,
    /// What the model is told of it, with the first result after it; empty for nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub told: String,
    /// The run had been stopped in order: nothing failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
}

/// How the turns of a run were read, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readings {
    /// The turns of each kind.
    pub kinds: BTreeMap<Kind, u64>,
    /// The calls that we found, by channel and form.
    pub recovered: BTreeMap<Channel, BTreeMap<Form, u64>>,
    /// Calls in the thinking that were left alone.
    pub drafts: u64,
    /// Openings of calls that were quoted or part of a sentence.
    pub mentions: u64,
    /// The turns of which the server dropped text.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub turns_with_lost_text: u64,
}

/// How a turn was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReading {
    /// What the turn was.
    pub kind: Kind,
    /// Where recovered calls or the malformed one stood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// How many calls had each form.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub forms: BTreeMap<Form, u64>,
    /// Calls in the thinking that were left alone.
    pub drafts: u64,
    /// Openings of calls that were quoted or part of a sentence.
    pub mentions: u64,
    /// What of a malformed turn was not understood.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub not_understood: String,
    /// The bytes of all its texts as received.
    pub text_bytes: u64,
    /// So many of its generated tokens stand for no text that was received: the server's parser dropped it. 0 for a small gap, which says nothing.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub lost_tokens: u64,
}

/// The figures of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// From 0.
    pub step: u64,
    /// The cap on generated tokens that it was given.
    pub max_completion_tokens: u64,
    /// The server's word for its end; empty for none.
    pub finish_reason: String,
    /// The server's counts.
    pub usage: Option<Usage>,
    /// The tokens of the conversation after the step.
    pub context_tokens: u64,
    /// How it was read; none in the records of older versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reading: Option<TurnReading>,
    /// How long the model took, repetitions included, in milliseconds.
    pub model_ms: u64,
    /// How long the calls took, in milliseconds.
    pub tools_ms: u64,
    /// The turn was cut, its calls were answered by a note, and the model was asked again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
    /// The server's message where it holds something that the step's own does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
}

/// How far a run has come, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Steps done.
    pub steps: u64,
    /// The tools of the last one.
    pub tools: Vec<String>,
    /// The tokens of the conversation.
    pub context_tokens: u64,
}

/// The conversation before a step.
pub(super) struct Mark {
    messages: usize,
    context_tokens: u64,
    readings: Readings,
}

impl TurnReading {
    pub(super) const fn of(kind: Kind) -> Self {
        Self {
            kind,
            channel: None,
            forms: BTreeMap::new(),
            drafts: 0,
            mentions: 0,
            not_understood: String::new(),
            text_bytes: 0,
            lost_tokens: 0,
        }
    }
}

impl TurnRecord {
    /// The server kept the turn to itself because it could not read it.
    fn was_unread(&self) -> bool {
        let is_empty = |reading: &TurnReading| reading.kind == Kind::Malformed && reading.text_bytes == 0;
        self.finish_reason.is_empty() && self.reading.as_ref().is_some_and(is_empty)
    }
}

impl Readings {
    pub(super) fn add(&mut self, reading: &TurnReading) {
        *self.kinds.entry(reading.kind).or_insert(0) += 1;
        if let (Kind::Recovered, Some(channel)) = (reading.kind, reading.channel) {
            let forms = self.recovered.entry(channel).or_default();
            for (form, count) in &reading.forms {
                *forms.entry(*form).or_insert(0) += count;
            }
        }
        self.drafts += reading.drafts;
        self.mentions += reading.mentions;
        self.turns_with_lost_text += u64::from(reading.lost_tokens > 0);
    }
}

impl Trajectory {
    /// A run that has not begun: the system message and the task.
    #[must_use]
    pub fn begin(task: Task) -> Self {
        Self {
            trajectory_format: FORMAT.to_owned(),
            trajectory_id: task.trajectory_id,
            instance_id: task.instance_id,
            seed: task.seed,
            messages: vec![json!({"role": "system", "content": prompt::SYSTEM}), json!({"role": "user", "content": task.text})],
            tools: schemas::tools(),
            steps: Vec::new(),
            n_steps: 0,
            exit_reason: None,
            error: None,
            final_message: String::new(),
            context_tokens: 0,
            elapsed_sec: 0.0,
            output_patch: String::new(),
            partial: true,
            frognano: Ours { version: env!("CARGO_PKG_VERSION").to_owned(), ..Ours::default() },
        }
    }

    /// Where the conversation stands before a step.
    pub(super) fn mark(&self) -> Mark {
        Mark { messages: self.messages.len(), context_tokens: self.context_tokens, readings: self.frognano.readings.clone() }
    }

    /// A step that could not be kept is not finished: the conversation is as it was, and what there is of the step is kept aside.
    pub(super) fn take_back(&mut self, before: Mark) {
        self.messages.truncate(before.messages);
        self.context_tokens = before.context_tokens;
        self.frognano.readings = before.readings;
        self.frognano.interrupted = self.steps.pop();
        self.frognano.turns.pop();
        self.n_steps = self.steps.len() as u64;
        self.final_message.clear();
    }

    /// The figures for people.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let named = |step: &Step| step.observations.iter().map(|one| one.tool.clone()).filter(|tool| !tool.is_empty()).collect();
        let tools = self.steps.last().map(named);
        Progress { steps: self.steps.len() as u64, tools: tools.unwrap_or_default(), context_tokens: self.context_tokens }
    }

    /// How many of its turns the model's server answered with a message.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.frognano.turns.iter().filter(|turn| !turn.was_unread()).count()
    }

    /// The model's answers, turn by turn, as a server gave them: a script of them makes the same run again. A turn that no server could read is
    /// a failure again, twice since it is asked again; the turn whose call ended the run as `tool_error` is among them. Behind the last one the
    /// context is full, so that a run that ended without an answer of the model's (refused, out of time) ends there with its work kept.
    #[must_use]
    pub fn answers(&self) -> Vec<ScriptLine> {
        let turns = self.steps.iter().zip(&self.frognano.turns);
        let answers = turns.flat_map(|(step, turn)| {
            if turn.was_unread() {
                let unread = refusal(500, "Failed to parse input at pos 0", "server_error");
                return vec![unread.clone(), unread];
            }
            vec![ScriptLine::Message {
                message: turn.raw.clone().unwrap_or_else(|| step.assistant.clone()),
                finish_reason: Some(json!(turn.finish_reason)).filter(|_| !turn.finish_reason.is_empty()),
                usage: turn.usage.map_or(ScriptUsage::Absent, |usage| ScriptUsage::Given(json!(usage))),
            }]
        });
        let last = self.interrupted_by_a_tool().map(|step| ScriptLine::Message {
            message: step.assistant.clone(),
            finish_reason: Some(json!("tool_calls")),
            usage: ScriptUsage::Absent,
        });
        answers.chain(last).chain([refusal(400, "the kept answers end here", "exceed_context_size_error")]).collect()
    }

    fn interrupted_by_a_tool(&self) -> Option<&Step> {
        self.frognano.interrupted.as_ref().filter(|_| self.exit_reason == Some(ExitReason::ToolError))
    }

    /// As JSON with the reference's keys in its order.
    ///
    /// # Errors
    /// Only when a number in it is none.
    pub fn to_json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

fn refusal(status: u16, message: &str, kind: &str) -> ScriptLine {
    let body = json!({"error": {"code": status, "message": message, "type": kind}});
    ScriptLine::Error { status, retry_after: None, body }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn reason_or_running<S: Serializer>(reason: &Option<ExitReason>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.map_or("running", ExitReason::name))
}

fn reason_unless_running<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ExitReason>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name == "running" { Ok(None) } else { serde_json::from_value(Value::String(name)).map(Some).map_err(serde::de::Error::custom) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_no_server_could_read_and_a_run_without_a_last_answer_are_repeated_as_they_were() {
        let mut trajectory =
            Trajectory::begin(Task { trajectory_id: "t".to_owned(), instance_id: "i".to_owned(), seed: None, text: "task".to_owned() });
        for reason in ["", "tool_calls"] {
            trajectory.steps.push(Step { step: 0, assistant: json!({"role": "assistant", "content": ""}), observations: Vec::new() });
            let turn = json!({
                "step": 0, "max_completion_tokens": 1, "finish_reason": reason, "usage": null, "context_tokens": 7, "model_ms": 0,
                "tools_ms": 0, "reading": {"kind": "malformed", "drafts": 0, "mentions": 0, "text_bytes": 0}
            });
            trajectory.frognano.turns.push(serde_json::from_value(turn).unwrap());
        }
        let status = |line: &ScriptLine| if let ScriptLine::Error { status, .. } = line { *status } else { 200 };
        assert_eq!(trajectory.answers().iter().map(status).collect::<Vec<_>>(), [500, 500, 200, 400]);
        assert_eq!(trajectory.answered(), 1);

        let interrupted = json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]});
        trajectory.frognano.interrupted = Some(Step { step: 2, assistant: interrupted.clone(), observations: Vec::new() });
        assert_eq!(trajectory.answers().len(), 4, "a turn that was cancelled is asked again");
        trajectory.exit_reason = Some(ExitReason::ToolError);
        let answers = trajectory.answers();
        assert_eq!(answers.iter().map(status).collect::<Vec<_>>(), [500, 500, 200, 200, 400]);
        assert!(matches!(&answers[3], ScriptLine::Message { message, .. } if *message == interrupted));
    }
}
