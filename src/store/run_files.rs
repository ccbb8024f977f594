//! What a run keeps after each step, where several machines share the database: whoever goes on with the run finds it here.
//!
//! What must hold: an addition is there whole or not at all; only who holds the lease adds, so that a worker that lost it can't spoil what its
//! successor goes on from; nothing is left of a job that has ended.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sqlx::Row as _;

use super::{Lease, Store, StoreError, lease};

/// The largest part of a file, in bytes.
const PART: usize = 1024 * 1024;

/// The files of one leased run.
#[derive(Debug, Clone)]
pub struct RunFiles {
    store: Store,
    lease: Lease,
}

/// Something to add to the files of a run.
pub struct Addition<'a> {
    transaction: sqlx::Transaction<'a, sqlx::Any>,
    lease: &'a Lease,
}

impl Store {
    /// The files of a leased run.
    #[must_use]
    pub fn run_files(&self, lease: &Lease) -> RunFiles {
        RunFiles { store: self.clone(), lease: lease.clone() }
    }

    /// Whether processes on several machines may work on this database.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.is_shared
    }
}

impl RunFiles {
    /// Begins an addition; without [`Addition::commit`] nothing of it is kept.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], or the database fails.
    pub async fn add(&self) -> Result<Addition<'_>, StoreError> {
        let mut transaction = self.store.pool.begin().await?;
        // Whoever claims the job next waits for this addition, and so finds it.
        let text = format!(
            "select id from jobs where id = $1 and fence = $2 and state = 'running'{}",
            if self.store.is_shared { " for share" } else { "" }
        );
        let held = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(&self.lease.job().0)
            .bind(self.lease.fence())
            .fetch_optional(&mut *transaction)
            .await?;
        lease::fenced(&self.lease, u64::from(held.is_some()))?;
        Ok(Addition { transaction, lease: &self.lease })
    }

    /// The names of the files below a folder.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn names(&self, below: &str) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query("select distinct name from run_files where run = (select run from jobs where id = $1) order by name")
            .bind(&self.lease.job().0)
            .fetch_all(&self.store.pool)
            .await?;
        let names = rows.iter().map(|row| row.try_get::<String, _>("name")).collect::<Result<Vec<_>, _>>()?;
        Ok(names.into_iter().filter(|name| name.starts_with(below)).collect())
    }

    /// A whole file; empty when there is none.
    ///
    /// # Errors
    /// When the database fails, or a part can't be read.
    pub async fn read(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let rows = sqlx::query("select body from run_files where run = (select run from jobs where id = $1) and name = $2 order by part")
            .bind(&self.lease.job().0)
            .bind(name)
            .fetch_all(&self.store.pool)
            .await?;
        let mut whole = Vec::new();
        for row in rows {
            let part = STANDARD.decode(row.try_get::<String, _>("body")?);
            let unreadable =
                |error: base64::DecodeError| StoreError::Unreadable { row: format!("run_files {name}"), why: error.to_string() };
            whole.extend(part.map_err(unreadable)?);
        }
        Ok(whole)
    }
}

impl Addition<'_> {
    /// Adds to the end of a file, which is made where it is missing.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        for part in bytes.chunks(PART) {
            sqlx::query(
                "insert into run_files (run, name, part, body) select j.run, cast($1 as text), \
                 (select coalesce(max(f.part) + 1, 0) from run_files f where f.run = j.run and f.name = $1), cast($2 as text) \
                 from jobs j where j.id = $3",
            )
            .bind(name)
            .bind(STANDARD.encode(part))
            .bind(&self.lease.job().0)
            .execute(&mut *self.transaction)
            .await?;
        }
        Ok(())
    }

    /// Forgets every file below a folder.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn forget(&mut self, below: &str) -> Result<(), StoreError> {
        sqlx::query("delete from run_files where run = (select run from jobs where id = $1) and substr(name, 1, cast($2 as integer)) = $3")
            .bind(&self.lease.job().0)
            .bind(i64::try_from(below.chars().count()).unwrap_or(i64::MAX))
            .bind(below)
            .execute(&mut *self.transaction)
            .await?;
        Ok(())
    }

    /// Keeps all of it: on the disk when this returns.
    ///
    /// # Errors
    /// When the database fails; then nothing was added.
    pub async fn commit(self) -> Result<(), StoreError> {
        Ok(self.transaction.commit().await?)
    }
}

/// Forgets what a run kept; its job has ended.
pub(super) async fn forget(transaction: &mut sqlx::Transaction<'_, sqlx::Any>, run: &str) -> Result<(), StoreError> {
    sqlx::query("delete from run_files where run = $1").bind(run).execute(&mut **transaction).await?;
    Ok(())
}
