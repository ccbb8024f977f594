//! The figures of the pages on this machine, with 100,000 runs: `cargo bench --bench pages`. On PostgreSQL too where
//! `FROGNANO_TEST_POSTGRES_URL` names an administrator (tests/postgres/up starts a server).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code, reason = "a bench may stop at once and say why")]

#[path = "../stories/databases.rs"]
mod databases;
#[path = "../stories/house.rs"]
mod house;

use std::time::{Duration, Instant};

use frognano_bot::demo::Kind;
use frognano_bot::store::{Part, RunFilter, Store};
use sqlx::{AnyConnection, Connection as _};

use databases::Database;
use house::House;

const RUNS: i64 = 100_000;
const ASKED: usize = 300;
/// What p99 of a list of runs must be below.
const GOAL_MS: f64 = 100.0;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for database in Database::each() {
            let kind = if database.url.starts_with("postgres") { "PostgreSQL" } else { "SQLite" };
            let house = House::new(Kind::Gitea).await.on(database);
            let service = house.service().await;
            fill(&house.database()).await;
            over_http(kind, &service.door).await;
            narrowed(kind, &service.store).await;
            service.end().await;
        }
    });
}

/// Runs of 200 repositories and 500 people over 100 days, each with a report of 4,000 bytes.
async fn fill(url: &str) {
    let mut connection = AnyConnection::connect(url).await.unwrap();
    let began = Instant::now();
    sqlx::query(
        "with recursive n(i) as (select cast(1 as bigint) union all select i + 1 from n where i < $1) \
         insert into jobs (id, forge, repo_id, repo_path, issue, issue_url, title, body, state, stage, queued_ms, not_before_ms, requested_by, \
         run, lease_until_ms, fence, leases, checkpoint, outcome, reason, detail, report, started_ms, done_ms, tokens, proof) \
         select 'j' || i, 'here', cast(i % 200 as text), 'group/n' || (i % 200), i, 'https://h/i', 'issue ' || i, $2, 'done', 'done', \
         1780000000000 + i * 86400, 0, 'person' || (i % 500), 'r' || i, 0, 1, 1, '{}', \
         case i % 4 when 0 then 'proposed' when 1 then 'no_patch' when 2 then 'refused' else 'abandoned' end, 'reason' || (i % 7), 'detail', $3, \
         1780000000000 + i * 86400, 1780000060000 + i * 86400, 1000, case i % 4 when 0 then 'proved' end from n",
    )
    .bind(RUNS)
    .bind("b".repeat(1000))
    .bind("r".repeat(4000))
    .execute(&mut connection)
    .await
    .unwrap();
    sqlx::query(
        "insert into repositories (forge, repo_id, path) select distinct forge, repo_id, repo_path from jobs where repo_id <> '' \
         on conflict (forge, repo_id) do nothing",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    if url.starts_with("postgres") {
        sqlx::query("analyze").execute(&mut connection).await.unwrap();
    }
    println!("{RUNS} runs written within {:.1} s", began.elapsed().as_secs_f64());
    connection.close().await.unwrap();
}

async fn over_http(kind: &str, door: &str) {
    let base = door.trim_end_matches("/webhooks/here");
    let client = reqwest::Client::new();
    for (what, path) in [
        ("/runs, first page", "/runs".to_owned()),
        ("/runs of a repository", "/runs?repository=group/n7".to_owned()),
        ("/runs of a person", "/runs?person=person7".to_owned()),
        ("/runs of a person and an outcome", "/runs?person=person7&outcome=refused".to_owned()),
        ("/runs of an outcome", "/runs?outcome=proposed".to_owned()),
        ("/runs of nobody", "/runs?person=nobody".to_owned()),
        ("/runs of one day", "/runs?from=2026-06-20&until=2026-06-20".to_owned()),
        ("/runs, deep page", format!("/runs?older={}.j{}", 1_780_000_000_000_i64 + RUNS / 20 * 86_400, RUNS / 20)),
        ("/runs, newer from the end", "/runs?newer=1780000086400.j1".to_owned()),
        ("/", "/".to_owned()),
        ("/runs/{run}", "/runs/r50000".to_owned()),
    ] {
        let mut times = Vec::with_capacity(ASKED);
        for _ in 0..ASKED {
            let began = Instant::now();
            let answer = client.get(format!("{base}{path}")).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{path}");
            let body = answer.text().await.unwrap();
            times.push(began.elapsed());
            assert!(body.contains("</html>"), "{path}");
        }
        told(kind, what, times);
    }
    let began = Instant::now();
    let answer = client.get(format!("{base}/repositories?days=90")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    println!("{kind} /repositories, 90 days: {:.0} ms", began.elapsed().as_secs_f64() * 1000.0);
}

/// The list of somebody who sees 3 repositories of 200, and of somebody who sees 150.
async fn narrowed(kind: &str, store: &Store) {
    for seen in [3, 150] {
        let within = (0..seen).map(|id| format!("here/{id}")).collect();
        let filter = RunFilter { within: Some(within), ..RunFilter::default() };
        let mut times = Vec::with_capacity(ASKED);
        for _ in 0..ASKED {
            let began = Instant::now();
            assert_eq!(store.runs_page(&filter, &Part::Newest, 50).await.unwrap().runs.len(), 50);
            times.push(began.elapsed());
        }
        told(kind, &format!("the list within {seen} repositories"), times);
    }
}

fn told(kind: &str, what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1000.0;
    println!("{kind} {what}: median {:.1} ms, p99 {:.1} ms ({:.2} of the goal of {GOAL_MS})", at(50), at(99), at(99) / GOAL_MS);
}
