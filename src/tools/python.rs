//! CPython's ways with values, texts and errors, as far as they reach the model: `str`, `repr`, `int`, `float`, truth, and the words of exceptions.
//!
//! Source of the rules: the Python language and library reference; the vectors hold CPython's own answers.

use std::fmt::Write as _;
use std::io;

use serde_json::{Number, Value};

/// What a tool raises; the model sees `Name: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exception {
    name: &'static str,
    message: String,
}

impl Exception {
    /// `ValueError` with this message.
    pub(super) fn value(message: impl Into<String>) -> Self {
        Self { name: "ValueError", message: message.into() }
    }

    /// `TypeError` with this message.
    pub(super) fn type_error(message: impl Into<String>) -> Self {
        Self { name: "TypeError", message: message.into() }
    }

    /// Any other exception.
    pub(super) fn named(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, message: message.into() }
    }

    /// The exception that CPython raises for an error of the operating system, with the path that it names.
    pub(super) fn os(why: &io::Error, path: Option<&str>) -> Self {
        let Some(errno) = why.raw_os_error() else {
            return match why.kind() {
                // Rust refuses a path with a NUL before the system sees it.
                io::ErrorKind::InvalidInput => Self::value("embedded null byte"),
                _ => Self::named("OSError", why.to_string()),
            };
        };
        let words = io::Error::from_raw_os_error(errno).to_string();
        let words = words.split(" (os error").next().unwrap_or_default();
        let of = path.map(|path| format!(": {}", repr_str(path))).unwrap_or_default();
        Self { name: class_of(errno), message: format!("[Errno {errno}] {words}{of}") }
    }

    /// What the model sees.
    pub(super) fn observation(&self) -> String {
        format!("{}: {}", self.name, self.message)
    }
}

fn class_of(errno: i32) -> &'static str {
    use nix::libc::{
        EACCES, EAGAIN, EALREADY, ECHILD, ECONNABORTED, ECONNREFUSED, ECONNRESET, EEXIST, EINPROGRESS, EINTR, EISDIR, ENOENT, ENOTDIR,
        EPERM, EPIPE, ESHUTDOWN, ESRCH, ETIMEDOUT,
    };
    match errno {
        ENOENT => "FileNotFoundError",
        EEXIST => "FileExistsError",
        EISDIR => "IsADirectoryError",
        ENOTDIR => "NotADirectoryError",
        EACCES | EPERM => "PermissionError",
        EAGAIN | EALREADY | EINPROGRESS => "BlockingIOError",
        EPIPE | ESHUTDOWN => "BrokenPipeError",
        ECHILD => "ChildProcessError",
        ECONNABORTED => "ConnectionAbortedError",
        ECONNREFUSED => "ConnectionRefusedError",
        ECONNRESET => "ConnectionResetError",
        EINTR => "InterruptedError",
        ESRCH => "ProcessLookupError",
        ETIMEDOUT => "TimeoutError",
        _ => "OSError",
    }
}

/// Whether Python takes the value as true.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// `str(value)`.
pub(super) fn str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// `str(value or "")`, a missing value being None.
pub(super) fn str_or_empty(value: Option<&Value>) -> String {
    value.filter(|value| is_true(value)).map(str).unwrap_or_default()
}

/// `repr(value)`.
pub(super) fn repr(value: &Value) -> String {
    let mut text = String::new();
    push_repr(&mut text, value);
    text
}

fn push_repr(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("None"),
        Value::Bool(value) => text.push_str(if *value { "True" } else { "False" }),
        Value::Number(number) => text.push_str(&repr_number(number)),
        Value::String(value) => text.push_str(&repr_str(value)),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                push_repr(text, item);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                text.push_str(&repr_str(name));
                text.push_str(": ");
                push_repr(text, member);
            }
            text.push('}');
        }
    }
}

fn repr_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => repr_float(float),
        _ => number.to_string(),
    }
}

