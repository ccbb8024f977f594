//! From a label to a verdict: the way of one job, stage by stage.
//!
//! What must hold: each stage is entered in the record before it begins and kept there when it is finished, so that a run that was killed
//! anywhere goes on behind its last finished stage; a patch reaches `publish` only through the guard and the judge.

mod admit;
mod afterwards;
mod agent;
mod allowed;
mod attempts;
mod changes;
mod clone;
mod judge;
mod keep;
mod reviewers;
mod round;
mod sandboxed;
mod statement;
mod stop;
mod task;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::audit::{Digest, Kind, SigningKey};
use crate::domain::{Attribution, Clock, IssueText, ObjectId, Origin, Outcome, Redactor, RepoRef, RunId, Stage, branch_of};
use crate::forge::Forge;
use crate::git::{Mirror, Mirrors, Remote, Tree};
use crate::guard::{GuardedPatch, Limits};
use crate::leaf::{Preset, Trajectory};
use crate::model::Model;
use crate::publish::report::Report;
use crate::publish::text::{self, Proposal};
use crate::publish::{self, Destination, Place, PublishError};
use crate::sandbox::Sandboxes;
use crate::store::{Checkpoint, RunFiles, Store};
use crate::telemetry::{metrics, traces};

pub use admit::UNKNOWN;
pub use allowed::ForgeRules;
pub use judge::VerifyRules;
pub use keep::KeepLimits;
pub use statement::snapshot;
pub use stop::Stop;

/// What every run works with.
pub struct Parts {
    /// The mirrors of this machine.
    pub mirrors: Mirrors,
    /// Where sandboxes come from.
    pub sandboxes: Arc<dyn Sandboxes>,
    /// The model.
    pub model: Arc<dyn Model>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where it is remembered what the tests said at base; none where every run measures.
    pub baselines: Option<Store>,
    /// What statements on commits are signed with; none where there is no audit chain.
    pub signing: Option<Arc<SigningKey>>,
    /// Takes secrets out of what is kept of a run; by default nothing.
    pub redactor: Arc<Redactor>,
    /// The settings of a run.
    pub settings: Settings,
}

impl Parts {
    /// Takes back what a run that is stopped had begun to publish; `why` is said on its pull request, if there is one.
    ///
    /// # Errors
    /// When the forge or git refuses, or does not answer; doing it again is fine.
    pub async fn take_back(&self, place: Place<'_>, run: &str, checkpoint: &Checkpoint, why: Option<&str>) -> Result<(), PublishError> {
        let Some(commit) = checkpoint.pushing.as_ref().filter(|_| checkpoint.proposed.is_none()) else {
            return Ok(());
        };
        let mirror = self.mirrors.open(&Mirrors::name_of(&place.repo.forge, &place.repo.id)).await?;
        publish::take_back(place, &mirror, commit, &branch_of(place.number, run), why).await?;
        match checkpoint.stated.as_ref().and_then(|stated| stated.pushed.as_ref()) {
            Some(pushed) => publish::take_back_reference(place, &mirror, pushed, &statement::reference(run)).await,
            None => Ok(()),
        }
    }

