//! No text of ours acts, whatever words stand in it.

use proptest::prelude::{prop, prop_assert, proptest};

use super::{Proposal, commit_message, ended, marker, pull_request, refusal, retitled, the_label, the_request, title, waiting, working};
use crate::domain::{Comparison, Evidence, Fault, Finding, Hunk, IssueText, NoPatch, Outcome, Refusal, Severity, Stage};
use crate::publish::report::{AttemptTold, Report, Tests, Told};

fn report(words: &str) -> Report {
    let told = Told { unavailable: Some(words.to_owned()), ..Told::default() };
    Report {
        steps: 1,
        final_message: words.to_owned(),
        notes: vec![words.to_owned()],
        findings: vec![Finding { rule: "r".into(), severity: Severity::Refuse, path: words.into(), line: None, why: words.into() }],
        files: vec![(words.to_owned(), 1, 1)],
        evidence: Evidence {
            proving: vec![words.to_owned()],
            changed_expectations: vec![words.to_owned()],
            flaky: vec![words.to_owned()],
            slow: vec![words.to_owned()],
            reversed: 1,
            hunks: vec![Hunk { path: words.to_owned(), line: 1, lines: 2, noticed: Some(false) }],
        },
        attempts: vec![AttemptTold { outcome: words.to_owned(), reason: words.to_owned(), ..AttemptTold::default() }; 2],
        preset: words.to_owned(),
        tests: Tests { command: Some(words.to_owned()), why: Some(words.to_owned()), after: Some(told), ..Tests::default() },
        requested_by: Some(words.to_owned()),
        model: words.to_owned(),
        exit_reason: Some(words.to_owned()),
        ..Report::default()
    }
}

fn body(report: &Report, asked: &str, longest: usize) -> String {
    let asked = IssueText { title: asked.to_owned(), body: asked.to_owned() };
    pull_request(&Proposal { report, issue: 7, asked: &asked, longest })
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
        body(&report, &words, 65_536),
        title(&words, 7, &report),
        commit_message(&words, 7, "https://git.example.com/o/r/issues/7", "run"),
        waiting("job", &words, &the_label(&words)),
        waiting("job", &words, &the_request(&words, None)),
        working("job", Stage::Proving, &the_request(&words, Some(1)), Some((2, 3))),
    ];
    texts.extend(refusals.map(|why| refusal(why, &words, &words)));
    texts.extend(outcomes.iter().map(|outcome| ended("job", outcome, &report, "pull request")));
    texts.push(working("job", Stage::Agent, &the_label(&words), None));
    texts
}

#[test]
fn a_title_without_words_is_the_number() {
    let fixed = Report { proof: Some("fixed".to_owned()), ..Report::default() };
    assert_eq!(title("\u{200b}", 7, &Report::default()), "[unproved] issue 7 (#7)");
    assert_eq!(title("  Closes #1\n@all ", 7, &fixed), "[fixed] Closes #\u{200b}1 @\u{200b}all (#7)");
    assert!(commit_message("/", 7, "", "run").starts_with("frognano: issue 7\n"));
}

#[test]
fn every_text_fits_every_forge() {
    let long = "@ü |*`".repeat(12_000);
    for text in every_text(&long) {
        assert!(text.chars().count() <= 65_536);
    }
    assert!(
        title(&long, i64::MAX, &Report { proof: Some("consistent".to_owned()), ..Report::default() }).chars().count() + "Draft: ".len()
            <= 255
    );
    let many = Report { files: vec![("ü".repeat(200), 1, 1); 400], ..report(&long) };
    for longest in [65_536, 20_000] {
        let text = body(&many, &long, longest);
        assert!(text.chars().count() <= longest && text.starts_with("**Unproved"), "{}", text.chars().count());
    }
    assert!(body(&many, &long, 20_000).ends_with("(cut here; the whole is in the run's record)"));
    assert!(body(&many, &long, 1_048_576).contains("\n### Record of the run\n"), "a forge that takes more gets more");
}

#[test]
fn a_title_of_ours_follows_what_is_proved_and_one_that_a_person_changed_stays() {
    let proved = Report { proof: Some("proved".to_owned()), ..Report::default() };
    assert_eq!(retitled("WIP: [fixed] Crash (#7)", &proved).as_deref(), Some("WIP: [proved] Crash (#7)"));
    assert_eq!(retitled("[unproved] About [fixed] widths (#7)", &proved).as_deref(), Some("[proved] About [fixed] widths (#7)"));
    assert_eq!(retitled("Draft: [proved] Crash (#7)", &proved), None);
    assert_eq!(retitled("Draft: Crash when empty", &proved), None);
}

