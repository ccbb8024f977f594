//! `/frognano retry`, `cancel`, `status`, `help` and `revise`, on an issue or on a pull request of ours.

use crate::domain::{Actor, Command, Origin, Trigger};
use crate::forge::{Forge, ForgeError, Repository};
use crate::publish::{Place, replies};
use crate::store::{Ask, KnownJob, Made};

use crate::telemetry::metrics;

use super::Worker;
use super::asks::{Ours, Unanswered};

/// A command of a person who may give it.
struct Given<'a> {
    ask: &'a Ask,
    place: Place<'a>,
    by: &'a Actor,
    issue: i64,
    ours: Option<Ours>,
    /// What the answer is found again by.
    key: String,
}

impl Worker {
    /// Does what a command asks, or says why not, in one comment.
    pub(super) async fn command(&self, forge: &dyn Forge, ask: &Ask) -> Result<String, Unanswered> {
        let Some(command) = ask.event.command else { return Ok("no command of ours".to_owned()) };
        let Some(by) = self.person(forge, ask).await? else { return Ok("only people give commands".to_owned()) };
        let Some(Repository { repo, .. }) = found(forge.repository(&ask.repo).await)? else {
            return Ok("the repository is gone".to_owned());
        };
        let ours = if ask.event.about_pull_request { self.ours(forge, &repo, ask.issue).await? } else { None };
        if ask.event.about_pull_request && ours.is_none() {
            return Ok("the pull request is not ours".to_owned());
        }
        let comments = self.comments();
        let place = Place { forge, repo: &repo, number: ask.issue, on_pull_request: ask.event.about_pull_request, allowance: &comments };
        let issue = ours.as_ref().map_or(ask.issue, |ours| ours.issue);
        if found(forge.issue(&repo, issue).await)?.is_none_or(|issue| issue.confidential) {
            return Ok("the issue is gone or confidential".to_owned());
        }
        if !self.may_ask(&place, issue, by).await? {
            return Ok(format!("{} has no write access", by.login));
        }
        let key = ask.event.note.as_ref().map(|note| note.id.clone()).filter(|id| !id.is_empty()).unwrap_or_else(|| ask.id.clone());
        let given = Given { ask, place, by, issue, ours, key };
        match command {
            Command::Retry => self.retry(given).await,
            Command::Cancel => self.cancel(given).await,
            Command::Status => {
                let said = self.status(&given).await?;
                given.answer(&said, "status told").await
            }
            Command::Help => given.answer(&replies::help(&self.parts.settings.label, forge.pull_request_word()), "help told").await,
            Command::Revise => self.revise(given).await,
            Command::Wrong => self.wrong(given).await,
        }
    }

    async fn retry(&self, given: Given<'_>) -> Result<String, Unanswered> {
        let label = &self.parts.settings.label;
        let issue = given.place.forge.issue(given.place.repo, given.issue).await?;
        let missing = [
            (!issue.open).then(replies::closed),
            issue.locked.then(replies::locked),
            (!issue.has_label(label)).then(|| replies::unlabelled(label)),
        ];
        let missing = missing.into_iter().flatten().collect::<Vec<_>>();
        if !missing.is_empty() && !self.is_known(&given).await? {
            return given.answer(&replies::not_again(&missing), "refused: the issue is not ready for it").await;
        }
        // The words that stood there when the command was written, where the delivery has them.
        let frozen = given.ask.event.trigger.as_ref().filter(|_| given.ours.is_none());
        let (title, body) = frozen.map_or((issue.title, issue.body), |frozen| (frozen.title.clone(), frozen.body.clone()));
        let trigger = Trigger { repo: given.place.repo.clone(), number: given.issue, title, body, url: issue.url };
        let origin = Origin { key: format!("command:{}", given.key), by: given.by.clone(), round: None };
        match self.store.make_job(&trigger, &origin, self.parts.clock.as_ref(), self.ids.as_ref()).await? {
            Made::Job(_) => {
                self.wake.notify_one();
                Ok("a new job".to_owned())
            }
            Made::Known | Made::Erased => Ok("its job was made before".to_owned()),
            Made::Busy => given.answer(&replies::already_running(), "refused: already running").await,
        }
    }

