//! The memory of the service: what was delivered, what was asked, how far it is.
//!
//! What must hold: a verified delivery is a row before it is answered, and its job is inserted in the same transaction; unique keys do the
//! de-duplication; each write of a worker is fenced by its [`Lease`], so that a worker that lost its lease can change nothing any more.
//! The SQL is the same for SQLite and PostgreSQL.

mod asks;
mod deliveries;
mod jobs;
mod lease;
mod repositories;
mod reviews;
mod standing;

use sqlx::AnyPool;
use sqlx::any::AnyPoolOptions;

pub use asks::Ask;
pub use deliveries::{Intake, NewDelivery};
pub use jobs::{JobRow, JobSummary};
pub use lease::{AgentSummary, Checkpoint, Claimed, Lease, Which};
pub use reviews::Watched;
pub use standing::{KnownJob, Made};

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("./migrations");

/// What may go wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The lease was taken over by another worker: this run must stop without a further write.
    #[error("the lease on job {0} was lost to another worker")]
    LeaseLost(String),
    /// This act of setting the label has a job already.
    #[error("this label was answered by an earlier job")]
    EpisodeKnown,
    /// The disk under the database is full.
    #[error("the database's disk is full: {0}")]
    DiskFull(String),
    /// The database failed.
    #[error("the database failed: {0}")]
    Failed(String),
    /// A row can't be read.
    #[error("row {row} of the database can't be read: {why}")]
    Unreadable {
        /// Which.
        row: String,
        /// What is wrong with it.
        why: String,
    },
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let text = error.to_string();
        if text.contains("disk is full") || text.contains("No space left") { Self::DiskFull(text) } else { Self::Failed(text) }
    }
}

/// The database, opened and migrated.
#[derive(Debug, Clone)]
pub struct Store {
    pool: AnyPool,
}

impl Store {
    /// Opens the database and brings its tables up to date; data is kept.
    ///
    /// `url` is `sqlite:///path/to/file` (made when it is missing; write-ahead log, every commit on the disk before it is answered).
    ///
    /// # Errors
    /// When the database can't be opened, or was written by a newer version of the service.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let sqlite = url.starts_with("sqlite:");
        let url = if sqlite && !url.contains('?') { format!("{url}?mode=rwc") } else { url.to_owned() };
        let pool = AnyPoolOptions::new()
            .max_connections(8)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if sqlite {
                        for pragma in ["pragma busy_timeout = 10000", "pragma journal_mode = wal", "pragma synchronous = full"] {
                            sqlx::query(pragma).execute(&mut *connection).await?;
                        }
                    }
                    Ok(())
                })
            })
            .connect(&url)
            .await?;
        MIGRATIONS.run(&pool).await.map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Self { pool })
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("select 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Closes every connection; what was committed is on the disk.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}
