//! SHA-256 over bytes that everybody writes the same way.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256, written in lower-case hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// What stands before the first row.
    pub const NOTHING: Self = Self([0; 32]);

    /// Of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of a value in its canonical form (RFC 8785).
    ///
    /// # Errors
    /// When the value can't be written as JSON.
    pub fn of_value(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self::of(&canonical(value)?))
    }

    /// Reads 64 lower-case hexadecimal digits; none for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let bytes = if lower { hex::decode(text).ok()? } else { return None };
        Some(Self(bytes.try_into().ok()?))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::encode(self.0))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a SHA-256 is 64 lower-case hexadecimal digits"))
    }
}

/// A value as everybody writes it: RFC 8785.
///
/// # Errors
/// When the value can't be written as JSON.
pub fn canonical(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    serde_json_canonicalizer::to_vec(value)
}

/// Whether these bytes are the canonical form of what they say.
#[must_use]
pub fn is_canonical(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(bytes).ok().and_then(|value| canonical(&value).ok()).is_some_and(|same| same == bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_canonical_form_sorts_names_by_their_utf_16_and_writes_numbers_in_one_way() {
        let value = json!({"b": 1.0, "a": [true, null], "\u{20ac}": "\u{0}\n\"", "\u{1f600}": 1e21, "\u{fb33}": 0.1});
        let text = String::from_utf8(canonical(&value).unwrap()).unwrap();
        assert_eq!(text, "{\"a\":[true,null],\"b\":1,\"\u{20ac}\":\"\\u0000\\n\\\"\",\"\u{1f600}\":1e+21,\"\u{fb33}\":0.1}");
        assert!(is_canonical(text.as_bytes()) && !is_canonical(format!("{text} ").as_bytes()) && !is_canonical(b"{\"b\":1,\"a\":2}"));
    }

    #[test]
    fn a_digest_is_read_in_one_form_only() {
        let text = Digest::of(b"").to_string();
        assert_eq!(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(Digest::parse(&text), Some(Digest::of(b"")));
        assert!(Digest::parse(&text.to_uppercase()).is_none() && Digest::parse(&text[2..]).is_none() && Digest::parse("").is_none());
    }
}
