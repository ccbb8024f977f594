//! What is taken in by one statement (PostgreSQL) leaves the same rows as what is taken in step by step, and is as careful.

use frognano_bot::domain::{Actor, Event, Verb};
use frognano_bot::store::Intake;
use serde_json::Value;

use crate::databases::{Database, psql};
use crate::queue::{event, take_in};

/// The rows of a delivery, its job and their events, without what is of one delivery alone.
fn rows(database: &Database, delivery: &str) -> Vec<Value> {
    let read = |statement: &str| -> Vec<Value> {
        psql(&database.url, statement).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let mut rows = read(&format!("select to_jsonb(d) from deliveries d where delivery = '{delivery}'"));
    rows.extend(read(&format!("select to_jsonb(j) from jobs j join deliveries d on d.job = j.id where d.delivery = '{delivery}'")));
    assert_eq!(rows.len(), 2, "a delivery and its job");
    let job = rows[1]["id"].as_str().unwrap().to_owned();
    let events = read(&format!("select event from audit_events where event::jsonb ->> 'job' = '{job}' order by arrival"));
    let waiting = psql(&database.url, "select count(*) from audit_events where arrival not in (select arrival from audit_unsealed)");
    assert_eq!((events.len(), waiting.as_str().trim()), (2, "0"), "both events wait for their row");
    rows.extend(events);
    rows.iter_mut().for_each(strip);
    rows
}

fn strip(value: &mut Value) {
    let of_one = ["id", "job", "delivery", "issue", "number", "received_ms", "queued_ms", "asked", "clock", "at_ms", "ticks_ms", "turn"];
    if let Value::Object(object) = value {
        for (key, value) in object {
            if of_one.contains(&key.as_str()) {
                assert!(!value.is_null(), "{key} is written");
                *value = Value::Null;
            } else {
                strip(value);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_is_taken_in_at_once_leaves_the_same_rows() {
    let Some(database) = Database::postgres() else { return };
    let store = database.open().await;
    let label = |number| Event {
        actor: Some(Actor { id: "3".to_owned(), login: "ada".to_owned(), is_bot: false }),
        ..event(Verb::Start, number, "a \0 title")
    };
    for number in 1..=4 {
        let taken = take_in(&store, &format!("d{number}"), &label(number), "{\"a\": 1}").await;
        assert!(matches!(taken, Intake::Job(_)), "{taken:?}");
    }
    let last =
        psql(&database.url, "select count(*) from pg_stat_activity where datname = current_database() and query like 'with job as%'");
    assert_ne!(last.trim(), "0", "the last was taken in by one statement");
    assert_eq!(rows(&database, "d1"), rows(&database, "d4"));
    let turns = psql(&database.url, "select turn from jobs order by issue");
    assert_eq!(turns.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    assert_eq!(take_in(&store, "d4", &label(4), "{}").await, Intake::Repeated);
    assert_eq!(take_in(&store, "d4", &label(5), "{}").await, Intake::Repeated, "the same delivery of another issue makes no job");
    assert_eq!(take_in(&store, "d5", &label(4), "{}").await, Intake::Waiting);
    let counts = psql(&database.url, "select (select count(*) from jobs), (select count(*) from deliveries)");
    assert_eq!(counts.trim(), "4|5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_delivery_that_comes_many_times_at_the_same_moment_is_taken_in_once() {
    let Some(database) = Database::postgres() else { return };
    let store = database.open().await;
    take_in(&store, "first", &event(Verb::Start, 1000, "t"), "{}").await;
    for round in 0..10 {
        // Of one issue or of two: one delivery is one job.
        let senders = (0..8).map(|sender| {
            let store = store.clone();
            tokio::spawn(async move { take_in(&store, &format!("d{round}"), &event(Verb::Start, 2 * round + sender % 2, "t"), "{}").await })
        });
        let mut jobs = 0;
        for sender in senders.collect::<Vec<_>>() {
            match sender.await.unwrap() {
                Intake::Job(_) => jobs += 1,
                other => assert_eq!(other, Intake::Repeated),
            }
        }
        assert_eq!(jobs, 1, "round {round}");
    }
    let counts =
        psql(&database.url, "select (select count(*) from jobs), (select count(*) from deliveries), (select count(*) from audit_events)");
    assert_eq!(counts.trim(), "11|11|22");
}
