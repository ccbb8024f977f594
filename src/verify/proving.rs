//! Red-green: which tests of a patch fail without its source changes and pass with them.
//!
//! What must hold: a test speaks for a patch only where it is red in every run without the source and green in every run with it, and red for a
//! reason that is about behaviour: an assertion, or an exception that a wrong program raises. A test that could not be imported, or that misses a
//! name which the patch brings, is red on any tree and proves nothing.

use std::collections::BTreeMap;

use crate::domain::{ChangedFile, TestCase, TestNames, TestResult, TestRun, is_test_configuration};

/// How often the tests of a patch run with and without its source.
pub const RUNS: usize = 3;

/// Exceptions of a tree that lacks something: never a proof.
const NEVER: &[&str] = &["ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError"];
/// Exceptions of a name, parameter or file that is not there yet, as well as of a bug: a proof only where the issue speaks of them.
const ONLY_IF_ASKED: &[&str] = &["AttributeError", "NameError", "UnboundLocalError", "TypeError", "FileNotFoundError"];

/// The tests that prove a patch, of what its test files said in runs without its source (`red`) and with it (`green`). `fixed` are tests that
/// failed at base as they are there; `issue` is all that the issue says.
#[must_use]
pub fn proving(red: &[TestRun], green: &[TestRun], fixed: &[String], issue: &str) -> Vec<String> {
    let by_name = |run: &TestRun| run.cases.iter().map(|case| (case.name.clone(), case.clone())).collect::<BTreeMap<_, _>>();
    let (red, green) = (red.iter().map(by_name).collect::<Vec<_>>(), green.iter().map(by_name).collect::<Vec<_>>());
    let Some(names) = red.first().map(|run| run.keys()) else { return Vec::new() };
    let fails = |name: &String| red.iter().all(|run| run.get(name).is_some_and(|case| is_proof(case, issue)));
    let passes = |name: &String| green.iter().all(|run| run.get(name).is_some_and(|case| case.result == TestResult::Passed));
    names.filter(|name| fails(name) && passes(name) && !fixed.contains(name)).cloned().collect()
}

fn is_proof(case: &TestCase, issue: &str) -> bool {
    let Some(exception) = case.exception.as_deref().map(|name| name.rsplit('.').next().unwrap_or(name)) else { return false };
    matches!(case.result, TestResult::Failed | TestResult::Error)
        && !NEVER.contains(&exception)
        && (!ONLY_IF_ASKED.contains(&exception) || names(issue, exception))
}

fn names(issue: &str, exception: &str) -> bool {
    issue.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == exception)
}

/// The patch's tests alone, without its source and its configuration: base + this is where they must be red.
#[must_use]
pub fn tests_alone(changed: &[ChangedFile], tests: &TestNames) -> Vec<ChangedFile> {
    changed.iter().filter(|file| tests.is_test_file(&file.path) && !is_test_configuration(&file.path)).cloned().collect()
}

/// The test files that a patch brings or changes and that a runner collects.
#[must_use]
pub fn test_files(changed: &[ChangedFile], tests: &TestNames) -> Vec<String> {
    let collected = changed.iter().filter(|file| file.after.is_some() && tests.is_collected_file(&file.path));
    collected.filter_map(|file| String::from_utf8(file.path.clone()).ok()).collect()
}

/// The files of these tests by their names, among `paths`; none where one of them can't be told.
#[must_use]
pub fn files_of<'a>(tests: &[String], paths: impl Iterator<Item = &'a Vec<u8>>, names: &TestNames) -> Option<Vec<String>> {
    let modules = paths.filter(|path| names.is_collected_file(path)).filter_map(|path| {
        let path = std::str::from_utf8(path).ok()?;
        Some((path.strip_suffix(".py")?.replace('/', "."), path.to_owned()))
    });
    let modules = modules.collect::<Vec<_>>();
    let mut files = Vec::new();
    for test in tests {
        let owner = test.split_once("::").map_or(test.as_str(), |(owner, _)| owner);
        let is_below = |module: &str| owner == module || owner.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'));
        let is_it = |module: &str| is_below(module) || module.match_indices('.').any(|(dot, _)| is_below(&module[dot + 1..]));
        let found = modules.iter().filter(|(module, _)| is_it(module)).map(|(_, path)| path.clone()).collect::<Vec<_>>();
        if found.is_empty() {
            return None;
        }
        files.extend(found);
    }
    files.sort();
    files.dedup();
    Some(files)
}

