//! Where a value ends. Nothing in a value is escaped, so its end is judged by what follows each `</parameter>`.
//!
//! Printing a call by the template and reading it back is the identity for every value without loose tags and with whole nested calls.

use std::collections::HashSet;

use super::marks::{Mark, Marks, Next};
use super::tag::{Fence, Kind};
use super::tools::{Tool, plain};

/// What a value is read in.
#[derive(Debug)]
pub(super) struct Around<'a> {
    /// The tool, where it is a known one.
    pub tool: Option<&'a Tool>,
    /// The plain names of the parameters given so far, this one included.
    pub given: &'a HashSet<String>,
    /// The fence that the call stands in.
    pub fence: Option<Fence>,
}

/// The end of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Where its text ends, the frame included.
    pub place: usize,
    /// What follows the value and its closer.
    pub next: Next,
    /// The end of the closer, or of the text where it was forgotten.
    pub behind: usize,
    /// No `</parameter>` closes it.
    pub is_forgotten: bool,
}

/// How sure it is that a `</parameter>` ends the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    Strict,
    Lenient,
    Value,
}

/// The end of the value behind the parameter's tag, the mark before `first`. Each mark that is looked at takes one of the steps; when they are
/// used up there is no end.
pub(super) fn end_of_value(marks: &Marks<'_>, first: usize, around: &Around<'_>, steps: &mut u64) -> Option<End> {
    if marks.last_closer.is_none_or(|last| last < first) {
        return None;
    }
    let (mut depth, mut lenient, mut forgotten, mut index) = (0_usize, None, None, first);
    while let Some(mark) = marks.get(index) {
        *steps = steps.checked_sub(1)?;
        match mark.kind {
            Kind::ParameterOpen(name) if mark.starts_line || marks.follows_angle(mark) => {
                if forgotten.is_none() && around.misses(name) {
                    forgotten = Some(index);
                }
                if let Some(close) = mark.closed_on_line {
                    index = close;
                } else {
                    depth += 1;
                }
            }
            Kind::ParameterClose => {
                let judged = around.judge(marks, mark);
                if depth > 0 {
                    depth -= usize::from(judged != Judged::Value || mark.starts_line);
                } else if judged == Judged::Strict {
                    return Some(closed_by(mark));
                } else if judged == Judged::Lenient {
                    lenient = Some(closed_by(mark));
                }
            }
            Kind::FunctionClose | Kind::WrapperClose if forgotten.is_none() && around.may_end_a_call(marks, index) => {
                forgotten = Some(index);
            }
            _ => {}
        }
        index += 1;
    }
    lenient.or_else(|| without_closer(marks, first, forgotten?))
}

/// A value's own text: one line end is the frame's at each end, CRLF where the frame opens with that.
pub(super) fn unframed(text: &str) -> &str {
    match text.strip_prefix("\r\n") {
        Some(rest) => rest.strip_suffix("\r\n").or_else(|| rest.strip_suffix('\n')).unwrap_or(rest),
        None => {
            let rest = text.strip_prefix('\n').unwrap_or(text);
            rest.strip_suffix('\n').unwrap_or(rest)
        }
    }
}

const fn closed_by(mark: &Mark<'_>) -> End {
    End { place: mark.start, next: mark.next, behind: mark.end, is_forgotten: false }
}

/// The end of a value whose `</parameter>` was forgotten, at this mark. None when it was closed and junk followed, or when another call would
/// be part of it.
fn without_closer(marks: &Marks<'_>, first: usize, at: usize) -> Option<End> {
    let (start, stop) = (marks.get(first.checked_sub(1)?)?.end, marks.get(at)?.start);
    let place = start + without_half_closer(marks.between(start, stop)).len();
    let is_in_the_way = |mark: &Mark<'_>| match mark.kind {
        Kind::ParameterClose => mark.start < place,
        Kind::FunctionOpen(_) | Kind::FunctionBroken(_) => mark.starts_line,
        _ => false,
    };
    let is_clean = !marks.list.get(first..at)?.iter().any(is_in_the_way);
    is_clean.then_some(End { place, next: Next::Mark(at), behind: place, is_forgotten: true })
}

/// The text without a last `</parameter`, whatever its rest.
fn without_half_closer(text: &str) -> &str {
    const HALF: &[u8] = b"</parameter";
    let trimmed = text.trim_ascii_end();
    let Some(start) = trimmed.rfind('<') else { return text };
    let tail = trimmed.as_bytes().get(start..).unwrap_or_default();
    let is_half = tail.get(..HALF.len()).is_some_and(|head| head.eq_ignore_ascii_case(HALF));
    let inner = tail.strip_suffix(b">").unwrap_or(tail);
    if is_half && !inner.contains(&b'>') && !inner.contains(&b'\n') { text.get(..start).unwrap_or(text) } else { text }
}

impl Around<'_> {
    /// Whether the call lacks a parameter of this name: declared and not yet given; an unknown tool may have any.
    fn misses(&self, name: &str) -> bool {
        self.tool.is_none_or(|tool| tool.parameter(name).is_some()) && !self.given.contains(&plain(name))
    }

    fn judge(&self, marks: &Marks<'_>, close: &Mark<'_>) -> Judged {
        if close.next == Next::End || self.is_closing_fence(marks, close.next) {
            return Judged::Strict;
        }
        match marks.kind(close.next) {
            Some(Kind::ParameterOpen(name)) if self.misses(name) => Judged::Strict,
            Some(Kind::ParameterOpen(_) | Kind::ParameterBroken | Kind::ThinkClose) => Judged::Lenient,
            _ if opens(marks, close.next) => Judged::Lenient,
            _ if close.closers.last.is_none() || close.closers.has_parameter => Judged::Value,
            _ if self.is_end(marks, close.closers.next) => Judged::Strict,
            _ => Judged::Lenient,
        }
    }

    /// Whether the run of closers that begins with this mark ends a call whose last value was not closed.
    fn may_end_a_call(&self, marks: &Marks<'_>, index: usize) -> bool {
        let run = marks.closers_from(Next::Mark(index));
        !run.has_parameter && (self.is_end(marks, run.next) || marks.kind(run.next) == Some(Kind::ThinkClose))
    }

    /// The end of the text, an opening, or the closing fence.
    fn is_end(&self, marks: &Marks<'_>, next: Next) -> bool {
        next == Next::End || opens(marks, next) || self.is_closing_fence(marks, next)
    }

    fn is_closing_fence(&self, marks: &Marks<'_>, next: Next) -> bool {
        matches!((self.fence, next), (Some(fence), Next::Mark(index)) if marks.closes(index, fence))
    }
}

/// `<tool_call>`, or a `<function=NAME>` at the start of a line.
fn opens(marks: &Marks<'_>, next: Next) -> bool {
    let Next::Mark(index) = next else { return false };
    marks.get(index).is_some_and(|mark| match mark.kind {
        Kind::WrapperOpen => true,
        Kind::FunctionOpen(_) => mark.starts_line,
        _ => false,
    })
}
