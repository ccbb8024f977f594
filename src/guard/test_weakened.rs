//! A test that is skipped, expected to fail, emptied or gone can't be red. Only what stood at base is watched: a new test may do as it likes.
//!
//! The minimal honest level: it counts assertions and skips function by function. A test that goes together with the function that it tests
//! is a flag, since only a person can tell.

use std::collections::{BTreeMap, BTreeSet};

use super::python::{Block, blocks};
use super::{Patch, of_file};
use crate::domain::{BlobMode, ChangedFile, Finding, Severity, is_test_file};

pub(super) const RULE: &str = "test-weakened";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let gone = names_gone_from_source(patch.changed);
    Ok(patch.changed.iter().filter(|file| is_python(file) && is_test_file(&file.path)).flat_map(|file| weaknesses(file, &gone)).collect())
}

type Blob = (BlobMode, Vec<u8>);

fn is_python(file: &ChangedFile) -> bool {
    file.path.ends_with(b".py")
}

fn text(blob: Option<&Blob>) -> String {
    blob.map(|(_, content)| String::from_utf8_lossy(content).into_owned()).unwrap_or_default()
}

/// Names of functions and classes that the source had before and has nowhere in the changed files now.
fn names_gone_from_source(changed: &[ChangedFile]) -> BTreeSet<String> {
    let names = |side: fn(&ChangedFile) -> Option<&Blob>| {
        let sources = changed.iter().filter(|file| is_python(file) && !is_test_file(&file.path));
        sources.flat_map(move |file| blocks(&text(side(file)))).filter_map(|block| block.name.rsplit('.').next().map(str::to_owned))
    };
    let now: BTreeSet<String> = names(|file| file.after.as_ref()).collect();
    names(|file| file.before.as_ref()).filter(|name| !name.is_empty() && !now.contains(name)).collect()
}

fn weaknesses(file: &ChangedFile, gone: &BTreeSet<String>) -> Vec<Finding> {
    if file.after.is_none() || (file.before.is_none() && !file.path.ends_with(b"conftest.py")) {
        return Vec::new();
    }
    let (before, after) = (blocks(&text(file.before.as_ref())), blocks(&text(file.after.as_ref())));
    let was: BTreeMap<&str, &Block> = before.iter().map(|block| (block.name.as_str(), block)).collect();
    let is: BTreeMap<&str, &Block> = after.iter().map(|block| (block.name.as_str(), block)).collect();
    let refuse = |line, why: String| of_file(RULE, Severity::Refuse, file, line, why);

    let mut findings: Vec<Finding> =
        after.iter().filter_map(|block| Some(refuse(Some(block.line), weakness(block, was.get(block.name.as_str()).copied())?))).collect();
    let lost: Vec<&Block> = before.iter().filter(|block| block.is_test && !is.contains_key(block.name.as_str())).collect();
    let new_tests = after.iter().filter(|block| block.is_test && !was.contains_key(block.name.as_str())).count();
    let asserts = |blocks: &[Block]| blocks.iter().map(|block| block.asserts).sum::<usize>();
    let none_fewer = asserts(&after) >= asserts(&before);
    for test in &lost {
        findings.push(if let Some(name) = test.words.intersection(gone).next() {
            of_file(RULE, Severity::Flag, file, None, format!("the test {} is gone together with {name} of the source", test.name))
        } else if new_tests >= lost.len() && none_fewer {
            of_file(RULE, Severity::Flag, file, None, format!("the test {} is gone or renamed; no assertion is missing", test.name))
        } else {
            refuse(None, format!("the test {} is gone", test.name))
        });
    }
    if findings.is_empty() && !none_fewer {
        findings.push(refuse(None, format!("the file asserts {} times; before it was {}", asserts(&after), asserts(&before))));
    }
    findings
}

