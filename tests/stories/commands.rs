//! What people may say to the bot, and what it answers.

use frognano_bot::demo::forge::{Delivery, On};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Command, Outcome, Permission};
use frognano_bot::publish::replies;
use frognano_bot::worker::Ended;

use crate::faces::{again, commenting, on_each_forge};
use crate::house::{House, Service};

/// Works off everything that was asked; what came of it.
pub async fn heard(service: &Service) -> Vec<String> {
    let mut came = Vec::new();
    while let Some(answer) = service.worker.answer_next().await.unwrap() {
        came.push(answer);
    }
    came
}

/// Writes a comment, and lets the service hear it; what came of it.
pub async fn say(house: &House, service: &Service, on: impl Into<On>, by: &str, words: &str) -> Vec<String> {
    service.take(&house.forge().write_comment(project::PATH, on, words, by).unwrap()).await;
    heard(service).await
}

/// The same delivery once more: by another hook, under another id.
pub fn by_another_hook(deliveries: &[Delivery]) -> Vec<Delivery> {
    deliveries.iter().map(|delivery| again(delivery, "x")).collect()
}

/// A house with a proposal for its issue, and its pull request.
pub async fn proposed(kind: Kind) -> (House, Service, On) {
    let house = House::new(kind).await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
    let on = On::PullRequest(house.pull_requests()[0].number);
    (house, service, on)
}

on_each_forge! {
    async fn retry_makes_one_job_however_often_it_is_told(kind: Kind) {
        let (house, service, first) = proposed(kind).await;
        let told = house.forge().write_comment(project::PATH, 1, "/frognano retry\nplease", project::MAINTAINER).unwrap();
        service.take(&told).await;
        service.take(&told).await;
        service.take(&by_another_hook(&told)).await;
        assert_eq!(heard(&service).await, ["a new job"], "{kind:?}");
        service.take(&by_another_hook(&by_another_hook(&told))).await;
        assert_eq!(heard(&service).await, Vec::<String>::new(), "{kind:?}");
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }), "{kind:?}");
        assert_eq!(service.work_off().await, [], "{kind:?}");
        let [old, new] = &house.pull_requests()[..] else { panic!("{kind:?}: {:?}", house.pull_requests().len()) };
        assert_eq!(On::PullRequest(old.number), first);
        let on_old = old.comments.iter().map(|comment| comment.body.as_str()).collect::<Vec<_>>();
        assert!(
            matches!(on_old[..], [told] if told.contains("supersedes") && told.contains(&format!("/{}", new.number))),
            "{kind:?}: {on_old:?}"
        );
        assert_eq!(house.forge().unexpected(), Vec::<String>::new());
    }
}

on_each_forge! {
    async fn retry_needs_an_open_labelled_issue_and_says_what_is_missing_once(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        house.forge().close_issue(project::PATH, issue, project::MAINTAINER).unwrap();
        let told = house.forge().write_comment(project::PATH, issue, "/frognano retry", project::MAINTAINER).unwrap();
        service.take(&told).await;
        service.take(&by_another_hook(&told)).await;
        heard(&service).await;
        let [said] = &house.said(issue)[..] else { panic!("{kind:?}: {:?}", house.said(issue)) };
        assert!(said.contains("closed") && said.contains(project::LABEL), "{said}");
        assert_eq!(service.jobs().await.len(), 0);
    }
}

on_each_forge! {
    async fn retry_while_it_runs_and_status_of_each_state(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        say(&house, &service, issue, project::MAINTAINER, "/frognano status").await;
        service.take(&house.label(issue)).await;
        say(&house, &service, issue, project::MAINTAINER, "/frognano status").await;
        let reached = house.model.hold(1);
        let worker = service.worker.clone();
        let running = tokio::spawn(async move { worker.run_next(&tokio_util::sync::CancellationToken::new()).await.unwrap() });
        reached.await.unwrap();
        assert_eq!(say(&house, &service, issue, project::MAINTAINER, "/frognano retry").await, ["refused: already running"]);
        say(&house, &service, issue, project::MAINTAINER, "/frognano status").await;
        assert_eq!(say(&house, &service, issue, project::MAINTAINER, "/frognano cancel").await, ["cancelled"]);
        assert!(matches!(running.await.unwrap(), Some(Ended::Outcome(Outcome::Cancelled { .. }))));
        say(&house, &service, issue, project::MAINTAINER, "/frognano status").await;
        assert_eq!(say(&house, &service, issue, project::MAINTAINER, "/frognano cancel").await, ["nothing to cancel"]);
        let said = house.said(issue);
        let expected = [
            "has not worked",
            "queued, at place 1",
            "stopped: ada asked for it",
            "already running",
            "stage `agent`",
            "`cancelled`: ada",
            "nothing under way",
        ];
        assert_eq!(said.len(), expected.len(), "{said:#?}");
        for (said, words) in said.iter().zip(expected) {
            assert!(said.contains(words), "{words} is not in {said}");
        }
    }
}

