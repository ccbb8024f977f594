//! What may stand in a span.

use std::borrow::Cow;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};

/// No name is longer, in bytes.
const LONGEST: usize = 100;

/// A word of this program, a name, a number, yes or no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A word of this program, or a name that could pass for one.
    Word(Cow<'static, str>),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

impl Value {
    /// A name that a machine or the operator gave: an id, a model. In place of what does not look like one stands `other`: a sentence, an address with
    /// a password in it, or anything long can't get through by mistake.
    #[must_use]
    pub fn name(text: &str) -> Self {
        Self::Word(if is_name(text) { Cow::Owned(text.to_owned()) } else { OTHER.into() })
    }

    /// The one of these words that it is.
    #[must_use]
    pub fn one_of(words: &[&'static str], text: &str) -> Self {
        Self::Word(words.iter().find(|word| **word == text).copied().unwrap_or(OTHER).into())
    }

    pub(super) fn under(self, key: &'static str) -> KeyValue {
        pair(
            key,
            match self {
                Self::Word(word) => any_value::Value::StringValue(word.into_owned()),
                Self::Number(number) => any_value::Value::IntValue(number),
                Self::Flag(flag) => any_value::Value::BoolValue(flag),
            },
        )
    }
}

pub(super) fn pair(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

const OTHER: &str = "other";

fn is_name(text: &str) -> bool {
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:+".contains(&byte);
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(may_stand)
}

impl From<&'static str> for Value {
    fn from(word: &'static str) -> Self {
        Self::Word(word.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Value};

    #[test]
    fn what_is_no_name_does_not_get_through() {
        for name in ["0193f0c2", "here/17", "microsoft/FrogNano-4B-2609", "tests-regressed", "http_2xx"] {
            assert_eq!(Value::name(name), Value::Word(name.into()));
        }
        let long = "a".repeat(LONGEST + 1);
        for other in ["", "a sentence", "https://user:secret@host", "line\nend", "größe", "<b>", "{}", "a\u{202e}b", &long] {
            assert_eq!(Value::name(other), Value::Word("other".into()), "{other:?}");
        }
    }

    #[test]
    fn of_a_list_of_words_only_these_get_through() {
        assert_eq!(Value::one_of(&["stop", "length"], "length"), Value::Word("length".into()));
        assert_eq!(Value::one_of(&["stop", "length"], "Stop"), Value::Word("other".into()));
    }

    #[test]
    fn a_number_beyond_the_wire_is_the_largest() {
        assert_eq!(Value::from(u64::MAX), Value::Number(i64::MAX));
    }
}
