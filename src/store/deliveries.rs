//! The inbox: one row a verified delivery.

use serde_json::json;

use crate::audit::{Digest, Kind, Note};
use crate::domain::{Clock, Event, Explanation, Ids, Origin, RepoRef, Trigger, Verb};

use super::{Store, StoreError, asks, plain, repository_name, reviews};
use sqlx::Row as _;

/// Stands in the place of the verb for a delivery that can't be read and so is ignored.
const UNREADABLE: &str = "unreadable";

/// A verified delivery with what was read from it.
#[derive(Debug)]
pub struct NewDelivery<'a> {
    /// The configured name of the forge.
    pub forge: &'a str,
    /// The forge's own id of the delivery.
    pub delivery: &'a str,
    /// The forge's name of the event.
    pub event: &'a str,
    /// The body as text, undecodable bytes replaced.
    pub body: &'a str,
    /// The normal form, or why the body can't be read.
    pub read: Result<&'a Event, &'a str>,
}

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intake {
    /// A job was made in the same transaction.
    Job(String),
    /// The issue has an active job; the delivery is looked at again when that one ends.
    Waiting,
    /// The delivery was known already; nothing was written.
    Repeated,
    /// It asks for something other than a new job; a hand of the worker looks at it.
    Asked,
    /// Nothing to do.
    Noted,
}

impl Intake {
    /// The stable name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Waiting => "waiting",
            Self::Repeated => "repeated",
            Self::Asked => "asked",
            Self::Noted => "noted",
        }
    }
}

impl Store {
    /// Writes a delivery down and, when it may ask for work, its job or what else it asks in the same transaction. One that could not be read
    /// when it first came is read anew when it is sent again: this program may know what an older one did not.
    ///
    /// # Errors
    /// When the database fails; then nothing was written and the forge must be told so.
    pub async fn take_in(&self, delivery: &NewDelivery<'_>, clock: &dyn Clock, ids: &dyn Ids) -> Result<Intake, StoreError> {
        let now = clock.now_ms();
        let explained = Explanation::of(true, delivery.event, delivery.read);
        let (verb, trigger) = match delivery.read {
            Ok(event) => (event.verb.name(), event.trigger.as_ref()),
            Err(_) => (UNREADABLE, None),
        };
        let asks = matches!(delivery.read, Ok(event) if matches!(event.verb, Verb::Start | Verb::Recheck));
        let asked = trigger.filter(|_| asks).map(|trigger| serde_json::to_string(trigger).unwrap_or_default());
        let mut transaction = self.pool.begin().await?;
        let written = sqlx::query(
            "insert into deliveries (id, forge, delivery, event, received_ms, body, verb, why, repo_id, issue, asked, repository, actor) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) on conflict (forge, delivery) do update set \
             event = excluded.event, received_ms = excluded.received_ms, body = excluded.body, verb = excluded.verb, why = excluded.why, \
             repo_id = excluded.repo_id, issue = excluded.issue, asked = excluded.asked, repository = excluded.repository, \
             actor = excluded.actor where deliveries.verb = $14 returning id",
        )
        .bind(ids.next())
        .bind(delivery.forge)
        .bind(plain(delivery.delivery))
        .bind(plain(delivery.event))
        .bind(now)
        .bind(plain(delivery.body))
        .bind(verb)
        .bind(plain(&explained.why))
        .bind(trigger.map(|trigger| trigger.repo.id.clone()))
        .bind(trigger.map(|trigger| trigger.number))
        .bind(asked)
        .bind(explained.repository.as_deref().map(plain))
        .bind(explained.actor.as_deref().map(plain))
        .bind(UNREADABLE)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(row) = written else {
            transaction.rollback().await?;
            return Ok(Intake::Repeated);
        };
        let id: String = row.try_get("id")?;
        let mut noted = None;
        if let Some(repo) = delivery.read.ok().and_then(|event| event.repository.as_ref()) {
            if self.noted.get(repo).is_none() {
                note_repository(&mut transaction, repo).await?;
                noted = Some(repo.clone());
            }
            let number = delivery.read.ok().filter(|event| event.about_pull_request).and(trigger).map(|trigger| trigger.number);
            reviews::wake(&mut transaction, repo, number, now).await?;
        }
        let intake = match (delivery.read, trigger.filter(|_| asks)) {
            (Ok(event), Some(trigger)) => {
                let job = ids.next();
                if self.insert_job(&mut transaction, &NewJob { id: &job, trigger, origin: None }, now).await? {
                    sqlx::query("update deliveries set job = $1 where id = $2").bind(&job).bind(&id).execute(&mut *transaction).await?;
                    Intake::Job(job)
                } else {
                    // It may as well say that the reason for the active job is gone.
                    let look_again = Event { verb: Verb::Recheck, note: None, command: None, ..event.clone() };
                    asks::write(&mut transaction, &look_again, &ids.next(), now).await?;
                    Intake::Waiting
                }
            }
            (Ok(event), _) if event.verb == Verb::Admin => {
                let looked_at = asks::look_at_all(&mut transaction, delivery.forge, event, ids, now).await?;
                if looked_at { Intake::Asked } else { Intake::Noted }
            }
            (Ok(event), None) if asks::is_ask(event) => {
                asks::write(&mut transaction, event, &ids.next(), now).await?;
                Intake::Asked
            }
            _ => Intake::Noted,
        };
        self.note(&mut transaction, &told(delivery, verb, &explained, &intake)).await?;
        transaction.commit().await?;
        if let Some(repo) = noted {
            self.noted.put(repo, ());
        }
        Ok(intake)
    }
}

