//! Changed tests, and files that decide how tests run, are always shown: the judge put them back as they were before it ran them.

use super::{Patch, of_file};
use crate::domain::{ChangedFile, Finding, Severity, TestNames, is_test_configuration};

pub(super) const RULE: &str = "tests-changed";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    Ok(patch.changed.iter().filter_map(|file| finding(file, &patch.tests)).collect())
}

fn finding(file: &ChangedFile, tests: &TestNames) -> Option<Finding> {
    let why = match (&file.before, is_test_configuration(&file.path), tests.is_test_file(&file.path)) {
        (Some(_), true, _) => "the file decides how the tests run; the patch was judged with the old one",
        (None, true, _) => "the new file decides how the tests run; the patch was judged without it",
        (Some(_), false, true) => "the file belongs to the tests; the patch was judged with the old one",
        _ => return None,
    };
    Some(of_file(RULE, Severity::Flag, file, None, why))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::Flag;
    use crate::guard::tests::{changed, severities};

    #[test]
    fn changed_tests_and_any_configuration_are_flagged() {
        let flagged = [
            changed("tests/test_a.py", Some("x"), Some("y")),
            changed("pyproject.toml", Some("x"), Some("y")),
            changed("tests/conftest.py", None, Some("y")),
        ];
        assert_eq!(severities(check, &flagged), [Flag; 3]);
        assert!(severities(check, &[changed("tests/test_b.py", None, Some("y")), changed("src/a.py", Some("x"), Some("y"))]).is_empty());
    }
}
