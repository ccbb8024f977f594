//! What is asked beside a label: commands, reviews, and the reasons to stop. Each is a row before its delivery is answered, and stays one
//! until a worker's hand has done with it.
//!
//! What must hold: the same act told twice is one row; a row whose worker died is taken up again; a later word on the same issue is not
//! lost while an earlier one is worked on.

use serde_json::json;
use sqlx::Row as _;

use super::{Alone, Store, StoreError, plain, repository_name};
use crate::audit::{Digest, Kind, Note};
use crate::domain::{Clock, Event, Ids, RepoRef, ReviewState, Verb};

/// Something that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Its id.
    pub id: String,
    /// The repository as it was named.
    pub repo: RepoRef,
    /// The issue or pull request; 0 for all issues of the repository.
    pub issue: i64,
    /// The event that asks.
    pub event: Event,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub asked_ms: i64,
    /// How often it was taken up, this time included.
    pub tries: i64,
    told: i64,
}

impl Store {
    /// Takes up what was asked first and is due; for `lease_ms` nobody else gets it, nor anything else of its issue.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_ask(&self, owner: &str, lease_ms: i64, clock: &dyn Clock) -> Result<Option<Ask>, StoreError> {
        let look = format!(
            "with clock as (select {} as now) select now from clock where exists \
             (select 1 from asks where state = 'open' and not_before_ms <= clock.now)",
            self.lease_clock(clock)
        );
        // Who has nothing to do holds up nobody who has.
        let Some(due) = sqlx::query(sqlx::AssertSqlSafe(look)).fetch_optional(&self.pool).await? else { return Ok(None) };
        let now: i64 = due.try_get("now")?;
        let mut transaction = self.alone(Alone::Asks).await?;
        let row = sqlx::query(
            "update asks set not_before_ms = $1, owner = $2, tries = tries + 1 where id = \
             (select id from asks a where state = 'open' and not_before_ms <= $3 and not exists \
             (select 1 from asks b where b.state = 'open' and b.owner is not null and b.not_before_ms > $3 and b.id <> a.id \
             and b.forge = a.forge and b.repo_id = a.repo_id and b.issue = a.issue) order by asked_ms, id limit 1) \
             and state = 'open' and not_before_ms <= $3 returning id, forge, repo_id, repo_path, issue, event, asked_ms, tries, told",
        )
        .bind(now + lease_ms)
        .bind(owner)
        .bind(now)
        .fetch_optional(&mut *transaction)
        .await?;
        transaction.commit().await?;
        row.map(|row| ask(&row)).transpose()
    }

    /// Notes what came of it. What was asked again meanwhile stays open.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_ask(&self, ask: &Ask, answer: &str) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let ended = sqlx::query("update asks set state = 'done', answer = $1, owner = null where id = $2 and told = $3")
            .bind(plain(answer))
            .bind(&ask.id)
            .bind(ask.told)
            .execute(&mut *transaction)
            .await?;
        if ended.rows_affected() == 1 {
            let facts = json!({"verb": ask.event.verb.name(), "answer": Digest::of(answer.as_bytes())});
            let note = Note::new(Kind::Answered, facts).about(repository_name(&ask.repo), Some(ask.issue));
            let note = match &ask.event.actor {
                Some(actor) => note.by_person(&ask.repo.forge, &actor.login),
                None => note,
            };
            self.note(&mut transaction, &note).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Leaves it for later.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn put_off_ask(&self, ask: &Ask, delay_ms: i64, why: &str, clock: &dyn Clock) -> Result<(), StoreError> {
        sqlx::query("update asks set not_before_ms = $1, answer = $2, owner = null where id = $3 and told = $4")
            .bind(self.lease_time(clock).await? + delay_ms)
            .bind(plain(why))
            .bind(&ask.id)
            .bind(ask.told)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Lets go of what this worker was at before it was restarted.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release_own_asks(&self, owner: &str) -> Result<u64, StoreError> {
        let freed = sqlx::query("update asks set not_before_ms = 0, owner = null where state = 'open' and owner = $1")
            .bind(owner)
            .execute(&self.pool)
            .await?;
        Ok(freed.rows_affected())
    }

    /// Asks to look at an issue again, as a delivery would.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn ask(&self, event: &Event, clock: &dyn Clock, ids: &dyn Ids) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        write(&mut transaction, event, &ids.next(), clock.now_ms()).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// What was asked of a forge, newest first: verb, state, what came of it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn asks(&self, forge: &str, limit: i64) -> Result<Vec<[String; 3]>, StoreError> {
        let rows = sqlx::query(
            "select verb, state, coalesce(answer, '') as answer from asks where forge = $1 order by asked_ms desc, id desc limit $2",
        )
        .bind(forge)
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|row| Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?])).collect()
    }
}