/// What is weaker in a block than it was. A new test may skip itself; anything else that is new may not skip others.
fn weakness(block: &Block, was: Option<&Block>) -> Option<String> {
    let shown = if block.name.is_empty() { "the module" } else { &block.name };
    let (asserts, skips) = was.map_or((0, if block.is_test { usize::MAX } else { 0 }), |was| (was.asserts, was.skips));
    if was.is_some_and(|was| was.is_test && !block.is_test) {
        Some(format!("the test {shown} is no longer collected"))
    } else if block.skips > skips {
        Some(format!("{shown} skips, or expects to fail, more than before"))
    } else if block.asserts < asserts {
        Some(format!("{shown} asserts {} times; before it was {asserts}", block.asserts))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    const BASE: &str = "import pytest\n\ndef test_a():\n    assert f(1) == 1\n    assert f(2) == 2\n\ndef test_b():\n    assert g()\n";

    fn weigh(from: &str, to: &str) -> Vec<Severity> {
        assert!(BASE.contains(from), "{from}");
        severities(check, &[changed("tests/test_x.py", Some(BASE), Some(&BASE.replace(from, to)))])
    }

    #[test]
    fn weaker_tests_are_refused() {
        for (from, to) in [
            ("    assert f(2) == 2\n", ""),
            ("    assert f(2) == 2\n", "    # assert f(2) == 2\n"),
            ("    assert f(2) == 2\n", "    'assert f(2)'\n"),
            ("def test_b", "@pytest.mark.skip\ndef test_b"),
            ("def test_b", "@pytest.mark.xfail(\n    reason='slow')\ndef test_b"),
            ("    assert g()", "    pytest.skip('later')\n    assert g()"),
            ("import pytest\n", "import pytest\npytestmark = pytest.mark.skip\n"),
            ("import pytest\n", "import pytest\nx = pytest.importorskip('nothing')\n"),
            ("import pytest\n", "import pytest\ndef setUpModule():\n    raise unittest.SkipTest\n"),
            ("def test_b():\n    assert g()\n", ""),
            ("def test_b", "def check_b"),
            ("def test_b():\n    assert", "class Rest:\n  def test_b():\n    assert"),
            ("def test_b():\n    assert g()\n", "def test_b():\n    assert g()\n\ndef test_b():\n    pass\n"),
        ] {
            assert_eq!(weigh(from, to), [Refuse], "{to}");
        }
    }

    #[test]
    fn honest_changes_are_not() {
        for (from, to) in [
            ("f(2) == 2", "f(2) == 3"),
            ("    assert f(2) == 2\n", "    assert f(2) == 2\n    assert f(3) == 3\n"),
            ("    assert f(2) == 2\n", "    assert f(\n        2\n    ) == 2  # skip\n"),
            ("    assert f(2) == 2\n", "    with pytest.raises(ValueError):\n        f(2)\n"),
            ("def test_b", "@pytest.mark.skipif(WINDOWS, reason='no')\ndef test_new():\n    assert 1\n\ndef test_b"),
            ("def test_b", "@pytest.mark.slow\ndef test_b"),
        ] {
            assert!(weigh(from, to).is_empty(), "{to}");
        }
        assert_eq!(weigh("def test_b", "def test_c"), [Flag], "a renamed test");
        let unskipped = changed("tests/test_x.py", Some("@skip\ndef test_a():\n    assert 1\n"), Some("def test_a():\n    assert 1\n"));
        assert!(severities(check, &[unskipped]).is_empty());
    }

    #[test]
    fn a_test_may_go_with_what_it_tests() {
        let shorter = BASE.replace("def test_b():\n    assert g()\n", "");
        let test = changed("tests/test_x.py", Some(BASE), Some(&shorter));
        let source = changed("src/x.py", Some("def f(x):\n    return x\ndef g():\n    pass\n"), Some("def f(x):\n    return x\n"));
        assert_eq!(severities(check, &[test.clone(), source]), [Flag]);
        let moved = [changed("src/x.py", Some("def g():\n    pass\n"), Some("")), changed("src/y.py", None, Some("def g():\n    pass\n"))];
        assert_eq!(severities(check, &[vec![test], moved.to_vec()].concat()), [Refuse]);
    }

    #[test]
    fn a_new_conftest_may_not_skip() {
        let skips = "@pytest.fixture(autouse=True)\ndef guard():\n    pytest.skip()\n";
        assert_eq!(severities(check, &[changed("tests/conftest.py", None, Some(skips))]), [Refuse]);
        assert!(severities(check, &[changed("tests/conftest.py", None, Some("@pytest.fixture\ndef store():\n    return 1\n"))]).is_empty());
        assert!(severities(check, &[changed("tests/test_new.py", None, Some(skips))]).is_empty());
        assert!(severities(check, &[changed("src/x.py", Some("assert 1\n"), Some(skips))]).is_empty());
    }
}
