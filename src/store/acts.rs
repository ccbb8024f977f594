//! What operators do to a run: make it once more, end it. The pages, the API and the command line all come here.
//!
//! What must hold: the act and what it did are one transaction; the same act told twice makes one job; nothing is done that the forge's own rules
//! would not let happen, for the new job is admitted like every other.

use serde_json::json;
use sqlx::Row as _;

use super::new_jobs::NewJob;
use super::standing::{COLUMNS, known};
use super::{KnownJob, Made, Store, StoreError, asks, plain, repository_name};
use crate::audit::{Digest, Kind, Note, Who};
use crate::domain::{Actor, Cancel, Clock, Event, Ids, Origin, Refusal, Trigger, Verb};

/// Who does it, as the audit chain names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doer {
    /// Their name, or their login on the forge.
    pub name: String,
    /// The forge that they signed in with; none for who holds a key or sits at the machine.
    pub forge: Option<String>,
}

impl Doer {
    /// Who holds a key or sits at the machine, by the name that they give.
    #[must_use]
    pub fn operator(name: &str) -> Self {
        Self { name: name.to_owned(), forge: None }
    }

    /// Their act, as it is written down.
    #[must_use]
    pub fn note(&self, kind: Kind, facts: serde_json::Value) -> Note {
        let note = Note::new(kind, facts);
        match &self.forge {
            Some(forge) => note.by_person(forge, &self.name),
            None => note.by(Who::Operator(plain(&self.name))),
        }
    }
}

impl Store {
    /// The job of this run, or of this id while it has no run yet.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn job_of_run(&self, run: &str) -> Result<Option<KnownJob>, StoreError> {
        let text = format!("select {COLUMNS} from jobs where run = $1 or id = $2 limit 1");
        let row = sqlx::query(sqlx::AssertSqlSafe(text)).bind(plain(run)).bind(plain(run)).fetch_optional(&self.pool).await?;
        row.map(|row| known(&row)).transpose()
    }

    /// Makes a job like this one that has ended: with its words, and for who asked for it, whose rights the forge is asked about again. One job has
    /// one such successor ([`Made::Known`]); an issue with a job under way gets none ([`Made::Busy`]).
    ///
    /// # Errors
    /// When the database fails.
    pub async fn retry_job(&self, job: &KnownJob, by: &Doer, clock: &dyn Clock, ids: &dyn Ids) -> Result<Made, StoreError> {
        let KnownJob { repo, issue, text, issue_url, .. } = job;
        if text.title.is_empty() && text.body.is_empty() {
            return Ok(Made::Erased);
        }
        let (title, body) = (text.title.clone(), text.body.clone());
        let trigger = Trigger { repo: repo.clone(), number: *issue, title, body, url: issue_url.clone() };
        let origin = asker(job).map(|by| Origin { key: format!("retry:{}", job.id), by, round: None });
        let id = ids.next();
        let mut transaction = self.pool.begin().await?;
        match self.insert_job(&mut transaction, &NewJob { id: &id, trigger: &trigger, origin: origin.as_ref() }, clock.now_ms()).await {
            Ok(true) => {
                self.note(&mut transaction, &about(by.note(Kind::Operator, json!({"did": "retry", "job": id})), job)).await?;
                transaction.commit().await?;
                Ok(Made::Job(id))
            }
            Ok(false) => {
                transaction.rollback().await?;
                Ok(Made::Busy)
            }
            Err(StoreError::EpisodeKnown) => Ok(Made::Known),
            Err(error) => Err(error),
        }
    }

    /// Asks for the end of a job: who works on it looks each second, and one that waits is ended by the next free hand of a worker. False when it has
    /// ended, or its end was asked for before.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn cancel_job(&self, job: &KnownJob, by: &Doer, clock: &dyn Clock, ids: &dyn Ids) -> Result<bool, StoreError> {
        let now = clock.now_ms();
        let cancel = Cancel { why: format!("{} asked for it", by.name), quiet: false, at_ms: now };
        let mut transaction = self.pool.begin().await?;
        if !self.write_cancel(&mut transaction, &job.id, &cancel).await? {
            return Ok(false);
        }
        self.note(&mut transaction, &about(by.note(Kind::Operator, json!({"did": "cancel"})), job)).await?;
        asks::write(&mut transaction, &look_again(job, by), &ids.next(), now).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Writes down that the end of a job is asked for; false when it has ended or was asked to before.
    pub(super) async fn write_cancel(
        &self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
        job: &str,
        cancel: &Cancel,
    ) -> Result<bool, StoreError> {
        let text = serde_json::to_string(cancel).map_err(|error| StoreError::Failed(error.to_string()))?;
        let asked = sqlx::query(
            "update jobs set cancel_asked = $1 where id = $2 and state <> 'done' and cancel_asked is null returning run, forge, repo_id, issue",
        )
        .bind(plain(&text))
        .bind(job)
        .fetch_optional(&mut **transaction)
        .await?;
        let Some(row) = asked else { return Ok(false) };
        let (forge, repo_id): (String, String) = (row.try_get("forge")?, row.try_get("repo_id")?);
        let facts = json!({"why": Digest::of(cancel.why.as_bytes()), "quiet": cancel.quiet});
        let mut note = Note::new(Kind::CancelAsked, facts).about(format!("{forge}/{repo_id}"), row.try_get("issue")?).of_job(job);
        note.run = row.try_get("run")?;
        self.note(transaction, &note).await?;
        Ok(true)
    }
}

/// Who asked for a job. None where it ended before that was known, or where it was a bot: who set the label is then asked of the forge.
fn asker(job: &KnownJob) -> Option<Actor> {
    let by_label = || job.checkpoint.requested_by.clone().map(|login| Actor { id: String::new(), login, is_bot: false });
    let was_a_bot = job.reason.as_deref() == Some(Refusal::ActorIsBot.name());
    job.origin.as_ref().map(|origin| origin.by.clone()).or_else(by_label).filter(|_| !was_a_bot)
}

fn about(note: Note, job: &KnownJob) -> Note {
    let note = note.about(repository_name(&job.repo), Some(job.issue)).of_job(&job.id);
    Note { run: job.run.clone(), ..note }
}

/// Brings a hand of a worker to the job's issue.
fn look_again(job: &KnownJob, by: &Doer) -> Event {
    let trigger =
        Trigger { repo: job.repo.clone(), number: job.issue, title: String::new(), body: String::new(), url: job.issue_url.clone() };
    Event {
        verb: Verb::Cancel,
        why: format!("{} asked for it", by.name),
        repository: Some(job.repo.clone()),
        trigger: Some(trigger),
        about_pull_request: false,
        command: None,
        note: None,
        actor: None,
    }
}
