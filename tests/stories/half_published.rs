//! A run whose reason goes while it is being published, or that nobody is told about: nothing half-done stays, and no word too many is said.

use std::time::{Duration, Instant};

use frognano_bot::demo::forge::{Failure, Forge, Issue, Strike};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::worker::Ended;

use crate::commands::heard;
use crate::faces::{changing_a_comment, on_each_forge, opening};
use crate::house::{House, Service};

/// So fast a run is gone.
const AT_ONCE: Duration = Duration::from_secs(5);

type Act = fn(&Forge);

const UNLABEL: Act = |forge| drop(forge.remove_label(project::PATH, 1, project::LABEL, project::MAINTAINER).unwrap());
const CLOSE: Act = |forge| drop(forge.close_issue(project::PATH, 1, project::READER).unwrap());

/// Method and path by which a pull request gets its label.
fn labelling(kind: Kind) -> (&'static str, &'static str) {
    if kind == Kind::GitLab { ("PUT", "*/merge_requests/1") } else { ("POST", "*/issues/2/labels") }
}

async fn labelled(kind: Kind) -> (House, Service) {
    let house = House::new(kind).await;
    let service = house.service().await;
    house.open_issue();
    service.take(&house.label(1)).await;
    (house, service)
}

fn by_the_bot(issue: &Issue) -> Vec<&str> {
    issue.comments.iter().filter(|comment| comment.author == project::BOT).map(|comment| comment.body.as_str()).collect()
}

/// No branch, no open pull request, and one comment on each that was there.
fn nothing_is_left(house: &House, why: &str) {
    assert_eq!(house.branches(), Vec::<String>::new(), "{why}");
    for pull in house.pull_requests() {
        assert!(!pull.open, "{why}: {pull:?}");
        let comments = by_the_bot(&pull);
        assert!(matches!(comments[..], [said] if said.contains("Closed: ") && said.contains(why)), "{why}: {comments:?}");
    }
    let said = house.said(1);
    assert!(matches!(&said[..], [said] if said.contains(why)), "{why}: {said:?}");
}

on_each_forge! {
    async fn a_run_stopped_between_two_steps_of_publishing_takes_back_what_it_did(kind: Kind) {
        let points = [
            ("pushing", ("POST", "*/git-receive-pack"), 0),
            ("opening", opening(kind), 1),
            ("labelling", labelling(kind), 1),
        ];
        for (point, (method, path), pull_requests) in points {
            for (act, why) in [(UNLABEL, "the label was taken off"), (CLOSE, "the issue was closed")] {
                let (house, service) = labelled(kind).await;
                house.forge().when(method, path, Strike::After, act);
                let outcome = service.outcome().await;
                assert!(matches!(&outcome, Outcome::Cancelled { by } if by.contains(why)), "{kind:?}, {point}: {outcome:?}");
                assert_eq!(house.pull_requests().len(), pull_requests, "{kind:?}, {point}");
                nothing_is_left(&house, why);
                service.end().await;
            }
        }
    }
}

on_each_forge! {
    async fn a_run_stopped_before_it_is_published_leaves_nothing(kind: Kind) {
        let (method, path) = changing_a_comment(kind);
        let (house, service) = labelled(kind).await;
        house.forge().when(method, path, Strike::After, UNLABEL);
        let outcome = service.outcome().await;
        assert!(matches!(&outcome, Outcome::Cancelled { by } if by.contains("the label was taken off")), "{kind:?}: {outcome:?}");
        assert_eq!(house.forge().count("POST", "*/git-receive-pack"), 0, "{kind:?}");
        nothing_is_left(&house, "the label was taken off");
    }
}

/// A forge that wants to be left alone for an hour.
fn away(house: &House, (method, path): (&str, &str)) {
    let headers = [("Retry-After".to_owned(), "3600".to_owned())].into();
    house.forge().fail(Failure {
        method: method.to_owned(),
        path: path.to_owned(),
        status: 503,
        times: 1,
        strike: Strike::Before,
        headers,
    });
}

on_each_forge! {
    async fn a_job_that_waits_with_its_pull_request_half_done_takes_it_back(kind: Kind) {
        let (house, service) = labelled(kind).await;
        away(&house, labelling(kind));
        assert_eq!(service.step().await, Some(Ended::PutBack), "{kind:?}");
        assert_eq!((house.branches().len(), house.pull_requests().len()), (1, 1), "{kind:?}");
        let taken_off = house.forge().remove_label(project::PATH, 1, project::LABEL, project::MAINTAINER).unwrap();
        service.take(&taken_off).await;
        assert_eq!(heard(&service).await, ["cancelled: the label was taken off"], "{kind:?}");
        nothing_is_left(&house, "the label was taken off");
    }
}

on_each_forge! {
    async fn a_pull_request_that_a_person_made_ready_before_we_wrote_it_down_stays_open(kind: Kind) {
        let (house, service) = labelled(kind).await;
        away(&house, labelling(kind));
        assert_eq!(service.step().await, Some(Ended::PutBack), "{kind:?}");
        let number = house.pull_requests()[0].number;
        house.with_pull_request(number, |issue| {
            issue.title = issue.title.replace("WIP: ", "").replace("Draft: ", "");
            issue.pull.iter_mut().for_each(|pull| pull.draft = false);
        });
        house.pass(4_000_000);
        assert_eq!(service.outcome().await.name(), "proposed", "{kind:?}");
        let pulls = house.pull_requests();
        assert!(matches!(&pulls[..], [pull] if pull.open && pull.labels.iter().any(|label| label.name == "needs-human-review")), "{pulls:?}");
    }
}