    /// Lets go of what a run that has ended needed of its repository's mirror.
    pub async fn tidy(&self, repo: &RepoRef, run: &RunId) {
        let name = Mirrors::name_of(&repo.forge, &repo.id);
        if self.mirrors.has(&name)
            && let Err(error) = self.mirrors.tidy(&name, run).await
        {
            tracing::warn!(%error, "the mirror could not be tidied");
        }
    }
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The label that starts a run.
    pub label: String,
    /// Who is named in our commits.
    pub attribution: Attribution,
    /// The budgets of the agent.
    pub preset: Preset,
    /// How many fresh attempts a run makes at most.
    pub attempts: u32,
    /// Whether a patch that breaks nothing and proves nothing is followed by another attempt.
    pub attempts_for_proof: bool,
    /// How often a run goes on in a new sandbox after its own or its worker was lost, over all restarts; stops in order do not count.
    pub max_recoveries: u32,
    /// What is too much to be kept after a step.
    pub kept: KeepLimits,
    /// The seed sent with each request of the agent's first attempt; each further attempt has another.
    pub seed: Option<u64>,
    /// The longest that the project's tests may take.
    pub test_time: Duration,
    /// The command of the project's tests, whatever the repository says.
    pub test_override: Option<String>,
    /// The command of the project's tests, where the repository says none and none is found.
    pub test_fallback: Option<String>,
    /// What a patch may touch.
    pub limits: Limits,
    /// How much the judge tries, and which proofs are enough.
    pub verify: VerifyRules,
    /// The address of a site that shows runs.
    pub public_url: Option<Url>,
    /// The SHA-256 of the model's weights, as configured.
    pub weights_sha256: Option<String>,
    /// Where each run keeps its record.
    pub runs: PathBuf,
    /// The largest tree that fits a sandbox, in bytes.
    pub workspace_bytes: u64,
    /// What holds on each forge, by its name in the configuration.
    pub forges: HashMap<String, ForgeRules>,
    /// What holds on a forge that is not there.
    pub no_rules: ForgeRules,
}

impl Settings {
    /// The page of a run, where there is a site that shows runs.
    #[must_use]
    pub fn page_of(&self, run: &RunId) -> Option<String> {
        let mut page = self.public_url.clone()?;
        page.path_segments_mut().ok()?.pop_if_empty().extend(["runs", &run.0]);
        Some(page.into())
    }

    /// What holds on the forge of this repository.
    #[must_use]
    pub fn rules_of(&self, repo: &RepoRef) -> &ForgeRules {
        self.forges.get(&repo.forge).unwrap_or(&self.no_rules)
    }
}

/// Where a run writes down how far it is.
#[async_trait]
pub trait Record: Send + Sync {
    /// Whether the end of the run was asked for.
    async fn is_to_stop(&self) -> Result<bool, Stop> {
        Ok(false)
    }
    /// A stage begins.
    async fn enter(&mut self, stage: Stage) -> Result<(), Stop>;
    /// Something is finished.
    async fn keep(&mut self, checkpoint: &Checkpoint) -> Result<(), Stop>;
    /// Where what each step leaves is kept besides this disk, for a worker on another machine.
    fn files(&self) -> Option<RunFiles> {
        None
    }
    /// An attempt begins, counted from 1, of so many at most.
    fn attempt(&mut self, _number: u32, _most: u32) {}
    /// The agent made a step.
    fn step(&mut self, trajectory: &Trajectory);
    /// Writes an event of the run into the audit chain, where there is one.
    async fn witness(&mut self, _kind: Kind, _facts: Value) -> Result<(), Stop> {
        Ok(())
    }
    /// Keeps what an event is about to name by its digest, and gives the digest of what is kept.
    async fn keep_record(&mut self, _kind: &str, bytes: &[u8]) -> Result<Digest, Stop> {
        Ok(Digest::of(bytes))
    }
    /// What a person is called in the audit chain; none where there is no chain.
    async fn pseudonym(&mut self, _forge: &str, _login: &str) -> Result<Option<String>, Stop> {
        Ok(None)
    }
}

/// One run of a job.
pub struct Work<'a> {
    /// What every run works with.
    pub parts: &'a Parts,
    /// Where it is written down.
    pub record: &'a mut dyn Record,
    /// The folder that keeps its patch, trajectory and report.
    pub folder: PathBuf,
    /// Its id.
    pub run: RunId,
    /// The frozen words of the issue.
    pub text: IssueText,
    /// The issue's number; 0 without a forge.
    pub issue: i64,
    /// The issue's page.
    pub issue_url: String,
    /// Where the job comes from, when it is not a label.
    pub origin: Option<Origin>,
    /// What is finished.
    pub checkpoint: Checkpoint,
    /// What is told of it.
    pub report: Report,
    /// Stops it.
    pub cancel: CancellationToken,
    /// When the stage began that goes on now.
    pub stage_began: Option<(Stage, i64)>,
}

/// Where a job on a forge comes from.
pub struct Asked<'a> {
    /// The forge.
    pub forge: &'a dyn Forge,
    /// The repository.
    pub repo: &'a RepoRef,
    /// Ties the job to the act of setting the label.
    pub episodes: &'a dyn Episodes,
}

