//! What the model is told at the start: the trained system message, and the issue as its task.
//!
//! An issue is written by strangers. What a person who reads its page would not see must not reach the model: HTML comments outside code,
//! link definitions that nothing uses, characters without a width, and those that turn the direction of text.

use std::collections::HashSet;
use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::domain::{IssueText, without_hidden};

/// The system message.
pub const SYSTEM: &str = "You are a software-engineering agent working in a checked-out repository.\n\
     Use the available tools to inspect files, make focused edits, and run commands.\n\
     Solve the task, validate when practical, then give a brief final answer.";

/// A longer body is cut in its middle, in characters.
const BODY_CHARS: usize = 60_000;
const HEAD_CHARS: usize = 45_000;
const MARKDOWN_PASSES: usize = 16;

/// The task, and what was taken out of the issue to make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskText {
    /// The one user message.
    pub text: String,
    /// So many HTML comments and unused link definitions were taken out.
    pub hidden_comments: usize,
    /// So many characters that nobody sees were taken out.
    pub hidden_characters: usize,
    /// So many characters were cut from the middle of the body.
    pub cut_characters: usize,
    /// So many images stand in the body, of which the model gets the address alone.
    pub images: usize,
    /// Whether the body has words; false for one of nothing but images.
    pub has_words: bool,
}

impl TaskText {
    /// Whether the issue held something that a person who reads its page does not see.
    #[must_use]
    pub const fn had_hidden_text(&self) -> bool {
        self.hidden_comments > 0 || self.hidden_characters > 0
    }
}

/// Makes the task of an issue: title, empty line, body.
#[must_use]
pub fn task_text(issue: &IssueText) -> TaskText {
    let (title, hidden_in_title) = without_hidden(&with_line_feeds(&issue.title));
    let (body, hidden_in_body) = without_hidden(&with_line_feeds(&issue.body));
    let (body, hidden_comments) = without_hidden_parts(&body);
    let (images, has_words) = images(&body);
    let (body, cut_characters) = without_middle(body.trim());
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = [title, body].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
    TaskText { text, hidden_comments, hidden_characters: hidden_in_title + hidden_in_body, cut_characters, images, has_words }
}

fn with_line_feeds(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// The number of images on the page of a Markdown text, and whether there are words beside them.
fn images(text: &str) -> (usize, bool) {
    let (mut images, mut within, mut has_words) = (0, 0_usize, false);
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Image { .. }) => {
                images += 1;
                within += 1;
            }
            Event::End(TagEnd::Image) => within = within.saturating_sub(1),
            Event::Html(html) | Event::InlineHtml(html) => images += html.to_ascii_lowercase().matches("<img").count(),
            Event::Text(words) | Event::Code(words) => has_words |= within == 0 && !words.trim().is_empty(),
            _ => {}
        }
    }
    (images, has_words)
}

/// Takes out what the page of a Markdown text does not show. Of link definitions with one name each pass sees the first.
fn without_hidden_parts(text: &str) -> (String, usize) {
    let (mut text, mut count) = (text.to_owned(), 0);
    for _ in 0..MARKDOWN_PASSES {
        let parts = hidden_parts(&text);
        if parts.is_empty() {
            break;
        }
        count += parts.len();
        text = without(&text, &parts);
    }
    (text, count)
}

/// HTML comments outside code, and definitions of links that nothing uses, in order and apart.
fn hidden_parts(text: &str) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut used = HashSet::new();
    let mut events = Parser::new(text).into_offset_iter();
    for (event, range) in events.by_ref() {
        match event {
            Event::Start(Tag::Link { id, .. } | Tag::Image { id, .. }) => {
                used.insert(id.to_lowercase());
            }
            Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => {
                let mut at = range.start.max(parts.last().map_or(0, |part| part.end));
                while let Some(start) = text.get(at..range.end).and_then(|html| html.find("<!--")) {
                    let end = comment_end(text, at + start + "<!--".len());
                    parts.push(at + start..end);
                    at = end;
                }
            }
            _ => {}
        }
    }
    let definitions = events.reference_definitions().iter().filter(|(name, _)| !used.contains(&name.to_lowercase()));
    parts.extend(definitions.map(|(_, definition)| definition.span.clone()));
    parts.sort_by_key(|part| part.start);
    parts
}

/// Where a comment whose inside begins here is over: `<!-->` and `<!--->` are whole ones, and one without an end hides the rest.
fn comment_end(text: &str, inside: usize) -> usize {
    let rest = &text[inside..];
    let whole = [">", "->"].iter().find(|end| rest.starts_with(**end)).map(|end| end.len());
    whole.or_else(|| rest.find("-->").map(|end| end + 3)).map_or(text.len(), |length| inside + length)
}

fn without(text: &str, parts: &[Range<usize>]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for part in parts {
        kept.push_str(text.get(at..part.start).unwrap_or_default());
        at = at.max(part.end);
    }
    kept.push_str(text.get(at..).unwrap_or_default());
    kept
}

fn without_middle(body: &str) -> (String, usize) {
    let characters = body.chars().count();
    if characters <= BODY_CHARS {
        return (body.to_owned(), 0);
    }
    let cut = characters - BODY_CHARS;
    let at = |index: usize| body.char_indices().nth(index).map_or(body.len(), |(at, _)| at);
    let (head, tail) = (&body[..at(HEAD_CHARS)], &body[at(HEAD_CHARS + cut)..]);
    (format!("{head}\n\n[{cut} characters of the issue are left out here]\n\n{tail}"), cut)
}

#[cfg(test)]
mod tests;
