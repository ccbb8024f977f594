//! The end of a run that was stopped: what it had begun to publish is taken back, and a forge that refuses what it must refuse is no fault.
//!
//! What must hold: no branch and no open pull request of ours is left behind a cancelled run; what anybody else pushed stays.

use crate::domain::{Fault, Outcome};
use crate::forge::{Forge, ForgeError};
use crate::pipeline::Stop;
use crate::publish::report::Report;
use crate::publish::{Place, PublishError, StatusComment};
use crate::store::{Claimed, KnownJob};

use super::asks::Unanswered;
use super::{Ended, Worker};

impl Worker {
    /// Takes back what a run had begun to publish; `why` is said on its pull request. What the forge refuses for good stays, and is logged.
    ///
    /// # Errors
    /// When the forge does not answer now.
    pub(super) async fn undo(&self, forge: &dyn Forge, claimed: &Claimed, why: Option<&str>) -> Result<(), Stop> {
        if claimed.origin.as_ref().is_some_and(|origin| origin.round.is_some()) {
            return Ok(());
        }
        let comments = self.comments();
        let place = Place { forge, repo: &claimed.repo, number: claimed.issue, on_pull_request: false, allowance: &comments };
        match self.parts.take_back(place, &claimed.run.0, &claimed.checkpoint, why).await.map_err(Stop::from) {
            Err(later @ Stop::Later { .. }) => Err(later),
            Err(refused) => {
                tracing::warn!(?refused, "what the run had begun to publish could not be taken back");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// The same for a job that waits.
    pub(super) async fn undo_waiting(&self, forge: &dyn Forge, job: &KnownJob, why: Option<&str>) -> Result<(), Unanswered> {
        let Some(run) = job.run.as_ref().filter(|_| job.origin.as_ref().is_none_or(|origin| origin.round.is_none())) else {
            return Ok(());
        };
        let comments = self.comments();
        let place = Place { forge, repo: &job.repo, number: job.issue, on_pull_request: false, allowance: &comments };
        match self.parts.take_back(place, run, &job.checkpoint, why).await {
            Err(PublishError::Forge(error @ ForgeError::Unavailable { .. })) => Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "what the job had begun to publish could not be taken back");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Ends a run whose reason is gone: nothing of it is left, and that is said once.
    pub(super) async fn cancelled(
        &self,
        claimed: &Claimed,
        forge: &dyn Forge,
        status: &mut StatusComment<'_>,
        by: String,
        report: Report,
    ) -> Ended {
        match self.undo(forge, claimed, Some(&by)).await {
            Ok(()) => self.conclude(claimed, Some((forge, status)), Outcome::Cancelled { by }, report).await,
            Err(later) => self.put_back(claimed, status, later).await,
        }
    }

    /// What an outcome really is: where the forge refused us or found nothing because its repository was archived or is not shown to us any more,
    /// or the issue is gone, that is a reason to stop and no fault.
    pub(super) async fn looked_into(&self, forge: &dyn Forge, claimed: &Claimed, outcome: Outcome) -> Outcome {
        if !matches!(outcome, Outcome::Abandoned { fault: Fault::ForgeFailed | Fault::RepositoryGone, .. }) {
            return outcome;
        }
        let cancelled = |by: &str| Outcome::Cancelled { by: by.to_owned() };
        let repository = match forge.repository(&claimed.repo).await {
            Ok(repository) => repository,
            Err(error @ ForgeError::NotFound { .. }) => return cancelled(&error.to_string()),
            Err(_) => return outcome,
        };
        if repository.archived {
            return cancelled("the repository was archived");
        }
        match forge.issue(&repository.repo, claimed.issue).await {
            Err(ForgeError::NotFound { .. }) => cancelled("the issue is gone"),
            _ => outcome,
        }
    }
}