    /// Whether this very command has its job already.
    async fn is_known(&self, given: &Given<'_>) -> Result<bool, Unanswered> {
        let key = format!("command:{}", given.key);
        let jobs = self.store.jobs_of(given.place.repo, given.issue).await?;
        Ok(jobs.iter().any(|job| job.origin.as_ref().is_some_and(|origin| origin.key == key)))
    }

    async fn cancel(&self, given: Given<'_>) -> Result<String, Unanswered> {
        let active = self.store.jobs_of(given.place.repo, given.issue).await?.into_iter().find(|job| job.state != "done");
        match active {
            Some(job) if job.queued_ms > given.ask.asked_ms => Ok("the run is newer than the command".to_owned()),
            Some(job) => {
                self.stop_job(given.place.forge, &job, format!("{} asked for it", given.by.login), false).await?;
                Ok("cancelled".to_owned())
            }
            // Told again after it was done, it must not be answered as if it had found nothing.
            None if given.ask.tries > 1 => Ok("nothing is under way any more".to_owned()),
            None => given.answer(&replies::nothing_to_cancel(), "nothing to cancel").await,
        }
    }

    async fn status(&self, given: &Given<'_>) -> Result<String, Unanswered> {
        let jobs = self.store.jobs_of(given.place.repo, given.issue).await?;
        let told = jobs.iter().find(|job| job.state != "done").or_else(|| jobs.iter().find(|job| has_something_to_say(job)));
        Ok(match told {
            None => replies::never_ran(&self.parts.settings.label),
            Some(job) if job.state == "queued" => replies::queued(self.store.place_in_queue(&job.id).await?, &job.stage),
            Some(job) if job.state == "running" => replies::running(&job.stage, job.steps),
            Some(job) => {
                let (outcome, detail) = (job.outcome.as_deref().unwrap_or_default(), job.detail.as_deref().unwrap_or_default());
                replies::ended(outcome, detail, given.place.forge.pull_request_word())
            }
        })
    }

    async fn wrong(&self, given: Given<'_>) -> Result<String, Unanswered> {
        let words = given.place.forge.pull_request_word();
        let Some(ours) = &given.ours else {
            return given.answer(&replies::not_a_pull_request(words), "refused: not on a pull request").await;
        };
        let text = given.ask.event.note.as_ref().map(|note| note.text.as_str()).unwrap_or_default();
        let Some(word) = Command::word_of_wrong(text) else {
            return given.answer(&replies::no_word(), "refused: no word was said").await;
        };
        let run = ours.job.run.clone().unwrap_or_default();
        if self.store.note_wrong(given.place.repo, &run, word, &given.by.login, self.parts.clock.as_ref()).await? {
            metrics::false_green();
            tracing::warn!(repo = given.place.repo.path, run, word, "a person found a verdict wrong");
        }
        given.answer(&replies::noted_as_wrong(words), "noted").await
    }

    async fn revise(&self, given: Given<'_>) -> Result<String, Unanswered> {
        let Given { ask, place, by, ours: Some(ours), key, .. } = &given else {
            return given
                .answer(&replies::not_a_pull_request(given.place.forge.pull_request_word()), "refused: not on a pull request")
                .await;
        };
        let text = ask.event.note.as_ref().map(|note| note.text.as_str()).unwrap_or_default();
        let words = text.split_once('\n').map_or("", |(_, rest)| rest).trim();
        if words.is_empty() {
            return given.answer(&replies::nothing_said(), "refused: nothing was said").await;
        }
        self.another_round(place, ours, by, key, (words, &[])).await
    }
}

/// Jobs that ended without a word (a label that was answered before) are nobody's last run.
fn has_something_to_say(job: &KnownJob) -> bool {
    !matches!(job.detail.as_deref(), Some("already_answered" | "label_absent"))
}

impl Given<'_> {
    /// Answers in one comment, and says for the record what came of it.
    async fn answer(&self, words: &str, came: &str) -> Result<String, Unanswered> {
        let said = self.place.say_once(&self.key, words).await?;
        Ok(if said { came.to_owned() } else { format!("{came}; unsaid, for there were too many comments within the hour") })
    }
}

/// None for what is not there.
pub(super) fn found<T>(answer: Result<T, ForgeError>) -> Result<Option<T>, ForgeError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(ForgeError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
