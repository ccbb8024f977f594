//! Stopping: a job ends when the reason for it is gone, whether it waits, runs here, or runs in another process.
//!
//! What must hold: the forge is asked before anything is stopped, since deliveries come late and out of order; who works on the job is told
//! through the database; there is one comment, and none on what is gone.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::{Cancel, Outcome, Stage};
use crate::forge::{Forge, ForgeError};
use crate::pipeline::UNKNOWN;
use crate::publish::report::Report;
use crate::publish::{Place, StatusComment, text};
use crate::store::{Ask, Claimed, KnownJob, repository_name};
use crate::telemetry::traces::About;

use super::asks::Unanswered;
use super::commands::found;
use super::{Ended, Worker};

/// How often a run looks whether it is to stop.
const LOOK: Duration = Duration::from_secs(1);

/// How often the forge is looked at while a run goes on.
const SEE: Duration = Duration::from_secs(2);

/// For so long a run that is told to stop may end in its own way.
const OWN_WAY: Duration = Duration::from_secs(2);

/// How far the agent of a run has come, for who looks from outside.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Its steps.
    pub(super) steps: AtomicI64,
    /// The tokens that were spent and are not written down yet.
    pub(super) spent: AtomicI64,
    noted: AtomicI64,
}

/// Why a job is not wanted any more.
struct Unwanted {
    why: String,
    quiet: bool,
}

impl Worker {
    /// Looks whether the jobs that an event is about are still wanted, and stops those that are not.
    pub(super) async fn look_again(&self, forge: &dyn Forge, ask: &Ask) -> Result<String, Unanswered> {
        let active = match ask.issue {
            0 => self.store.active_jobs(Some(&ask.repo)).await?,
            issue => self.store.jobs_of(&ask.repo, issue).await?.into_iter().filter(|job| job.state != "done").collect(),
        };
        let mut came = Vec::new();
        for job in active {
            let unwanted = if ask.event.says_gone() {
                Some(Unwanted { why: "the issue is gone".to_owned(), quiet: true })
            } else if let Some(cancel) = &job.cancel {
                Some(Unwanted { why: cancel.why.clone(), quiet: cancel.quiet })
            } else {
                self.unwanted(forge, ask, &job).await?
            };
            match unwanted {
                Some(Unwanted { why, quiet }) => {
                    came.push(format!("cancelled: {why}"));
                    self.stop_job(forge, &job, why, quiet).await?;
                }
                None => came.push("still wanted".to_owned()),
            }
        }
        Ok(if came.is_empty() { "nothing is under way".to_owned() } else { came.join("; ") })
    }

    async fn unwanted(&self, forge: &dyn Forge, ask: &Ask, job: &KnownJob) -> Result<Option<Unwanted>, Unanswered> {
        let told = |why: &str| Ok(Some(Unwanted { why: why.to_owned(), quiet: false }));
        let gone = |why: &str| Ok(Some(Unwanted { why: why.to_owned(), quiet: true }));
        let repository = match forge.repository(&ask.repo).await {
            // Also where an App is not installed on it any more: nobody can be told.
            Err(error @ ForgeError::NotFound { .. }) => return gone(&error.to_string()),
            answer => answer?,
        };
        if repository.archived {
            return told("the repository was archived");
        }
        let repo = &repository.repo;
        let Some(issue) = found(forge.issue(repo, job.issue).await)? else { return gone("the issue is gone") };
        if issue.confidential {
            return gone("the issue is confidential");
        }
        if !issue.open {
            return told("the issue was closed");
        }
        if issue.locked {
            return told("the issue was locked");
        }
        let label = &self.parts.settings.label;
        let round = job.origin.as_ref().and_then(|origin| origin.round.as_ref());
        let under = job.checkpoint.label_episode.as_deref();
        if (under.is_some() || round.is_none()) && !issue.has_label(label) {
            return told("the label was taken off");
        }
        if let Some(under) = under.filter(|under| *under != UNKNOWN)
            && forge.label_set(repo, job.issue, label).await?.is_some_and(|set| set.episode != under)
        {
            return told("the label was taken off and set again");
        }
        if let Some(round) = round
            && !found(forge.pull_request(repo, round.pull_request).await)?.is_some_and(|now| now.open)
        {
            return told(&was_closed(forge));
        }
        Ok(None)
    }