fn told(passed: usize, failed: usize) -> Told {
    Told { passed, failed, skipped: 1, exit_code: Some(i32::from(failed > 0)), duration_ms: 1230, per_test: true, ..Told::default() }
}

/// A run in which nearly everything is to be told.
fn eventful() -> Report {
    let flag = Finding {
        rule: "new-dependency".into(),
        severity: Severity::Flag,
        path: "pyproject.toml".into(),
        line: Some(9),
        why: "attrs is new".into(),
    };
    let attempt = |number, reason: &str, proof: Option<&str>| AttemptTold {
        number,
        outcome: if reason.is_empty() { "accepted" } else { "refused" }.to_owned(),
        reason: reason.to_owned(),
        proof: proof.map(str::to_owned),
        steps: 4,
        lines: 7,
        agrees: reason.is_empty(),
        chosen: reason.is_empty(),
    };
    Report {
        proof: Some("proved".to_owned()),
        exit_reason: Some("agent".to_owned()),
        steps: 4,
        base: Some("0123abc".to_owned()),
        patch_sha256: Some("feed".to_owned()),
        tests: Tests {
            command: Some("pytest".to_owned()),
            why: Some("There is a pytest.ini.".to_owned()),
            before: Some(told(8, 1)),
            after: Some(told(10, 0)),
            restored: vec!["tests/test_a.py".to_owned()],
        },
        findings: vec![flag],
        comparison: Some(Comparison { fixed: vec!["t::old".to_owned()], added: vec!["t::new".to_owned()], ..Comparison::default() }),
        evidence: Evidence {
            proving: vec!["t::new".to_owned()],
            changed_expectations: vec!["t::bent".to_owned()],
            flaky: vec!["t::sometimes".to_owned()],
            slow: Vec::new(),
            reversed: 2,
            hunks: vec![
                Hunk { path: "src/a.py".into(), line: 3, lines: 2, noticed: Some(true) },
                Hunk { path: "src/a.py".into(), line: 30, lines: 1, noticed: Some(false) },
            ],
        },
        files: vec![("src/a.py".to_owned(), 5, 2), ("pyproject.toml".to_owned(), 1, 0)],
        model: "a-model".to_owned(),
        run: "run1".to_owned(),
        requested_by: Some("ada".to_owned()),
        final_message: "Done. All tests pass.".to_owned(),
        attempts: vec![attempt(1, "tests-regressed", None), attempt(2, "", Some("proved"))],
        preset: "150 steps".to_owned(),
        sandbox: Some(serde_json::json!({"attempts": [1, 2], "image": "sha256:beef"})),
        images: 1,
        notes: vec!["a note".to_owned()],
        ..Report::default()
    }
}

const EVENTFUL: &str = "\
**Proved: 1 test of this change fails without it and passes with it, and none that passed before fails.**

> ⚠️ **This change alters what an existing test of the project expects.** In its old form it fails on this change:
>
> - `t::bent`

> A machine made this change for #7. Code has judged it; no person has read it yet. It stays a draft until somebody reviews it.

### For the reviewer

- [ ] The issue asks for the new expectation of `t::bent`
- [ ] The proving tests test what the issue asks for
- [ ] `new-dependency` `pyproject.toml`:9 is as it should be
- [ ] `src/a.py`:30 is needed: no test notices it
- [ ] The 1 image of the issue asks for nothing else
- [ ] The change to `tests/test_a.py`, which was put back for the judgement, weakens no test
- [ ] The whole change is read: 2 files, 6 lines added, 2 lines removed

### Tests

| tests | before | after |
|---|---:|---:|
| passed | 8 | 10 |
| failed | 1 | 0 |
| errors | 0 | 0 |
| skipped | 1 | 1 |
| exit status | 1 | 0 |
| time | 1.23 s | 1.23 s |

Run as `pytest` (There is a pytest.ini).

The tests were judged as they are at base: changes of this patch to existing tests were put back for the judgement.

2 tests ran once more with their checks reversed and did not pass, as it must be.

<details><summary>Red without this change, green with it: 1</summary>

- `t::new`

</details>

<details><summary>Pass now and did not before: 1</summary>

- `t::old`

</details>

<details><summary>New and passing: 1</summary>

- `t::new`

</details>

<details><summary>Not the same in every run of the same code: 1</summary>

- `t::sometimes`

</details>

### What changed

| file | added | removed |
|---|---:|---:|
| `src/a.py` | 5 | 2 |
| `pyproject.toml` | 1 | 0 |

### What the rules found

To be looked at: 1

- `new-dependency` `pyproject.toml`:9: attrs is new

### Parts that no test notices

- `src/a.py`:30: without it the proving tests pass all the same

### Not run, not read

