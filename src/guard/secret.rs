//! A key in a patch is a key in the history for ever. The finding says where it is and of which kind, never what it is.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexSet};

use super::{Patch, file_name, lines, of_file};
use crate::domain::{Finding, SECRET_SHAPES, Severity, is_test_file};

pub(super) const RULE: &str = "secret";

static SET: LazyLock<Result<RegexSet, regex::Error>> = LazyLock::new(|| RegexSet::new(SECRET_SHAPES.iter().map(|(_, shape)| shape)));

/// A name that says secret, and the text that it is given.
static GIVEN: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)[a-z0-9_.-]*(?:secret|passw|api[_-]?key|token|private[_-]?key|access[_-]?key|credential|auth)[a-z0-9_-]*["']?\]?\s*(?::\s*str\s*)?(?:=|:)\s*["']([^"'\s]{8,})["']|^\s*(?:export\s+)?[A-Z][A-Z0-9_]*(?:SECRET|PASSW(?:OR)?D|TOKEN|API_KEY)[A-Z0-9_]*=([^\s"'$]{8,})$|://[^/\s:@"']*:([^/\s@"']{4,})@|\b(?:bearer|basic)\s+([a-z0-9._~+/=-]{24,})"#,
    )
});

static SET_PLAINLY: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)^\s*(?:export\s+)?[a-z0-9_.-]*(?:secret|passw(?:or)?d|token|api[_-]?key)[a-z0-9_.-]*\s*[=:]\s*([^\s"'$(){}\[\]]{20,})$"#,
    )
});

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let set = SET.as_ref().map_err(ToString::to_string)?;
    let mut findings = Vec::new();
    for file in patch.changed {
        for (number, line) in lines::added(file) {
            if let Some(severity) = given(line, is_test_file(&file.path))?.or(set_in_a_file(line, &file.path)?) {
                findings.push(of_file(
                    RULE,
                    severity,
                    file,
                    Some(number),
                    "the line looks like a secret that is written down; take it out and revoke it if it was real",
                ));
            }
            if let Some(kind) = set.matches(line).into_iter().next() {
                let why = format!("the line has the shape of {}; take it out and revoke it if it was real", SECRET_SHAPES[kind].0);
                findings.push(of_file(RULE, Severity::Refuse, file, Some(number), why));
            }
        }
    }
    Ok(findings)
}

/// How much a text weighs that is given to a secret's name: a random one is refused, another one shown.
fn given(line: &[u8], in_tests: bool) -> Result<Option<Severity>, String> {
    let shape = GIVEN.as_ref().map_err(ToString::to_string)?;
    let Some(found) = shape.captures(line) else { return Ok(None) };
    let value = (1..=4).find_map(|group| found.get(group)).map(|value| value.as_bytes()).unwrap_or_default();
    let in_address = found.get(3).is_some() && value.len() >= 10 && has_all_kinds(value);
    let is_header = found.get(4).is_some();
    Ok(match (is_random(value) || in_address, in_tests) {
        (false, _) if is_header => None,
        (true, false) => Some(Severity::Refuse),
        (true, true) => Some(Severity::Flag),
        (false, false) => Some(Severity::Flag),
        (false, true) => None,
    })
}

fn is_random(value: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| value.iter().any(kind);
    value.len() >= 20 && entropy(value) > 3.5 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && !value.contains(&b'{')
}

fn has_all_kinds(value: &[u8]) -> bool {
    [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase].iter().all(|kind| value.iter().any(kind)) && !value.contains(&b'{')
}

/// A line of settings without quotes: `password = …`. In a program that could be the name of something.
fn set_in_a_file(line: &[u8], path: &[u8]) -> Result<Option<Severity>, String> {
    let shape = SET_PLAINLY.as_ref().map_err(ToString::to_string)?;
    let value = shape.captures(line).and_then(|found| found.get(1)).map(|value| value.as_bytes());
    let is_settings = file_name(path).starts_with(b".")
        || [".ini", ".cfg", ".conf", ".env", ".properties", ".yml", ".yaml", ".toml", "credentials"]
            .iter()
            .any(|ending| path.ends_with(ending.as_bytes()));
    Ok((is_settings && value.is_some_and(is_random)).then_some(Severity::Refuse))
}

/// Bits a byte, by how often each occurs.
fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    value.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let length = value.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / length).map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::guard::tests::{changed, findings};

    #[test]
    fn token_shapes_are_refused_without_being_repeated() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let keys = [
            token.clone(),
            "-----BEGIN OPENSSH PRIVATE KEY-----".to_owned(),
            format!("AKIA{}", "Q".repeat(16)),
            format!("glpat-{}", "x".repeat(20)),
            format!("sk-ant-{}", "0".repeat(40)),
        ];
        let found = findings(check, &[changed("a.py", None, Some(&keys.join("\n")))]);
        assert_eq!(found.iter().map(|finding| finding.line.unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert!(!found.iter().any(|finding| finding.why.contains(&token)));
    }

    #[test]
    fn old_keys_and_ordinary_words_are_not() {
        let old = "-----BEGIN PRIVATE KEY-----\n";
        assert!(findings(check, &[changed("a", Some(old), Some(&format!("{old}more\n")))]).is_empty());
        let words =
            "-----BEGIN CERTIFICATE-----\nrisk-adjusted-returns-of-the-whole-portfolio\ntask-name\nghp_short\nhttps://example.invalid/\n";
        assert!(findings(check, &[changed("a", None, Some(words))]).is_empty());
    }
}
