//! One tag: what stands at a `<`. Any ASCII case, blanks around `=` and before `>`, names with or without quotes.

/// A name is no longer.
const LONGEST_NAME: usize = 64;

/// What a mark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'t> {
    /// `<tool_call>`
    WrapperOpen,
    /// `</tool_call>`
    WrapperClose,
    /// `<function=NAME>`
    FunctionOpen(&'t str),
    /// `<function=NAME` without its `>`; the name is empty where none can be read.
    FunctionBroken(&'t str),
    /// `</function>`
    FunctionClose,
    /// `</function_invocation>`
    InvocationClose,
    /// `<parameter=KEY>`
    ParameterOpen(&'t str),
    /// `<parameter=` and no key with a `>`.
    ParameterBroken,
    /// `</parameter>`
    ParameterClose,
    /// `<think>`
    ThinkOpen,
    /// `</think>`
    ThinkClose,
    /// `&lt;tool_call&gt;` or `&lt;function=` at the start of a line.
    Escaped,
    /// A run of backticks, or of three or more tildes at the start of a line.
    Ticks(Ticks),
}

/// A run of backticks or tildes; the partners are indices of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticks {
    /// The fence that this run is or could be.
    pub fence: Fence,
    /// Where a run of the same length closes it on its line.
    pub closed_inline: Option<usize>,
    /// Where the fence that it opens is closed.
    pub closed_below: Option<usize>,
}

/// What a closing fence must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    pub letter: u8,
    pub length: usize,
}

impl Kind<'_> {
    /// Whether it ends a part of a call.
    pub const fn is_closer(self) -> bool {
        matches!(self, Self::ParameterClose | Self::FunctionClose | Self::WrapperClose | Self::InvocationClose)
    }

    /// Whether it shows a call, whatever comes of it.
    pub const fn shows_a_call(self) -> bool {
        matches!(self, Self::WrapperOpen | Self::FunctionOpen(_))
    }
}

/// The tag at this `<` with its end.
pub(super) fn tag_at(text: &str, start: usize) -> Option<(Kind<'_>, usize)> {
    let after = start + 1;
    if let Some(after) = word(text, after, "/") {
        let closers = [
            ("tool_call", Kind::WrapperClose),
            ("function_invocation", Kind::InvocationClose),
            ("function", Kind::FunctionClose),
            ("parameter", Kind::ParameterClose),
            ("think", Kind::ThinkClose),
        ];
        return closers.into_iter().find_map(|(name, kind)| Some((kind, angle(text, word(text, after, name)?)?)));
    }
    let plain = [("tool_call", Kind::WrapperOpen), ("think", Kind::ThinkOpen)];
    if let Some(tag) = plain.into_iter().find_map(|(name, kind)| Some((kind, angle(text, word(text, after, name)?)?))) {
        return Some(tag);
    }
    let is_function = word(text, after, "function").is_some();
    let after_word = word(text, after, if is_function { "function" } else { "parameter" })?;
    let after_equals = word(text, blanks(text, after_word), "=")?;
    let (name, after_name, is_whole) = name_at(text, after_equals);
    let end = if is_whole { angle(text, after_name) } else { None };
    Some(match (is_function, end) {
        (true, Some(end)) => (Kind::FunctionOpen(name), end),
        (true, None) => (Kind::FunctionBroken(name), after_name),
        (false, Some(end)) => (Kind::ParameterOpen(name), end),
        (false, None) => (Kind::ParameterBroken, after_equals),
    })
}

/// Whether an escaped tag stands at this `&`.
pub(super) fn escaped_at(text: &str, start: usize) -> Option<usize> {
    let after = word(text, start, "&lt;")?;
    word(text, after, "tool_call&gt;").or_else(|| word(text, blanks(text, word(text, after, "function")?), "="))
}

/// The name behind a `=`, where it ends, and whether it is a whole one.
fn name_at(text: &str, after_equals: usize) -> (&str, usize, bool) {
    let start = blanks(text, after_equals);
    let quote = text.as_bytes().get(start).copied().filter(|byte| matches!(byte, b'"' | b'\''));
    let first = blanks(text, start + usize::from(quote.is_some()));
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    if !text.as_bytes().get(first).copied().is_some_and(is_first) {
        return ("", after_equals, false);
    }
    let is_in_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_.-/: \t".contains(*byte);
    let length = text.as_bytes().iter().skip(first).take_while(is_in_name).count();
    let end = first + length;
    let name = text.get(first..end).unwrap_or_default().trim_ascii_end();
    let is_short = name.len() <= LONGEST_NAME;
    match quote {
        None => (name, end, is_short),
        Some(quote) if text.as_bytes().get(end) == Some(&quote) => (name, end + 1, is_short),
        Some(_) => (name, end, false),
    }
}

/// Behind this word, in any case.
fn word(text: &str, start: usize, word: &str) -> Option<usize> {
    let end = start + word.len();
    text.as_bytes().get(start..end).filter(|found| found.eq_ignore_ascii_case(word.as_bytes())).map(|_| end)
}

/// Behind the `>` that follows, blanks allowed.
fn angle(text: &str, start: usize) -> Option<usize> {
    word(text, blanks(text, start), ">")
}

fn blanks(text: &str, start: usize) -> usize {
    start + text.as_bytes().iter().skip(start).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}
