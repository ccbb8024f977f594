//! The body of a pull request: facts that code measured, in the order in which a reviewer needs them, so that what a forge's limit cuts is the least.
//!
//! What must hold: the first bold sentence is what is proved; nothing is said of tests that was not measured; the words of the model, the
//! repository and the issue are quoted, never ours.

use std::fmt::Write as _;

use crate::domain::{Finding, IssueText, Severity};
use crate::publish::inert::{cell, code, cut_to, fenced, inert};
use crate::publish::report::{Report, StatementTold};

use super::checklist::checklist;
use super::facts::{attempts_sentence, changed_expectations, ending_of, not_run_or_read, proof_sentence, unproven};
use super::{count, tests_table};

/// So many rows of a list are shown; the rest is counted.
const SHOWN: usize = 20;
/// So many files are shown.
const FILES: usize = 100;
/// So many findings of one severity are shown.
const FINDINGS: usize = 30;

/// What a pull request tells.
pub struct Proposal<'a> {
    /// The facts.
    pub report: &'a Report,
    /// The issue's number; 0 for an issue of no forge.
    pub issue: i64,
    /// The issue's words as they were frozen, which the model got.
    pub asked: &'a IssueText,
    /// The longest text that the forge takes, in characters.
    pub longest: usize,
}

/// The text of the pull request.
#[must_use]
pub fn pull_request(proposal: &Proposal<'_>) -> String {
    let report = proposal.report;
    let mut text = String::new();
    writeln!(text, "**{}**\n", proof_sentence(report)).ok();
    loud_expectations(&mut text, report);
    let issue = if proposal.issue == 0 { String::new() } else { format!(" for #{}", proposal.issue) };
    writeln!(
        text,
        "> A machine made this change{issue}. Code has judged it; no person has read it yet. It stays a draft until somebody reviews it."
    )
    .ok();
    section(&mut text, "For the reviewer", &checklist(report));
    section(&mut text, "Tests", &tests_table::tests(report));
    section(&mut text, "What changed", &files(report));
    section(&mut text, "What the rules found", &findings(&report.findings));
    section(&mut text, "Parts that no test notices", &rows(&unproven(report)));
    section(&mut text, "Not run, not read", &rows(&not_run_or_read(report)));
    section(&mut text, "Attempts", &attempts(report));
    section(&mut text, "What was asked", &asked(proposal.asked));
    section(&mut text, "What the agent says", &claim(&report.final_message));
    section(&mut text, "Record of the run", &record(report));
    cut_to(text, proposal.longest)
}

fn section(text: &mut String, heading: &str, content: &str) {
    if !content.trim().is_empty() {
        write!(text, "\n### {heading}\n\n{}\n", content.trim_end()).ok();
    }
}

fn rows(rows: &[String]) -> String {
    let mut text = String::new();
    for row in rows.iter().take(SHOWN) {
        writeln!(text, "- {row}").ok();
    }
    if rows.len() > SHOWN {
        writeln!(text, "- and {} more", rows.len() - SHOWN).ok();
    }
    text
}

fn loud_expectations(text: &mut String, report: &Report) {
    let names = changed_expectations(report);
    if names.is_empty() {
        return;
    }
    let what = if names.len() == 1 { "an existing test" } else { "existing tests" };
    writeln!(text, "> ⚠️ **This change alters what {what} of the project expects.** In its old form it fails on this change:\n>").ok();
    for name in names.iter().take(SHOWN) {
        writeln!(text, "> - `{}`", code(name)).ok();
    }
    if names.len() > SHOWN {
        writeln!(text, "> - and {} more", names.len() - SHOWN).ok();
    }
    text.push('\n');
}

fn files(report: &Report) -> String {
    if report.files.is_empty() {
        return String::new();
    }
    let mut text = "| file | added | removed |\n|---|---:|---:|\n".to_owned();
    for (path, added, removed) in report.files.iter().take(FILES) {
        writeln!(text, "| {} | {added} | {removed} |", cell(path)).ok();
    }
    if report.files.len() > FILES {
        writeln!(text, "\nAnd {} more.", count((report.files.len() - FILES) as u64, "file")).ok();
    }
    text
}

