//! The end of a run: the outcome on the forge, then in the database; or the job back in the queue.

use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::domain::{Outcome, Refusal, Stage, branch_of};
use crate::forge::{Forge, ForgeError};
use crate::pipeline::{Stop, folder_of_attempt};
use crate::publish::report::Report;
use crate::publish::{self, Place, StatusComment, replies, text};
use crate::store::{Claimed, KnownJob, StoreError};

use super::{Ended, Progress, Worker, millis};
use crate::telemetry::{metrics, traces};

impl Worker {
    /// Says the outcome on the issue, keeps the report, and ends the job. A forge that does not answer puts the job back: nothing is ended unsaid.
    pub(super) async fn conclude(
        &self,
        claimed: &Claimed,
        forge: Option<(&dyn Forge, &mut StatusComment<'_>)>,
        outcome: Outcome,
        mut report: Report,
    ) -> Ended {
        report.close(&outcome);
        if let Some((forge, status)) = forge {
            match self.say(forge, status, claimed, &outcome, &report).await {
                Err(error @ ForgeError::Unavailable { .. }) => return self.put_back(claimed, status, error.into()).await,
                Err(error) => tracing::warn!(%error, "the outcome could not be said on the issue"),
                Ok(()) => {}
            }
        }
        let text = self.write_report(claimed, &report).await;
        let records = match self.keep_records(claimed, &text).await {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(%error, "what the run leaves for the audit could not be kept; the job is taken up again when its lease has run out");
                return Ended::PutBack;
            }
        };
        match self.store.finish(claimed, &outcome, &text, records, self.parts.clock.as_ref(), self.ids.as_ref()).await {
            Ok(()) => {}
            Err(StoreError::LeaseLost(_)) => return Ended::LeaseLost,
            Err(error) => {
                tracing::error!(%error, "the outcome could not be written; the job is taken up again when its lease has run out");
                return Ended::PutBack;
            }
        }
        tracing::info!(outcome = outcome.name(), reason = outcome.reason(), "ended");
        count(&outcome, &report);
        self.forget_the_journal(claimed).await;
        self.sign_the_end().await;
        self.parts.tidy(&claimed.repo, &claimed.run).await;
        self.wake.notify_one();
        self.progress.send(Progress::Ended { run: claimed.run.0.clone(), outcome: outcome.clone(), report: Box::new(report) }).ok();
        Ended::Outcome(outcome)
    }

    /// Ends a job for which there is nothing to say.
    pub(super) async fn end_quietly(&self, claimed: &Claimed, reason: &str, mut report: Report) -> Ended {
        let outcome = Outcome::Cancelled { by: reason.to_owned() };
        report.close(&outcome);
        let text = serde_json::to_string(&report).unwrap_or_default();
        match self.store.finish(claimed, &outcome, &text, Value::Null, self.parts.clock.as_ref(), self.ids.as_ref()).await {
            Ok(()) => {
                tracing::info!(reason, "nothing to do");
                metrics::run_ended(outcome.name(), reason);
                traces::run_ended(outcome.name(), reason, None);
                self.wake.notify_one();
                Ended::Quietly
            }
            Err(StoreError::LeaseLost(_)) => Ended::LeaseLost,
            Err(error) => {
                tracing::error!(%error, "the job could not be ended");
                Ended::PutBack
            }
        }
    }

    /// Puts the job back with all that is finished.
    pub(super) async fn put_back(&self, claimed: &Claimed, status: &mut StatusComment<'_>, stop: Stop) -> Ended {
        let retry = millis(self.settings.retry);
        let name = stop.name();
        let (stage, delay_ms, counts, why) = match stop {
            Stop::LeaseLost => return Ended::LeaseLost,
            Stop::ModelDown(why) => {
                self.model_is_down.store(true, Ordering::Relaxed);
                let body = text::working(status.job(), Stage::WaitingForModel, &self.taken_up(claimed), None);
                if let Err(error) = status.write(&body).await {
                    tracing::warn!(%error, "the issue could not be told that the model is waited for");
                }
                (Stage::WaitingForModel, millis(self.settings.model_retry), false, why)
            }
            Stop::InQueue => {
                let body = text::working(status.job(), Stage::Queued, &self.taken_up(claimed), None);
                if let Err(error) = status.write(&body).await {
                    tracing::warn!(%error, "the issue could not be told that it is in the queue");
                }
                (Stage::Queued, 0, false, "all hands are busy".to_owned())
            }
            Stop::Later { why, after_ms } => {
                let body = text::waiting(status.job(), &why, &self.taken_up(claimed));
                if let Err(error) = status.write(&body).await {
                    tracing::warn!(%error, "the issue could not be told that the forge is waited for");
                }
                let asked = after_ms.and_then(|wait| i64::try_from(wait).ok()).unwrap_or(0);
                (Stage::Queued, retry.max(asked), false, why)
            }
            Stop::TryAgain(fault, why) => {
                metrics::fault(&fault.name());
                (Stage::Queued, retry, true, why)
            }
            Stop::Shutdown => (Stage::Queued, 0, false, "the service is being stopped".to_owned()),
            Stop::Outcome(_) | Stop::Quiet(_) | Stop::Hidden => return Ended::PutBack,
        };
        tracing::warn!(why, delay_ms, "the job is put back");
        traces::put_back(name, delay_ms);
        match self.store.put_back(&claimed.lease, stage, delay_ms, counts, self.parts.clock.as_ref()).await {
            Ok(()) => {}
            Err(StoreError::LeaseLost(_)) => return Ended::LeaseLost,
            Err(error) => tracing::error!(%error, "the job could not be put back; it is taken up again when its lease has run out"),
        }
        Ended::PutBack
    }