/// Whether a runner's name of a test, without its parameters, means what is called so: `tests.test_a.TestA.test_b` is
/// `tests.test_a.TestA::test_b`, and for the examples in a docstring `src.shop.price` is `src.shop::shop.price`.
#[must_use]
pub fn is_called(test: &str, dotted: &str) -> bool {
    let (owner, name) = test.split_once("::").unwrap_or(("", test));
    let is_it = |name: &str| dotted == name || name.contains('.') && dotted.ends_with(&format!(".{name}"));
    let name = name.split('[').next().unwrap_or(name);
    is_it(&format!("{owner}.{name}")) || is_it(name)
}

#[cfg(test)]
mod tests {
    use super::{files_of, is_called, proving};
    use crate::domain::{TestCase, TestNames, TestResult, TestRun};
    use TestResult::{Error, Failed, Passed, Skipped};

    fn run(cases: &[(&str, TestResult, &str)]) -> TestRun {
        let exception = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        let case =
            |(name, result, kind): &(&str, TestResult, &str)| TestCase { exception: exception(kind), ..TestCase::new(name, *result) };
        TestRun { per_test: true, cases: cases.iter().map(case).collect(), ..TestRun::default() }
    }

    #[test]
    fn only_a_test_that_is_red_for_a_good_reason_every_time_proves() {
        let proves = |red: [(TestResult, &str); 2], green: [TestResult; 2], issue: &str| {
            let red = red.map(|(result, kind)| run(&[("t", result, kind)]));
            !proving(&red, &green.map(|result| run(&[("t", result, "")])), &[], issue).is_empty()
        };
        let always = |result, kind| [(result, kind), (result, kind)];
        let green = [Passed, Passed];
        assert!(proves(always(Failed, "AssertionError"), green, ""));
        assert!(proves(always(Failed, "Failed"), green, ""), "pytest.raises");
        assert!(proves(always(Error, "IndexError"), green, ""));
        for kind in ["ImportError", "ModuleNotFoundError", "SyntaxError", ""] {
            assert!(!proves(always(Error, kind), green, &format!("it raises {kind}")), "{kind}");
        }
        for kind in ["AttributeError", "NameError", "TypeError", "FileNotFoundError"] {
            assert!(!proves(always(Failed, kind), green, "it is wrong; MyAttributeErrors"), "{kind}");
            assert!(proves(always(Failed, kind), green, &format!("it raises `{kind}: no`")), "{kind}");
        }
        assert!(!proves([(Failed, "AssertionError"), (Passed, "")], green, ""), "once green without the source");
        assert!(!proves(always(Failed, "AssertionError"), [Passed, Failed], ""), "once red with it");
        assert!(!proves(always(Failed, "AssertionError"), [Passed, Skipped], ""));
        assert!(!proves(always(Skipped, ""), green, ""));
    }

    #[test]
    fn a_test_that_is_not_in_every_run_or_failed_before_proves_nothing_new() {
        let (red, green) = ([run(&[("t", Failed, "AssertionError")])], [run(&[("t", Passed, "")])]);
        assert_eq!(proving(&red, &green, &[], ""), ["t"]);
        assert!(proving(&red, &green, &["t".to_owned()], "").is_empty());
        assert!(proving(&[red[0].clone(), run(&[])], &green, &[], "").is_empty());
        assert!(proving(&red, &[run(&[])], &[], "").is_empty());
        assert!(proving(&[], &green, &[], "").is_empty());
    }

    #[test]
    fn a_test_is_known_by_its_dotted_name() {
        assert!(is_called("tests.test_a.TestA::test_b", "tests.test_a.TestA.test_b"));
        assert!(is_called("test_a::test_b[x.y::z]", "sub.test_a.test_b"), "the runner may start in a folder");
        assert!(is_called("src.shop::shop.price", "src.shop.price"), "examples in a docstring");
        for other in ["tests.test_a::test_bb", "tests.test_aa::test_b", "test_b::test_b", "test_b", "tests.test_a.Other::test_b"] {
            assert!(!is_called(other, "tests.test_a.test_b"), "{other}");
        }
    }

    #[test]
    fn the_file_of_a_test_is_found_by_its_name() {
        let paths = ["tests/test_a.py", "tests/sub/test_b.py", "test_ab.py", "src/a.py"].map(|path| path.as_bytes().to_vec());
        let of = |name: &str| files_of(&[name.to_owned()], paths.iter(), &TestNames::default());
        assert_eq!(of("tests.test_a::test_x[a::b]"), Some(vec!["tests/test_a.py".to_owned()]), "parameters may hold anything");
        assert_eq!(of("tests.test_a.Class::test_x"), Some(vec!["tests/test_a.py".to_owned()]));
        assert_eq!(of("test_b.Class::test_x"), Some(vec!["tests/sub/test_b.py".to_owned()]));
        assert_eq!(of("test_ab::test_x"), Some(vec!["test_ab.py".to_owned()]));
        assert_eq!(of("a::test_x"), None);
    }
}
