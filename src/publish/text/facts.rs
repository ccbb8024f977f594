//! Sentences that say what was measured, and what was not.
//!
//! What must hold: each says no more than the report has; a number that is not known is not said.

use crate::publish::inert::{code, inert};
use crate::publish::report::{AttemptTold, Report};

use super::count;

/// The rule of the judge whose finding says that only the form of a test that the patch gave it passes.
const CHANGED_EXPECTATION: &str = "tests-changed-expectation";

/// The label of proof in one sentence.
pub(super) fn proof_sentence(report: &Report) -> String {
    let fixed = report.comparison.as_ref().map_or(0, |comparison| comparison.fixed.len());
    match (report.proof.as_deref(), report.evidence.proving.len(), fixed) {
        (Some("proved"), 0, _) => {
            "Proved: a test of this change fails without it and passes with it, and none that passed before fails.".to_owned()
        }
        (Some("proved"), 1, _) => {
            "Proved: 1 test of this change fails without it and passes with it, and none that passed before fails.".to_owned()
        }
        (Some("proved"), proving, _) => {
            format!("Proved: {proving} tests of this change fail without it and pass with it, and none that passed before fails.")
        }
        (Some("fixed"), _, 0) => "Fixed: the tests failed before and pass now.".to_owned(),
        (Some("fixed"), _, 1) => "Fixed: 1 test that failed before passes now, and none that passed before fails.".to_owned(),
        (Some("fixed"), _, fixed) => format!("Fixed: {fixed} tests that failed before pass now, and none that passed before fails."),
        (Some("consistent"), ..) => "Consistent: everything that passed before passes still; no test proves the fix.".to_owned(),
        _ => "Unproved: no test result speaks for this change.".to_owned(),
    }
}

/// Whether the change alters what existing tests expect.
#[must_use]
pub fn changes_expectations(report: &Report) -> bool {
    !changed_expectations(report).is_empty()
}

/// The tests whose expectation changed, or the judge's sentence on them where they have no names.
pub(super) fn changed_expectations(report: &Report) -> Vec<String> {
    let named = &report.evidence.changed_expectations;
    if !named.is_empty() {
        return named.clone();
    }
    report.findings.iter().filter(|finding| finding.rule == CHANGED_EXPECTATION).map(|finding| finding.why.clone()).collect()
}

/// The places of the parts that no proving test notices, each with its code's ticks.
pub(super) fn unproven(report: &Report) -> Vec<String> {
    let places = report.evidence.hunks.iter().filter_map(|hunk| match hunk.noticed {
        Some(true) => None,
        Some(false) => Some(format!("`{}`:{}: without it the proving tests pass all the same", code(&hunk.path), hunk.line)),
        None => Some(format!("`{}`:{}: it could not be learned whether a test notices it", code(&hunk.path), hunk.line)),
    });
    places.collect()
}

/// What did not run, what was not read, and what could not be told apart.
pub(super) fn not_run_or_read(report: &Report) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row = |applies: bool, words: String| rows.extend(applies.then_some(words));
    let (before, after) = (report.tests.before.clone().unwrap_or_default(), report.tests.after.clone().unwrap_or_default());
    let ran = report.tests.command.is_some();
    let cannot = after.unavailable.as_ref().or(before.unavailable.as_ref());
    row(!ran, "The project's tests: no way to run them was found.".to_owned());
    row(
        ran && cannot.is_some(),
        format!("The project's tests could not run: {}.", inert(cannot.map_or("", |why| why.trim_end_matches('.')))),
    );
    let by_exit_status = ran && cannot.is_none() && !(before.per_test && after.per_test);
    row(by_exit_status, "The runner gives no result for each test: only its exit status was compared.".to_owned());
    row(before.timed_out || after.timed_out, "The tests did not end within their time.".to_owned());
    let left_out = ("test was skipped by its own mark", "tests were skipped by their own marks");
    row(after.per_test && after.skipped > 0, numbered(after.skipped, left_out));
    let flaky = report.evidence.flaky.len();
    let each = (
        "test was not the same in every run of the same code and counts for nothing",
        "tests were not the same in every run of the same code and count for nothing",
    );
    row(flaky > 0, numbered(flaky, each));
    row(report.images > 0, format!("{} in the issue: the model got the words alone.", count(report.images as u64, "image")));
    row(report.evidence.hunks.is_empty(), "No part of the change was taken back alone to see whether a test notices.".to_owned());
    rows
}

fn numbered(number: usize, (one, more): (&str, &str)) -> String {
    format!("{number} {}.", if number == 1 { one } else { more })
}

/// How many attempts were made and how many agree; none for a run that told of none.
pub(super) fn attempts_sentence(report: &Report) -> Option<String> {
    let agree = report.attempts.iter().filter(|attempt| attempt.agrees).count();
    match report.attempts.len() {
        0 => None,
        1 => Some("1 attempt was made.".to_owned()),
        made if agree == 1 => Some(format!("{made} attempts were made; no other one agrees on the behaviour.")),
        made => Some(format!(
            "{made} attempts were made; {agree} of them agree on the behaviour: the same patch, or the same result of every test."
        )),
    }
}

/// How an attempt ended, in words.
pub(super) fn ending_of(attempt: &AttemptTold) -> String {
    match (attempt.proof.as_deref(), attempt.reason.as_str()) {
        (Some(proof), _) => format!("judged `{}`", code(proof)),
        (None, "") => code(&attempt.outcome),
        (None, reason) if attempt.outcome == "no_patch" => format!("no patch (`{}`)", code(reason)),
        (None, reason) => format!("{} (`{}`)", code(&attempt.outcome), code(reason)),
    }
}
