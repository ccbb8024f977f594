//! Several runs of the same tree taken together, so that luck neither condemns nor saves a patch.
//!
//! What must hold: a test that is not the same in every run at base counts for nothing; one that passed in all of them counts as broken only where
//! no run of the patch passes it, and is told where some do not.

use std::collections::{BTreeMap, BTreeSet};

use super::TestOutcome;
use crate::domain::{TestCase, TestResult, TestRun};

/// What the runs at base and on the patch say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consensus {
    /// The tests at base that were the same every time; none where they were not run, or only contradict each other.
    pub before: Option<TestOutcome>,
    /// The tests on the patch: a test that any run passes counts as passed.
    pub after: TestOutcome,
    /// Tests that were not the same in every run at base.
    pub flaky: Vec<String>,
    /// Tests that passed in every run at base and only in some on the patch.
    pub flaky_now: Vec<String>,
    /// The tests that took the longest at base, with their time, the slowest first.
    pub slow: Vec<String>,
}

/// From here on a test is slow, in milliseconds.
const SLOW_MS: u64 = 1000;
/// So many slow tests are named.
const SLOW_NAMED: usize = 10;

impl Consensus {
    /// Takes the runs together; `after` has at least one.
    #[must_use]
    pub fn of(before: &[TestOutcome], after: &[TestOutcome]) -> Self {
        let missing = || TestOutcome::Unavailable("the tests were not run".to_owned());
        let (was, is) = (telling(before), telling(after));
        let flaky = if was.first().is_some_and(|run| run.per_test) { unstable(&was) } else { BTreeSet::new() };
        let slow = was.first().map(|run| slowest(run)).unwrap_or_default();
        let steady = !was.is_empty() && (was.iter().any(|run| run.per_test) || was.iter().all(|run| run.is_green() == was[0].is_green()));
        let before = match was.first() {
            Some(_) if !steady => None,
            Some(run) => Some(TestOutcome::Ran(TestRun { altered: altered(&was), ..without(run, &flaky) })),
            None => before.first().cloned(),
        };
        let (after, flaky_now) = match after.first() {
            Some(TestOutcome::Ran(_)) => best(&is, before.as_ref().and_then(TestOutcome::run), &flaky),
            Some(unavailable) => (unavailable.clone(), Vec::new()),
            None => (missing(), Vec::new()),
        };
        Self { before, after, flaky: flaky.into_iter().collect(), flaky_now, slow }
    }

    /// Whether another run of the patch could show that what looks broken was luck.
    #[must_use]
    pub fn is_suspicious(&self) -> bool {
        match (self.before.as_ref().and_then(TestOutcome::run), self.after.run()) {
            (Some(was), Some(is)) if was.per_test && is.per_test => {
                let now = by_name(is);
                was.cases.iter().any(|case| case.result == TestResult::Passed && now.get(case.name.as_str()) != Some(&TestResult::Passed))
            }
            (Some(was), Some(is)) => !was.per_test && was.is_green() && !is.is_green() && !is.timed_out,
            _ => false,
        }
    }
}

/// The runs with a result for each test, or where none has one, those that ended by themselves; the first run decides which kind it is.
fn telling(outcomes: &[TestOutcome]) -> Vec<&TestRun> {
    let runs = outcomes.iter().filter_map(TestOutcome::run).collect::<Vec<_>>();
    let per_test = runs.first().is_some_and(|run| run.per_test);
    runs.into_iter().filter(|run| run.per_test == per_test).collect()
}

fn by_name(run: &TestRun) -> BTreeMap<&str, TestResult> {
    run.cases.iter().map(|case| (case.name.as_str(), case.result)).collect()
}

