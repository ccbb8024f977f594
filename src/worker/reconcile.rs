//! Nothing missed: what a lost delivery would have brought is looked for at the start and every few minutes.
//!
//! What must hold: a label makes a job here exactly when its delivery would have made one; one forge that does not answer keeps no other
//! from being looked at; nothing here ends anything by itself.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::{Event, RepoRef, Trigger, Verb};
use crate::forge::{Forge, ForgeError};
use crate::pipeline::UNKNOWN;
use crate::publish::Place;
use crate::store::StoreError;

use super::Worker;

/// Forges keep failed deliveries for three days.
const KEPT_MS: i64 = 3 * 24 * 60 * 60 * 1000;

/// More repositories of one forge than this are not looked through at once.
const MOST_REPOSITORIES: usize = 500;

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Labelled issues that nobody had told of.
    pub jobs: u64,
    /// Deliveries that the forges were asked for again.
    pub asked_again: u64,
    /// Repositories that could not be looked at.
    pub unread: u64,
}

impl Worker {
    /// Looks for labels that no delivery told of, and asks to look again at every job that waits or runs.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn reconcile(&self) -> Result<Found, StoreError> {
        let mut found = Found::default();
        let clock = self.parts.clock.as_ref();
        for (name, forge) in &self.forges {
            match forge.redeliver_failed(clock.now_ms() - KEPT_MS).await {
                Ok(asked) => found.asked_again += asked,
                Err(error) => tracing::warn!(forge = name, %error, "deliveries that failed could not be asked for again"),
            }
            for repo in self.repositories_of(name, forge.as_ref()).await? {
                match self.take_up_labelled(forge.as_ref(), &repo).await {
                    Ok(jobs) => found.jobs += jobs,
                    Err(Unread::Store(error)) => return Err(error),
                    Err(Unread::Forge(error)) => {
                        tracing::warn!(repo = repo.path, %error, "the repository's labelled issues could not be read");
                        found.unread += 1;
                        if matches!(error, ForgeError::Unavailable { .. }) {
                            break;
                        }
                    }
                }
            }
        }
        for job in self.store.active_jobs(None).await? {
            let trigger = Trigger { repo: job.repo, number: job.issue, title: String::new(), body: String::new(), url: String::new() };
            self.store.ask(&look_again(trigger), clock, self.ids.as_ref()).await?;
        }
        if found.jobs > 0 {
            self.wake.notify_one();
        }
        Ok(found)
    }

    /// Reconciles at the start and then again and again, until `stop`.
    pub(super) async fn reconcile_again_and_again(self: Arc<Self>, every: Duration, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                found = self.reconcile() => match found {
                    Ok(found) if found == Found::default() => tracing::debug!("nothing was missed"),
                    Ok(found) => tracing::info!(?found, "looked for what was missed"),
                    Err(error) => tracing::error!(%error, "what was missed can't be looked for"),
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(every) => {}
            }
        }
    }

    /// The repositories that the token reaches now, and those that were ever heard of.
    async fn repositories_of(&self, name: &str, forge: &dyn Forge) -> Result<Vec<RepoRef>, StoreError> {
        let mut known = match forge.repositories().await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(forge = name, %error, "the forge does not list our repositories; those that were heard of are looked at");
                Vec::new()
            }
        };
        for heard_of in self.store.repositories(name).await? {
            if known.iter().all(|repo| repo.id != heard_of.id) {
                known.push(heard_of);
            }
        }
        if known.len() > MOST_REPOSITORIES {
            tracing::warn!(forge = name, repositories = known.len(), most = MOST_REPOSITORIES, "not all repositories are looked at");
            known.truncate(MOST_REPOSITORIES);
        }
        Ok(known)
    }

    async fn take_up_labelled(&self, forge: &dyn Forge, repo: &RepoRef) -> Result<u64, Unread> {
        let label = &self.parts.settings.label;
        let mut jobs = 0;
        for issue in forge.labelled_issues(repo, label).await? {
            if issue.confidential || issue.is_pull_request || !issue.has_label(label) {
                continue;
            }
            let jobs_of_it = self.store.jobs_of(repo, issue.number).await?;
            if jobs_of_it.iter().any(|job| job.state != "done")
                || (jobs_of_it.is_empty() && self.was_at_it(forge, repo, issue.number).await?)
            {
                continue;
            }
            let set = forge.label_set(repo, issue.number, label).await?;
            let episode = set.map_or_else(|| UNKNOWN.to_owned(), |set| set.episode);
            let trigger = Trigger { repo: repo.clone(), number: issue.number, title: issue.title, body: issue.body, url: issue.url };
            if self.store.take_up(&trigger, &episode, self.parts.clock.as_ref(), self.ids.as_ref()).await?.is_some() {
                tracing::info!(repo = repo.path, issue = trigger.number, "a label that no delivery told of");
                jobs += 1;
            }
        }
        Ok(jobs)
    }
}

impl Worker {
    /// Whether a comment of ours stands on an issue of which the database knows nothing: an earlier database did, and was lost.
    async fn was_at_it(&self, forge: &dyn Forge, repo: &RepoRef, number: i64) -> Result<bool, Unread> {
        let comments = self.comments();
        Ok(Place { forge, repo, number, on_pull_request: false, allowance: &comments }.has_status().await?)
    }
}

#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Forge(#[from] ForgeError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn look_again(trigger: Trigger) -> Event {
    Event {
        verb: Verb::Recheck,
        why: "the service looks at what is under way".to_owned(),
        repository: Some(trigger.repo.clone()),
        trigger: Some(trigger),
        about_pull_request: false,
        command: None,
        note: None,
        actor: None,
    }
}
