//! The script's own rules.

use serde_json::{Value, json};

use super::{RestartOn, Script, Scripted};

fn scripted(text: &str, restart: RestartOn) -> Scripted {
    Scripted::new(Script::parse(text).unwrap(), restart)
}

fn first() -> Value {
    json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]})
}

fn later() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]})
}

#[test]
fn a_plain_line_is_rendered_as_a_server_would() {
    let line = r#"{"content": "I look.", "reasoning_content": "hm", "tool_calls": [{"name": "Read", "arguments": {"b": 1, "a": "ü"}}, {"name": "Bash", "arguments": "{oops"}]}"#;
    let (status, body) = scripted(line, RestartOn::Never).answer(&first());
    assert_eq!(status, 200);
    let message = json!({
        "role": "assistant", "content": "I look.", "reasoning_content": "hm",
        "tool_calls": [
            {"id": "call_1_0", "type": "function", "function": {"name": "Read", "arguments": "{\"b\":1,\"a\":\"ü\"}"}},
            {"id": "call_1_1", "type": "function", "function": {"name": "Bash", "arguments": "{oops"}},
        ]
    });
    assert_eq!(body["choices"], json!([{"index": 0, "message": message, "finish_reason": "tool_calls"}]));
    assert_eq!((&body["object"], &body["created"], &body["model"]), (&json!("chat.completion"), &json!(0), &json!("m")));
    let prompt = first()["messages"].to_string().len().div_ceil(4);
    let completion = message.to_string().len().div_ceil(4);
    assert_eq!(body["usage"], json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}));
}

#[test]
fn a_line_without_calls_stops_and_may_say_otherwise() {
    let script =
        scripted("{\"content\": \"Done.\"}\n\n{\"content\": \"cut\", \"finish_reason\": \"length\", \"usage\": null}", RestartOn::Never);
    let done = script.answer(&first()).1;
    assert_eq!(done["choices"][0], json!({"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}));
    let cut = script.answer(&first()).1;
    assert_eq!((&cut["choices"][0]["finish_reason"], &cut["usage"]), (&json!("length"), &Value::Null));
}

#[test]
fn a_raw_line_goes_out_as_it_is() {
    let line = r#"{"raw": true, "content": [1], "reasoning": "r", "tool_calls": [{"function": {}}], "usage": {"total_tokens": -1}}"#;
    let body = scripted(line, RestartOn::Never).answer(&first()).1;
    let message = json!({"role": "assistant", "content": [1], "reasoning": "r", "tool_calls": [{"function": {}}]});
    assert_eq!(body["choices"], json!([{"index": 0, "message": message}]));
    assert_eq!(body["usage"], json!({"total_tokens": -1}));
    let bare = scripted("{\"raw\": true, \"finish_reason\": \"stop\"}", RestartOn::Never).answer(&first()).1;
    assert!(bare.get("usage").is_none());
    assert_eq!(bare["choices"], json!([{"index": 0, "message": {"role": "assistant"}, "finish_reason": "stop"}]));
}

#[test]
fn an_error_line_answers_its_status() {
    let script = scripted(
        "{\"error\": {\"status\": 429, \"message\": \"slow down\", \"retry_after\": 7}}\n{\"error\": {\"status\": 400, \"type\": \"exceed_context_size_error\"}}",
        RestartOn::Never,
    );
    let busy = script.reply(&first());
    assert_eq!((busy.status, busy.retry_after.as_deref()), (429, Some("7")));
    assert_eq!(busy.body["error"]["message"], "slow down");
    let full = script.reply(&first());
    assert_eq!((full.status, &full.body["error"]["type"]), (400, &json!("exceed_context_size_error")));
}

#[test]
fn an_exhausted_script_says_so() {
    let script = scripted("{\"content\": \"a\"}", RestartOn::Never);
    assert_eq!(script.answer(&first()).0, 200);
    for _ in 0..2 {
        let (status, body) = script.answer(&first());
        assert_eq!(status, 400);
        assert!(body["error"]["message"].as_str().unwrap().contains("the script has no more lines"));
    }
}

#[test]
fn a_new_conversation_starts_over_but_a_repetition_does_not() {
    let text = "{\"error\": {\"status\": 503}}\n{\"content\": \"one\"}\n{\"content\": \"two\"}";
    let script = scripted(text, RestartOn::Conversation);
    let content = |request: &Value| script.answer(request).1["choices"][0]["message"]["content"].clone();
    for _ in 0..2 {
        assert_eq!(script.answer(&first()).0, 503);
        assert_eq!(content(&first()), "one");
        assert_eq!(content(&later()), "two");
    }
    assert_eq!(script.answer(&later()).0, 400);
    assert_eq!(script.answer(&first()).0, 503);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (text, why) in [
        ("", "no lines"),
        ("{\"content\": \"a\"}\n\n{\"contents\": \"a\"}", "line 3: unknown key `contents`"),
        ("{\"content\": 5}", "line 1: `content`"),
        ("nonsense", "line 1: no JSON object"),
        ("[1]", "line 1: no JSON object"),
        ("{\"tool_calls\": {}}", "line 1: `tool_calls`"),
        ("{\"tool_calls\": [{\"arguments\": {}}]}", "line 1: a tool call has a `name`"),
        ("{\"tool_calls\": [{\"name\": \"Read\", \"args\": {}}]}", "line 1: unknown key `args`"),
        ("{\"error\": {\"status\": 200}}", "line 1: `status`"),
        ("{\"error\": {\"stats\": 500}}", "line 1: unknown key `stats`"),
        ("{\"error\": \"x\"}", "line 1: `error`"),
        ("{\"raw\": \"yes\"}", "line 1: `raw`"),
        ("{\"role\": \"user\", \"content\": \"a\"}", "line 1: `role`"),
    ] {
        let error = Script::parse(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}
