//! Nothing twice and nothing lost: ten thousand deliveries over a hundred issues, shuffled, repeated, dropped, through the real database.

use std::collections::{BTreeMap, BTreeSet};

use frognano_bot::app::TimeIds;
use frognano_bot::demo::forge::{Delivery, On};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Event, Outcome, RepoRef, SystemClock, Trigger, Verb};
use frognano_bot::store::{Claimed, Intake, NewDelivery, QueueLimits, Store, StoreError, Which};
use frognano_bot::worker::Ended;

use crate::commands::{by_another_hook, heard};
use crate::databases::Database;
use crate::faces::on_each_forge;
use crate::house::{House, SECRET};

/// A small generator of numbers that are the same in every run of a seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}

/// What the forge would answer: the number of the last act of setting the label on each issue, and whether the label is there.
#[derive(Default)]
struct Labels(BTreeMap<i64, (u64, bool)>);

const ISSUES: i64 = 100;
const DELIVERIES: usize = 10_000;

fn repo() -> RepoRef {
    RepoRef { forge: "here".to_owned(), id: "7".to_owned(), path: "o/n".to_owned() }
}

fn trigger(number: i64) -> Trigger {
    Trigger { repo: repo(), number, title: "t".to_owned(), body: "b".to_owned(), url: String::new() }
}

fn event(verb: Verb, number: i64) -> Event {
    Event {
        verb,
        why: "a story".to_owned(),
        repository: Some(repo()),
        trigger: Some(trigger(number)),
        about_pull_request: false,
        command: None,
        note: None,
        actor: None,
    }
}

/// What a worker does with a job as far as this matters here: a label that is not there, or was answered, ends it without a proposal.
async fn work(store: &Store, labels: &Labels, claimed: &Claimed, proposed: &mut BTreeMap<(i64, u64), u32>) {
    let (act, there) = labels.0.get(&claimed.issue).copied().unwrap_or_default();
    let episode = act.to_string();
    let quiet = |why: &str| Outcome::Cancelled { by: why.to_owned() };
    let outcome = if there {
        match store.name_episode(&claimed.lease, &episode, "ada").await {
            Ok(()) => {
                *proposed.entry((claimed.issue, act)).or_default() += 1;
                Outcome::Proposed { url: String::new() }
            }
            Err(StoreError::EpisodeKnown) => quiet("already_answered"),
            Err(error) => panic!("{error}"),
        }
    } else {
        quiet("label_absent")
    };
    store.finish(claimed, &outcome, "{}", serde_json::Value::Null, &SystemClock, &TimeIds).await.unwrap();
}

async fn claim(store: &Store) -> Option<Claimed> {
    store.claim(&QueueLimits::default(), Which::Any, "worker", 60_000, &SystemClock, &TimeIds).await.unwrap()
}

#[tokio::test]
async fn ten_thousand_deliveries_in_any_order_lose_nothing_and_double_nothing() {
    for database in Database::each() {
        through(&database.open().await).await;
    }
}

async fn through(store: &Store) {
    let mut numbers = Numbers(0x0005_DEEC_E66D_u64 ^ 1);
    let (mut labels, mut proposed) = (Labels::default(), BTreeMap::new());
    let mut held: Option<Claimed> = None;
    let mut known: Vec<(String, Event)> = Vec::new();
    let (mut taken, mut next) = (0, 0);
    while taken < DELIVERIES {
        match numbers.below(10) {
            // Somebody puts the label on or off; one or two hooks tell of it, or none.
            0..=2 => {
                let number = 1 + i64::try_from(numbers.below(usize::try_from(ISSUES).unwrap())).unwrap();
                let state = labels.0.entry(number).or_default();
                let on = !state.1 || numbers.below(3) == 0;
                if on && !state.1 {
                    state.0 += 1;
                }
                state.1 = on;
                let verb = [if on { Verb::Start } else { Verb::Cancel }, Verb::Recheck][numbers.below(2)];
                // Of one issue in ten nothing is ever told: its hook is broken.
                let told = if number % 10 == 0 { 0 } else { numbers.below(3) };
                for _ in 0..told {
                    next += 1;
                    known.push((format!("delivery-{next}"), event(verb, number)));
                }
            }
            // The worker takes a job, or ends the one it has.
            3 => match held.take() {
                Some(claimed) => work(store, &labels, &claimed, &mut proposed).await,
                None => held = claim(store).await,
            },
            // Some delivery arrives: for the first time or once more, early or late.
            _ if known.is_empty() => {}
            _ => {
                let (id, event) = known[numbers.below(known.len())].clone();
                let again = numbers.below(4) == 0;
                let id = if again { format!("{id}-again-{taken}") } else { id };
                let row = NewDelivery { forge: "here", delivery: &id, event: "issues", body: "{}", read: Ok(&event) };
                let intake = store.take_in(&row, &SystemClock, &TimeIds).await.unwrap();
                assert!(!again || intake != Intake::Repeated);
                taken += 1;
            }
        }
    }
    if let Some(claimed) = held {
        work(store, &labels, &claimed, &mut proposed).await;
    }
    while let Some(claimed) = claim(store).await {
        work(store, &labels, &claimed, &mut proposed).await;
    }
    let by_deliveries = proposed.len();
    // What was dropped is found by who looks at the labels themselves, twice to be sure that twice is once.
    for _ in 0..2 {
        for (number, (act, there)) in &labels.0 {
            if *there {
                store.take_up(&trigger(*number), &act.to_string(), &SystemClock, &TimeIds).await.unwrap();
            }
        }
        while let Some(claimed) = claim(store).await {
            work(store, &labels, &claimed, &mut proposed).await;
        }
    }
    let wanted = labels.0.iter().filter(|(_, (_, there))| *there).map(|(number, (act, _))| (*number, *act)).collect::<BTreeSet<_>>();
    let lost = wanted.iter().filter(|act| !proposed.contains_key(act)).count();
    let doubled = proposed.values().filter(|times| **times > 1).count();
    println!("{taken} deliveries, {} issues, {by_deliveries} acts answered by deliveries, {} in all", labels.0.len(), proposed.len());
    assert_eq!((labels.0.len(), lost, doubled), (100, 0, 0));
    assert!(by_deliveries > 100 && proposed.len() > by_deliveries, "{by_deliveries} and {}", proposed.len());
    assert_eq!(store.summary().await.unwrap().queued, 0);
}

