//! A claimed job: keeping it, writing to it, giving it back. Every write names the fence of its claim.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::Row as _;

use crate::audit::{Digest, Kind, Note};
use crate::domain::{Clock, Ids, IssueText, JobId, Judging, Kept, ObjectId, Origin, Outcome, RepoRef, RunId, Stage, Trigger};

use super::{Store, StoreError, fates, plain, repository_name, reviews, run_files};

/// What is finished of a job. A resumed run starts behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// The commit that everything is measured against, fixed when the run starts.
    pub base: Option<ObjectId>,
    /// The branch that the pull request is for.
    pub default_branch: Option<String>,
    /// Who set the label.
    pub requested_by: Option<String>,
    /// The tip of the pull request's branch that another round works on top of.
    pub head: Option<ObjectId>,
    /// The act of setting the label under which the run started; none where the label was not there and need not be.
    pub label_episode: Option<String>,
    /// The tests on base: what they said, or why they could not run.
    pub tests_before: Option<Kept>,
    /// Further runs of them on base, by which flaky tests are known.
    pub base_again: Vec<Kept>,
    /// How the agent ended: its exit reason, its steps, its last words.
    pub agent: Option<AgentSummary>,
    /// The commit with the patch, kept in the mirror.
    pub candidate: Option<ObjectId>,
    /// The tests on the patched tree.
    pub tests_after: Option<Kept>,
    /// What else was measured of the patch.
    pub judging: Judging,
    /// The attempts that have ended, in order; what stands above of agent, candidate, tests after and judging is of the one that goes on now.
    pub tried: Vec<Tried>,
    /// The commit that may stand on the forge: on our branch, and in a pull request from it. A run that is stopped takes both back.
    pub pushing: Option<ObjectId>,
    /// The signed statement on the commit that is proposed.
    pub stated: Option<Stated>,
    /// When our commits are dated, in seconds since the Unix epoch: a worker on another machine makes the same commits again.
    pub dated_s: Option<i64>,
    /// Who was asked to review what is proposed: logins and `organization/team`.
    pub reviewers: Vec<String>,
    /// The number of the pull request that this run opened and that was a draft then. People may have made it ready since.
    pub opened: Option<i64>,
    /// The page of the pull request, once it is open, a draft and labelled, and the report as it was then. From here on it is people's: a resumed
    /// run only says that it is there.
    pub proposed: Option<(String, serde_json::Value)>,
    /// How long each finished stage took, in milliseconds, in order.
    pub stage_ms: Vec<(String, u64)>,
}

impl Checkpoint {
    /// Makes room for the next attempt.
    pub fn forget_attempt(&mut self) {
        (self.agent, self.candidate, self.tests_after) = (None, None, None);
        self.judging = Judging::default();
    }

    /// Forgets all attempts: they were made on top of another commit.
    pub fn forget_attempts(&mut self) {
        self.forget_attempt();
        self.tried.clear();
    }
}

/// An attempt that has ended, by itself or by its judgement; a fault of ours ends none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tried {
    /// Why it is not proposed; none for one that may be.
    pub ended: Option<Outcome>,
    /// The commit with its patch, kept in the mirror, where the rules let it through.
    pub candidate: Option<ObjectId>,
    /// What is told of it, as JSON.
    pub report: serde_json::Value,
    /// The SHA-256 of what every test said after it, where each test has a result.
    pub behaviour: Option<String>,
    /// How long its agent worked, in milliseconds.
    pub agent_ms: u64,
}

/// A signed statement on a commit, kept so that a run that was killed says the same once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stated {
    /// The commit that it is about.
    pub about: ObjectId,
    /// The envelope, as JSON.
    pub envelope: String,
    /// The commit that may stand on the forge with it.
    pub pushed: Option<ObjectId>,
}

/// How the agent ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSummary {
    /// The reference's name of the reason.
    pub exit_reason: String,
    /// The number of steps.
    pub steps: u64,
    /// The model's closing words.
    pub final_message: String,
    /// How long it worked, in milliseconds.
    #[serde(default)]
    pub elapsed_ms: u64,
}

