//! One run of the chain as a file that anybody can check.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sqlx::Row as _;

use super::{link, unwritable};
use crate::audit::{Checked, Digest, Envelope, Event, Export, Exported, Person, Record, SigningKey};
use crate::store::{Store, StoreError, plain};

impl Store {
    /// The file of a run: everything from its first row to the first signed end behind its last one; where there is none yet, the end of the chain is
    /// signed. None when no row is of the run.
    ///
    /// # Errors
    /// When the database fails, or a row of it can't be read.
    pub async fn export(&self, run: &str, key: &SigningKey) -> Result<Option<Export>, StoreError> {
        self.seal().await?;
        let run = &*plain(run);
        let of_run = sqlx::query("select min(number) as first, max(number) as last from audit_chain where run = $1")
            .bind(run)
            .fetch_one(&self.pool)
            .await?;
        let (Some(first), Some(last)) = (of_run.try_get::<Option<i64>, _>("first")?, of_run.try_get::<Option<i64>, _>("last")?) else {
            return Ok(None);
        };
        let Some(signed) = self.signed_behind(last, key).await? else { return Ok(None) };
        let last = self.signed_row(&signed, key)?;
        let before = self.hash_of(first - 1).await?;
        let mut export = Export::new(run, before, self.rows_of(run, first, last).await?, signed, key.public());
        for name in export.named() {
            if let Some(record) = self.record(run, &name).await? {
                export.records.insert(name, record);
            }
        }
        export.people = self.people(export.pseudonyms()).await?;
        Ok(Some(export))
    }

    /// The first signed end at this row or behind it.
    async fn signed_behind(&self, number: i64, key: &SigningKey) -> Result<Option<Envelope>, StoreError> {
        let row = sqlx::query("select envelope from audit_checkpoints where keyid = $1 and number >= $2 order by number limit 1")
            .bind(key.public().id())
            .bind(number)
            .fetch_optional(&self.pool)
            .await?;
        match row {
            Some(row) => super::envelope(&row).map(Some),
            None => self.sign_the_end(key).await,
        }
    }

    fn signed_row(&self, signed: &Envelope, key: &SigningKey) -> Result<i64, StoreError> {
        crate::audit::Checkpoint::open(signed, &key.public()).map(|checkpoint| checkpoint.number).map_err(unwritable)
    }

    async fn hash_of(&self, number: i64) -> Result<Digest, StoreError> {
        if number == 0 {
            return Ok(Checked::START.hash);
        }
        let row = sqlx::query("select number, hash from audit_chain where number = $1").bind(number).fetch_one(&self.pool).await?;
        super::digest(&row, "hash")
    }

    async fn rows_of(&self, run: &str, first: i64, last: i64) -> Result<Vec<Exported>, StoreError> {
        let rows = sqlx::query(
            "select c.number, c.run, c.nth, c.event, c.previous, c.hash, case when c.run = $1 then e.event end as text \
             from audit_chain c join audit_events e on e.arrival = c.arrival where c.number between $2 and $3 order by c.number",
        )
        .bind(run)
        .bind(first)
        .bind(last)
        .fetch_all(&self.pool)
        .await?;
        let exported = |row: &sqlx::any::AnyRow| {
            let (link, hash) = link(row)?;
            let event = row.try_get::<Option<String>, _>("text")?.map(|text| serde_json::from_str::<Event>(&text)).transpose();
            let event = event
                .map_err(|error| StoreError::Unreadable { row: format!("the event of row {}", link.number), why: error.to_string() })?;
            Ok(Exported { link, hash, event })
        };
        rows.iter().map(exported).collect()
    }

    /// A record of a run by its digest; none when it was erased.
    ///
    /// # Errors
    /// When the database fails, or the record can't be read.
    pub async fn record(&self, run: &str, digest: &str) -> Result<Option<Record>, StoreError> {
        let row = sqlx::query("select kind, body from audit_records where run = $1 and digest = $2")
            .bind(run)
            .bind(digest)
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let bytes = STANDARD
            .decode(row.try_get::<String, _>("body")?)
            .map_err(|error| StoreError::Unreadable { row: format!("audit_records {digest}"), why: error.to_string() })?;
        Ok(Some(Record::of(&row.try_get::<String, _>("kind")?, &bytes)))
    }

    async fn people(&self, pseudonyms: impl IntoIterator<Item = String>) -> Result<BTreeMap<String, Person>, StoreError> {
        let mut people = BTreeMap::new();
        for pseudonym in pseudonyms {
            let row = sqlx::query("select forge, login, salt from people where pseudonym = $1")
                .bind(&pseudonym)
                .fetch_optional(&self.pool)
                .await?;
            if let Some(row) = row {
                people.insert(pseudonym, Person { forge: row.try_get("forge")?, login: row.try_get("login")?, salt: row.try_get("salt")? });
            }
        }
        Ok(people)
    }
}