/// The shortest digits that give the number back, with an exponent below 1e-4 and from 1e16 on.
pub(super) fn repr_float(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if float == 0.0 || (-4..16).contains(&exponent) {
        let plain = format!("{float}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// `repr` of a text: single quotes unless only they occur in it; what is not printable is escaped.
pub(super) fn repr_str(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => out.extend(['\\', character]),
            _ if is_printable(character) => out.push(character),
            _ => {
                let code = u32::from(character);
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
    out
}

/// `str.isprintable` of one character. Rust's debug escapes follow the same categories; the letter before keeps combining marks out of its exception.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    let mut pair = [0; 5];
    pair[0] = b'a';
    let size = 1 + character.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..size]).is_ok_and(|pair| pair.escape_debug().count() == 2)
}

/// `int(value)`, saturating where Python's goes on.
///
/// # Errors
/// As Python: `ValueError` for a text that is no number, `TypeError` for a list or an object.
pub(super) fn int(value: &Value) -> Result<i64, Exception> {
    match value {
        Value::Bool(value) => Ok(i64::from(*value)),
        #[expect(clippy::cast_possible_truncation, reason = "a cast saturates, and cuts towards zero as int() does")]
        Value::Number(number) => Ok(number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64)),
        Value::String(text) => int_of_text(text),
        other => Err(Exception::type_error(format!(
            "int() argument must be a string, a bytes-like object or a real number, not '{}'",
            type_name(other)
        ))),
    }
}

const MOST_DIGITS: usize = 4_300;

fn int_of_text(text: &str) -> Result<i64, Exception> {
    let invalid = || Exception::value(format!("invalid literal for int() with base 10: {}", repr_str(text)));
    let trimmed = trim_number(text);
    let (negative, digits) = match trimmed.strip_prefix(['+', '-']) {
        Some(digits) => (trimmed.starts_with('-'), digits),
        None => (false, trimmed),
    };
    let digits = digits_without_underscores(digits).ok_or_else(invalid)?;
    if digits.len() > MOST_DIGITS {
        let count = digits.len();
        return Err(Exception::value(format!(
            "Exceeds the limit ({MOST_DIGITS} digits) for integer string conversion: value has {count} digits; use sys.set_int_max_str_digits() to increase the limit"
        )));
    }
    let size = digits.bytes().fold(0_i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Ok(if negative { -size } else { size })
}

/// Without the space around a number; in a text of ASCII alone the separators from 0x1c to 0x1f don't count as such.
fn trim_number(text: &str) -> &str {
    text.trim_matches(|character| is_space(character) && !(text.is_ascii() && ('\x1c'..='\x1f').contains(&character)))
}

/// ASCII digits of a text of decimal digits of any script, single underscores between them being left out; none when it is something else.
fn digits_without_underscores(text: &str) -> Option<String> {
    let mut digits = String::with_capacity(text.len());
    let mut may_separate = false;
    for character in text.chars() {
        if character == '_' && may_separate {
            may_separate = false;
        } else {
            digits.push(decimal(character)?);
            may_separate = true;
        }
    }
    may_separate.then_some(digits)
}

/// The starts of the runs of ten decimal digits outside of ASCII that people write with.
const DIGIT_ZEROS: [u32; 36] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0,
    0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
];

fn decimal(character: char) -> Option<char> {
    if character.is_ascii_digit() {
        return Some(character);
    }
    let code = u32::from(character);
    let zero = DIGIT_ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&code))?;
    char::from_digit(code - zero, 10)
}

/// `float(value)`.
///
/// # Errors
/// As Python: `ValueError` for a text that is no number, `TypeError` for a list or an object.
pub(super) fn float(value: &Value) -> Result<f64, Exception> {
    match value {
        Value::Bool(value) => Ok(f64::from(u8::from(*value))),
        Value::Number(number) => Ok(number.as_f64().unwrap_or_default()),
        Value::String(text) => {
            float_of_text(text).ok_or_else(|| Exception::value(format!("could not convert string to float: {}", repr_str(text))))
        }
        other => Err(Exception::type_error(format!("float() argument must be a string or a real number, not '{}'", type_name(other)))),
    }
}

fn float_of_text(text: &str) -> Option<f64> {
    let mut plain = String::with_capacity(text.len());
    let mut before = None;
    let mut characters = trim_number(text).chars().peekable();
    while let Some(character) = characters.next() {
        let is_between_digits =
            before.is_some_and(|before| decimal(before).is_some()) && characters.peek().is_some_and(|next| decimal(*next).is_some());
        match character {
            '_' if is_between_digits => {}
            _ => plain.push(decimal(character).unwrap_or(character)),
        }
        before = Some(character);
    }
    plain.parse().ok()
}

/// Python's whitespace: Unicode's, and the separators of files, groups, records and units.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}
