//! What is known of issues and repositories across their jobs: for commands, for stopping, and for what a lost delivery would have brought.

use serde_json::json;
use sqlx::Row as _;

use super::lease::Checkpoint;
use super::new_jobs::NewJob;
use super::{Alone, Lease, Store, StoreError, plain, repository_name, run_files};
use crate::audit::{Digest, Kind, Note};
use crate::domain::{Cancel, Clock, Ids, IssueText, Origin, RepoRef, Trigger};

/// A job as commands and reviews see it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownJob {
    /// Its id.
    pub id: String,
    /// The repository as it was named.
    pub repo: RepoRef,
    /// The issue's number.
    pub issue: i64,
    /// The issue's page.
    pub issue_url: String,
    /// The frozen words.
    pub text: IssueText,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub queued_ms: i64,
    /// queued, running or done.
    pub state: String,
    /// The stage's stable name.
    pub stage: String,
    /// The agent's steps so far.
    pub steps: i64,
    /// The run, from the first claim on.
    pub run: Option<String>,
    /// The outcome's stable name.
    pub outcome: Option<String>,
    /// The reason's stable name.
    pub reason: Option<String>,
    /// One sentence, or the address of the pull request.
    pub detail: Option<String>,
    /// Where it comes from, when it is not a label.
    pub origin: Option<Origin>,
    /// Why it is to be stopped, where somebody asked for that.
    pub cancel: Option<Cancel>,
    /// What is finished.
    pub checkpoint: Checkpoint,
}

pub(super) const COLUMNS: &str = "id, forge, repo_id, repo_path, issue, issue_url, title, body, queued_ms, state, stage, steps, run, outcome, reason, detail, \
     origin, cancel_asked, checkpoint";

/// What became of the wish for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// It is in the queue.
    Job(String),
    /// This act has its job already.
    Known,
    /// The issue has an active job.
    Busy,
    /// The words that it was asked with were erased in their time.
    Erased,
}

