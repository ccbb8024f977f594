//! The audit chain in the database (the rules of it are in [`crate::audit`]).
//!
//! What must hold: an event is written in the transaction that it tells about, beside all others; whoever seals puts those that are committed into
//! the one order of the chain, under a lock that nobody holds while anything else is done. What was committed before another event was written
//! stands before it. The database itself refuses to change or delete a row.

mod checked;
mod exported;
mod retention;

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sqlx::Row as _;

pub use retention::{EndedJob, Forgotten, Keeping};

use super::{Store, StoreError, places, plain};
use crate::audit::{Broken, Checked, Checkpoint, Digest, Envelope, Link, Note, Person, PublicKey, Row, SigningKey, Who, canonical};
use crate::domain::RepoRef;

/// So many events are put into the chain in one transaction.
const BATCH: i64 = 1000;

/// Why a check of the chain in the database ended without a yes.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The chain does not hold.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for ChainError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// The state of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainState {
    /// Its name; empty while nothing was sealed.
    pub log: String,
    /// The number of its last row.
    pub last: i64,
    /// Events that are in no row yet.
    pub waiting: i64,
    /// The newest signed end: the number of its row, when it was signed, the name of the key.
    pub signed: Option<(i64, i64, String)>,
}

/// What a repository is called in the chain.
#[must_use]
pub fn repository_name(repo: &RepoRef) -> String {
    format!("{}/{}", repo.forge, repo.id)
}

