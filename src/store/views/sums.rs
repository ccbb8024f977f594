//! How the repositories fare, and which pull requests of ours are open.

use sqlx::Row as _;

use super::sql::Sql;
use crate::store::{Store, StoreError};

/// More rows of sums are not read.
const MOST_SUMS: i64 = 20_000;
/// More open pull requests are not shown.
const MOST_REVIEWS: i64 = 500;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// How the repositories fared within some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// The runs that ended, by repository, outcome and reason.
    pub tallies: Vec<Tally>,
    /// The same by day and outcome, of all repositories together.
    pub days: Vec<Day>,
    /// What became of the pull requests that were opened.
    pub fates: Vec<Fates>,
}

/// Runs of one repository that ended alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// `forge/id`.
    pub repository: String,
    /// The repository's path.
    pub path: String,
    /// The outcome's stable name.
    pub outcome: String,
    /// The reason's stable name; empty for proposals, and for what somebody stopped.
    pub reason: String,
    /// What the tests prove, for proposals.
    pub proof: Option<String>,
    /// How many.
    pub runs: i64,
    /// From their begin to their end, together, in milliseconds.
    pub worked_ms: i64,
    /// From the question to their begin, together, in milliseconds.
    pub waited_ms: i64,
    /// The tokens that they cost, together.
    pub tokens: i64,
}

/// Runs that ended on one day with one outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Day {
    /// Days (UTC) since the Unix epoch.
    pub day: i64,
    /// The outcome's stable name.
    pub outcome: String,
    /// How many.
    pub runs: i64,
}

/// What became of the pull requests of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fates {
    /// `forge/id`.
    pub repository: String,
    /// Neither merged nor closed yet.
    pub open: i64,
    /// Merged.
    pub merged: i64,
    /// Closed and not merged.
    pub closed: i64,
    /// Of the merged ones: reverted since.
    pub reverted: i64,
    /// Called a false green by a person.
    pub wrong: i64,
    /// Of the merged ones: changed by people before.
    pub changed: i64,
    /// From the opening to the end, together, in milliseconds, of those that ended.
    pub ended_after_ms: i64,
}

/// An open pull request of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReview {
    /// `forge/id`.
    pub repository: String,
    /// The repository's path.
    pub path: String,
    /// The issue that it is for.
    pub issue: i64,
    /// The run that opened it.
    pub run: String,
    /// Its number, once it was looked at.
    pub number: Option<i64>,
    /// waiting or approved.
    pub state: String,
    /// Who approved its head.
    pub approved_by: Option<String>,
    /// What its status says.
    pub said: Option<String>,
    /// The issue's title, at most 200 characters.
    pub title: String,
    /// Its address.
    pub address: Option<String>,
    /// Who asked for it.
    pub requested_by: Option<String>,
    /// Who was asked to review it: logins and `organization/team`.
    pub asked: Vec<String>,
    /// When it was opened, in milliseconds since the Unix epoch.
    pub opened_ms: Option<i64>,
}

