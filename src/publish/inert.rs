//! Words of the model, of the repository and of strangers, made inert: on no forge do they mention, close, link, command or hide anything.
//!
//! What must hold: what a person sees is what was written; making inert what is inert changes nothing; no line starts with `/`. Where a forge
//! would act on two neighbouring characters (`@` and a name, `#` and a number, `:` and `//`), a space without a width stands between them;
//! every hidden character of a stranger's own is taken out first. Markup is escaped.

use crate::domain::without_hidden;

/// Stands between two characters that together would act, and before what would act at the start of a line. Nobody sees it.
const GAP: char = '\u{200b}';
/// The longest text that every forge takes, in characters (GitHub's).
const EVERYWHERE: usize = 65_536;
/// So many characters are left for what closes a cut text, and for how forges count.
const ROOM_FOR_AN_END: usize = 5_536;
/// The longest title that every forge takes has 255 characters, our own words and each forge's draft prefix included.
const LONGEST_SUBJECT: usize = 200;
/// A cut falls back to the end of a line, in bytes, unless the line is longer than this.
const LONGEST_LAST_LINE: usize = 4000;
const CUT: &str = "\n\n(cut here; the whole is in the run's record)";

/// Words for a title: one line of plain text that fits every forge.
#[must_use]
pub fn title(words: &str) -> String {
    let line = apart(&one_line(words), true, GAP);
    let line = led(line, |line| line.starts_with('/'));
    if line.chars().count() <= LONGEST_SUBJECT {
        return line;
    }
    line.chars().take(LONGEST_SUBJECT - 1).chain(['…']).collect()
}

/// Words as running text in Markdown: one line, shown as it is written.
#[must_use]
pub fn inert(words: &str) -> String {
    led(apart(&escaped(&one_line(words)), true, GAP), starts_block)
}

/// Words that can stand between back-ticks on one line, at most 300 characters.
#[must_use]
pub fn code(words: &str) -> String {
    let line = one_line(words).chars().map(|letter| if letter == '`' { '\'' } else { letter }).take(300).collect::<String>();
    apart(&line, false, GAP)
}

/// The same with its back-ticks, as a cell of a table.
#[must_use]
pub fn cell(words: &str) -> String {
    format!("`{}`", code(words).replace('|', "\\|"))
}

/// Words of many lines in a fence of their own that nothing in them ends, long lines broken, at most 4,000 characters and a line that says so.
#[must_use]
pub fn fenced(words: &str) -> String {
    let (words, _) = without_hidden(&words.replace("\r\n", "\n"));
    let cut = if words.chars().nth(4000).is_some() { "\n(cut here, after 4,000 characters)" } else { "" };
    let words = words.chars().take(4000).collect::<String>();
    let lines = words.lines().flat_map(|line| wrapped(line).split('\n').map(str::to_owned).collect::<Vec<_>>());
    let words = lines.map(|line| led(apart(&line, true, GAP), |line| line.trim_start().starts_with('/'))).collect::<Vec<_>>().join("\n");
    let fence = fence_for(&words);
    format!("{fence}text\n{words}{cut}\n{fence}")
}

/// Words for a commit's subject, at most 120 characters: held apart by spaces, for git's logs show what forges hide.
#[must_use]
pub fn subject(words: &str) -> String {
    let line = apart(&one_line(words), true, ' ');
    line.trim_start_matches(['/', ' ']).chars().take(120).collect::<String>().trim_end().to_owned()
}

/// A text of ours, cut where it is longer than every forge takes.
#[must_use]
pub fn cut(text: String) -> String {
    cut_to(text, EVERYWHERE)
}

/// A text of ours that is no longer than `longest` characters: cut from its end, at the end of a line where one is near; what is open there is
/// closed, and a sentence says it.
#[must_use]
pub fn cut_to(text: String, longest: usize) -> String {
    let longest = longest.saturating_sub(ROOM_FOR_AN_END);
    if text.chars().count() <= longest {
        return text;
    }
    let kept = text.chars().take(longest).collect::<String>();
    let kept = kept.rfind('\n').filter(|at| kept.len() - at < LONGEST_LAST_LINE).map_or(kept.as_str(), |at| &kept[..at]);
    format!("{kept}{}{CUT}", closing(kept))
}

