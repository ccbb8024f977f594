//! Characters that nobody sees: what hides in a text must reach neither the model nor a reader of ours.

/// The text without characters that have no width of their own, turn its direction, or control a terminal; and how many there were. Tabs and
/// newlines stay, and so do joiners and variation selectors where they are spelling: in Persian, in Indian languages, in emoji.
#[must_use]
pub fn without_hidden(text: &str) -> (String, usize) {
    let mut kept = String::with_capacity(text.len());
    let mut hidden = 0;
    sort(text, |character, is_hidden| if is_hidden { hidden += 1 } else { kept.push(character) });
    (kept, hidden)
}

/// The text with each such character told by its number, `⟨U+202E⟩`: for pages that must show what was written.
#[must_use]
pub fn hidden_shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    sort(text, |character, is_hidden| match is_hidden {
        true => shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(character))),
        false => shown.push(character),
    });
    shown
}

/// The text with each such character as JSON writes it, `\u202e`: a terminal does nothing with it, and a text of JSON says the same as before.
#[must_use]
pub fn hidden_escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    sort(text, |character, is_hidden| match is_hidden {
        true => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}"))),
        false => shown.push(character),
    });
    shown
}

/// Tells of each character whether it is one of those.
fn sort(text: &str, mut tell: impl FnMut(char, bool)) {
    let (mut before, mut characters) = (None, text.chars().peekable());
    while let Some(character) = characters.next() {
        let after = characters.peek().copied();
        let is_spelling = match character {
            '\u{200c}' | '\u{200d}' => before.is_some_and(is_joined) && after.is_some_and(|after| is_joined(after) && !is_selector(after)),
            _ if is_selector(character) => before.is_some_and(may_vary),
            _ => !is_hidden(character),
        };
        tell(character, !is_spelling);
        if is_spelling {
            before = Some(character);
        }
    }
}

fn is_joined(character: char) -> bool {
    !character.is_ascii() && !is_hidden(character)
}

/// One selector a character, so that none can carry a message: after an emoji, a letter of another script, or the base of a keycap.
fn may_vary(before: char) -> bool {
    !is_selector(before) && (is_joined(before) || matches!(before, '0'..='9' | '#' | '*'))
}

const fn is_selector(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}')
}

/// Controls but tab and newline, characters without a width, fillers, bidirectional controls, and tags.
fn is_hidden(character: char) -> bool {
    match character {
        '\t' | '\n' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::{hidden_escaped, hidden_shown, without_hidden};

    #[test]
    fn what_is_spelling_stays_and_what_hides_goes() {
        for text in ["plain ü 日本\n\ttext", "می\u{200c}خواهم 👩\u{200d}💻", "❤\u{fe0f} 1\u{fe0f}\u{20e3}", ""] {
            assert_eq!(without_hidden(text), (text.to_owned(), 0), "{text:?}");
        }
        for (text, seen) in [
            ("a\u{200b}b\u{202e}c\u{2066}", "abc"),
            ("pass\u{200d}word", "password"),
            ("a\u{fe0f}", "a"),
            ("❤\u{fe0f}\u{fe01}\u{fe02}", "❤\u{fe0f}"),
            ("\u{e0041}\u{e0042}x\u{1b}[0m\u{7f}", "x[0m"),
            ("\u{3164}\u{ffa0}\u{34f}\r", ""),
            ("ᚠ\u{200d}\u{fe0f}", "ᚠ\u{fe0f}"),
        ] {
            let hidden = text.chars().count() - seen.chars().count();
            assert_eq!(without_hidden(text), (seen.to_owned(), hidden), "{text:?}");
            assert_eq!(without_hidden(seen).1, 0, "{text:?}: nothing hides in what is left");
            assert_eq!(hidden_shown(text).matches("⟨U+").count(), hidden, "{text:?}");
        }
        assert_eq!(hidden_shown("a\u{202e}b\u{1b}[0m"), "a⟨U+202E⟩b⟨U+001B⟩[0m");
    }

    #[test]
    fn a_text_of_json_says_the_same_when_what_hides_is_escaped() {
        let value = serde_json::json!({"a\u{9b}\u{e0041}": ["\u{202e}x\u{7f}", "می\u{200c}خواهم\t"]});
        let escaped = hidden_escaped(&value.to_string());
        assert_eq!(without_hidden(&escaped).1, 0, "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
