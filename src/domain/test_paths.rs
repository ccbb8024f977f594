//! Which paths belong to a project's tests. The guard looks at them harder, the judge puts them back as they were.

/// A test, or something that only tests use: a file that a Python runner collects by its name, a `conftest.py`, or anything below a folder
/// for tests (helpers, data, stored answers).
#[must_use]
pub fn is_test_file(path: &[u8]) -> bool {
    let name = file_name(path);
    let below_tests = folders(path).any(|folder| TEST_FOLDERS.iter().any(|known| folder.eq_ignore_ascii_case(known)));
    below_tests || name == b"conftest.py" || is_collected_file(path)
}

/// A file that pytest or unittest collects by its name alone.
#[must_use]
pub fn is_collected_file(path: &[u8]) -> bool {
    let name = file_name(path);
    name.strip_suffix(b".py").is_some_and(|stem| stem.starts_with(b"test") || stem.ends_with(b"_test") || stem.ends_with(b"_tests"))
}

/// A file that decides how the tests run. Some (`pyproject.toml`, `setup.cfg`, a Makefile) decide other things too.
#[must_use]
pub fn is_test_configuration(path: &[u8]) -> bool {
    TEST_CONFIGURATION.contains(&file_name(path))
}

const TEST_FOLDERS: &[&[u8]] = &[b"test", b"tests", b"testing", b"__snapshots__"];

const TEST_CONFIGURATION: &[&[u8]] = &[
    b"conftest.py",
    b"pytest.ini",
    b".pytest.ini",
    b"pytest.toml",
    b".pytest.toml",
    b"tox.ini",
    b"tox.toml",
    b"noxfile.py",
    b"setup.cfg",
    b"pyproject.toml",
    b".coveragerc",
    b"Makefile",
    b"makefile",
    b"GNUmakefile",
];

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.rsplit(|byte| *byte == b'/').skip(1)
}

#[cfg(test)]
mod tests {
    use super::{is_collected_file, is_test_configuration, is_test_file};

    #[test]
    fn tests_are_known_by_their_names_and_folders() {
        for path in ["tests/data/phrases.json", "pkg/test_slug.py", "test.py", "a/Tests/helper.py", "conftest.py", "x/slug_test.py"] {
            assert!(is_test_file(path.as_bytes()), "{path}");
        }
        for path in ["src/latest.py", "contest.py", "attest/x.py", "src/tests_of_time.txt", "tests"] {
            assert!(!is_test_file(path.as_bytes()), "{path}");
        }
        assert!(!is_collected_file(b"tests/helper.py"));
    }

    #[test]
    fn configuration_is_known_in_every_folder() {
        assert!(is_test_configuration(b"pyproject.toml"));
        assert!(is_test_configuration(b"sub/conftest.py"));
        assert!(!is_test_configuration(b"docs/conf.py"));
    }
}
