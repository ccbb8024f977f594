//! Tool calls that a model server's parser lost, read from the text of a turn in the format of Qwen3.5's template.
//!
//! A call that is lost ends a run with nothing; a call that is half read can empty a file. So what must hold: a call is only given when all of it
//! was understood; an attempt that was not is [`Kind::Malformed`], never an answer; quoted or mentioned markup in an answer leaves it an answer;
//! the time is linear in the text, and no text makes it panic.
//!
//! ```text
//! Turn -> end tokens off, thinking split off (think) -> marks of the text (marks, tag) -> calls, attempts, quotes from left to right (scan)
//!   -> functions and JSON (call), the ends of values (value), names and types by schema (tools) -> Reading
//! ```

mod call;
mod marks;
mod scan;
mod tag;
#[cfg(test)]
mod tests;
mod think;
mod tools;
mod value;
mod why;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::call::{Named, lone_object};
use self::marks::Marks;
use self::scan::{Found, scan};
use self::tag::Ticks;
use super::{ToolCall, Turn};

pub use tools::Tools;

/// What a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The server found the calls.
    Native,
    /// We found the calls in the text.
    Recovered,
    /// A call was attempted and not understood: no call, and no answer either.
    Malformed,
    /// An answer.
    Final,
    /// Cut by length: none of its calls is run.
    Truncated,
}

/// Where calls were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// In the answer's text.
    Content,
    /// At the end of the thinking.
    Reasoning,
}

/// The form that a call had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// `<tool_call>` and `<function=NAME>`, or the server's own.
    Native,
    /// `<function=NAME>` without its wrapper.
    Bare,
    /// JSON.
    Json,
    /// In a code fence.
    Fenced,
}

impl Kind {
    /// Its name in records and counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Recovered => "recovered",
            Self::Malformed => "malformed",
            Self::Final => "final",
            Self::Truncated => "truncated",
        }
    }
}

impl Channel {
    /// Its name in records and counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Reasoning => "reasoning",
        }
    }
}

impl Form {
    /// Its name in records and counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bare => "bare",
            Self::Json => "json",
            Self::Fenced => "fenced",
        }
    }
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The tool's name; that of the schema where one fits.
    pub name: String,
    /// The arguments, typed by the schema.
    pub arguments: Map<String, Value>,
    /// The form it had.
    pub form: Form,
}

/// What a turn was read as.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// What the turn is.
    pub kind: Kind,
    /// The calls to be run, in order.
    pub tool_calls: Vec<Call>,
    /// The text without the calls that were recovered.
    pub content: String,
    /// The thinking without the calls that were recovered.
    pub reasoning: String,
    /// Where recovered calls were found, or the attempt.
    pub channel: Channel,
    /// Calls in the thinking that were left alone.
    pub drafts: u64,
    /// Openings in the text that were quoted or part of a sentence.
    pub mentions: u64,
    /// For a malformed turn: what was not understood.
    pub not_understood: String,
    /// How many marks were looked at.
    pub steps: u64,
}

/// Reads a turn that was given this cap on generated tokens.
#[must_use]
pub fn read(turn: &Turn, cap: u64, tools: &Tools) -> Reading {
    if is_truncated(turn, cap) {
        return Reading::plain(Kind::Truncated, turn.content.clone(), turn.reasoning.clone());
    }
    let (content, reasoning) = (think::without_end_tokens(&turn.content), think::without_end_tokens(&turn.reasoning));
    if !turn.tool_calls.is_empty() {
        let (content, reasoning) = think::split(content, reasoning, tools);
        let drafts = count(&scan(&Marks::of(&reasoning), tools).calls);
        let tool_calls = turn.tool_calls.iter().map(native).collect();
        return Reading { tool_calls, drafts, ..Reading::plain(Kind::Native, content, reasoning) };
    }
    if let Some(call) = lone_call(content, tools) {
        return Reading { tool_calls: vec![call], ..Reading::plain(Kind::Recovered, String::new(), reasoning.to_owned()) };
    }
    let (content, reasoning) = think::split(content, reasoning, tools);
    if let Some(call) = lone_call(&content, tools) {
        return Reading { tool_calls: vec![call], ..Reading::plain(Kind::Recovered, String::new(), reasoning) };
    }
    read_texts(content, reasoning, tools, turn.finish_reason.eq_ignore_ascii_case("tool_calls"))
}

