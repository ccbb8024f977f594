//! The inbox: one row a verified delivery.

use serde_json::json;

use crate::audit::{Digest, Kind, Note};
use crate::domain::{Clock, Event, Explanation, Ids, RepoRef, Trigger, Verb};

use super::new_jobs::NewJob;
use super::{Query, Store, StoreError, asks, places, plain, repository_name, reviews};
use sqlx::Row as _;

/// Stands in the place of the verb for a delivery that can't be read and so is ignored.
const UNREADABLE: &str = "unreadable";

/// What is written of a delivery.
pub(super) const COLUMNS: &str = "id, forge, delivery, event, received_ms, body, verb, why, repo_id, issue, asked, repository, actor, job";

/// So many values are bound to [`COLUMNS`].
pub(super) const PLACES: usize = 14;

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

impl NewDelivery<'_> {
    fn verb(&self) -> &'static str {
        self.read.map_or(UNREADABLE, |event| event.verb.name())
    }

    /// It may ask for work on an issue.
    fn asks(&self) -> bool {
        self.read.is_ok_and(|event| matches!(event.verb, Verb::Start | Verb::Recheck))
    }

    /// A label was set on an issue.
    pub(super) fn starts(&self) -> bool {
        self.read.is_ok_and(|event| event.verb == Verb::Start)
    }
}

/// What is written of a delivery beside what came.
pub(super) struct Written<'a> {
    pub(super) id: &'a str,
    pub(super) job: Option<&'a str>,
    pub(super) now_ms: i64,
}

/// Binds [`PLACES`] values.
pub(super) fn bind_delivery<'q>(query: Query<'q>, delivery: &NewDelivery<'_>, explained: &Explanation, written: &Written<'_>) -> Query<'q> {
    let trigger = delivery.read.ok().and_then(|event| event.trigger.as_ref());
    query
        .bind(written.id.to_owned())
        .bind(delivery.forge.to_owned())
        .bind(plain(delivery.delivery))
        .bind(plain(delivery.event))
        .bind(written.now_ms)
        .bind(plain(delivery.body))
        .bind(delivery.verb())
        .bind(plain(&explained.why))
        .bind(trigger.map(|trigger| trigger.repo.id.clone()))
        .bind(trigger.map(|trigger| trigger.number))
        .bind(trigger.filter(|_| delivery.asks()).map(|trigger| serde_json::to_string(trigger).unwrap_or_default()))
        .bind(explained.repository.as_deref().map(plain))
        .bind(explained.actor.as_deref().map(plain))
        .bind(written.job.map(str::to_owned))
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
        let trigger = delivery.read.ok().and_then(|event| event.trigger.as_ref());
        let asked = trigger.filter(|_| delivery.asks());
        let (id, new_job) = (ids.next(), ids.next());
        let job = asked.map(|trigger| NewJob { id: &new_job, trigger, origin: None });
        if let Some(job) = &job
            && self.take_in_at_once(delivery, &explained, &id, job, now).await?
        {
            return Ok(Intake::Job(new_job));
        }
        let mut transaction = self.pool.begin().await?;
        // Made first, so that the delivery is written once, with its job; a delivery that is known undoes it.
        let mut notes = Vec::new();
        let job = match &job {
            Some(job) if self.insert_untold_job(&mut transaction, job, now).await? => {
                notes.push(job.told());
                Some(job.id)
            }
            _ => None,
        };
        let insert = format!(
            "insert into deliveries ({COLUMNS}) values ({}) on conflict (forge, delivery) do update set \
             event = excluded.event, received_ms = excluded.received_ms, body = excluded.body, verb = excluded.verb, why = excluded.why, \
             repo_id = excluded.repo_id, issue = excluded.issue, asked = excluded.asked, repository = excluded.repository, \
             actor = excluded.actor, job = excluded.job where deliveries.verb = ${}",
            places(0, PLACES),
            PLACES + 1
        );
        let insert = bind_delivery(sqlx::query(sqlx::AssertSqlSafe(insert)), delivery, &explained, &Written { id: &id, job, now_ms: now });
        let written = insert.bind(UNREADABLE).execute(&mut *transaction).await?;
        if written.rows_affected() == 0 {
            transaction.rollback().await?;
            return Ok(Intake::Repeated);
        }
        let mut noted = None;
        if let Some(repo) = delivery.read.ok().and_then(|event| event.repository.as_ref()) {
            if self.noted.get(repo).is_none() {
                note_repository(&mut transaction, repo).await?;
                noted = Some(repo.clone());
            }
            // A label on an issue tells nothing of a pull request.
            if !delivery.starts() {
                let number = delivery.read.ok().filter(|event| event.about_pull_request).and(trigger).map(|trigger| trigger.number);
                reviews::wake(&mut transaction, repo, number, now).await?;
            }
        }
        let intake = match (delivery.read, job) {
            (Ok(_), Some(job)) => Intake::Job(job.to_owned()),
            (Ok(event), None) if asked.is_some() => {
                // It may as well say that the reason for the active job is gone.
                let look_again = Event { verb: Verb::Recheck, note: None, command: None, ..event.clone() };
                asks::write(&mut transaction, &look_again, &ids.next(), now).await?;
                Intake::Waiting
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
        notes.push(told(delivery, &explained, &intake));
        self.note_all(&mut transaction, &notes).await?;
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
pub(super) fn told(delivery: &NewDelivery<'_>, explained: &Explanation, intake: &Intake) -> Note {
    let facts = json!({
        "forge": delivery.forge, "delivery": plain(delivery.delivery), "event": plain(delivery.event), "verb": delivery.verb(),
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

impl Store {
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
