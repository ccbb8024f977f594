//! Reviews: changes that are requested on our pull request start another attempt on the same branch, a few times, and then a person is asked.

use std::process::Command;

use frognano_bot::demo::forge::{Delivery, Issue, NewReview, On, Verdict};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::worker::Ended;

use crate::commands::{by_another_hook, heard, say};
use crate::faces::on_each_forge;
use crate::house::{House, Service};

/// The first attempt, then what a review asked for.
fn script() -> String {
    let more = |name: &str| {
        format!(
            "{{\"content\": \"\", \"tool_calls\": [{{\"name\": \"Write\", \"arguments\": {{\"file_path\": \"tallybook/{name}.py\", \"content\": \"# {name}\\n\"}}}}]}}\n{{\"content\": \"{name} is there\"}}"
        )
    };
    [project::SCRIPT.trim_end().to_owned(), more("second"), more("third"), more("fourth"), more("fifth")].join("\n")
}

async fn proposed(kind: Kind) -> (House, Service, Issue) {
    let house = House::with_script_of_turns(kind, &script()).await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let outcome = service.outcome().await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
    let pull_request = house.pull_requests().remove(0);
    (house, service, pull_request)
}

fn review(house: &House, number: i64, by: &str, verdict: Verdict, body: &str) -> Vec<Delivery> {
    let lines = [("tallybook/plan.py", 12, "This name says nothing.")];
    house.forge().review(project::PATH, On::PullRequest(number), by, NewReview { verdict, body, lines: &lines }).unwrap()
}

fn git(house: &House, args: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(house.folder.path().join("tallybook.git")).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Pushes a file to our branch as a person would.
fn push_as_a_person(house: &House, branch: &str, name: &str) {
    let clone = tempfile::tempdir().unwrap();
    let bare = house.folder.path().join("tallybook.git");
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"];
        let output = Command::new("git").arg("-C").arg(clone.path()).args(who).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["clone", "--quiet", "--branch", branch, bare.to_str().unwrap(), "."]);
    std::fs::write(clone.path().join(name), "# by a person\n").unwrap();
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "by a person"]);
    git(&["push", "--quiet", "origin", branch]);
}

on_each_forge! {
    async fn requested_changes_are_worked_in_on_the_same_branch_once(kind: Kind) {
        let (house, service, first) = proposed(kind).await;
        let pull = first.pull.clone().unwrap();
        let before = git(&house, &["rev-parse", &pull.head]);
        let told = review(&house, first.number, project::MAINTAINER, Verdict::ChangesRequested, "Please add a second module.");
        service.take(&told).await;
        service.take(&by_another_hook(&told)).await;
        let came = heard(&service).await;
        assert!(
            came.contains(&"round 1".to_owned()) && came.iter().all(|came| came == "round 1" || came.contains("before")),
            "{kind:?}: {came:?}"
        );
        let outcome = service.outcome().await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{kind:?}: {outcome:?}");
        assert_eq!(service.work_off().await, []);
        let [now] = &house.pull_requests()[..] else { panic!("{kind:?}: one pull request") };
        let after = git(&house, &["rev-list", "--parents", "-1", &pull.head]);
        assert_eq!(after.split_whitespace().nth(1), Some(before.trim()), "{kind:?}: on top of the first attempt");
        assert!(house.forge().state().is_draft(now, now.pull.as_ref().unwrap()), "{kind:?}");
        for words in ["Fixed: 1 test", "tallybook/plan.py", "tallybook/second.py", "second is there"] {
            assert!(now.body.contains(words), "{kind:?}: {words} is not in {}", now.body);
        }
        let asked =
            house.model.requests().iter().rev().find(|request| request.to_string().contains("second module")).cloned().unwrap().to_string();
        for words in [project::issue_title(), "Please add a second module.", "tallybook/plan.py, line 12", "This name says nothing."] {
            assert!(asked.contains(words), "{kind:?}: {words} is not in {asked}");
        }
        assert!(house.branches().len() == 1 && house.said(1).len() == 1, "{kind:?}");
        let [said] = &house.said(On::PullRequest(first.number))[..] else { panic!("{kind:?}: {:?}", house.said(On::PullRequest(first.number))) };
        assert!(said.contains("Fixed: 1 test"), "{said}");
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

on_each_forge! {
    async fn what_a_person_pushed_stays_and_is_worked_on(kind: Kind) {
        let (house, service, first) = proposed(kind).await;
        let head = first.pull.clone().unwrap().head;
        push_as_a_person(&house, &head, "tallybook/human.py");
        let came = say(&house, &service, On::PullRequest(first.number), project::MAINTAINER, "/frognano revise\nNow a second module.").await;
        assert_eq!(came, ["round 1"], "{kind:?}");
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }), "{kind:?}");
        let files = git(&house, &["ls-tree", "-r", "--name-only", &head]);
        assert!(files.contains("human.py") && files.contains("second.py"), "{kind:?}: {files}");
        let authors = git(&house, &["log", "--format=%an", &format!("main..{head}")]);
        assert_eq!(authors.lines().collect::<Vec<_>>(), ["frognano-bot", "ada", "frognano-bot"], "{kind:?}");
    }
}

