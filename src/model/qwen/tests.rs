//! The rules, clause by clause, each both ways.

mod fences;
mod judgements;
mod openings;
mod properties;
mod texts;
mod values;

use serde_json::{Value, json};

use super::{Kind, Reading, Tools, read};
use crate::model::{ToolCall, Turn, Usage};

const CAP: u64 = 100;

/// The five tools, as far as they matter here, and one of every type.
fn tools() -> Tools {
    let tool = |name: &str, properties: &[(&str, &str)], required: &[&str]| {
        let properties: serde_json::Map<_, _> = properties.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
        json!({"function": {"name": name, "parameters": {"properties": properties, "required": required}}})
    };
    Tools::of(&json!([
        tool("Read", &[("file_path", "string"), ("offset", "integer"), ("limit", "integer")], &["file_path"]),
        tool("Write", &[("file_path", "string"), ("content", "string")], &["file_path", "content"]),
        tool("Bash", &[("command", "string"), ("timeout", "number")], &["command"]),
        tool(
            "Edit",
            &[("file_path", "string"), ("old_string", "string"), ("new_string", "string"), ("replace_all", "boolean")],
            &["file_path"]
        ),
    ]))
}

fn turn(content: &str, reasoning: &str, finish_reason: &str) -> Turn {
    Turn {
        content: content.to_owned(),
        reasoning: reasoning.to_owned(),
        tool_calls: Vec::new(),
        finish_reason: finish_reason.to_owned(),
        usage: None,
        raw: Value::Null,
    }
}

/// What a text alone is read as.
fn of(content: &str) -> Reading {
    both(content, "")
}

fn both(content: &str, reasoning: &str) -> Reading {
    read(&turn(content, reasoning, "stop"), CAP, &tools())
}

/// The calls in one line: `Read {"file_path":"a"}; Bash {…}`.
fn calls(reading: &Reading) -> String {
    let calls = reading.tool_calls.iter().map(|call| format!("{} {}", call.name, Value::Object(call.arguments.clone())));
    calls.collect::<Vec<_>>().join("; ")
}

/// A text is these calls, and this is left of it.
fn assert_calls(text: &str, expected: &str, left: &str) {
    let reading = of(text);
    assert_eq!((calls(&reading).as_str(), reading.content.as_str()), (expected, left), "{text}");
    assert_eq!(reading.kind, Kind::Recovered, "{text}");
}

/// A text is an attempt of which this was not understood, and goes back whole.
fn assert_malformed(text: &str, why: &str) {
    let reading = of(text);
    assert_eq!((reading.kind, calls(&reading).as_str()), (Kind::Malformed, ""), "{text}");
    assert!(reading.not_understood.contains(why), "{text}: {} has no {why}", reading.not_understood);
    assert_eq!(reading.content, text);
}

/// A text is an answer, byte for byte.
fn assert_answer(text: &str) {
    let reading = of(text);
    assert_eq!((reading.kind, reading.content.as_str(), reading.not_understood.as_str()), (Kind::Final, text, ""), "{text}");
}

/// A call in the template's own form.
fn printed(name: &str, arguments: &[(&str, &str)]) -> String {
    let parameters: String = arguments.iter().map(|(key, value)| format!("<parameter={key}>\n{value}\n</parameter>\n")).collect();
    format!("<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>")
}

fn bash(command: &str) -> String {
    printed("Bash", &[("command", command)])
}