impl Store {
    /// What a delivery that was taken in came to; none when there was none of this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn explained(&self, forge: &str, delivery: &str) -> Result<Option<Explanation>, StoreError> {
        let row = sqlx::query("select event, verb, why, repository, issue, actor from deliveries where forge = $1 and delivery = $2")
            .bind(forge)
            .bind(delivery)
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let verb: String = row.try_get("verb")?;
        Ok(Some(Explanation {
            verified: true,
            event: row.try_get("event")?,
            verb: if verb == UNREADABLE { Verb::Ignore.name().to_owned() } else { verb },
            why: row.try_get("why")?,
            repository: row.try_get("repository")?,
            issue: row.try_get("issue")?,
            actor: row.try_get("actor")?,
        }))
    }

    /// Gives a job to each delivery that still waits although its issue has no active job any more. (On PostgreSQL a delivery can be written while
    /// the job that it waits for ends.) How many jobs were made.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn take_up_waiting(&self, clock: &dyn Clock, ids: &dyn Ids) -> Result<u64, StoreError> {
        let waiting = sqlx::query(
            "select d.id, d.asked from deliveries d where d.job is null and d.asked is not null and not exists \
             (select 1 from jobs j where j.forge = d.forge and j.repo_id = d.repo_id and j.issue = d.issue and j.state <> 'done') \
             order by d.received_ms, d.id limit 100",
        )
        .fetch_all(&self.pool)
        .await?;
        let mut made = 0;
        for row in waiting {
            let (delivery, asked): (String, String) = (row.try_get("id")?, row.try_get("asked")?);
            let Ok(trigger) = serde_json::from_str::<Trigger>(&asked) else { continue };
            let job = ids.next();
            let mut transaction = self.pool.begin().await?;
            if self.insert_job(&mut transaction, &NewJob { id: &job, trigger: &trigger, origin: None }, clock.now_ms()).await? {
                sqlx::query("update deliveries set job = $1 where id = $2").bind(&job).bind(&delivery).execute(&mut *transaction).await?;
                made += 1;
            }
            transaction.commit().await?;
        }
        Ok(made)
    }
}

impl Store {
    /// Deletes deliveries that came before this time, the oldest first and at most `most` of them. One whose job has not ended, or that waits
    /// for one, stays. How many were deleted.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn prune_deliveries(&self, before_ms: i64, most: i64) -> Result<u64, StoreError> {
        let deleted = sqlx::query(
            "delete from deliveries where id in (select d.id from deliveries d where d.received_ms < $1 \
             and (d.job is not null or d.asked is null) \
             and not exists (select 1 from jobs j where j.id = d.job and j.state <> 'done') order by d.received_ms limit $2)",
        )
        .bind(before_ms)
        .bind(most)
        .execute(&self.pool)
        .await?;
        Ok(deleted.rows_affected())
    }
}

/// What the audit chain holds of a delivery.
fn told(delivery: &NewDelivery<'_>, verb: &str, explained: &Explanation, intake: &Intake) -> Note {
    let facts = json!({
        "forge": delivery.forge, "delivery": plain(delivery.delivery), "event": plain(delivery.event), "verb": verb,
        "body": Digest::of(delivery.body.as_bytes()), "came_to": intake.name(),
    });
    let note = match intake {
        Intake::Job(job) => Note::new(Kind::Delivery, facts).of_job(job),
        _ => Note::new(Kind::Delivery, facts),
    };
    let note = match delivery.read.ok().and_then(|event| event.repository.as_ref()) {
        Some(repo) => note.about(repository_name(repo), explained.issue),
        None => note,
    };
    match explained.actor.as_deref().filter(|actor| !actor.is_empty()) {
        Some(actor) => note.by_person(delivery.forge, actor),
        None => note,
    }
}

