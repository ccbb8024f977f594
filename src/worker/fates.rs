//! What becomes of our pull requests: merged, changed by people, closed, reverted; and who found a verdict wrong.
//!
//! What must hold: nothing here writes on a forge but the one answer to `/frognano wrong`; what can't be measured is not guessed.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::ObjectId;
use crate::forge::{Forge, ForgeError, PullRequestNow};
use crate::publish::PublishError;
use crate::store::{Ending, KnownJob, StoreError, Watched};

use crate::telemetry::metrics;

use super::Worker;
use super::asks::Unanswered;

const HOUR_MS: i64 = 60 * 60 * 1000;

/// A merged pull request is looked after so long, and so often.
const LOOKED_AFTER_MS: i64 = 30 * 24 * HOUR_MS;
const BETWEEN_LOOKS_MS: i64 = 6 * HOUR_MS;

impl Worker {
    /// Writes down how a pull request ended, the first time that it is seen to be over.
    pub(super) async fn note_ending(&self, forge: &dyn Forge, watched: &Watched, now: &PullRequestNow) -> Result<(), Unanswered> {
        let lines_changed = self.lines_changed(forge, watched, now).await?;
        let ending = Ending { merged: now.merged, merged_as: now.merged_as.clone(), lines_changed };
        let clock = self.parts.clock.as_ref();
        if self.store.end_fate(watched, &ending, clock.now_ms() + BETWEEN_LOOKS_MS, clock).await? {
            metrics::fate(if now.merged { "merged" } else { "closed" });
            tracing::info!(repo = watched.repo.path, number = now.number, merged = now.merged, ?lines_changed, "a pull request ended");
        }
        Ok(())
    }

    /// How many lines people added and removed on top of our last commit; none where git can't tell.
    async fn lines_changed(&self, forge: &dyn Forge, watched: &Watched, now: &PullRequestNow) -> Result<Option<i64>, Unanswered> {
        let jobs = self.store.jobs_of(&watched.repo, watched.issue).await?;
        let is_on_it = |job: &&KnownJob| {
            let round = job.origin.as_ref().and_then(|origin| origin.round.as_ref());
            job.run.as_ref() == Some(&watched.run) || round.is_some_and(|round| round.pull_request == now.number)
        };
        let ours = jobs.iter().filter(is_on_it).filter_map(|job| job.checkpoint.pushing.clone()).collect::<Vec<_>>();
        let (Some(head), Some(last)) = (ObjectId::parse(&now.head_sha), ours.first()) else { return Ok(None) };
        if ours.contains(&head) {
            return Ok(Some(0));
        }
        match self.parts.lines_on_top(forge, &watched.repo, now.number, (last, &head)).await {
            Ok(lines) => Ok(lines.and_then(|lines| i64::try_from(lines).ok())),
            Err(PublishError::Forge(error @ ForgeError::Unavailable { .. })) => Err(Unanswered::Forge(error)),
            Err(error) => {
                tracing::info!(%error, repo = watched.repo.path, number = now.number, "how much people changed is not known");
                Ok(None)
            }
        }
    }

    /// Looks at one merged pull request whether it was reverted; what came of it, or none when nothing is due.
    ///
    /// # Errors
    /// When the database fails; it is looked at again then.
    pub async fn revert_next(&self) -> Result<Option<String>, StoreError> {
        let clock = self.parts.clock.as_ref();
        let since = clock.now_ms().saturating_sub(LOOKED_AFTER_MS);
        let Some(merged) = self.store.next_merged(since, BETWEEN_LOOKS_MS, clock).await? else { return Ok(None) };
        let Some(forge) = self.forge_of(&merged.repo.forge, None) else { return Ok(Some("its forge is gone".to_owned())) };
        let Some(commit) = ObjectId::parse(&merged.merged_as) else { return Ok(Some("no commit".to_owned())) };
        match self.parts.reverted_by(forge.as_ref(), &merged.repo, &commit).await {
            Ok(Some(by)) => {
                self.store.note_revert(&merged, by.as_str(), clock).await?;
                metrics::fate("reverted");
                Ok(Some(format!("reverted by {by}")))
            }
            Ok(None) => Ok(Some("stands".to_owned())),
            Err(error) => {
                tracing::info!(%error, repo = merged.repo.path, "whether a pull request was reverted is not known yet");
                Ok(Some(error.to_string()))
            }
        }
    }

    /// Looks for reverts until `stop`.
    pub(super) async fn follow_fates(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let pause = match self.revert_next().await {
                Ok(Some(_)) => continue,
                Ok(None) => Duration::from_secs(60),
                Err(error) => {
                    tracing::warn!(%error, "what became of pull requests can't be looked at");
                    Duration::from_secs(300)
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}
