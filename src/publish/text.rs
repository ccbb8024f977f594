//! Every sentence that people read on a forge.
//!
//! What must hold: words of the model, the repository or a stranger are made inert before they stand here ([`super::inert`]); and no line of
//! ours starts with `/`.

use std::fmt::Write as _;

use crate::domain::{Finding, Outcome, Refusal, Round, Severity, Stage};

use super::endings;
use super::inert::{self, cell, code, cut, fenced, inert};
use super::report::{Report, Told};

/// What the hidden line of every status comment begins with.
pub const MARKER: &str = "<!-- frognano-bot job ";

/// The hidden line by which a comment of ours is found again.
#[must_use]
pub fn marker(job: &str) -> String {
    format!("{MARKER}{job} -->")
}

/// The hidden line by which an answer of ours is found again.
#[must_use]
pub fn answer_marker(key: &str) -> String {
    format!("<!-- frognano-bot answer {key} -->")
}

/// What the bot took up when a label asked.
#[must_use]
pub fn the_label(label: &str) -> String {
    format!("the label `{}`", code(label))
}

/// What the bot took up when a person's command or review asked; `round` is that of a pull request's attempts.
#[must_use]
pub fn the_request(login: &str, round: Option<i64>) -> String {
    match round {
        Some(round) => format!("the review by `{}` (round {round} of {})", code(login), Round::MOST),
        None => format!("the command by `{}`", code(login)),
    }
}

/// The status comment while the work goes on. `taken_up` is what it began with; `attempt` the one that goes on, and how many there may be.
#[must_use]
pub fn working(job: &str, stage: Stage, taken_up: &str, attempt: Option<(u32, u32)>) -> String {
    let now = match stage {
        Stage::Queued => "in the queue",
        Stage::Admitting => "reading the issue and checking who asked",
        Stage::Cloning => "fetching the repository",
        Stage::Proving => "starting a sandbox and proving that it reaches nothing",
        Stage::TestsBefore => "running the project's tests as they are",
        Stage::Agent => "the model works on the issue in the sandbox",
        Stage::WaitingForModel => "waiting for the model: its server does not answer, the work goes on as soon as it does",
        Stage::TestsAfter => "judging the patch: running the tests in a second, fresh sandbox",
        Stage::Publishing => "pushing the change to the draft pull request",
        Stage::Done => "done",
    };
    let attempt = match attempt {
        Some((number @ 2.., most)) if stage < Stage::Publishing => format!(" (attempt {number} of at most {most})"),
        _ => String::new(),
    };
    format!("{}\n**frognano-bot** took up {taken_up}.\n\nNow: {now}{attempt}.", marker(job))
}

/// The status comment while the forge or its git does not answer as it should.
#[must_use]
pub fn waiting(job: &str, why: &str, taken_up: &str) -> String {
    cut(format!(
        "{}\n**frognano-bot** took up {taken_up}.\n\nNow: waiting; the work goes on by itself as soon as this is over: {}",
        marker(job),
        inert(why)
    ))
}

/// The status comment when the work has ended.
#[must_use]
pub fn ended(job: &str, outcome: &Outcome, report: &Report) -> String {
    let mut text = format!("{}\n", marker(job));
    match outcome {
        Outcome::Proposed { url } => {
            write!(
                text,
                "**frognano-bot** opened a draft pull request: {url}\n\n{}\n\nA person must review it before it is merged.",
                proof_sentence(report)
            )
            .ok();
        }
        Outcome::NoPatch { detail, .. } => {
            write!(text, "**frognano-bot** has no patch for this issue: {}", inert(detail)).ok();
        }
        Outcome::Refused { reason, detail } => {
            write!(text, "**frognano-bot** proposes nothing here (`{}`): {}", code(reason), inert(detail)).ok();
            findings(&mut text, &report.findings, Some(Severity::Refuse));
        }
        Outcome::Cancelled { by } => {
            write!(text, "**frognano-bot** stopped: {}.", inert(by)).ok();
        }
        Outcome::Abandoned { detail, .. } => {
            write!(
                text,
                "**frognano-bot** had to give up (`{}`). This is a fault of the machinery, not of the fix: {}",
                code(&outcome.reason()),
                inert(detail)
            )
            .ok();
        }
    }
    if report.steps > 0 && !matches!(outcome, Outcome::Proposed { .. }) {
        let reason = report.exit_reason.as_deref().unwrap_or("unknown");
        write!(text, "\n\nThe agent made {}{} (`{}`).", count(report.steps, "step"), endings::after_steps(reason), code(reason)).ok();
        claim(&mut text, &report.final_message);
    }
    for note in &report.notes {
        write!(text, "\n\n{}", inert(note)).ok();
    }
    cut(text)
}