async fn note_repository(transaction: &mut sqlx::Transaction<'_, sqlx::Any>, repo: &RepoRef) -> Result<(), StoreError> {
    // Looked for first: the conflict alone would let deliveries of one repository wait for each other's disk.
    sqlx::query(
        "insert into repositories (forge, repo_id, path) select cast($1 as text), cast($2 as text), cast($3 as text) \
         where not exists (select 1 from repositories where forge = $1 and repo_id = $2 and path = $3) \
         on conflict (forge, repo_id) do update set path = excluded.path where repositories.path <> excluded.path",
    )
    .bind(&repo.forge)
    .bind(&repo.id)
    .bind(plain(&repo.path))
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// A job to insert.
pub(super) struct NewJob<'a> {
    pub(super) id: &'a str,
    pub(super) trigger: &'a Trigger,
    pub(super) origin: Option<&'a Origin>,
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
        let origin = new.origin.map(serde_json::to_string).transpose().map_err(|error| StoreError::Failed(error.to_string()))?;
        let trigger = new.trigger;
        let inserted = sqlx::query(
            "insert into jobs (id, forge, repo_id, repo_path, issue, issue_url, title, body, state, stage, queued_ms, not_before_ms, \
         lease_until_ms, fence, leases, checkpoint, origin_key, origin, priority, turn) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, 'queued', 'queued', $9, 0, 0, 0, 0, '{}', $10, $11, $12, (select max(turn) from (\
         select coalesce(max(turn) + 1, 0) as turn from jobs where state = 'queued' and forge = $2 and repo_id = $3 and priority = $12 \
         union all select coalesce(max(turn), 0) as turn from jobs where state <> 'queued' and priority = $12) turns)) \
         on conflict (forge, repo_id, issue) where state <> 'done' do nothing",
        )
        .bind(new.id)
        .bind(&trigger.repo.forge)
        .bind(&trigger.repo.id)
        .bind(plain(&trigger.repo.path))
        .bind(trigger.number)
        .bind(plain(&trigger.url))
        .bind(plain(&trigger.title))
        .bind(plain(&trigger.body))
        .bind(now_ms)
        .bind(new.origin.map(|origin| origin.key.as_str()))
        .bind(origin)
        .bind(self.priority_of(&trigger.repo))
        .execute(&mut **transaction)
        .await;
        match inserted {
            Ok(inserted) if inserted.rows_affected() == 1 => {
                let asked = Digest::of(format!("{}\0{}", trigger.title, trigger.body).as_bytes());
                let facts = json!({"issue_text": asked, "origin": new.origin.map(|origin| Digest::of(origin.key.as_bytes()))});
                let note = Note::new(Kind::JobMade, facts).about(repository_name(&trigger.repo), Some(trigger.number)).of_job(new.id);
                let note = match new.origin {
                    Some(origin) => note.by_person(&trigger.repo.forge, &origin.by.login),
                    None => note,
                };
                self.note(transaction, &note).await?;
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Err(StoreError::EpisodeKnown),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives one job to the deliveries that waited for the issue's last job to end.
    pub(super) async fn take_over_waiting(
        &self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
        repo: &RepoRef,
        issue: i64,
        now_ms: i64,
        ids: &dyn Ids,
    ) -> Result<(), StoreError> {
        let waiting: Option<String> = sqlx::query(
            "select asked from deliveries where forge = $1 and repo_id = $2 and issue = $3 and job is null and asked is not null \
         order by received_ms desc, id desc limit 1",
        )
        .bind(&repo.forge)
        .bind(&repo.id)
        .bind(issue)
        .fetch_optional(&mut **transaction)
        .await?
        .map(|row| row.try_get("asked"))
        .transpose()?;
        let Some(trigger) = waiting.and_then(|asked| serde_json::from_str::<Trigger>(&asked).ok()) else { return Ok(()) };
        let job = ids.next();
        self.insert_job(transaction, &NewJob { id: &job, trigger: &trigger, origin: None }, now_ms).await?;
        sqlx::query(
            "update deliveries set job = $1 where forge = $2 and repo_id = $3 and issue = $4 and job is null and asked is not null",
        )
        .bind(&job)
        .bind(&repo.forge)
        .bind(&repo.id)
        .bind(issue)
        .execute(&mut **transaction)
        .await?;
        Ok(())
    }
}
