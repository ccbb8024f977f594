//! The one place where a turn becomes calls or an ending.

use serde_json::{Map, Value};

use crate::model::Turn;

/// What a turn asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Reading {
    /// Cut by length: none of its calls is run. They are given for the record.
    Truncated(Vec<Call>),
    /// Calls to be run in this order.
    Calls(Vec<Call>),
    /// No call: the agent says that it is done.
    Final,
}

/// A call to be run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// The server's id, or `call_STEP_INDEX`.
    pub id: String,
    /// The tool's name, untouched: an unknown one is the tools' to answer.
    pub name: String,
    /// The arguments; none were given, or no JSON object, makes an empty object.
    pub arguments: Value,
    /// What the model wrote for them.
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
pub(super) fn read_turn(turn: &Turn, step: u64, cap: u64) -> Reading {
    let calls: Vec<Call> = turn.tool_calls.iter().enumerate().map(|(index, call)| native_call(call, step, index)).collect();
    if is_truncated(turn, cap) {
        Reading::Truncated(calls)
    } else if calls.is_empty() {
        Reading::Final
    } else {
        Reading::Calls(calls)
    }
}

fn native_call(call: &crate::model::ToolCall, step: u64, index: usize) -> Call {
    let object = serde_json::from_str::<Map<String, Value>>(&call.arguments).ok();
    let id = if call.id.is_empty() { format!("call_{step}_{index}") } else { call.id.clone() };
    let is_object = object.is_some();
    let arguments = Value::Object(object.unwrap_or_default());
    Call { id, name: call.name.clone(), arguments, arguments_text: call.arguments.clone(), is_object }
}

/// By the server's word in any case, or, where a server says otherwise, by its count having reached the cap.
fn is_truncated(turn: &Turn, cap: u64) -> bool {
    let said = ["length", "max_tokens", "max_new_tokens"].iter().any(|reason| turn.finish_reason.eq_ignore_ascii_case(reason));
    said || turn.usage.is_some_and(|usage| usage.completion_tokens >= cap)
}
