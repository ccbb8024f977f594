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

/// What a project's own settings call a test: `python_files`, `python_functions` and `python_classes` of pytest. Empty lists stand for what pytest
/// looks for by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestNames {
    /// Patterns of files, by their names, or by the end of their paths where a pattern has a slash.
    pub files: Vec<String>,
    /// Beginnings or patterns of functions and methods.
    pub functions: Vec<String>,
    /// Beginnings or patterns of classes.
    pub classes: Vec<String>,
}

impl TestNames {
    /// A file that a runner collects by its name, by the settings or by the name alone.
    #[must_use]
    pub fn is_collected_file(&self, path: &[u8]) -> bool {
        is_collected_file(path) || self.chooses_file(path)
    }

    /// Whether the settings name the file; where they name none, whether its name says that it is collected.
    #[must_use]
    pub fn would_collect(&self, path: &[u8]) -> bool {
        if self.files.is_empty() { is_collected_file(path) } else { self.chooses_file(path) }
    }

    /// A test, or something that only tests use.
    #[must_use]
    pub fn is_test_file(&self, path: &[u8]) -> bool {
        is_test_file(path) || self.chooses_file(path)
    }

    /// Whether a function or method is a test by its name.
    #[must_use]
    pub fn is_function(&self, name: &str) -> bool {
        if self.functions.is_empty() { name.starts_with("test") } else { self.functions.iter().any(|pattern| is_named(pattern, name)) }
    }

    /// Whether a class holds tests by its name.
    #[must_use]
    pub fn is_class(&self, name: &str) -> bool {
        if self.classes.is_empty() { name.starts_with("Test") } else { self.classes.iter().any(|pattern| is_named(pattern, name)) }
    }

    fn chooses_file(&self, path: &[u8]) -> bool {
        let ends_with = |pattern: &str| {
            let whole = String::from_utf8_lossy(path);
            let tail = whole.rsplitn(pattern.matches('/').count() + 2, '/').collect::<Vec<_>>();
            let kept = tail.iter().take(pattern.matches('/').count() + 1).rev().copied().collect::<Vec<_>>().join("/");
            matches(pattern.as_bytes(), kept.as_bytes())
        };
        path.ends_with(b".py") && self.files.iter().any(|pattern| ends_with(pattern))
    }
}

fn is_named(pattern: &str, name: &str) -> bool {
    name.starts_with(pattern) || pattern.contains(['*', '?', '[']) && matches(pattern.as_bytes(), name.as_bytes())
}

/// Whether a pattern of a shell, with `*`, `?` and `[…]`, means the whole text.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut here, mut star) = (0, 0, None);
    while here < text.len() {
        match one(&pattern[at..], text[here]) {
            Some(used) => (at, here) = (at + used, here + 1),
            None if pattern.get(at) == Some(&b'*') => {
                star = Some((at + 1, here));
                at += 1;
            }
            None => match star {
                Some((after, from)) => {
                    (at, here) = (after, from + 1);
                    star = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// How many bytes of a pattern mean this one byte of text; none where they don't.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern.first()? {
        b'*' => None,
        b'?' => Some(1),
        b'[' => {
            let end = pattern.iter().skip(2).position(|known| *known == b']').map(|at| at + 2);
            let Some(end) = end else { return (byte == b'[').then_some(1) };
            let (denied, set) = if pattern[1] == b'!' { (true, &pattern[2..end]) } else { (false, &pattern[1..end]) };
            let mut found = set.contains(&byte) && byte != b'-';
            found |= set.windows(3).any(|range| range[1] == b'-' && (range[0]..=range[2]).contains(&byte));
            (found != denied).then_some(end + 1)
        }
        known => (*known == byte).then_some(1),
    }
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
    use super::{TestNames, is_collected_file, is_test_configuration, is_test_file, matches};

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
    #[test]
    fn settings_say_what_a_test_is() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let names =
            TestNames { files: list(&["check_*.py", "specs/*.py"]), functions: list(&["check", "*_works"]), classes: list(&["Spec"]) };
        for path in ["a/check_x.py", "specs/x.py", "a/specs/x.py"] {
            assert!(names.would_collect(path.as_bytes()) && names.is_test_file(path.as_bytes()), "{path}");
        }
        for path in ["a/xcheck_x.py", "specs/a/x.py", "test_x.py", "check_x.txt"] {
            assert!(!names.would_collect(path.as_bytes()), "{path}");
        }
        assert!(names.is_test_file(b"test_x.py") && names.is_collected_file(b"test_x.py"), "nobody takes it for source");
        assert!(names.is_function("check_a") && names.is_function("it_works") && !names.is_function("test_a"));
        assert!(names.is_class("SpecA") && !names.is_class("TestA"));
        let none = TestNames::default();
        assert!(
            none.is_function("test_a") && none.is_class("TestA") && none.would_collect(b"a_test.py") && !none.would_collect(b"check_x.py")
        );
    }

    #[test]
    fn patterns_mean_what_a_shell_means() {
        for (pattern, text) in [("*", ""), ("a*c", "abbc"), ("*_b*", "a_b_b"), ("[a-c]?", "bx"), ("[!t]*", "a"), ("[", "["), ("a**", "a")] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a", ""), ("a*c", "ab"), ("[a-c]", "d"), ("[!t]*", "ta"), ("?", "")] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }
}
