//! One call, read from its first mark: a function with its parameters, or JSON in the wrapper.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::marks::{Closers, Marks, Next};
use super::tag::{Fence, Kind};
use super::tools::{Tool, Tools, plain};
use super::value::{Around, end_of_value, unframed};
use super::why::Why;

/// A name and its arguments, both corrected to the schema's spelling.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    pub name: String,
    pub arguments: Map<String, Value>,
}

/// A call that was understood.
#[derive(Debug)]
pub(super) struct Understood {
    pub calls: Vec<Named>,
    /// Where its text ends, closers included.
    pub end: usize,
    pub next: Next,
    /// It has a parameter.
    pub has_parameter: bool,
    /// It has a closer behind its last value.
    pub has_closer: bool,
    /// A `</tool_call>` is among its closers.
    pub closes_wrapper: bool,
    /// Known tools with all required parameters, and no closer but the wrapper's forgotten.
    pub is_complete: bool,
}

/// A call that was not understood.
#[derive(Debug)]
pub(super) struct Misread<'t> {
    pub why: Why<'t>,
    /// From this mark on its end is looked for.
    pub from: usize,
    /// It has a parameter.
    pub has_parameter: bool,
}

/// Reads the function whose tag is the mark `open`.
pub(super) fn function<'t>(
    marks: &Marks<'t>,
    tools: &Tools,
    open: usize,
    fence: Option<Fence>,
    steps: &mut u64,
) -> Result<Understood, Misread<'t>> {
    let Some((mark, Kind::FunctionOpen(name))) = marks.get(open).map(|mark| (mark, mark.kind)) else {
        return Err(Misread { why: Why::NoFunction, from: open + 1, has_parameter: false });
    };
    let tool = tools.find(name);
    let (mut given, mut arguments) = (HashSet::new(), Map::new());
    let (mut next, mut end, mut is_whole) = (mark.next, mark.end, true);
    while let Some((at, key)) = parameter(marks, next) {
        given.insert(plain(key));
        let around = Around { tool, given: &given, fence };
        let Some(found) = end_of_value(marks, at + 1, &around, steps) else {
            return Err(Misread { why: Why::OpenValue { name, key }, from: at + 1, has_parameter: true });
        };
        let start = marks.get(at).map_or(end, |mark| mark.end);
        let text = unframed(marks.between(start, found.place));
        let declared = tool.and_then(|tool| tool.parameter(key));
        let value = declared.map_or_else(|| Value::String(text.to_owned()), |parameter| parameter.value(text));
        arguments.insert(declared.map_or(key, |parameter| &parameter.name).to_owned(), value);
        (next, end) = (found.next, found.behind);
        is_whole &= !found.is_forgotten;
    }
    let closers = marks.closers_from(next);
    let has_parameter = !given.is_empty();
    let goes_on = matches!(next, Next::Text) || matches!(marks.kind(next), Some(Kind::ParameterBroken));
    if closers.last.is_none() && (!has_parameter || goes_on) {
        let from = marks.from(end);
        let why = if matches!(next, Next::End) { Why::Unclosed { name } } else { Why::Junk { name, text: line_at(marks, end) } };
        return Err(Misread { why, from, has_parameter });
    }
    let kinds = kinds_of(marks, next, closers);
    let is_complete = is_whole && kinds.contains(&Kind::FunctionClose) && tool.is_some_and(|tool| tool.is_satisfied_by(&arguments));
    Ok(Understood {
        calls: vec![Named { name: tool.map_or(name, |tool| &tool.name).to_owned(), arguments }],
        end: end_of(marks, closers, end),
        next: if closers.last.is_some() { closers.next } else { next },
        has_parameter,
        has_closer: closers.last.is_some(),
        closes_wrapper: kinds.contains(&Kind::WrapperClose),
        is_complete,
    })
}

