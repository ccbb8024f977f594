//! The figures of the queue and of the door on this machine: `cargo bench --bench queue`. On PostgreSQL too where `FROGNANO_TEST_POSTGRES_URL` names
//! an administrator (tests/postgres/up starts a server; FROGNANO_TEST_POSTGRES_FSYNC=on lets it sync as a real one does).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code, reason = "a bench may stop at once and say why")]

#[path = "../stories/databases.rs"]
mod databases;
#[path = "../stories/house.rs"]
mod house;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frognano_bot::app::TimeIds;
use frognano_bot::demo::Kind;
use frognano_bot::demo::forge::{Delivery, deliver};
use frognano_bot::domain::{Event, RepoRef, SystemClock, Trigger, Verb};
use frognano_bot::store::{NewDelivery, QueueLimits, Store, Which};

use databases::Database;
use house::House;

const WORKERS: usize = 50;
const CLAIMS: i64 = 1000;
const SENDERS: usize = 16;
const DELIVERIES: i64 = 4000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for database in Database::each() {
            claims(&database).await;
        }
        door(None).await;
        if let Some(database) = Database::postgres() {
            door(Some(database)).await;
        }
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

/// Verified deliveries a second, each written down before its 202.
async fn door(database: Option<Database>) {
    let kind = database.as_ref().map_or("SQLite", kind_of);
    let house = House::new(Kind::GitHub).await;
    let house = if let Some(database) = database { house.on(database) } else { house };
    let service = house.service().await;
    let issue = house.open_issue();
    let delivery = Arc::new(house.label(issue)[0].clone());
    let (next, times) = (Arc::new(AtomicI64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let began = Instant::now();
    let senders = (0..SENDERS).map(|_| {
        let (delivery, door, next, times) = (delivery.clone(), service.door.clone(), next.clone(), times.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= DELIVERIES {
                    return;
                }
                let began = Instant::now();
                assert_eq!(deliver(&numbered(&delivery, number), &door).await.unwrap(), 202);
                times.lock().unwrap().push(began.elapsed());
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    let each_second = DELIVERIES as f64 / began.elapsed().as_secs_f64();
    let mut times: Vec<Duration> = times.lock().unwrap().clone();
    times.sort();
    let p99 = times[times.len() * 99 / 100].as_secs_f64() * 1000.0;
    println!(
        "{kind:<10} deliveries verified, stored, 202, {SENDERS} senders {each_second:8.0} a second (goal 2000), p99 {p99:.1} ms (goal 50)"
    );
    service.end().await;
}

fn numbered(delivery: &Delivery, number: i64) -> Delivery {
    let mut delivery = delivery.clone();
    delivery.headers.iter_mut().filter(|(name, _)| name.ends_with("-Delivery")).for_each(|(_, id)| *id = format!("{id}-{number}"));
    delivery
}
