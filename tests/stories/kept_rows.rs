//! What the database keeps of the tests at base and of reviews, on each kind of database and with the oddest texts.

use std::sync::atomic::{AtomicI64, Ordering};

use frognano_bot::app::TimeIds;
use frognano_bot::domain::{Clock, Event, Outcome, RepoRef, TestCase, TestResult, TestRun, Trigger, Verb};
use frognano_bot::store::{BaselineOf, Intake, NewDelivery, QueueLimits, Store, Which};

use crate::databases::Database;

struct Shown(AtomicI64);

impl Clock for Shown {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn baseline(command: &str, image: &str) -> BaselineOf {
    BaselineOf { repository: "here-7".to_owned(), base: "a".repeat(40), image: image.to_owned(), command: command.to_owned() }
}

#[tokio::test]
async fn a_baseline_of_any_command_is_found_again_by_exactly_that_command() {
    // No two bytes of it alike nearby, so that PostgreSQL can't make it fit by compression.
    let long = (0..20_000_u32).map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761))).collect::<String>();
    let texts = ["pytest".to_owned(), "pytest\0".to_owned(), "pytest\u{fffd}".to_owned(), "ü".repeat(101), long.clone(), long + "."];
    for database in Database::each() {
        let store = database.open().await;
        let clock = Shown(AtomicI64::new(1));
        let run = |name: &str, n: u64| TestRun {
            per_test: true,
            duration_ms: n,
            cases: vec![TestCase::new(name, TestResult::Passed)],
            output_tail: "a\0b".to_owned(),
            ..TestRun::default()
        };
        let all = || texts.iter().zip(0..).flat_map(|(text, n)| [(baseline(text, "image"), 2 * n), (baseline("make", text), 2 * n + 1)]);
        for (of, n) in all() {
            assert_eq!(store.baseline(&of).await.unwrap(), None, "{n}");
            store.keep_baseline(&of, &[run("first", n)], &clock).await.unwrap();
            store.keep_baseline(&of, &[run("a\0b", n), run("b", n)], &clock).await.unwrap();
        }
        for (of, n) in all() {
            assert_eq!(store.baseline(&of).await.unwrap(), Some(vec![run("a\0b", n), run("b", n)]), "{n}");
        }
        store.close().await;
    }
}

/// A run that ended as proposed, so that its pull request is watched.
async fn propose(store: &Store, repo: &RepoRef, number: i64, clock: &Shown) -> String {
    let delivery = format!("d{number}");
    take_in(store, &delivery, &event(repo, number, Verb::Start, false), clock).await;
    let claimed = store.claim(&QueueLimits::default(), Which::Any, "worker", 60_000, clock, &TimeIds).await.unwrap().unwrap();
    store.finish(&claimed, &Outcome::Proposed { url: "u".to_owned() }, "{}", serde_json::Value::Null, clock, &TimeIds).await.unwrap();
    claimed.run.0
}

fn event(repo: &RepoRef, number: i64, verb: Verb, about_pull_request: bool) -> Event {
    let trigger = Trigger { repo: repo.clone(), number, title: "t".to_owned(), body: "b".to_owned(), url: String::new() };
    Event {
        verb,
        why: "a story".to_owned(),
        repository: Some(repo.clone()),
        trigger: Some(trigger),
        about_pull_request,
        command: None,
        note: None,
        actor: None,
    }
}

async fn take_in(store: &Store, id: &str, event: &Event, clock: &Shown) {
    let delivery = NewDelivery { forge: "here", delivery: id, event: "issues", body: "{}", read: Ok(event) };
    store.take_in(&delivery, clock, &TimeIds).await.unwrap();
}

#[tokio::test]
async fn a_watched_pull_request_is_looked_at_once_a_turn_and_woken_by_word_of_it() {
    for database in Database::each() {
        let store = database.open().await;
        let clock = Shown(AtomicI64::new(1_000_000));
        let repo = RepoRef { forge: "here".to_owned(), id: "7".to_owned(), path: "o/n".to_owned() };
        let run = propose(&store, &repo, 5, &clock).await;

        let first = store.next_review(60_000, &clock).await.unwrap().unwrap();
        assert_eq!(
            (first.run.as_str(), first.issue, first.state.as_str(), first.number, &first.said),
            (run.as_str(), 5, "waiting", None, &None)
        );
        assert_eq!(store.next_review(60_000, &clock).await.unwrap(), None, "it is being looked at");
        store.end_review(&first, 1000, &clock).await.unwrap();
        assert_eq!(store.next_review(60_000, &clock).await.unwrap(), None, "the next look is later");

        clock.0.fetch_add(1000, Ordering::Relaxed);
        let second = store.next_review(60_000, &clock).await.unwrap().unwrap();
        take_in(&store, "word", &event(&repo, 9, Verb::Ignore, true), &clock).await;
        let odd = Some("a\0b".to_owned());
        let mut found = second;
        (found.number, found.approved_ms, found.state) = (Some(9), Some(7), "approved".to_owned());
        (found.head, found.approved_by, found.said) = (odd.clone(), odd.clone(), odd);
        store.end_review(&found, 1000, &clock).await.unwrap();
        let third = store.next_review(60_000, &clock).await.unwrap().expect("word came during the look");
        let plain = Some("a\u{fffd}b".to_owned());
        let is = (third.number, &third.head, third.state.as_str(), &third.approved_by, third.approved_ms, &third.said);
        assert_eq!(is, (Some(9), &plain, "approved", &plain, Some(7), &plain));

        store.release_reviews(&clock).await.unwrap();
        let mut released = store.next_review(60_000, &clock).await.unwrap().expect("its worker is gone");
        (released.state, released.said) = ("over".to_owned(), None);
        store.end_review(&released, 1000, &clock).await.unwrap();
        store.release_reviews(&clock).await.unwrap();
        take_in(&store, "of another", &event(&repo, 10, Verb::Ignore, true), &clock).await;
        assert_eq!(store.next_review(60_000, &clock).await.unwrap(), None, "it is over");
        take_in(&store, "of it", &event(&repo, 9, Verb::Ignore, true), &clock).await;
        assert!(store.next_review(60_000, &clock).await.unwrap().is_some(), "word of it wakes even that");

        propose(&store, &repo, 6, &clock).await;
        let all = store.reviews(1).await.unwrap();
        assert_eq!(all.iter().map(|watched| watched.issue).collect::<Vec<_>>(), [6], "the newest first, and no more");
        assert_eq!(store.reviews(10).await.unwrap().len(), 2);
        store.close().await;
    }
}

