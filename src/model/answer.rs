//! Reading a completion: tolerant of everything that servers are known to leave out or spell differently.

use serde_json::Value;

use super::{ToolCall, Turn, Usage};

/// Reads a turn from the body of a successful answer.
///
/// # Errors
/// What is missing, when the body is no completion at all.
pub(super) fn read_turn(body: &[u8]) -> Result<Turn, String> {
    let json: Value = serde_json::from_slice(body).map_err(|_| "the answer is no JSON".to_owned())?;
    let choice = json.pointer("/choices/0").ok_or("the answer is JSON without choices")?;
    let message = choice.get("message").filter(|message| message.is_object()).ok_or("the answer's first choice has no message")?;
    let reasoning = Some(text_of(message.get("reasoning_content"))).filter(|text| !text.is_empty());
    Ok(Turn {
        content: text_of(message.get("content")),
        reasoning: reasoning.unwrap_or_else(|| text_of(message.get("reasoning"))),
        tool_calls: message
            .get("tool_calls")
            .and_then(Value::as_array)
            .map(|calls| calls.iter().map(tool_call).collect())
            .unwrap_or_default(),
        finish_reason: finish_reason(choice.get("finish_reason")),
        usage: json.get("usage").and_then(usage),
        raw: message.clone(),
    })
}

/// A text, or a list of text parts; anything else is no text.
fn text_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str())).collect(),
        _ => String::new(),
    }
}

fn tool_call(call: &Value) -> ToolCall {
    let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let arguments = match call.pointer("/function/arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    ToolCall { id: text("/id"), name: text("/function/name"), arguments }
}

/// The word itself, or the `type` of older servers' objects.
fn finish_reason(value: Option<&Value>) -> String {
    value.and_then(|reason| reason.as_str().or_else(|| reason.get("type")?.as_str())).unwrap_or_default().to_owned()
}

/// Counts that are there; what can be told from the others is filled in. None when there is none.
fn usage(value: &Value) -> Option<Usage> {
    let count = |key: &str| value.get(key).and_then(Value::as_u64);
    let (prompt, completion, total) =
        (count("prompt_tokens"), count("completion_tokens"), count("total_tokens").filter(|total| *total > 0));
    prompt.or(completion).or(total)?;
    let prompt_tokens = prompt.unwrap_or_else(|| total.unwrap_or(0).saturating_sub(completion.unwrap_or_else(|| total.unwrap_or(0))));
    let completion_tokens = completion.unwrap_or_else(|| prompt.map_or(0, |prompt| total.unwrap_or(0).saturating_sub(prompt)));
    Some(Usage { prompt_tokens, completion_tokens, total_tokens: total.unwrap_or_else(|| prompt_tokens.saturating_add(completion_tokens)) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read_turn;
    use crate::model::{ToolCall, Usage};

    fn turn(message: &Value) -> crate::model::Turn {
        read_turn(json!({"choices": [{"message": message, "finish_reason": null}]}).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn content_may_be_missing_null_text_or_parts() {
        assert_eq!(turn(&json!({})).content, "");
        assert_eq!(turn(&json!({"content": null})).content, "");
        assert_eq!(turn(&json!({"content": "a"})).content, "a");
        assert_eq!(turn(&json!({"content": [{"type": "text", "text": "a"}, {"type": "image_url"}, "b"]})).content, "ab");
        assert_eq!(turn(&json!({"content": 7})).content, "");
    }

    #[test]
    fn reasoning_is_read_under_both_names() {
        assert_eq!(turn(&json!({"reasoning_content": "a", "reasoning": "b"})).reasoning, "a");
        assert_eq!(turn(&json!({"reasoning_content": null, "reasoning": "b"})).reasoning, "b");
        assert_eq!(turn(&json!({"reasoning_content": "", "reasoning": "b"})).reasoning, "b");
        assert_eq!(turn(&json!({"content": "x"})).reasoning, "");
    }

    #[test]
    fn calls_may_be_missing_null_or_incomplete() {
        for message in [json!({}), json!({"tool_calls": null}), json!({"tool_calls": []}), json!({"tool_calls": "x"})] {
            assert_eq!(turn(&message).tool_calls, []);
        }
        let calls = json!([
            {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{\"b\": 1, \"a\": 2}"}},
            {"function": {"name": "Bash", "arguments": {"b": 1, "a": 2}}},
            {"id": null, "function": {"name": "Glob", "arguments": null}},
            {"id": 4}
        ]);
        let call = |id: &str, name: &str, arguments: &str| ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() };
        assert_eq!(
            turn(&json!({"tool_calls": calls})).tool_calls,
            [call("c1", "Read", "{\"b\": 1, \"a\": 2}"), call("", "Bash", "{\"b\":1,\"a\":2}"), call("", "Glob", ""), call("", "", ""),]
        );
    }

    #[test]
    fn usage_may_be_missing_null_or_partial() {
        let usage = |usage: Value| read_turn(json!({"choices": [{"message": {}}], "usage": usage}).to_string().as_bytes()).unwrap().usage;
        let counts = |prompt, completion, total| Some(Usage { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total });
        assert_eq!(usage(Value::Null), None);
        assert_eq!(usage(json!({})), None);
        assert_eq!(usage(json!({"prompt_tokens": "many"})), None);
        assert_eq!(usage(json!({"prompt_tokens": 5, "completion_tokens": 2})), counts(5, 2, 7));
        assert_eq!(usage(json!({"prompt_tokens": 5, "total_tokens": 9})), counts(5, 4, 9));
        assert_eq!(usage(json!({"completion_tokens": 2, "total_tokens": 9})), counts(7, 2, 9));
        assert_eq!(usage(json!({"total_tokens": 9})), counts(0, 0, 9));
        assert_eq!(usage(json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 0})), counts(5, 2, 7));
    }

    #[test]
    fn the_finish_reason_may_be_an_object() {
        let read =
            |reason: Value| read_turn(json!({"choices": [{"message": {}, "finish_reason": reason}]}).to_string().as_bytes()).unwrap();
        assert_eq!(read(json!("stop")).finish_reason, "stop");
        assert_eq!(read(json!({"type": "length", "length": 5})).finish_reason, "length");
        assert_eq!(read(Value::Null).finish_reason, "");
    }

    #[test]
    fn what_is_no_completion_is_named() {
        for (body, why) in [
            ("<html>", "no JSON"),
            ("", "no JSON"),
            ("[1]", "without choices"),
            ("{\"choices\": []}", "without choices"),
            ("{\"choices\": [{\"text\": \"x\"}]}", "no message"),
            ("{\"choices\": [{\"message\": null}]}", "no message"),
        ] {
            assert!(read_turn(body.as_bytes()).unwrap_err().contains(why), "{body}");
        }
    }
}
