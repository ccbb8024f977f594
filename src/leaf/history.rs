//! What goes back to the model (toolcalls.md, "History"): exactly the keys the template reads, and arguments that are always an object.

use serde_json::{Map, Value, json};

use super::reading::{Call, own_id};
use crate::model::Turn;

/// How a call's arguments are written in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arguments {
    /// For the model: always a JSON object as text; one text that is none makes a server refuse every later request.
    Valid,
    /// For the trajectory: what the model wrote.
    AsGiven,
}

/// The assistant's message with these calls.
pub(super) fn assistant(turn: &Turn, calls: &[Call], arguments: Arguments) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), json!(turn.content));
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.iter().map(|call| tool_call(call, arguments)).collect());
    }
    if !turn.reasoning.is_empty() {
        message.insert("reasoning_content".to_owned(), json!(turn.reasoning));
        if answered_under_reasoning(turn) {
            message.insert("reasoning".to_owned(), json!(turn.reasoning));
        }
    }
    Value::Object(message)
}

/// The result of a call.
pub(super) fn result(call: &Call, observation: &str) -> Value {
    json!({"role": "tool", "tool_call_id": call.id, "content": observation})
}

/// A result with a note of ours behind it.
pub(super) fn with_note(observation: &str, note: &str) -> String {
    if observation.is_empty() { note.to_owned() } else { format!("{observation}\n\n{note}") }
}

/// A note of ours after a turn without calls: a result without its call. Templates print it as any result, and servers ask for no more than
/// an id; a user message instead would take the thinking of all earlier turns out of the prompt.
pub(super) fn note(step: u64, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": format!("call_{step}_0"), "content": text})
}

/// What the model is told of a call that was not understood. It goes as a result, since a user message would cost it its earlier thinking.
pub(super) fn not_understood(step: u64, why: &str) -> Value {
    json!({"role": "tool", "tool_call_id": own_id(step, 0), "content": format!("ValueError: tool call not understood: {why}")})
}

fn tool_call(call: &Call, arguments: Arguments) -> Value {
    let arguments = match arguments {
        Arguments::Valid => call.valid_arguments(),
        Arguments::AsGiven => &call.arguments_text,
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

/// Some versions of vLLM write and read `reasoning` only; such a server gets both.
fn answered_under_reasoning(turn: &Turn) -> bool {
    turn.raw.get("reasoning").and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}
