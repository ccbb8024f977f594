//! Reading a text from left to right: calls, attempts that are not understood, and what is quoted or only mentioned.

use super::Form;
use super::call::{Misread, Named, Understood, function, json};
use super::marks::{Mark, Marks, Next};
use super::tag::{Fence, Kind, Ticks};
use super::tools::Tools;
use super::why::Why;

/// Values are looked at for so many steps a mark, and for [`FEWEST_STEPS`] in any text: what is left then is not understood. Reading stays
/// linear so.
const STEPS_PER_MARK: u64 = 8;
const FEWEST_STEPS: u64 = 500_000;

/// What a text holds.
#[derive(Debug, Default)]
pub(super) struct Scan<'t> {
    /// Calls outside fences, in order.
    pub calls: Vec<Found>,
    /// Fences that hold nothing but complete calls.
    pub fences: Vec<Found>,
    /// Attempts that were not understood.
    pub attempts: Vec<Attempt<'t>>,
    /// `<think>` and `</think>` outside calls, attempts and quotes.
    pub thinks: Vec<Mark<'t>>,
    /// Openings that open nothing.
    pub mentions: u64,
    /// How many marks were looked at.
    pub steps: u64,
}

/// Calls at one place of the text.
#[derive(Debug)]
pub(super) struct Found {
    pub calls: Vec<Named>,
    pub form: Form,
    pub start: usize,
    pub end: usize,
}

/// An attempt that was not understood.
#[derive(Debug)]
pub(super) struct Attempt<'t> {
    pub why: Why<'t>,
}

impl Scan<'_> {
    /// The calls that are meant to be run: all that stand outside fences; else, where nothing else was attempted, the fences that end the text.
    pub fn meant(&self, marks: &Marks<'_>) -> &[Found] {
        if self.calls.is_empty() { self.fences_at_end(marks) } else { &self.calls }
    }

    /// The calls that end the thinking, adjacent ones together. What stands before them was a draft.
    pub fn ending(&self, marks: &Marks<'_>) -> &[Found] {
        if self.calls.is_empty() { self.fences_at_end(marks) } else { at_end(&self.calls, marks) }
    }

    fn fences_at_end(&self, marks: &Marks<'_>) -> &[Found] {
        if self.attempts.is_empty() { at_end(&self.fences, marks) } else { &[] }
    }
}

/// The last of these with nothing but white space and stray closing tags between them and up to the end.
fn at_end<'f>(found: &'f [Found], marks: &Marks<'_>) -> &'f [Found] {
    let mut end = marks.text.len();
    let adjacent = found.iter().rev().take_while(|found| {
        let is_adjacent = is_gap(marks, found.end, end);
        end = found.start;
        is_adjacent
    });
    let count = adjacent.count();
    found.get(found.len() - count..).unwrap_or_default()
}

fn is_gap(marks: &Marks<'_>, start: usize, end: usize) -> bool {
    let (mut place, mut index) = (marks.skip_space(start), marks.from(start));
    while place < end {
        let Some(mark) = marks.get(index).filter(|mark| mark.start == place) else { return false };
        if !mark.kind.is_closer() && mark.kind != Kind::ThinkClose {
            return false;
        }
        (place, index) = (marks.skip_space(mark.end), index + 1);
    }
    true
}

struct Scanner<'a, 't> {
    marks: &'a Marks<'t>,
    tools: &'a Tools,
    scan: Scan<'t>,
    steps_left: u64,
    /// The wrapper of the call before is still open, and nothing stands between.
    in_wrapper: bool,
}

/// Reads a text.
pub(super) fn scan<'t>(marks: &Marks<'t>, tools: &Tools) -> Scan<'t> {
    let count = marks.list.len() as u64;
    let steps = FEWEST_STEPS.max(count.saturating_mul(STEPS_PER_MARK));
    let mut scanner = Scanner { marks, tools, scan: Scan::default(), steps_left: steps, in_wrapper: false };
    let mut index = 0;
    while let Some(mark) = marks.get(index) {
        scanner.scan.steps += 1;
        index = scanner.read(index, mark).max(index + 1);
    }
    scanner.scan.steps += steps - scanner.steps_left;
    scanner.scan
}

