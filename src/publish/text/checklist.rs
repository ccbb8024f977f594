//! What a reviewer should look at, made from what was found and from what was not proved.

use std::fmt::Write as _;

use crate::domain::Severity;
use crate::publish::inert::code;
use crate::publish::report::Report;

use super::count;
use super::facts::changed_expectations;
use super::pull_request::place;

/// So many boxes of one kind.
const MOST: usize = 10;

/// The boxes to tick, the most pressing first.
pub(super) fn checklist(report: &Report) -> String {
    let mut text = String::new();
    let mut boxes = |all: Vec<String>| {
        for words in all.iter().take(MOST) {
            writeln!(text, "- [ ] {words}").ok();
        }
        if all.len() > MOST {
            writeln!(text, "- [ ] {} more of this kind, listed below", all.len() - MOST).ok();
        }
    };
    let named = !report.evidence.changed_expectations.is_empty();
    boxes(match changed_expectations(report) {
        names if named => names.iter().map(|name| format!("The issue asks for the new expectation of `{}`", code(name))).collect(),
        sentences => sentences.iter().map(|_| "The issue asks for what the changed tests expect now".to_owned()).collect(),
    });
    boxes(match report.proof.as_deref() {
        Some("proved") => vec!["The proving tests test what the issue asks for".to_owned()],
        Some("fixed") => vec!["What passes now and did not before tests what the issue asks for".to_owned()],
        _ => vec!["It does what the issue asks for: no test shows that, so try it".to_owned()],
    });
    let flags = report.findings.iter().filter(|finding| finding.severity == Severity::Flag);
    boxes(flags.map(|finding| format!("`{}`{} is as it should be", code(&finding.rule), place(finding))).collect());
    let unnoticed = report.evidence.hunks.iter().filter(|hunk| hunk.noticed == Some(false));
    boxes(unnoticed.map(|hunk| format!("`{}`:{} is needed: no test notices it", code(&hunk.path), hunk.line)).collect());
    if report.images > 0 {
        let asks = if report.images == 1 { "asks" } else { "ask" };
        boxes(vec![format!("The {} of the issue {asks} for nothing else", count(report.images as u64, "image"))]);
    }
    let restored = report.tests.restored.iter();
    boxes(restored.map(|path| format!("The change to `{}`, which was put back for the judgement, weakens no test", code(path))).collect());
    let (added, removed) = report.files.iter().fold((0, 0), |(added, removed), file| (added + file.1, removed + file.2));
    boxes(vec![format!(
        "The whole change is read: {}, {} added, {} removed",
        count(report.files.len() as u64, "file"),
        count(added, "line"),
        count(removed, "line")
    )]);
    text
}
