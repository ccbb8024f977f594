//! How things stand, for who watches the service.

use sqlx::Row as _;

use super::{JobSummary, Store, StoreError};

/// How things stand now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// The jobs in each state.
    pub jobs: JobSummary,
    /// Somebody holds the queue.
    pub held: bool,
    /// Our pull requests that are open.
    pub open_pull_requests: i64,
    /// Events that are in no row of the audit chain yet.
    pub audit_waiting: i64,
    /// When the end of the chain was signed last, in milliseconds since the Unix epoch.
    pub signed_ms: Option<i64>,
}

impl Store {
    /// Counts what there is.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn standing(&self) -> Result<Standing, StoreError> {
        let row = sqlx::query(
            "select (select count(*) from switches where name = 'pause') as held, \
             (select count(*) from fates where became = 'open') as open_pull_requests, \
             (select count(*) from audit_unsealed) as audit_waiting, (select max(at_ms) from audit_checkpoints) as signed_ms",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Standing {
            jobs: self.summary().await?,
            held: row.try_get::<i64, _>("held")? > 0,
            open_pull_requests: row.try_get("open_pull_requests")?,
            audit_waiting: row.try_get("audit_waiting")?,
            signed_ms: row.try_get("signed_ms")?,
        })
    }
}
