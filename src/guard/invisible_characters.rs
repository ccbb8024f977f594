//! Text must be what it looks like: a person reviews what the screen shows, Python runs what the bytes say (CVE-2021-42574).
//!
//! Joiners are spelling in Persian and Indic words and glue in emoji; there, and only there, they are left alone.

use super::{Patch, lines, of_file};
use crate::domain::{Finding, Severity};

pub(super) const RULE: &str = "invisible-characters";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for file in patch.changed {
        for (number, line) in lines::added(file) {
            let line = String::from_utf8_lossy(line);
            let text = if number == 1 { line.strip_prefix('\u{feff}').unwrap_or(&line) } else { &line };
            if let Some((severity, c)) = in_text(text).max_by_key(|(severity, _)| *severity) {
                let why = format!("the line has the invisible character U+{:04X}, so it may not be what it looks like", u32::from(c));
                findings.push(of_file(RULE, severity, file, Some(number), why));
            }
        }
    }
    Ok(findings)
}

/// The characters of a text that hide themselves or others, and how much each weighs.
pub(super) fn in_text(text: &str) -> impl Iterator<Item = (Severity, char)> {
    let mut previous = ' ';
    let mut in_flag = false;
    text.chars().filter_map(move |c| {
        let weight = weigh(previous, in_flag, c);
        in_flag = c == '\u{1f3f4}' || (in_flag && is_tag(c));
        previous = c;
        Some((weight?, c))
    })
}

fn weigh(previous: char, in_flag: bool, c: char) -> Option<Severity> {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some(Severity::Refuse),
        '\u{200b}'
        | '\u{2060}'..='\u{2064}'
        | '\u{206a}'..='\u{206f}'
        | '\u{feff}'
        | '\u{180e}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{1b}'
        | '\u{8}'
        | '\u{7f}' => Some(Severity::Refuse),
        '\u{200c}' if !joins(previous) => Some(Severity::Refuse),
        '\u{200d}' if !joins(previous) && !is_emoji(previous) => Some(Severity::Refuse),
        '\u{fe00}'..='\u{fe0f}' if previous.is_ascii() && !matches!(previous, '0'..='9' | '#' | '*') => Some(Severity::Refuse),
        '\u{e0100}'..='\u{e01ef}' if !is_ideograph(previous) => Some(Severity::Refuse),
        _ if is_tag(c) && !in_flag => Some(Severity::Refuse),
        '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{ad}' | '\u{80}'..='\u{9f}' => Some(Severity::Flag),
        _ => None,
    }
}

/// Letters of scripts in which a joiner is part of the spelling: Arabic to Tibetan and Myanmar, Khmer, Mongolian, and Arabic's further blocks.
const fn joins(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{109f}' | '\u{1780}'..='\u{18af}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}')
}

const fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

const fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

const fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    fn weights(text: &str) -> Vec<Severity> {
        severities(check, &[changed("a.py", Some("x\n"), Some(&format!("x\n{text}\n")))])
    }

    #[test]
    fn hidden_text_is_refused() {
        for text in [
            "a\u{202e}b",
            "\u{2066}x",
            "sta\u{200b}tic",
            "ad\u{200c}min",
            "ad\u{200d}min",
            "x\u{feff}",
            "a\u{fe0f}",
            "\u{e0041}",
            "a\u{e0101}",
        ] {
            assert_eq!(weights(text), [Refuse], "{text:?}");
        }
        assert_eq!(weights("a\u{200f}b"), [Flag]);
    }

    #[test]
    fn words_and_emoji_that_need_joiners_are_left_alone() {
        let flag_of_wales = "\u{1f3f4}\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}";
        for text in [
            "قیمت\u{200c}ها",
            "👨\u{200d}👩\u{200d}👧",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3}",
            "क्\u{200d}ष",
            flag_of_wales,
            "naïve ß 日本",
        ] {
            assert!(weights(text).is_empty(), "{text:?}");
        }
        assert!(severities(check, &[changed("a.py", None, Some("\u{feff}x = 1\n"))]).is_empty());
        assert!(severities(check, &[changed("a.py", Some("\u{202e}\n"), Some("\u{202e}\ny\n"))]).is_empty());
    }
}
