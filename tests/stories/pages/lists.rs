//! The lists behind the pages, on both databases: no row is lost or doubled between two parts, and nobody sees what is not theirs.

use frognano_bot::app::TimeIds;
use frognano_bot::domain::{Actor, Origin, RepoRef, SystemClock, Trigger};
use frognano_bot::store::{Part, RunFilter, Store};
use sqlx::{AnyConnection, Connection as _};

use crate::databases::Database;

const ROWS: usize = 10;

/// A job of a repository.
async fn ask(store: &Store, number: i64, id: i64) {
    let repo = RepoRef { forge: "here".to_owned(), id: id.to_string(), path: format!("group/n{id}") };
    let trigger =
        Trigger { repo, number: number + 1, title: format!("issue {number}"), body: String::new(), url: "https://h/i".to_owned() };
    let origin = Origin { key: format!("k{number}"), by: Actor { id: "1".into(), login: "ada".into(), is_bot: false }, round: None };
    store.make_job(&trigger, &origin, &SystemClock, &TimeIds).await.unwrap();
}

/// 47 jobs of three repositories; those of the third ended as proposals of mallory.
async fn filled(database: &Database) -> Store {
    let store = database.open().await;
    for number in 0..47_i64 {
        ask(&store, number, number % 3).await;
    }
    let mut connection = AnyConnection::connect(&database.url).await.unwrap();
    for statement in [
        // Many at the same moment: the place in the list is not told by the time alone.
        "update jobs set queued_ms = 1700000000000 + (issue / 10) * 1000, run = 'r' || issue, requested_by = 'ada'",
        "update jobs set state = 'done', outcome = 'proposed', proof = 'proved', requested_by = 'mallory', tokens = 100, \
         started_ms = queued_ms, done_ms = queued_ms + 60000, detail = 'https://h/pr' where repo_id = '2'",
        "insert into reviews (forge, repo_id, repo_path, issue, run, state, due_ms, told) \
         select forge, repo_id, repo_path, issue, run, 'waiting', 0, 0 from jobs where repo_id = '2'",
        "insert into fates (forge, repo_id, repo_path, issue, run, opened_ms, became, due_ms) \
         select forge, repo_id, repo_path, issue, run, done_ms, 'open', 0 from jobs where repo_id = '2'",
        "insert into repositories (forge, repo_id, path) values ('here', '0', 'group/n0'), ('here', '1', 'group/n1'), ('here', '2', 'group/n2') \
         on conflict (forge, repo_id) do nothing",
    ] {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    store
}

/// The whole list, part by part; and back again, which must be the same.
async fn all(store: &Store, filter: &RunFilter) -> Vec<i64> {
    let (mut part, mut forth, mut last) = (Part::Newest, Vec::new(), None);
    loop {
        let page = store.runs_page(filter, &part, ROWS).await.unwrap();
        forth.extend(page.runs.iter().map(|row| row.issue));
        let Some(end) = page.runs.last().map(frognano_bot::store::RunRow::cursor).filter(|_| page.has_older) else {
            last = page.runs.first().map(frognano_bot::store::RunRow::cursor).or(last);
            break;
        };
        part = Part::OlderThan(end);
    }
    let Some(mut place) = last else { return forth };
    let mut back = forth[forth.len() - forth.len().min((forth.len() - 1) % ROWS + 1)..].to_vec();
    loop {
        let page = store.runs_page(filter, &Part::NewerThan(place), ROWS).await.unwrap();
        back.splice(0..0, page.runs.iter().map(|row| row.issue));
        match page.runs.first().filter(|_| page.has_newer) {
            Some(first) => place = first.cursor(),
            None => break,
        }
    }
    assert_eq!(forth, back);
    forth
}

#[tokio::test]
async fn every_run_is_in_the_list_once_forth_and_back_and_filters_narrow_it() {
    for database in Database::each() {
        let store = filled(&database).await;
        let whole = all(&store, &RunFilter::default()).await;
        let mut sorted = whole.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=47).collect::<Vec<_>>(), "each once: {whole:?}");
        assert_eq!(whole.first().map(|issue| issue / 10), Some(4), "the newest first");
        let some = |filter: RunFilter| filter;
        let named = |path: &str| some(RunFilter { repository: Some(path.to_owned()), ..RunFilter::default() });
        assert_eq!(all(&store, &named("Group/N1")).await.len(), 16);
        assert_eq!(all(&store, &named("group/n9")).await.len(), 0);
        assert_eq!(all(&store, &RunFilter { person: Some("mallory".into()), ..RunFilter::default() }).await.len(), 15);
        assert_eq!(all(&store, &RunFilter { outcome: Some("queued".into()), ..RunFilter::default() }).await.len(), 32);
        let (from_ms, until_ms) = (Some(1_700_000_001_000), Some(1_700_000_003_000));
        assert_eq!(all(&store, &RunFilter { from_ms, until_ms, ..RunFilter::default() }).await.len(), 20);
        store.close().await;
    }
}

