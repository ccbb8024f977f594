//! A Python file that can't be read can't be judged by the rules that read it. One that Python may read and the rules don't is refused, as is one
//! that Python read before and doesn't now; a new one that is no Python at all is shown, since broken programs are good test data.

use super::python::{PythonFile, Reading, Role};
use super::{Patch, of_file};
use crate::domain::{Finding, Severity};

pub(super) const RULE: &str = "unreadable-python";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    Ok(patch.python.iter().filter_map(finding).collect())
}

fn finding(file: &PythonFile<'_>) -> Option<Finding> {
    let why = match &file.after {
        Reading::Broken(why) => why,
        Reading::Unread(why) => {
            return Some(of_file(RULE, Severity::Refuse, file.file, None, format!("the rules can't read the file: {why}")));
        }
        Reading::Absent | Reading::Read(_) => return None,
    };
    let is_data = file.role == Role::Support && !file.file.path.ends_with(b"conftest.py") && !file.file.path.ends_with(b"__init__.py");
    let severity = match file.before {
        Reading::Read(_) if !is_data => Severity::Refuse,
        Reading::Absent if file.role == Role::Source => Severity::Refuse,
        _ => Severity::Flag,
    };
    Some(of_file(RULE, severity, file.file, None, format!("Python can't read the file: {why}")))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn a_file_that_broke_is_refused() {
        assert_eq!(severities(check, &[changed("src/a.py", Some("x = 1\n"), Some("x = \n"))]), [Refuse]);
        assert_eq!(severities(check, &[changed("tests/test_a.py", Some("x = 1\n"), Some("def (\n"))]), [Refuse]);
        assert_eq!(severities(check, &[changed("src/a.py", None, Some("# coding: utf-7\n"))]), [Refuse]);
        assert_eq!(severities(check, &[changed("tests/data/broken.py", None, Some("def (\n"))]), [Flag]);
        let large = "x = 1\n".repeat(1_000_000);
        assert_eq!(severities(check, &[changed("tests/data/large.py", Some(&large), Some(&format!("{large}y = 1\n")))]), [Refuse]);
        assert_eq!(severities(check, &[changed("tests/helper.py", None, Some("# coding: utf-7\n"))]), [Refuse]);
        assert_eq!(severities(check, &[changed("src/old.py", Some("print 1\n"), Some("print 2\n"))]), [Flag]);
        assert!(severities(check, &[changed("src/a.py", Some("x = \n"), Some("x = 1\n"))]).is_empty());
    }
}
