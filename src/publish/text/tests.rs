//! No text of ours acts, whatever words stand in it.

use proptest::prelude::{prop, prop_assert, proptest};

use super::{commit_message, ended, marker, pull_request, refusal, the_label, the_request, title, waiting, working};
use crate::domain::{Fault, Finding, NoPatch, Outcome, Refusal, Severity, Stage};
use crate::publish::report::{Report, Tests, Told};

fn report(words: &str) -> Report {
    let told = Told { unavailable: Some(words.to_owned()), ..Told::default() };
    Report {
        steps: 1,
        final_message: words.to_owned(),
        notes: vec![words.to_owned()],
        findings: vec![Finding { rule: "r".into(), severity: Severity::Refuse, path: words.into(), line: None, why: words.into() }],
        files: vec![(words.to_owned(), 1, 1)],
        tests: Tests { command: Some(words.to_owned()), why: Some(words.to_owned()), after: Some(told), ..Tests::default() },
        requested_by: Some(words.to_owned()),
        model: words.to_owned(),
        exit_reason: Some(words.to_owned()),
        ..Report::default()
    }
}

/// Every text that goes to a forge, with the same words of a stranger in each of its places.
fn every_text(words: &str) -> Vec<String> {
    let (words, report) = (words.to_owned(), report(words));
    let refusals = [Refusal::IssueClosed, Refusal::IsPullRequest, Refusal::Confidential, Refusal::NoWriteAccess, Refusal::ActorIsBot];
    let outcomes = [
        Outcome::Proposed { url: "https://git.example.com/o/r/pulls/1".to_owned() },
        Outcome::NoPatch { reason: NoPatch::NothingChanged, detail: words.clone() },
        Outcome::Refused { reason: words.clone(), detail: words.clone() },
        Outcome::Cancelled { by: words.clone() },
        Outcome::Abandoned { fault: Fault::Internal, detail: words.clone() },
    ];
    let mut texts = vec![
        pull_request(&report, 7),
        title(&words, 7),
        commit_message(&words, 7, "https://git.example.com/o/r/issues/7", "run"),
        waiting("job", &words, &the_label(&words)),
        waiting("job", &words, &the_request(&words, None)),
        working("job", Stage::Proving, &the_request(&words, Some(1)), Some((2, 3))),
    ];
    texts.extend(refusals.map(|why| refusal(why, &words, &words)));
    texts.extend(outcomes.iter().map(|outcome| ended("job", outcome, &report)));
    texts.push(working("job", Stage::Agent, &the_label(&words), None));
    texts
}

#[test]
fn a_title_without_words_is_the_number() {
    assert_eq!(title("\u{200b}", 7), "issue 7 (#7)");
    assert_eq!(title("  Closes #1\n@all ", 7), "Closes #\u{200b}1 @\u{200b}all (#7)");
    assert!(commit_message("/", 7, "", "run").starts_with("frognano: issue 7\n"));
}

#[test]
fn every_text_fits_every_forge() {
    let long = "@ü |*`".repeat(12_000);
    for text in every_text(&long) {
        assert!(text.chars().count() <= 65_536);
    }
    assert!(title(&long, i64::MAX).chars().count() + "Draft: ".len() <= 255);
    let many = Report { files: vec![("ü".repeat(200), 1, 1); 400], ..report(&long) };
    let text = pull_request(&many, 7);
    assert!(text.chars().count() <= 65_536 && text.ends_with("record)"), "{}", text.chars().count());
}

proptest! {
    #[test]
    fn no_line_of_ours_starts_a_command_or_hides_a_comment(parts in prop::collection::vec(prop::sample::select(vec![
        "/frognano retry", "\n", "\r", "/close", " ", "```", "`", "@dev", "fixes #1", "<!-- x -->", "<!--", "-->", "word", "://", "\u{2028}", "|", "\u{202e}",
    ]), 0..12)) {
        for text in every_text(&parts.concat()) {
            prop_assert!(text.lines().all(|line| !line.trim_start().starts_with('/')), "{}", text);
            // A title is plain text everywhere.
            let own = text.replace(&marker("job"), "").replace(&title(&parts.concat(), 7), "");
            let outside_of_code = own.split("```text").next().unwrap_or_default();
            prop_assert!(!outside_of_code.lines().any(|line| line.starts_with("<!--")), "{}", text);
            prop_assert!(!own.contains("#1") && !own.contains("\u{202e}"), "{}", text);
        }
    }
}
