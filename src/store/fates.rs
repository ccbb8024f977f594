//! What became of our pull requests, and what people said of their verdicts.
//!
//! What must hold: a pull request has its row from the transaction on in which its run ends as proposed; how it ended is written once.

use serde_json::json;
use sqlx::Row as _;

use super::{Store, StoreError, Watched, plain, repository_name};
use crate::audit::{Kind, Note};
use crate::domain::{Clock, RepoRef};

/// How a pull request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The commit that it was merged as; none where it was closed, or the forge does not say it.
    pub merged_as: Option<String>,
    /// Merged, not only closed.
    pub merged: bool,
    /// Lines that people added and removed on top of our last commit; none when that is not known.
    pub lines_changed: Option<i64>,
}

/// A merged pull request that may be reverted yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The repository as it was named.
    pub repo: RepoRef,
    /// The issue that it was for.
    pub issue: i64,
    /// The run that opened it.
    pub run: String,
    /// The commit that it was merged as.
    pub merged_as: String,
    /// When, in milliseconds since the Unix epoch.
    pub ended_ms: i64,
}

/// What became of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// The run that opened it.
    pub run: String,
    /// open, merged or closed.
    pub became: String,
    /// Lines that people changed on top of ours.
    pub lines_changed: Option<i64>,
    /// Whether it was reverted.
    pub reverted: bool,
    /// The word of who found the verdict wrong.
    pub wrong: Option<String>,
}

impl Store {
    /// Writes down how a watched pull request ended; false when that was known.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_fate(&self, watched: &Watched, ending: &Ending, due_ms: i64, clock: &dyn Clock) -> Result<bool, StoreError> {
        let became = if ending.merged { "merged" } else { "closed" };
        let mut transaction = self.pool.begin().await?;
        let ended = sqlx::query(
            "update fates set became = $1, ended_ms = $2, merged_as = $3, lines_changed = $4, due_ms = $5, number = $6 \
             where forge = $7 and repo_id = $8 and run = $9 and became = 'open'",
        )
        .bind(became)
        .bind(clock.now_ms())
        .bind(ending.merged_as.as_deref().map(plain))
        .bind(ending.lines_changed)
        .bind(due_ms)
        .bind(watched.number)
        .bind(&watched.repo.forge)
        .bind(&watched.repo.id)
        .bind(&watched.run)
        .execute(&mut *transaction)
        .await?;
        let is_new = ended.rows_affected() == 1;
        if is_new {
            let facts = json!({
                "pull_request": watched.number, "became": became, "merged_as": ending.merged_as, "lines_changed": ending.lines_changed,
            });
            let note = Note::new(Kind::Fate, facts).about(repository_name(&watched.repo), Some(watched.issue)).of_run(&watched.run);
            self.note(&mut transaction, &note).await?;
        }
        transaction.commit().await?;
        Ok(is_new)
    }

    /// Takes up the merged pull request whose look for a revert is due the longest; for `lease_ms` it is not due again. One that was merged before
    /// `since_ms` is looked at no more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_merged(&self, since_ms: i64, lease_ms: i64, clock: &dyn Clock) -> Result<Option<Merged>, StoreError> {
        let now = clock.now_ms();
        let row = sqlx::query(
            "update fates set due_ms = $1 where (forge, repo_id, run) in (select forge, repo_id, run from fates \
             where became = 'merged' and reverted_ms is null and merged_as is not null and due_ms <= $2 and ended_ms >= $3 \
             order by due_ms, run limit 1) and due_ms <= $2 returning forge, repo_id, repo_path, issue, run, merged_as, ended_ms",
        )
        .bind(now.saturating_add(lease_ms))
        .bind(now)
        .bind(since_ms)
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| {
            Ok(Merged {
                repo: RepoRef { forge: row.try_get("forge")?, id: row.try_get("repo_id")?, path: row.try_get("repo_path")? },
                issue: row.try_get("issue")?,
                run: row.try_get("run")?,
                merged_as: row.try_get("merged_as")?,
                ended_ms: row.try_get("ended_ms")?,
            })
        })
        .transpose()
    }

    /// Writes down that a merged pull request was reverted.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn note_revert(&self, merged: &Merged, by_commit: &str, clock: &dyn Clock) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let noted = sqlx::query("update fates set reverted_ms = $1 where forge = $2 and repo_id = $3 and run = $4 and reverted_ms is null")
            .bind(clock.now_ms())
            .bind(&merged.repo.forge)
            .bind(&merged.repo.id)
            .bind(&merged.run)
            .execute(&mut *transaction)
            .await?;
        if noted.rows_affected() == 1 {
            let facts = json!({"became": "reverted", "by": by_commit});
            let note = Note::new(Kind::Fate, facts).about(repository_name(&merged.repo), Some(merged.issue)).of_run(&merged.run);
            self.note(&mut transaction, &note).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Writes down that a person found the verdict of a run's pull request wrong. The first word stays; false when there was one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn note_wrong(&self, repo: &RepoRef, run: &str, word: &str, by: &str, clock: &dyn Clock) -> Result<bool, StoreError> {
        let mut transaction = self.pool.begin().await?;
        let noted = sqlx::query(
            "update fates set wrong = $1, wrong_ms = $2 where forge = $3 and repo_id = $4 and run = $5 and wrong is null returning issue",
        )
        .bind(plain(word))
        .bind(clock.now_ms())
        .bind(&repo.forge)
        .bind(&repo.id)
        .bind(run)
        .fetch_optional(&mut *transaction)
        .await?;
        if let Some(row) = &noted {
            let note = Note::new(Kind::FalseGreen, json!({"word": word})).about(repository_name(repo), row.try_get("issue")?);
            self.note(&mut transaction, &note.of_run(run).by_person(&repo.forge, by)).await?;
        }
        transaction.commit().await?;
        Ok(noted.is_some())
    }

    /// What became of a run's pull request; none when it opened none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fate(&self, run: &str) -> Result<Option<Fate>, StoreError> {
        let row = sqlx::query("select run, became, lines_changed, reverted_ms, wrong from fates where run = $1")
            .bind(run)
            .fetch_optional(&self.pool)
            .await?;
        row.map(|row| {
            Ok(Fate {
                run: row.try_get("run")?,
                became: row.try_get("became")?,
                lines_changed: row.try_get("lines_changed")?,
                reverted: row.try_get::<Option<i64>, _>("reverted_ms")?.is_some(),
                wrong: row.try_get("wrong")?,
            })
        })
        .transpose()
    }
}

/// A pull request that its run has just opened.
pub(super) async fn begin(
    transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
    repo: &RepoRef,
    issue: i64,
    run: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into fates (forge, repo_id, repo_path, issue, run, opened_ms, became, due_ms) values ($1, $2, $3, $4, $5, $6, 'open', 0) \
         on conflict (forge, repo_id, run) do nothing",
    )
    .bind(plain(&repo.forge))
    .bind(plain(&repo.id))
    .bind(plain(&repo.path))
    .bind(issue)
    .bind(plain(run))
    .bind(now_ms)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}