/// The comment on a pull request about the requests for review that the forge did not take.
#[must_use]
pub fn not_done(refused: &[String]) -> String {
    let mut text = "The pull request stands, but the forge did not take every request for review:\n".to_owned();
    for why in refused {
        write!(text, "\n- {}", inert(why)).ok();
    }
    cut(text)
}

/// Why a label was not taken up: one sentence with the rule and what to do.
#[must_use]
pub fn refusal(refusal: Refusal, login: &str, label: &str) -> String {
    let (login, label) = (code(login), code(label));
    match refusal {
        Refusal::IssueClosed => format!("the issue is closed; reopen it and set the label `{label}` again"),
        Refusal::IssueLocked => format!("the issue is locked; unlock it, take the label `{label}` off and set it again"),
        Refusal::IsPullRequest => format!("this is a pull request; the label `{label}` works on issues"),
        Refusal::Confidential => "the issue is confidential, and a branch or pull request would show it".to_owned(),
        Refusal::NoWriteAccess => format!(
            "`{login}` set the label `{label}`, but the forge shows no write access of theirs to this repository; somebody who has it can take the label off and set it again"
        ),
        Refusal::NotAllowed => format!(
            "`{login}` set the label `{label}` and may write here, but this service takes it only from the people and teams that its administrator has listed; one of them can take the label off and set it again"
        ),
        Refusal::ActorIsBot => format!("`{login}` is a bot; the label `{label}` must be set by a person"),
        Refusal::RepositoryArchived => "the repository is archived".to_owned(),
        Refusal::TextDisputed => format!(
            "the issue was edited while it waited, so it is not known which of its words whoever set the label `{label}` had read; take the label off and set it again"
        ),
        Refusal::ActorUnknown => format!("the forge does not say who set the label `{label}`; take it off and set it again"),
    }
}

/// The title of the pull request, without any draft prefix.
#[must_use]
pub fn title(issue_title: &str, number: i64) -> String {
    format!("{} (#{number})", or_number(inert::title(issue_title), number))
}

/// The message of our commit.
#[must_use]
pub fn commit_message(issue_title: &str, number: i64, issue_url: &str, run: &str) -> String {
    let issue = if issue_url.is_empty() { number.to_string() } else { issue_url.to_owned() };
    format!(
        "frognano: {}\n\nMade by frognano-bot; not reviewed by a person.\n\nFrognano-Issue: {}\nFrognano-Run: {run}\n",
        or_number(inert::subject(issue_title), number),
        issue.split_whitespace().collect::<String>()
    )
}

fn or_number(line: String, number: i64) -> String {
    if line.is_empty() { format!("issue {number}") } else { line }
}

/// The text of the pull request: facts first, the model's words last and quoted. The number 0 stands for an issue of no forge.
#[must_use]
pub fn pull_request(report: &Report, number: i64) -> String {
    let mut text = String::new();
    let issue = if number == 0 { String::new() } else { format!(" for #{number}") };
    writeln!(text, "> **A machine made this change{issue}.** Code has judged it; no person has read it yet. It stays a draft until somebody reviews it.\n").ok();
    writeln!(text, "**{}**\n", proof_sentence(report)).ok();
    tests(&mut text, report);
    text.push_str("\n| file | added | removed |\n|---|---:|---:|\n");
    for (path, added, removed) in &report.files {
        writeln!(text, "| {} | {added} | {removed} |", cell(path)).ok();
    }
    findings(&mut text, &report.findings, None);
    claim(&mut text, &report.final_message);
    record(&mut text, report);
    cut(text)
}

fn proof_sentence(report: &Report) -> String {
    let comparison = report.comparison.clone().unwrap_or_default();
    match report.proof.as_deref() {
        Some("fixed") if comparison.fixed.is_empty() => "Fixed: the tests failed before and pass now.".to_owned(),
        Some("fixed") if comparison.fixed.len() == 1 => {
            "Fixed: 1 test that failed before passes now, and none that passed before fails.".to_owned()
        }
        Some("fixed") => format!("Fixed: {} tests that failed before pass now, and none that passed before fails.", comparison.fixed.len()),
        Some("consistent") => "Consistent: everything that passed before passes still; no test proves the fix.".to_owned(),
        _ => "Unproved: no test result speaks for this change.".to_owned(),
    }
}

