//! The queue, on each kind of database: claimed once, by whoever comes first, and again when its worker is silent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use frognano_bot::app::TimeIds;
use frognano_bot::domain::{Clock, Event, Outcome, RepoRef, Stage, SystemClock, Trigger, Verb};
use frognano_bot::store::{Claimed, Intake, NewDelivery, Store, StoreError, Which};

use crate::databases::{Database, psql};

/// A clock that shows what it is told; it may claim to be a machine's own.
struct ClockOf {
    shows: AtomicI64,
    is_a_machines: bool,
}

impl Clock for ClockOf {
    fn now_ms(&self) -> i64 {
        self.shows.load(Ordering::Relaxed)
    }

    fn is_of_this_machine(&self) -> bool {
        self.is_a_machines
    }
}

fn event(verb: Verb, number: i64, title: &str) -> Event {
    let repo = RepoRef { forge: "here".to_owned(), id: "7".to_owned(), path: "o/n".to_owned() };
    let trigger = Trigger { repo: repo.clone(), number, title: title.to_owned(), body: "b".to_owned(), url: String::new() };
    Event {
        verb,
        why: "a story".to_owned(),
        repository: Some(repo),
        trigger: Some(trigger),
        about_pull_request: false,
        command: None,
        note: None,
        actor: None,
    }
}

async fn take_in(store: &Store, id: &str, event: &Event, body: &str) -> Intake {
    let delivery = NewDelivery { forge: "here", delivery: id, event: "issues", body, read: Ok(event) };
    store.take_in(&delivery, &SystemClock, &TimeIds).await.unwrap()
}

async fn fill(store: &Store, jobs: i64) {
    for number in 1..=jobs {
        let taken = take_in(store, &format!("d{number}"), &event(Verb::Start, number, "t"), "{}").await;
        assert!(matches!(taken, Intake::Job(_)), "{taken:?}");
    }
}

async fn claim(store: &Store, owner: &str, clock: &dyn Clock) -> Option<Claimed> {
    store.claim(Which::Any, owner, 60_000, clock, &TimeIds).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_at_once_claim_every_job_once() {
    for database in Database::each() {
        let store = database.open().await;
        fill(&store, 200).await;
        let hands = (0..12).map(|hand| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                while let Some(claimed) = claim(&store, &format!("worker {hand}"), &SystemClock).await {
                    mine.push(claimed.issue);
                }
                mine
            })
        });
        let mut all = Vec::new();
        for hand in hands.collect::<Vec<_>>() {
            all.extend(hand.await.unwrap());
        }
        // A worker that meets another at the last jobs may see none and stop; what is left is still there.
        while let Some(claimed) = claim(&store, "the last", &SystemClock).await {
            all.push(claimed.issue);
        }
        assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (200, 200));
        store.close().await;
    }
}

#[tokio::test]
async fn a_silent_workers_job_is_claimed_again_and_its_old_lease_writes_nothing() {
    for database in Database::each() {
        let store = database.open().await;
        fill(&store, 1).await;
        let clock = ClockOf { shows: AtomicI64::new(SystemClock.now_ms()), is_a_machines: false };
        let first = claim(&store, "first", &clock).await.unwrap();
        assert!(claim(&store, "second", &clock).await.is_none());
        clock.shows.fetch_add(61_000, Ordering::Relaxed);
        let second = claim(&store, "second", &clock).await.unwrap();
        assert_eq!((second.issue, second.leases, &second.run), (first.issue, 2, &first.run));
        assert!(matches!(store.enter(&first.lease, Stage::Agent).await, Err(StoreError::LeaseLost(_))));
        assert!(matches!(store.heartbeat(&first.lease, 60_000, &clock).await, Err(StoreError::LeaseLost(_))));
        store.finish(&second, &Outcome::Cancelled { by: "a\0b".to_owned() }, "{}", &clock, &TimeIds).await.unwrap();
        assert!(store.finish(&first, &Outcome::Cancelled { by: "x".to_owned() }, "{}", &clock, &TimeIds).await.is_err());
        store.close().await;
    }
}

#[tokio::test]
async fn a_machine_whose_clock_is_wrong_takes_no_lease_of_another() {
    let Some(database) = Database::postgres() else { return };
    let store = database.open().await;
    fill(&store, 1).await;
    let an_hour_ahead = ClockOf { shows: AtomicI64::new(SystemClock.now_ms() + 3_600_000), is_a_machines: true };
    let an_hour_behind = ClockOf { shows: AtomicI64::new(SystemClock.now_ms() - 3_600_000), is_a_machines: true };
    let held = claim(&store, "behind", &an_hour_behind).await.unwrap();
    assert!(claim(&store, "ahead", &an_hour_ahead).await.is_none());
    store.heartbeat(&held.lease, 60_000, &an_hour_behind).await.unwrap();
    assert!(claim(&store, "ahead", &an_hour_ahead).await.is_none());
    store.put_back(&held.lease, Stage::Agent, 0, false, &an_hour_ahead).await.unwrap();
    assert!(claim(&store, "behind", &an_hour_behind).await.is_some());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn services_that_start_at_once_bring_an_empty_database_up_to_date() {
    let Some(database) = Database::postgres() else { return };
    let starts = (0..4).map(|_| {
        let url = database.url.clone();
        tokio::spawn(async move { Store::open(&url).await })
    });
    for start in starts.collect::<Vec<_>>() {
        start.await.unwrap().unwrap().close().await;
    }
    let applied = psql(&database.url, "select count(*) from _sqlx_migrations where success");
    assert_eq!(applied.parse::<usize>().unwrap(), std::fs::read_dir("migrations").unwrap().count());
}

#[tokio::test]
async fn words_that_a_database_cannot_keep_are_kept_as_far_as_it_can() {
    for database in Database::each() {
        let store = database.open().await;
        let taken = take_in(&store, "d\0d", &event(Verb::Start, 1, "a\0b \u{1f438} \u{202e}"), "{\"a\": \"\0\"}").await;
        assert!(matches!(taken, Intake::Job(_)), "{taken:?}");
        let claimed = claim(&store, "worker", &SystemClock).await.unwrap();
        assert!(claimed.text.title.starts_with('a') && claimed.text.title.contains('\u{1f438}'), "{:?}", claimed.text);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hands_that_take_up_what_is_asked_are_never_two_at_one_issue() {
    for database in Database::each() {
        let store = Arc::new(database.open().await);
        for number in 1..=20 {
            for verb in [Verb::Cancel, Verb::Recheck, Verb::Finish] {
                let asked = Event { trigger: event(verb, number, "t").trigger, ..event(verb, number, "t") };
                store.ask(&asked, &SystemClock, &TimeIds).await.unwrap();
            }
        }
        let hands = (0..8).map(|hand| {
            let store = store.clone();
            tokio::spawn(async move { store.next_ask(&format!("hand {hand}"), 60_000, &SystemClock).await.unwrap().unwrap().issue })
        });
        let mut issues = BTreeSet::new();
        for hand in hands.collect::<Vec<_>>() {
            assert!(issues.insert(hand.await.unwrap()), "two hands at one issue: {issues:?}");
        }
        store.close().await;
    }
}