/// Reads the JSON that begins at this place of the text, inside a wrapper.
pub(super) fn json<'t>(marks: &Marks<'t>, tools: &Tools, place: usize, fence: Option<Fence>) -> Result<Understood, Misread<'t>> {
    let misread = |why, place| Misread { why, from: marks.from(place), has_parameter: false };
    let text = marks.text.get(place..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) => return Err(misread(Why::Json(error.to_string()), place)),
        None => return Err(misread(Why::NoFunction, place)),
    };
    let end = place + values.byte_offset();
    let items = if let Value::Array(items) = value { items } else { vec![value] };
    let calls: Vec<(Named, bool)> = items
        .iter()
        .map(|item| named(item, tools))
        .collect::<Option<_>>()
        .filter(|calls: &Vec<_>| !calls.is_empty())
        .ok_or_else(|| misread(Why::NotACall, end))?;
    let next = marks.next_at(end);
    let closers = marks.closers_from(next);
    if closers.last.is_none() && stands_before_a_closer(marks, end, fence) {
        return Err(misread(Why::JunkBehindJson { text: line_at(marks, end) }, end));
    }
    Ok(Understood {
        end: end_of(marks, closers, end),
        next: if closers.last.is_some() { closers.next } else { next },
        has_parameter: true,
        has_closer: closers.last.is_some(),
        closes_wrapper: kinds_of(marks, next, closers).contains(&Kind::WrapperClose),
        is_complete: calls.iter().all(|(_, is_complete)| *is_complete),
        calls: calls.into_iter().map(|(call, _)| call).collect(),
    })
}

/// A text that is nothing but an object with a known tool's name and its arguments.
pub(super) fn lone_object(text: &str, tools: &Tools) -> Option<Named> {
    let text = text.trim();
    let value: Value = if text.starts_with('{') { serde_json::from_str(text).ok()? } else { return None };
    let is_known = tools.find(value.get("name")?.as_str()?).is_some();
    let keys = value.as_object()?.len();
    named(&value, tools).map(|(call, _)| call).filter(|_| is_known && keys == 2)
}

/// `name` plus `arguments` or `parameters`, and whether it is a known tool with all required parameters.
fn named(item: &Value, tools: &Tools) -> Option<(Named, bool)> {
    let name = item.get("name")?.as_str()?.trim();
    let tool = tools.find(name);
    let given = match item.get("arguments").or_else(|| item.get("parameters"))? {
        Value::Object(object) => object.clone(),
        Value::String(text) => serde_json::from_str(text).ok()?,
        Value::Null => Map::new(),
        _ => return None,
    };
    let mut arguments = Map::new();
    for (key, value) in given {
        let declared = tool.and_then(|tool: &Tool| tool.parameter(&key));
        arguments.insert(declared.map_or(key.trim(), |parameter| &parameter.name).to_owned(), value);
    }
    let is_complete = tool.is_some_and(|tool| tool.is_satisfied_by(&arguments));
    Some((Named { name: tool.map_or(name, |tool| &tool.name).to_owned(), arguments }, is_complete))
}

fn parameter<'t>(marks: &Marks<'t>, next: Next) -> Option<(usize, &'t str)> {
    let Next::Mark(index) = next else { return None };
    let Kind::ParameterOpen(key) = marks.get(index)?.kind else { return None };
    Some((index, key))
}

/// Whether something stands between this place and the next closer, so that it is no text behind a call.
fn stands_before_a_closer(marks: &Marks<'_>, place: usize, fence: Option<Fence>) -> bool {
    for (index, mark) in marks.list.iter().enumerate().skip(marks.from(place)) {
        match mark.kind {
            _ if mark.kind.is_closer() => return true,
            Kind::WrapperOpen | Kind::FunctionOpen(_) | Kind::ThinkClose => return false,
            Kind::Ticks(_) if fence.is_some_and(|fence| marks.closes(index, fence)) => return false,
            _ => {}
        }
    }
    false
}

/// The kinds of a run of closers that begins with what comes next.
fn kinds_of<'t>(marks: &Marks<'t>, next: Next, closers: Closers) -> Vec<Kind<'t>> {
    match (next, closers.last) {
        (Next::Mark(first), Some(last)) => marks.list.get(first..=last).unwrap_or_default().iter().map(|mark| mark.kind).collect(),
        _ => Vec::new(),
    }
}

fn end_of(marks: &Marks<'_>, closers: Closers, end: usize) -> usize {
    closers.last.and_then(|last| marks.get(last)).map_or(end, |mark| mark.end)
}

/// The first line of the text behind a place.
fn line_at<'t>(marks: &Marks<'t>, place: usize) -> &'t str {
    let rest = marks.text.get(marks.skip_space(place)..).unwrap_or_default();
    rest.lines().next().unwrap_or_default()
}