    /// A pull request was merged, closed, or is no draft any more: a run on top of one that is over stops.
    pub(super) async fn pull_request_ended(&self, forge: &dyn Forge, ask: &Ask) -> Result<String, Unanswered> {
        let Some(ours) = self.ours(forge, &ask.repo, ask.issue).await? else { return Ok("the pull request is not ours".to_owned()) };
        if ours.now.open {
            return Ok(format!("noted: the {} is open", forge.pull_request_word()));
        }
        let is_on_it = |job: &KnownJob| {
            let round = job.origin.as_ref().and_then(|origin| origin.round.as_ref());
            job.state != "done" && round.is_some_and(|round| round.pull_request == ask.issue)
        };
        match self.store.jobs_of(&ask.repo, ours.issue).await?.into_iter().find(is_on_it) {
            Some(job) => {
                self.stop_job(forge, &job, was_closed(forge), false).await?;
                Ok(format!("cancelled: {}", was_closed(forge)))
            }
            None => Ok(format!("noted: the {} is over", forge.pull_request_word())),
        }
    }

    /// Stops a job: one that waits at once, one that runs by telling who works on it.
    pub(super) async fn stop_job(&self, forge: &dyn Forge, job: &KnownJob, why: String, quiet: bool) -> Result<(), Unanswered> {
        let cancel = Cancel { why, quiet, at_ms: self.parts.clock.now_ms() };
        self.store.ask_cancel(&job.id, &cancel).await?;
        if job.state != "queued" {
            return Ok(());
        }
        self.undo_waiting(forge, job, (!quiet).then_some(&cancel.why)).await?;
        if !quiet {
            let comments = self.comments();
            let round = job.origin.as_ref().and_then(|origin| origin.round.as_ref());
            let number = round.map_or(job.issue, |round| round.pull_request);
            let place = Place { forge, repo: &job.repo, number, on_pull_request: round.is_some(), allowance: &comments };
            let outcome = Outcome::Cancelled { by: cancel.why.clone() };
            match StatusComment::new(place, &job.id)
                .write(&text::ended(&job.id, &outcome, &Report::default(), forge.pull_request_word()))
                .await
            {
                Err(error @ ForgeError::Unavailable { .. }) => return Err(error.into()),
                Err(error) => tracing::warn!(%error, "that the job was stopped could not be said"),
                Ok(()) => {}
            }
        }
        if self.store.end_queued(job, &cancel.why, self.parts.clock.as_ref(), self.ids.as_ref()).await? {
            tracing::info!(job = job.id, why = cancel.why, "a waiting job was stopped");
            if let Some(run) = &job.run {
                self.ended_in_the_queue(job, run);
                self.parts.tidy(&job.repo, &crate::domain::RunId(run.clone())).await;
            }
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Of a run that was put back and ends there, the trace has its beginning.
    fn ended_in_the_queue(&self, job: &KnownJob, run: &str) {
        let repository = repository_name(&job.repo);
        let about = About { job: &job.id, run, repository: &repository, asked_ms: job.queued_ms, lease: 0 };
        self.settings.traces.of(&about).ended("cancelled", "", None);
    }

    /// Looks again and again whether a run is to stop; then tells it, and returns when it must be ended from outside. What is being published
    /// is not: it ends by itself, between its steps.
    pub(super) async fn until_cancelled(&self, claimed: &Claimed, cancel: &CancellationToken, done: &Done) -> Cancel {
        let asked = tokio::select! {
            asked = self.until_asked(claimed, done) => asked,
            seen = self.until_seen(claimed) => seen,
        };
        cancel.cancel();
        tokio::time::sleep(OWN_WAY).await;
        if self.store.cancel_asked(&claimed.lease).await.is_ok_and(|(_, stage)| stage == Stage::Publishing.name()) {
            std::future::pending::<()>().await;
        }
        asked
    }

    /// Looks each second whether the database has a word to stop. Notes the agent's steps on the way.
    async fn until_asked(&self, claimed: &Claimed, done: &Done) -> Cancel {
        let mut look = tokio::time::interval(LOOK);
        loop {
            look.tick().await;
            match self.store.cancel_asked(&claimed.lease).await {
                Ok((Some(asked), _)) => return asked,
                Ok((None, _)) => {}
                Err(error) => tracing::debug!(%error, "it is not known whether the run is to stop"),
            }
            self.note_done(claimed, done).await;
        }
    }

    /// Writes down how far the agent has come since the last time; what can't be written is written the next time.
    pub(super) async fn note_done(&self, claimed: &Claimed, done: &Done) {
        let (steps, spent) = (done.steps.load(Ordering::Relaxed), done.spent.swap(0, Ordering::Relaxed));
        if done.noted.swap(steps, Ordering::Relaxed) == steps && spent == 0 {
            return;
        }
        if let Err(error) = self.store.note_steps(&claimed.lease, steps, spent).await {
            tracing::debug!(%error, "the agent's steps could not be written down");
            done.spent.fetch_add(spent, Ordering::Relaxed);
        }
    }

    /// Looks at the forge for what most forges tell nobody: that the repository was archived, or that the issue became confidential.
    async fn until_seen(&self, claimed: &Claimed) -> Cancel {
        let Some(forge) = self.forges.get(&claimed.repo.forge) else { return std::future::pending().await };
        loop {
            tokio::time::sleep(SEE).await;
            // Publishing looks by itself, between its steps.
            if self.store.cancel_asked(&claimed.lease).await.is_ok_and(|(_, stage)| stage == Stage::Publishing.name()) {
                continue;
            }
            let Ok(repository) = forge.repository(&claimed.repo).await else { continue };
            let (why, quiet) = if repository.archived {
                ("the repository was archived", false)
            } else if forge.issue(&repository.repo, claimed.issue).await.is_ok_and(|issue| issue.confidential) {
                ("the issue is confidential", true)
            } else {
                continue;
            };
            let cancel = Cancel { why: why.to_owned(), quiet, at_ms: self.parts.clock.now_ms() };
            match self.store.ask_cancel(&claimed.lease.job().0, &cancel).await {
                Ok(_) => return cancel,
                Err(error) => tracing::debug!(%error, "that the run is to stop could not be written down"),
            }
        }
    }

    /// Whether the end of this run was asked for.
    pub(super) async fn is_to_stop(&self, claimed: &Claimed) -> Option<Cancel> {
        self.store.cancel_asked(&claimed.lease).await.ok().and_then(|(asked, _)| asked)
    }

    /// Ends a run that was to stop: said once, unless there is nobody to tell.
    pub(super) async fn conclude_stopped(
        &self,
        claimed: &Claimed,
        forge: &dyn Forge,
        status: &mut StatusComment<'_>,
        cancel: Cancel,
        report: Report,
    ) -> Ended {
        let after_ms = self.parts.clock.now_ms() - cancel.at_ms;
        tracing::info!(why = cancel.why, after_ms, "the run was stopped");
        if let Err(later) = self.undo(forge, claimed, (!cancel.quiet).then_some(cancel.why.as_str())).await {
            return self.put_back(claimed, status, later).await;
        }
        let said_on = (!cancel.quiet).then_some((forge, status));
        self.conclude(claimed, said_on, Outcome::Cancelled { by: cancel.why }, report).await
    }
}

fn was_closed(forge: &dyn Forge) -> String {
    format!("the {} was closed", forge.pull_request_word())
}