fn tests(text: &mut String, report: &Report) {
    let Some(command) = &report.tests.command else {
        text.push_str("No way to run this project's tests was found, so none ran.\n");
        return;
    };
    writeln!(text, "| tests | before | after |\n|---|---:|---:|").ok();
    let (before, after) = (report.tests.before.clone().unwrap_or_default(), report.tests.after.clone().unwrap_or_default());
    if before.per_test || after.per_test {
        for (name, count) in [
            ("passed", (|told: &Told| told.passed) as fn(&Told) -> usize),
            ("failed", |told| told.failed),
            ("errors", |told| told.errors),
            ("skipped", |told| told.skipped),
        ] {
            writeln!(text, "| {name} | {} | {} |", number(&before, count), number(&after, count)).ok();
        }
    }
    writeln!(text, "| exit status | {} | {} |", exit(&before), exit(&after)).ok();
    writeln!(text, "| time | {:.2} s | {:.2} s |\n", seconds(&before), seconds(&after)).ok();
    writeln!(text, "Run as `{}` ({}).", code(command), inert(report.tests.why.as_deref().unwrap_or("configured").trim_end_matches('.')))
        .ok();
    if let Some(why) = after.unavailable.as_ref().or(before.unavailable.as_ref()) {
        writeln!(text, "The tests could not run: {}.", inert(why)).ok();
    }
    if !report.tests.restored.is_empty() {
        text.push_str(
            "The tests were judged as they are at base: changes of this patch to existing tests were put back for the judgement.\n",
        );
    }
    let comparison = report.comparison.clone().unwrap_or_default();
    names(text, "Pass now and did not before", &comparison.fixed);
    names(text, "New and passing", &comparison.added);
    names(text, "Not passing, before and after", &comparison.still_failing);
}

fn number(told: &Told, count: fn(&Told) -> usize) -> String {
    if told.per_test { count(told).to_string() } else { "?".to_owned() }
}

fn exit(told: &Told) -> String {
    match (told.timed_out, told.exit_code) {
        (true, _) => "stopped for time".to_owned(),
        (false, Some(code)) => code.to_string(),
        (false, None) => "did not run".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a duration for people, to a hundredth of a second")]
fn seconds(told: &Told) -> f64 {
    told.duration_ms as f64 / 1000.0
}

fn names(text: &mut String, heading: &str, names: &[String]) {
    const SHOWN: usize = 20;
    if names.is_empty() {
        return;
    }
    writeln!(text, "\n<details><summary>{heading}: {}</summary>\n", names.len()).ok();
    for name in names.iter().take(SHOWN) {
        writeln!(text, "- `{}`", code(name)).ok();
    }
    if names.len() > SHOWN {
        writeln!(text, "- and {} more", names.len() - SHOWN).ok();
    }
    text.push_str("\n</details>\n");
}

fn findings(text: &mut String, findings: &[Finding], only: Option<Severity>) {
    let mut shown = findings.iter().filter(|finding| only.is_none_or(|severity| finding.severity == severity)).peekable();
    if shown.peek().is_none() {
        return;
    }
    text.push_str("\n\n**What the rules found**\n\n");
    for finding in shown.take(30) {
        let place = match (finding.path.is_empty(), finding.line) {
            (true, _) => String::new(),
            (false, None) => format!(" `{}`", code(&finding.path)),
            (false, Some(line)) => format!(" `{}`:{line}", code(&finding.path)),
        };
        writeln!(text, "- `{}`{place}: {}", code(&finding.rule), inert(&finding.why)).ok();
    }
}

fn claim(text: &mut String, words: &str) {
    let words = words.trim();
    if words.is_empty() {
        return;
    }
    write!(text, "\n\n**What the agent says** (a claim, not evidence)\n\n{}\n", fenced(words)).ok();
}

fn record(text: &mut String, report: &Report) {
    text.push_str("\n<details><summary>Record of the run</summary>\n\n");
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            writeln!(text, "- {name}: `{}`", code(value)).ok();
        }
    };
    row("run", &report.run);
    row("asked by", report.requested_by.as_deref().unwrap_or_default());
    row("base", report.base.as_deref().unwrap_or_default());
    row("patch SHA-256", report.patch_sha256.as_deref().unwrap_or_default());
    row("model", &report.model);
    row("agent", &format!("{}, ended as {}", count(report.steps, "step"), report.exit_reason.as_deref().unwrap_or("unknown")));
    let tried =
        report.sandbox.as_ref().and_then(|sandbox| sandbox.get("attempts")).and_then(|attempts| attempts.as_array()).map_or(0, Vec::len);
    if tried > 0 {
        row("sandbox", &format!("no network: {tried} attempts to reach something from inside, none succeeded"));
    }
    for note in &report.notes {
        row("note", note);
    }
    text.push_str("\n</details>\n");
}

fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests;
