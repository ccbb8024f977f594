//! The cheapest way to green is to delete what is red.

use super::{Blob, Patch, file_name, folder, foreign_test, of_file, shown, test_weakened, text};
use crate::domain::{BlobMode, ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "test-deleted";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let deleted =
        patch.changed.iter().filter(|file| is_file(file.before.as_ref()) && !is_file(file.after.as_ref()) && is_test(&file.path, patch));
    Ok(deleted.map(|file| finding(file, patch)).collect())
}

fn finding(deleted: &ChangedFile, patch: &Patch<'_>) -> Finding {
    let say = |severity, why: String| of_file(RULE, severity, deleted, None, why);
    if file_name(&deleted.path) == b"__init__.py" {
        let is_package = patch.paths_after().any(|path| folder(path) == folder(&deleted.path) && patch.tests.is_collected_file(path));
        let severity = if is_package { Severity::Refuse } else { Severity::Flag };
        return say(severity, "without this file the folder of tests is no package".to_owned());
    }
    if is_empty(deleted) {
        return say(Severity::Flag, "the patch deletes an empty file that belongs to the tests".to_owned());
    }
    let twin = patch.changed.iter().find(|other| is_renamed(deleted, other, patch));
    if let Some(other) = twin {
        return say(Severity::Flag, format!("the file of the tests is now called {}", shown(&other.path)));
    }
    if patch.tests.is_collected_file(&deleted.path) && test_weakened::has_tests(patch, &deleted.path) {
        return match test_weakened::unexplained(patch, &deleted.path) {
            None => say(Severity::Flag, "the file of tests is gone; its tests are elsewhere, or went with what they tested".to_owned()),
            Some(why) => say(Severity::Refuse, format!("the patch deletes a file of tests, and {why}")),
        };
    }
    if is_example(deleted) && !test_weakened::has_tests(patch, &deleted.path) {
        return say(Severity::Flag, "the patch deletes a program that is called like a test, and holds none".to_owned());
    }
    if is_no_longer_used(deleted, patch) {
        return say(Severity::Flag, "the patch deletes a file of the tests together with what used it".to_owned());
    }
    say(Severity::Refuse, "the patch deletes a file that belongs to the tests".to_owned())
}

fn is_file(blob: Option<&Blob>) -> bool {
    blob.is_some_and(|(mode, _)| matches!(mode, BlobMode::File | BlobMode::Executable))
}

/// A test of Python, or one of another language.
fn is_test(path: &[u8], patch: &Patch<'_>) -> bool {
    patch.tests.is_test_file(path) || foreign_test::is_foreign_test(path)
}

/// A program for people, in a folder that says so, and in no folder of tests.
fn is_example(file: &ChangedFile) -> bool {
    const FOR_PEOPLE: [&[u8]; 12] = [
        b"example",
        b"examples",
        b"demo",
        b"demos",
        b"samples",
        b"docs",
        b"doc",
        b"scripts",
        b"tools",
        b"benchmarks",
        b"bench",
        b"tutorial",
    ];
    let folders = || file.path.rsplit(|byte| *byte == b'/').skip(1);
    let of_tests = folders().any(|folder| matches!(folder, b"test" | b"tests" | b"testing"));
    !of_tests && folders().any(|folder| FOR_PEOPLE.contains(&folder)) && file.path.ends_with(b".py")
}

fn is_empty(file: &ChangedFile) -> bool {
    file.before.as_ref().is_some_and(|(_, content)| content.iter().all(u8::is_ascii_whitespace))
}

/// The same bytes at another place where they do the same: a collected file where a runner collects, another one in the same folder of tests.
fn is_renamed(deleted: &ChangedFile, other: &ChangedFile, patch: &Patch<'_>) -> bool {
    let same = other.before.is_none() && other.after == deleted.before;
    let same_place = if patch.tests.is_collected_file(&deleted.path) {
        test_weakened::is_collected_place(&other.path, patch)
    } else {
        patch.tests.is_test_file(&other.path) && file_name(&other.path) != b"conftest.py"
    };
    same && same_place
        && file_name(&deleted.path) != b"conftest.py"
        && (patch.tests.is_collected_file(&deleted.path) || !is_stored_answer(deleted, other, patch))
}

/// A stored answer under another name is not found by a test that still asks for the old one.
fn is_stored_answer(deleted: &ChangedFile, other: &ChangedFile, patch: &Patch<'_>) -> bool {
    file_name(&deleted.path) != file_name(&other.path)
        && !patch
            .changed
            .iter()
            .any(|file| patch.tests.is_collected_file(&file.path) && file.before != file.after && file.path != deleted.path)
}

/// Whether the changed tests named the file before and no longer do.
fn is_no_longer_used(deleted: &ChangedFile, patch: &Patch<'_>) -> bool {
    let name = String::from_utf8_lossy(file_name(&deleted.path)).into_owned();
    let stem = name.split('.').next().unwrap_or(&name).to_owned();
    let names_it = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').any(|word| word == stem);
    let tests = || patch.changed.iter().filter(|file| patch.tests.is_collected_file(&file.path));
    stem.len() > 2 && tests().any(|file| names_it(&text(file.before.as_ref()))) && !tests().any(|file| names_it(&text(file.after.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::Limits;
    use crate::guard::tests::{base_with, changed, findings_with, severities};

    #[test]
    fn a_deleted_test_or_stored_answer_is_refused() {
        assert_eq!(severities(check, &[changed("tests/expected/a.txt", Some("x"), None)]), [Refuse]);
        assert_eq!(severities(check, &[changed("pkg/test_a.py", Some("x"), None)]), [Refuse]);
        assert!(severities(check, &[changed("src/a.py", Some("x"), None)]).is_empty());
    }

    #[test]
    fn a_file_of_tests_may_move_with_all_its_tests() {
        let test = "from shop import f\n\ndef test_a():\n    assert f(1) == 1\n\ndef test_b():\n    assert f(2) == 2\n";
        let base = base_with(&["tests/test_a.py", "tests/test_other.py", "src/shop.py"], &[]);
        let moved_to = |path: &str, text: &str| {
            let patch = [changed("tests/test_a.py", Some(test), None), changed(path, None, Some(text))];
            findings_with(check, &patch, &Limits::default(), &base).iter().map(|finding| finding.severity).collect::<Vec<_>>()
        };
        assert_eq!(moved_to("tests/test_b.py", test), [Flag]);
        assert_eq!(moved_to("tests/unit/test_a.py", test), [Flag]);
        assert_eq!(moved_to("tests/test_b.py", &test.replace("from shop", "from shop.core")), [Flag]);
        assert_eq!(moved_to("tests/test_b.py", &test.replace("assert f(2) == 2", "pass")), [Refuse]);
        for path in ["tests/old_a.py", "attic/test_b.py", "tests/build/test_a.py", "tests/.hidden/test_a.py"] {
            assert_eq!(moved_to(path, test), [Refuse], "{path}");
        }
    }

    #[test]
    fn data_may_go_with_the_test_that_used_it() {
        let data = changed("tests/expected/lunch.txt", Some("x"), None);
        let test = changed("tests/test_a.py", Some("def test_a():\n    check('lunch')\n"), Some("x = 1\n"));
        assert_eq!(severities(check, &[data.clone(), test]), [Flag]);
        assert_eq!(severities(check, &[data, changed("tests/test_a.py", Some("x"), Some("y"))]), [Refuse]);
    }
}
