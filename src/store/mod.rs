//! The memory of the service: what was delivered, what was asked, how far it is.
//!
//! What must hold: a verified delivery is a row before it is answered, and its job is inserted in the same transaction; unique keys do the
//! de-duplication; each write of a worker is fenced by its [`Lease`], so that a worker that lost its lease can change nothing any more.
//! The SQL is the same for SQLite and PostgreSQL, but for the few words that only one of them needs.

mod acts;
mod api;
mod asks;
mod at_once;
mod audit;
mod baselines;
mod counted;
mod deliveries;
mod fates;
mod jobs;
mod known;
mod lease;
mod new_jobs;
mod queue;
mod repositories;
mod reviews;
mod run_files;
mod secrets;
mod sessions;
mod standing;
mod tokens;
mod views;

use std::sync::Arc;
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::{AnyPool, Connection as _, Row as _};

use crate::audit::Life;
use crate::domain::{Clock, Redactor, RepoRef, SystemClock};
use known::Known;

pub use acts::Doer;
pub use api::{LogLine, OpenPullRequest, RepositoryRuns};
pub use asks::Ask;
pub use audit::{ChainError, ChainState, EndedJob, Forgotten, Keeping, repository_name};
pub use baselines::BaselineOf;
pub use counted::Standing;
pub use deliveries::{Intake, NewDelivery};
pub use fates::{Ending, Fate, Merged};
pub use jobs::{JobRow, JobSummary};
pub use lease::{AgentSummary, Checkpoint, Claimed, Lease, Stated, Tried};
pub use queue::{Paused, Priority, QueueLimits, Which};
pub use reviews::Watched;
pub use run_files::{Addition, RunFiles};
pub use secrets::new_secret;
pub use sessions::{Session, SessionTimes};
pub use standing::{KnownJob, Made};
pub use tokens::{ApiToken, Scope, TOKEN_PREFIX};
pub use views::{
    ChainFilter, ChainPage, ChainRow, Cursor, Day, Fates, Now, OpenReview, Page, Part, RunDetail, RunFilter, RunRow, Sums, Tally, Waiting,
};

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
#[derive(Clone)]
pub struct Store {
    pool: AnyPool,
    /// Several machines may work on it: it is PostgreSQL.
    is_shared: bool,
    priorities: Arc<[Priority]>,
    /// The time that stands on events.
    clock: Arc<dyn Clock>,
    redactor: Arc<Redactor>,
    life: Life,
    /// Pseudonyms by forge and login.
    pseudonyms: Arc<Known<(String, String), String>>,
    /// Repositories that have their row, with their path.
    noted: Arc<Known<RepoRef, ()>>,
}

