//! What two runs of the tests prove. Pure: the same two answers give the same judgement.

use serde::{Deserialize, Serialize};

use super::consensus::Consensus;
use super::gone;
use super::run::TestOutcome;
use crate::domain::{Comparison, Evidence, Finding, Hunk, Proof, Severity, TestResult, TestRun};

/// The judge's answer. A patch with a finding of severity refuse is not proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// What is to be refused or shown.
    pub findings: Vec<Finding>,
    /// What is proved; `Unproved` wherever something is refused.
    pub proof: Proof,
    /// The two runs test by test, where both have a result for each test.
    pub comparison: Option<Comparison>,
    /// The facts behind it.
    pub evidence: Evidence,
}

impl Judgement {
    /// Whether the tests forbid the patch.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Refuse)
    }

    /// Whether the patch is refused since tests are broken, and not for want of a result.
    #[must_use]
    pub fn is_a_regression(&self) -> bool {
        self.findings.iter().any(|finding| finding.rule == REGRESSED)
    }

    /// With the tests that were red without the patch's source and green with it, and what was learned of its parts. A patch that is refused, or
    /// that breaks a test in its old form, is not proved by any.
    #[must_use]
    pub fn proved_by(mut self, proving: Vec<String>, hunks: Vec<Hunk>) -> Self {
        let may_be_proved = matches!(self.proof, Proof::Consistent | Proof::Fixed) && !self.refuses();
        if may_be_proved && !proving.is_empty() {
            self.proof = Proof::Proved;
            self.evidence.proving = proving;
        }
        if may_be_proved {
            self.evidence.hunks = hunks;
        }
        self
    }

    fn refused(rule: &str, why: String) -> Self {
        Self {
            findings: vec![finding(rule, Severity::Refuse, why)],
            proof: Proof::Unproved,
            comparison: None,
            evidence: Evidence::default(),
        }
    }

    fn unproved(why: &str) -> Self {
        Self {
            findings: vec![finding("tests-unproved", Severity::Flag, why.to_owned())],
            proof: Proof::Unproved,
            comparison: None,
            evidence: Evidence::default(),
        }
    }
}

pub(super) const ALTERED: &str = "runner-altered";
const REGRESSED: &str = "tests-regressed";

/// Names listed in one finding; the rest is counted.
const LISTED: usize = 20;

/// Compares the tests at base with those in the clean room; none for `before` where they were not run at base.
#[must_use]
pub fn judge(before: Option<&TestOutcome>, after: &TestOutcome) -> Judgement {
    let was = before.and_then(TestOutcome::run);
    match (was, after) {
        (Some(was), TestOutcome::Unavailable(what)) if has_result(was) => {
            Judgement::refused("tests-no-result", format!("the tests ran at base and could not run on the patch: {what}"))
        }
        (_, TestOutcome::Unavailable(what)) => Judgement::unproved(&format!("the tests could not run: {what}")),
        (was, TestOutcome::Ran(is)) => judge_runs(was, is),
    }
}

/// Compares several runs at base with several in the clean room, so that luck decides nothing; `after` has at least one.
#[must_use]
pub fn judge_all(before: &[TestOutcome], after: &[TestOutcome]) -> Judgement {
    let together = Consensus::of(before, after);
    let mut judgement = judge(together.before.as_ref(), &together.after);
    judgement.evidence.flaky = together.flaky;
    judgement.evidence.slow = together.slow;
    if !together.flaky_now.is_empty() && !judgement.refuses() {
        let why = format!("tests that passed in every run at base pass only in some runs of the patch: {}", listed(&together.flaky_now));
        judgement.findings.push(finding("tests-flaky-now", Severity::Flag, why));
    }
    judgement
}

/// Refuses a patch whose proof is none of those that may open a pull request.
#[must_use]
pub fn demand(mut judgement: Judgement, open_with: &[Proof]) -> Judgement {
    if !judgement.refuses() && !open_with.contains(&judgement.proof) {
        let enough = open_with.iter().map(|proof| proof.name()).collect::<Vec<_>>().join(", ");
        let why = format!("the patch is {}, and a pull request is opened only for: {enough}", judgement.proof.name());
        judgement.findings.push(finding("proof-not-enough", Severity::Refuse, why));
    }
    judgement
}

