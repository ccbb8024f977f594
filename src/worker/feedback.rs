//! Another round at a pull request of ours, because a review requests changes or a person wrote `/frognano revise`.
//!
//! What must hold: what the agent gets is frozen when the job is made; one review makes one job; after [`Round::MOST`] rounds a person takes over.

use crate::domain::{Actor, Origin, ReviewState, Round, Trigger};
use crate::forge::{Forge, LineComment, Repository, Review};
use crate::publish::{NEEDS_HUMAN, Place, replies};
use crate::store::{Ask, Made};

use super::Worker;
use super::asks::{Ours, Unanswered};
use super::commands::found;

impl Worker {
    /// A review of a pull request: one of ours, that requests changes, by somebody who may.
    pub(super) async fn feedback(&self, forge: &dyn Forge, ask: &Ask) -> Result<String, Unanswered> {
        let Some(by) = self.person(forge, ask).await? else { return Ok("only people's reviews count".to_owned()) };
        let Some(note) = &ask.event.note else { return Ok("the review has no words".to_owned()) };
        let Some(Repository { repo, .. }) = found(forge.repository(&ask.repo).await)? else {
            return Ok("the repository is gone".to_owned());
        };
        let Some(ours) = self.ours(forge, &repo, ask.issue).await? else { return Ok("the pull request is not ours".to_owned()) };
        let comments = self.comments();
        let place = Place { forge, repo: &repo, number: ask.issue, on_pull_request: true, allowance: &comments };
        if !self.may_ask(&place, ours.issue, by).await? {
            return Ok(format!("{} has no write access", by.login));
        }
        let reviews = forge.reviews(&repo, ask.issue).await?;
        let text = note.text.trim();
        let is_it = |review: &&Review| match note.id.as_str() {
            "" => {
                review.author.eq_ignore_ascii_case(&by.login)
                    && review.state == ReviewState::ChangesRequested
                    && (text.is_empty() || review.body.trim() == text)
            }
            id => review.id == id,
        };
        let Some(review) = reviews.iter().rfind(is_it) else { return Ok("the review is gone".to_owned()) };
        let lines = forge.line_comments(&repo, ask.issue, &review.id).await?;
        // GitLab tells of the verdict alone, and has the words elsewhere.
        let words = if text.is_empty() { review.body.trim() } else { text };
        if words.is_empty() && lines.is_empty() {
            let said = place.say_once(&review.id, &replies::nothing_said()).await?;
            return Ok(format!("the review has no words; said: {said}"));
        }
        self.another_round(&place, &ours, by, &review.id, (words, &lines)).await
    }

    /// Makes the job for another round, or says why not.
    pub(super) async fn another_round(
        &self,
        place: &Place<'_>,
        ours: &Ours,
        by: &Actor,
        key: &str,
        (words, lines): (&str, &[LineComment]),
    ) -> Result<String, Unanswered> {
        if !ours.now.open {
            return Ok("the pull request is over".to_owned());
        }
        let origin_key = format!("revise:{key}");
        let jobs = self.store.jobs_of(place.repo, ours.issue).await?;
        let mut origins = jobs.iter().filter_map(|job| job.origin.as_ref());
        if origins.any(|origin| origin.key == origin_key) {
            return Ok("its job was made before".to_owned());
        }
        let is_on_it = |round: &&Round| round.pull_request == place.number;
        let rounds = jobs.iter().filter_map(|job| job.origin.as_ref()?.round.as_ref()).filter(is_on_it).map(|round| round.number).max();
        let number = rounds.unwrap_or(0) + 1;
        if number > Round::MOST {
            place.forge.label_pull_request(place.repo, place.number, NEEDS_HUMAN).await?;
            place.say_once("rounds", &replies::all_rounds(place.forge.pull_request_word())).await?;
            return Ok("refused: all rounds are made".to_owned());
        }
        let lines = lines.iter().map(|line| (line.path.clone(), line.line, line.body.clone())).collect::<Vec<_>>();
        let trigger = Trigger {
            repo: place.repo.clone(),
            number: ours.issue,
            title: ours.job.text.title.clone(),
            body: replies::task(&ours.job.text.body, words, &lines),
            url: ours.job.issue_url.clone(),
        };
        let round = Round { number, pull_request: place.number, branch: ours.branch.clone() };
        let origin = Origin { key: origin_key, by: by.clone(), round: Some(round) };
        match self.store.make_job(&trigger, &origin, self.parts.clock.as_ref(), self.ids.as_ref()).await? {
            Made::Job(_) => {
                self.wake.notify_one();
                Ok(format!("round {number}"))
            }
            Made::Known | Made::Erased => Ok("its job was made before".to_owned()),
            Made::Busy => {
                place.say_once(key, &replies::already_running()).await?;
                Ok("refused: already running".to_owned())
            }
        }
    }
}
