//! The figures of the door on this machine: `cargo bench --bench webhooks`. Deliveries are signed, sent, verified, stored and answered 202 by a
//! process of its own; then once more, and the process is killed in the middle: each 202 must be in the table.
//! On PostgreSQL where `FROGNANO_TEST_POSTGRES_URL` names an administrator (FROGNANO_TEST_POSTGRES_FSYNC=on tests/postgres/up FOLDER), else on SQLite.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code, reason = "a bench may stop at once and say why")]

#[path = "../stories/databases.rs"]
mod databases;
#[path = "../stories/house.rs"]
mod house;
#[path = "../stories/crash_matrix/parts.rs"]
mod parts;

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frognano_bot::demo::Kind;
use frognano_bot::demo::forge::Delivery;
use frognano_bot::store::Store;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use databases::Database;
use house::{House, SECRET};
use parts::{Part, Process};

const SENDERS: usize = 24;
const DELIVERIES: i64 = 20_000;
const BEFORE_THE_KILL: usize = 3_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let house = House::new(Kind::GitHub).await;
        let (house, part) = match Database::postgres() {
            Some(database) => (house.on(database), Part::Web),
            None => (house, Part::Whole),
        };
        let issue = house.open_issue();
        let label = Arc::new(Label::of(&house.label(issue)[0]));
        let door = Process::start(&house, part, None);
        measure(&label, &door, part).await;
        drop(door);
        let door = Process::start(&house, part, None);
        kill_in_the_middle(&house, &label, door).await;
    });
}

async fn measure(label: &Arc<Label>, door: &Process, part: Part) {
    let next = Arc::new(AtomicI64::new(0));
    send_many(label, &door.door, &next, 1_000, |_, _| {}).await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let began = Instant::now();
    let note = times.clone();
    send_many(label, &door.door, &next, 1_000 + DELIVERIES, move |_, took| note.lock().unwrap().push(took)).await;
    let each_second = DELIVERIES as f64 / began.elapsed().as_secs_f64();
    let mut times: Vec<Duration> = times.lock().unwrap().clone();
    times.sort();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1000.0;
    let database = if matches!(part, Part::Web) { "PostgreSQL" } else { "SQLite" };
    println!(
        "{database}: deliveries verified, stored, 202, {SENDERS} senders: {each_second:.0} a second ({:.2} of the goal of 2000), median {:.1} ms, p99 {:.1} ms ({:.2} of the goal of 50)",
        each_second / 2000.0,
        at(50),
        at(99),
        at(99) / 50.0
    );
}

async fn kill_in_the_middle(house: &House, label: &Arc<Label>, door: Process) {
    const FROM: i64 = 1_000_000;
    let (next, taken) = (Arc::new(AtomicI64::new(FROM)), Arc::new(Mutex::new(HashSet::new())));
    let note = taken.clone();
    let address = door.door.clone();
    let sending = send_many(label, &address, &next, i64::MAX, move |number, _| {
        note.lock().unwrap().insert(number);
    });
    let killing = async {
        while taken.lock().unwrap().len() < BEFORE_THE_KILL {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::task::spawn_blocking(move || door.kill()).await.unwrap();
    };
    tokio::join!(sending, killing);
    let store = Store::open(&house.database()).await.unwrap();
    let there = store.deliveries("here", i64::MAX / 2).await.unwrap();
    let there = there.into_iter().map(|[id, ..]| id).collect::<HashSet<_>>();
    let taken = taken.lock().unwrap().clone();
    let lost = taken.iter().filter(|number| !there.contains(&label.id(**number))).count();
    println!("killed in the middle: {} answered 202 before, {lost} of them not in the table", taken.len());
    assert_eq!(lost, 0);
    store.close().await;
}

/// Sends until the number is reached or the door is gone; each 202 is told with how long it took.
async fn send_many(label: &Arc<Label>, door: &str, next: &Arc<AtomicI64>, to: i64, took: impl Fn(i64, Duration) + Send + Sync + 'static) {
    let address = door.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let took = Arc::new(took);
    let senders = (0..SENDERS).map(|_| {
        let (label, address, next, took) = (label.clone(), address.clone(), next.clone(), took.clone());
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut answer = vec![0; 4096];
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= to {
                    return;
                }
                let request = label.request(number);
                let began = Instant::now();
                if stream.write_all(&request).await.is_err() {
                    return;
                }
                let Some(read) = stream.read(&mut answer).await.ok().filter(|read| *read > 0) else { return };
                assert!(answer[..read].starts_with(b"HTTP/1.1 202"), "{}", String::from_utf8_lossy(&answer[..read]));
                took(number, began.elapsed());
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
}

/// A label's delivery, from which others are made: each of an issue and with an id of its own, signed anew.
struct Label {
    head: String,
    id: String,
    body: Value,
}

impl Label {
    fn of(delivery: &Delivery) -> Self {
        let is_ours = |name: &str| name.ends_with("-Delivery") || name.to_lowercase().contains("signature");
        let (ours, others): (Vec<_>, Vec<_>) = delivery.headers.iter().partition(|(name, _)| is_ours(name));
        let head = others.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let id = ours.iter().find(|(name, _)| name.ends_with("-Delivery")).unwrap().1.clone();
        Self { head, id, body: serde_json::from_slice(&delivery.body).unwrap() }
    }

    fn id(&self, number: i64) -> String {
        format!("{}-{number}", self.id)
    }

    fn request(&self, number: i64) -> Vec<u8> {
        let mut body = self.body.clone();
        body["issue"]["number"] = (number + 2).into();
        let body = serde_json::to_vec(&body).unwrap();
        let mut signature = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        signature.update(&body);
        let signature = hex::encode(signature.finalize().into_bytes());
        let mut request = format!(
            "POST /webhooks/here HTTP/1.1\r\nhost: localhost\r\n{}X-GitHub-Delivery: {}\r\nX-Hub-Signature-256: sha256={signature}\r\ncontent-length: {}\r\n\r\n",
            self.head,
            self.id(number),
            body.len()
        )
        .into_bytes();
        request.extend(body);
        request
    }
}
