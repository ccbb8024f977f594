//! The figures of the queue on this machine: `cargo bench --bench queue`. On PostgreSQL too where `FROGNANO_TEST_POSTGRES_URL` names
//! an administrator (tests/postgres/up starts a server; FROGNANO_TEST_POSTGRES_FSYNC=on lets it sync as a real one does).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code, reason = "a bench may stop at once and say why")]

#[path = "../stories/databases.rs"]
mod databases;
#[path = "../stories/house.rs"]
mod house;
#[path = "../stories/crash_matrix/parts.rs"]
mod parts;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frognano_bot::app::TimeIds;
use frognano_bot::demo::Kind;
use frognano_bot::demo::forge::deliver;
use frognano_bot::domain::{Event, RepoRef, SystemClock, Trigger, Verb};
use frognano_bot::store::{NewDelivery, QueueLimits, Store, Which};

use databases::{Database, psql};
use house::House;
use parts::{Part, Process};

const WORKERS: usize = 50;
const CLAIMS: i64 = 1000;
const IDLE: usize = 10;
const LOOKED: Duration = Duration::from_secs(10);
const STARTS: i64 = 10;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for database in Database::each() {
            claims(&database).await;
        }
        idle().await;
    });
}

fn kind_of(database: &Database) -> &'static str {
    if database.url.starts_with("postgres") { "PostgreSQL" } else { "SQLite" }
}

fn event(number: i64) -> Event {
    let repo = RepoRef { forge: "here".to_owned(), id: (number % 200).to_string(), path: format!("o/n{}", number % 200) };
    let trigger = Trigger { repo: repo.clone(), number, title: "t".to_owned(), body: "b".to_owned(), url: String::new() };
    Event {
        verb: Verb::Start,
        why: "a bench".to_owned(),
        repository: Some(repo),
        trigger: Some(trigger),
        about_pull_request: false,
        command: None,
        note: None,
        actor: None,
    }
}

async fn fill(store: &Store, from: i64, to: i64) {
    let next = Arc::new(AtomicI64::new(from));
    let hands = (0..8).map(|_| {
        let (store, next) = (store.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= to {
                    return;
                }
                let (id, event) = (format!("d{number}"), event(number));
                let delivery = NewDelivery { forge: "here", delivery: &id, event: "issues", body: "{}", read: Ok(&event) };
                store.take_in(&delivery, &SystemClock, &TimeIds).await.unwrap();
            }
        })
    });
    for hand in hands.collect::<Vec<_>>() {
        hand.await.unwrap();
    }
}

/// Claims a second by many workers at once, with 1,000, 10,000 and 100,000 jobs in the queue.
async fn claims(database: &Database) {
    let store = database.open().await;
    let (mut there, mut base) = (0, None);
    for jobs in [1_000, 10_000, 100_000] {
        let wanted = jobs + CLAIMS;
        let more = wanted - store.summary().await.unwrap().queued;
        fill(&store, there, there + more).await;
        there += more;
        let (left, seen) = (Arc::new(AtomicI64::new(CLAIMS)), Arc::new(Mutex::new(Vec::new())));
        let began = Instant::now();
        let hands = (0..WORKERS).map(|worker| {
            let (store, left, seen) = (store.clone(), left.clone(), seen.clone());
            tokio::spawn(async move {
                while left.fetch_sub(1, Ordering::Relaxed) > 0 {
                    let owner = format!("worker {worker}");
                    let claimed = loop {
                        let limits = QueueLimits::default();
                        let claimed = store.claim(&limits, Which::Any, &owner, 600_000, &SystemClock, &TimeIds).await.unwrap();
                        if let Some(claimed) = claimed {
                            break claimed;
                        }
                    };
                    seen.lock().unwrap().push(claimed.lease.job().0.clone());
                }
            })
        });
        for hand in hands.collect::<Vec<_>>() {
            hand.await.unwrap();
        }
        let each_second = CLAIMS as f64 / began.elapsed().as_secs_f64();
        let mut seen = seen.lock().unwrap().clone();
        let all = seen.len();
        seen.sort();
        seen.dedup();
        let base = *base.get_or_insert(each_second);
        println!(
            "{:<10} claims of {WORKERS} workers, {jobs:>6} jobs wait {each_second:8.0} a second; {:.2} of the rate at 1,000; claimed twice: {}",
            kind_of(database),
            each_second / base,
            all - seen.len()
        );
    }
    store.close().await;
}

/// What workers without work ask of a shared database, and how soon one of them begins with what another process stored.
async fn idle() {
    let Some(database) = Database::postgres() else { return };
    let house = House::new(Kind::Gitea).await.on(database);
    let web = Process::start(&house, Part::Web, None);
    let workers = (0..IDLE).map(|number| Process::start(&house, Part::Worker(format!("data-{number}").leak()), None)).collect::<Vec<_>>();
    let transactions = || {
        let counted = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()";
        psql(&house.database(), counted).parse::<f64>().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (before, began) = (transactions(), Instant::now());
    tokio::time::sleep(LOOKED).await;
    let each_second = (transactions() - before) / began.elapsed().as_secs_f64();
    println!("PostgreSQL {IDLE} idle workers {each_second:.1} transactions a second, {:.1} each", each_second / IDLE as f64);
    let mut waits = Vec::new();
    for _ in 0..STARTS {
        let issue = house.open_issue();
        let label = house.label(issue);
        let asked = house.forge().requests().len();
        for delivery in &label {
            assert_eq!(deliver(delivery, &web.door).await.unwrap(), 202);
        }
        let stored = Instant::now();
        workers[0].until(|| house.forge().requests().len() > asked).await;
        waits.push(stored.elapsed());
        workers[0].until(|| house.said(issue).concat().contains("pull request")).await;
    }
    waits.sort();
    println!(
        "PostgreSQL a job that another process stored begins after {:?} (median), {:?} (longest), goal a second",
        waits[waits.len() / 2],
        waits[waits.len() - 1]
    );
}