/// Remembers which acts of setting the label have been answered.
#[async_trait]
pub trait Episodes: Send + Sync {
    /// Ties this job to the act.
    async fn name(&self, episode: &str, requested_by: &str) -> Result<(), Stop>;
    /// Whether a delivery that came while the job waited shows other words of the issue.
    async fn text_is_disputed(&self, text: &IssueText) -> Result<bool, Stop>;
}

/// The commit that a run starts from.
pub struct Start {
    /// The mirror that has it.
    pub mirror: Mirror,
    /// The commit.
    pub base: ObjectId,
    /// Its branch.
    pub branch: String,
    /// Its files.
    pub tree: Tree,
}

/// A patch that the guard let through, as a commit of the mirror.
pub struct Candidate {
    /// The proof.
    pub patch: GuardedPatch,
    /// The commit.
    pub commit: ObjectId,
}

/// The way of a job on a forge. Returns when its outcome is known and written on the forge, but for the closing words on the issue.
///
/// # Errors
/// [`Stop`]: an outcome other than a proposal, or the reason to put the job back.
pub async fn solve(work: &mut Work<'_>, asked: &Asked<'_>) -> Result<Outcome, Stop> {
    if let Some((url, report)) = work.checkpoint.proposed.clone() {
        work.report = serde_json::from_value(report).unwrap_or_default();
        return Ok(Outcome::Proposed { url });
    }
    admit::admit(work, asked).await?;
    if let Some(round) = work.origin.as_ref().and_then(|origin| origin.round.clone()) {
        return round::solve(work, asked, &round).await;
    }
    let start = clone::from_forge(work, asked).await?;
    let candidate = propose(work, &start).await?;
    admit::still_wanted(work, asked).await?;
    publish(work, asked, &start, &candidate).await
}

/// Only the first step of that way, for a job that must wait: whoever set the label is told.
///
/// # Errors
/// [`Stop`]: an outcome, or [`Stop::InQueue`] when the job may start.
pub async fn greet(work: &mut Work<'_>, asked: &Asked<'_>) -> Result<Outcome, Stop> {
    admit::admit(work, asked).await?;
    Err(Stop::InQueue)
}

/// The way from a commit to a judged patch, without any forge.
///
/// # Errors
/// [`Stop`]: an outcome other than a proposal, or the reason to put the job back.
pub async fn propose(work: &mut Work<'_>, start: &Start) -> Result<Candidate, Stop> {
    let rules = judge::rules(work, start).await?;
    rules.write_down(work, start).await?;
    judge::tests_before(work, start, &rules).await?;
    attempts::best(work, &attempts::Ground { base: start, head: None }, &rules).await
}

/// The commit of a run and how many turns the model's server answered in all its attempts, where it was broken off in this folder and can be
/// gone on with.
#[must_use]
pub fn kept_run(folder: &Path) -> Option<(ObjectId, usize)> {
    let kept = |folder: &Path| match keep::find(folder, None) {
        keep::Found::Run(kept) => Some(kept),
        keep::Found::Nothing | keep::Found::Refused { .. } => None,
    };
    let first = kept(folder)?;
    let later = (2..).map_while(|number| kept(&folder_of_attempt(folder, number)));
    let answered = first.trajectory.answered() + later.map(|kept| kept.trajectory.answered()).sum::<usize>();
    Some((ObjectId::parse(&first.base)?, answered))
}

/// Where an attempt, counted from 1, keeps its record: the first in the run's own folder, each further one below it.
#[must_use]
pub fn folder_of_attempt(run: &Path, number: u32) -> PathBuf {
    run.join(place_of_attempt(number))
}

/// The same within the run's folder: empty, or with a slash at its end.
fn place_of_attempt(number: u32) -> String {
    if number == 1 { String::new() } else { format!("attempt-{number}/") }
}

/// Fetches the commit that a run of a local repository starts from.
///
/// # Errors
/// When the repository can't be read or is empty.
pub async fn start_from_folder(work: &mut Work<'_>, remote: &Remote) -> Result<Start, Stop> {
    clone::from_folder(work, remote).await
}

