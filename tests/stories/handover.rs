//! A run goes on with the next worker, and the queue with the next version: what is kept for them in the database, and what they leave alone.

use std::sync::atomic::{AtomicI64, Ordering};

use frognano_bot::domain::{Clock as _, SystemClock, Verb};
use frognano_bot::store::{Intake, RunFiles, Store, StoreError};

use crate::databases::Database;
use crate::queue::{ClockOf, claim, end, event, fill, take_in};

async fn execute(database: &Database, statement: &'static str) {
    use sqlx::Connection as _;
    let mut connection = sqlx::AnyConnection::connect(&database.url).await.unwrap();
    sqlx::query(statement).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_version_works_beside_the_next_one_and_not_on_what_is_no_longer_its_own() {
    for database in Database::each() {
        let store = database.open().await;
        fill(&store, 1).await;
        store.close().await;
        execute(&database, "alter table jobs add column later text").await;
        execute(&database, "update jobs set checkpoint = '{\"later\": {\"a\": 1}}'").await;
        execute(
            &database,
            "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
             select 9998, 'later', success, checksum, 0 from _sqlx_migrations where version = 1",
        )
        .await;
        let store = database.open().await;
        assert!(matches!(take_in(&store, "d2", &event(Verb::Start, 2, "t"), "{}").await, Intake::Job(_)));
        for _ in 0..2 {
            end(&store, &claim(&store, "worker", &SystemClock).await.unwrap()).await;
        }
        store.close().await;
        execute(&database, "update _sqlx_migrations set description = 'breaks later' where version = 9998").await;
        let refused = Store::open(&database.url).await.unwrap_err().to_string();
        assert!(refused.contains("a newer version") && refused.contains("breaks later"), "{refused}");
    }
}

#[test]
fn a_migration_only_adds_what_the_version_before_it_need_not_know() {
    const SINCE: &str = "0015";
    let folders = ["migrations", "migrations/sqlite", "migrations/postgres"];
    for entry in folders.into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten()) {
        let name = entry.file_name().into_string().unwrap();
        if name.as_str() < SINCE || name.contains("_breaks_") || entry.path().is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join(" ").to_lowercase();
        // What a trigger or a function does is no statement of the migration.
        let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
        let code = code.split(" begin ").map(|part| part.split_once("; end").map_or(part, |(_, rest)| rest)).collect::<String>();
        for statement in code.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            let is_new =
                ["create table ", "create index ", "create unique index ", "create trigger ", "create function ", "insert into ", "$$"]
                    .iter()
                    .any(|start| statement.starts_with(start));
            let may_be_left_out = statement.starts_with("alter table ")
                && statement.contains(" add column ")
                && (!statement.contains(" not null") || statement.contains(" default "));
            let drops_an_index = statement.starts_with("drop index ");
            assert!(is_new || may_be_left_out || drops_an_index, "{name}: {statement:?}: name it NNNN_breaks_…, or add only");
        }
    }
}

/// Adds what a step keeps, as a worker does.
async fn add(files: &RunFiles, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let mut addition = files.add().await?;
    addition.append(name, bytes).await?;
    addition.commit().await
}

#[tokio::test]
async fn what_a_run_keeps_is_found_by_the_next_worker_and_gone_with_the_job() {
    for database in Database::each() {
        let store = database.open().await;
        fill(&store, 2).await;
        let clock = ClockOf { shows: AtomicI64::new(SystemClock.now_ms()), is_a_machines: false };
        let first = claim(&store, "first", &clock).await.unwrap();
        let files = store.run_files(&first.lease);
        let large = (0..3_000_000_u32).map(|byte| (byte % 251) as u8).collect::<Vec<_>>();
        add(&files, "kept/journal.jsonl", b"one\n").await.unwrap();
        add(&files, "kept/journal.jsonl", b"two\n").await.unwrap();
        add(&files, "attempt-2/kept/blobs/b", &large).await.unwrap();
        let mut given_up = files.add().await.unwrap();
        given_up.append("kept/journal.jsonl", b"three\n").await.unwrap();
        drop(given_up);

        clock.shows.fetch_add(61_000, Ordering::Relaxed);
        let second = claim(&store, "second", &clock).await.unwrap();
        assert_eq!(second.run, first.run);
        assert!(matches!(add(&files, "kept/journal.jsonl", b"late\n").await, Err(StoreError::LeaseLost(_))));
        let found = store.run_files(&second.lease);
        assert_eq!(found.names("kept/").await.unwrap(), ["kept/journal.jsonl"]);
        assert_eq!(found.read("kept/journal.jsonl").await.unwrap(), b"one\ntwo\n");
        assert_eq!(found.read("attempt-2/kept/blobs/b").await.unwrap(), large);
        let other = claim(&store, "second", &clock).await.unwrap();
        assert_eq!(store.run_files(&other.lease).names("").await.unwrap(), Vec::<String>::new(), "each run has its own");

        let mut anew = found.add().await.unwrap();
        anew.forget("kept/").await.unwrap();
        anew.commit().await.unwrap();
        assert_eq!(found.names("").await.unwrap(), ["attempt-2/kept/blobs/b"]);
        end(&store, &second).await;
        assert_eq!(found.names("").await.unwrap(), Vec::<String>::new());
        store.close().await;
    }
}