impl Store {
    /// Opens the database and brings its tables up to date; data is kept.
    ///
    /// `url` is `sqlite:///path/to/file` (made when it is missing; write-ahead log, every commit on the disk before it is answered) or
    /// `postgres://user:password@host/name?sslmode=verify-full&sslrootcert=/path` (PostgreSQL 12 or newer). Services that open one PostgreSQL
    /// database at once bring its tables up to date one after the other.
    ///
    /// Two versions work beside each other for the length of an upgrade: a migration only adds what the version before it need not know. One that
    /// breaks this is named `NNNN_breaks_…`, and no older version opens the database after it.
    ///
    /// # Errors
    /// When the database can't be opened, or a newer version of the service made tables of it that this one can't use.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let is_shared = url.starts_with("postgres:") || url.starts_with("postgresql:");
        let url = if !is_shared && !url.contains('?') { format!("{url}?mode=rwc") } else { url.to_owned() };
        let settings = if is_shared { POSTGRES } else { SQLITE };
        let pool = AnyPoolOptions::new()
            .max_connections(if is_shared { 16 } else { 8 })
            .acquire_timeout(Duration::from_secs(10))
            // Only a connection that rested is asked whether it is still there: a busy one would pay a round trip for each use.
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                Box::pin(async move {
                    if about.idle_for >= RESTED {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    for setting in settings {
                        sqlx::query(*setting).execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .connect(&url)
            .await?;
        migrate(&pool, is_shared).await?;
        Ok(Self {
            pool,
            is_shared,
            priorities: Arc::default(),
            clock: Arc::new(SystemClock),
            redactor: Arc::default(),
            life: Life::begin(),
            pseudonyms: Arc::default(),
            noted: Arc::default(),
        })
    }

    /// The same with another clock for what is written of events.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same with a redactor of what is kept for people: records, outcomes and reports.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Arc<Redactor>) -> Self {
        self.redactor = redactor;
        self
    }

    /// The redactor of what is kept for people.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The same with repositories whose jobs come earlier or later than those of others.
    #[must_use]
    pub fn with_priorities(mut self, priorities: Vec<Priority>) -> Self {
        self.priorities = priorities.into();
        self
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

    /// The time by which leases run out: where several machines share the database its own, so that theirs need not agree.
    async fn lease_time(&self, clock: &dyn Clock) -> Result<i64, StoreError> {
        if !self.has_the_clock(clock) {
            return Ok(clock.now_ms());
        }
        let text = format!("select {} as now", self.lease_clock(clock));
        Ok(sqlx::query(sqlx::AssertSqlSafe(text)).fetch_one(&self.pool).await?.try_get("now")?)
    }

    /// The same as words of a query.
    fn lease_clock(&self, clock: &dyn Clock) -> String {
        if self.has_the_clock(clock) {
            "cast(extract(epoch from clock_timestamp()) * 1000 as bigint)".to_owned()
        } else {
            format!("cast({} as bigint)", clock.now_ms())
        }
    }

    fn has_the_clock(&self, clock: &dyn Clock) -> bool {
        self.is_shared && clock.is_of_this_machine()
    }

    /// A transaction that no other of its kind runs beside. (SQLite has one writer anyway; its lock is taken by the first write.)
    async fn alone(&self, kind: Alone) -> Result<sqlx::Transaction<'_, sqlx::Any>, StoreError> {
        let mut transaction = self.pool.begin().await?;
        if self.is_shared {
            sqlx::query("select pg_advisory_xact_lock($1)").bind(kind as i64).execute(&mut *transaction).await?;
        }
        Ok(transaction)
    }

    /// A transaction that runs beside others of its kind, and beside none that is [`Self::alone`].
    async fn beside(&self, kind: Alone) -> Result<sqlx::Transaction<'_, sqlx::Any>, StoreError> {
        let mut transaction = self.pool.begin().await?;
        if self.is_shared {
            sqlx::query("select pg_advisory_xact_lock_shared($1)").bind(kind as i64).execute(&mut *transaction).await?;
        }
        Ok(transaction)
    }

    /// Ends a query that chooses one row to take: where workers choose at the same time, each gets another.
    const fn one_each(&self) -> &'static str {
        if self.is_shared { " for update skip locked" } else { "" }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Store").field("is_shared", &self.is_shared).finish_non_exhaustive()
    }
}

/// Brings the tables up to date, those of the next version included: what both databases read alike, then what only this one reads.
async fn migrate(pool: &AnyPool, is_shared: bool) -> Result<(), StoreError> {
    let own = if is_shared { sqlx::migrate!("./migrations/postgres") } else { sqlx::migrate!("./migrations/sqlite") };
    let mut newest = 0;
    for mut migrations in [sqlx::migrate!("./migrations"), own] {
        newest = migrations.iter().map(|migration| migration.version).max().unwrap_or(0).max(newest);
        migrations.set_ignore_missing(true);
        migrations.run(pool).await.map_err(|error| StoreError::Failed(error.to_string()))?;
    }
    let breaking = sqlx::query("select description from _sqlx_migrations where version > $1 and description like 'breaks %' limit 1")
        .bind(newest)
        .fetch_optional(pool)
        .await?;
    breaking.map_or(Ok(()), |row| {
        let what: String = row.try_get("description")?;
        Err(StoreError::Failed(format!("a newer version of the service made it its own ({what}): start that version, or one after it")))
    })
}

/// What is read and written by one at a time; the numbers are the names of its locks.
#[derive(Debug, Clone, Copy)]
enum Alone {
    Asks = 0x6672_0001,
    Comments = 0x6672_0002,
    Claims = 0x6672_0003,
}

/// What people on the forge write, as PostgreSQL can keep it: it knows no NUL.
type Query<'q> = sqlx::query::Query<'q, sqlx::Any, sqlx::any::AnyArguments>;

/// The places of so many more values after those that are taken.
fn places(taken: usize, more: usize) -> String {
    (taken + 1..=taken + more).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ")
}

fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A connection that nobody used for so long may be gone.
const RESTED: Duration = Duration::from_secs(1);

const SQLITE: &[&str] = &["pragma busy_timeout = 10000", "pragma journal_mode = wal", "pragma synchronous = full"];

/// A statement or an open transaction that hangs frees its rows; every commit is on the disk before it is answered.
const POSTGRES: &[&str] = &[
    "set application_name = 'frognano-bot'",
    "set statement_timeout = '30s'",
    "set lock_timeout = '15s'",
    "set idle_in_transaction_session_timeout = '30s'",
    "set synchronous_commit = on",
];
