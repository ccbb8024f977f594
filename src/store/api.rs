//! What programs ask that no page shows in this form: the events of a run as they come, the end of the chain, sums of repositories.

use std::collections::BTreeMap;

use sqlx::Row as _;

use super::audit::link;
use super::{Store, StoreError, plain};
use crate::audit::{Broken, Checked, Digest, Event, Row};
use crate::domain::RepoRef;

/// An event of a run.
#[derive(Debug, Clone)]
pub struct LogLine {
    /// Its number within the run, from 1.
    pub nth: i64,
    /// The event.
    pub event: Event,
}

/// A repository and how many of its runs ended how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryRuns {
    /// The repository.
    pub repo: RepoRef,
    /// By the outcome's stable name; `queued` and `running` for those that have none yet.
    pub runs: BTreeMap<String, i64>,
}

/// A pull request of ours that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPullRequest {
    /// The repository.
    pub repo: RepoRef,
    /// The issue that it is for.
    pub issue: i64,
    /// The run that opened it.
    pub run: String,
    /// Its number; none until it was looked at.
    pub number: Option<i64>,
    /// `waiting` or `approved`.
    pub state: String,
    /// Who approved its head.
    pub approved_by: Option<String>,
    /// When its run ended, in milliseconds since the Unix epoch.
    pub opened_ms: Option<i64>,
}

impl Store {
    /// The events of a run behind this one, in the order of the chain, at most so many. Who asks again behind the last one misses none: what waits for
    /// its row is given one first, and what another process commits later has a later row, whenever it was written.
    ///
    /// # Errors
    /// When the database fails, or an event can't be read.
    pub async fn log_of_run(&self, run: &str, after: i64, limit: i64) -> Result<Vec<LogLine>, StoreError> {
        self.seal().await?;
        let rows = sqlx::query(
            "select c.nth, e.event from audit_chain c join audit_events e on e.arrival = c.arrival where c.run = $1 and c.nth > $2 \
             order by c.nth limit $3",
        )
        .bind(plain(run))
        .bind(after)
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        let line = |row: &sqlx::any::AnyRow| {
            let (nth, text): (i64, String) = (row.try_get("nth")?, row.try_get("event")?);
            let unreadable =
                |error: serde_json::Error| StoreError::Unreadable { row: format!("event {nth} of the run {run}"), why: error.to_string() };
            Ok(LogLine { nth, event: serde_json::from_str(&text).map_err(unreadable)? })
        };
        rows.iter().map(line).collect()
    }

    /// Checks the last rows of the chain, at most so many: how many hold, and the first that does not.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn check_tail(&self, most: i64) -> Result<(i64, Option<Broken>), StoreError> {
        let rows = sqlx::query(
            "select c.number, c.run, c.nth, c.event, c.previous, c.hash, e.event as text from audit_chain c \
             left join audit_events e on e.arrival = c.arrival where c.number > (select coalesce(max(number), 0) from audit_chain) - $1 order by c.number",
        )
        .bind(most)
        .fetch_all(&self.pool)
        .await?;
        let mut checked: Option<Checked> = None;
        let mut holding = 0;
        for row in &rows {
            let (link, hash) = link(row)?;
            let number = link.number;
            let mut end = checked.unwrap_or(Checked { number: number - 1, hash: link.previous });
            let text = row.try_get::<Option<String>, _>("text")?;
            if text.is_none_or(|text| Digest::of(text.as_bytes()) != link.event) {
                return Ok((holding, Some(Broken::at(number, "its event is missing or was changed"))));
            }
            if let Err(broken) = end.next(&Row { link, hash }) {
                return Ok((holding, Some(broken)));
            }
            checked = Some(end);
            holding += 1;
        }
        Ok((holding, None))
    }

    /// Every repository that was ever heard of, with its runs.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn repositories_with_runs(&self) -> Result<Vec<RepositoryRuns>, StoreError> {
        let known =
            sqlx::query("select forge, repo_id, path from repositories order by forge, path, repo_id").fetch_all(&self.pool).await?;
        let counted = sqlx::query(
            "select forge, repo_id, coalesce(outcome, state) as came, count(*) as runs from jobs group by forge, repo_id, coalesce(outcome, state)",
        )
        .fetch_all(&self.pool)
        .await?;
        let mut runs = BTreeMap::<(String, String), BTreeMap<String, i64>>::new();
        for row in &counted {
            let of = runs.entry((row.try_get("forge")?, row.try_get("repo_id")?)).or_default();
            of.insert(row.try_get("came")?, row.try_get("runs")?);
        }
        let with_runs = |row: &sqlx::any::AnyRow| {
            let repo = RepoRef { forge: row.try_get("forge")?, id: row.try_get("repo_id")?, path: row.try_get("path")? };
            let runs = runs.remove(&(repo.forge.clone(), repo.id.clone())).unwrap_or_default();
            Ok(RepositoryRuns { repo, runs })
        };
        known.iter().map(with_runs).collect()
    }

    /// Our open pull requests, the oldest first, at most 1,000.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn open_pull_requests(&self) -> Result<Vec<OpenPullRequest>, StoreError> {
        let rows = sqlx::query(
            "select r.forge, r.repo_id, r.repo_path, r.issue, r.run, r.number, r.state, r.approved_by, j.done_ms from reviews r \
             left join jobs j on j.run = r.run where r.state <> 'over' order by r.run limit 1000",
        )
        .fetch_all(&self.pool)
        .await?;
        let open = |row: &sqlx::any::AnyRow| {
            Ok(OpenPullRequest {
                repo: RepoRef { forge: row.try_get("forge")?, id: row.try_get("repo_id")?, path: row.try_get("repo_path")? },
                issue: row.try_get("issue")?,
                run: row.try_get("run")?,
                number: row.try_get("number")?,
                state: row.try_get("state")?,
                approved_by: row.try_get("approved_by")?,
                opened_ms: row.try_get("done_ms")?,
            })
        };
        rows.iter().map(open).collect()
    }
}