/// The findings, what refuses first.
pub(super) fn findings(all: &[Finding]) -> String {
    let mut text = String::new();
    for (severity, heading) in [(Severity::Refuse, "Refused"), (Severity::Flag, "To be looked at")] {
        let of_it = all.iter().filter(|finding| finding.severity == severity).collect::<Vec<_>>();
        if of_it.is_empty() {
            continue;
        }
        writeln!(text, "{heading}: {}\n", of_it.len()).ok();
        for finding in of_it.iter().take(FINDINGS) {
            writeln!(text, "- `{}`{}: {}", code(&finding.rule), place(finding), inert(&finding.why)).ok();
        }
        if of_it.len() > FINDINGS {
            writeln!(text, "- and {} more", of_it.len() - FINDINGS).ok();
        }
        text.push('\n');
    }
    text
}

/// Where a finding is, with a space before it; empty for the patch as a whole.
pub(super) fn place(finding: &Finding) -> String {
    match (finding.path.is_empty(), finding.line) {
        (true, _) => String::new(),
        (false, None) => format!(" `{}`", code(&finding.path)),
        (false, Some(line)) => format!(" `{}`:{line}", code(&finding.path)),
    }
}

fn attempts(report: &Report) -> String {
    let Some(sentence) = attempts_sentence(report) else { return String::new() };
    if report.attempts.len() == 1 {
        return sentence;
    }
    let mut text = format!("{sentence}\n\n| attempt | how it ended | steps | lines changed | same behaviour |\n|---:|---|---:|---:|---|\n");
    for attempt in &report.attempts {
        let chosen = if attempt.chosen { " (this one)" } else { "" };
        let agrees = if attempt.agrees { "yes" } else { "no" };
        let (number, steps, lines) = (attempt.number, attempt.steps, attempt.lines);
        writeln!(text, "| {number} | {}{chosen} | {steps} | {lines} | {agrees} |", ending_of(attempt)).ok();
    }
    text
}

fn asked(asked: &IssueText) -> String {
    let words = format!("{}\n\n{}", asked.title.trim(), asked.body.trim());
    if words.trim().is_empty() {
        return String::new();
    }
    let quoted = fenced(words.trim());
    format!("<details><summary>The issue as it was when it was taken up</summary>\n\n{quoted}\n\n</details>\n")
}

fn claim(words: &str) -> String {
    match words.trim() {
        "" => String::new(),
        words => format!("A claim, not evidence:\n\n{}\n", fenced(words)),
    }
}

fn record(report: &Report) -> String {
    let mut text = "<details><summary>How it was made</summary>\n\n".to_owned();
    if let Some(page) = &report.page {
        writeln!(text, "- run page: <{page}>").ok();
    }
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            writeln!(text, "- {name}: `{}`", code(value)).ok();
        }
    };
    let sandbox = report.sandbox.as_ref();
    row("run", &report.run);
    row("asked by", report.requested_by.as_deref().unwrap_or_default());
    row("base", report.base.as_deref().unwrap_or_default());
    row("patch SHA-256", report.patch_sha256.as_deref().unwrap_or_default());
    row("model", &report.model);
    row("budgets", &report.preset);
    row("agent", &format!("{}, ended as {}", count(report.steps, "step"), report.exit_reason.as_deref().unwrap_or("unknown")));
    row("sandbox image", sandbox.and_then(|sandbox| sandbox.get("image")).and_then(|image| image.as_str()).unwrap_or_default());
    let tried = sandbox.and_then(|sandbox| sandbox.get("attempts")).and_then(|tried| tried.as_array()).map_or(0, Vec::len);
    if tried > 0 {
        row("sandbox", &format!("no network: {tried} attempts to reach something from inside, none succeeded"));
    }
    if let Some(statement) = &report.statement {
        statement_rows(statement, &mut row);
    }
    for note in &report.notes {
        row("note", note);
    }
    text.push_str("\n</details>\n");
    text
}

/// Where the signed statement is, and how anybody checks it.
fn statement_rows(statement: &StatementTold, row: &mut impl FnMut(&str, &str)) {
    let StatementTold { reference, key, refused } = statement;
    match refused {
        None => {
            row("signed statement", &format!("{reference}, signed with the key {key}"));
            let fetch = format!("git fetch origin {reference} && git show FETCH_HEAD:statement.json > statement.json");
            row("check it", &format!("{fetch} && frognano-bot audit verify statement.json --key KEY.pem"));
        }
        Some(why) => {
            row("signed statement", &format!("in the run's audit export alone, signed with the key {key}"));
            row("the forge did not take its reference", why);
        }
    }
}