- 1 test was skipped by its own mark.
- 1 test was not the same in every run of the same code and counts for nothing.
- 1 image in the issue: the model got the words alone.

### Attempts

2 attempts were made; no other one agrees on the behaviour.

| attempt | how it ended | steps | lines changed | same behaviour |
|---:|---|---:|---:|---|
| 1 | refused (`tests-regressed`) | 4 | 7 | no |
| 2 | judged `proved` (this one) | 4 | 7 | yes |

### What was asked

<details><summary>The issue as it was when it was taken up</summary>

```text
Crash

Crash
```

</details>

### What the agent says

A claim, not evidence:

```text
Done. All tests pass.
```

### Record of the run

<details><summary>How it was made</summary>

- run: `run1`
- asked by: `ada`
- base: `0123abc`
- patch SHA-256: `feed`
- model: `a-model`
- budgets: `150 steps`
- agent: `4 steps, ended as agent`
- sandbox image: `sha256:beef`
- sandbox: `no network: 2 attempts to reach something from inside, none succeeded`
- note: `a note`

</details>
";

#[test]
fn an_eventful_run_is_told_whole_and_in_the_order_in_which_it_is_needed() {
    let text = body(&eventful(), "Crash", 65_536);
    assert_eq!(text, EVENTFUL, "{text}");
}

#[test]
fn the_status_comment_says_the_same_in_short() {
    let text = ended(
        "job",
        &Outcome::Proposed { url: "http://localhost/pulls/1".to_owned() },
        &Report { notes: vec![], ..eventful() },
        "pull request",
    );
    assert_eq!(
        text,
        "<!-- frognano-bot job job -->\n**frognano-bot** opened a draft pull request: http://localhost/pulls/1\n\n\
         Proved: 1 test of this change fails without it and passes with it, and none that passed before fails.\n\n\
         It alters what 1 existing test of the project expects. The rules found 1 thing to be looked at. \
         2 attempts were made; no other one agrees on the behaviour.\n\n\
         A person must review it before it is merged."
    );
}

#[test]
fn what_was_not_measured_is_said_and_nothing_is_claimed_of_it() {
    let silent = Report { steps: 1, final_message: "All tests pass.".to_owned(), ..Report::default() };
    let by_exit_status = |code| Told { exit_code: Some(code), ..Told::default() };
    let only_status = Tests {
        command: Some("make check".to_owned()),
        before: Some(by_exit_status(0)),
        after: Some(by_exit_status(0)),
        ..Tests::default()
    };
    let broken = Told { unavailable: Some("pytest is not installed in the sandbox".to_owned()), ..Told::default() };
    for (tests, said) in [
        (Tests::default(), "no way to run them was found"),
        (only_status, "only its exit status was compared"),
        (Tests { command: Some("pytest".to_owned()), after: Some(broken), ..Tests::default() }, "could not run: pytest is not installed"),
    ] {
        let text = body(&Report { tests, ..silent.clone() }, "t", 65_536);
        let ours = text.split("### What the agent says").next().unwrap();
        assert!(ours.contains(said), "{said}: {text}");
        assert!(!ours.contains("All tests pass") && ours.contains("no test shows that, so try it"), "{text}");
        assert!(ours.contains("No part of the change was taken back alone"), "{text}");
    }
}

/// The lines that stand in no fence.
fn outside_of_fences(text: &str) -> String {
    let (mut fence, mut outside) = (None::<String>, String::new());
    for line in text.lines() {
        match &fence {
            Some(end) if line == end => fence = None,
            Some(_) => {}
            None if line.starts_with("```") => fence = Some(line.chars().take_while(|letter| *letter == '`').collect()),
            None => outside.extend([line, "\n"]),
        }
    }
    outside
}

proptest! {
    #[test]
    fn no_line_of_ours_starts_a_command_or_hides_a_comment(parts in prop::collection::vec(prop::sample::select(vec![
        "/frognano retry", "\n", "\r", "/close", " ", "```", "`", "@dev", "fixes #1", "<!-- x -->", "<!--", "-->", "word", "://", "\u{2028}", "|", "\u{202e}",
    ]), 0..12)) {
        for text in every_text(&parts.concat()) {
            prop_assert!(text.lines().all(|line| !line.trim_start().starts_with('/')), "{}", text);
            // A title is plain text everywhere.
            let own = text.replace(&marker("job"), "").replace(&title(&parts.concat(), 7, &report(&parts.concat())), "");
            let outside_of_code = outside_of_fences(&own);
            prop_assert!(!outside_of_code.lines().any(|line| line.starts_with("<!--")), "{}", text);
            prop_assert!(!own.contains("#1") && !own.contains("\u{202e}"), "{}", text);
        }
    }
}