#[tokio::test]
async fn what_somebody_pushed_to_the_branch_meanwhile_is_not_removed() {
    let (house, service) = labelled(Kind::Gitea).await;
    let bare = house.folder.path().join("tallybook.git");
    let (method, path) = opening(Kind::Gitea);
    house.forge().when(method, path, Strike::After, move |forge| {
        let git = |args: &[&str]| std::process::Command::new("git").arg("-C").arg(&bare).args(args).output().unwrap().stdout;
        let branch = String::from_utf8(git(&["for-each-ref", "--format=%(refname)", "refs/heads/frognano"])).unwrap();
        git(&["update-ref", branch.trim(), "refs/heads/main"]);
        UNLABEL(forge);
    });
    let outcome = service.outcome().await;
    assert!(matches!(outcome, Outcome::Cancelled { .. }), "{outcome:?}");
    assert_eq!((house.branches().len(), house.pull_requests()[0].open), (1, false));
}

/// What the service comes to while the model thinks for an hour and this happens; how long it took.
async fn while_the_model_thinks(house: &House, service: &Service, act: impl FnOnce(&House)) -> (Option<Ended>, Duration) {
    house.model.set_delay(Some(Duration::from_secs(3600)));
    let happening = async {
        house.until(|house| house.said(1).concat().contains("the model works")).await;
        act(house);
        Instant::now()
    };
    let (ended, begun) = tokio::join!(service.step(), happening);
    (ended, begun.elapsed())
}

on_each_forge! {
    async fn an_archived_repository_stops_its_run_at_once_though_nobody_tells_of_it(kind: Kind) {
        let (house, service) = labelled(kind).await;
        let archive = |house: &House| drop(house.forge().archive(project::PATH, project::MAINTAINER).unwrap());
        let (ended, took) = while_the_model_thinks(&house, &service, archive).await;
        assert!(matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains("archived")), "{kind:?}: {ended:?}");
        assert!(took < AT_ONCE, "{kind:?}: {took:?}");
        let job = service.jobs().await.pop().unwrap();
        assert_eq!(job.outcome.as_deref(), Some("cancelled"), "{kind:?}");
        assert_eq!((house.pull_requests().len(), house.branches().len()), (0, 0), "{kind:?}");
    }
}

on_each_forge! {
    async fn an_archived_repository_that_refuses_the_status_comment_is_a_reason_and_no_fault(kind: Kind) {
        let (house, service) = labelled(kind).await;
        let (method, path) = changing_a_comment(kind);
        house.forge().when(method, path, Strike::Before, |forge| drop(forge.archive(project::PATH, project::MAINTAINER).unwrap()));
        let outcome = service.outcome().await;
        assert!(matches!(&outcome, Outcome::Cancelled { by } if by.contains("archived")), "{kind:?}: {outcome:?}");
        assert_eq!((house.pull_requests().len(), house.branches().len()), (0, 0), "{kind:?}");
    }
}

#[tokio::test]
async fn an_issue_that_became_confidential_in_mid_run_is_not_spoken_of_again() {
    let (house, service) = labelled(Kind::GitLab).await;
    let hide = |house: &House| house.with_pull_request(1, |issue| issue.confidential = true);
    let (ended, took) = while_the_model_thinks(&house, &service, hide).await;
    assert!(matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains("confidential")), "{ended:?}");
    assert!(took < AT_ONCE, "{took:?}");
    let said = house.said(1);
    assert!(matches!(&said[..], [said] if said.contains("the model works")), "{said:?}");
    let cancel = house.forge().write_comment(project::PATH, 1, "/frognano cancel", project::MAINTAINER).unwrap();
    service.take(&cancel).await;
    heard(&service).await;
    assert_eq!(house.said(1), said);
}

#[tokio::test]
async fn an_issue_that_became_confidential_gets_no_further_edit_of_its_status() {
    for point in ["*/git-upload-pack", "*/git-receive-pack", "*/merge_requests"] {
        let (house, service) = labelled(Kind::GitLab).await;
        house.forge().when("POST", point, Strike::After, |forge| {
            let hide = |repository: &mut frognano_bot::demo::forge::Repository| repository.issues[0].confidential = true;
            forge.with_repository(project::PATH, hide).unwrap();
        });
        let edits = |house: &House| house.forge().count("PUT", "*/notes/*") + house.forge().count("POST", "*/issues/1/notes");
        let service_ended = async { service.step().await };
        let before = async {
            house.until(|house| house.issue(1).confidential).await;
            edits(&house)
        };
        let (ended, before) = tokio::join!(service_ended, before);
        assert!(matches!(ended, Some(Ended::Quietly | Ended::Outcome(Outcome::Cancelled { .. }))), "{point}: {ended:?}");
        assert_eq!(edits(&house), before, "{point}");
        assert_eq!(house.branches(), Vec::<String>::new(), "{point}");
        assert!(house.pull_requests().iter().all(|pull| !pull.open && pull.comments.is_empty()), "{point}");
    }
}