/// Weighs the clean room again where the patch changed tests: `patched` ran with the patch's own tests ([`super::restore::with_own_tests`]).
///
/// A rightly changed expectation is red in the clean room and passes there. Only a person can tell it from a bent one, so it ends as a flag that
/// names the tests, with nothing proved; so does a test that was red at base, stays red in the clean room, and is green or gone as the patch has it.
/// A test that passed at base and is gone, skipped or still red with the patch's own tests stays a regression, and so does everything else; but not
/// one that the rules accept as gone (`gone`, dotted), or one whose parameters alone are others and no fewer.
#[must_use]
pub fn judge_changed_tests(clean: Judgement, before: &TestOutcome, patched: &TestOutcome, gone: &[String]) -> Judgement {
    let regressed = clean.is_a_regression();
    let (Some(comparison), Some(was), Some(is)) = (&clean.comparison, before.run(), patched.run()) else { return clean };
    if !clean.refuses() && is.per_test {
        return with_red_tests_that_vanish(clean, is);
    }
    if !regressed
        || !is.per_test
        || is.timed_out
        || !altered_by_patch(was, is).is_empty()
        || !Comparison::between(was, is).broken.iter().all(|name| gone::is_accounted_for(name, was, is, gone))
    {
        return clean;
    }
    let why =
        format!("tests that passed at base pass only as the patch changed them; their old form does not: {}", listed(&comparison.broken));
    let evidence = Evidence { changed_expectations: comparison.broken.clone(), ..clean.evidence.clone() };
    Judgement { findings: vec![finding("tests-changed-expectation", Severity::Flag, why)], proof: Proof::Unproved, evidence, ..clean }
}

/// Takes the proof of a patch that turns tests green, or out of sight, by changing them alone.
fn with_red_tests_that_vanish(mut clean: Judgement, own: &TestRun) -> Judgement {
    let is_red =
        |name: &String| own.cases.iter().any(|case| case.name == *name && !matches!(case.result, TestResult::Passed | TestResult::Skipped));
    let still_failing = clean.comparison.iter().flat_map(|comparison| &comparison.still_failing);
    let vanished = still_failing.filter(|name| !is_red(name)).cloned().collect::<Vec<_>>();
    if !vanished.is_empty() {
        let why =
            format!("tests that fail at base and on the patch are green or gone only as the patch changed them: {}", listed(&vanished));
        clean.findings.push(finding("tests-changed-expectation", Severity::Flag, why));
        clean.proof = Proof::Unproved;
        clean.evidence.changed_expectations = vanished;
    }
    clean
}

fn has_result(run: &TestRun) -> bool {
    run.per_test || !run.timed_out
}

fn judge_runs(was: Option<&TestRun>, is: &TestRun) -> Judgement {
    match was {
        Some(was) if is.timed_out && !was.timed_out => {
            Judgement::refused("tests-timed-out", "the tests ended at base and did not end on the patch".to_owned())
        }
        _ if is.timed_out => Judgement::unproved("the tests did not end within their time"),
        Some(was) if was.per_test && !is.per_test => {
            Judgement::refused("tests-no-result", "there was a result for each test at base and there is none on the patch".to_owned())
        }
        Some(was) if was.per_test => judge_cases(was, is),
        Some(was) if !was.timed_out => judge_exit_status(was, is),
        Some(_) => Judgement::unproved("the tests did not end at base, so there is nothing to compare with"),
        None => Judgement::unproved("the tests have no result at base, so there is nothing to compare with"),
    }
}

