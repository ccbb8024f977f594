//! The queue, on each kind of database: claimed once, by whoever comes first, and again when its worker is silent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use frognano_bot::app::TimeIds;
use frognano_bot::domain::{Clock, Event, Outcome, RepoRef, Stage, SystemClock, Trigger, Verb};
use frognano_bot::store::{Claimed, Doer, Ending, Intake, NewDelivery, Priority, QueueLimits, Store, StoreError, Which};

use crate::databases::{Database, psql};

/// A clock that shows what it is told; it may claim to be a machine's own.
pub struct ClockOf {
    pub shows: AtomicI64,
    pub is_a_machines: bool,
}

impl Clock for ClockOf {
    fn now_ms(&self) -> i64 {
        self.shows.load(Ordering::Relaxed)
    }

    fn is_of_this_machine(&self) -> bool {
        self.is_a_machines
    }
}

pub fn event(verb: Verb, number: i64, title: &str) -> Event {
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

pub async fn take_in(store: &Store, id: &str, event: &Event, body: &str) -> Intake {
    let delivery = NewDelivery { forge: "here", delivery: id, event: "issues", body, read: Ok(event) };
    store.take_in(&delivery, &SystemClock, &TimeIds).await.unwrap()
}

pub async fn fill(store: &Store, jobs: i64) {
    for number in 1..=jobs {
        let taken = take_in(store, &format!("d{number}"), &event(Verb::Start, number, "t"), "{}").await;
        assert!(matches!(taken, Intake::Job(_)), "{taken:?}");
    }
}

pub async fn claim(store: &Store, owner: &str, clock: &dyn Clock) -> Option<Claimed> {
    store.claim(&QueueLimits::default(), Which::Any, owner, 60_000, clock, &TimeIds).await.unwrap()
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
        store
            .finish(&second, &Outcome::Cancelled { by: "a\0b".to_owned() }, "{}", serde_json::Value::Null, &clock, &TimeIds)
            .await
            .unwrap();
        assert!(
            store
                .finish(&first, &Outcome::Cancelled { by: "x".to_owned() }, "{}", serde_json::Value::Null, &clock, &TimeIds)
                .await
                .is_err()
        );
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
    assert_eq!(applied.parse::<usize>().unwrap(), {
        let files = |folder| std::fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file()).count();
        files("migrations") + files("migrations/postgres")
    });
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

/// A label on an issue of a repository.
fn of(repository: &str, number: i64) -> Event {
    let mut event = event(Verb::Start, number, "t");
    let repo = RepoRef { forge: "here".to_owned(), id: repository.to_owned(), path: format!("o/{repository}") };
    event.trigger.as_mut().unwrap().repo = repo.clone();
    event.repository = Some(repo);
    event
}

async fn ask_for(store: &Store, repository: &str, jobs: std::ops::RangeInclusive<i64>) {
    for number in jobs {
        take_in(store, &format!("{repository}-{number}"), &of(repository, number), "{}").await;
    }
}

async fn within(store: &Store, limits: &QueueLimits, clock: &dyn Clock) -> Option<Claimed> {
    store.claim(limits, Which::Any, "worker", 60_000, clock, &TimeIds).await.unwrap()
}

pub async fn end(store: &Store, claimed: &Claimed) {
    store
        .finish(claimed, &Outcome::Cancelled { by: "the story".to_owned() }, "{}", serde_json::Value::Null, &SystemClock, &TimeIds)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_flood_of_one_repository_holds_up_no_other() {
    for database in Database::each() {
        let store = database.open().await;
        ask_for(&store, "flood", 1..=50).await;
        for _ in 0..10 {
            end(&store, &claim(&store, "worker", &SystemClock).await.unwrap()).await;
        }
        ask_for(&store, "quiet", 1..=2).await;
        ask_for(&store, "flood", 51..=60).await;
        ask_for(&store, "late", 1..=1).await;
        let mut served = Vec::new();
        for _ in 0..6 {
            let claimed = claim(&store, "worker", &SystemClock).await.unwrap();
            served.push(claimed.repo.id.clone());
            end(&store, &claimed).await;
        }
        let place = |name: &str| served.iter().position(|served| served == name).unwrap();
        assert!(place("quiet") < 3 && place("late") < 4, "{served:?}");
        assert_eq!(served.iter().filter(|served| *served == "quiet").count(), 2, "{served:?}");
        let mut rest = 0;
        while let Some(claimed) = claim(&store, "worker", &SystemClock).await {
            end(&store, &claimed).await;
            rest += 1;
        }
        assert_eq!(rest + 6 + 10, 63, "nothing is lost");
        store.close().await;
    }
}

#[tokio::test]
async fn some_repositories_come_first_whatever_waits() {
    for database in Database::each() {
        let line = |repositories: &str, priority| Priority { repositories: repositories.to_owned(), priority };
        let store = database.open().await.with_priorities(vec![line("o/urgent", 10), line("o/*", -1)]);
        ask_for(&store, "a", 1..=3).await;
        ask_for(&store, "urgent", 1..=2).await;
        let mut served = Vec::new();
        while let Some(claimed) = claim(&store, "worker", &SystemClock).await {
            served.push(claimed.repo.id.clone());
        }
        assert_eq!(served, ["urgent", "urgent", "a", "a", "a"]);
        store.close().await;
    }
}

#[tokio::test]
async fn no_more_run_than_the_limits_allow_and_what_must_wait_comes_later() {
    for database in Database::each() {
        let store = database.open().await;
        ask_for(&store, "a", 1..=5).await;
        ask_for(&store, "b", 1..=5).await;
        let limits = QueueLimits { per_repository: 2, in_all: 3, ..QueueLimits::default() };
        let mut running = Vec::new();
        while let Some(claimed) = within(&store, &limits, &SystemClock).await {
            running.push(claimed);
        }
        assert_eq!(running.len(), 3);
        assert!(running.iter().filter(|claimed| claimed.repo.id == "a").count() <= 2);
        for claimed in &running {
            end(&store, claimed).await;
        }
        let mut served = 3;
        while let Some(claimed) = within(&store, &limits, &SystemClock).await {
            end(&store, &claimed).await;
            served += 1;
        }
        assert_eq!(served, 10);
        store.close().await;
    }
}

#[tokio::test]
async fn one_persons_runs_leave_room_for_others() {
    for database in Database::each() {
        let store = database.open().await;
        ask_for(&store, "a", 1..=3).await;
        ask_for(&store, "b", 1..=1).await;
        // Their labels were answered: it is known who asked.
        for by in ["ada", "ada", "ada", "bob"] {
            let claimed = store
                .claim(&QueueLimits::default(), Which::NewForAnAnswer, "worker", 60_000, &SystemClock, &TimeIds)
                .await
                .unwrap()
                .unwrap();
            let by = if claimed.repo.id == "b" { "bob" } else { by.trim_start_matches("bob") };
            let by = if by.is_empty() { "ada" } else { by };
            store.name_episode(&claimed.lease, &format!("{}-{}", claimed.repo.id, claimed.issue), by).await.unwrap();
            store.put_back(&claimed.lease, Stage::Queued, 0, false, &SystemClock).await.unwrap();
        }
        let limits = QueueLimits { per_person: 1, ..QueueLimits::default() };
        let mut running = Vec::new();
        while let Some(claimed) = within(&store, &limits, &SystemClock).await {
            running.push(claimed.repo.id.clone());
        }
        running.sort();
        assert_eq!(running, ["a", "b"]);
        store.close().await;
    }
}

#[tokio::test]
async fn what_is_over_the_days_number_waits_for_the_next_day() {
    for database in Database::each() {
        let store = database.open().await;
        ask_for(&store, "a", 1..=3).await;
        let clock = ClockOf { shows: AtomicI64::new(SystemClock.now_ms()), is_a_machines: false };
        let limits = QueueLimits { daily_per_repository: 2, ..QueueLimits::default() };
        for _ in 0..2 {
            let claimed = within(&store, &limits, &clock).await.unwrap();
            // Put back and taken up again, it is the same run.
            store.put_back(&claimed.lease, Stage::Agent, 0, false, &clock).await.unwrap();
            end(&store, &within(&store, &limits, &clock).await.unwrap()).await;
        }
        assert!(within(&store, &limits, &clock).await.is_none());
        clock.shows.fetch_add(24 * 60 * 60 * 1000, Ordering::Relaxed);
        assert!(within(&store, &limits, &clock).await.is_some());
        store.close().await;
    }
}

#[tokio::test]
async fn a_repository_with_enough_open_pull_requests_waits_for_its_people_and_others_do_not() {
    for database in Database::each() {
        let store = database.open().await;
        ask_for(&store, "a", 1..=2).await;
        let limits = QueueLimits { open_per_repository: 1, ..QueueLimits::default() };
        let first = within(&store, &limits, &SystemClock).await.unwrap();
        let proposed = Outcome::Proposed { url: "u".to_owned() };
        store.finish(&first, &proposed, "{}", serde_json::Value::Null, &SystemClock, &TimeIds).await.unwrap();
        assert!(within(&store, &limits, &SystemClock).await.is_none(), "one is open");
        ask_for(&store, "b", 1..=1).await;
        assert_eq!(within(&store, &limits, &SystemClock).await.unwrap().repo.id, "b");
        let watched = store.next_review(1, &SystemClock).await.unwrap().unwrap();
        let closed = Ending { merged: false, merged_as: None, lines_changed: None };
        assert!(store.end_fate(&watched, &closed, 0, &SystemClock).await.unwrap());
        assert_eq!(within(&store, &limits, &SystemClock).await.unwrap().repo.id, "a", "people have looked at it");
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_that_claim_at_once_never_exceed_a_limit() {
    for database in Database::each() {
        let store = database.open().await;
        ask_for(&store, "a", 1..=40).await;
        let hands = (0..10).map(|_| {
            let store = store.clone();
            let limits = QueueLimits { per_repository: 4, ..QueueLimits::default() };
            tokio::spawn(async move {
                let mut mine = 0;
                while within(&store, &limits, &SystemClock).await.is_some() {
                    mine += 1;
                }
                mine
            })
        });
        let mut all = 0;
        for hand in hands.collect::<Vec<_>>() {
            all += hand.await.unwrap();
        }
        assert_eq!(all, 4);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_claim_comes_between_holding_the_queue_and_stopping_what_runs() {
    for database in Database::each() {
        let store = database.open().await;
        fill(&store, 200).await;
        let began = Arc::new(tokio::sync::Barrier::new(9));
        let hands = (0..8).map(|hand| {
            let (store, began) = (store.clone(), began.clone());
            tokio::spawn(async move {
                began.wait().await;
                let mut mine = Vec::new();
                while let Some(claimed) = claim(&store, &format!("worker {hand}"), &SystemClock).await {
                    mine.push(claimed.lease);
                }
                mine
            })
        });
        let hands = hands.collect::<Vec<_>>();
        began.wait().await;
        let mut claimed = 0;
        while claimed < 20 {
            claimed = store.summary().await.unwrap().running;
        }
        let asked = store.kill(&Doer::operator("ada"), "", &SystemClock).await.unwrap();
        let mut leases = Vec::new();
        for hand in hands {
            leases.extend(hand.await.unwrap());
        }
        assert!(leases.len() < 200, "the queue was held in time");
        assert_eq!(usize::try_from(asked).unwrap(), leases.len());
        for lease in &leases {
            assert!(store.cancel_asked(lease).await.unwrap().0.is_some());
        }
        let given = async |which| store.claim(&QueueLimits::default(), which, "worker", 60_000, &SystemClock, &TimeIds).await.unwrap();
        assert!(given(Which::New).await.is_none(), "a run that goes as far as it can without a model is a run");
        assert!(given(Which::NewForAnAnswer).await.is_some(), "a label gets its answer all the same");
        store.resume(&Doer::operator("a story")).await.unwrap();
        assert!(claim(&store, "worker", &SystemClock).await.is_some());
        store.close().await;
    }
}