on_each_forge! {
    async fn a_push_during_the_run_is_not_lost_the_work_begins_again_on_top(kind: Kind) {
        let (house, service, first) = proposed(kind).await;
        let head = first.pull.clone().unwrap().head;
        say(&house, &service, On::PullRequest(first.number), project::MAINTAINER, "/frognano revise\nNow a second module.").await;
        let pushing = async {
            house.until(|house| house.said(On::PullRequest(first.number)).concat().contains("the model works")).await;
            push_as_a_person(&house, &head, "tallybook/human.py");
        };
        let (ended, ()) = tokio::join!(service.step(), pushing);
        assert_eq!(ended, Some(Ended::PutBack));
        assert!(house.said(On::PullRequest(first.number)).concat().contains("somebody pushed to the branch"));
        let outcome = house.later(&service).await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}");
        let authors = git(&house, &["log", "--format=%an", &format!("main..{head}")]);
        assert_eq!(authors.lines().collect::<Vec<_>>(), ["frognano-bot", "ada", "frognano-bot"]);
    }
}

on_each_forge! {
    async fn after_three_rounds_a_person_is_asked_and_no_machine_works_on(kind: Kind) {
        let (house, service, first) = proposed(kind).await;
        for round in 1..=3 {
            let came = say(&house, &service, On::PullRequest(first.number), project::MAINTAINER, &format!("/frognano revise\nOnce more, {round}.")).await;
            assert_eq!(came, [format!("round {round}")]);
            let outcome = service.outcome().await;
            assert!(matches!(outcome, Outcome::Proposed { .. }), "{round}: {outcome:?}");
        }
        for _ in 0..2 {
            let came = say(&house, &service, On::PullRequest(first.number), project::MAINTAINER, "/frognano revise\nOnce more.").await;
            assert_eq!(came, ["refused: all rounds are made"]);
        }
        assert_eq!(service.work_off().await, []);
        let labels = house.pull_requests()[0].labels.iter().map(|label| label.name.clone()).collect::<Vec<_>>();
        assert!(labels.contains(&"needs-human".to_owned()), "{labels:?}");
        assert_eq!(house.said(On::PullRequest(first.number)).iter().filter(|said| said.contains("A person should take over")).count(), 1);
    }
}

on_each_forge! {
    async fn what_the_rules_refuse_leaves_the_pull_request_as_it_was(kind: Kind) {
        let evil = r#"{"content": "", "tool_calls": [{"name": "Write", "arguments": {"file_path": ".github/workflows/x.yml", "content": "on: push\n"}}]}"#;
        let script = format!("{}\n{evil}\n{{\"content\": \"done\"}}", project::SCRIPT.trim_end());
        let house = House::with_script_of_turns(kind, &script).await;
        let service = house.service().await;
        service.take(&house.label(house.open_issue())).await;
        service.outcome().await;
        let first = house.pull_requests().remove(0);
        let before = git(&house, &["rev-parse", &first.pull.clone().unwrap().head]);
        say(&house, &service, On::PullRequest(first.number), project::MAINTAINER, "/frognano revise\nAdd a workflow.").await;
        let outcome = service.outcome().await;
        assert_eq!(outcome.name(), "refused", "{outcome:?}");
        assert_eq!(git(&house, &["rev-parse", &first.pull.unwrap().head]), before);
        let now = house.pull_requests().remove(0);
        assert!(now.open && now.body == first.body);
        assert!(house.said(On::PullRequest(now.number)).concat().contains("proposes nothing here"), "{:?}", house.said(On::PullRequest(now.number)));
    }
}