on_each_forge! {
    async fn a_delivery_and_who_looks_for_lost_ones_at_once_make_one_pull_request(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        let issue = house.open_issue();
        let told = house.label(issue);
        let told_twice = by_another_hook(&told);
        let looking = async { service.worker.reconcile().await.unwrap() };
        tokio::join!(service.take(&told), looking, service.take(&told_twice));
        let ended = service.work_off().await;
        service.worker.reconcile().await.unwrap();
        assert_eq!(service.work_off().await, [], "{kind:?}");
        assert_eq!(ended.iter().filter(|ended| **ended != Ended::Quietly).count(), 1, "{kind:?}: {ended:?}");
        assert_eq!((house.pull_requests().len(), house.branches().len(), house.said(issue).len()), (1, 1, 1), "{kind:?}");
    }
}

on_each_forge! {
    async fn two_events_for_one_label_make_one_pull_request(kind: Kind) {
        let house = House::new(kind).await;
        let service = house.service().await;
        // Opened with the label: the forge tells of the opening and of the label.
        let opened = house
            .forge()
            .open_issue(project::PATH, project::MAINTAINER, project::issue_title(), project::issue_body(), &[project::LABEL])
            .unwrap();
        // GitLab tells of both in one delivery.
        assert_eq!(opened.deliveries.len(), if kind == Kind::GitLab { 1 } else { 2 }, "{kind:?}");
        service.take(&opened.deliveries).await;
        service.work_off().await;
        service.take(&by_another_hook(&opened.deliveries)).await;
        service.work_off().await;
        assert_eq!((house.pull_requests().len(), house.said(opened.number).len()), (1, 1), "{kind:?}");
    }
}

/// A project's own hook, one of its group and one of the whole instance tell of the same, each in its way.
#[tokio::test]
async fn hooks_of_the_project_its_group_and_the_instance_at_once_do_nothing_twice() {
    let house = House::new(Kind::GitLab).await;
    let (group, _) = project::PATH.split_once('/').unwrap();
    house.forge().add_hook_above(Some(group), SECRET);
    house.forge().add_hook_above(None, SECRET);
    let service = house.service().await;
    let events = |told: &[Delivery]| told.iter().map(|delivery| delivery.header("X-Gitlab-Event").unwrap().to_owned()).collect::<Vec<_>>();
    let issue = house.open_issue();
    let told = house.label(issue);
    assert_eq!(events(&told), ["Issue Hook", "Issue Hook"], "system hooks tell of no issue");
    service.take(&told).await;
    let ended = service.work_off().await;
    assert_eq!(ended.iter().filter(|ended| **ended != Ended::Quietly).count(), 1, "{ended:?}");
    assert_eq!(heard(&service).await, ["nothing is under way"], "the second word only made it look again");
    let number = house.pull_requests()[0].number;
    let asked =
        house.forge().write_comment(project::PATH, On::PullRequest(number), "/frognano revise\nOne line more.", project::MAINTAINER);
    let asked = asked.unwrap();
    assert_eq!(events(&asked), ["Note Hook", "Note Hook"], "nor of a note");
    service.take(&asked).await;
    assert_eq!(heard(&service).await.len(), 1);
    let closed = house.forge().close_issue(project::PATH, On::PullRequest(number), project::MAINTAINER).unwrap();
    assert_eq!(events(&closed), ["Merge Request Hook", "Merge Request Hook", "System Hook"]);
    service.take(&closed[2..]).await;
    assert_eq!(heard(&service).await, ["cancelled: the merge request was closed"], "the system hook alone is enough");
    service.take(&closed[..2]).await;
    assert_eq!(heard(&service).await, ["noted: the merge request is over"]);
    assert_eq!(service.work_off().await, []);
    assert_eq!((house.pull_requests().len(), house.branches().len()), (1, 1));
    let said = house.said(On::PullRequest(number));
    assert_eq!(said.iter().filter(|said| said.contains("stopped: the merge request was closed")).count(), 1, "{said:?}");
    service.end().await;
}
