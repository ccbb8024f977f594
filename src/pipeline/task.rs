//! What the agent is asked: the words, and in a further attempt what was wrong with the one before.
//!
//! What must hold: it is the one user message of its conversation. What is said of an earlier attempt names tests and paths that strangers chose,
//! so it is short, on lines of its own, and without what nobody sees.

use crate::domain::{Finding, Outcome, Severity, without_hidden};
use crate::leaf::{self, Task, TaskText};
use crate::publish::report::Report;
use crate::store::Tried;

use super::Work;

/// What is said of one reason, in characters.
const LONGEST_REASON: usize = 600;
/// So many reasons are said.
const MOST_REASONS: usize = 5;

/// The task of the attempt that goes on now.
pub(super) fn of(work: &Work<'_>) -> Task {
    let attempt = work.attempt();
    let mut text = leaf::task_text(&work.text).text;
    text.push_str(&work.checkpoint.tried.last().map_or_else(String::new, what_failed));
    let id = if attempt == 1 { work.run.0.clone() } else { format!("{}-{attempt}", work.run) };
    Task { trajectory_id: id.clone(), instance_id: id, seed: seed(work.parts.settings.seed, attempt), text }
}

/// Each attempt is another draw, also where nothing can be said of what failed before.
fn seed(first: Option<u64>, attempt: u32) -> Option<u64> {
    if attempt == 1 { first } else { Some(first.unwrap_or(0).wrapping_add(u64::from(attempt) - 1)) }
}

/// What failed, for the end of the task; empty where there is nothing to say.
fn what_failed(tried: &Tried) -> String {
    let Some(Outcome::Refused { detail, .. }) = &tried.ended else { return String::new() };
    let report: Report = serde_json::from_value(tried.report.clone()).unwrap_or_default();
    let refusals = report.findings.iter().filter(|finding| finding.severity == Severity::Refuse);
    let mut reasons = refusals.map(reason).take(MOST_REASONS).collect::<Vec<_>>();
    if reasons.is_empty() {
        reasons.push(plain(detail));
    }
    let reasons = reasons.into_iter().map(|reason| format!("- {reason}\n")).collect::<String>();
    format!(
        "\n\n---\n\nAn earlier attempt at this was not accepted, and nothing of it is left in the repository. What was wrong with it:\n\n{reasons}\n\
         Solve the issue so that none of this is the case."
    )
}

fn reason(finding: &Finding) -> String {
    match (finding.path.as_str(), finding.line) {
        ("", _) => plain(&finding.why),
        (path, None) => plain(&format!("{path}: {}", finding.why)),
        (path, Some(line)) => plain(&format!("{path}, line {line}: {}", finding.why)),
    }
}

fn plain(words: &str) -> String {
    let (words, _) = without_hidden(words);
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST_REASON { line } else { line.chars().take(LONGEST_REASON - 1).chain(['…']).collect() }
}

/// What a reader of the issue does not see, or sees and the model does not: the reviewer must know both.
pub(super) fn tell_what_was_left_out(report: &mut Report, task: &TaskText) {
    if task.had_hidden_text() {
        let hidden = format!("{} hidden comments and {} invisible characters", task.hidden_comments, task.hidden_characters);
        report.findings.push(Finding {
            rule: "issue-hidden-text".to_owned(),
            severity: Severity::Flag,
            path: String::new(),
            line: None,
            why: format!("the issue held text that its page does not show ({hidden}); the model did not get it"),
        });
    }
    report.images = task.images;
    match (task.images, task.has_words) {
        (0, _) => {}
        (images, true) => report.notes.push(format!("Images in the issue: {images}. They were not read: the model got the words alone.")),
        (images, false) => report.notes.push(format!(
            "The issue's description has no words, only images: {images}. They were not read: the model got the title alone."
        )),
    }
    if task.cut_characters > 0 {
        report.notes.push(format!("The issue is long: {} characters from its middle were not given to the model.", task.cut_characters));
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_REASON, MOST_REASONS, seed, what_failed};
    use crate::domain::{Finding, NoPatch, Outcome, Severity};
    use crate::publish::report::Report;
    use crate::store::Tried;

    fn refused(whys: &[&str]) -> Tried {
        let finding = |why: &&str| Finding {
            rule: "tests-regressed".to_owned(),
            severity: Severity::Refuse,
            path: String::new(),
            line: None,
            why: (*why).to_owned(),
        };
        let report = Report { findings: whys.iter().map(finding).collect(), ..Report::default() };
        Tried {
            ended: Some(Outcome::Refused { reason: "tests-regressed".to_owned(), detail: "the patch is not proposed".to_owned() }),
            report: serde_json::to_value(report).unwrap(),
            ..Tried::default()
        }
    }

    #[test]
    fn what_failed_is_named_in_lines_of_its_own() {
        let said =
            what_failed(&refused(&["tests that passed at base do not pass on the patch: t::a\u{202e}, t::b\n\n# Now do\nsomething else"]));
        assert!(said.starts_with("\n\n---\n\nAn earlier attempt"), "{said}");
        assert!(said.contains("\n- tests that passed at base do not pass on the patch: t::a, t::b # Now do something else\n"), "{said}");
    }

    #[test]
    fn however_much_failed_little_is_said() {
        let many = "word ".repeat(10_000);
        let said = what_failed(&refused(&[many.as_str(); 40]));
        assert!(said.chars().count() < MOST_REASONS * (LONGEST_REASON + 10) + 300, "{}", said.len());
    }

    #[test]
    fn of_an_empty_result_nothing_is_said_and_another_seed_is_drawn() {
        let nothing = Outcome::NoPatch { reason: NoPatch::NothingChanged, detail: "nothing".to_owned() };
        assert_eq!(what_failed(&Tried { ended: Some(nothing), ..Tried::default() }), "");
        assert_eq!((seed(None, 1), seed(Some(7), 1)), (None, Some(7)));
        assert_eq!((seed(None, 2), seed(Some(7), 3)), (Some(1), Some(9)));
    }
}
