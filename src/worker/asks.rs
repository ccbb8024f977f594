//! The hand that works off what is asked beside a label: one ask after the other, from the database.
//!
//! What must hold: an ask ends only when what it asks is done or answered, and doing it again changes nothing; nobody is answered twice;
//! bots and our own account are never heard.

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::domain::{Actor, Clock, Permission, RepoRef, Verb, issue_and_run_of};
use crate::forge::{Forge, ForgeError, PullRequestNow};
use crate::publish::{Allowance, Place, replies};
use crate::store::{Ask, KnownJob, Store, StoreError};

use super::{Worker, millis};

/// For so long nobody else takes an ask up.
const LEASE_MS: i64 = 120_000;

/// After so many tries an ask is given up: the forge was away for hours.
const MOST_TRIES: i64 = 200;

/// Why an ask could not be worked off.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error(transparent)]
    Forge(#[from] ForgeError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A pull request of ours.
pub(super) struct Ours {
    /// As the forge has it.
    pub(super) now: PullRequestNow,
    /// The branch.
    pub(super) branch: String,
    /// The issue that it is for.
    pub(super) issue: i64,
    /// The job that opened it.
    pub(super) job: KnownJob,
}

impl Worker {
    /// Works off one thing that was asked; what came of it, or none when nothing is asked.
    ///
    /// # Errors
    /// When the database fails; it is taken up again then.
    pub async fn answer_next(&self) -> Result<Option<String>, StoreError> {
        let Some(ask) = self.next_ask().await? else { return Ok(None) };
        self.work_off(&ask).await.map(Some)
    }

    async fn next_ask(&self) -> Result<Option<Ask>, StoreError> {
        self.store.next_ask(&self.settings.owner, LEASE_MS, self.parts.clock.as_ref()).await
    }

    async fn work_off(&self, ask: &Ask) -> Result<String, StoreError> {
        let came = match self.forge_of(&ask.repo.forge, None) {
            None => Ok("its forge is not in the configuration any more".to_owned()),
            Some(forge) => self.answer(forge.as_ref(), ask).await,
        };
        let came = match came {
            Ok(came) => came,
            Err(Unanswered::Store(error)) => return Err(error),
            Err(Unanswered::Forge(ForgeError::Unavailable { what, message, retry_after_ms })) if ask.tries < MOST_TRIES => {
                let why = format!("{what}: {message}");
                tracing::warn!(repo = ask.repo.path, issue = ask.issue, why, "what was asked waits for the forge");
                let delay = retry_after_ms.and_then(|wait| i64::try_from(wait).ok()).unwrap_or(0).max(millis(self.settings.retry));
                self.store.put_off_ask(ask, delay, &why, self.parts.clock.as_ref()).await?;
                return Ok(why);
            }
            Err(Unanswered::Forge(error)) => error.to_string(),
        };
        tracing::info!(repo = ask.repo.path, issue = ask.issue, verb = ask.event.verb.name(), came, "worked off what was asked");
        self.store.end_ask(ask, &came).await?;
        Ok(came)
    }

    /// Works off what is asked until `stop`. What is under way then is taken up again at the next start.
    pub(super) async fn answer_asks(self: std::sync::Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let answered = tokio::select! {
                () = stop.cancelled() => return,
                answered = self.answer_the_next() => answered,
            };
            if let Err(error) = answered {
                tracing::error!(%error, "what was asked can't be worked off");
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(std::time::Duration::from_secs(5)) => {}
                }
            }
        }
    }

    /// Waits until something is asked, one hand for all, and works it off.
    async fn answer_the_next(&self) -> Result<(), StoreError> {
        let listens_alone = self.listening.lock().await;
        let ask = loop {
            match self.next_ask().await? {
                Some(ask) => break ask,
                None => tokio::time::sleep(std::time::Duration::from_secs(1)).await,
            }
        };
        drop(listens_alone);
        self.work_off(&ask).await.map(drop)
    }

    async fn answer(&self, forge: &dyn Forge, ask: &Ask) -> Result<String, Unanswered> {
        match ask.event.verb {
            Verb::Cancel | Verb::Recheck => self.look_again(forge, ask).await,
            Verb::Finish => self.pull_request_ended(forge, ask).await,
            Verb::Command => self.command(forge, ask).await,
            Verb::Feedback => self.feedback(forge, ask).await,
            Verb::Start | Verb::Admin | Verb::Ignore => Ok("nothing".to_owned()),
        }
    }

    /// The person who asks, unless it is one who is never heard.
    pub(super) async fn person<'a>(&self, forge: &dyn Forge, ask: &'a Ask) -> Result<Option<&'a Actor>, Unanswered> {
        let Some(actor) = ask.event.actor.as_ref().filter(|actor| !actor.is_bot && !actor.login.is_empty()) else { return Ok(None) };
        let myself = forge.myself().await?;
        let is_us = actor.login.eq_ignore_ascii_case(&myself.login) || (!actor.id.is_empty() && actor.id == myself.id);
        Ok((!is_us).then_some(actor))
    }

    /// Whether this person may ask us for something, by the forge's word of now. Who may not is told the rule, each person once an issue or pull
    /// request.
    pub(super) async fn may_ask(&self, place: &Place<'_>, issue: i64, by: &Actor) -> Result<bool, Unanswered> {
        // Where the forge does not tell our account of others, it knows them by the label that they set.
        place.forge.label_set(place.repo, issue, &self.parts.settings.label).await?;
        let may_write = place.forge.permission(place.repo, &by.login).await? >= Permission::Write;
        if may_write && self.parts.settings.rules_of(place.repo).allow(place.forge, &by.login).await? {
            return Ok(true);
        }
        let rule = if may_write { "not listed" } else { "no write access" };
        place.say_once(&format!("{rule}: {}", plain_login(&by.login)), &replies::not_allowed(&by.login, may_write)).await?;
        Ok(false)
    }

    /// The pull request of this number, if it is one of ours.
    pub(super) async fn ours(&self, forge: &dyn Forge, repo: &RepoRef, number: i64) -> Result<Option<Ours>, Unanswered> {
        let now = match forge.pull_request(repo, number).await {
            Ok(now) => now,
            Err(ForgeError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(branch) = now.head.clone() else { return Ok(None) };
        let Some((issue, run)) = issue_and_run_of(&branch) else { return Ok(None) };
        let job = self.store.jobs_of(repo, issue).await?.into_iter().find(|job| job.run.as_deref() == Some(run));
        Ok(job.map(|job| Ours { issue, branch, now, job }))
    }

    pub(super) fn comments(&self) -> Comments<'_> {
        Comments { store: &self.store, clock: self.parts.clock.as_ref(), most: self.settings.comments_per_hour }
    }
}

/// A login as it may stand in a hidden line: nothing in it ends the line.
fn plain_login(login: &str) -> String {
    login.to_lowercase().chars().filter(|letter| letter.is_alphanumeric() || "-_.".contains(*letter)).collect::<String>().replace("--", "-")
}

/// How many comments may be written, counted in the database.
pub(super) struct Comments<'a> {
    store: &'a Store,
    clock: &'a dyn Clock,
    most: i64,
}

#[async_trait]
impl Allowance for Comments<'_> {
    async fn take(&self, repo: &RepoRef, number: i64) -> Result<bool, ForgeError> {
        self.store.may_comment(repo, number, self.most, self.clock).await.map_err(|error| ForgeError::Unavailable {
            what: format!("counting the comments on {number} of {}", repo.path),
            message: error.to_string(),
            retry_after_ms: None,
        })
    }
}
