//! The clean room: what of a patch is judged. Tests, and files that decide how tests run, stay as they were at base, whatever the patch did to
//! them; new tests of the patch stand beside them, but new configuration does not.

use crate::domain::{ChangedFile, TestNames, is_test_configuration};

/// A patch taken apart for the judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanRoom {
    /// What is put on the base tree before the tests run.
    pub judged: Vec<ChangedFile>,
    /// Paths that the patch changed or deleted and that are as at base.
    pub restored: Vec<Vec<u8>>,
    /// New paths of the patch that are left out.
    pub left_out: Vec<Vec<u8>>,
}

/// Takes a patch apart by what base calls a test: base + `judged` is the tree to test.
#[must_use]
pub fn clean_room(changed: &[ChangedFile], tests: &TestNames) -> CleanRoom {
    let restored = restored_paths(changed, tests);
    let is_in_the_way = |path: &[u8]| restored.iter().any(|kept| kept.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/")));
    let is_left_out = |file: &&ChangedFile| file.before.is_none() && (is_test_configuration(&file.path) || is_in_the_way(&file.path));
    let left_out: Vec<Vec<u8>> = changed.iter().filter(is_left_out).map(|file| file.path.clone()).collect();
    let judged = changed.iter().filter(|file| !restored.contains(&file.path) && !left_out.contains(&file.path)).cloned().collect();
    CleanRoom { judged, restored, left_out }
}

/// The patch with its own tests, but with the old configuration: base + this is the tree to test when the clean room is red and the patch changed
/// tests, to learn whether only an expectation changed ([`super::judge_changed_tests`]).
#[must_use]
pub fn with_own_tests(changed: &[ChangedFile]) -> Vec<ChangedFile> {
    changed.iter().filter(|file| !is_test_configuration(&file.path)).cloned().collect()
}

/// The paths of a patch to put back as they were at base: tests and all that is below their folders, and configuration for tests.
#[must_use]
pub fn restored_paths(changed: &[ChangedFile], tests: &TestNames) -> Vec<Vec<u8>> {
    let belongs_to_tests = |path: &[u8]| tests.is_test_file(path) || is_test_configuration(path);
    changed.iter().filter(|file| file.before.is_some() && belongs_to_tests(&file.path)).map(|file| file.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::{clean_room, with_own_tests};
    use crate::domain::{BlobMode, ChangedFile, TestNames};

    fn changed(path: &str, before: Option<&str>, after: Option<&str>) -> ChangedFile {
        let blob = |text: &str| (BlobMode::File, text.as_bytes().to_vec());
        ChangedFile { path: path.as_bytes().to_vec(), before: before.map(blob), after: after.map(blob) }
    }

    fn shown(paths: &[Vec<u8>]) -> Vec<String> {
        paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    #[test]
    fn tests_are_judged_as_they_were() {
        let patch = [
            changed("src/a.py", Some("x"), Some("y")),
            changed("tests/test_a.py", Some("x"), Some("y")),
            changed("tests/data/a.json", Some("x"), None),
            changed("tests/test_new.py", None, Some("y")),
            changed("pyproject.toml", Some("x"), Some("y")),
            changed("conftest.py", None, Some("y")),
            changed("pytest.ini", None, Some("y")),
        ];
        let room = clean_room(&patch, &TestNames::default());
        assert_eq!(room.judged, [patch[0].clone(), patch[3].clone()]);
        assert_eq!(shown(&room.restored), ["tests/test_a.py", "tests/data/a.json", "pyproject.toml"]);
        assert_eq!(shown(&room.left_out), ["conftest.py", "pytest.ini"]);
        assert_eq!(with_own_tests(&patch), patch[..4]);
    }

    #[test]
    fn a_file_does_not_take_the_place_of_a_folder_of_tests() {
        let patch = [changed("tests/test_a.py", Some("x"), None), changed("tests", None, Some("y"))];
        let room = clean_room(&patch, &TestNames::default());
        assert_eq!((room.judged.len(), shown(&room.left_out)), (0, vec!["tests".to_owned()]));
    }
}
