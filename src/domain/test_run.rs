//! What a project's own tests said, and what changed between two such answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What one test said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestResult {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It could not run.
    Error,
    /// It was left out.
    Skipped,
}

/// One test by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCase {
    /// `classname::name`, as the runner reports them.
    pub name: String,
    /// What it said.
    pub result: TestResult,
    /// The type of the exception that it ended with (`AssertionError`), where the runner says it of the test itself; nothing of its fixtures or of
    /// what could not be imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
    /// How long it took in milliseconds, where the runner says it.
    #[serde(default)]
    pub ms: u64,
}

impl TestCase {
    /// A test of which no more is known.
    #[must_use]
    pub fn new(name: &str, result: TestResult) -> Self {
        Self { name: name.to_owned(), result, exception: None, ms: 0 }
    }
}

/// One run of the project's tests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    /// The exit status of the command, negative for a signal; none when it was stopped for time.
    pub exit_code: Option<i32>,
    /// Stopped for time.
    pub timed_out: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// True when the runner gave a report with one row a test; without, only the exit status speaks, and is said to.
    pub per_test: bool,
    /// One row a test by name, each name once.
    pub cases: Vec<TestCase>,
    /// What the project's code had altered of its own runner by the end, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub altered: Vec<String>,
    /// The end of what it printed, for people, already shortened.
    pub output_tail: String,
}

impl TestRun {
    /// How many tests have this result.
    #[must_use]
    pub fn count(&self, result: TestResult) -> usize {
        self.cases.iter().filter(|case| case.result == result).count()
    }

    /// What a test said; none where it is not there.
    #[must_use]
    pub fn said(&self, name: &str) -> Option<TestResult> {
        self.cases.iter().find(|case| case.name == name).map(|case| case.result)
    }

    /// The command ended by itself with status 0.
    #[must_use]
    pub fn is_green(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// What changed from one run to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// Failed or in error before, passed after.
    pub fixed: Vec<String>,
    /// Passed before, and failed, in error, skipped or gone after.
    pub broken: Vec<String>,
    /// Not passed before and not after.
    pub still_failing: Vec<String>,
    /// New and passed.
    pub added: Vec<String>,
}

impl Comparison {
    /// Compares two runs test by test; a test that passed before and is not there after counts as broken.
    #[must_use]
    pub fn between(before: &TestRun, after: &TestRun) -> Self {
        let by_name = |run: &TestRun| run.cases.iter().map(|case| (case.name.clone(), case.result)).collect::<BTreeMap<_, _>>();
        let (before, after) = (by_name(before), by_name(after));
        let mut comparison = Self::default();
        for (name, was) in &before {
            let list = match (was, after.get(name)) {
                (TestResult::Passed, Some(TestResult::Passed)) | (TestResult::Skipped, _) => continue,
                (TestResult::Passed, _) => &mut comparison.broken,
                (_, Some(TestResult::Passed)) => &mut comparison.fixed,
                _ => &mut comparison.still_failing,
            };
            list.push(name.clone());
        }
        for (name, is) in &after {
            match (before.get(name), is) {
                (None, TestResult::Passed) => comparison.added.push(name.clone()),
                (None | Some(TestResult::Skipped), TestResult::Failed | TestResult::Error) => comparison.still_failing.push(name.clone()),
                _ => {}
            }
        }
        comparison
    }
}

#[cfg(test)]
mod tests {
    use super::{Comparison, TestCase, TestResult, TestRun};

    fn run(cases: &[(&str, TestResult)]) -> TestRun {
        let cases = cases.iter().map(|(name, result)| TestCase::new(name, *result)).collect();
        TestRun { exit_code: Some(0), timed_out: false, duration_ms: 1, per_test: true, cases, ..TestRun::default() }
    }

    #[test]
    fn a_test_that_vanishes_or_is_skipped_counts_as_broken() {
        use TestResult::{Error, Failed, Passed, Skipped};
        let before = run(&[("gone", Passed), ("skipped", Passed), ("kept", Passed), ("mended", Failed), ("red", Error), ("off", Skipped)]);
        let after = run(&[("skipped", Skipped), ("kept", Passed), ("mended", Passed), ("red", Failed), ("new", Passed), ("off", Failed)]);
        let comparison = Comparison::between(&before, &after);
        assert_eq!(comparison.broken, ["gone", "skipped"]);
        assert_eq!(comparison.fixed, ["mended"]);
        assert_eq!(comparison.still_failing, ["red", "off"]);
        assert_eq!(comparison.added, ["new"]);
    }
}
