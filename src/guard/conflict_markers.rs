//! A half-merged file is nobody's intention.

use super::{Patch, lines, of_file};
use crate::domain::{Finding, Severity};

pub(super) const RULE: &str = "conflict-markers";

const MARKERS: [&[u8]; 3] = [b"<<<<<<<", b">>>>>>>", b"|||||||"];

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for file in patch.changed {
        for (number, _) in lines::added(file).into_iter().filter(|(_, line)| is_marker(line)) {
            findings.push(of_file(RULE, Severity::Refuse, file, Some(number), "a marker of an unfinished merge was left in the file"));
        }
    }
    Ok(findings)
}

fn is_marker(line: &[u8]) -> bool {
    MARKERS.iter().any(|marker| line.strip_prefix(*marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(b" ")))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::guard::tests::{changed, findings};

    #[test]
    fn markers_are_refused_and_headings_are_not() {
        let merged = changed("a.py", Some("x\n"), Some("<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> other\n"));
        assert_eq!(findings(check, &[merged]).iter().map(|finding| finding.line).collect::<Vec<_>>(), [Some(1), Some(5)]);
        assert!(findings(check, &[changed("a.rst", None, Some("Heading\n=======\n>>> 1\n<<<<<<<<<<\n"))]).is_empty());
    }
}