/// The right to work on one job. Made by [`Store::claim`] alone; a lease that was taken over can write nothing.
#[derive(Debug, Clone)]
pub struct Lease {
    job: JobId,
    fence: i64,
    run: RunId,
    repository: String,
    issue: i64,
}

impl Lease {
    /// The job that is leased.
    #[must_use]
    pub const fn job(&self) -> &JobId {
        &self.job
    }

    pub(super) const fn fence(&self) -> i64 {
        self.fence
    }

    /// An event of the run that holds this lease.
    #[must_use]
    pub fn note(&self, kind: Kind, facts: Value) -> Note {
        Note::new(kind, facts).about(self.repository.clone(), Some(self.issue)).of_job(&self.job.0).of_run(&self.run.0)
    }
}

/// A claimed job.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The right to write to it.
    pub lease: Lease,
    /// Fixed at the first claim and part of the branch's name.
    pub run: RunId,
    /// How often the job was claimed, this time included.
    pub leases: i64,
    /// Whether an earlier claim took the label up, so that its setter may have been told.
    pub taken_up: bool,
    /// The stage it was in when it was last left.
    pub stage: String,
    /// The repository as the delivery named it.
    pub repo: RepoRef,
    /// The issue's number.
    pub issue: i64,
    /// The issue's page.
    pub issue_url: String,
    /// The frozen words.
    pub text: IssueText,
    /// Where it comes from, when it is not a label.
    pub origin: Option<Origin>,
    /// What is finished.
    pub checkpoint: Checkpoint,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub queued_ms: i64,
    /// How long the job waited, in milliseconds, where the work on it begins now.
    pub waited_ms: Option<i64>,
}

