//! A file that goes is shown: a document or a module may be missed by others than the tests. A licence is shown when it changes, too.

use super::{Patch, file_name, of_file};
use crate::domain::{Finding, Severity};

pub(super) const RULE: &str = "file-deleted";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let of_law = patch.changed.iter().filter(|file| file.before.is_some() && file.after.is_some() && is_of_law(file_name(&file.path)));
    let of_law = of_law.map(|file| of_file(RULE, Severity::Flag, file, None, "the file says what others may do, or whom to ask"));
    let deleted = patch.changed.iter().filter(|file| file.after.is_none() && !patch.is_of_tests(&file.path));
    Ok(deleted.map(|file| of_file(RULE, Severity::Flag, file, None, "the patch deletes the file")).chain(of_law).collect())
}

/// A licence or notice, or a file of who is asked and trusted.
fn is_of_law(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_lowercase();
    ["licen", "copying", "notice", "security.", "maintainers", "governance", "patents"].iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::Flag;
    use crate::guard::tests::{changed, severities};

    #[test]
    fn deleted_files_are_shown() {
        assert_eq!(severities(check, &[changed("LICENSE", Some("x"), None)]), [Flag]);
        assert_eq!(severities(check, &[changed("LICENSE", Some("x"), Some("y"))]), [Flag]);
        assert!(severities(check, &[changed("tests/test_a.py", Some("x"), None), changed("a", Some("x"), Some("y"))]).is_empty());
    }
}