#[tokio::test]
async fn a_delivery_that_could_not_be_read_is_read_anew_when_it_is_sent_again_and_one_that_could_is_not() {
    for database in Database::each() {
        let store = database.open().await;
        let clock = Shown(AtomicI64::new(1_000_000));
        let repo = RepoRef { forge: "here".to_owned(), id: "7".to_owned(), path: "o/n".to_owned() };
        let start = event(&repo, 5, Verb::Start, false);
        let intake = async |read: Result<&Event, &str>| {
            let delivery = NewDelivery { forge: "here", delivery: "d", event: "issues", body: "{}", read };
            store.take_in(&delivery, &clock, &TimeIds).await.unwrap()
        };
        let verb = async || store.explained("here", "d").await.unwrap().map(|explained| explained.verb);
        assert_eq!((intake(Err("a field of a later version")).await, verb().await.as_deref()), (Intake::Noted, Some("ignore")));
        assert_eq!(intake(Err("still the older program")).await, Intake::Noted);
        assert!(matches!(intake(Ok(&start)).await, Intake::Job(_)), "a newer program reads it");
        assert_eq!((intake(Ok(&start)).await, intake(Err("again")).await), (Intake::Repeated, Intake::Repeated));
        assert_eq!((verb().await.as_deref(), store.deliveries("here", 10).await.unwrap().len()), (Some("start"), 1));
        assert_eq!(store.summary().await.unwrap().queued, 1);
        store.close().await;
    }
}

#[tokio::test]
async fn old_deliveries_go_in_steps_and_none_that_something_may_still_come_of() {
    for database in Database::each() {
        let store = database.open().await;
        let clock = Shown(AtomicI64::new(1_000_000));
        let repo = RepoRef { forge: "here".to_owned(), id: "7".to_owned(), path: "o/n".to_owned() };
        for number in 1..=7 {
            take_in(&store, &format!("ignored {number}"), &event(&repo, number, Verb::Ignore, false), &clock).await;
        }
        propose(&store, &repo, 5, &clock).await;
        take_in(&store, "queued", &event(&repo, 6, Verb::Start, false), &clock).await;
        take_in(&store, "waiting", &event(&repo, 6, Verb::Start, false), &clock).await;
        take_in(&store, "running", &event(&repo, 8, Verb::Start, false), &clock).await;
        let claim = async || store.claim(&QueueLimits::default(), Which::Any, "worker", 60_000, &clock, &TimeIds).await.unwrap().unwrap();
        let first = claim().await;
        clock.0.fetch_add(1, Ordering::Relaxed);
        take_in(&store, "young", &event(&repo, 9, Verb::Ignore, false), &clock).await;
        let left = async || {
            let mut left = store.deliveries("here", 100).await.unwrap().into_iter().map(|[id, ..]| id).collect::<Vec<_>>();
            left.sort();
            left
        };
        let mut steps = Vec::new();
        loop {
            let step = store.prune_deliveries(1_000_001, 5).await.unwrap();
            if step == 0 {
                break;
            }
            steps.push(step);
        }
        assert_eq!((steps, left().await), (vec![5, 3], ["queued", "running", "waiting", "young"].map(str::to_owned).to_vec()));
        let end = Outcome::Cancelled { by: "a story".to_owned() };
        store.finish(&first, &end, "{}", serde_json::Value::Null, &clock, &TimeIds).await.unwrap();
        for _ in 0..2 {
            store.finish(&claim().await, &end, "{}", serde_json::Value::Null, &clock, &TimeIds).await.unwrap();
        }
        assert_eq!((store.prune_deliveries(1_000_001, 5).await.unwrap(), left().await), (3, vec!["young".to_owned()]));
        store.close().await;
    }
}