impl Store {
    /// Ends the leases that this worker held before it was restarted, so that its jobs need not wait for them to run out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release_own(&self, owner: &str) -> Result<u64, StoreError> {
        let ended = sqlx::query("update jobs set lease_until_ms = 0 where state = 'running' and lease_owner = $1")
            .bind(owner)
            .execute(&self.pool)
            .await?;
        Ok(ended.rows_affected())
    }

    /// The runs of all jobs under a lease that holds.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn runs_under_lease(&self, clock: &dyn Clock) -> Result<HashSet<String>, StoreError> {
        let now = self.lease_time(clock).await?;
        let query = sqlx::query("select run from jobs where state = 'running' and run is not null and lease_until_ms >= $1");
        let rows = query.bind(now).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok(row.try_get("run")?)).collect()
    }

    /// Prolongs a lease; a job that was just put back or ended under it is left as it is, which is no loss.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when another worker has the job: stop at once.
    pub async fn heartbeat(&self, lease: &Lease, lease_ms: i64, clock: &dyn Clock) -> Result<(), StoreError> {
        let until = self.lease_time(clock).await? + lease_ms;
        let query = sqlx::query("update jobs set lease_until_ms = $1 where id = $2 and fence = $3").bind(until);
        fenced(lease, query.bind(&lease.job.0).bind(lease.fence).execute(&self.pool).await?.rows_affected())
    }

    /// Writes the stage that begins now.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], or the database fails.
    pub async fn enter(&self, lease: &Lease, stage: Stage) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let query = sqlx::query("update jobs set stage = $1 where id = $2 and fence = $3 and state = 'running'").bind(stage.name());
        fenced(lease, query.bind(&lease.job.0).bind(lease.fence).execute(&mut *transaction).await?.rows_affected())?;
        self.note(&mut transaction, &lease.note(Kind::Stage, json!({"stage": stage.name()}))).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Writes events of a leased run down.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], or the database fails; then nothing was written.
    pub async fn witness_run(&self, lease: &Lease, notes: &[Note]) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let query = sqlx::query("update jobs set fence = fence where id = $1 and fence = $2 and state = 'running'");
        fenced(lease, query.bind(&lease.job.0).bind(lease.fence).execute(&mut *transaction).await?.rows_affected())?;
        for note in notes {
            self.note(&mut transaction, note).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Keeps what is finished.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], or the database fails.
    pub async fn keep(&self, lease: &Lease, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let query =
            sqlx::query("update jobs set checkpoint = $1 where id = $2 and fence = $3 and state = 'running'").bind(json(checkpoint)?);
        fenced(lease, query.bind(&lease.job.0).bind(lease.fence).execute(&self.pool).await?.rows_affected())
    }

    /// Ties the job to the act of setting the label; one act has one job.
    ///
    /// # Errors
    /// [`StoreError::EpisodeKnown`] when an earlier job answered this act.
    pub async fn name_episode(&self, lease: &Lease, episode: &str, requested_by: &str) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let result = sqlx::query("update jobs set episode = $1, requested_by = $2 where id = $3 and fence = $4 and state = 'running'")
            .bind(episode)
            .bind(plain(requested_by))
            .bind(&lease.job.0)
            .bind(lease.fence)
            .execute(&mut *transaction)
            .await;
        match result {
            Ok(done) => fenced(lease, done.rows_affected())?,
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => return Err(StoreError::EpisodeKnown),
            Err(error) => return Err(error.into()),
        }
        let note = lease.note(Kind::Asked, json!({"act": Digest::of(episode.as_bytes())}));
        let forge = lease.repository.split('/').next().unwrap_or_default();
        let name = format!("asked {} {episode}", lease.job);
        self.note(&mut transaction, &note.by_person(forge, requested_by).once(name)).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// The issue's words in the deliveries that wait for this job to end.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn waiting_texts(&self, lease: &Lease) -> Result<Vec<IssueText>, StoreError> {
        let rows = sqlx::query(
            "select distinct deliveries.asked from deliveries, jobs where jobs.id = $1 and deliveries.forge = jobs.forge \
             and deliveries.repo_id = jobs.repo_id and deliveries.issue = jobs.issue and deliveries.job is null and deliveries.asked is not null",
        )
        .bind(&lease.job.0)
        .fetch_all(&self.pool)
        .await?;
        let asked = rows.iter().map(|row| Ok(row.try_get::<String, _>("asked")?)).collect::<Result<Vec<_>, StoreError>>()?;
        let triggers = asked.iter().filter_map(|asked| serde_json::from_str::<Trigger>(asked).ok());
        Ok(triggers.map(|trigger| IssueText { title: trigger.title, body: trigger.body }).collect())
    }

    /// Puts a job back in the queue with everything that is finished, to be claimed after `delay_ms`.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], or the database fails.
    pub async fn put_back(&self, lease: &Lease, stage: Stage, delay_ms: i64, counts: bool, clock: &dyn Clock) -> Result<(), StoreError> {
        let not_before = self.lease_time(clock).await? + delay_ms;
        let mut transaction = self.pool.begin().await?;
        let query = sqlx::query(
            "update jobs set state = 'queued', stage = $1, not_before_ms = $2, leases = leases - $3, lease_owner = null \
             where id = $4 and fence = $5 and state = 'running'",
        )
        .bind(stage.name())
        .bind(not_before)
        .bind(i64::from(!counts));
        fenced(lease, query.bind(&lease.job.0).bind(lease.fence).execute(&mut *transaction).await?.rows_affected())?;
        let facts = json!({"stage": stage.name(), "delay_ms": delay_ms, "counts": counts});
        self.note(&mut transaction, &lease.note(Kind::JobPutBack, facts)).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Writes the outcome; `records` is what the run leaves for the audit. Deliveries that waited for this job to end get a job of their own in the same transaction.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], or the database fails; then nothing was written.
    pub async fn finish(
        &self,
        claimed: &Claimed,
        outcome: &Outcome,
        report: &str,
        records: Value,
        clock: &dyn Clock,
        ids: &dyn Ids,
    ) -> Result<(), StoreError> {
        let lease = &claimed.lease;
        let now = clock.now_ms();
        let detail = match outcome {
            Outcome::Proposed { url } => url.clone(),
            Outcome::NoPatch { detail, .. } | Outcome::Refused { detail, .. } | Outcome::Abandoned { detail, .. } => detail.clone(),
            Outcome::Cancelled { by } => by.clone(),
        };
        let mut transaction = self.pool.begin().await?;
        let done = sqlx::query(
            "update jobs set state = 'done', stage = 'done', outcome = $1, reason = $2, detail = $3, report = $4, done_ms = $5, proof = $6, \
             lease_owner = null, checkpoint = $7 where id = $8 and fence = $9 and state = 'running'",
        )
        .bind(outcome.name())
        .bind(plain(&outcome.reason()))
        .bind(plain(&self.redactor.text(&detail)))
        .bind(plain(report))
        .bind(now)
        .bind(proof_in(report))
        .bind(self.kept_for_good(&claimed.checkpoint)?)
        .bind(&lease.job.0)
        .bind(lease.fence)
        .execute(&mut *transaction)
        .await?;
        fenced(lease, done.rows_affected())?;
        if matches!(outcome, Outcome::Proposed { .. }) && claimed.origin.as_ref().is_none_or(|origin| origin.round.is_none()) {
            fates::begin(&mut transaction, &claimed.repo, claimed.issue, &claimed.run.0, now).await?;
            reviews::watch(&mut transaction, claimed, now).await?;
        }
        // Why somebody stopped a run is said in words of people.
        let reason = match outcome {
            Outcome::Cancelled { by } => Digest::of(by.as_bytes()).to_string(),
            other => other.reason(),
        };
        let facts = json!({"outcome": outcome.name(), "reason": reason, "records": records});
        self.note(&mut transaction, &lease.note(Kind::RunEnded, facts)).await?;
        run_files::forget(&mut transaction, &claimed.run.0).await?;
        self.take_over_waiting(&mut transaction, &claimed.repo, claimed.issue, now, ids).await?;
        transaction.commit().await?;
        Ok(())
    }
}