impl Store {
    /// The jobs of an issue, newest first, at most 50.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn jobs_of(&self, repo: &RepoRef, issue: i64) -> Result<Vec<KnownJob>, StoreError> {
        let text = format!(
            "select {COLUMNS} from jobs where forge = $1 and repo_id = $2 and issue = $3 order by queued_ms desc, id desc limit 50"
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(text)).bind(&repo.forge).bind(&repo.id).bind(issue);
        query.fetch_all(&self.pool).await?.iter().map(known).collect()
    }

    /// The jobs that wait or run: those of one repository, or all.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn active_jobs(&self, of: Option<&RepoRef>) -> Result<Vec<KnownJob>, StoreError> {
        let text = format!(
            "select {COLUMNS} from jobs where state <> 'done' and ($1 = 1 or (forge = $2 and repo_id = $3)) order by queued_ms, id"
        );
        let (forge, id) = of.map_or(("", ""), |repo| (repo.forge.as_str(), repo.id.as_str()));
        let query = sqlx::query(sqlx::AssertSqlSafe(text)).bind(i64::from(of.is_none())).bind(forge).bind(id);
        query.fetch_all(&self.pool).await?.iter().map(known).collect()
    }

    /// The place of a waiting job in the queue, from 1 on.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn place_in_queue(&self, job: &str) -> Result<i64, StoreError> {
        let row = sqlx::query(
            "select count(*) as place from jobs a, jobs b where b.id = $1 and a.state = 'queued' \
             and (a.queued_ms < b.queued_ms or (a.queued_ms = b.queued_ms and a.id <= b.id))",
        )
        .bind(job)
        .fetch_one(&self.pool)
        .await?;
        Ok(row.try_get("place")?)
    }

    /// Makes a job for an act other than a label: once for each act, and only while the issue has no active job.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn make_job(&self, trigger: &Trigger, origin: &Origin, clock: &dyn Clock, ids: &dyn Ids) -> Result<Made, StoreError> {
        let job = ids.next();
        let mut transaction = self.pool.begin().await?;
        match self.insert_job(&mut transaction, &NewJob { id: &job, trigger, origin: Some(origin) }, clock.now_ms()).await {
            Ok(true) => {
                transaction.commit().await?;
                return Ok(Made::Job(job));
            }
            Ok(false) => transaction.rollback().await?,
            Err(StoreError::EpisodeKnown) => return Ok(Made::Known),
            Err(error) => return Err(error),
        }
        let known = sqlx::query("select 1 from jobs where forge = $1 and repo_id = $2 and issue = $3 and origin_key = $4")
            .bind(&trigger.repo.forge)
            .bind(&trigger.repo.id)
            .bind(trigger.number)
            .bind(&origin.key)
            .fetch_optional(&self.pool)
            .await?;
        Ok(if known.is_some() { Made::Known } else { Made::Busy })
    }

    /// Makes the job that a lost delivery would have made: none when this act of setting the label was answered, or the issue has an active job.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn take_up(&self, trigger: &Trigger, episode: &str, clock: &dyn Clock, ids: &dyn Ids) -> Result<Option<String>, StoreError> {
        let job = ids.next();
        let mut transaction = self.pool.begin().await?;
        // The write comes first: a transaction that reads first can't always write later.
        let made = self.insert_job(&mut transaction, &NewJob { id: &job, trigger, origin: None }, clock.now_ms()).await?;
        let answered = sqlx::query("select 1 from jobs where forge = $1 and repo_id = $2 and issue = $3 and episode = $4")
            .bind(&trigger.repo.forge)
            .bind(&trigger.repo.id)
            .bind(trigger.number)
            .bind(episode)
            .fetch_optional(&mut *transaction)
            .await?;
        if !made || answered.is_some() {
            transaction.rollback().await?;
            return Ok(None);
        }
        transaction.commit().await?;
        Ok(Some(job))
    }

    /// Asks for the end of a job that waits or runs; who works on it looks at this each second. The first reason stays.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn ask_cancel(&self, job: &str, cancel: &Cancel) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        self.write_cancel(&mut transaction, job, cancel).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Whether the end of a leased job was asked for, and the stage that it is in.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], or the database fails.
    pub async fn cancel_asked(&self, lease: &Lease) -> Result<(Option<Cancel>, String), StoreError> {
        let row = sqlx::query("select cancel_asked, stage from jobs where id = $1 and fence = $2 and state = 'running'")
            .bind(&lease.job().0)
            .bind(lease.fence())
            .fetch_optional(&self.pool)
            .await?
            .ok_or_else(|| StoreError::LeaseLost(lease.job().0.clone()))?;
        let asked: Option<String> = row.try_get("cancel_asked")?;
        Ok((asked.and_then(|asked| serde_json::from_str(&asked).ok()), row.try_get("stage")?))
    }

    /// Notes how many steps the agent has made, and the tokens that were spent since the last note.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn note_steps(&self, lease: &Lease, steps: i64, spent: i64) -> Result<(), StoreError> {
        sqlx::query("update jobs set steps = $1, tokens = tokens + $2 where id = $3 and fence = $4 and state = 'running'")
            .bind(steps)
            .bind(spent)
            .bind(&lease.job().0)
            .bind(lease.fence())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Ends a job that waits in the queue; false when a worker has it meanwhile.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_queued(&self, job: &KnownJob, why: &str, clock: &dyn Clock, ids: &dyn Ids) -> Result<bool, StoreError> {
        let now = clock.now_ms();
        let mut transaction = self.pool.begin().await?;
        let ended = sqlx::query(
            "update jobs set state = 'done', stage = 'done', outcome = 'cancelled', reason = $1, detail = $2, done_ms = $3 \
             where id = $4 and state = 'queued'",
        )
        .bind(plain(why))
        .bind(plain(why))
        .bind(now)
        .bind(&job.id)
        .execute(&mut *transaction)
        .await?;
        if ended.rows_affected() == 1 {
            run_files::forget(&mut transaction, job.run.as_deref().unwrap_or_default()).await?;
            let facts = json!({"outcome": "cancelled", "reason": Digest::of(why.as_bytes())});
            let mut note = Note::new(Kind::RunEnded, facts).about(repository_name(&job.repo), Some(job.issue)).of_job(&job.id);
            note.run.clone_from(&job.run);
            self.note(&mut transaction, &note).await?;
            self.take_over_waiting(&mut transaction, &job.repo, job.issue, now, ids).await?;
        }
        transaction.commit().await?;
        Ok(ended.rows_affected() == 1)
    }

    /// The repositories of a forge that were ever heard of.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn repositories(&self, forge: &str) -> Result<Vec<RepoRef>, StoreError> {
        let rows = sqlx::query("select repo_id, path from repositories where forge = $1 order by repo_id")
            .bind(forge)
            .fetch_all(&self.pool)
            .await?;
        let repo =
            |row: &sqlx::any::AnyRow| Ok(RepoRef { forge: forge.to_owned(), id: row.try_get("repo_id")?, path: row.try_get("path")? });
        rows.iter().map(repo).collect()
    }

    /// Whether one more comment may be written on an issue or pull request within this hour; if so, it is counted.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn may_comment(&self, repo: &RepoRef, number: i64, most: i64, clock: &dyn Clock) -> Result<bool, StoreError> {
        const HOUR_MS: i64 = 60 * 60 * 1000;
        let now = clock.now_ms();
        let mut transaction = self.alone(Alone::Comments).await?;
        sqlx::query("delete from comments where written_ms <= $1").bind(now - HOUR_MS).execute(&mut *transaction).await?;
        let counted = sqlx::query(
            "insert into comments (forge, repo_id, issue, written_ms) \
             select cast($1 as text), cast($2 as text), cast($3 as bigint), cast($4 as bigint) \
             where (select count(*) from comments where forge = $5 and repo_id = $6 and issue = $7) < $8",
        )
        .bind(&repo.forge)
        .bind(&repo.id)
        .bind(number)
        .bind(now)
        .bind(&repo.forge)
        .bind(&repo.id)
        .bind(number)
        .bind(most)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(counted.rows_affected() == 1)
    }
}

