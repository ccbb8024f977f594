//! The repositories that the service has worked on.

use sqlx::Row as _;

use super::{Store, StoreError};
use crate::domain::RepoRef;

impl Store {
    /// Every repository that a job was about, by its latest path, at most this many.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn known_repositories(&self, limit: i64) -> Result<Vec<RepoRef>, StoreError> {
        let rows = sqlx::query(
            "select forge, repo_id, repo_path from jobs j where queued_ms = \
             (select max(queued_ms) from jobs k where k.forge = j.forge and k.repo_id = j.repo_id) \
             group by forge, repo_id, repo_path order by forge, repo_path limit $1",
        )
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| Ok(RepoRef { forge: row.try_get("forge")?, id: row.try_get("repo_id")?, path: row.try_get("repo_path")? }))
            .collect()
    }

    /// Whether something can be written; nothing stays of it.
    ///
    /// # Errors
    /// When it can't.
    pub async fn try_writing(&self) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("create table doctor_was_here (id integer)").execute(&mut *transaction).await?;
        transaction.rollback().await?;
        Ok(())
    }
}