fn judge_cases(was: &TestRun, is: &TestRun) -> Judgement {
    let comparison = Comparison::between(was, is);
    let altered = altered_by_patch(was, is);
    let judgement = if !altered.is_empty() {
        Judgement::refused(ALTERED, format!("while the tests run, the patch alters what judges them: {}", listed(&altered)))
    } else if !comparison.broken.is_empty() {
        Judgement::refused(REGRESSED, format!("tests that passed at base do not pass on the patch: {}", listed(&comparison.broken)))
    } else if !comparison.fixed.is_empty() {
        Judgement { findings: Vec::new(), proof: Proof::Fixed, comparison: None, evidence: Evidence::default() }
    } else if is.count(TestResult::Passed) == 0 {
        Judgement::unproved("no test passes, neither at base nor on the patch")
    } else {
        Judgement { findings: Vec::new(), proof: Proof::Consistent, comparison: None, evidence: Evidence::default() }
    };
    Judgement { comparison: Some(comparison), ..judgement }
}

/// What the patch alters of the runner beyond what base alters.
fn altered_by_patch(was: &TestRun, is: &TestRun) -> Vec<String> {
    is.altered.iter().filter(|name| !was.altered.contains(name)).cloned().collect()
}

fn judge_exit_status(was: &TestRun, is: &TestRun) -> Judgement {
    const ONLY: &str = "the tests give only an exit status, no result for each test";
    match (was.is_green(), is.is_green()) {
        (true, false) => Judgement::refused(REGRESSED, format!("the tests ended well at base and badly on the patch ({ONLY})")),
        (false, false) => Judgement::unproved(&format!("the tests end badly, at base and on the patch ({ONLY})")),
        (was_green, true) => {
            let why =
                if was_green { "they end well at base and on the patch" } else { "they ended badly at base and end well on the patch" };
            let flag = finding("tests-by-exit-status", Severity::Flag, format!("{ONLY}: {why}"));
            Judgement { findings: vec![flag], proof: Proof::Consistent, comparison: None, evidence: Evidence::default() }
        }
    }
}

pub(super) fn finding(rule: &str, severity: Severity, why: String) -> Finding {
    Finding { rule: rule.to_owned(), severity, path: String::new(), line: None, why }
}

