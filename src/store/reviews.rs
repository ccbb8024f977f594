//! The pull requests of ours whose human review is watched.
//!
//! What must hold: a pull request is watched from the transaction on in which its run ends as proposed, and until it is over; word of
//! something new that comes during a look is not lost.

use serde_json::json;
use sqlx::Row as _;

use super::{Claimed, Store, StoreError, plain, repository_name};
use crate::audit::{Kind, Note};
use crate::domain::{Clock, RepoRef};

/// A pull request that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The repository as it was named.
    pub repo: RepoRef,
    /// The issue that it is for.
    pub issue: i64,
    /// The run that opened it.
    pub run: String,
    /// Its number; none until it was looked at.
    pub number: Option<i64>,
    /// The commit at its head when it was last looked at.
    pub head: Option<String>,
    /// `waiting`, `approved`, or `over`: closed, merged, gone.
    pub state: String,
    /// The login of who approved the head.
    pub approved_by: Option<String>,
    /// Since when that is known, in milliseconds since the Unix epoch.
    pub approved_ms: Option<i64>,
    /// What its status says.
    pub said: Option<String>,
    told: i64,
}

const COLUMNS: &str = "forge, repo_id, repo_path, issue, run, number, head, state, approved_by, approved_ms, said, told";

impl Store {
    /// Takes up the pull request whose look is due the longest; for `lease_ms` it is not due again.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_review(&self, lease_ms: i64, clock: &dyn Clock) -> Result<Option<Watched>, StoreError> {
        let now = clock.now_ms();
        let due = sqlx::query("select forge, repo_id, run from reviews where due_ms <= $1 order by due_ms, run limit 1")
            .bind(now)
            .fetch_optional(&self.pool)
            .await?;
        let Some(due) = due else { return Ok(None) };
        let text =
            format!("update reviews set due_ms = $1 where forge = $2 and repo_id = $3 and run = $4 and due_ms <= $5 returning {COLUMNS}");
        let row = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(now.saturating_add(lease_ms))
            .bind(due.try_get::<String, _>(0)?)
            .bind(due.try_get::<String, _>(1)?)
            .bind(due.try_get::<String, _>(2)?)
            .bind(now)
            .fetch_optional(&self.pool)
            .await?;
        row.map(|row| watched(&row)).transpose()
    }

    /// Writes down what a look found. The next look is `after_ms` later, or at once where there was new word meanwhile.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_review(&self, found: &Watched, after_ms: i64, clock: &dyn Clock) -> Result<(), StoreError> {
        let now = clock.now_ms();
        let mut transaction = self.pool.begin().await?;
        self.note_review(&mut transaction, found).await?;
        sqlx::query(
            "update reviews set number = $1, head = $2, state = $3, approved_by = $4, approved_ms = $5, said = $6, looked_ms = $7, \
             due_ms = case when told = $8 then $9 else $10 end where forge = $11 and repo_id = $12 and run = $13",
        )
        .bind(found.number)
        .bind(found.head.as_deref().map(plain))
        .bind(plain(&found.state))
        .bind(found.approved_by.as_deref().map(plain))
        .bind(found.approved_ms)
        .bind(found.said.as_deref().map(plain))
        .bind(now)
        .bind(found.told)
        .bind(now.saturating_add(after_ms))
        .bind(now)
        .bind(plain(&found.repo.forge))
        .bind(plain(&found.repo.id))
        .bind(plain(&found.run))
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// An event, where the look found something else than the one before.
    async fn note_review(&self, transaction: &mut sqlx::Transaction<'_, sqlx::Any>, found: &Watched) -> Result<(), StoreError> {
        let before = sqlx::query(
            "update reviews set looked_ms = looked_ms where forge = $1 and repo_id = $2 and run = $3 returning head, state, approved_by",
        )
        .bind(&found.repo.forge)
        .bind(&found.repo.id)
        .bind(&found.run)
        .fetch_optional(&mut **transaction)
        .await?;
        let Some(row) = before else { return Ok(()) };
        let before: (Option<String>, String, Option<String>) = (row.try_get("head")?, row.try_get("state")?, row.try_get("approved_by")?);
        if before == (found.head.clone(), found.state.clone(), found.approved_by.clone()) {
            return Ok(());
        }
        let facts = json!({"pull_request": found.number, "head": found.head.as_deref().map(plain), "state": found.state});
        let note = Note::new(Kind::Review, facts).about(repository_name(&found.repo), Some(found.issue)).of_run(&found.run);
        let note = match &found.approved_by {
            Some(login) => note.by_person(&found.repo.forge, login),
            None => note,
        };
        self.note(transaction, &note).await
    }

    /// Makes every look due that a worker which is gone had taken up.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release_reviews(&self, clock: &dyn Clock) -> Result<(), StoreError> {
        sqlx::query("update reviews set due_ms = $1 where state <> 'over' and due_ms > $2")
            .bind(clock.now_ms())
            .bind(clock.now_ms())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// The pull requests of ours that were ever watched, the newest first, at most this many.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn reviews(&self, limit: i64) -> Result<Vec<Watched>, StoreError> {
        let text = format!("select {COLUMNS} from reviews order by run desc limit $1");
        let rows = sqlx::query(sqlx::AssertSqlSafe(text)).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(watched).collect()
    }
}

/// Begins to watch the pull request of a run.
pub(super) async fn watch(transaction: &mut sqlx::Transaction<'_, sqlx::Any>, claimed: &Claimed, now_ms: i64) -> Result<(), StoreError> {
    sqlx::query(
        "insert into reviews (forge, repo_id, repo_path, issue, run, state, due_ms, told, asked) \
         values ($1, $2, $3, $4, $5, 'waiting', $6, 0, $7) on conflict (forge, repo_id, run) do nothing",
    )
    .bind(plain(&claimed.repo.forge))
    .bind(plain(&claimed.repo.id))
    .bind(plain(&claimed.repo.path))
    .bind(claimed.issue)
    .bind(plain(&claimed.run.0))
    .bind(now_ms)
    .bind(plain(&json!(claimed.checkpoint.reviewers).to_string()))
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// There may be something new: makes the looks at a repository's open pull requests due, and at this one even if it was over.
pub(super) async fn wake(
    transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
    repo: &RepoRef,
    number: Option<i64>,
    now_ms: i64,
) -> Result<(), StoreError> {
    sqlx::query("update reviews set due_ms = $1, told = told + 1 where forge = $2 and repo_id = $3 and (state <> 'over' or number = $4)")
        .bind(now_ms)
        .bind(plain(&repo.forge))
        .bind(plain(&repo.id))
        .bind(number.unwrap_or(0))
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

fn watched(row: &sqlx::any::AnyRow) -> Result<Watched, StoreError> {
    Ok(Watched {
        repo: RepoRef { forge: row.try_get("forge")?, id: row.try_get("repo_id")?, path: row.try_get("repo_path")? },
        issue: row.try_get("issue")?,
        run: row.try_get("run")?,
        number: row.try_get("number")?,
        head: row.try_get("head")?,
        state: row.try_get("state")?,
        approved_by: row.try_get("approved_by")?,
        approved_ms: row.try_get("approved_ms")?,
        said: row.try_get("said")?,
        told: row.try_get("told")?,
    })
}
