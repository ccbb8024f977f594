//! Words, times and addresses as pages show them.
//!
//! What must hold: whatever a person, a repository or a model wrote is text on a page, in an element and in an attribute alike, and all of it is
//! seen: the escaper of every template does both, so that no template can forget it.

use std::fmt::{self, Write};

use askama::filters::Escaper;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use crate::domain::hidden_shown;

/// The escaper of the templates.
#[derive(Debug, Clone, Copy)]
pub struct Visible;

impl Escaper for Visible {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> fmt::Result {
        for letter in hidden_shown(&text.replace("\r\n", "\n")).chars() {
            match letter {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                other => out.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// An address that a page may link to: http or https, and nothing else; none for all others.
pub(super) fn link(address: &str) -> Option<String> {
    let url = url::Url::parse(address).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()).then(|| url.to_string())
}

/// A moment, for machines and for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// As RFC 3339.
    pub exact: String,
    /// As people read it.
    pub shown: String,
}

impl Moment {
    /// A time in milliseconds since the Unix epoch.
    pub(super) fn of(ms: i64) -> Self {
        let Ok(time) = OffsetDateTime::from_unix_timestamp(ms.div_euclid(1000)) else { return Self::default() };
        let shown = time.format(format_description!("[year]-[month]-[day] [hour]:[minute]"));
        Self { exact: time.format(&Rfc3339).unwrap_or_default(), shown: shown.unwrap_or_default() }
    }
}

/// A length of time in milliseconds, in two words at most.
pub(super) fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// The same where a fraction of a second counts.
pub(super) fn short_span(ms: i64) -> String {
    match ms.max(0) {
        ms @ 0..1000 => format!("{ms} ms"),
        ms @ 1000..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        ms => span(ms),
    }
}

/// A number with its thousands apart.
pub(super) fn number(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// How a run stands in one or two words.
pub(super) fn outcome_words(state: &str, outcome: Option<&str>) -> &'static str {
    match (state, outcome) {
        ("queued", _) => "waiting",
        ("running", _) => "running",
        (_, Some("proposed")) => "draft opened",
        (_, Some("no_patch")) => "no patch",
        (_, Some("refused")) => "refused",
        (_, Some("cancelled")) => "stopped",
        (_, Some("abandoned")) => "given up",
        _ => "ended",
    }
}

/// The class that colours it.
pub(super) fn outcome_class(state: &str, outcome: Option<&str>) -> &'static str {
    match (state, outcome) {
        ("queued", _) => "waits",
        ("running", _) => "runs",
        (_, Some("proposed")) => "good",
        (_, Some("refused")) => "warn",
        (_, Some("abandoned")) => "bad",
        _ => "plain",
    }
}

/// What an outcome means, for who has never seen one.
pub(super) fn outcome_sentence(state: &str, outcome: Option<&str>) -> &'static str {
    match (state, outcome) {
        ("queued", _) => "It waits for its turn.",
        ("running", _) => "The bot works on it now.",
        (_, Some("proposed")) => "The bot opened a draft. A person must review it before anything is merged.",
        (_, Some("no_patch")) => "The agent ended without a change to propose.",
        (_, Some("refused")) => "A rule said no, so nothing was proposed.",
        (_, Some("cancelled")) => "Somebody or something stopped it.",
        (_, Some("abandoned")) => "It was given up for a fault that is not the model's.",
        _ => "It has ended.",
    }
}

/// A stable name as words.
pub(super) fn words(name: &str) -> String {
    name.replace(['_', '-'], " ")
}

/// A text of at most this many characters; what is cut off is said.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}\n… cut here; the whole is in the run's export", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use askama::filters::Escaper as _;

    use super::{Moment, Visible, link, number, short_span, span};

    #[test]
    fn nothing_acts_in_an_element_or_an_attribute_and_nothing_is_unseen() {
        let mut out = String::new();
        Visible.write_escaped_str(&mut out, "<b a=\"x\" b='y'>&\u{202e}\u{1b}[2J\r\nz").unwrap();
        assert_eq!(out, "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;⟨U+202E⟩⟨U+001B⟩[2J\nz");
    }

    #[test]
    fn only_pages_of_the_web_are_linked() {
        assert_eq!(link("https://h/a?b#c").as_deref(), Some("https://h/a?b#c"));
        for wrong in ["javascript:alert(1)", "data:text/html,x", "//h/a", "/a", "", "ftp://h/", " java\nscript:alert(1)", "https://u:p@h/"]
        {
            assert_eq!(link(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_and_numbers_are_short() {
        assert_eq!(
            (span(59_999), span(61_000), span(7_260_000), span(90_000_000)),
            ("59 s".into(), "1 min 1 s".into(), "2 h 1 min".into(), "1 d 1 h".into())
        );
        assert_eq!((short_span(1_234), number(1_234_567), number(-12)), ("1.2 s".into(), "1\u{202f}234\u{202f}567".into(), "-12".into()));
        assert_eq!(Moment::of(0).shown, "1970-01-01 00:00");
        assert_eq!(Moment::of(i64::MAX), Moment::default());
    }
}
