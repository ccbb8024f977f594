//! The marks of a text: every tag, backtick run and fence, in order, each with what follows it.
//!
//! One pass over the text finds them, one from the last to the first tells of each what follows. All later reading walks over marks and never
//! over text again, which keeps it linear.

use std::collections::HashMap;

use super::tag::{Fence, Kind, Ticks, escaped_at, tag_at};

/// A place of the text that may mean something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark<'t> {
    pub kind: Kind<'t>,
    pub start: usize,
    pub end: usize,
    /// The number of its line.
    pub line: usize,
    /// Only blanks stand before it on its line.
    pub starts_line: bool,
    /// Only blanks stand behind it on its line.
    pub ends_line: bool,
    /// What follows, white space skipped.
    pub next: Next,
    /// The closers that follow, white space skipped.
    pub closers: Closers,
    /// The first `</parameter>` behind it on its line.
    pub closed_on_line: Option<usize>,
}

/// What comes next when white space is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The end of the text.
    End,
    /// Something that is no mark.
    Text,
    /// The mark of this index.
    Mark(usize),
}

/// A run of closers with nothing but white space in between.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closers {
    /// The last of them; none for an empty run.
    pub last: Option<usize>,
    /// A `</parameter>` is among them.
    pub has_parameter: bool,
    /// What follows the run.
    pub next: Next,
}

/// A text and its marks.
#[derive(Debug)]
pub(super) struct Marks<'t> {
    pub text: &'t str,
    pub list: Vec<Mark<'t>>,
    /// The last closer of the text: no value that begins behind it has an end.
    pub last_closer: Option<usize>,
}

impl<'t> Marks<'t> {
    pub fn of(text: &'t str) -> Self {
        let mut marks = Self { text, list: Vec::new(), last_closer: None };
        marks.find();
        marks.last_closer = marks.list.iter().rposition(|mark| mark.kind.is_closer());
        marks.tell_what_follows();
        marks.pair_ticks();
        marks
    }