fn unstable(runs: &[&TestRun]) -> BTreeSet<String> {
    let runs = runs.iter().map(|run| by_name(run)).collect::<Vec<_>>();
    let names = runs.iter().flat_map(|run| run.keys().copied()).collect::<BTreeSet<_>>();
    let is_red = |result: Option<&TestResult>| result.map(|result| matches!(result, TestResult::Failed | TestResult::Error));
    let kind = |run: &BTreeMap<&str, TestResult>, name: &str| (is_red(run.get(name)), run.get(name) == Some(&TestResult::Passed));
    let differs = |name: &&str| runs.iter().any(|run| kind(run, name) != kind(&runs[0], name));
    names.into_iter().filter(differs).map(str::to_owned).collect()
}

/// What any of the runs altered of the runner.
fn altered(runs: &[&TestRun]) -> Vec<String> {
    runs.iter().flat_map(|run| run.altered.iter().cloned()).collect::<BTreeSet<_>>().into_iter().collect()
}

fn slowest(run: &TestRun) -> Vec<String> {
    let mut slow = run.cases.iter().filter(|case| case.ms >= SLOW_MS).collect::<Vec<_>>();
    slow.sort_by_key(|case| std::cmp::Reverse(case.ms));
    slow.iter().take(SLOW_NAMED).map(|case| format!("{} ({}.{} s)", case.name, case.ms / 1000, case.ms % 1000 / 100)).collect()
}

fn without(run: &TestRun, flaky: &BTreeSet<String>) -> TestRun {
    let cases = run.cases.iter().filter(|case| !flaky.contains(&case.name)).cloned().collect();
    TestRun { cases, ..run.clone() }
}

/// The best of the runs for each test that passed at base, and those of them that did not pass in every run.
fn best(runs: &[&TestRun], was: Option<&TestRun>, flaky: &BTreeSet<String>) -> (TestOutcome, Vec<String>) {
    let passed = was.into_iter().flat_map(|run| &run.cases).filter(|case| case.result == TestResult::Passed);
    let said = runs.iter().map(|run| by_name(run)).collect::<Vec<_>>();
    let mut merged = runs.first().map(|run| without(run, flaky)).unwrap_or_default();
    merged.altered = altered(runs);
    let mut flaky_now = Vec::new();
    for case in passed {
        let passes = said.iter().filter(|run| run.get(case.name.as_str()) == Some(&TestResult::Passed)).count();
        if passes > 0 && passes < runs.len() {
            flaky_now.push(case.name.clone());
            merged.cases.retain(|other| other.name != case.name);
            merged.cases.push(TestCase::new(&case.name, TestResult::Passed));
        }
    }
    if !merged.per_test
        && !merged.timed_out
        && was.is_some_and(|run| !run.per_test)
        && was.is_some_and(TestRun::is_green)
        && let Some(green) = runs.iter().find(|run| run.is_green())
        && !merged.is_green()
    {
        merged = (*green).clone();
        flaky_now.push("the whole command".to_owned());
    }
    (TestOutcome::Ran(merged), flaky_now)
}

#[cfg(test)]
mod tests {
    use super::Consensus;
    use crate::domain::{TestCase, TestResult, TestRun};
    use crate::verify::{Proof, TestOutcome, judge_all};
    use TestResult::{Failed, Passed, Skipped};

    fn cases(cases: &[(&str, TestResult)]) -> TestOutcome {
        let cases = cases.iter().map(|(name, result)| TestCase::new(name, *result)).collect();
        TestOutcome::Ran(TestRun { exit_code: Some(1), per_test: true, cases, ..TestRun::default() })
    }

    fn status(exit_code: i32) -> TestOutcome {
        TestOutcome::Ran(TestRun { exit_code: Some(exit_code), ..TestRun::default() })
    }

    #[test]
    fn a_flaky_test_neither_condemns_nor_proves() {
        let before = [cases(&[("a", Passed), ("b", Failed), ("c", Passed)]), cases(&[("a", Failed), ("b", Passed), ("c", Passed)])];
        let judged = judge_all(&before, &[cases(&[("a", Failed), ("b", Passed), ("c", Passed)])]);
        assert_eq!(
            (judged.proof, judged.refuses(), judged.evidence.flaky),
            (Proof::Consistent, false, vec!["a".to_owned(), "b".to_owned()])
        );
    }

