//! The one place where a turn becomes calls or an ending.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::lost::lost_tokens;
use super::trajectory::TurnReading;
use crate::model::qwen::{self, Kind, Tools};
use crate::model::{ToolCall, Turn};

/// A turn with its texts as they were read, and what it asks for.
#[derive(Debug)]
pub(super) struct Reading {
    /// The turn; calls that were recovered are no longer in its texts.
    pub turn: Turn,
    /// What it asks for.
    pub asks: Asks,
    /// How it was read, for the record.
    pub record: TurnReading,
}

/// What a turn asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Asks {
    /// Cut by length: none of its calls is run. They are given for the record.
    Truncated(Vec<Call>),
    /// Calls to be run in this order.
    Calls(Vec<Call>),
    /// A call that was not understood, and why: the model is told, and goes on.
    Malformed(String),
    /// No call: the agent says that it is done.
    Final,
}

/// A call to be run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// The server's id, or `call_STEP_INDEX`.
    pub id: String,
    /// The tool's name, untouched where the server gave it: an unknown one is the tools' to answer.
    pub name: String,
    /// The arguments; none were given, or no JSON object, makes an empty object.
    pub arguments: Value,
    /// What the model wrote for them; of a recovered call, the same as JSON.
    pub arguments_text: String,
    is_object: bool,
}

impl Call {
    /// The arguments as text that is a JSON object: the model's own where it is one, with its keys in its order.
    pub fn valid_arguments(&self) -> &str {
        if self.is_object { &self.arguments_text } else { "{}" }
    }
}

/// Reads a turn of this step (from 0) that was given this cap on generated tokens.
pub(super) fn read_turn(turn: Turn, step: u64, cap: u64, tools: &Tools) -> Reading {
    let read = qwen::read(&turn, cap, tools);
    let record = record_of(&read, &turn);
    let native = |calls: &[ToolCall]| calls.iter().enumerate().map(|(index, call)| native_call(call, step, index)).collect();
    let recovered = |calls: Vec<qwen::Call>| calls.into_iter().enumerate().map(|(index, call)| recovered_call(call, step, index)).collect();
    let asks = match read.kind {
        Kind::Truncated => Asks::Truncated(native(&turn.tool_calls)),
        Kind::Native => Asks::Calls(native(&turn.tool_calls)),
        Kind::Recovered => Asks::Calls(recovered(read.tool_calls)),
        Kind::Malformed => Asks::Malformed(read.not_understood),
        Kind::Final => Asks::Final,
    };
    Reading { turn: Turn { content: read.content, reasoning: read.reasoning, ..turn }, asks, record }
}

/// The reading of a turn that the server could not read itself and kept: a malformed one without text.
pub(super) fn unread() -> Reading {
    let why = "the server could not parse it".to_owned();
    let turn = Turn {
        content: String::new(),
        reasoning: String::new(),
        tool_calls: Vec::new(),
        finish_reason: String::new(),
        usage: None,
        raw: json!({"role": "assistant"}),
    };
    let record = TurnReading { not_understood: why.clone(), ..TurnReading::of(Kind::Malformed) };
    Reading { turn, asks: Asks::Malformed(why), record }
}

fn native_call(call: &ToolCall, step: u64, index: usize) -> Call {
    let object = serde_json::from_str::<Map<String, Value>>(&call.arguments).ok();
    let id = if call.id.is_empty() { own_id(step, index) } else { call.id.clone() };
    let is_object = object.is_some();
    let arguments = Value::Object(object.unwrap_or_default());
    Call { id, name: call.name.clone(), arguments, arguments_text: call.arguments.clone(), is_object }
}

fn recovered_call(call: qwen::Call, step: u64, index: usize) -> Call {
    let arguments = Value::Object(call.arguments);
    let arguments_text = arguments.to_string();
    Call { id: own_id(step, index), name: call.name, arguments, arguments_text, is_object: true }
}

/// The id of a call that the server gave none; the same again in a replay.
pub(super) fn own_id(step: u64, index: usize) -> String {
    format!("call_{step}_{index}")
}

fn record_of(read: &qwen::Reading, turn: &Turn) -> TurnReading {
    let mut forms = BTreeMap::new();
    for call in &read.tool_calls {
        *forms.entry(call.form).or_insert(0) += 1;
    }
    let arguments: usize = turn.tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    TurnReading {
        channel: matches!(read.kind, Kind::Recovered | Kind::Malformed).then_some(read.channel),
        forms,
        drafts: read.drafts,
        mentions: read.mentions,
        not_understood: read.not_understood.clone(),
        text_bytes: (turn.content.len() + turn.reasoning.len() + arguments) as u64,
        lost_tokens: lost_tokens(turn),
        ..TurnReading::of(read.kind)
    }
}