on_each_forge! {
    async fn status_of_a_proposal_links_to_it_also_from_the_pull_request(kind: Kind) {
        let (house, service, number) = proposed(kind).await;
        assert_eq!(say(&house, &service, number, project::MAINTAINER, "/frognano status").await, ["status told"]);
        let said = house.said(number);
        assert!(said.iter().any(|said| said.contains(&format!("draft {}", house.pull_request_word())) && said.contains(&format!("/{number}"))), "{kind:?}: {said:?}");
        assert_eq!(say(&house, &service, 1, project::MAINTAINER, "/frognano help").await, ["help told"]);
        let help = house.said(1).pop().unwrap();
        assert!(Command::ALL.iter().all(|command| help.contains(command.word())), "{help}");
    }
}

on_each_forge! {
    async fn who_may_not_write_is_told_so_once_and_nothing_happens(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        house.label(issue);
        for words in ["/frognano retry", "/frognano cancel", "/frognano status", "/frognano help"] {
            assert_eq!(say(&house, &service, issue, project::READER, words).await, ["rita has no write access"], "{kind:?}");
        }
        house.forge().add_user("rob", false);
        house.forge().permit(project::PATH, "rob", Permission::Read).unwrap();
        say(&house, &service, issue, "rob", "/frognano help").await;
        let [to_rita, to_rob] = &house.said(issue)[..] else { panic!("{kind:?}: {:?}", house.said(issue)) };
        assert!(to_rita.contains("`rita`") && to_rob.contains("`rob`") && to_rob.contains("write access"), "{to_rita}, {to_rob}");
        assert_eq!(service.jobs().await.len(), 0);
    }
}

on_each_forge! {
    async fn write_access_is_asked_for_when_the_command_is_worked_off_and_again_before_the_push(kind: Kind) {
        let (house, service, _) = proposed(kind).await;
        service.take(&house.forge().write_comment(project::PATH, 1, "/frognano retry", project::MAINTAINER).unwrap()).await;
        house.forge().permit(project::PATH, project::MAINTAINER, Permission::Read).unwrap();
        assert_eq!(heard(&service).await, ["ada has no write access"]);
        house.forge().permit(project::PATH, project::MAINTAINER, Permission::Write).unwrap();
        say(&house, &service, 1, project::MAINTAINER, "/frognano retry").await;
        let running = async { service.step().await };
        let losing = async {
            house.until(|house| house.said(1).concat().contains("the model works")).await;
            house.forge().permit(project::PATH, project::MAINTAINER, Permission::Read).unwrap();
        };
        let (ended, ()) = tokio::join!(running, losing);
        assert!(matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains("write access")), "{ended:?}");
        assert_eq!(house.pull_requests().len(), 1);
    }
}

on_each_forge! {
    async fn bots_strangers_pull_requests_and_other_words_are_not_heard(kind: Kind) {
        let (house, service, _) = proposed(kind).await;
        house.forge().add_user("helper[bot]", true);
        house.forge().permit(project::PATH, "helper[bot]", Permission::Admin).unwrap();
        let foreign = house.forge().open_issue(project::PATH, project::MAINTAINER, "x", "y", &[]).unwrap().number;
        let like = house.pull_requests()[0].pull.clone().unwrap();
        let of_a_stranger = frognano_bot::demo::forge::Pull { head: "topic".to_owned(), ..like };
        let become_one = |repository: &mut frognano_bot::demo::forge::Repository| {
            repository.issues.iter_mut().find(|issue| issue.number == foreign).unwrap().pull = Some(of_a_stranger);
        };
        house.forge().with_repository(project::PATH, become_one).unwrap();
        let before = house.said(1).len();
        let by_the_bot = 1;
        say(&house, &service, 1, "helper[bot]", "/frognano retry").await;
        say(&house, &service, 1, project::BOT, "/frognano retry").await;
        say(&house, &service, foreign, project::MAINTAINER, "/frognano retry").await;
        for words in ["/frognano retry --all", "Please\n/frognano retry", "> /frognano retry", "/frognano merge"] {
            assert_eq!(say(&house, &service, 1, project::MAINTAINER, words).await, Vec::<String>::new(), "{words}");
        }
        assert_eq!((house.said(1).len(), house.said(foreign).len(), service.jobs().await.len()), (before + by_the_bot, 0, 1), "{kind:?}");
    }
}

