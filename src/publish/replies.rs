//! What is answered to commands and reviews, one comment each.
//!
//! What must hold: as everywhere in what we write, a stranger's words are inert and no line starts a command.

use crate::domain::{Command, Round};

use super::inert::{code, inert};

/// Which commands there are. Here as below, `pull_request` is what people on the forge call one.
#[must_use]
pub fn help(label: &str, pull_request: &str) -> String {
    let about = |command: Command| match command {
        Command::Retry => format!("work on the issue again; it must be open and carry the label `{}`", code(label)),
        Command::Cancel => "stop what is going on for this issue".to_owned(),
        Command::Status => "say how far it is".to_owned(),
        Command::Help => "say this".to_owned(),
        Command::Wrong => format!(
            "on a {pull_request} of this bot, with one word behind it (`/frognano wrong regression`): say that its verdict was wrong; it is counted, and shown to the operator"
        ),
        Command::Revise => format!(
            "on a {pull_request} of this bot: work on it once more, with what is written below the command as the task; a review that requests changes does the same; at most {} times",
            Round::MOST
        ),
    };
    let lines = Command::ALL.into_iter().map(|command| format!("- `/frognano {}`: {}", command.word(), about(command)));
    format!(
        "**frognano-bot** listens to people with write access. The command is the whole first line of a comment, on the issue or on this bot's {pull_request}:\n\n{}",
        lines.collect::<Vec<_>>().join("\n")
    )
}

/// To `/frognano wrong` without a word.
#[must_use]
pub fn no_word() -> String {
    "**frognano-bot**: say in one word of letters, digits and dashes what was wrong, as in `/frognano wrong regression`.".to_owned()
}

/// A person found the verdict wrong.
#[must_use]
pub fn noted_as_wrong(pull_request: &str) -> String {
    format!(
        "**frognano-bot** noted that the verdict of this {pull_request} was wrong. It is counted as a false green and shown to the operator. Thank you."
    )
}

/// Somebody without the right to asked for something: somebody who may not write, or whom the administrator's list does not name.
#[must_use]
pub fn not_allowed(login: &str, may_write: bool) -> String {
    if may_write {
        return format!(
            "**frognano-bot** takes commands and reviews from people on its administrator's list for this forge; `{}` is not on it. Somebody who is can ask instead.",
            code(login)
        );
    }
    format!(
        "**frognano-bot** takes commands and reviews from people with write access to this repository; the forge shows none for `{}`. Somebody who has it can ask instead.",
        code(login)
    )
}

/// Why an issue can't be worked on again: what is missing.
#[must_use]
pub fn not_again(missing: &[String]) -> String {
    format!("**frognano-bot** can't work on this issue again: {}.", missing.join("; "))
}

/// The issue is not open.
#[must_use]
pub fn closed() -> String {
    "the issue is closed; reopen it first".to_owned()
}

/// The issue is locked.
#[must_use]
pub fn locked() -> String {
    "the issue is locked; unlock it first".to_owned()
}

/// The label is missing.
#[must_use]
pub fn unlabelled(label: &str) -> String {
    format!("it does not carry the label `{}`; setting the label starts a run by itself", code(label))
}

/// There is a run under way.
#[must_use]
pub fn already_running() -> String {
    "**frognano-bot** is already running for this issue. Ask again when that run has ended, or stop it with the command `cancel` first."
        .to_owned()
}

/// There is nothing to stop.
#[must_use]
pub fn nothing_to_cancel() -> String {
    "**frognano-bot** has nothing under way for this issue.".to_owned()
}

/// How far a waiting job is.
#[must_use]
pub fn queued(place: i64, stage: &str) -> String {
    let waits = if stage == "waiting_for_model" { "; it waits for the model's server" } else { "" };
    format!("**frognano-bot**: queued, at place {place}{waits}.")
}

/// How far a running job is.
#[must_use]
pub fn running(stage: &str, steps: i64) -> String {
    let steps = match steps {
        0 => String::new(),
        1 => ", 1 step of the agent so far".to_owned(),
        steps => format!(", {steps} steps of the agent so far"),
    };
    format!("**frognano-bot** is at the stage `{}`{steps}.", code(stage))
}

/// How the last job ended.
#[must_use]
pub fn ended(outcome: &str, detail: &str, pull_request: &str) -> String {
    if outcome == "proposed" {
        return format!("**frognano-bot** has nothing under way. The last run opened a draft {pull_request}: {detail}");
    }
    format!("**frognano-bot** has nothing under way. The last run ended as `{}`: {}", code(outcome), inert(detail))
}

/// There was no job yet.
#[must_use]
pub fn never_ran(label: &str) -> String {
    format!("**frognano-bot** has not worked on this issue. The label `{}` starts it.", code(label))
}

/// `revise` where there is nothing to revise.
#[must_use]
pub fn not_a_pull_request(pull_request: &str) -> String {
    format!("**frognano-bot** revises its own open {pull_request}s: write the command there, with what to change below it.")
}

/// `revise` without words.
#[must_use]
pub fn nothing_said() -> String {
    "**frognano-bot** needs to know what to change: write it below the command, in the same comment.".to_owned()
}

/// All rounds are made.
#[must_use]
pub fn all_rounds(pull_request: &str) -> String {
    format!(
        "**frognano-bot** has worked on this {pull_request} {} times after its first attempt. A person should take over from here.",
        Round::MOST
    )
}

/// On a pull request whose run was stopped before it was told of.
#[must_use]
pub fn taken_back(why: &str) -> String {
    format!("Closed: {why} while this was being opened. Nothing here was finished.")
}

/// The pull request has a successor.
#[must_use]
pub fn superseded(url: &str, pull_request: &str) -> String {
    format!("**frognano-bot** was asked again and opened another {pull_request} for the same issue, which supersedes this one: {url}")
}

/// The words of another round's task: those of the issue, and of the review.
#[must_use]
pub fn task(issue_body: &str, review: &str, lines: &[(String, Option<i64>, String)]) -> String {
    let mut text = format!(
        "{}\n\n---\n\nThe repository holds a first attempt at this already. It was reviewed. Change it so that it does what the review asks:\n\n{}",
        issue_body.trim_end(),
        review.trim()
    );
    for (path, line, body) in lines {
        let place = line.map_or_else(|| path.clone(), |line| format!("{path}, line {line}"));
        text.push_str(&format!("\n\n{place}:\n{}", body.trim()));
    }
    text
}
