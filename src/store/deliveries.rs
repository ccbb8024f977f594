//! The inbox: one row a verified delivery.

use crate::domain::{Clock, Event, Explanation, Ids, Trigger, Verb};

use super::{Store, StoreError};
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
    /// Nothing to do.
    Noted,
}

impl Store {
    /// Writes a delivery down and, when it may ask for work, its job in the same transaction.
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
        let id = ids.next();
        let mut transaction = self.pool.begin().await?;
        let inserted = sqlx::query(
            "insert into deliveries (id, forge, delivery, event, received_ms, body, verb, why, repo_id, issue, asked, repository, actor) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) on conflict (forge, delivery) do nothing",
        )
        .bind(&id)
        .bind(delivery.forge)
        .bind(delivery.delivery)
        .bind(delivery.event)
        .bind(now)
        .bind(delivery.body)
        .bind(verb)
        .bind(explained.why)
        .bind(trigger.map(|trigger| trigger.repo.id.clone()))
        .bind(trigger.map(|trigger| trigger.number))
        .bind(asked)
        .bind(explained.repository)
        .bind(explained.actor)
        .execute(&mut *transaction)
        .await?;
        if inserted.rows_affected() == 0 {
            transaction.rollback().await?;
            return Ok(Intake::Repeated);
        }
        let Some(trigger) = trigger.filter(|_| asks) else {
            transaction.commit().await?;
            return Ok(Intake::Noted);
        };
        let job = ids.next();
        let made = insert_job(&mut transaction, &job, trigger, now).await?;
        if made {
            sqlx::query("update deliveries set job = $1 where id = $2").bind(&job).bind(&id).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(if made { Intake::Job(job) } else { Intake::Waiting })
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
            if insert_job(&mut transaction, &job, &trigger, clock.now_ms()).await? {
                sqlx::query("update deliveries set job = $1 where id = $2").bind(&job).bind(&delivery).execute(&mut *transaction).await?;
                made += 1;
            }
            transaction.commit().await?;
        }
        Ok(made)
    }
}

/// Inserts a queued job unless the issue has an active one.
pub(super) async fn insert_job(
    transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
    job: &str,
    trigger: &Trigger,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let inserted = sqlx::query(
        "insert into jobs (id, forge, repo_id, repo_path, issue, issue_url, title, body, state, stage, queued_ms, not_before_ms, \
         lease_until_ms, fence, leases, checkpoint) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, 'queued', 'queued', $9, $10, 0, 0, 0, '{}') \
         on conflict (forge, repo_id, issue) where state <> 'done' do nothing",
    )
    .bind(job)
    .bind(&trigger.repo.forge)
    .bind(&trigger.repo.id)
    .bind(&trigger.repo.path)
    .bind(trigger.number)
    .bind(&trigger.url)
    .bind(&trigger.title)
    .bind(&trigger.body)
    .bind(now_ms)
    .bind(now_ms)
    .execute(&mut **transaction)
    .await?;
    Ok(inserted.rows_affected() == 1)
}
