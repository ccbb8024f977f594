//! Jobs that are made.

use serde_json::json;

use super::{Query, Store, StoreError, plain, repository_name};
use crate::audit::{Digest, Kind, Note};
use crate::domain::{Origin, Trigger};

/// What is written of a new job; the rest comes to be while it is worked on.
pub(super) const COLUMNS: &str = "id, forge, repo_id, repo_path, issue, issue_url, title, body, queued_ms, origin_key, origin, priority, \
     state, stage, not_before_ms, lease_until_ms, fence, leases, checkpoint, turn";

/// So many values are bound to [`VALUES`].
pub(super) const PLACES: usize = 12;

/// The values of [`COLUMNS`]. The turn is one after the last that waits of its repository, but not before those that were served.
pub(super) const VALUES: &str = "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'queued', 'queued', 0, 0, 0, 0, '{}', \
     (select max(turn) from (select coalesce((select turn + 1 from jobs where state = 'queued' and forge = $2 and repo_id = $3 \
     and priority = $12 order by turn desc limit 1), 0) as turn union all \
     select coalesce((select turn from jobs where state <> 'queued' and priority = $12 order by turn desc limit 1), 0)) turns)";

/// One active job an issue.
pub(super) const UNLESS_ACTIVE: &str = "on conflict (forge, repo_id, issue) where state <> 'done' do nothing";

/// A job to insert.
pub(super) struct NewJob<'a> {
    pub(super) id: &'a str,
    pub(super) trigger: &'a Trigger,
    pub(super) origin: Option<&'a Origin>,
}

impl NewJob<'_> {
    /// What the audit chain holds of a job that was made.
    pub(super) fn told(&self) -> Note {
        let trigger = self.trigger;
        let asked = Digest::of(format!("{}\0{}", trigger.title, trigger.body).as_bytes());
        let facts = json!({"issue_text": asked, "origin": self.origin.map(|origin| Digest::of(origin.key.as_bytes()))});
        let note = Note::new(Kind::JobMade, facts).about(repository_name(&trigger.repo), Some(trigger.number)).of_job(self.id);
        match self.origin {
            Some(origin) => note.by_person(&trigger.repo.forge, &origin.by.login),
            None => note,
        }
    }
}

impl Store {
    /// Inserts a queued job unless the issue has an active one.
    ///
    /// # Errors
    /// [`StoreError::EpisodeKnown`] when its origin has a job already, or the database fails.
    pub(super) async fn insert_job(
        &self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
        new: &NewJob<'_>,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let made = self.insert_untold_job(transaction, new, now_ms).await?;
        if made {
            self.note(transaction, &new.told()).await?;
        }
        Ok(made)
    }

    /// The same, for who tells the audit chain of it together with more.
    pub(super) async fn insert_untold_job(
        &self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
        new: &NewJob<'_>,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let insert = format!("insert into jobs ({COLUMNS}) values ({VALUES}) {UNLESS_ACTIVE}");
        let inserted = self.bind_job(sqlx::query(sqlx::AssertSqlSafe(insert)), new, now_ms)?.execute(&mut **transaction).await;
        match inserted {
            Ok(inserted) => Ok(inserted.rows_affected() == 1),
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Err(StoreError::EpisodeKnown),
            Err(error) => Err(error.into()),
        }
    }

    /// Binds [`PLACES`] values.
    pub(super) fn bind_job<'q>(&self, query: Query<'q>, new: &NewJob<'_>, now_ms: i64) -> Result<Query<'q>, StoreError> {
        let origin = new.origin.map(serde_json::to_string).transpose().map_err(|error| StoreError::Failed(error.to_string()))?;
        let trigger = new.trigger;
        Ok(query
            .bind(new.id.to_owned())
            .bind(trigger.repo.forge.clone())
            .bind(trigger.repo.id.clone())
            .bind(plain(&trigger.repo.path))
            .bind(trigger.number)
            .bind(plain(&trigger.url))
            .bind(plain(&trigger.title))
            .bind(plain(&trigger.body))
            .bind(now_ms)
            .bind(new.origin.map(|origin| origin.key.clone()))
            .bind(origin)
            .bind(self.priority_of(&trigger.repo)))
    }
}