/// Whether an event asks for something that is worked off as an ask.
pub(super) fn is_ask(event: &Event) -> bool {
    match event.verb {
        Verb::Cancel | Verb::Command | Verb::Finish => true,
        Verb::Recheck => event.trigger.is_none(),
        Verb::Feedback => event.note.as_ref().is_some_and(|note| note.review == Some(ReviewState::ChangesRequested)),
        Verb::Start | Verb::Admin | Verb::Ignore => false,
    }
}

/// Writes an ask down, once for each act; of those that only ask to look again, the newest word stays.
pub(super) async fn write(
    transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
    event: &Event,
    id: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let Some(repo) = event.trigger.as_ref().map(|trigger| &trigger.repo).or(event.repository.as_ref()) else { return Ok(()) };
    let text = serde_json::to_string(event).map_err(|error| StoreError::Failed(error.to_string()))?;
    sqlx::query(
        "insert into asks (id, forge, repo_id, repo_path, issue, verb, act, event, state, asked_ms, not_before_ms, tries, told) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, 'open', $9, 0, 0, 0) \
         on conflict (forge, repo_id, issue, verb, act) do update set told = asks.told + 1, state = 'open', event = excluded.event, \
         repo_path = excluded.repo_path, asked_ms = excluded.asked_ms, not_before_ms = 0, tries = 0 where excluded.act in ('', 'gone')",
    )
    .bind(id)
    .bind(&repo.forge)
    .bind(&repo.id)
    .bind(plain(&repo.path))
    .bind(event.trigger.as_ref().map_or(0, |trigger| trigger.number))
    .bind(event.verb.name())
    .bind(act(event, id))
    .bind(text)
    .bind(now_ms)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// An administrator changed what we may see or do on a forge: every repository with something under way is looked at again. Whether there is any.
pub(super) async fn look_at_all(
    transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
    forge: &str,
    event: &Event,
    ids: &dyn Ids,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let rows = sqlx::query("select repo_id, max(repo_path) as repo_path from jobs where forge = $1 and state <> 'done' group by repo_id")
        .bind(forge)
        .fetch_all(&mut **transaction)
        .await?;
    for row in &rows {
        let repo = RepoRef { forge: forge.to_owned(), id: row.try_get("repo_id")?, path: row.try_get("repo_path")? };
        let look_again = Event { verb: Verb::Recheck, repository: Some(repo), trigger: None, note: None, command: None, ..event.clone() };
        write(transaction, &look_again, &ids.next(), now_ms).await?;
    }
    Ok(!rows.is_empty())
}

fn act(event: &Event, id: &str) -> String {
    match (event.verb, &event.note) {
        (Verb::Command | Verb::Feedback, Some(note)) if !note.id.is_empty() && note.id != "0" => {
            format!("{}:{}", if note.review.is_some() { "review" } else { "comment" }, note.id)
        }
        // The forge gives it no id: which review it is, is asked of the forge.
        (Verb::Command | Verb::Feedback, _) => format!("row:{id}"),
        _ if event.says_gone() => "gone".to_owned(),
        _ => String::new(),
    }
}

fn ask(row: &sqlx::any::AnyRow) -> Result<Ask, StoreError> {
    let (id, event): (String, String) = (row.try_get("id")?, row.try_get("event")?);
    let event =
        serde_json::from_str(&event).map_err(|error| StoreError::Unreadable { row: format!("asks.{id}.event"), why: error.to_string() })?;
    Ok(Ask {
        id,
        repo: RepoRef { forge: row.try_get("forge")?, id: row.try_get("repo_id")?, path: row.try_get("repo_path")? },
        issue: row.try_get("issue")?,
        event,
        asked_ms: row.try_get("asked_ms")?,
        tries: row.try_get("tries")?,
        told: row.try_get("told")?,
    })
}