impl<'t> Scanner<'_, 't> {
    /// Reads what begins with this mark; returns the mark to go on with.
    fn read(&mut self, index: usize, mark: &Mark<'t>) -> usize {
        let in_wrapper = std::mem::take(&mut self.in_wrapper);
        match mark.kind {
            Kind::Ticks(Ticks { fence, closed_below: Some(close), .. }) => self.fence(index, mark, fence, close),
            Kind::Ticks(Ticks { closed_inline: Some(close), .. }) => self.quoted(index, close),
            Kind::WrapperOpen => self.wrapper(index, mark),
            Kind::FunctionOpen(name) => self.bare(index, mark, name, in_wrapper),
            Kind::FunctionBroken(name) if mark.starts_line && self.tools.find(name).is_some() => {
                self.empty_attempt(Why::HalfTag { name }, index + 1)
            }
            Kind::ParameterOpen(key) if mark.starts_line && (mark.ends_line || mark.closed_on_line.is_some()) => {
                self.attempt(Why::LoneParameter { key }, index + 1)
            }
            Kind::Escaped => {
                self.scan.attempts.push(Attempt { why: Why::Escaped });
                index + 1
            }
            Kind::ThinkOpen | Kind::ThinkClose => {
                self.scan.thinks.push(*mark);
                index + 1
            }
            _ if mark.kind.is_closer() && mark.starts_line => self.line_of_closers(index, mark),
            _ => index + 1,
        }
    }

    fn quoted(&mut self, open: usize, close: usize) -> usize {
        self.scan.mentions += self.marks.count_calls_shown(open, close);
        close + 1
    }

    fn wrapper(&mut self, first: usize, mark: &Mark<'t>) -> usize {
        let last = self.last_repeat(first);
        let (next, behind) = self.marks.get(last).map_or((Next::End, 0), |mark| (mark.next, mark.end));
        match (next, self.marks.kind(next)) {
            (Next::Mark(open), Some(Kind::FunctionOpen(_))) => {
                let read = function(self.marks, self.tools, open, None, &mut self.steps_left);
                self.take(read, mark.start, Form::Native)
            }
            (Next::Mark(open), Some(Kind::FunctionBroken(name))) if mark.starts_line && self.tools.find(name).is_some() => {
                self.empty_attempt(Why::HalfTag { name }, open + 1)
            }
            _ if self.is_json(next, behind) => {
                let read = json(self.marks, self.tools, self.marks.skip_space(behind), None);
                self.take(read, mark.start, Form::Json)
            }
            _ if (first..=last).any(|index| self.is_lone_wrapper(index)) => self.empty_attempt(Why::NoFunction, last + 1),
            _ => {
                self.scan.mentions += 1;
                last + 1
            }
        }
    }

    fn bare(&mut self, index: usize, mark: &Mark<'t>, name: &'t str, in_wrapper: bool) -> usize {
        let opens = in_wrapper || mark.starts_line || self.has_parameter_at_once(mark);
        if !opens {
            self.scan.mentions += 1;
            return index + 1;
        }
        let read = function(self.marks, self.tools, index, None, &mut self.steps_left);
        if in_wrapper {
            return self.take(read, mark.start, Form::Native);
        }
        if self.tools.find(name).is_none() {
            let (has_parameter, has_closer) = match &read {
                Ok(call) => (call.has_parameter, call.has_closer),
                Err(misread) => (misread.has_parameter, true),
            };
            if !has_parameter {
                self.scan.mentions += 1;
                return index + 1;
            }
            if !has_closer {
                return self.attempt(Why::Unclosed { name }, index + 1);
            }
        }
        self.take(read, mark.start, Form::Bare)
    }

    /// Keeps what was read.
    fn take(&mut self, read: Result<Understood, Misread<'t>>, start: usize, form: Form) -> usize {
        match read {
            Ok(call) => {
                let goes_on = matches!(self.marks.kind(call.next), Some(Kind::FunctionOpen(_)));
                self.in_wrapper = goes_on && form == Form::Native && !call.closes_wrapper;
                self.scan.calls.push(Found { calls: call.calls, form, start, end: call.end });
                self.marks.from(call.end)
            }
            Err(misread) => self.attempt(misread.why, misread.from),
        }
    }

    /// An attempt that reaches to the run of closers behind it, the next `<tool_call>` that starts a line, or the end of the text.
    fn attempt(&mut self, why: Why<'t>, from: usize) -> usize {
        self.reach(why, from, |mark| mark.kind == Kind::WrapperOpen && mark.starts_line)
    }

    /// An attempt without a value, in which no call of its own can be hidden: it ends at a function that starts a line, too.
    fn empty_attempt(&mut self, why: Why<'t>, from: usize) -> usize {
        self.reach(why, from, |mark| matches!(mark.kind, Kind::WrapperOpen | Kind::FunctionOpen(_)) && mark.starts_line)
    }

    fn reach(&mut self, why: Why<'t>, from: usize, ends_before: impl Fn(&Mark<'t>) -> bool) -> usize {
        self.scan.attempts.push(Attempt { why });
        let mut index = from;
        while let Some(mark) = self.marks.get(index).filter(|mark| !ends_before(mark)) {
            self.scan.steps += 1;
            if mark.kind.is_closer() {
                return mark.closers.last.unwrap_or(index) + 1;
            }
            index += 1;
        }
        index
    }

    /// Closers that have their line to themselves.
    fn line_of_closers(&mut self, first: usize, mark: &Mark<'t>) -> usize {
        let mut index = first;
        while let Some(closer) = self.marks.get(index).filter(|other| other.kind.is_closer() && other.line == mark.line) {
            if closer.ends_line {
                self.scan.attempts.push(Attempt { why: Why::LoneClosers });
                return closer.closers.last.unwrap_or(index) + 1;
            }
            if closer.next != Next::Mark(index + 1) {
                break;
            }
            index += 1;
        }
        index + 1
    }

    /// A closed fence: calls when it holds nothing but complete ones, else a quotation.
    fn fence(&mut self, open: usize, mark: &Mark<'t>, fence: Fence, close: usize) -> usize {
        match self.fenced_calls(mark, fence) {
            Some((calls, close)) => {
                let end = self.marks.get(close).map_or(mark.end, |mark| mark.end);
                self.scan.fences.push(Found { calls, form: Form::Fenced, start: mark.start, end });
                close + 1
            }
            None => self.quoted(open, close),
        }
    }

    /// The calls that a fence begins with and the mark that closes it, where nothing else is in it. A fence inside a call is value, so the
    /// fence may end later than its first closing line.
    fn fenced_calls(&mut self, mark: &Mark<'t>, fence: Fence) -> Option<(Vec<Named>, usize)> {
        let line = self.marks.text.get(mark.end..)?.find('\n')? + mark.end;
        let (mut calls, mut next, mut in_wrapper) = (Vec::new(), self.marks.next_at(line), false);
        loop {
            let Next::Mark(index) = next else { return None };
            self.steps_left = self.steps_left.checked_sub(1)?;
            if !calls.is_empty() && self.marks.closes(index, fence) {
                return Some((calls, index)).filter(|_| !in_wrapper);
            }
            let read = self.fenced_call(index, fence, in_wrapper)?;
            in_wrapper = !read.1 && !read.0.closes_wrapper;
            next = read.0.next;
            if !read.0.is_complete {
                return None;
            }
            calls.extend(read.0.calls);
        }
    }

    /// The call that begins with this mark inside a fence, and whether it has no wrapper.
    fn fenced_call(&mut self, index: usize, fence: Fence, in_wrapper: bool) -> Option<(Understood, bool)> {
        let mark = self.marks.get(index)?;
        let read = |scanner: &mut Self, open| function(scanner.marks, scanner.tools, open, Some(fence), &mut scanner.steps_left).ok();
        match mark.kind {
            Kind::WrapperOpen if !in_wrapper => {
                let last = self.marks.get(self.last_repeat(index))?;
                match (last.next, self.marks.kind(last.next)) {
                    (Next::Mark(open), Some(Kind::FunctionOpen(_))) => Some((read(self, open)?, false)),
                    _ if self.is_json(last.next, last.end) => {
                        let place = self.marks.skip_space(last.end);
                        Some((json(self.marks, self.tools, place, Some(fence)).ok()?, false))
                    }
                    _ => None,
                }
            }
            Kind::FunctionOpen(_) if in_wrapper => Some((read(self, index)?, false)),
            Kind::FunctionOpen(_) if mark.starts_line || self.has_parameter_at_once(mark) => Some((read(self, index)?, true)),
            _ => None,
        }
    }

    /// The last of several `<tool_call>` with nothing but white space between.
    fn last_repeat(&self, first: usize) -> usize {
        let mut last = first;
        while let Some(Next::Mark(next)) = self.marks.get(last).map(|mark| mark.next) {
            if self.marks.kind(Next::Mark(next)) != Some(Kind::WrapperOpen) {
                break;
            }
            last = next;
        }
        last
    }

    fn is_json(&self, next: Next, behind: usize) -> bool {
        let place = self.marks.skip_space(behind);
        next == Next::Text && matches!(self.marks.text.as_bytes().get(place), Some(b'{' | b'['))
    }

    fn has_parameter_at_once(&self, mark: &Mark<'t>) -> bool {
        matches!(self.marks.kind(mark.next), Some(Kind::ParameterOpen(_) | Kind::ParameterBroken))
    }

    /// Whether a `<tool_call>` starts its line and is alone on it or closed at its end.
    fn is_lone_wrapper(&self, index: usize) -> bool {
        let Some(mark) = self.marks.get(index).filter(|mark| mark.starts_line) else { return false };
        let rest = self.marks.list.get(index + 1..).unwrap_or_default();
        let last = rest.iter().take_while(|other| other.line == mark.line).last();
        mark.ends_line || last.is_some_and(|last| last.ends_line && last.kind == Kind::WrapperClose)
    }
}