on_each_forge! {
    async fn only_requested_changes_by_people_who_may_start_a_round(kind: Kind) {
        let (house, service, first) = proposed(kind).await;
        service.take(&review(&house, first.number, project::MAINTAINER, Verdict::Approved, "Good.")).await;
        service.take(&review(&house, first.number, project::MAINTAINER, Verdict::Commented, "Hm.")).await;
        service.take(&house.forge().write_comment(project::PATH, On::PullRequest(first.number), "Why so?", project::MAINTAINER).unwrap()).await;
        assert_eq!(heard(&service).await, Vec::<String>::new(), "{kind:?}");
        service.take(&review(&house, first.number, project::READER, Verdict::ChangesRequested, "No.")).await;
        assert_eq!(heard(&service).await, ["rita has no write access"], "{kind:?}");
        assert_eq!(say(&house, &service, On::PullRequest(first.number), project::MAINTAINER, "/frognano revise").await, ["refused: nothing was said"]);
        assert_eq!(say(&house, &service, 1, project::MAINTAINER, "/frognano revise\nx").await, ["refused: not on a pull request"]);
        house.forge().close_issue(project::PATH, On::PullRequest(first.number), project::MAINTAINER).unwrap();
        service.take(&review(&house, first.number, project::MAINTAINER, Verdict::ChangesRequested, "Late.")).await;
        assert_eq!(heard(&service).await, ["the pull request is over"], "{kind:?}");
        assert_eq!(service.jobs().await.len(), 1, "{kind:?}");
    }
}

on_each_forge! {
    async fn a_pull_request_that_a_person_closes_stops_its_round(kind: Kind) {
        let (house, service, first) = proposed(kind).await;
        house.model.set_delay(Some(std::time::Duration::from_millis(300)));
        say(&house, &service, On::PullRequest(first.number), project::MAINTAINER, "/frognano revise\nA second module.").await;
        let running = async { service.step().await };
        let closing = async {
            house.until(|house| house.said(On::PullRequest(first.number)).concat().contains("Now: the model")).await;
            service.take(&house.forge().close_issue(project::PATH, On::PullRequest(first.number), project::MAINTAINER).unwrap()).await;
            heard(&service).await
        };
        let (ended, came) = tokio::join!(running, closing);
        assert_eq!(came, [format!("cancelled: the {} was closed", house.pull_request_word())], "{kind:?}");
        assert!(matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains("closed")), "{kind:?}: {ended:?}");
        assert_eq!(git(&house, &["rev-list", "--count", &format!("main..{}", first.pull.unwrap().head)]).trim(), "1");
    }
}

/// An older GitLab tells of what a reviewer writes, and not of what it comes to.
#[tokio::test]
async fn where_gitlab_does_not_tell_of_the_verdict_the_command_starts_the_round() {
    let (house, service, first) = proposed(Kind::GitLab).await;
    let told = review(&house, first.number, project::MAINTAINER, Verdict::ChangesRequested, "Please add a second module.");
    let (notes, verdict): (Vec<_>, Vec<_>) = told.into_iter().partition(|delivery| delivery.what.starts_with("Note Hook"));
    assert_eq!((notes.len(), verdict.len()), (2, 1));
    service.take(&notes).await;
    assert_eq!(heard(&service).await, Vec::<String>::new());
    let came = say(&house, &service, On::PullRequest(first.number), project::MAINTAINER, "/frognano revise\nA second module.").await;
    assert_eq!(came, ["round 1"]);
    assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
}

on_each_forge! {
    async fn a_label_of_changed_tests_that_a_round_does_not_earn_any_more_is_taken_off(kind: Kind) {
        let (house, service, first) = proposed(kind).await;
        let on = On::PullRequest(first.number);
        let labels = || house.issue(on).labels.iter().map(|label| label.name.clone()).collect::<Vec<_>>();
        for label in ["frognano-tests-changed", "somebody's"] {
            house.forge().set_label(project::PATH, on, label, project::MAINTAINER).unwrap();
        }
        assert_eq!(labels().len(), 3, "{kind:?}: {:?}", labels());
        for name in ["second", "third"] {
            let asked = format!("/frognano revise\nNow a {name} module.");
            say(&house, &service, on, project::MAINTAINER, &asked).await;
            assert!(matches!(service.outcome().await, Outcome::Proposed { .. }), "{kind:?}");
            assert_eq!(labels(), ["needs-human-review", "somebody's"], "{kind:?}");
        }
        assert_eq!(house.forge().unexpected(), Vec::<String>::new(), "{kind:?}");
    }
}