pub(super) fn listed(names: &[String]) -> String {
    let shown = names.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Judgement, Proof, demand, judge, judge_changed_tests};
    use crate::domain::{TestCase, TestResult, TestRun};
    use crate::verify::TestOutcome;
    use TestResult::{Error, Failed, Passed, Skipped};

    fn cases(cases: &[(&str, TestResult)]) -> TestOutcome {
        let cases = cases.iter().map(|(name, result)| TestCase::new(name, *result)).collect();
        TestOutcome::Ran(TestRun { exit_code: Some(1), per_test: true, cases, ..TestRun::default() })
    }

    fn status(exit_code: Option<i32>) -> TestOutcome {
        let timed_out = exit_code.is_none();
        TestOutcome::Ran(TestRun { exit_code, timed_out, duration_ms: 1, ..TestRun::default() })
    }

    fn missing() -> TestOutcome {
        TestOutcome::Unavailable("pytest is not installed in the sandbox".to_owned())
    }

    fn said(judgement: &Judgement) -> (Proof, Vec<&str>, bool) {
        (judgement.proof, judgement.findings.iter().map(|finding| finding.rule.as_str()).collect(), judgement.refuses())
    }

    #[test]
    fn a_test_that_failed_and_passes_proves_a_fix() {
        let judged =
            judge(Some(&cases(&[("a", Failed), ("b", Passed), ("c", Failed)])), &cases(&[("a", Passed), ("b", Passed), ("c", Failed)]));
        assert_eq!(said(&judged), (Proof::Fixed, vec![], false));
        assert_eq!(judged.comparison.unwrap().fixed, ["a"]);
    }

    #[test]
    fn a_test_that_passed_and_does_not_is_a_regression() {
        for after in [&[("a", Failed)][..], &[("a", Error)], &[("a", Skipped)], &[]] {
            let with_fix: Vec<_> = [after, &[("b", Passed)]].concat();
            let judged = judge(Some(&cases(&[("a", Passed), ("b", Failed)])), &cases(&with_fix));
            assert_eq!(said(&judged), (Proof::Unproved, vec!["tests-regressed"], true));
            assert_eq!(judged.comparison.unwrap().broken, ["a"]);
        }
    }

    #[test]
    fn what_the_patch_alters_of_its_judge_refuses_and_what_base_alters_does_not() {
        let altered = |names: &[&str], result| {
            let run = TestRun { per_test: true, cases: vec![TestCase::new("a", result)], ..TestRun::default() };
            TestOutcome::Ran(TestRun { altered: names.iter().map(|name| (*name).to_owned()).collect(), ..run })
        };
        let judged = |before: &[&str], after: &[&[&str]]| {
            let after = after.iter().map(|names| altered(names, Passed)).collect::<Vec<_>>();
            let judged = super::super::judge_all(&[altered(before, Failed), altered(before, Failed)], &after);
            (judged.proof, judged.refuses())
        };
        assert_eq!(judged(&["x"], &[&["x"]]), (Proof::Fixed, false));
        assert_eq!(judged(&["x"], &[&[]]), (Proof::Fixed, false));
        assert_eq!(judged(&[], &[&["x"]]), (Proof::Unproved, true));
        assert_eq!(judged(&["x"], &[&["x"], &["x", "y"]]), (Proof::Unproved, true), "in any run");
        let clean = judge(Some(&altered(&[], Passed)), &altered(&[], Failed));
        assert_eq!(judge_changed_tests(clean.clone(), &altered(&[], Passed), &altered(&["x"], Passed), &[]), clean);
    }

    #[test]
    fn a_red_test_that_is_green_or_gone_only_as_the_patch_has_it_takes_the_proof() {
        let before = cases(&[("a", Failed), ("b", Passed), ("c", Failed)]);
        for (own, bent) in [
            (cases(&[("a", Passed), ("b", Passed), ("c", Passed)]), &["c"][..]),
            (cases(&[("a", Passed), ("b", Passed)]), &["c"]),
            (cases(&[("a", Passed), ("b", Passed), ("c", Skipped)]), &["c"]),
            (cases(&[("a", Passed), ("b", Passed), ("c", Failed)]), &[]),
            (missing(), &[]),
            (status(Some(0)), &[]),
        ] {
            let clean = judge(Some(&before), &cases(&[("a", Passed), ("b", Passed), ("c", Error)]));
            assert_eq!(clean.proof, Proof::Fixed);
            let judged = judge_changed_tests(clean, &before, &own, &[]);
            assert_eq!(judged.evidence.changed_expectations, bent, "{own:?}");
            let expected =
                if bent.is_empty() { (Proof::Fixed, vec![], false) } else { (Proof::Unproved, vec!["tests-changed-expectation"], false) };
            assert_eq!(said(&judged), expected, "{own:?}");
        }
    }

    #[test]
    fn tests_that_go_with_what_they_tested_are_no_regression() {
        let before = cases(&[("t.test_a::test_a", Passed), ("t.test_a::test_b", Passed)]);
        let clean = || judge(Some(&before), &cases(&[("t.test_a", Error)]));
        let own = cases(&[("t.test_a::test_a", Passed)]);
        let judged = judge_changed_tests(clean(), &before, &own, &["t.test_a.test_b".to_owned()]);
        assert_eq!(said(&judged), (Proof::Unproved, vec!["tests-changed-expectation"], false));
        assert_eq!(judge_changed_tests(clean(), &before, &own, &["t.test_a.test_c".to_owned()]), clean());
    }

    #[test]
    fn a_changed_expectation_is_a_flag_only_where_its_new_form_passes() {
        let before = cases(&[("a", Passed), ("b", Passed), ("c", Failed)]);
        let clean = || judge(Some(&before), &cases(&[("a", Failed), ("b", Passed), ("c", Passed)]));
        let again = judge_changed_tests(clean(), &before, &cases(&[("a", Passed), ("b", Passed), ("c", Passed)]), &[]);
        assert_eq!(again.evidence.changed_expectations, ["a"]);
        assert_eq!(said(&again), (Proof::Unproved, vec!["tests-changed-expectation"], false));
        assert!(again.findings[0].why.ends_with(": a"));
        for patched in [
            cases(&[("a", Failed), ("b", Passed)]),
            cases(&[("b", Passed)]),
            cases(&[("a", Passed), ("b", Skipped)]),
            status(Some(0)),
            missing(),
        ] {
            assert_eq!(judge_changed_tests(clean(), &before, &patched, &[]), clean());
        }
        let vanished = judge(Some(&before), &status(Some(0)));
        assert_eq!(judge_changed_tests(vanished.clone(), &before, &before, &[]), vanished);
    }

    #[test]
    fn a_proof_that_is_not_enough_refuses() {
        let consistent = || judge(Some(&cases(&[("a", Passed)])), &cases(&[("a", Passed)]));
        assert_eq!(demand(consistent(), &Proof::ALL), consistent());
        let refused = demand(consistent(), &[Proof::Proved, Proof::Fixed]);
        assert_eq!(said(&refused), (Proof::Consistent, vec!["proof-not-enough"], true));
        assert!(refused.findings[0].why.ends_with("only for: proved, fixed"));
        let regressed = || judge(Some(&cases(&[("a", Passed)])), &cases(&[]));
        assert_eq!(demand(regressed(), &[]), regressed());
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (10..35).map(|n| format!("t{n}")).collect();
        let before: Vec<_> = names.iter().map(|name| (name.as_str(), Passed)).collect();
        let judged = judge(Some(&cases(&before)), &cases(&[]));
        assert!(judged.findings[0].why.ends_with("t28, t29 and 5 more"), "{}", judged.findings[0].why);
    }

    #[test]
    fn nothing_broken_and_nothing_fixed_is_consistent() {
        let judged = judge(Some(&cases(&[("a", Passed), ("b", Failed)])), &cases(&[("a", Passed), ("b", Failed), ("new", Passed)]));
        assert_eq!(said(&judged), (Proof::Consistent, vec![], false));
        assert_eq!(said(&judge(Some(&cases(&[("a", Error)])), &cases(&[("a", Error)]))), (Proof::Unproved, vec!["tests-unproved"], false));
    }

    #[test]
    fn a_result_that_vanishes_is_refused() {
        let before = cases(&[("a", Passed)]);
        assert_eq!(said(&judge(Some(&before), &status(Some(0)))), (Proof::Unproved, vec!["tests-no-result"], true));
        assert_eq!(said(&judge(Some(&before), &missing())), (Proof::Unproved, vec!["tests-no-result"], true));
        assert_eq!(said(&judge(Some(&before), &status(None))), (Proof::Unproved, vec!["tests-timed-out"], true));
    }

    #[test]
    fn an_exit_status_alone_never_proves_a_fix() {
        let judged = |before, after| {
            let judgement = judge(Some(&status(before)), &status(after));
            (judgement.proof, judgement.findings[0].rule.clone(), judgement.refuses())
        };
        assert_eq!(judged(Some(0), Some(1)), (Proof::Unproved, "tests-regressed".to_owned(), true));
        assert_eq!(judged(Some(1), Some(2)), (Proof::Unproved, "tests-unproved".to_owned(), false));
        assert_eq!(judged(Some(0), Some(0)), (Proof::Consistent, "tests-by-exit-status".to_owned(), false));
        assert_eq!(judged(Some(1), Some(0)), (Proof::Consistent, "tests-by-exit-status".to_owned(), false));
        assert_eq!(judged(None, None), (Proof::Unproved, "tests-unproved".to_owned(), false));
        assert_eq!(judged(None, Some(0)), (Proof::Unproved, "tests-unproved".to_owned(), false));
    }

    #[test]
    fn without_a_result_at_base_nothing_is_proved() {
        for before in [None, Some(&missing())] {
            for after in [&missing(), &cases(&[("a", Passed)]), &status(Some(0)), &status(None)] {
                assert_eq!(said(&judge(before, after)), (Proof::Unproved, vec!["tests-unproved"], false));
            }
        }
    }
}
