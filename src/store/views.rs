//! What pages and lists show of runs: read only, with a bound on everything.
//!
//! What must hold: every question names the repositories that its asker may see, and no row, number or sum of another is in the answer; a list of
//! any length is read by pages that each begin behind the last row of the one before.

mod chain;
mod now;
mod one;
mod sql;
mod sums;

use sqlx::Row as _;

use super::{Store, StoreError};
use sql::Sql;

pub use chain::{ChainFilter, ChainPage};
pub use now::{Now, Waiting};
pub use one::{ChainRow, RunDetail};
pub use sums::{Day, Fates, OpenReview, Sums, Tally};

/// Which runs are looked for; what is none is not asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of these repositories alone, `forge/id`. None: of all.
    pub within: Option<Vec<String>>,
    /// Of the repository with this path, in any case of its letters, on whatever forge.
    pub repository: Option<String>,
    /// Asked for by this login.
    pub person: Option<String>,
    /// With this outcome's stable name; `queued` and `running` for those that have none yet.
    pub outcome: Option<String>,
    /// Asked for at this time or later, in milliseconds since the Unix epoch.
    pub from_ms: Option<i64>,
    /// Asked for before this time, in milliseconds since the Unix epoch.
    pub until_ms: Option<i64>,
}

/// The place of a row in the list: when its job was asked for, and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// In milliseconds since the Unix epoch.
    pub queued_ms: i64,
    /// The job.
    pub id: String,
}

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Its beginning.
    Newest,
    /// What follows this row.
    OlderThan(Cursor),
    /// What stands right before this row.
    NewerThan(Cursor),
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// The job.
    pub id: String,
    /// The run, from the first claim on.
    pub run: Option<String>,
    /// The forge's name.
    pub forge: String,
    /// The forge's id of the repository.
    pub repo_id: String,
    /// The repository's path when it was asked.
    pub repo_path: String,
    /// The issue's number.
    pub issue: i64,
    /// The issue's title when it was asked, at most 200 characters.
    pub title: String,
    /// Who asked, once that is known.
    pub requested_by: Option<String>,
    /// queued, running or done.
    pub state: String,
    /// The stage's stable name.
    pub stage: String,
    /// The agent's steps so far.
    pub steps: i64,
    /// The tokens of all requests and answers, as the model's server counted them; about, where a worker was lost.
    pub tokens: i64,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub queued_ms: i64,
    /// When it was claimed first.
    pub started_ms: Option<i64>,
    /// When it ended.
    pub done_ms: Option<i64>,
    /// The outcome's stable name.
    pub outcome: Option<String>,
    /// The reason's stable name.
    pub reason: Option<String>,
    /// What the tests prove of the patch, the stable name; none where nothing was proposed, or by an older version of the service.
    pub proof: Option<String>,
    /// One sentence, or the address of the pull request.
    pub detail: Option<String>,
}

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The newest first.
    pub runs: Vec<RunRow>,
    /// There are older ones.
    pub has_older: bool,
    /// There are newer ones.
    pub has_newer: bool,
}

impl RunRow {
    /// Its place in the list.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { queued_ms: self.queued_ms, id: self.id.clone() }
    }

    /// The name by which it is asked for: the run, or the job of one that was not begun.
    #[must_use]
    pub fn name(&self) -> &str {
        self.run.as_deref().unwrap_or(&self.id)
    }

    /// The repository, `forge/id`.
    #[must_use]
    pub fn repository(&self) -> String {
        format!("{}/{}", self.forge, self.repo_id)
    }
}

const COLUMNS: &str = "id, run, forge, repo_id, repo_path, issue, substr(title, 1, 200) as title, requested_by, state, stage, steps, tokens, \
                       queued_ms, started_ms, done_ms, outcome, reason, proof, substr(detail, 1, 2000) as detail";

impl Store {
    /// One page of the list of runs, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn runs_page(&self, filter: &RunFilter, part: &Part, limit: usize) -> Result<Page, StoreError> {
        let within = match &filter.repository {
            Some(path) => Some(self.named_like(path, filter.within.as_deref()).await?),
            None => filter.within.clone(),
        };
        let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut sql = Sql::new(&format!("select {COLUMNS} from jobs where id in (select id from jobs where 1 = 1"));
        sql.and_within(within.as_deref()).and("requested_by =", filter.person.as_deref());
        match filter.outcome.as_deref() {
            Some(state @ ("queued" | "running")) => sql.and("state =", Some(state)),
            // A person or a repository narrows more than an outcome: the index of outcomes is left alone then.
            outcome if filter.person.is_some() || within.is_some() => sql.and("coalesce(outcome, '') =", outcome),
            outcome => sql.and("outcome =", outcome),
        };
        sql.and("queued_ms >=", filter.from_ms).and("queued_ms <", filter.until_ms);
        let (behind, order) = match part {
            Part::Newest => (None, "desc"),
            Part::OlderThan(cursor) => (Some(("<", cursor)), "desc"),
            Part::NewerThan(cursor) => (Some((">", cursor)), "asc"),
        };
        if let Some((sign, cursor)) = behind {
            sql.push(" and (queued_ms, id) ").push(sign).push(" (").bind(cursor.queued_ms).push(", ").bind(cursor.id.as_str()).push(")");
        }
        sql.push(&format!(" order by queued_ms {order}, id {order} limit ")).bind(most);
        sql.push(&format!(") order by queued_ms {order}, id {order}"));
        let rows = sql.query().fetch_all(&self.pool).await?;
        let mut runs = rows.iter().map(run_row).collect::<Result<Vec<_>, _>>()?;
        let goes_on = runs.len() > limit;
        runs.truncate(limit);
        if matches!(part, Part::NewerThan(_)) {
            runs.reverse();
        }
        let (has_older, has_newer) = match part {
            Part::Newest => (goes_on, false),
            Part::OlderThan(_) => (goes_on, true),
            Part::NewerThan(_) => (true, goes_on),
        };
        Ok(Page { runs, has_older, has_newer })
    }

    /// The repositories, `forge/id`, that have or had this path, of those that are seen.
    async fn named_like(&self, path: &str, within: Option<&[String]>) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query("select forge, repo_id from repositories where lower(path) = lower($1) order by forge, repo_id limit 100")
            .bind(super::plain(path))
            .fetch_all(&self.pool)
            .await?;
        let named = rows.iter().map(|row| Ok(format!("{}/{}", row.try_get::<String, _>(0)?, row.try_get::<String, _>(1)?)));
        let named = named.collect::<Result<Vec<_>, StoreError>>()?;
        Ok(named.into_iter().filter(|name| within.is_none_or(|within| within.contains(name))).collect())
    }
}

fn run_row(row: &sqlx::any::AnyRow) -> Result<RunRow, StoreError> {
    Ok(RunRow {
        id: row.try_get("id")?,
        run: row.try_get("run")?,
        forge: row.try_get("forge")?,
        repo_id: row.try_get("repo_id")?,
        repo_path: row.try_get("repo_path")?,
        issue: row.try_get("issue")?,
        title: row.try_get("title")?,
        requested_by: row.try_get("requested_by")?,
        state: row.try_get("state")?,
        stage: row.try_get("stage")?,
        steps: row.try_get("steps")?,
        tokens: row.try_get("tokens")?,
        queued_ms: row.try_get("queued_ms")?,
        started_ms: row.try_get("started_ms")?,
        done_ms: row.try_get("done_ms")?,
        outcome: row.try_get("outcome")?,
        reason: row.try_get("reason")?,
        proof: row.try_get("proof")?,
        detail: row.try_get("detail")?,
    })
}
