//! Tests of base that a patch rightly takes away.

use super::proving;
use crate::domain::{TestResult, TestRun};

/// Whether a test that passed at base is rightly not there as the patch has its tests: the rules accept it as `gone` (dotted), or it has other
/// parameters, no fewer, that all pass.
pub(super) fn is_accounted_for(name: &str, was: &TestRun, is: &TestRun, gone: &[String]) -> bool {
    if is.said(name).is_some() {
        return false;
    }
    let is_gone = gone.iter().any(|dotted| proving::is_called(name, dotted));
    let function = |name: &str| name.split_once('[').map(|(function, _)| format!("{function}["));
    let Some(function) = function(name) else { return is_gone };
    let rows = |run: &TestRun| run.cases.iter().filter(|case| case.name.starts_with(&function)).map(|case| case.result).collect::<Vec<_>>();
    let (rows_before, rows_now) = (rows(was), rows(is));
    is_gone || rows_now.len() >= rows_before.len() && rows_now.iter().all(|result| *result == TestResult::Passed)
}

#[cfg(test)]
mod tests {
    use super::is_accounted_for;
    use crate::domain::{TestCase, TestResult, TestRun};
    use TestResult::{Failed, Passed, Skipped};

    fn run(cases: &[(&str, TestResult)]) -> TestRun {
        let cases = cases.iter().map(|(name, result)| TestCase::new(name, *result)).collect();
        TestRun { per_test: true, cases, ..TestRun::default() }
    }

    #[test]
    fn a_test_may_go_with_what_it_tested_or_get_other_rows() {
        let was = run(&[("t.test_a::test_x", Passed), ("t.test_a::test_y[1-2]", Passed), ("t.test_a::test_y[2-3]", Passed)]);
        let gone = ["t.test_a.test_x".to_owned()];
        let is = |name: &str, now: &[(&str, TestResult)]| is_accounted_for(name, &was, &run(now), &gone);
        assert!(is("t.test_a::test_x", &[]));
        assert!(!is("t.test_a::test_x", &[("t.test_a::test_x", Skipped)]), "it is there, and does not pass");
        let (row, other) = ("t.test_a::test_y[1-2]", ("t.test_a::test_y[2-3]", Passed));
        assert!(is(row, &[("t.test_a::test_y[1-4]", Passed), other]));
        assert!(!is(row, &[other]), "a row is gone");
        assert!(!is(row, &[("t.test_a::test_y[1-4]", Failed), other]) && !is(row, &[("t.test_a::test_yy[1]", Passed), other]));
    }
}
