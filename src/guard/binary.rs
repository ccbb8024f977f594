//! What can't be read can't be reviewed.

use super::{Patch, of_file};
use crate::domain::{BlobMode, ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "binary";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    Ok(patch.changed.iter().filter_map(|file| finding(file, patch.limits.allow_binary)).collect())
}

/// Whether the content holds bytes that no text file has: control characters other than white space and escape.
pub(super) fn is_binary(content: &[u8]) -> bool {
    content.iter().any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127))
}

fn finding(file: &ChangedFile, allowed: bool) -> Option<Finding> {
    let (mode, content) = file.after.as_ref()?;
    let is_file = matches!(mode, BlobMode::File | BlobMode::Executable);
    let was_utf8 = file.before.as_ref().is_none_or(|(_, before)| std::str::from_utf8(before).is_ok());
    if is_file && is_binary(content) {
        let severity = if allowed { Severity::Flag } else { Severity::Refuse };
        return Some(of_file(RULE, severity, file, None, "the file is binary, so nobody can review it"));
    }
    (is_file && was_utf8 && std::str::from_utf8(content).is_err())
        .then(|| of_file(RULE, Severity::Flag, file, None, "the file is not UTF-8; it may look different elsewhere"))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::domain::{BlobMode, ChangedFile};
    use crate::guard::tests::{changed, findings_with, severities};
    use crate::guard::{Base, Limits};

    #[test]
    fn binary_is_refused_unless_configured_and_odd_encodings_are_flagged() {
        let compiled = changed("a.pyc", None, Some("\u{0}\u{1}"));
        assert_eq!(severities(check, std::slice::from_ref(&compiled)), [Refuse]);
        let limits = Limits { allow_binary: true, ..Limits::default() };
        let allowed = findings_with(check, &[compiled], &limits, &Base::default());
        assert_eq!(allowed[0].severity, Flag);
        let latin = Some((BlobMode::File, b"caf\xe9\n".to_vec()));
        let new = ChangedFile { path: b"a.txt".to_vec(), before: None, after: latin.clone() };
        assert_eq!(severities(check, std::slice::from_ref(&new)), [Flag]);
        let kept = ChangedFile { before: latin, ..new };
        assert!(severities(check, &[kept, changed("a.py", None, Some("x\t\u{c}\r\n"))]).is_empty());
    }
}
