//! The cheapest way to green is to delete what is red.

use super::{Patch, of_file};
use crate::domain::{ChangedFile, Finding, Severity, is_collected_file, is_test_file};

pub(super) const RULE: &str = "test-deleted";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let deleted = patch.changed.iter().filter(|file| file.before.is_some() && file.after.is_none() && is_test_file(&file.path));
    Ok(deleted.map(|file| finding(file, patch.changed)).collect())
}

fn finding(deleted: &ChangedFile, changed: &[ChangedFile]) -> Finding {
    match changed.iter().find(|other| is_renamed(deleted, other)) {
        Some(other) => of_file(RULE, Severity::Flag, deleted, None, format!("the test file is now called {}", other.shown_path())),
        None => of_file(RULE, Severity::Refuse, deleted, None, "the patch deletes a file that belongs to the tests"),
    }
}

/// The same bytes in the same folder under another name that a runner collects.
fn is_renamed(deleted: &ChangedFile, other: &ChangedFile) -> bool {
    other.before.is_none()
        && other.after == deleted.before
        && folder(&other.path) == folder(&deleted.path)
        && is_collected_file(&other.path)
        && is_collected_file(&deleted.path)
}

fn folder(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn a_deleted_test_or_stored_answer_is_refused() {
        assert_eq!(severities(check, &[changed("tests/expected/a.txt", Some("x"), None)]), [Refuse]);
        assert_eq!(severities(check, &[changed("pkg/test_a.py", Some("x"), None)]), [Refuse]);
        assert!(severities(check, &[changed("src/a.py", Some("x"), None)]).is_empty());
    }

    #[test]
    fn a_rename_is_flagged_only_where_the_test_still_runs_unchanged() {
        let renamed_to = |path, text| severities(check, &[changed("tests/test_a.py", Some("x"), None), changed(path, None, Some(text))]);
        assert_eq!(renamed_to("tests/test_b.py", "x"), [Flag]);
        assert_eq!(renamed_to("tests/test_b.py", "weaker"), [Refuse]);
        assert_eq!(renamed_to("tests/old_a.py", "x"), [Refuse]);
        assert_eq!(renamed_to("attic/test_b.py", "x"), [Refuse]);
    }
}
