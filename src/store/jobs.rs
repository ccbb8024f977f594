//! Looking at jobs without touching them.

use sqlx::Row as _;

use super::{Store, StoreError};

/// A job as people look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// Its id.
    pub id: String,
    /// The repository's path when it was asked.
    pub repo_path: String,
    /// The issue's number.
    pub issue: i64,
    /// queued, running or done.
    pub state: String,
    /// The stage's stable name.
    pub stage: String,
    /// The run, from the first claim on.
    pub run: Option<String>,
    /// The outcome's stable name.
    pub outcome: Option<String>,
    /// The reason's stable name.
    pub reason: Option<String>,
    /// One sentence, or the address of the pull request.
    pub detail: Option<String>,
    /// What is finished, as JSON.
    pub checkpoint: String,
    /// The report, as JSON.
    pub report: Option<String>,
}

/// How many jobs there are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobSummary {
    /// In the queue.
    pub queued: i64,
    /// Under a lease.
    pub running: i64,
    /// With an outcome.
    pub done: i64,
}

impl Store {
    /// The newest jobs first, at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn jobs(&self, limit: i64) -> Result<Vec<JobRow>, StoreError> {
        let rows = sqlx::query(
            "select id, repo_path, issue, state, stage, run, outcome, reason, detail, checkpoint, report from jobs \
             order by queued_ms desc, id desc limit $1",
        )
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(job_row).collect()
    }

    /// How many jobs wait, run and ended.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn summary(&self) -> Result<JobSummary, StoreError> {
        let rows = sqlx::query("select state, count(*) as jobs from jobs group by state").fetch_all(&self.pool).await?;
        let mut summary = JobSummary::default();
        for row in rows {
            let jobs: i64 = row.try_get("jobs")?;
            match row.try_get::<String, _>("state")?.as_str() {
                "queued" => summary.queued = jobs,
                "running" => summary.running = jobs,
                _ => summary.done = jobs,
            }
        }
        Ok(summary)
    }

    /// The deliveries of a forge, newest first: id, event, verb, why.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn deliveries(&self, forge: &str, limit: i64) -> Result<Vec<[String; 4]>, StoreError> {
        let rows =
            sqlx::query("select delivery, event, verb, why from deliveries where forge = $1 order by received_ms desc, id desc limit $2")
                .bind(forge)
                .bind(limit)
                .fetch_all(&self.pool)
                .await?;
        rows.iter().map(|row| Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?])).collect()
    }
}

fn job_row(row: &sqlx::any::AnyRow) -> Result<JobRow, StoreError> {
    Ok(JobRow {
        id: row.try_get("id")?,
        repo_path: row.try_get("repo_path")?,
        issue: row.try_get("issue")?,
        state: row.try_get("state")?,
        stage: row.try_get("stage")?,
        run: row.try_get("run")?,
        outcome: row.try_get("outcome")?,
        reason: row.try_get("reason")?,
        detail: row.try_get("detail")?,
        checkpoint: row.try_get("checkpoint")?,
        report: row.try_get("report")?,
    })
}