impl Store {
    /// Writes an event down in a transaction of its own.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn witness(&self, note: &Note) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        self.note(&mut transaction, note).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Writes an event down where a named value is not the one that it was the last time.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn note_change(&self, name: &str, value: &str, note: &Note) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let changed = sqlx::query(
            "insert into audit_values (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value \
             where audit_values.value <> excluded.value",
        )
        .bind(name)
        .bind(value)
        .execute(&mut *transaction)
        .await?;
        if changed.rows_affected() == 1 {
            self.note(&mut transaction, note).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Writes an event down in the transaction that it tells about.
    pub(super) async fn note(&self, transaction: &mut sqlx::Transaction<'_, sqlx::Any>, note: &Note) -> Result<(), StoreError> {
        self.note_all(transaction, std::slice::from_ref(note)).await
    }

    /// Writes events down, in this order, in the transaction that they tell about.
    pub(super) async fn note_all(&self, transaction: &mut sqlx::Transaction<'_, sqlx::Any>, notes: &[Note]) -> Result<(), StoreError> {
        let mut texts = Vec::with_capacity(notes.len());
        for note in notes {
            let person = match &note.person {
                Some((forge, login)) => Some(self.pseudonym(transaction, forge, login).await?),
                None => None,
            };
            texts.push(self.text_of(note, person)?);
        }
        let values = (0..notes.len()).map(|row| format!("({})", places(row * 3, 3))).collect::<Vec<_>>().join(", ");
        let insert = format!("insert into audit_events (once, run, event) values {values} on conflict (once) do nothing");
        let mut insert = sqlx::query(sqlx::AssertSqlSafe(insert));
        for (note, text) in notes.iter().zip(&texts) {
            insert = insert.bind(&note.once).bind(note.run.as_deref().map(plain)).bind(text);
        }
        insert.execute(&mut **transaction).await?;
        Ok(())
    }

    /// The text of an event whose person, if there is one, is remembered; none where the database must be asked.
    pub(super) fn text_at_once(&self, note: &Note) -> Result<Option<String>, StoreError> {
        let Some((forge, login)) = &note.person else { return self.text_of(note, None).map(Some) };
        let known = self.pseudonyms.get(&(plain(forge), plain(login)));
        known.map(|person| self.text_of(note, Some(person))).transpose()
    }

    fn text_of(&self, note: &Note, person: Option<String>) -> Result<String, StoreError> {
        let mut event = note.now(self.clock.now_ms(), &self.life);
        if let Some(person) = person {
            event.who = Who::Person(person);
        }
        let text = canonical(&event).map_err(unwritable)?;
        Ok(plain(&String::from_utf8_lossy(&text)))
    }

    /// The name of a person in the chain: random, and known to the database alone.
    async fn pseudonym(&self, transaction: &mut sqlx::Transaction<'_, sqlx::Any>, forge: &str, login: &str) -> Result<String, StoreError> {
        let (forge, login) = (plain(forge), plain(login));
        let who = (forge.clone(), login.clone());
        if let Some(known) = self.pseudonyms.get(&who) {
            return Ok(known);
        }
        let person = Person { forge: forge.clone(), login: login.clone(), salt: uuid::Uuid::new_v4().simple().to_string() };
        // Written before anything is read, so that SQLite's one writer waits for its turn here.
        let made = sqlx::query(
            "insert into people (pseudonym, forge, login, salt) select cast($1 as text), cast($2 as text), cast($3 as text), cast($4 as text) \
             where not exists (select 1 from people where forge = $2 and login = $3) on conflict do nothing",
        )
        .bind(person.pseudonym())
        .bind(&forge)
        .bind(&login)
        .bind(&person.salt)
        .execute(&mut **transaction)
        .await?;
        let row = sqlx::query("select pseudonym from people where forge = $1 and login = $2")
            .bind(&forge)
            .bind(&login)
            .fetch_one(&mut **transaction)
            .await?;
        let pseudonym: String = row.try_get("pseudonym")?;
        if made.rows_affected() == 0 {
            self.pseudonyms.put(who, pseudonym.clone());
        }
        Ok(pseudonym)
    }

    /// What a person is called in the chain.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn pseudonym_of(&self, forge: &str, login: &str) -> Result<String, StoreError> {
        let mut transaction = self.pool.begin().await?;
        let pseudonym = self.pseudonym(&mut transaction, forge, login).await?;
        transaction.commit().await?;
        Ok(pseudonym)
    }

    /// Puts everything that waits into the chain; how many rows were made.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn seal(&self) -> Result<i64, StoreError> {
        let mut made = 0;
        loop {
            let batch = self.seal_a_batch().await?;
            made += batch;
            if batch < BATCH {
                return Ok(made);
            }
        }
    }

    async fn seal_a_batch(&self) -> Result<i64, StoreError> {
        let waiting: Option<i64> = sqlx::query("select arrival from audit_unsealed limit 1")
            .fetch_optional(&self.pool)
            .await?
            .map(|row| row.try_get(0))
            .transpose()?;
        if waiting.is_none() {
            return Ok(0);
        }
        let mut transaction = self.pool.begin().await?;
        // The lock: whoever else seals waits here, and then sees what was sealed.
        sqlx::query(
            "insert into audit_log (one, name, seals) values (1, $1, 1) on conflict (one) do update set seals = audit_log.seals + 1",
        )
        .bind(uuid::Uuid::new_v4().simple().to_string())
        .execute(&mut *transaction)
        .await?;
        let rows = sqlx::query(
            "select e.arrival, e.run, e.event from audit_unsealed u join audit_events e on e.arrival = u.arrival order by e.arrival limit $1",
        )
        .bind(BATCH)
        .fetch_all(&mut *transaction)
        .await?;
        let head =
            sqlx::query("select number, hash from audit_chain order by number desc limit 1").fetch_optional(&mut *transaction).await?;
        let mut last = match head {
            Some(row) => Checked { number: row.try_get("number")?, hash: digest(&row, "hash")? },
            None => Checked::START,
        };
        let mut of_runs = HashMap::<String, i64>::new();
        let mut chain = Vec::new();
        for row in &rows {
            let run: Option<String> = row.try_get("run")?;
            let nth = match &run {
                Some(run) => Some(self.next_of_run(&mut transaction, &mut of_runs, run).await?),
                None => None,
            };
            let event = Digest::of(row.try_get::<String, _>("event")?.as_bytes());
            let sealed = Link { number: last.number + 1, event, run, nth, previous: last.hash }.seal().map_err(unwritable)?;
            last = Checked { number: sealed.link.number, hash: sealed.hash };
            chain.push((row.try_get::<i64, _>("arrival")?, sealed));
        }
        for part in chain.chunks(100) {
            let values = (0..part.len()).map(|row| format!("({})", places(row * 7, 7))).collect::<Vec<_>>().join(", ");
            let insert = format!("insert into audit_chain (number, arrival, run, nth, event, previous, hash) values {values}");
            let done = format!("delete from audit_unsealed where arrival in ({})", places(0, part.len()));
            let (mut insert, mut done) = (sqlx::query(sqlx::AssertSqlSafe(insert)), sqlx::query(sqlx::AssertSqlSafe(done)));
            for (arrival, Row { link, hash }) in part {
                insert = insert.bind(link.number).bind(*arrival).bind(link.run.clone()).bind(link.nth);
                insert = insert.bind(link.event.to_string()).bind(link.previous.to_string()).bind(hash.to_string());
                done = done.bind(*arrival);
            }
            insert.execute(&mut *transaction).await?;
            done.execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(i64::try_from(rows.len()).unwrap_or(i64::MAX))
    }

    async fn next_of_run(
        &self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
        of_runs: &mut HashMap<String, i64>,
        run: &str,
    ) -> Result<i64, StoreError> {
        let before = match of_runs.get(run) {
            Some(nth) => *nth,
            None => sqlx::query("select coalesce(max(nth), 0) as nth from audit_chain where run = $1")
                .bind(run)
                .fetch_one(&mut **transaction)
                .await?
                .try_get("nth")?,
        };
        of_runs.insert(run.to_owned(), before + 1);
        Ok(before + 1)
    }

    /// The names of the keys that ends of the chain were signed with since a time, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn signing_keys(&self, since_ms: i64) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query("select keyid from audit_checkpoints where at_ms >= $1 group by keyid order by max(number) desc")
            .bind(since_ms)
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok(row.try_get("keyid")?)).collect()
    }

    /// Seals what waits and signs the end of the chain, unless that was done at this row; none while the chain is empty.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sign_the_end(&self, key: &SigningKey) -> Result<Option<Envelope>, StoreError> {
        self.seal().await?;
        let row = sqlx::query("select l.name, c.number, c.hash from audit_log l, audit_chain c order by c.number desc limit 1")
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let checkpoint = Checkpoint {
            log: row.try_get("name")?,
            number: row.try_get("number")?,
            hash: digest(&row, "hash")?,
            at_ms: self.clock.now_ms(),
        };
        let envelope = checkpoint.sign(key).map_err(unwritable)?;
        let text = serde_json::to_string(&envelope).map_err(unwritable)?;
        sqlx::query(
            "insert into audit_checkpoints (number, at_ms, keyid, envelope) values ($1, $2, $3, $4) on conflict (number, keyid) do nothing",
        )
        .bind(checkpoint.number)
        .bind(checkpoint.at_ms)
        .bind(key.public().id())
        .bind(text)
        .execute(&self.pool)
        .await?;
        self.signed_end(checkpoint.number, &key.public()).await.map(|signed| Some(signed.unwrap_or(envelope)))
    }

    /// The signed end at a row, by a key.
    async fn signed_end(&self, number: i64, key: &PublicKey) -> Result<Option<Envelope>, StoreError> {
        let row = sqlx::query("select envelope from audit_checkpoints where number = $1 and keyid = $2")
            .bind(number)
            .bind(key.id())
            .fetch_optional(&self.pool)
            .await?;
        row.map(|row| envelope(&row)).transpose()
    }

    /// How the chain stands.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn chain_state(&self) -> Result<ChainState, StoreError> {
        let log = sqlx::query("select name from audit_log").fetch_optional(&self.pool).await?;
        let last = sqlx::query("select coalesce(max(number), 0) as last from audit_chain").fetch_one(&self.pool).await?;
        let waiting = sqlx::query("select count(*) as waiting from audit_unsealed").fetch_one(&self.pool).await?;
        let signed = sqlx::query("select number, at_ms, keyid from audit_checkpoints order by number desc limit 1")
            .fetch_optional(&self.pool)
            .await?;
        Ok(ChainState {
            log: log.map(|row| row.try_get("name")).transpose()?.unwrap_or_default(),
            last: last.try_get("last")?,
            waiting: waiting.try_get("waiting")?,
            signed: signed.map(|row| Ok::<_, StoreError>((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).transpose()?,
        })
    }

    /// Keeps a text or some bytes that an event of this run names, without secrets; the digest of what is kept.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn keep_record(&self, run: &str, kind: &str, bytes: &[u8]) -> Result<Digest, StoreError> {
        let bytes = self.redactor.bytes(bytes);
        let digest = Digest::of(&bytes);
        sqlx::query(
            "insert into audit_records (run, digest, kind, body, kept_ms) values ($1, $2, $3, $4, $5) on conflict (run, digest) do nothing",
        )
        .bind(plain(run))
        .bind(digest.to_string())
        .bind(kind)
        .bind(STANDARD.encode(bytes))
        .bind(self.clock.now_ms())
        .execute(&self.pool)
        .await?;
        Ok(digest)
    }
}

/// So many places for values, behind those that are taken: `$8, $9, …`. (A builder of queries for any database writes them as SQLite alone reads them.)
pub(super) fn link(row: &sqlx::any::AnyRow) -> Result<(Link, Digest), StoreError> {
    let link = Link {
        number: row.try_get("number")?,
        event: digest(row, "event")?,
        run: row.try_get("run")?,
        nth: row.try_get("nth")?,
        previous: digest(row, "previous")?,
    };
    Ok((link, digest(row, "hash")?))
}

fn digest(row: &sqlx::any::AnyRow, column: &str) -> Result<Digest, StoreError> {
    let (number, text): (i64, String) = (row.try_get("number")?, row.try_get(column)?);
    Digest::parse(&text)
        .ok_or_else(|| StoreError::Unreadable { row: format!("audit_chain {number}"), why: format!("its {column} is no SHA-256") })
}

fn envelope(row: &sqlx::any::AnyRow) -> Result<Envelope, StoreError> {
    let text: String = row.try_get("envelope")?;
    serde_json::from_str(&text).map_err(|error| StoreError::Unreadable { row: "audit_checkpoints".to_owned(), why: error.to_string() })
}

pub(super) fn unwritable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("an event can't be written: {error}"))
}