async fn publish(work: &mut Work<'_>, asked: &Asked<'_>, start: &Start, candidate: &Candidate) -> Result<Outcome, Stop> {
    work.enter(Stage::Publishing).await?;
    let branch = our_branch(work);
    let reviewers = reviewers::of(work, asked, start).await?;
    let fallback = work.parts.settings.rules_of(asked.repo).draft_fallback;
    let asked_by = work.checkpoint.requested_by.clone();
    let to = Destination {
        forge: asked.forge,
        repo: asked.repo,
        base_branch: &start.branch,
        branch: &branch,
        reviewers: &reviewers,
        asked_by: asked_by.as_deref(),
        fallback,
        changes_tests: text::changes_expectations(&work.report),
    };
    statement::make(work, asked.repo, &candidate.commit).await?;
    admit::goes_on(work, asked).await?;
    work.checkpoint.pushing = Some(candidate.commit.clone());
    work.keep().await?;
    work.record.witness(Kind::ForgeWrite, json!({"to": {"write": "push", "commit": candidate.commit, "branch": branch}})).await?;
    let refused = traces::span("push").around(publish::push(&to, &candidate.patch, &start.mirror, &candidate.commit)).await?;
    statement::put(work, asked, &start.mirror).await?;
    let title = text::title(&work.text.title, work.issue, &work.report);
    let body = text::pull_request(&work.proposal(asked));
    admit::goes_on(work, asked).await?;
    let pull_request = traces::span("pull request").around(publish::open(&to, work.checkpoint.opened, &title, &body)).await?;
    work.checkpoint.opened = Some(pull_request.number);
    work.keep().await?;
    admit::goes_on(work, asked).await?;
    work.checkpoint.reviewers = publish::present(&to, &pull_request, refused).await?;
    admit::goes_on(work, asked).await?;
    work.checkpoint.proposed = Some((pull_request.url.clone(), serde_json::to_value(&work.report).unwrap_or_default()));
    work.keep().await?;
    asked.forge.remove_label(asked.repo, work.issue, publish::NO_FIX.name).await?;
    work.finish_stage();
    Ok(Outcome::Proposed { url: pull_request.url })
}

fn our_branch(work: &Work<'_>) -> String {
    branch_of(work.issue, &work.run.0)
}

impl Work<'_> {
    /// Enters a stage: written down first, then begun.
    pub(crate) async fn enter(&mut self, stage: Stage) -> Result<(), Stop> {
        if self.cancel.is_cancelled() {
            return Err(Stop::Shutdown);
        }
        self.finish_stage();
        self.stage_began = Some((stage, self.parts.clock.now_ms()));
        traces::stage(stage.name());
        self.record.enter(stage).await
    }

    /// Notes how long the stage took that went on until now.
    pub(crate) fn finish_stage(&mut self) {
        if let Some((stage, began)) = self.stage_began.take() {
            let took = u64::try_from(self.parts.clock.now_ms() - began).unwrap_or(0);
            metrics::stage(stage.name(), took);
            traces::stage_ended();
            self.checkpoint.stage_ms.push((stage.name().to_owned(), took));
        }
    }

    /// Keeps what is finished.
    pub(crate) async fn keep(&mut self) -> Result<(), Stop> {
        self.record.keep(&self.checkpoint).await
    }

    /// What the pull request tells.
    pub(crate) fn proposal(&self, asked: &Asked<'_>) -> Proposal<'_> {
        Proposal { report: &self.report, issue: self.issue, asked: &self.text, longest: asked.forge.longest_body() }
    }

    /// The attempt that goes on now, counted from 1.
    pub(crate) fn attempt(&self) -> u32 {
        u32::try_from(self.checkpoint.tried.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The folder of this attempt's record, made when it is missing.
    pub(crate) async fn folder(&self) -> Result<PathBuf, Stop> {
        let folder = folder_of_attempt(&self.folder, self.attempt());
        tokio::fs::create_dir_all(&folder).await.map_err(|error| Stop::disk(&folder, &error))?;
        Ok(folder)
    }
}
