//! A patch that changes nothing fixes nothing.

use super::{Patch, of_file, of_patch};
use crate::domain::{BlobMode, ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "empty";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    if patch.changed.iter().all(|file| file.before == file.after) {
        return Ok(vec![of_patch(RULE, Severity::Refuse, "the patch changes nothing")]);
    }
    if patch.changed.iter().all(only_white_space_differs) {
        return Ok(patch
            .changed
            .iter()
            .take(1)
            .map(|file| of_file(RULE, Severity::Flag, file, None, "the patch changes nothing but white space"))
            .collect());
    }
    Ok(Vec::new())
}

fn only_white_space_differs(file: &ChangedFile) -> bool {
    fn inked(content: &[u8]) -> impl Iterator<Item = &u8> {
        content.iter().filter(|byte| !byte.is_ascii_whitespace())
    }
    match (&file.before, &file.after) {
        (Some(before), Some(after)) => before.0 == after.0 && inked(&before.1).eq(inked(&after.1)),
        (None, Some(after)) => after.0 == BlobMode::File && inked(&after.1).next().is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn nothing_is_refused_and_white_space_flagged() {
        assert_eq!(severities(check, &[]), [Refuse]);
        assert_eq!(severities(check, &[changed("a", Some("x"), Some("x"))]), [Refuse]);
        assert_eq!(severities(check, &[changed("a", Some("x=1"), Some("x = 1\n"))]), [Flag]);
        assert!(severities(check, &[changed("a", Some("x=1"), Some("x=2"))]).is_empty());
        assert!(severities(check, &[changed("a", Some("x"), None)]).is_empty());
    }
}
