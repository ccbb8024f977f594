//! Words of the model, the repository or a stranger, made fit to stand in a text of ours: nothing in them acts on a forge.

/// Text that can stand between back-ticks on one line.
pub(super) fn code(text: &str) -> String {
    text.chars().map(|letter| if matches!(letter, '`' | '\n' | '\r') || is_hidden(letter) { '\'' } else { letter }).take(300).collect()
}

pub(super) fn cell(text: &str) -> String {
    format!("`{}`", code(text).replace('|', "\\|"))
}

/// A stranger's words as running text: nothing in them acts on a forge, and no markup of theirs is rendered.
#[must_use]
pub fn inert(words: &str) -> String {
    without_acts(words).replace('\\', "\\\\").replace('&', "&amp;").replace('<', "&lt;").replace('[', "\\[")
}

/// A stranger's words where forges show plain text, as in titles: nothing in them acts.
pub(super) fn without_acts(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    let mut letters = words.chars().filter(|letter| !is_hidden(*letter)).peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied();
        match letter {
            '@' if next.is_some_and(|next| !next.is_whitespace()) => text.push_str("(at)"),
            '#' if next.is_some_and(|next| next.is_ascii_digit()) => text.push_str("no. "),
            '!' if next.is_some_and(|next| next.is_ascii_digit() || next == '[') => text.push_str("! "),
            '\n' | '\r' => text.push(' '),
            _ => text.push(letter),
        }
    }
    without_links(&text.replace("://", ": //")).trim_start_matches('/').to_owned()
}

/// Breaks what forges make links of without a scheme: `www.` and GitHub's `GH-12`.
fn without_links(text: &str) -> String {
    let mut rest = text;
    let mut broken = String::with_capacity(text.len());
    while let Some(letter) = rest.chars().next() {
        let (start, tail) = rest.split_at(letter.len_utf8());
        if starts_with(rest, "gh-") && rest[3..].starts_with(|next: char| next.is_ascii_digit()) {
            broken.push_str(&format!("{} no. ", &rest[..2]));
            rest = &rest[3..];
        } else if starts_with(rest, "www.") {
            broken.push_str(&format!("{} .", &rest[..3]));
            rest = &rest[4..];
        } else {
            broken.push_str(start);
            rest = tail;
        }
    }
    broken
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

pub(super) fn is_hidden(letter: char) -> bool {
    (letter.is_control() && letter != '\n' && letter != '\r')
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::{code, inert};

    #[test]
    fn strangers_words_do_not_act() {
        assert_eq!(inert("fixes #12, ask @dev-a"), "fixes no. 12, ask (at)dev-a");
        assert_eq!(inert("/close"), "close");
        assert_eq!(inert("a\n/merge"), "a /merge");
        assert_eq!(inert("![x](http://evil/?q)"), "! \\[x](http: //evil/?q)");
        assert_eq!(inert("<img src=x>\u{202e}"), "&lt;img src=x>");
        assert_eq!(inert("\\[x](//evil) !\\[y](//evil)"), "\\\\\\[x](//evil) !\\\\\\[y](//evil)");
        assert_eq!(inert("&#x40;dev-a &commat;all fixes &num;1"), "&amp;#x40;dev-a &amp;commat;all fixes &amp;num;1");
        assert_eq!(inert("see www.evil.example, fixes GH-12, ugh-oh @-x"), "see www .evil.example, fixes GH no. 12, ugh-oh (at)-x");
        assert_eq!(code("a`b\nc\u{202e}d"), "a'b'c'd");
    }
}
