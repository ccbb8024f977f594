//! Where thinking ends and the answer begins, when a server left both in one text: the template's own split.

use super::marks::{Mark, Marks};
use super::scan::scan;
use super::tag::Kind;
use super::tools::Tools;

const END_TOKENS: [&str; 2] = ["<|im_end|>", "<|endoftext|>"];

/// A text without the end tokens at its very end.
pub(super) fn without_end_tokens(text: &str) -> &str {
    let mut text = text;
    while let Some(rest) = END_TOKENS.iter().find_map(|token| text.trim_ascii_end().strip_suffix(token)) {
        text = rest;
    }
    text
}

/// Content and reasoning, split at the last `</think>` of the content that lies outside calls, attempts and quotes. When the server gave
/// reasoning, it has split already: only a tag at the start or end of its line counts then, a tag between words is prose.
pub(super) fn split(content: &str, reasoning: &str, tools: &Tools) -> (String, String) {
    if !may_hold_a_tag(content) {
        return (content.to_owned(), reasoning.to_owned());
    }
    let marks = Marks::of(content);
    let thinks = scan(&marks, tools).thinks;
    let was_split = !reasoning.trim().is_empty();
    let counts = |mark: &&Mark<'_>| mark.kind == Kind::ThinkClose && (!was_split || mark.starts_line || mark.ends_line);
    let (end, rest) = match thinks.iter().rev().find(counts) {
        Some(boundary) => (boundary.start, content.get(boundary.end..).unwrap_or_default().trim_start_matches(['\n', '\r'])),
        None if thinks.first().is_some_and(|mark| mark.kind == Kind::ThinkOpen && marks.skip_space(0) == mark.start) => (content.len(), ""),
        None => return (content.to_owned(), reasoning.to_owned()),
    };
    let mut joined = reasoning.to_owned();
    let mut from = 0;
    for mark in thinks.iter().take_while(|mark| mark.end <= end) {
        joined.push_str(marks.between(from, mark.start));
        from = mark.end;
    }
    joined.push_str(marks.between(from, end));
    (rest.to_owned(), without_opening(joined.trim()).to_owned())
}

fn may_hold_a_tag(text: &str) -> bool {
    let bytes = text.as_bytes();
    let words = text.match_indices('<').filter_map(|(at, _)| bytes.get(at + 1..at + 7));
    words.map(|word| word.strip_prefix(b"/").unwrap_or(word)).any(|word| word.len() >= 5 && word[..5].eq_ignore_ascii_case(b"think"))
}

/// The text without a `<think>` at its start.
fn without_opening(text: &str) -> &str {
    let marks = Marks::of(text.get(..text.find('>').map_or(0, |end| end + 1)).unwrap_or_default());
    let opening = marks.get(0).filter(|mark| mark.kind == Kind::ThinkOpen && mark.start == 0);
    opening.map_or(text, |mark| text.get(mark.end..).unwrap_or_default().trim_start())
}