#[tokio::test]
async fn who_sees_one_repository_sees_nothing_of_the_others_in_lists_sums_and_searches() {
    for database in Database::each() {
        let store = filled(&database).await;
        let within = vec!["here/1".to_owned()];
        let seen = RunFilter { within: Some(within.clone()), ..RunFilter::default() };
        let issues = all(&store, &seen).await;
        assert!(issues.len() == 16 && issues.iter().all(|issue| (issue - 1) % 3 == 1), "{issues:?}");
        for hidden in [
            RunFilter { repository: Some("group/n2".into()), ..seen.clone() },
            RunFilter { person: Some("mallory".into()), ..seen.clone() },
            RunFilter { outcome: Some("proposed".into()), ..seen.clone() },
            RunFilter { within: Some(Vec::new()), ..RunFilter::default() },
            RunFilter { within: Some(vec!["here".into(), "/".into(), "here/1' or '1'='1".into()]), ..RunFilter::default() },
        ] {
            assert_eq!(all(&store, &hidden).await, Vec::<i64>::new(), "{hidden:?}");
        }
        let two = RunFilter { within: Some(vec!["here/1".into(), "here/2".into()]), ..RunFilter::default() };
        assert_eq!(all(&store, &two).await.len(), 31);
        let proposed = all(&store, &RunFilter { outcome: Some("proposed".into()), ..RunFilter::default() }).await[0];
        let name = format!("r{proposed}");
        assert!(store.run_detail(&name, None).await.unwrap().is_some());
        assert!(store.run_detail(&name, Some(&within)).await.unwrap().is_none());
        let (mine, whole) = (store.sums(0, Some(&within)).await.unwrap(), store.sums(0, None).await.unwrap());
        assert_eq!((mine.tallies.len(), mine.days.len(), mine.fates.len()), (0, 0, 0), "{mine:?}");
        let tally = &whole.tallies[0];
        assert_eq!((tally.runs, tally.tokens, tally.worked_ms, tally.proof.as_deref()), (15, 1500, 900_000, Some("proved")));
        assert_eq!((whole.days.iter().map(|day| day.runs).sum::<i64>(), whole.fates[0].open), (15, 15));
        assert_eq!((store.open_reviews(Some(&within)).await.unwrap().len(), store.open_reviews(None).await.unwrap().len()), (0, 15));
        let now = store.now().await.unwrap();
        assert_eq!((now.waiting.values().sum::<i64>(), now.ended.len(), now.reviews.len()), (32, 15, 1));
        let now = now.within(|repository| within.iter().any(|seen| seen == repository));
        assert_eq!((now.waiting.values().sum::<i64>(), now.ended.len(), now.reviews.len(), now.next.len()), (16, 0, 0, 16));
        // Nor is one's own pushed out by what goes on elsewhere.
        for number in 100..205 {
            ask(&store, number, 2).await;
        }
        let mut connection = AnyConnection::connect(&database.url).await.unwrap();
        sqlx::query("update jobs set state = 'done', outcome = 'refused', done_ms = queued_ms where repo_id = '2' or issue = 2")
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
        let ended = store.ended_within(&within, 10).await.unwrap();
        assert_eq!(ended.iter().map(|row| row.issue).collect::<Vec<_>>(), [2]);
        store.close().await;
    }
}
