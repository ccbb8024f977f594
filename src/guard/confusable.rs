//! Letters that look like other letters. Python takes `е` (Cyrillic) and `e` for two names, and `ｅ` (full width) and `e` for one.

use std::collections::HashSet;

use ruff_python_ast::AnyNodeRef;
use unicode_normalization::UnicodeNormalization as _;

use super::python::{PythonFile, each};
use super::{Patch, lines, of_file, shown};
use crate::domain::{ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "confusable";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let names = patch.python.iter().flat_map(identifiers);
    let words = patch.changed.iter().flat_map(mixed_words);
    let paths =
        patch.changed.iter().filter(|file| file.before.is_none() && shown(&file.path).split(|c: char| !c.is_alphanumeric()).any(is_mixed));
    let paths = paths.map(|file| of_file(RULE, Severity::Refuse, file, None, "the name mixes letters that look alike"));
    Ok(names.chain(words).chain(paths).collect())
}

/// Names of the program that are another name than they look like.
fn identifiers(file: &PythonFile<'_>) -> Vec<Finding> {
    let Some(module) = file.after.module().filter(|module| !module.text.is_ascii()) else { return Vec::new() };
    let before = file.before.module().map(|before| before.text.as_str()).unwrap_or_default();
    let known: HashSet<&str> = before.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut findings = Vec::new();
    each(&module.body, |_, node| {
        let name = match node {
            AnyNodeRef::ExprName(of) => of.id.as_str(),
            AnyNodeRef::Identifier(of) => of.as_str(),
            _ => return,
        };
        let written = module.text.get(node_range(node)).unwrap_or(name);
        if known.contains(written) {
            return;
        }
        let complaint = if !written.is_ascii() && written.nfkc().collect::<String>().is_ascii() {
            "is an ordinary name written in other letters"
        } else if is_mixed(name) || !name.is_ascii() && name.chars().all(|c| c.is_ascii_digit() || c == '_' || looks_latin(c)) {
            "mixes, or is made of, letters that look like other letters"
        } else {
            return;
        };
        findings.push(of_file(
            RULE,
            Severity::Refuse,
            file.file,
            Some(module.line(&node)),
            format!("the name {} {complaint}", written.escape_unicode()),
        ));
    });
    findings
}

fn node_range(node: AnyNodeRef<'_>) -> std::ops::Range<usize> {
    use ruff_text_size::Ranged as _;
    node.start().to_usize()..node.end().to_usize()
}

/// Words of the text in which letters of two scripts stand side by side.
fn mixed_words(file: &ChangedFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in lines::added(file).into_iter().filter(|(_, line)| !line.is_ascii()) {
        let line = String::from_utf8_lossy(line);
        if let Some(word) = line.split(|c: char| !c.is_alphanumeric()).find(|word| is_mixed(word)) {
            let why = format!("the word {} mixes letters that look alike", word.escape_unicode());
            findings.push(of_file(RULE, Severity::Flag, file, Some(number), why));
        }
    }
    findings
}

/// Latin letters beside letters of another script that look like Latin ones.
fn is_mixed(word: &str) -> bool {
    word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().any(looks_latin)
}

/// Cyrillic, Greek, Armenian and Cherokee letters that most fonts draw like a Latin one.
const fn looks_latin(c: char) -> bool {
    matches!(
        c,
        'а' | 'е'
            | 'о'
            | 'р'
            | 'с'
            | 'у'
            | 'х'
            | 'і'
            | 'ѕ'
            | 'ј'
            | 'ԁ'
            | 'ԛ'
            | 'ԝ'
            | 'һ'
            | 'ү'
            | 'ӏ'
            | 'к'
            | 'в'
            | 'м'
            | 'н'
            | 'т'
            | 'г'
            | 'п'
            | 'А'
            | 'В'
            | 'Е'
            | 'З'
            | 'К'
            | 'М'
            | 'Н'
            | 'О'
            | 'Р'
            | 'С'
            | 'Т'
            | 'У'
            | 'Х'
            | 'І'
            | 'Ѕ'
            | 'Ј'
            | 'ο'
            | 'ν'
            | 'ι'
            | 'υ'
            | 'κ'
            | 'Α'
            | 'Β'
            | 'Ε'
            | 'Ζ'
            | 'Η'
            | 'Ι'
            | 'Κ'
            | 'Μ'
            | 'Ν'
            | 'Ο'
            | 'Ρ'
            | 'Τ'
            | 'Υ'
            | 'Χ'
            | 'օ'
            | 'ս'
            | 'հ'
            | 'ո'
            | 'ց'
            | 'Ꭺ'
            | 'Ꭼ'
            | 'Ꮋ'
            | 'Ꮃ'
            | 'ı'
            | 'ɑ'
            | 'ɡ'
            | 'ɩ'
    )
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    fn weigh(text: &str) -> Vec<Severity> {
        severities(check, &[changed("a.py", Some("x = 1\n"), Some(&format!("x = 1\n{text}\n")))])
    }

    #[test]
    fn letters_that_look_alike_are_seen() {
        assert_eq!(weigh("if a == 's\u{443}stem': pass"), [Flag]);
        assert_eq!(weigh("p\u{430}ssword = 1"), [Refuse, Flag]);
        assert_eq!(weigh("\u{441}\u{43e}\u{440}\u{443} = 1"), [Refuse]);
        assert_eq!(weigh("\u{ff45}val('1')"), [Refuse]);
        for text in ["naïve = 'größe'", "Δt = 1", "x = 'Привет, world'", "имя = 1"] {
            assert!(weigh(text).is_empty(), "{text}");
        }
    }
}
