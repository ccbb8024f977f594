//! How full the context is: the server's own count where it can be believed, an estimate for what came after it.

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::Tokenizer;
use crate::model::Usage;

/// Kept free below the limit when the cap on generated tokens is lowered: the template's own words around a message.
const MARGIN: u64 = 32;
/// Of a part that is only estimated a quarter may be missing, up to so many tokens.
const LARGEST_DOUBT: u64 = 2_048;

/// The account of one conversation, in tokens.
#[derive(Debug, Clone)]
pub(super) struct Context {
    limit: u64,
    tokenizer: Option<Tokenizer>,
    /// Bytes of the compact JSON of everything that is sent: bounds what a count can truly be.
    bytes: u64,
    tokens: u64,
    /// How much of `tokens` is an estimate.
    estimated: u64,
    /// What `tokens` would be if nothing but the tokenizer had counted; unused without one.
    own_count: u64,
}

impl Context {
    /// The account of a conversation whose tokens were counted before, or, for none, are estimated.
    pub fn of(messages: &[Value], tools: &Value, counted: u64, limit: u64, tokenizer: Option<Tokenizer>) -> Self {
        let bytes = messages.iter().map(json_bytes).sum::<u64>() + json_bytes(tools);
        let mut context = Self { limit, tokenizer, bytes, tokens: counted, estimated: 0, own_count: counted };
        if counted == 0 {
            context.own_count = messages.iter().chain([tools]).filter_map(|value| context.count(value)).sum();
            context.estimated = context.estimate();
            context.tokens = context.estimated;
        }
        context
    }

    /// By the tokenizer, where there is one.
    fn count(&self, value: &Value) -> Option<u64> {
        self.tokenizer.as_ref().map(|tokenizer| tokenizer.count(&value.to_string()))
    }

    /// The estimate of the whole.
    fn estimate(&self) -> u64 {
        if self.tokenizer.is_some() { self.own_count } else { self.bytes.div_ceil(4) }
    }

    /// Takes a turn into the account: replaces the count by the server's, or the estimate of the whole where that can't be believed.
    pub fn add_turn(&mut self, assistant: &Value, usage: Option<Usage>) {
        self.bytes += json_bytes(assistant);
        self.own_count += self.count(assistant).unwrap_or(0);
        let counted = usage.map(|usage| usage.total_tokens).filter(|total| self.is_plausible(*total));
        self.tokens = counted.unwrap_or_else(|| self.estimate());
        self.estimated = if counted.is_some() { 0 } else { self.tokens };
    }

    /// Adds the results of a turn's calls, by the tokenizer or estimated from their size.
    pub fn add_results(&mut self, results: &[Value]) {
        let bytes: u64 = results.iter().map(json_bytes).sum();
        let own_count: u64 = results.iter().filter_map(|result| self.count(result)).sum();
        let estimate = if self.tokenizer.is_some() { own_count } else { estimate_list(bytes, results.len()) };
        self.bytes += bytes;
        self.own_count += own_count;
        self.tokens += estimate;
        self.estimated += estimate;
    }

    /// The tokens of the conversation so far.
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Nothing more fits.
    pub const fn is_full(&self) -> bool {
        self.tokens >= self.limit
    }

    /// The cap on generated tokens for the next turn: the given one, lowered near the limit to what still fits (SGLang refuses a request
    /// whose prompt and cap together are above it). At least 1.
    pub fn cap(&self, cap: u64) -> u64 {
        let room = self.limit.saturating_sub(self.tokens);
        let doubt = MARGIN + (self.estimated / 4).min(LARGEST_DOUBT);
        cap.min(room.saturating_sub(doubt).max(room.min(MARGIN))).max(1)
    }

    /// A count far below the size of the conversation is wrong (no tokenizer puts 64 bytes in each token of a whole conversation); so is
    /// one that is above twice the limit and above one token a byte (a server that counts several requests together).
    fn is_plausible(&self, total: u64) -> bool {
        total > 0 && total.saturating_mul(64) >= self.bytes && (total <= self.limit.saturating_mul(2) || total <= self.bytes)
    }
}

/// A list's tokens as the reference estimates them: UTF-8 bytes of its compact JSON by four, rounded up.
fn estimate_list(bytes: u64, elements: usize) -> u64 {
    match u64::try_from(elements).unwrap_or(u64::MAX) {
        0 => 0,
        elements => (bytes + elements + 1).div_ceil(4),
    }
}

/// How many bytes the compact JSON of a value has.
fn json_bytes(value: &Value) -> u64 {
    struct Count(u64);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match value.serialize(&mut serde_json::Serializer::new(&mut count)) {
        Ok(()) => count.0,
        Err(_) => u64::MAX / 2,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Context, json_bytes};
    use crate::model::Usage;

    fn usage(total: u64) -> Option<Usage> {
        Some(Usage { prompt_tokens: total, completion_tokens: 0, total_tokens: total })
    }

    fn conversation(limit: u64) -> Context {
        Context::of(&[json!({"role": "user", "content": "x".repeat(4_000)})], &json!([]), 0, limit, None)
    }

    #[test]
    fn json_is_measured_as_it_would_be_written() {
        for value in [json!(null), json!({"a": "ü\n\"", "b": [1, 2.5]}), json!("\u{1}")] {
            assert_eq!(json_bytes(&value), value.to_string().len() as u64);
        }
    }

    #[test]
    fn the_server_s_count_is_taken_and_results_are_added_by_a_quarter_of_their_bytes() {
        let mut context = conversation(131_072);
        context.add_turn(&json!({"role": "assistant"}), usage(1_500));
        assert_eq!(context.tokens(), 1_500);
        let results = [json!({"role": "tool", "content": "ü"}), json!({"role": "tool", "content": "b"})];
        context.add_results(&results);
        assert_eq!(context.tokens(), 1_500 + (Value::from(results.to_vec()).to_string().len() as u64).div_ceil(4));
        context.add_results(&[]);
        assert!(context.tokens() < 1_520);
    }

    #[test]
    fn missing_and_impossible_counts_give_way_to_the_estimate() {
        for lie in [None, usage(0), usage(10), usage(1_000_000_000)] {
            let mut context = conversation(131_072);
            context.add_turn(&json!({"role": "assistant"}), lie);
            assert!((1_000..1_100).contains(&context.tokens()), "{lie:?}: {}", context.tokens());
        }
    }

    #[test]
    fn the_cap_is_lowered_near_the_limit_only() {
        let mut context = conversation(131_072);
        assert_eq!(context.cap(8_192), 8_192);
        for (total, cap) in [(122_848, 8_192), (122_849, 8_191), (131_000, 40), (131_060, 12), (131_071, 1), (131_072, 1)] {
            context.add_turn(&json!({}), usage(total));
            assert_eq!(context.cap(8_192), cap, "{total}");
            assert_eq!(context.is_full(), total >= 131_072);
        }
        context.add_turn(&json!({}), usage(122_000));
        context.add_results(&[json!("x".repeat(3_000))]);
        let room = 131_072 - context.tokens();
        assert!(context.cap(8_192) + 32 + 150 < room, "an estimate is not trusted to the last token");
    }
}