    pub fn get(&self, index: usize) -> Option<&Mark<'t>> {
        self.list.get(index)
    }

    /// The kind of what comes next, where that is a mark.
    pub fn kind(&self, next: Next) -> Option<Kind<'t>> {
        if let Next::Mark(index) = next { self.get(index).map(|mark| mark.kind) } else { None }
    }

    /// The index of the first mark from this place of the text on.
    pub fn from(&self, place: usize) -> usize {
        self.list.partition_point(|mark| mark.start < place)
    }

    /// What comes next at a place of the text that is in no mark.
    pub fn next_at(&self, place: usize) -> Next {
        let index = self.from(place);
        self.next_of(place, index)
    }

    /// Where the text goes on when white space is skipped.
    pub fn skip_space(&self, place: usize) -> usize {
        let rest = self.text.as_bytes().get(place..).unwrap_or_default();
        place + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    /// The text between two places.
    pub fn between(&self, start: usize, end: usize) -> &'t str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Whether it stands right behind a `>`.
    pub fn follows_angle(&self, mark: &Mark<'t>) -> bool {
        mark.start > 0 && self.text.as_bytes().get(mark.start - 1) == Some(&b'>')
    }

    /// Whether a mark closes this fence.
    pub fn closes(&self, index: usize, fence: Fence) -> bool {
        self.get(index).is_some_and(|mark| match mark.kind {
            Kind::Ticks(ticks) => {
                let same = ticks.fence.letter == fence.letter && ticks.fence.length >= fence.length;
                same && mark.starts_line && mark.ends_line
            }
            _ => false,
        })
    }

    /// How many of these marks show a call.
    pub fn count_calls_shown(&self, from: usize, to: usize) -> u64 {
        self.list.get(from..to).unwrap_or_default().iter().filter(|mark| mark.kind.shows_a_call()).count() as u64
    }

    fn find(&mut self) {
        let bytes = self.text.as_bytes();
        let (mut place, mut line, mut starts_line) = (0, 0, true);
        while let Some(byte) = bytes.get(place) {
            let found = match byte {
                b'<' => tag_at(self.text, place),
                b'&' if starts_line => escaped_at(self.text, place).map(|end| (Kind::Escaped, end)),
                b'`' => Some(run_of(bytes, place, b'`')),
                b'~' if starts_line => Some(run_of(bytes, place, b'~')).filter(|(_, end)| end - place >= 3),
                _ => None,
            };
            if let Some((kind, end)) = found {
                self.push(kind, place, end, line, starts_line);
                (place, starts_line) = (end, false);
                continue;
            }
            match byte {
                b'\n' => (line, starts_line) = (line + 1, true),
                b' ' | b'\t' | b'\r' => {}
                _ => starts_line = false,
            }
            place += 1;
        }
    }

    fn push(&mut self, kind: Kind<'t>, start: usize, end: usize, line: usize, starts_line: bool) {
        let rest = self.text.as_bytes().get(end..).unwrap_or_default();
        let after = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
        let ends_line = matches!(after, None | Some(b'\n'));
        let closers = Closers { last: None, has_parameter: false, next: Next::Text };
        self.list.push(Mark { kind, start, end, line, starts_line, ends_line, next: Next::Text, closers, closed_on_line: None });
    }

    fn next_of(&self, place: usize, index: usize) -> Next {
        let place = self.skip_space(place);
        match self.get(index) {
            Some(mark) if mark.start == place => Next::Mark(index),
            _ if place >= self.text.len() => Next::End,
            _ => Next::Text,
        }
    }

    fn tell_what_follows(&mut self) {
        let mut parameter_close: Option<(usize, usize)> = None;
        for index in (0..self.list.len()).rev() {
            let Some(mark) = self.get(index).copied() else { continue };
            let next = self.next_of(mark.end, index + 1);
            let closers = self.closers_from(next);
            let closed_on_line = parameter_close.filter(|(_, line)| *line == mark.line).map(|(at, _)| at);
            if let Some(mark) = self.list.get_mut(index) {
                (mark.next, mark.closers, mark.closed_on_line) = (next, closers, closed_on_line);
            }
            if mark.kind == Kind::ParameterClose {
                parameter_close = Some((index, mark.line));
            }
        }
    }

    /// The run of closers that begins with what comes next.
    pub fn closers_from(&self, next: Next) -> Closers {
        match next {
            Next::Mark(index) => match self.get(index) {
                Some(mark) if mark.kind.is_closer() => Closers {
                    last: mark.closers.last.or(Some(index)),
                    has_parameter: mark.kind == Kind::ParameterClose || mark.closers.has_parameter,
                    next: mark.closers.next,
                },
                _ => Closers { last: None, has_parameter: false, next },
            },
            _ => Closers { last: None, has_parameter: false, next },
        }
    }

    /// Finds each run's partners: on its line, and for fences on the first line below that closes them.
    fn pair_ticks(&mut self) {
        let mut inline: HashMap<usize, usize> = HashMap::new();
        let mut below: HashMap<u8, Vec<(usize, usize)>> = HashMap::new();
        let mut line = None;
        for index in (0..self.list.len()).rev() {
            let Some(mark) = self.get(index).copied() else { continue };
            let Kind::Ticks(Ticks { fence, .. }) = mark.kind else { continue };
            if line != Some(mark.line) {
                inline.clear();
                line = Some(mark.line);
            }
            let is_fence = mark.starts_line && fence.length >= 3;
            let may_open = is_fence && (fence.letter == b'~' || inline.is_empty());
            let candidates = below.entry(fence.letter).or_default();
            let fitting = candidates.partition_point(|(length, _)| *length >= fence.length);
            let closed_below = if may_open { fitting.checked_sub(1).and_then(|at| candidates.get(at)).map(|(_, at)| *at) } else { None };
            if is_fence && mark.ends_line {
                while candidates.last().is_some_and(|(length, _)| *length <= fence.length) {
                    candidates.pop();
                }
                candidates.push((fence.length, index));
            }
            let closed_inline = if fence.letter == b'`' { inline.insert(fence.length, index) } else { None };
            if let Some(mark) = self.list.get_mut(index) {
                mark.kind = Kind::Ticks(Ticks { fence, closed_inline, closed_below });
            }
        }
    }
}

fn run_of(bytes: &[u8], start: usize, letter: u8) -> (Kind<'static>, usize) {
    let length = bytes.iter().skip(start).take_while(|byte| **byte == letter).count();
    (Kind::Ticks(Ticks { fence: Fence { letter, length }, closed_inline: None, closed_below: None }), start + length)
}
