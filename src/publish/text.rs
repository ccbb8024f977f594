//! Every sentence that people read on a forge.
//!
//! What must hold: words of the model, the repository or a stranger are made inert before they stand here ([`super::inert`]); and no line of
//! ours starts with `/`.

use std::fmt::Write as _;

use crate::domain::{Outcome, Refusal, Round, Severity, Stage};

mod checklist;
mod facts;
mod pull_request;
mod tests_table;

use super::endings;
use super::inert::{self, code, cut, fenced, inert};
use super::report::Report;

pub use facts::changes_expectations;
pub use pull_request::{Proposal, pull_request};

use facts::{attempts_sentence, changed_expectations, ending_of, proof_sentence};
use pull_request::findings;

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
        Stage::Publishing => "publishing the change as a draft",
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

/// The status comment when the work has ended; `pull_request` is what people on the forge call one.
#[must_use]
pub fn ended(job: &str, outcome: &Outcome, report: &Report, pull_request: &str) -> String {
    let mut text = format!("{}\n", marker(job));
    match outcome {
        Outcome::Proposed { url } => {
            write!(
                text,
                "**frognano-bot** opened a draft {pull_request}: {url}\n\n{}\n\n{}A person must review it before it is merged.",
                proof_sentence(report),
                in_short(report)
            )
            .ok();
        }
        Outcome::NoPatch { detail, .. } => {
            write!(text, "**frognano-bot** has no patch for this issue: {}", inert(detail)).ok();
        }
        Outcome::Refused { reason, detail } => {
            write!(text, "**frognano-bot** proposes nothing here (`{}`): {}", code(reason), inert(detail)).ok();
            let refused = report.findings.iter().filter(|finding| finding.severity == Severity::Refuse).cloned().collect::<Vec<_>>();
            if !refused.is_empty() {
                write!(text, "\n\n**What the rules found**\n\n{}", findings(&refused).trim_end()).ok();
            }
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
    if report.attempts.len() > 1 && !matches!(outcome, Outcome::Proposed { .. }) {
        write!(text, "\n\n{} attempts were made; what is said here is of the one that came the furthest:\n", report.attempts.len()).ok();
        for attempt in &report.attempts {
            write!(text, "\n- attempt {}: {}, {}", attempt.number, ending_of(attempt), count(attempt.steps, "step")).ok();
        }
    }
    for note in &report.notes {
        write!(text, "\n\n{}", inert(note)).ok();
    }
    if let Some(page) = &report.page {
        write!(text, "\n\nThe record of the run: <{page}>").ok();
    }
    cut(text)
}

/// The comment on a pull request about the requests for review that the forge did not take.
#[must_use]
pub fn not_done(refused: &[String]) -> String {
    let mut text = "The change is published, but the forge did not take every request for review:\n".to_owned();
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
        Refusal::Confidential => "the issue is confidential, and a branch would show it".to_owned(),
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

/// The rest of the facts in a few sentences, with an empty line behind it; empty where there are none.
fn in_short(report: &Report) -> String {
    let mut sentences = Vec::new();
    match changed_expectations(report).len() {
        0 => {}
        changed => sentences.push(format!("It alters what {} of the project expects.", count(changed as u64, "existing test"))),
    }
    let flags = report.findings.iter().filter(|finding| finding.severity == Severity::Flag).count();
    if flags > 0 {
        sentences.push(format!("The rules found {} to be looked at.", count(flags as u64, "thing")));
    }
    if report.attempts.len() > 1 {
        sentences.extend(attempts_sentence(report));
    }
    if sentences.is_empty() { String::new() } else { format!("{}\n\n", sentences.join(" ")) }
}

fn claim(text: &mut String, words: &str) {
    if !words.trim().is_empty() {
        write!(text, "\n\n**What the agent says** (a claim, not evidence)\n\n{}\n", fenced(words.trim())).ok();
    }
}

/// What a title says of a proof.
const PROOFS: [&str; 4] = ["proved", "fixed", "consistent", "unproved"];

/// The title of the pull request, without any draft prefix: what is proved, the issue's title and number.
#[must_use]
pub fn title(issue_title: &str, number: i64, report: &Report) -> String {
    format!("[{}] {} (#{number})", proof_of(report), or_number(inert::title(issue_title), number))
}

/// The title of an open pull request of ours with what is proved now; none where it says that, or where a person took our word out of it.
#[must_use]
pub fn retitled(title: &str, report: &Report) -> Option<String> {
    let now = format!("[{}] ", proof_of(report));
    let (at, was) = PROOFS.iter().filter_map(|proof| title.find(&format!("[{proof}] ")).map(|at| (at, proof.len() + 3))).min()?;
    let made = format!("{}{now}{}", &title[..at], &title[at + was..]);
    (made != title).then_some(made)
}

fn proof_of(report: &Report) -> &'static str {
    PROOFS.into_iter().find(|proof| report.proof.as_deref() == Some(*proof)).unwrap_or("unproved")
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

fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests;