on_each_forge! {
    async fn an_answer_of_which_we_did_not_hear_is_not_given_twice(kind: Kind) {
        let (house, service, _) = proposed(kind).await;
        let told = house.forge().write_comment(project::PATH, 1, "/frognano help", project::MAINTAINER).unwrap();
        service.take(&told).await;
        let (method, path) = commenting(kind);
        house.forge().fail_after_doing(method, path, 502, 1);
        let came = service.worker.answer_next().await.unwrap().unwrap();
        assert!(came.contains("commenting"), "{came}");
        assert_eq!(heard(&service).await, Vec::<String>::new(), "it waits a little");
        house.pass(60_000);
        assert_eq!(heard(&service).await, ["help told"]);
        assert_eq!(house.said(1).iter().filter(|said| said.contains("listens to people")).count(), 1);
    }
}

on_each_forge! {
    async fn comments_within_an_hour_are_capped(kind: Kind) {
        let house = House::new(kind).await.set("comments_per_hour = 3");
        let service = house.service().await;
        let issue = house.open_issue();
        for _ in 0..6 {
            say(&house, &service, issue, project::MAINTAINER, "/frognano help").await;
        }
        assert_eq!(house.said(issue).len(), 3);
        house.pass(61 * 60_000);
        say(&house, &service, issue, project::MAINTAINER, "/frognano help").await;
        assert_eq!(house.said(issue).len(), 4);
    }
}

#[test]
fn no_answer_of_ours_starts_a_command() {
    let evil = "/frognano retry\n/frognano retry\r/frognano retry";
    let missing = [replies::closed(), replies::locked(), replies::unlabelled(evil)];
    let texts = [
        replies::help(evil, "pull request"),
        replies::not_allowed(evil, false),
        replies::not_allowed(evil, true),
        replies::not_again(&missing),
        replies::already_running(),
        replies::nothing_to_cancel(),
        replies::queued(3, "queued"),
        replies::queued(3, "waiting_for_model"),
        replies::running(evil, 3),
        replies::ended("proposed", "http://localhost/1", "pull request"),
        replies::ended("refused", evil, "pull request"),
        replies::never_ran(evil),
        replies::not_a_pull_request("pull request"),
        replies::nothing_said(),
        replies::all_rounds("pull request"),
        replies::superseded("http://localhost/1", "pull request"),
    ];
    for text in texts.into_iter().chain(texts_of_runs(evil)) {
        assert!(text.lines().all(|line| !line.starts_with("/frognano")), "{text}");
    }
}

/// Every text of a run, with the same words of a stranger or the model wherever some may stand.
fn texts_of_runs(evil: &str) -> Vec<String> {
    use frognano_bot::domain::{Fault, Finding, IssueText, NoPatch, Refusal, Severity, Stage};
    use frognano_bot::publish::report::Report;
    use frognano_bot::publish::text;
    let finding = Finding { rule: evil.to_owned(), severity: Severity::Refuse, path: evil.to_owned(), line: Some(1), why: evil.to_owned() };
    let report = Report {
        findings: vec![finding],
        final_message: evil.to_owned(),
        notes: vec![evil.to_owned()],
        files: vec![(evil.to_owned(), 1, 1)],
        steps: 2,
        requested_by: Some(evil.to_owned()),
        model: evil.to_owned(),
        ..Report::default()
    };
    let (detail, url) = (evil.to_owned(), "http://localhost/1".to_owned());
    let outcomes = [
        Outcome::Proposed { url },
        Outcome::NoPatch { reason: NoPatch::NothingChanged, detail: detail.clone() },
        Outcome::Refused { reason: evil.to_owned(), detail: detail.clone() },
        Outcome::Cancelled { by: detail.clone() },
        Outcome::Abandoned { fault: Fault::Internal, detail },
    ];
    let mut texts = outcomes.iter().map(|outcome| text::ended("job", outcome, &report, "pull request")).collect::<Vec<_>>();
    let taken_up = [text::the_label(evil), text::the_request(evil, None), text::the_request(evil, Some(2))];
    texts.extend(taken_up.iter().map(|taken_up| text::working("job", Stage::Agent, taken_up, None)));
    texts.push(text::waiting("job", evil, &taken_up[0]));
    let asked = IssueText { title: evil.to_owned(), body: evil.to_owned() };
    texts.push(text::pull_request(&text::Proposal { report: &report, issue: 7, asked: &asked, longest: 65_536 }));
    texts.push(text::title(evil, 7, &report));
    texts.push(text::commit_message(evil, 7, "", "run"));
    texts.extend(Refusal::ALL.into_iter().map(|refusal| text::refusal(refusal, evil, evil)));
    texts
}
