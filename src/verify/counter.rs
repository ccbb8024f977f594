//! The counter-proof: tests with reversed checks ([`super::reversed`]) must fail on the patch. Where one passes, something makes failing tests pass.

use super::judge::{ALTERED, Judgement, finding, listed};
use crate::domain::{Kept, Proof, Reversal, Severity, TestResult};

const NO_RESULT: &str = "reversed-no-result";
const PASSES: &str = "reversed-passes";

impl Judgement {
    /// Weighs what tests with reversed checks said. One that passes on the patch, where none does so at base, refuses the patch; where base knows
    /// such tests too (a library whose objects rightly equal many things), nothing is proved. So is nothing by a patch on which they have no result.
    #[must_use]
    pub fn countered(mut self, reversal: &Reversal) -> Self {
        if self.refuses() {
            return self;
        }
        let Some((known, passing)) = passing(reversal).filter(|(known, _)| *known > 0) else {
            let why = "the tests with reversed checks, which must fail, have no result on the patch".to_owned();
            return self.without_proof(Severity::Flag, NO_RESULT, why);
        };
        let at_base = reversal.at_base.as_ref().and_then(|kept| told(kept, &reversal.tests)).unwrap_or_default().1;
        let is_known = |name: &String| at_base.contains(name) || self.evidence.flaky.contains(name);
        let fresh = passing.into_iter().filter(|name| !is_known(name)).collect::<Vec<_>>();
        if fresh.is_empty() {
            self.evidence.reversed = known;
            return self;
        }
        let names = listed(&fresh);
        if at_base.is_empty() {
            let why = format!("tests pass on the patch even with their checks reversed, so something bends what judges them: {names}");
            self.without_proof(Severity::Refuse, ALTERED, why)
        } else {
            let why = format!("tests pass on the patch even with their checks reversed, as others do at base: {names}");
            self.without_proof(Severity::Flag, PASSES, why)
        }
    }

    fn without_proof(mut self, severity: Severity, rule: &str, why: String) -> Self {
        self.findings.push(finding(rule, severity, why));
        self.proof = Proof::Unproved;
        self.evidence.proving.clear();
        self
    }
}

/// Whether a test with reversed checks passes on the patch whenever it is run.
#[must_use]
pub fn passes_reversed(reversal: &Reversal) -> bool {
    passing(reversal).is_some_and(|(_, names)| !names.is_empty())
}

/// How many tests said anything, and which of them passed every time; none where a run has no result for each test.
fn passing(reversal: &Reversal) -> Option<(u64, Vec<String>)> {
    let told = reversal.on_patch.iter().map(|kept| told(kept, &reversal.tests)).collect::<Option<Vec<_>>>()?;
    told.into_iter().reduce(|(known, names), (_, again)| (known, names.into_iter().filter(|name| again.contains(name)).collect()))
}

/// How many of these tests said anything, and which of them passed; none where the run has no result for each test.
fn told(kept: &Kept, tests: &[(String, String)]) -> Option<(u64, Vec<String>)> {
    let run = kept.as_ref().ok().filter(|run| run.per_test)?;
    let is_one = |name: &str| tests.iter().any(|(path, test)| super::reversed::is_named(name, path, test));
    let known = run.cases.iter().filter(|case| is_one(&case.name)).collect::<Vec<_>>();
    let passing = known.iter().filter(|case| case.result == TestResult::Passed).map(|case| case.name.clone());
    Some((known.len() as u64, passing.collect()))
}

#[cfg(test)]
mod tests {
    use crate::domain::{Kept, Proof, Reversal, TestCase, TestResult, TestRun};
    use crate::verify::{Judgement, TestOutcome, judge};
    use TestResult::{Error, Failed, Passed, Skipped};

    fn run(cases: &[(&str, TestResult)]) -> TestRun {
        let cases = cases.iter().map(|(name, result)| TestCase::new(name, *result)).collect();
        TestRun { exit_code: Some(1), per_test: true, cases, ..TestRun::default() }
    }

    fn countered(on_patch: Kept, at_base: Option<Kept>) -> Judgement {
        let tests = ["::a", "::b"].map(|test| ("t.py".to_owned(), test.to_owned())).to_vec();
        let fixed = judge(Some(&TestOutcome::Ran(run(&[("t::a", Failed)]))), &TestOutcome::Ran(run(&[("t::a", Passed)])));
        fixed.countered(&Reversal { tests, on_patch: vec![on_patch], at_base })
    }

    #[test]
    fn a_reversed_test_that_passes_refuses_unless_base_knows_the_like() {
        let said = |judged: Judgement| {
            (judged.proof, judged.refuses(), judged.findings.first().map(|finding| finding.rule.clone()).unwrap_or_default())
        };
        let kept = |a, b| Ok(run(&[("t::a", a), ("t::b", b), ("other::c", Passed)]));
        for red in [Failed, Error, Skipped] {
            assert_eq!(said(countered(kept(red, Failed), None)), (Proof::Fixed, false, String::new()));
        }
        let refused = (Proof::Unproved, true, "runner-altered".to_owned());
        assert_eq!(said(countered(kept(Passed, Failed), None)), refused);
        assert_eq!(said(countered(kept(Passed, Failed), Some(kept(Failed, Failed)))), refused);
        assert_eq!(said(countered(kept(Passed, Failed), Some(Err("no python".to_owned())))), refused);
        assert_eq!(said(countered(kept(Passed, Failed), Some(kept(Passed, Failed)))), (Proof::Fixed, false, String::new()));
        let flagged = (Proof::Unproved, false, "reversed-passes".to_owned());
        assert_eq!(said(countered(kept(Passed, Failed), Some(kept(Failed, Passed)))), flagged);
    }

    #[test]
    fn luck_is_no_bent_runner() {
        let tests = vec![("t.py".to_owned(), "::a".to_owned())];
        let passing = |results: &[TestResult]| {
            let on_patch = results.iter().map(|result| Ok(run(&[("t::a", *result)]))).collect();
            super::passes_reversed(&Reversal { tests: tests.clone(), on_patch, at_base: None })
        };
        assert!(passing(&[Passed]) && passing(&[Passed, Passed]));
        assert!(!passing(&[Failed]) && !passing(&[Passed, Failed]) && !passing(&[]));
    }

    #[test]
    fn no_result_proves_nothing() {
        for kept in [Err("gone".to_owned()), Ok(TestRun::default()), Ok(run(&[("other::c", Failed)]))] {
            let judged = countered(kept, None);
            assert_eq!((judged.proof, judged.refuses(), judged.findings.len()), (Proof::Unproved, false, 1));
        }
        assert_eq!(countered(Ok(run(&[("t::a", Failed)])), None).evidence.reversed, 1);
    }
}
