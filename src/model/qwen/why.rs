//! What was not understood, in words for the model.

use std::fmt;

/// Parts of the model's own text are cut to so many characters.
const EXCERPT_CHARS: usize = 60;

/// Why an attempt is no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why<'t> {
    /// A value without an end.
    OpenValue { name: &'t str, key: &'t str },
    /// A function without its closer.
    Unclosed { name: &'t str },
    /// Text where only tags may stand.
    Junk { name: &'t str, text: &'t str },
    /// JSON that can't be parsed.
    Json(String),
    /// JSON that is no call.
    NotACall,
    /// Text behind the JSON.
    JunkBehindJson { text: &'t str },
    /// A wrapper without a function in it.
    NoFunction,
    /// A function's tag without its `>`.
    HalfTag { name: &'t str },
    /// A parameter outside a function.
    LoneParameter { key: &'t str },
    /// Closing tags without a call.
    LoneClosers,
    /// Tags written with entities.
    Escaped,
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenValue { name, key } => {
                write!(out, "parameter {key} of {name} has no clear end; close it with </parameter> and </function>")
            }
            Self::Unclosed { name } => write!(out, "function {name} has no </function>"),
            Self::Junk { name, text } => write!(out, "function {name} has text between its tags: '{}'", excerpt(text)),
            Self::Json(error) => write!(out, "invalid JSON in <tool_call>: {error}"),
            Self::NotACall => write!(out, "the JSON in <tool_call> has no \"name\" with \"arguments\""),
            Self::JunkBehindJson { text } => write!(out, "text behind the JSON in <tool_call>: '{}'", excerpt(text)),
            Self::NoFunction => write!(out, "<tool_call> has no <function=NAME>"),
            Self::HalfTag { name } => write!(out, "the tag <function={name} has no '>'"),
            Self::LoneParameter { key } => write!(out, "parameter {key} stands outside of <function=NAME>"),
            Self::LoneClosers => write!(out, "closing tags without <tool_call> and <function=NAME>"),
            Self::Escaped => write!(out, "the tags are written with entities like &lt; instead of <"),
        }
    }
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
