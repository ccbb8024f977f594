//! A model that replays a script: JSON lines, one assistant message a line.
//!
//! ```text
//! {"content": "...", "reasoning_content": "...", "tool_calls": [{"name": "Read", "arguments": {...}}]}     rendered as a server would
//! {"error": {"status": 503, "message": "...", "retry_after": 7}}                                           a request that fails
//! {"raw": true, "content": null, "tool_calls": [...], "finish_reason": "stop", "usage": {...}}             passed as it is
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

/// A script, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    lines: Vec<ScriptLine>,
}

/// One line of a script.
#[derive(Debug, Clone, PartialEq)]
pub enum ScriptLine {
    /// A message as a server would send it, with what goes beside it.
    Message {
        /// `choices[0].message`.
        message: Value,
        /// The finish reason; none is not sent.
        finish_reason: Option<Value>,
        /// The usage.
        usage: ScriptUsage,
    },
    /// A failing request.
    Error {
        /// The HTTP status.
        status: u16,
        /// The `Retry-After` header.
        retry_after: Option<String>,
        /// The body.
        body: Value,
    },
}

/// The usage that goes with a message.
#[derive(Debug, Clone, PartialEq)]
pub enum ScriptUsage {
    /// Told from the sizes: bytes / 4.
    Estimated,
    /// Sent as it is.
    Given(Value),
    /// Not sent.
    Absent,
}

/// When a script starts over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartOn {
    /// Never: each request takes the next line, whoever asks.
    Never,
    /// When a request has no assistant message (a new conversation) and the present pass has answered with a message already: a failing
    /// line at the start is not started over by its own repetition.
    Conversation,
}

/// A script being replayed. Clones share their place in it.
#[derive(Debug, Clone)]
pub struct Scripted {
    script: Arc<Script>,
    restart: RestartOn,
    place: Arc<Mutex<Place>>,
}

#[derive(Debug, Default)]
struct Place {
    next: usize,
    answered: bool,
    requests: u64,
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The `Retry-After` header.
    pub retry_after: Option<String>,
    /// The body.
    pub body: Value,
}

impl Script {
    /// Reads a script; empty lines are skipped.
    ///
    /// # Errors
    /// What is wrong, and in which line (from 1).
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbered = text.trim_start_matches('\u{feff}').lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let lines = numbered.map(|(index, line)| parse_line(line, index + 1).map_err(|why| format!("line {}: {why}", index + 1)));
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        if lines.is_empty() { Err("the script has no lines".to_owned()) } else { Ok(Self { lines }) }
    }

    /// A script of these lines.
    #[must_use]
    pub const fn of(lines: Vec<ScriptLine>) -> Self {
        Self { lines }
    }

    /// The lines in order.
    #[must_use]
    pub fn lines(&self) -> &[ScriptLine] {
        &self.lines
    }
}

fn parse_line(line: &str, number: usize) -> Result<ScriptLine, String> {
    let object: Map<String, Value> = serde_json::from_str(line).map_err(|error| format!("no JSON object: {error}"))?;
    match object.get("raw") {
        Some(Value::Bool(true)) => return Ok(raw_line(object)),
        Some(Value::Bool(false)) | None => {}
        Some(_) => return Err("`raw` is true or false".to_owned()),
    }
    if object.contains_key("error") { error_line(&object) } else { plain_line(&object, number) }
}

fn raw_line(mut object: Map<String, Value>) -> ScriptLine {
    object.shift_remove("raw");
    let finish_reason = object.shift_remove("finish_reason");
    let usage = object.shift_remove("usage").map_or(ScriptUsage::Absent, ScriptUsage::Given);
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.extend(object);
    ScriptLine::Message { message: Value::Object(message), finish_reason, usage }
}

fn error_line(object: &Map<String, Value>) -> Result<ScriptLine, String> {
    only_keys(object, &["raw", "error", "retry_after"])?;
    let error = object.get("error").and_then(Value::as_object).ok_or("`error` is an object")?;
    only_keys(error, &["status", "message", "type", "code", "retry_after"])?;
    let status = error.get("status").map_or(Some(500), Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|status| (300..600).contains(status)).ok_or("`status` is an HTTP status from 300 to 599")?;
    let retry_after = match error.get("retry_after").or_else(|| object.get("retry_after")) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(number @ Value::Number(_)) => Some(number.to_string()),
        Some(_) => return Err("`retry_after` is a number of seconds or an HTTP date".to_owned()),
    };
    let kind = if status < 500 { "BadRequestError" } else { "InternalServerError" };
    let body = json!({"error": {
        "message": optional_text(error, "message")?.unwrap_or_default(),
        "type": optional_text(error, "type")?.unwrap_or_else(|| kind.to_owned()),
        "param": null,
        "code": error.get("code").cloned().unwrap_or_else(|| json!(status)),
    }});
    Ok(ScriptLine::Error { status, retry_after, body })
}