/// Reads both texts of a turn without native calls. The thinking counts only when there is no other text: a text that answers makes the calls
/// in the thinking drafts.
fn read_texts(content: String, reasoning: String, tools: &Tools, says_calls: bool) -> Reading {
    let (content_marks, reasoning_marks) = (Marks::of(&content), Marks::of(&reasoning));
    let (in_content, in_reasoning) = (scan(&content_marks, tools), scan(&reasoning_marks, tools));
    let taken = in_content.meant(&content_marks);
    let reads_reasoning = is_blank_or_closers(&content_marks);
    let ending = if reads_reasoning { in_reasoning.ending(&reasoning_marks) } else { &[] };
    let drafts = count(&in_reasoning.calls);
    let mentions = in_content.mentions + count(&in_content.fences);
    let steps = in_content.steps + in_reasoning.steps;
    let attempt = match (in_content.attempts.first(), in_reasoning.attempts.first()) {
        (Some(attempt), _) if !reads_reasoning => Some((attempt.why.to_string(), Channel::Content)),
        _ if reads_reasoning && drafts > 0 => Some((DRAFT.to_owned(), Channel::Reasoning)),
        (_, Some(attempt)) if reads_reasoning => Some((attempt.why.to_string(), Channel::Reasoning)),
        (Some(attempt), _) => Some((attempt.why.to_string(), Channel::Content)),
        _ if says_calls => Some((LOST.to_owned(), Channel::Content)),
        _ => None,
    };
    let counted = |reading: Reading| Reading { drafts, mentions, steps, ..reading };
    if !taken.is_empty() {
        let left = without(&content, taken);
        let mentions = mentions - if in_content.calls.is_empty() { count(taken) } else { 0 };
        let reading = Reading::plain(Kind::Recovered, left, reasoning);
        Reading { tool_calls: calls(taken), mentions, ..counted(reading) }
    } else if !ending.is_empty() {
        let left = without(&reasoning, ending);
        let drafts = drafts - if in_reasoning.calls.is_empty() { 0 } else { count(ending) };
        let reading = Reading::plain(Kind::Recovered, String::new(), left);
        Reading { tool_calls: calls(ending), channel: Channel::Reasoning, drafts, ..counted(reading) }
    } else if let Some((not_understood, channel)) = attempt {
        Reading { not_understood, channel, ..counted(Reading::plain(Kind::Malformed, content, reasoning)) }
    } else {
        counted(Reading::plain(Kind::Final, content, reasoning))
    }
}

const DRAFT: &str = "the call stands in the thinking and text follows it, so it was not run; write it again behind the thinking";
const LOST: &str = "a call was announced and none arrived";

impl Reading {
    fn plain(kind: Kind, content: String, reasoning: String) -> Self {
        Self {
            kind,
            tool_calls: Vec::new(),
            content,
            reasoning,
            channel: Channel::Content,
            drafts: 0,
            mentions: 0,
            not_understood: String::new(),
            steps: 0,
        }
    }
}

/// By the server's word in any case, or, where a server says otherwise, by its count having reached the cap.
fn is_truncated(turn: &Turn, cap: u64) -> bool {
    let said = ["length", "max_tokens", "max_new_tokens"].iter().any(|reason| turn.finish_reason.eq_ignore_ascii_case(reason));
    said || turn.usage.is_some_and(|usage| usage.completion_tokens >= cap)
}

/// A call as the server found it: its name untouched, no object makes no arguments.
fn native(call: &ToolCall) -> Call {
    Call { name: call.name.clone(), arguments: serde_json::from_str(&call.arguments).unwrap_or_default(), form: Form::Native }
}

/// A text, or its single fence, that is nothing but a call in JSON.
fn lone_call(text: &str, tools: &Tools) -> Option<Call> {
    let text = text.trim();
    let (inner, form) = if text.starts_with('{') { (text, Form::Json) } else { (inside_single_fence(text)?, Form::Fenced) };
    lone_object(inner, tools).map(|Named { name, arguments }| Call { name, arguments, form })
}

fn inside_single_fence(text: &str) -> Option<&str> {
    if !text.starts_with("```") && !text.starts_with("~~~") || !text.contains('{') {
        return None;
    }
    let marks = Marks::of(text);
    let open = marks.get(0)?;
    let tag::Kind::Ticks(Ticks { closed_below: Some(close), .. }) = open.kind else { return None };
    let close = marks.get(close).filter(|close| close.end == text.len())?;
    let line = text.get(open.end..)?.find('\n')? + open.end;
    text.get(line..close.start)
}

fn is_blank_or_closers(marks: &Marks<'_>) -> bool {
    marks.closers_from(marks.next_at(0)).next == marks::Next::End
}

fn calls(found: &[Found]) -> Vec<Call> {
    let each = found.iter().flat_map(|found| found.calls.iter().map(|call| (call, found.form)));
    each.map(|(call, form)| Call { name: call.name.clone(), arguments: call.arguments.clone(), form }).collect()
}

fn count(found: &[Found]) -> u64 {
    found.iter().map(|found| found.calls.len() as u64).sum()
}

/// The text without these calls: what is left between them, trimmed and joined by one empty line.
fn without(text: &str, found: &[Found]) -> String {
    let starts = found.iter().map(|found| found.start).chain([text.len()]);
    let ends = [0].into_iter().chain(found.iter().map(|found| found.end));
    let pieces = ends.zip(starts).filter_map(|(end, start)| text.get(end..start)).map(str::trim).filter(|piece| !piece.is_empty());
    pieces.collect::<Vec<_>>().join("\n\n")
}