impl Store {
    /// A checkpoint of a run that nothing goes on with any more, without secrets.
    fn kept_for_good(&self, checkpoint: &Checkpoint) -> Result<String, StoreError> {
        let mut value = serde_json::to_value(checkpoint).map_err(|error| StoreError::Failed(error.to_string()))?;
        self.redactor.value(&mut value);
        Ok(value.to_string())
    }
}

/// What a report says that the tests prove.
fn proof_in(report: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Proved {
        proof: Option<String>,
    }
    serde_json::from_str::<Proved>(report).ok()?.proof.as_deref().map(plain)
}

pub(super) fn fenced(lease: &Lease, rows: u64) -> Result<(), StoreError> {
    if rows == 1 { Ok(()) } else { Err(StoreError::LeaseLost(lease.job.0.clone())) }
}

fn json(checkpoint: &Checkpoint) -> Result<String, StoreError> {
    serde_json::to_string(checkpoint).map_err(|error| StoreError::Failed(error.to_string()))
}

pub(super) fn claimed(row: &sqlx::any::AnyRow) -> Result<Claimed, StoreError> {
    let job: String = row.try_get("id")?;
    let checkpoint: String = row.try_get("checkpoint")?;
    let checkpoint = serde_json::from_str(&checkpoint)
        .map_err(|error| StoreError::Unreadable { row: format!("jobs.{job}.checkpoint"), why: error.to_string() })?;
    let origin = row.try_get::<Option<String>, _>("origin")?.map(|origin| serde_json::from_str(&origin)).transpose();
    let origin = origin.map_err(|error| StoreError::Unreadable { row: format!("jobs.{job}.origin"), why: error.to_string() })?;
    let repo = RepoRef { forge: row.try_get("forge")?, id: row.try_get("repo_id")?, path: row.try_get("repo_path")? };
    let run = RunId(row.try_get("run")?);
    Ok(Claimed {
        lease: Lease {
            job: JobId(job),
            fence: row.try_get("fence")?,
            run: run.clone(),
            repository: repository_name(&repo),
            issue: row.try_get("issue")?,
        },
        run,
        leases: row.try_get("leases")?,
        taken_up: row.try_get::<Option<String>, _>("episode")?.is_some(),
        stage: row.try_get("stage")?,
        repo,
        issue: row.try_get("issue")?,
        issue_url: row.try_get("issue_url")?,
        text: IssueText { title: row.try_get("title")?, body: row.try_get("body")? },
        origin,
        checkpoint,
        queued_ms: row.try_get("queued_ms")?,
        waited_ms: None,
    })
}
