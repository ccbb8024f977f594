//! The figures of the audit chain on this machine: `cargo bench --bench audit`. On PostgreSQL too where `FROGNANO_TEST_POSTGRES_URL` names an
//! administrator. `FROGNANO_BENCH_ROWS` says how many rows in place of a million.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code, reason = "a bench may stop at once and say why")]

#[path = "../stories/databases.rs"]
mod databases;

use std::time::{Duration, Instant};

use frognano_bot::audit::{Kind, Note, SigningKey};
use frognano_bot::store::Store;
use serde_json::json;
use sqlx::{AnyConnection, Connection as _};

use databases::Database;

const APPENDS: u32 = 300;
const PIECE: i64 = 50_000;

fn main() {
    let rows = std::env::var("FROGNANO_BENCH_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for database in Database::each() {
            chain(&database, rows).await;
        }
    });
}

async fn chain(database: &Database, rows: i64) {
    let kind = if database.url.starts_with("postgres") { "PostgreSQL" } else { "SQLite" };
    let store = database.open().await;
    let key = SigningKey::read(&SigningKey::generate().unwrap()).unwrap();
    for size in [1_000, rows / 10, rows] {
        let filled = Instant::now();
        fill(database, &store, size).await;
        let (filled, (append, seal)) = (filled.elapsed(), append(&store).await);
        println!("{kind}: {size} rows: an event is appended within {append:.2?}, sealed within {seal:.2?} ({filled:.1?} to come here)");
    }
    let (began, last) = (Instant::now(), store.sign_the_end(&key).await.unwrap().unwrap().checkpoint().unwrap().number);
    let checked = store.check_chain(Some(&key.public()), &[], |_, _| {}).await.unwrap();
    assert_eq!(checked.number, last);
    let each = began.elapsed() / u32::try_from(last).unwrap();
    println!("{kind}: all of {last} rows, their events and the signature are verified in {:.1?}, {each:.1?} a row", began.elapsed());
    store.close().await;
}

/// The mean of an event in a transaction of its own, and of its row in a batch.
async fn append(store: &Store) -> (Duration, Duration) {
    store.seal().await.unwrap();
    let began = Instant::now();
    for number in 0..APPENDS {
        store.witness(&Note::new(Kind::Stage, json!({"number": number})).of_run("measured")).await.unwrap();
    }
    let (append, began) = (began.elapsed() / APPENDS, Instant::now());
    store.seal().await.unwrap();
    (append, began.elapsed() / APPENDS)
}

/// Events of many runs, written in pieces and sealed as the service does, until there are so many rows.
async fn fill(database: &Database, store: &Store, rows: i64) {
    let mut connection = AnyConnection::connect(&database.url).await.unwrap();
    let mut there = store.chain_state().await.unwrap().last;
    while there < rows {
        let piece = PIECE.min(rows - there);
        let series = format!("with recursive n(i) as (select {there} union all select i + 1 from n where i < {})", there + piece - 1);
        let event = "'{\"at_ms\":1764500000000,\"facts\":{\"attempt\":1,\"step\":' || i || '},\"job\":null,\"kind\":\"turn\",\"number\":7,\
                     \"process\":\"0193\",\"repository\":\"here/1\",\"ticks_ms\":5,\"who\":{\"is\":\"model\"}}'";
        let insert = format!("insert into audit_events (run, event) {series} select 'run' || (i / 50), {event} from n");
        sqlx::query(sqlx::AssertSqlSafe(insert)).execute(&mut connection).await.unwrap();
        store.seal().await.unwrap();
        there += piece;
    }
    connection.close().await.unwrap();
}