/// Closes the fence and the folded parts that a text leaves open.
fn closing(text: &str) -> String {
    let (mut fence, mut folded) = ("", 0_usize);
    for line in text.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        if fence.is_empty() && ticks.len() >= 3 {
            fence = ticks;
        } else if !fence.is_empty() && line == fence {
            fence = "";
        } else if fence.is_empty() {
            folded = (folded + line.matches("<details>").count()).saturating_sub(line.matches("</details>").count());
        }
    }
    let fence = if fence.is_empty() { String::new() } else { format!("\n{fence}") };
    fence + &"\n\n</details>".repeat(folded)
}

fn one_line(words: &str) -> String {
    let (words, _) = without_hidden(&words.replace(['\r', '\n', '\t', '\u{2028}', '\u{2029}'], " "));
    words.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Puts the gap between characters that together would act; mentions act nowhere in code.
fn apart(line: &str, mentions: bool, gap: char) -> String {
    let mut text = String::with_capacity(line.len());
    for (at, letter) in line.char_indices() {
        text.push(letter);
        let rest = &line[at + letter.len_utf8()..];
        let acts = match letter {
            '@' => mentions && !rest.starts_with(' '),
            '#' | '!' | '&' => rest.is_empty() || rest.starts_with(|next: char| next.is_ascii_digit()),
            ';' => text.ends_with("&amp;") && rest.starts_with(|next: char| next.is_ascii_digit()),
            ':' => rest.starts_with("//"),
            '-' => rest.starts_with(|next: char| next.is_ascii_digit()) && ends_with(&text, "gh-"),
            'w' | 'W' => rest.starts_with('.') && ends_with(&text, "www"),
            _ => false,
        };
        if acts {
            text.push(gap);
        }
    }
    text
}

fn ends_with(text: &str, end: &str) -> bool {
    text.len().checked_sub(end.len()).and_then(|at| text.get(at..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

/// Escapes markup but whole spans of code. What is escaped already, by us or by who wrote it, stays as it is.
fn escaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let tail = &rest[letter.len_utf8()..];
        let done = ["&lt;", "&amp;"].into_iter().find(|entity| rest.starts_with(entity)).map_or(0, str::len);
        let whole = if letter == '\\' && tail.starts_with(is_markup) { 2 } else { done.max(code_span(rest)) };
        if whole > 0 {
            text.push_str(&rest[..whole]);
            rest = &rest[whole..];
            continue;
        }
        let between_letters = text.ends_with(char::is_alphanumeric) && tail.starts_with(char::is_alphanumeric);
        match letter {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '_' if between_letters => text.push('_'),
            letter if is_markup(letter) => text.extend(['\\', letter]),
            letter => text.push(letter),
        }
        rest = tail;
    }
    text
}

/// The length of the span of code that begins here between single back-ticks; 0 where none does.
fn code_span(text: &str) -> usize {
    let Some((code, behind)) = text.strip_prefix('`').and_then(|rest| rest.split_once('`')) else { return 0 };
    let is_one = !code.is_empty() && !code.starts_with(' ') && !code.ends_with(' ') && !behind.starts_with('`');
    if is_one { code.len() + 2 } else { 0 }
}

/// What begins or ends markup within a line.
const fn is_markup(letter: char) -> bool {
    matches!(letter, '\\' | '`' | '*' | '_' | '~' | '[' | ']' | '|')
}

/// Whether a line would be a heading, a list, a quotation, a rule or a command.
fn starts_block(line: &str) -> bool {
    let after_number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    line.starts_with(['/', '#', '>', '+', '-', '=']) || (after_number.len() < line.len() && after_number.starts_with(['.', ')']))
}

/// The line, with a gap before it where it would act by its start.
fn led(line: String, acts: impl Fn(&str) -> bool) -> String {
    if acts(&line) {
        let at = line.len() - line.trim_start().len();
        format!("{}{GAP}{}", &line[..at], &line[at..])
    } else {
        line
    }
}

/// A line broken at spaces after at most 110 characters: what stands in a fence is not wrapped by forges.
fn wrapped(line: &str) -> String {
    const WIDTH: usize = 110;
    let (mut text, mut width) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let length = word.chars().count();
        if width > 0 && width + length > WIDTH {
            text.truncate(text.trim_end().len());
            text.push('\n');
            width = 0;
        }
        text.push_str(word);
        width += length;
    }
    text
}

fn fence_for(words: &str) -> String {
    let longest = words.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests;
