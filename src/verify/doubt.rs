//! A proof that the guard's own flags speak against.
//!
//! What must hold: tests that a bent patch turns green speak for the bend as well as for a fix, so no proof counts beside a doubt; a doubt alone
//! refuses nothing.

use std::collections::BTreeSet;

use super::judge::{Judgement, finding, listed};
use crate::domain::{Finding, Proof, Severity};

/// Rules of the guard whose flags are doubts in what the tests say: errors that nobody hears of, an example written into the source, objects that
/// answer as they are asked, examples and assertions that were taken away, and a patch that changes no program.
const DOUBTS: &[&str] = &["no-effect", "errors-swallowed", "special-case", "stand-in", "doctest-lost", "test-weakened"];

/// Whether a flag of the guard is a doubt in what the tests say, so that no proof counts.
#[must_use]
pub fn is_doubt(flag: &Finding) -> bool {
    DOUBTS.contains(&flag.rule.as_str())
}

/// Takes the proof of a patch that the guard doubts, and says so.
#[must_use]
pub fn doubt(mut judgement: Judgement, flags: &[Finding]) -> Judgement {
    let doubts = flags.iter().filter(|flag| is_doubt(flag)).map(|flag| flag.rule.clone()).collect::<BTreeSet<_>>();
    if doubts.is_empty() || judgement.refuses() || judgement.proof == Proof::Unproved {
        return judgement;
    }
    let doubts = doubts.into_iter().collect::<Vec<_>>();
    let why = format!("by its tests the patch is {}, which counts for nothing because of: {}", judgement.proof.name(), listed(&doubts));
    judgement.findings.push(finding("proof-withheld", Severity::Flag, why));
    judgement.proof = Proof::Unproved;
    judgement.evidence.proving.clear();
    judgement
}

#[cfg(test)]
mod tests {
    use super::{DOUBTS, doubt};
    use crate::domain::{Finding, Proof, Severity, TestCase, TestResult, TestRun};
    use crate::verify::{TestOutcome, judge};

    fn run(result: TestResult) -> TestOutcome {
        TestOutcome::Ran(TestRun { per_test: true, cases: vec![TestCase::new("a", result)], ..TestRun::default() })
    }

    fn flag(rule: &str) -> Finding {
        Finding { rule: rule.to_owned(), severity: Severity::Flag, path: "a.py".to_owned(), line: Some(1), why: "why".to_owned() }
    }

    #[test]
    fn no_proof_counts_beside_a_doubt() {
        for (before, proof) in [(TestResult::Failed, Proof::Fixed), (TestResult::Passed, Proof::Consistent)] {
            let judged = judge(Some(&run(before)), &run(TestResult::Passed));
            assert_eq!((judged.proof, doubt(judged.clone(), &[flag("tests-changed")])), (proof, judged.clone()), "no doubt");
            for rule in DOUBTS {
                let doubted = doubt(judged.clone(), &[flag("dependency"), flag(rule)]);
                assert_eq!((doubted.proof, doubted.refuses()), (Proof::Unproved, false), "{rule}");
                assert!(doubted.findings[0].rule == "proof-withheld" && doubted.findings[0].why.ends_with(rule), "{:?}", doubted.findings);
                assert_eq!(doubted.comparison, judged.comparison);
            }
        }
        let refused = judge(Some(&run(TestResult::Passed)), &run(TestResult::Failed));
        assert_eq!(doubt(refused.clone(), &[flag("no-effect")]), refused);
    }
}
