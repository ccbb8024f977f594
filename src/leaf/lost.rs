//! Text that the model generated and its server did not pass on: a parser that drops what it can't read leaves nothing else to tell it by than
//! the count of generated tokens (toolcalls.md, "The hole no client can close").
//!
//! What must hold: a turn whose text arrived whole is not counted, however dense its text; so the tokens of a text are estimated from above, and
//! a small gap says nothing.

use super::trajectory::TurnReading;
use crate::model::Turn;

/// Fewer tokens than these are never counted as lost.
const SMALLEST: u64 = 64;
/// Nor is a gap below this share of the turn: the estimate may be wrong by so much.
const SMALLEST_SHARE: u64 = 3;
/// What surrounds a turn's texts and is not in them: `<think>`, `</think>`, the end token, line ends.
const FRAME_OF_A_TURN: u64 = 8;
/// The tags around a call and its parameters.
const FRAME_OF_A_CALL: u64 = 48;

/// How many of a turn's generated tokens stand for no text that arrived; 0 where the gap is too small to say so, or nothing was counted.
pub(super) fn lost_tokens(turn: &Turn) -> u64 {
    let Some(usage) = turn.usage else { return 0 };
    let texts = [&turn.content, &turn.reasoning].into_iter();
    let texts = texts.chain(turn.tool_calls.iter().flat_map(|call| [&call.name, &call.arguments]));
    let arrived = texts.map(|text| most_tokens(text)).sum::<u64>() + FRAME_OF_A_TURN + FRAME_OF_A_CALL * turn.tool_calls.len() as u64;
    let gap = usage.completion_tokens.saturating_sub(arrived);
    if gap >= SMALLEST && gap.saturating_mul(SMALLEST_SHARE) >= usage.completion_tokens { gap } else { 0 }
}

/// Counts a turn that lost text.
pub(super) fn tell_of(model: &str, reading: &TurnReading) {
    if reading.lost_tokens > 0 {
        tracing::warn!(
            monotonic_counter.turns_with_lost_text = 1_u64,
            monotonic_counter.lost_tokens = reading.lost_tokens,
            model,
            "the model's server counted far more generated tokens than the text that it sent can have"
        );
    }
}

/// More tokens than a text is likely to have: digits and signs have one each, letters and blanks share one by three, other scripts by two bytes.
fn most_tokens(text: &str) -> u64 {
    let (mut alone, mut letters, mut others) = (0, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b' ' | b'\t' | b'\n' | b'\r' => letters += 1,
            0x80.. => others += 1,
            _ => alone += 1,
        }
    }
    alone + u64::div_ceil(letters, 3) + u64::div_ceil(others, 2)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::lost_tokens;
    use crate::model::{ToolCall, Turn, Usage};

    fn lost(content: &str, reasoning: &str, calls: &[(&str, &str)], completion_tokens: u64) -> u64 {
        let call =
            |(name, arguments): &(&str, &str)| ToolCall { id: String::new(), name: (*name).to_owned(), arguments: (*arguments).to_owned() };
        lost_tokens(&Turn {
            content: content.to_owned(),
            reasoning: reasoning.to_owned(),
            tool_calls: calls.iter().map(call).collect(),
            finish_reason: String::new(),
            usage: Some(Usage { prompt_tokens: 1, completion_tokens, total_tokens: completion_tokens + 1 }),
            raw: Value::Null,
        })
    }

    #[test]
    fn a_turn_whose_text_did_not_arrive_is_counted() {
        assert_eq!(lost("", "", &[], 500), 492);
        assert_eq!(lost("I write it.", "", &[], 300), 287);
        let thinking = "The parser looks at each line of the file. ".repeat(10);
        assert!(lost("", &thinking, &[], 600) > 400, "a call of hundreds of tokens is missing behind the thinking");
        assert!(lost("", "", &[("Write", "{\"file_path\": \"a.py\", \"content\": \"half")], 2_000) > 1_900, "a value was cut");
    }

    #[test]
    fn small_gaps_say_nothing() {
        assert_eq!(lost("", "", &[], 71), 0);
        assert_eq!(lost("", "", &[], 72), 64);
        assert_eq!(lost(&"a".repeat(3 * 992), "", &[], 1_499), 0, "less than a third of the turn");
        assert_eq!(lost(&"a".repeat(3 * 992), "", &[], 1_500), 500);
    }

    #[test]
    fn text_that_arrived_whole_is_not_counted_however_dense() {
        for (text, tokens) in [
            ("0123456789".repeat(100), 1_000),
            ("{}[]();=>".repeat(100), 900),
            ("漢字仮名".repeat(100), 600),
            ("deadbeef".repeat(100), 400),
            ("word ".repeat(400), 400),
        ] {
            for frame in [0, 8] {
                assert_eq!(lost(&text, "", &[], tokens + frame), 0, "{text}");
                assert_eq!(lost("", &text, &[], tokens + frame), 0, "{text}");
            }
            assert_eq!(lost("", "", &[("Bash", &text)], tokens + 50), 0, "the call's tags are no lost text: {text}");
        }
    }

    #[test]
    fn nothing_is_said_of_a_turn_that_was_not_counted() {
        assert_eq!(lost("", "", &[], 0), 0);
        let turn = Turn {
            content: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            finish_reason: String::new(),
            usage: None,
            raw: Value::Null,
        };
        assert_eq!(lost_tokens(&turn), 0);
    }
}
