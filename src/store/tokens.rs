//! The keys by which programs use the API.
//!
//! What must hold: a key is shown once, when it is made, and the database knows its digest alone; making and ending one stands in the audit chain.

use serde_json::json;
use sqlx::Row as _;

use super::secrets::{digest_of, new_secret};
use super::{Doer, Store, StoreError, plain};
use crate::audit::Kind;
use crate::domain::{Clock, Ids};

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Look.
    Read,
    /// Look, also at the audit chain.
    Audit,
    /// Everything.
    Operate,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Read, Self::Audit, Self::Operate];

    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Audit => "audit",
            Self::Operate => "operate",
        }
    }
}

/// A key, without itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    /// Its id, by which it is ended.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// The only repositories that it reaches, `forge/id`; none: all.
    pub repositories: Option<Vec<String>>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub made_ms: i64,
    /// When it runs out; none: never.
    pub ends_ms: Option<i64>,
    /// When it was last used, to the hour.
    pub used_ms: Option<i64>,
}

/// What a key begins with, so that scanners for secrets know one.
pub const TOKEN_PREFIX: &str = "frognano_";

/// That a key is in use is written down so often at most.
const USED_EVERY_MS: i64 = 60 * 60 * 1000;

const COLUMNS: &str = "id, name, scope, repositories, made_ms, ends_ms, used_ms";

impl Store {
    /// Makes a key that holds for so many milliseconds, or for ever; the key itself, which nobody can show again.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn make_token(
        &self,
        (name, scope, repositories): (&str, Scope, Option<&[String]>),
        holds_ms: Option<i64>,
        by: &Doer,
        clock: &dyn Clock,
        ids: &dyn Ids,
    ) -> Result<(String, String), StoreError> {
        let (id, key, now) = (ids.next(), format!("{TOKEN_PREFIX}{}", new_secret()?), clock.now_ms());
        let listed = repositories.map(serde_json::to_string).transpose().map_err(|error| StoreError::Failed(error.to_string()))?;
        let mut transaction = self.pool.begin().await?;
        sqlx::query("insert into api_tokens (id, name, hash, scope, repositories, made_ms, ends_ms) values ($1, $2, $3, $4, $5, $6, $7)")
            .bind(&id)
            .bind(plain(name))
            .bind(digest_of(&key))
            .bind(scope.name())
            .bind(listed)
            .bind(now)
            .bind(holds_ms.map(|holds| now.saturating_add(holds)))
            .execute(&mut *transaction)
            .await?;
        let facts = json!({"did": "token-new", "token": id, "scope": scope.name(), "repositories": repositories, "holds_ms": holds_ms});
        self.note(&mut transaction, &by.note(Kind::Access, facts)).await?;
        transaction.commit().await?;
        Ok((id, key))
    }

    /// The key that somebody shows; none when there is none, or it ran out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn token(&self, key: &str, clock: &dyn Clock) -> Result<Option<ApiToken>, StoreError> {
        let (hash, now) = (digest_of(key), clock.now_ms());
        let text = format!("select {COLUMNS} from api_tokens where hash = $1 and (ends_ms is null or ends_ms > $2)");
        let row = sqlx::query(sqlx::AssertSqlSafe(text)).bind(&hash).bind(now).fetch_optional(&self.pool).await?;
        let Some(token) = row.map(|row| token(&row)).transpose()? else { return Ok(None) };
        if token.used_ms.is_none_or(|used| now - used >= USED_EVERY_MS) {
            sqlx::query("update api_tokens set used_ms = $1 where hash = $2").bind(now).bind(&hash).execute(&self.pool).await?;
        }
        Ok(Some(token))
    }

    /// All keys, the newest first; those that ran out too.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn tokens(&self) -> Result<Vec<ApiToken>, StoreError> {
        let text = format!("select {COLUMNS} from api_tokens order by made_ms desc, id desc limit 1000");
        sqlx::query(sqlx::AssertSqlSafe(text)).fetch_all(&self.pool).await?.iter().map(token).collect()
    }

    /// Ends a key for good; false when there is none of this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_token(&self, id: &str, by: &Doer) -> Result<bool, StoreError> {
        let mut transaction = self.pool.begin().await?;
        let ended =
            sqlx::query("delete from api_tokens where id = $1").bind(plain(id)).execute(&mut *transaction).await?.rows_affected() == 1;
        if ended {
            self.note(&mut transaction, &by.note(Kind::Access, json!({"did": "token-end", "token": id}))).await?;
        }
        transaction.commit().await?;
        Ok(ended)
    }
}

fn token(row: &sqlx::any::AnyRow) -> Result<ApiToken, StoreError> {
    let (id, scope): (String, String) = (row.try_get("id")?, row.try_get("scope")?);
    let unreadable = |why: String| StoreError::Unreadable { row: format!("api_tokens.{id}"), why };
    let scope = Scope::ALL.into_iter().find(|one| one.name() == scope).ok_or_else(|| unreadable(format!("its scope is {scope}")))?;
    let repositories = row.try_get::<Option<String>, _>("repositories")?.map(|listed| serde_json::from_str(&listed)).transpose();
    Ok(ApiToken {
        name: row.try_get("name")?,
        scope,
        repositories: repositories.map_err(|error| unreadable(error.to_string()))?,
        made_ms: row.try_get("made_ms")?,
        ends_ms: row.try_get("ends_ms")?,
        used_ms: row.try_get("used_ms")?,
        id,
    })
}