impl Store {
    /// How the repositories fared since this time.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sums(&self, since_ms: i64, within: Option<&[String]>) -> Result<Sums, StoreError> {
        let mut tallies = Sql::new(
            "select forge, repo_id, max(repo_path) as path, outcome, reason, proof, count(*) as runs, \
             cast(sum(done_ms - coalesce(started_ms, done_ms)) as bigint) as worked_ms, \
             cast(sum(coalesce(started_ms, done_ms) - queued_ms) as bigint) as waited_ms, cast(sum(tokens) as bigint) as tokens from \
             (select forge, repo_id, repo_path, coalesce(outcome, '') as outcome, queued_ms, started_ms, done_ms, tokens, \
             case when outcome in ('cancelled', 'proposed') then '' else coalesce(reason, '') end as reason, \
             case when outcome = 'proposed' then proof end as proof from jobs where state = 'done' and done_ms >= ",
        );
        tallies.bind(since_ms).and_within(within).push(") ended group by forge, repo_id, outcome, reason, proof order by runs desc limit ");
        tallies.bind(MOST_SUMS);
        let mut days = Sql::new("select done_ms / ");
        days.bind(DAY_MS)
            .push(" as day, coalesce(outcome, '') as outcome, count(*) as runs from jobs where state = 'done' and done_ms >= ");
        days.bind(since_ms).and_within(within).push(" group by 1, 2 order by 1, 2");
        let mut fates = Sql::new(
            "select forge, repo_id, count(case when became = 'open' then 1 end) as open, count(case when became = 'merged' then 1 end) as merged, \
             count(case when became = 'closed' then 1 end) as closed, count(reverted_ms) as reverted, count(wrong) as wrong, \
             count(case when became = 'merged' and lines_changed > 0 then 1 end) as changed, \
             cast(coalesce(sum(ended_ms - opened_ms), 0) as bigint) as ended_after_ms from fates where opened_ms >= ",
        );
        fates.bind(since_ms).and_within(within).push(" group by forge, repo_id");
        Ok(Sums {
            tallies: tallies.query().fetch_all(&self.pool).await?.iter().map(tally).collect::<Result<_, _>>()?,
            days: days.query().fetch_all(&self.pool).await?.iter().map(day).collect::<Result<_, _>>()?,
            fates: fates.query().fetch_all(&self.pool).await?.iter().map(of_fates).collect::<Result<_, _>>()?,
        })
    }

    /// The open pull requests of ours, the oldest first, at most 500.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn open_reviews(&self, within: Option<&[String]>) -> Result<Vec<OpenReview>, StoreError> {
        let mut sql = Sql::new(
            "select * from (select r.forge as forge, r.repo_id as repo_id, r.repo_path as repo_path, r.issue as issue, r.run as run, \
             r.number as number, r.state as state, r.approved_by as approved_by, r.said as said, r.asked as asked, \
             substr(coalesce(j.title, ''), 1, 200) as title, \
             j.detail as address, j.requested_by as requested_by, j.done_ms as opened_ms \
             from reviews r left join jobs j on j.run = r.run where r.state in ('waiting', 'approved')) known where 1 = 1",
        );
        sql.and_within(within).push(" order by opened_ms, run limit ").bind(MOST_REVIEWS);
        sql.query().fetch_all(&self.pool).await?.iter().map(open_review).collect()
    }
}

fn named(row: &sqlx::any::AnyRow) -> Result<String, StoreError> {
    Ok(format!("{}/{}", row.try_get::<String, _>("forge")?, row.try_get::<String, _>("repo_id")?))
}

fn tally(row: &sqlx::any::AnyRow) -> Result<Tally, StoreError> {
    Ok(Tally {
        repository: named(row)?,
        path: row.try_get("path")?,
        outcome: row.try_get("outcome")?,
        reason: row.try_get("reason")?,
        proof: row.try_get("proof")?,
        runs: row.try_get("runs")?,
        worked_ms: row.try_get("worked_ms")?,
        waited_ms: row.try_get("waited_ms")?,
        tokens: row.try_get("tokens")?,
    })
}

fn day(row: &sqlx::any::AnyRow) -> Result<Day, StoreError> {
    Ok(Day { day: row.try_get("day")?, outcome: row.try_get("outcome")?, runs: row.try_get("runs")? })
}

fn of_fates(row: &sqlx::any::AnyRow) -> Result<Fates, StoreError> {
    Ok(Fates {
        repository: named(row)?,
        open: row.try_get("open")?,
        merged: row.try_get("merged")?,
        closed: row.try_get("closed")?,
        reverted: row.try_get("reverted")?,
        wrong: row.try_get("wrong")?,
        changed: row.try_get("changed")?,
        ended_after_ms: row.try_get("ended_after_ms")?,
    })
}

fn open_review(row: &sqlx::any::AnyRow) -> Result<OpenReview, StoreError> {
    Ok(OpenReview {
        repository: named(row)?,
        path: row.try_get("repo_path")?,
        issue: row.try_get("issue")?,
        run: row.try_get("run")?,
        number: row.try_get("number")?,
        state: row.try_get("state")?,
        approved_by: row.try_get("approved_by")?,
        said: row.try_get("said")?,
        title: row.try_get("title")?,
        address: row.try_get("address")?,
        requested_by: row.try_get("requested_by")?,
        asked: serde_json::from_str(&row.try_get::<String, _>("asked")?).unwrap_or_default(),
        opened_ms: row.try_get("opened_ms")?,
    })
}