    #[test]
    fn a_test_that_no_run_of_the_patch_passes_is_a_regression_and_one_that_some_pass_is_told() {
        let before = [cases(&[("a", Passed), ("b", Passed)]), cases(&[("a", Passed), ("b", Passed)])];
        let red = || cases(&[("a", Failed), ("b", Passed)]);
        assert!(Consensus::of(&before, &[red()]).is_suspicious());
        assert!(judge_all(&before, &[red(), red(), cases(&[("b", Passed)])]).refuses());
        let lucky = [red(), cases(&[("a", Passed), ("b", Passed)])];
        assert!(!Consensus::of(&before, &lucky).is_suspicious());
        let judged = judge_all(&before, &lucky);
        assert_eq!((judged.proof, judged.refuses(), judged.findings[0].rule.as_str()), (Proof::Consistent, false, "tests-flaky-now"));
        assert!(judged.findings[0].why.ends_with(": a"));
        let other_one = [red(), cases(&[("a", Passed), ("b", Skipped)]), red()];
        let judged = judge_all(&before, &other_one);
        assert!(!judged.refuses() && judged.findings[0].why.ends_with(": a, b"), "{:?}", judged.findings);
    }

    #[test]
    fn a_fix_must_have_failed_in_every_run_at_base() {
        let after = [cases(&[("a", Passed), ("b", Passed)])];
        let red = || cases(&[("a", Failed), ("b", Passed)]);
        assert_eq!(judge_all(&[red(), red()], &after).proof, Proof::Fixed);
        for other in [cases(&[("b", Passed)]), cases(&[("a", Passed), ("b", Passed)])] {
            assert_eq!(judge_all(&[red(), other], &after).proof, Proof::Consistent);
        }
    }

    #[test]
    fn slow_tests_are_named_the_slowest_first() {
        let slow = |ms: &[u64]| {
            let cases = ms.iter().map(|ms| TestCase { ms: *ms, ..TestCase::new(&format!("t{ms}"), Passed) }).collect();
            let run = TestOutcome::Ran(TestRun { exit_code: Some(0), per_test: true, cases, ..TestRun::default() });
            judge_all(std::slice::from_ref(&run), std::slice::from_ref(&run)).evidence.slow
        };
        assert_eq!(slow(&[999, 1000, 12_345]), ["t12345 (12.3 s)", "t1000 (1.0 s)"]);
        assert_eq!(slow(&(2000..2030).collect::<Vec<_>>()).len(), 10);
    }

    #[test]
    fn an_exit_status_that_changes_by_itself_says_nothing() {
        let judged = judge_all(&[status(0), status(1)], &[status(1)]);
        assert_eq!((judged.proof, judged.refuses()), (Proof::Unproved, false));
        assert!(Consensus::of(&[status(0), status(0)], &[status(1)]).is_suspicious());
        assert!(judge_all(&[status(0), status(0)], &[status(1), status(2), status(1)]).refuses());
        let judged = judge_all(&[status(0), status(0)], &[status(1), status(0)]);
        assert!(!judged.refuses() && judged.findings.iter().any(|finding| finding.rule == "tests-flaky-now"), "{:?}", judged.findings);
    }

    #[test]
    fn a_result_that_vanishes_stays_refused_whatever_a_later_run_says() {
        let before = [cases(&[("a", Passed)]), cases(&[("a", Passed)])];
        for first in [status(0), TestOutcome::Unavailable("gone".to_owned())] {
            assert!(judge_all(&before, &[first.clone(), cases(&[("a", Passed)])]).refuses(), "{first:?}");
            assert!(!Consensus::of(&before, &[first]).is_suspicious());
        }
    }
}