fn plain_line(object: &Map<String, Value>, number: usize) -> Result<ScriptLine, String> {
    only_keys(object, &["raw", "role", "content", "reasoning_content", "tool_calls", "finish_reason", "usage"])?;
    if object.get("role").is_some_and(|role| role != "assistant") {
        return Err("`role` can only be `assistant`".to_owned());
    }
    let calls = match object.get("tool_calls") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) => {
            calls.iter().enumerate().map(|(index, call)| plain_call(call, number, index)).collect::<Result<_, _>>()?
        }
        Some(_) => return Err("`tool_calls` is a list".to_owned()),
    };
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), optional_text(object, "content")?.map_or(Value::Null, Value::String));
    if let Some(reasoning) = optional_text(object, "reasoning_content")? {
        message.insert("reasoning_content".to_owned(), Value::String(reasoning));
    }
    let natural_end = if calls.is_empty() { "stop" } else { "tool_calls" };
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    let finish_reason = Some(object.get("finish_reason").cloned().unwrap_or_else(|| json!(natural_end)));
    let usage = object.get("usage").cloned().map_or(ScriptUsage::Estimated, ScriptUsage::Given);
    Ok(ScriptLine::Message { message: Value::Object(message), finish_reason, usage })
}

fn plain_call(call: &Value, number: usize, index: usize) -> Result<Value, String> {
    let call = call.as_object().ok_or("a tool call is an object")?;
    only_keys(call, &["id", "name", "arguments"])?;
    let name = optional_text(call, "name")?.ok_or("a tool call has a `name`")?;
    let arguments = match call.get("arguments") {
        None => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let id = optional_text(call, "id")?.unwrap_or_else(|| format!("call_{number}_{index}"));
    Ok(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}))
}

fn optional_text(object: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` is a text or null")),
    }
}

fn only_keys(object: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key `{key}`; known are {}", known.join(", "))),
        None => Ok(()),
    }
}

impl Scripted {
    /// Starts at the first line.
    #[must_use]
    pub fn new(script: Script, restart: RestartOn) -> Self {
        Self { script: Arc::new(script), restart, place: Arc::default() }
    }

    /// Starts behind the first `done` messages, and behind the errors before them.
    #[must_use]
    pub fn after(script: Script, restart: RestartOn, done: usize) -> Self {
        let messages = script.lines.iter().enumerate().filter(|(_, line)| matches!(line, ScriptLine::Message { .. }));
        let next = done.checked_sub(1).and_then(|last| messages.map(|(at, _)| at + 1).nth(last));
        let next = next.unwrap_or(if done == 0 { 0 } else { script.lines.len() });
        let place = Place { next, answered: done > 0, requests: done as u64 };
        Self { script: Arc::new(script), restart, place: Arc::new(Mutex::new(place)) }
    }

    /// Status and body of the answer to a request body; takes the next line.
    #[must_use]
    pub fn answer(&self, request: &Value) -> (u16, Value) {
        let reply = self.reply(request);
        (reply.status, reply.body)
    }

    /// The answer to a request body with its `Retry-After`; takes the next line. When there is none left: 400, saying so.
    #[must_use]
    pub fn reply(&self, request: &Value) -> Reply {
        let (line, count) = self.advance(request);
        match line {
            None => {
                let message = format!("the script has no more lines (it has {})", self.script.lines.len());
                let body = json!({"error": {"message": message, "type": "BadRequestError", "param": null, "code": 400}});
                Reply { status: 400, retry_after: None, body }
            }
            Some(ScriptLine::Error { status, retry_after, body }) => {
                Reply { status: *status, retry_after: retry_after.clone(), body: body.clone() }
            }
            Some(ScriptLine::Message { message, finish_reason, usage }) => {
                Reply { status: 200, retry_after: None, body: completion(request, count, message, finish_reason.as_ref(), usage) }
            }
        }
    }

    fn advance(&self, request: &Value) -> (Option<&ScriptLine>, u64) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if self.restart == RestartOn::Conversation && place.answered && is_new_conversation(request) {
            (place.next, place.answered) = (0, false);
        }
        let line = self.script.lines.get(place.next);
        place.next += usize::from(line.is_some());
        place.answered |= !matches!(line, Some(ScriptLine::Error { .. }));
        place.requests += 1;
        (line, place.requests)
    }
}

fn is_new_conversation(request: &Value) -> bool {
    let messages = request.get("messages").and_then(Value::as_array);
    !messages.is_some_and(|messages| messages.iter().any(|message| message.get("role").is_some_and(|role| role == "assistant")))
}

fn completion(request: &Value, count: u64, message: &Value, finish_reason: Option<&Value>, usage: &ScriptUsage) -> Value {
    let mut choice = json!({"index": 0, "message": message});
    if let Some(reason) = finish_reason {
        choice["finish_reason"] = reason.clone();
    }
    let model = request.get("model").cloned().unwrap_or(Value::Null);
    let mut body =
        json!({"id": format!("chatcmpl-script-{count}"), "object": "chat.completion", "created": 0, "model": model, "choices": [choice]});
    match usage {
        ScriptUsage::Absent => {}
        ScriptUsage::Given(usage) => body["usage"] = usage.clone(),
        ScriptUsage::Estimated => {
            let tokens = |value: Option<&Value>| value.map_or(0, |value| value.to_string().len().div_ceil(4));
            let (prompt, completion) = (tokens(request.get("messages")) + tokens(request.get("tools")), tokens(Some(message)));
            body["usage"] = json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
        }
    }
    body
}

#[cfg(test)]
mod tests;
