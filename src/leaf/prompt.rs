//! What the model is told at the start: the trained system message, and the issue as its task.
//!
//! An issue is written by strangers. What a person who reads its page would not see must not reach the model: HTML comments outside code,
//! characters without a width, and those that turn the direction of text.

use crate::domain::IssueText;

/// The system message.
pub const SYSTEM: &str = "You are a software-engineering agent working in a checked-out repository.\n\
     Use the available tools to inspect files, make focused edits, and run commands.\n\
     Solve the task, validate when practical, then give a brief final answer.";

/// A longer body is cut in its middle, in characters.
const BODY_CHARS: usize = 60_000;
const HEAD_CHARS: usize = 45_000;

/// The task, and what was taken out of the issue to make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskText {
    /// The one user message.
    pub text: String,
    /// So many HTML comments were taken out.
    pub hidden_comments: usize,
    /// So many characters that nobody sees were taken out.
    pub hidden_characters: usize,
    /// So many characters were cut from the middle of the body.
    pub cut_characters: usize,
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
    let (title, hidden_in_title) = without_hidden_characters(&issue.title);
    let (body, hidden_in_body) = without_hidden_characters(&issue.body);
    let (body, hidden_comments) = without_comments(&body);
    let (body, cut_characters) = without_middle(body.trim());
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = [title, body].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
    TaskText { text, hidden_comments, hidden_characters: hidden_in_title + hidden_in_body, cut_characters }
}

/// Lines end with LF; characters without a width and controls are dropped and counted.
fn without_hidden_characters(text: &str) -> (String, usize) {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut kept = String::with_capacity(text.len());
    let mut hidden = 0;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let joins =
            is_joiner(character) && kept.chars().next_back().is_some_and(is_joined) && characters.peek().copied().is_some_and(is_joined);
        if is_hidden(character) && !joins {
            hidden += 1;
        } else {
            kept.push(character);
        }
    }
    (kept, hidden)
}

/// The joiners are part of the spelling of Persian, of Indian languages and of emoji; between other characters they only hide.
const fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}')
}

fn is_joined(character: char) -> bool {
    !character.is_ascii() && !is_hidden(character)
}

/// Controls but tab and newline, characters without a width, bidirectional controls, and tags.
fn is_hidden(character: char) -> bool {
    match character {
        '\t' | '\n' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

/// Takes HTML comments out, but not those in code, which the page shows. A comment that is never closed hides the rest.
fn without_comments(text: &str) -> (String, usize) {
    let mut kept = String::with_capacity(text.len());
    let (mut at, mut line_end, mut comments) = (0, 0, 0);
    let mut place = Place::default();
    let mut behind_a_comment = false;
    while at < text.len() {
        if at >= line_end {
            line_end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
        }
        let line = &text[at..line_end];
        let start = if behind_a_comment { line.find("<!--") } else { place.comment_start(line) };
        behind_a_comment = start.is_some();
        match start {
            None => {
                kept.push_str(line);
                at = line_end;
            }
            Some(start) => {
                comments += 1;
                kept.push_str(&line[..start]);
                at = comment_end(text, at + start + "<!--".len());
            }
        }
    }
    (kept, comments)
}

/// Where a comment whose inside begins here is over; `<!-->` and `<!--->` are whole ones.
fn comment_end(text: &str, inside: usize) -> usize {
    let rest = &text[inside..];
    let whole = [">", "->"].iter().find(|end| rest.starts_with(**end)).map(|end| end.len());
    whole.or_else(|| rest.find("-->").map(|end| end + 3)).map_or(text.len(), |length| inside + length)
}

/// Where in a Markdown text a line stands.
#[derive(Debug, Default)]
struct Place {
    fence: Option<(char, usize)>,
    in_html: bool,
}

impl Place {
    /// Where a comment opens in the line that comes next, and what the line changes.
    fn comment_start(&mut self, line: &str) -> Option<usize> {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let start = if indent < 4 { line[indent..].trim_end() } else { "" };
        if let Some((mark, length)) = self.fence {
            let run = start.chars().take_while(|character| *character == mark).count();
            if run >= length && start.chars().count() == run {
                self.fence = None;
            }
            return None;
        }
        if line.trim().is_empty() {
            self.in_html = false;
        } else if is_html_start(start) {
            self.in_html = true;
        }
        if self.in_html {
            return line.find("<!--");
        }
        self.fence = opened_fence(start);
        if self.fence.is_some() { None } else { comment_outside_code(line) }
    }
}

/// A line that begins with a tag starts a block of HTML, in which Markdown's code marks mean nothing until the next empty line.
fn is_html_start(start: &str) -> bool {
    let after = start.strip_prefix("</").or_else(|| start.strip_prefix('<'));
    after.and_then(|after| after.chars().next()).is_some_and(|letter| letter.is_ascii_alphabetic())
}

fn opened_fence(start: &str) -> Option<(char, usize)> {
    let mark = start.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let run = start.chars().take_while(|character| *character == mark).count();
    let closes_on_its_line = mark == '`' && start[run..].contains('`');
    (run >= 3 && !closes_on_its_line).then_some((mark, run))
}

/// The first `<!--` of a line that stands in no code span; a backtick behind a backslash opens none.
fn comment_outside_code(line: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = line[at..].find(['`', '<', '\\']) {
        let here = at + found;
        let rest = &line[here..];
        if rest.starts_with("<!--") {
            return Some(here);
        }
        let run = rest.len() - rest.trim_start_matches('`').len();
        at = match (rest.chars().nth(1), run) {
            (Some(escaped), 0) if rest.starts_with('\\') => here + 1 + escaped.len_utf8(),
            (_, 0) => here + 1,
            (_, run) => code_span_end(line, here + run, run).unwrap_or(here + run),
        };
    }
    None
}

fn code_span_end(line: &str, mut at: usize, length: usize) -> Option<usize> {
    while let Some(found) = line[at..].find('`') {
        let here = at + found;
        let run = line[here..].len() - line[here..].trim_start_matches('`').len();
        at = here + run;
        if run == length {
            return Some(at);
        }
    }
    None
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
