//! Who is signed in to the pages.
//!
//! What must hold: the database never holds what the browser holds; each sign-in makes a new session; a session that ran out is none.

use serde_json::json;
use sqlx::Row as _;

use super::secrets::{digest_of, new_secret};
use super::{Doer, Store, StoreError, plain};
use crate::audit::{Kind, Note};
use crate::domain::{Actor, Clock};

/// How long sessions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTimes {
    /// At most, in milliseconds.
    pub most_ms: i64,
    /// While nothing is done, in milliseconds.
    pub idle_ms: i64,
}

/// Somebody who is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The configured name of the forge.
    pub forge: String,
    /// The login there, when they signed in.
    pub login: String,
}

/// So many sessions of one account hold at once, the newest; no account fills the database.
const MOST_OF_ONE: i64 = 20;

/// A session that begins later than this from now is of a clock that has been set back since: it would hold for too long.
const CLOCKS_DIFFER_MS: i64 = 5 * 60_000;

/// That somebody is there is written down so often at most.
const SEEN_EVERY_MS: i64 = 60_000;

impl Store {
    /// Begins a session in place of the one that the browser had, and writes that down; what the browser holds from now on.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn begin_session(
        &self,
        forge: &str,
        account: &Actor,
        before: Option<&str>,
        times: SessionTimes,
        clock: &dyn Clock,
    ) -> Result<String, StoreError> {
        let (secret, now) = (new_secret()?, clock.now_ms());
        let mut transaction = self.pool.begin().await?;
        sqlx::query("delete from sessions where id = $1 or since_ms <= $2 or seen_ms <= $3")
            .bind(digest_of(before.unwrap_or_default()))
            .bind(now - times.most_ms)
            .bind(now - times.idle_ms)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("insert into sessions (id, forge, account, login, since_ms, seen_ms) values ($1, $2, $3, $4, $5, $6)")
            .bind(digest_of(&secret))
            .bind(forge)
            .bind(plain(&account.id))
            .bind(plain(&account.login))
            .bind(now)
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "delete from sessions where forge = $1 and account = $2 and id not in \
             (select id from sessions where forge = $1 and account = $2 order by since_ms desc, id limit $3)",
        )
        .bind(forge)
        .bind(plain(&account.id))
        .bind(MOST_OF_ONE)
        .execute(&mut *transaction)
        .await?;
        let note = Note::new(Kind::Access, json!({"did": "sign-in", "forge": forge})).by_person(forge, &account.login);
        self.note(&mut transaction, &note).await?;
        transaction.commit().await?;
        Ok(secret)
    }

    /// The session of what a browser holds; none when there is none, or it ran out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn session(&self, secret: &str, times: SessionTimes, clock: &dyn Clock) -> Result<Option<Session>, StoreError> {
        let (id, now) = (digest_of(secret), clock.now_ms());
        let row =
            sqlx::query("select forge, login, seen_ms from sessions where id = $1 and since_ms > $2 and seen_ms > $3 and since_ms <= $4")
                .bind(&id)
                .bind(now - times.most_ms)
                .bind(now - times.idle_ms)
                .bind(now.saturating_add(CLOCKS_DIFFER_MS))
                .fetch_optional(&self.pool)
                .await?;
        let Some(row) = row else { return Ok(None) };
        if now - row.try_get::<i64, _>("seen_ms")? >= SEEN_EVERY_MS {
            sqlx::query("update sessions set seen_ms = $1 where id = $2").bind(now).bind(&id).execute(&self.pool).await?;
        }
        Ok(Some(Session { forge: row.try_get("forge")?, login: row.try_get("login")? }))
    }

    /// Ends a session, and writes that down.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_session(&self, secret: &str) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let row = sqlx::query("delete from sessions where id = $1 returning forge, login")
            .bind(digest_of(secret))
            .fetch_optional(&mut *transaction)
            .await?;
        if let Some(row) = row {
            let by = Doer { name: row.try_get("login")?, forge: Some(row.try_get("forge")?) };
            self.note(&mut transaction, &by.note(Kind::Access, json!({"did": "sign-out"}))).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// The secret by which our own forms are known, the same in every process of the service; made once.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn web_secret(&self) -> Result<String, StoreError> {
        sqlx::query("insert into web_secret (one, secret) values (1, $1) on conflict (one) do nothing")
            .bind(new_secret()?)
            .execute(&self.pool)
            .await?;
        Ok(sqlx::query("select secret from web_secret").fetch_one(&self.pool).await?.try_get("secret")?)
    }
}
