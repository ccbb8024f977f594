//! What goes on at this moment.

use std::collections::BTreeMap;

use sqlx::Row as _;

use super::sql::Sql;
use super::{COLUMNS, RunRow, run_row};
use crate::store::{Paused, Store, StoreError};

/// So many rows of each list are read; the numbers count all.
const MOST: i64 = 100;

/// What goes on at this moment, in all repositories: it is narrowed by [`Now::within`] for who may not see all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Now {
    /// Who holds the queue, if anybody does.
    pub paused: Option<Paused>,
    /// Under a lease, in the order in which they began.
    pub running: Vec<RunRow>,
    /// Those whose turn comes first.
    pub next: Vec<Waiting>,
    /// How many wait, by repository (`forge/id`).
    pub waiting: BTreeMap<String, i64>,
    /// Those that ended last.
    pub ended: Vec<RunRow>,
    /// Our open pull requests, by repository (`forge/id`): all, and those whose head nobody approved.
    pub reviews: BTreeMap<String, (i64, i64)>,
}

/// A job in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The job.
    pub row: RunRow,
    /// Nobody takes it before, in milliseconds since the Unix epoch.
    pub not_before_ms: i64,
}

impl Now {
    /// The same with nothing of repositories that are not seen.
    #[must_use]
    pub fn within(mut self, sees: impl Fn(&str) -> bool) -> Self {
        self.running.retain(|row| sees(&row.repository()));
        self.next.retain(|waiting| sees(&waiting.row.repository()));
        self.ended.retain(|row| sees(&row.repository()));
        self.waiting.retain(|repository, _| sees(repository));
        self.reviews.retain(|repository, _| sees(repository));
        self
    }
}

impl Store {
    /// The runs of these repositories that ended last, at most so many: not those that are left of the last ones of all.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn ended_within(&self, repositories: &[String], limit: usize) -> Result<Vec<RunRow>, StoreError> {
        let mut sql = Sql::new(&format!("select {COLUMNS} from jobs where state = 'done'"));
        sql.and_within(Some(repositories)).push(" order by done_ms desc, id desc limit ").bind(i64::try_from(limit).unwrap_or(i64::MAX));
        sql.query().fetch_all(&self.pool).await?.iter().map(run_row).collect()
    }

    /// What goes on at this moment. The four questions are not asked in one transaction: a job that moves meanwhile may be in two lists or in none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn now(&self) -> Result<Now, StoreError> {
        let listed = async |condition: &str| {
            let text = format!("select {COLUMNS}, not_before_ms from jobs where {condition} limit {MOST}");
            sqlx::query(sqlx::AssertSqlSafe(text)).fetch_all(&self.pool).await
        };
        let running = listed("state = 'running' order by started_ms, id").await?;
        let next = listed("state = 'queued' order by priority desc, turn, queued_ms, id").await?;
        let ended = listed("state = 'done' order by done_ms desc, id desc").await?;
        let waiting = sqlx::query("select forge, repo_id, count(*) as jobs from jobs where state = 'queued' group by forge, repo_id")
            .fetch_all(&self.pool)
            .await?;
        let reviews = sqlx::query(
            "select forge, repo_id, count(*) as opened, sum(case when state = 'approved' then 0 else 1 end) as waiting from reviews \
             where state in ('waiting', 'approved') group by forge, repo_id",
        )
        .fetch_all(&self.pool)
        .await?;
        let named = |row: &sqlx::any::AnyRow| {
            Ok::<_, StoreError>(format!("{}/{}", row.try_get::<String, _>("forge")?, row.try_get::<String, _>("repo_id")?))
        };
        Ok(Now {
            paused: self.paused().await?,
            running: running.iter().map(run_row).collect::<Result<_, _>>()?,
            next: next
                .iter()
                .map(|row| Ok(Waiting { row: run_row(row)?, not_before_ms: row.try_get("not_before_ms")? }))
                .collect::<Result<_, StoreError>>()?,
            waiting: waiting.iter().map(|row| Ok((named(row)?, row.try_get("jobs")?))).collect::<Result<_, StoreError>>()?,
            ended: ended.iter().map(run_row).collect::<Result<_, _>>()?,
            reviews: reviews
                .iter()
                .map(|row| Ok((named(row)?, (row.try_get("opened")?, row.try_get("waiting")?))))
                .collect::<Result<_, StoreError>>()?,
        })
    }
}