pub(super) fn known(row: &sqlx::any::AnyRow) -> Result<KnownJob, StoreError> {
    let (id, checkpoint): (String, String) = (row.try_get("id")?, row.try_get("checkpoint")?);
    let unreadable =
        |column: &str, error: serde_json::Error| StoreError::Unreadable { row: format!("jobs.{id}.{column}"), why: error.to_string() };
    let checkpoint = serde_json::from_str(&checkpoint).map_err(|error| unreadable("checkpoint", error))?;
    let origin = row.try_get::<Option<String>, _>("origin")?.map(|origin| serde_json::from_str(&origin)).transpose();
    let origin = origin.map_err(|error| unreadable("origin", error))?;
    Ok(KnownJob {
        repo: RepoRef { forge: row.try_get("forge")?, id: row.try_get("repo_id")?, path: row.try_get("repo_path")? },
        issue: row.try_get("issue")?,
        issue_url: row.try_get("issue_url")?,
        text: IssueText { title: row.try_get("title")?, body: row.try_get("body")? },
        queued_ms: row.try_get("queued_ms")?,
        state: row.try_get("state")?,
        stage: row.try_get("stage")?,
        steps: row.try_get("steps")?,
        run: row.try_get("run")?,
        outcome: row.try_get("outcome")?,
        reason: row.try_get("reason")?,
        detail: row.try_get("detail")?,
        origin,
        cancel: row.try_get::<Option<String>, _>("cancel_asked")?.and_then(|asked| serde_json::from_str(&asked).ok()),
        checkpoint,
        id,
    })
}
