//! The hand that watches the human review of our open pull requests: at every word of a forge about their repository, and again and again.
//!
//! What must hold: the forge alone is asked what stands, so that a delivery that is lost, late or doubled changes nothing; the status of the
//! head says what the reviews come to now, whoever wrote it last; a commit that is not the head any more does not stay approved.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::{RunId, branch_of};
use crate::forge::{Forge, Repository};
use crate::publish::human_review::{self, CONTEXT, Rules, Standing};
use crate::store::{KnownJob, StoreError, Watched};

use super::asks::Unanswered;
use super::commands::found;
use super::{Worker, millis};

/// For so long nobody else looks at a pull request that is looked at.
const LEASE_MS: i64 = 60_000;

/// Longer than any service runs: only a delivery, or a start, makes the next look due.
const NEVER_MS: i64 = i64::MAX / 2;

const OVER: &str = "over";
const WAITING: &str = "waiting";
const APPROVED: &str = "approved";

impl Worker {
    /// Looks at one pull request that is due: what its review came to, or none when nothing is due.
    ///
    /// # Errors
    /// When the database fails; it is looked at again then.
    pub async fn review_next(&self) -> Result<Option<String>, StoreError> {
        let clock = self.parts.clock.as_ref();
        let Some(mut watched) = self.store.next_review(LEASE_MS, clock).await? else { return Ok(None) };
        let looked = match self.forge_of(&watched.repo.forge, Some(&RunId(watched.run.clone()))) {
            None => Ok(over(&mut watched)),
            Some(forge) => self.look_at(forge.as_ref(), &mut watched).await,
        };
        let (came, after_ms) = match looked {
            Ok(came) => (came, if watched.state == OVER { NEVER_MS } else { self.between_looks() }),
            Err(Unanswered::Store(error)) => return Err(error),
            Err(Unanswered::Forge(error)) => {
                tracing::warn!(repo = watched.repo.path, issue = watched.issue, %error, "the review of a pull request could not be looked at");
                (error.to_string(), millis(self.settings.retry).max(1))
            }
        };
        self.store.end_review(&watched, after_ms, clock).await?;
        Ok(Some(came))
    }

    fn between_looks(&self) -> i64 {
        if self.settings.reconcile.is_zero() { NEVER_MS } else { millis(self.settings.reconcile) }
    }

    async fn look_at(&self, forge: &dyn Forge, watched: &mut Watched) -> Result<String, Unanswered> {
        let Some(Repository { repo, .. }) = found(forge.repository(&watched.repo).await)? else { return Ok(over(watched)) };
        watched.repo.path.clone_from(&repo.path);
        if watched.number.is_none() {
            let there = forge.find_pull_request(&repo, &branch_of(watched.issue, &watched.run)).await?;
            watched.number = there.map(|there| there.number);
        }
        let Some(number) = watched.number else { return Ok(over(watched)) };
        let Some(now) = found(forge.pull_request(&repo, number).await)? else { return Ok(over(watched)) };
        if !now.open {
            self.note_ending(forge, watched, &now).await?;
            return Ok(over(watched));
        }
        let reviews = forge.reviews(&repo, number).await?;
        let asked_by = self.who_asked(forge, watched).await?;
        let myself = forge.myself().await?.login;
        let teams = &self.parts.settings.rules_of(&repo).human_review_teams;
        let rules = Rules { myself: &myself, asked_by: &asked_by, teams };
        let standing = human_review::standing(forge, &repo, &now.head_sha, &reviews, &rules).await?;
        if let Some(before) = watched.head.clone().filter(|before| *before != now.head_sha && watched.state == APPROVED) {
            forge.set_status(&repo, &before, &human_review::superseded(&before, &now.head_sha)).await?;
        }
        let status = standing.status(&now.head_sha);
        // A forge may cut what a status says: the words alone are not written twice.
        let said_before = watched.head.as_ref() == Some(&now.head_sha) && watched.said.as_deref() == Some(&*status.description);
        let there = forge.status(&repo, &now.head_sha, CONTEXT).await?;
        if !there.is_some_and(|there| there.passed == status.passed && (said_before || there.description == status.description)) {
            forge.set_status(&repo, &now.head_sha, &status).await?;
            tracing::info!(repo = repo.path, number, head = now.head_sha, passed = status.passed, said = %status.description, "human review");
        }
        self.note(watched, now.head_sha, standing);
        watched.said = Some(status.description.clone().into_owned());
        Ok(status.description.into_owned())
    }

    fn note(&self, watched: &mut Watched, head: String, standing: Standing) {
        match standing {
            Standing::Approved(by) => {
                if watched.approved_by.as_ref() != Some(&by) || watched.head.as_ref() != Some(&head) {
                    watched.approved_ms = Some(self.parts.clock.now_ms());
                }
                APPROVED.clone_into(&mut watched.state);
                watched.approved_by = Some(by);
            }
            Standing::Waiting(_) => {
                WAITING.clone_into(&mut watched.state);
                (watched.approved_by, watched.approved_ms) = (None, None);
            }
        }
        watched.head = Some(head);
    }

    /// Who asked for the run that opened the pull request: by the label, or by a command beside the label.
    async fn who_asked(&self, forge: &dyn Forge, watched: &Watched) -> Result<Vec<String>, Unanswered> {
        let jobs = self.store.jobs_of(&watched.repo, watched.issue).await?;
        let Some(job) = jobs.into_iter().find(|job| job.run.as_deref() == Some(&watched.run)) else { return Ok(Vec::new()) };
        let KnownJob { origin, checkpoint, .. } = job;
        let mut asked_by = checkpoint.requested_by.into_iter().collect::<Vec<_>>();
        if let Some(origin) = origin {
            asked_by.push(origin.by.login);
            let set = found(forge.label_set(&watched.repo, watched.issue, &self.parts.settings.label).await)?.flatten();
            asked_by.extend(set.map(|set| set.by.login));
        }
        Ok(asked_by)
    }

    /// Looks at what is due until `stop`. What was under way when the service ended is due again at the next start.
    pub(super) async fn watch_reviews(self: Arc<Self>, stop: CancellationToken) {
        if let Err(error) = self.store.release_reviews(self.parts.clock.as_ref()).await {
            tracing::error!(%error, "the reviews of pull requests are looked at a little later");
        }
        while !stop.is_cancelled() {
            let looked = tokio::select! {
                () = stop.cancelled() => return,
                looked = self.review_next() => looked,
            };
            let pause = match looked {
                Ok(Some(_)) => continue,
                Ok(None) => Duration::from_secs(1),
                Err(error) => {
                    tracing::error!(%error, "the reviews of pull requests can't be looked at");
                    Duration::from_secs(5)
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

fn over(watched: &mut Watched) -> String {
    OVER.clone_into(&mut watched.state);
    OVER.to_owned()
}
