//! An example in a docstring or in the documentation is a test where doctests run. One that lost its prompt is prose, one that is skipped is nothing.

use std::collections::HashSet;

use super::{Patch, lines, of_file, text};
use crate::domain::{ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "doctest-lost";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    Ok(patch.changed.iter().flat_map(findings).collect())
}

fn findings(file: &ChangedFile) -> Vec<Finding> {
    let (before, after) = (text(file.before.as_ref()), text(file.after.as_ref()));
    if file.before.is_none() || file.after.is_none() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let (had, has) = (examples(&before), examples(&after));
    let kept: HashSet<&String> = has.iter().collect();
    let old: HashSet<&str> = before.lines().map(str::trim_end).collect();
    if has.len() < had.len() {
        let why = format!("{} examples run as doctests; before it was {}", has.len(), had.len());
        findings.push(of_file(RULE, Severity::Flag, file, None, why));
    } else if had.iter().any(|example| !kept.contains(example)) {
        findings.push(of_file(RULE, Severity::Flag, file, None, "an example that runs as a doctest says something else than before"));
    }
    for (number, line) in lines::added(file) {
        let line = String::from_utf8_lossy(line);
        let start = line.trim_start().to_lowercase();
        let is_no_docstring =
            ["f\"\"\"", "rf\"\"\"", "fr\"\"\"", "b\"\"\"", "f'''", "rf'''", "b'''"].iter().any(|quote| start.starts_with(quote));
        if is_no_docstring && !had.is_empty() {
            findings.push(of_file(
                RULE,
                Severity::Flag,
                file,
                Some(number),
                "a text that is computed is no docstring: its examples run no more",
            ));
        }
        let Some((example, directive)) = line.split_once("doctest:") else { continue };
        let example = example.trim_end().trim_end_matches('#').trim_end();
        if directive.contains("+SKIP") && old.contains(example) {
            findings.push(of_file(RULE, Severity::Refuse, file, Some(number), "an example that ran is skipped"));
        } else if directive.contains('+') {
            findings.push(of_file(RULE, Severity::Flag, file, Some(number), "an example is compared more loosely, or skipped"));
        }
    }
    findings
}

/// Each example with what it must give.
fn examples(text: &str) -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with(">>> ") {
            examples.push(line.to_owned());
            open = true;
        } else if line.is_empty() || line.starts_with("\"\"\"") || line.starts_with("'''") || line.starts_with("```") {
            open = false;
        } else if let Some(example) = examples.last_mut().filter(|_| open) {
            example.push_str(line);
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn examples_that_no_longer_run_are_seen() {
        let base = "def f():\n    \"\"\"\n    >>> f()\n    1\n    \"\"\"\n";
        let weigh = |to: &str| -> Vec<Severity> { severities(check, &[changed("a.py", Some(base), Some(&base.replace(">>> f()", to)))]) };
        assert_eq!(weigh(">> f()"), [Flag]);
        assert!(weigh(">>> f()  # doctest: +SKIP").contains(&Refuse));
        assert!(weigh(">>> f()  # doctest: +ELLIPSIS").iter().all(|severity| *severity == Flag));
        assert!(weigh(">>> f()\n    1\n    >>> f()").is_empty());
        assert_eq!(weigh(">>> f(2)"), [Flag]);
    }
}