    async fn write_report(&self, claimed: &Claimed, report: &Report) -> String {
        let mut value = serde_json::to_value(report).unwrap_or_default();
        self.store.redactor().value(&mut value);
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        let folder = self.parts.settings.runs.join(&claimed.run.0);
        let written = async {
            tokio::fs::create_dir_all(&folder).await?;
            tokio::fs::write(folder.join("report.json"), &text).await
        };
        if let Err(error) = written.await {
            tracing::warn!(%error, folder = %folder.display(), "the report could not be written to its folder; it is in the database");
        }
        text
    }

    /// What the run would have been gone on with has the very words of the model and its tools, secrets among them; nothing goes on any more.
    async fn forget_the_journal(&self, claimed: &Claimed) {
        let folder = self.parts.settings.runs.join(&claimed.run.0);
        let attempts = u32::try_from(claimed.checkpoint.tried.len()).unwrap_or(u32::MAX).saturating_add(1);
        for number in 1..=attempts {
            tokio::fs::remove_dir_all(folder_of_attempt(&folder, number).join("kept")).await.ok();
        }
    }

    async fn say(
        &self,
        forge: &dyn Forge,
        status: &mut StatusComment<'_>,
        claimed: &Claimed,
        outcome: &Outcome,
        report: &Report,
    ) -> Result<(), ForgeError> {
        if status.place().is_hidden().await? {
            return Ok(());
        }
        let body = text::ended(status.job(), outcome, report, forge.pull_request_word());
        status.write(&body).await?;
        let is_round = claimed.origin.as_ref().is_some_and(|origin| origin.round.is_some());
        let no_fix = match outcome {
            Outcome::NoPatch { .. } => !is_round,
            Outcome::Refused { reason, .. } => !is_round && !Refusal::ALL.iter().any(|refusal| refusal.name() == reason),
            _ => false,
        };
        if no_fix {
            forge.add_label(&claimed.repo, claimed.issue, publish::NO_FIX).await?;
        }
        match outcome {
            Outcome::Proposed { url } if !is_round => self.supersede(forge, claimed, url).await,
            _ => Ok(()),
        }
    }

    /// Says on our older open pull requests for the same issue that there is a newer one, once.
    async fn supersede(&self, forge: &dyn Forge, claimed: &Claimed, url: &str) -> Result<(), ForgeError> {
        const LOOKED_AT: usize = 5;
        let jobs = self.store.jobs_of(&claimed.repo, claimed.issue).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "older pull requests for this issue are not known");
            Vec::new()
        });
        let opened_one = |job: &&KnownJob| {
            let is_round = job.origin.as_ref().is_some_and(|origin| origin.round.is_some());
            job.id != claimed.lease.job().0 && job.outcome.as_deref() == Some("proposed") && !is_round
        };
        let runs = jobs.iter().filter(opened_one).filter_map(|job| job.run.as_deref()).take(LOOKED_AT);
        let comments = self.comments();
        for run in runs {
            if let Some(old) = forge.find_pull_request(&claimed.repo, &branch_of(claimed.issue, run)).await? {
                let place = Place { forge, repo: &claimed.repo, number: old.number, on_pull_request: true, allowance: &comments };
                place.say_once("superseded", &replies::superseded(url, forge.pull_request_word())).await?;
            }
        }
        Ok(())
    }
}

/// A free word is no label: what somebody gave for a reason to stop is left out.
fn count(outcome: &Outcome, report: &Report) {
    let reason = if matches!(outcome, Outcome::Cancelled { .. }) { String::new() } else { outcome.reason() };
    metrics::run_ended(outcome.name(), &reason);
    traces::run_ended(outcome.name(), &reason, report.proof.as_deref());
    match outcome {
        Outcome::Proposed { .. } => metrics::verdict(report.proof.as_deref().unwrap_or_default()),
        Outcome::Abandoned { .. } => metrics::fault(&reason),
        _ => {}
    }
    if let Some(exit_reason) = &report.exit_reason {
        metrics::attempt_ended(exit_reason);
    }
}
