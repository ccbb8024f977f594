//! The agent's work in its sandbox, and the commit that it becomes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::audit::{self, Kind};
use crate::domain::{ChangedFile, ExitReason, Fault, NoPatch, ObjectId, Redactor, Stage};
use crate::git::{CommitMessage, Tree};
use crate::guard::GuardedPatch;
use crate::leaf::{self, LeafError, Observer, Preset, Recovery, Step, Trajectory, With};
use crate::publish::{endings, text};
use crate::sandbox::{Entry, Listing, Sandbox, SandboxError, WORKSPACE};
use crate::store::AgentSummary;

use super::keep::{self, Differences, Found, Keeper, NotKept, Opening, Resumable};
use super::{Candidate, Record, Start, Stop, Work, changes, place_of_attempt, sandboxed, task};

/// The files that the agent changed: from the kept commit when there is one, else by letting it work.
pub(super) async fn changed_files(work: &mut Work<'_>, start: &Start, preset: &Preset) -> Result<Vec<ChangedFile>, Stop> {
    if let Some(commit) = work.checkpoint.candidate.clone()
        && start.mirror.has(&commit).await
    {
        let after = start.mirror.tree(&commit).await?;
        tell_of_agent(work);
        return changes::between(&start.mirror, &start.tree, &after).await;
    }
    let folder = work.folder().await?;
    if let Some(files) = work.record.files() {
        keep::fetch(&files, &place_of_attempt(work.attempt()), &folder).await?;
    }
    let most = work.parts.settings.max_recoveries;
    let mut run = AgentRun::from_kept(work, start, folder, "the worker was lost").await;
    if run.losses() > most {
        let why = format!("the agent was interrupted {} times and goes on no more than {most} times ([run] max_recoveries)", run.losses());
        return Err(Stop::abandoned(Fault::WorkerLost, why));
    }
    let mut losses = run.losses();
    loop {
        let lost = match run.until_it_ends(work, start, preset).await {
            Ok(ended) => return ended,
            Err(lost) => lost,
        };
        losses += 1;
        if losses > most {
            return Err(lost.stop);
        }
        run = AgentRun::from_kept(work, start, run.folder, &lost.why).await;
        losses = losses.max(run.losses());
    }
}

/// One pass of the agent through one sandbox, from the task or from what was kept of an earlier pass.
struct AgentRun {
    folder: PathBuf,
    trajectory: Trajectory,
    differences: Differences,
    has_ended: bool,
    recovery: Option<Recovery>,
}

/// The sandbox was lost under the agent.
struct Lost {
    why: String,
    stop: Stop,
}

impl AgentRun {
    fn begin(work: &Work<'_>, folder: PathBuf) -> Self {
        let trajectory = Trajectory::begin(task::of(work));
        Self { folder, trajectory, differences: Differences::new(), has_ended: false, recovery: None }
    }

    /// The run after its last finished step, as far as it was kept.
    async fn from_kept(work: &Work<'_>, start: &Start, folder: PathBuf, why: &str) -> Self {
        let (place, base) = (folder.clone(), start.base.clone());
        let found = tokio::task::spawn_blocking(move || keep::find(&place, Some(&base))).await;
        match found.unwrap_or(Found::Nothing) {
            Found::Nothing => Self::begin(work, folder),
            Found::Run(kept) => Self::go_on(folder, *kept, why),
            Found::Refused { why: refused, recoveries } => {
                let why = format!("{why}; it starts over, since {refused}");
                tracing::warn!(why, "the agent starts over in a new sandbox");
                let mut run = Self::begin(work, folder);
                run.trajectory.frognano.recoveries = recoveries;
                run.trajectory.frognano.recoveries.push(Recovery { before_step: 0, why, told: String::new(), in_order: false });
                run
            }
        }
    }

    fn go_on(folder: PathBuf, kept: Resumable, why: &str) -> Self {
        let Resumable { mut trajectory, differences, left_out, has_ended, stopped, .. } = kept;
        let told = if could_leave_traces(&trajectory) { what_is_gone(left_out) } else { String::new() };
        let in_order = stopped.is_some();
        let why = stopped.unwrap_or_else(|| why.to_owned());
        let recovery = Recovery { before_step: trajectory.steps.len() as u64, why, told, in_order };
        tracing::info!(before_step = recovery.before_step, why = recovery.why, "the agent goes on in a new sandbox");
        trajectory.frognano.recoveries.push(recovery.clone());
        Self { folder, trajectory, differences, has_ended, recovery: Some(recovery) }
    }

    /// How often something failed under the agent so far.
    fn losses(&self) -> u32 {
        let failed = self.trajectory.frognano.recoveries.iter().filter(|recovery| !recovery.in_order);
        u32::try_from(failed.count()).unwrap_or(u32::MAX)
    }

    async fn until_it_ends(&self, work: &mut Work<'_>, start: &Start, preset: &Preset) -> Result<Result<Vec<ChangedFile>, Stop>, Lost> {
        let opened = async {
            work.enter(Stage::Proving).await?;
            let tree = without(&start.tree, &self.differences);
            let mut sandbox = sandboxed::with_tree(work, &start.mirror, &start.base, &start.branch, &tree, "agent").await?;
            let new = sandbox.list(Listing::Quick).await?;
            keep::put_back(&self.folder, &self.differences, sandbox.as_mut()).await?;
            work.enter(Stage::Agent).await?;
            Ok((sandbox, new))
        };
        let (mut sandbox, new) = match opened.await {
            Ok(opened) => opened,
            Err(stop @ Stop::TryAgain(Fault::SandboxFailed, _)) => {
                return Err(Lost { why: "the sandbox was lost at the start".to_owned(), stop });
            }
            Err(stop) => return Ok(Err(stop)),
        };
        let ended = self.let_it_work(work, start, preset, sandbox.as_mut(), new).await;
        let changed = match ended {
            Ok(Ok(trajectory)) => match self.conclude(work, start, trajectory, sandbox.as_mut()).await {
                Err(stop @ Stop::TryAgain(Fault::SandboxFailed, _)) => {
                    Err(Lost { why: "the sandbox was lost at the end".to_owned(), stop })
                }
                concluded => Ok(concluded),
            },
            Ok(Err(stop)) => Ok(Err(stop)),
            Err(lost) => Err(lost),
        };
        sandbox.close().await;
        changed
    }

    async fn let_it_work(
        &self,
        work: &mut Work<'_>,
        start: &Start,
        preset: &Preset,
        sandbox: &mut dyn Sandbox,
        new: Vec<Entry>,
    ) -> Result<Result<Trajectory, Stop>, Lost> {
        if self.has_ended {
            return Ok(Ok(self.trajectory.clone()));
        }
        let not_kept = |error: NotKept| error.stop(&self.folder);
        let keeper = match self.keeper(work, start, new).await {
            Ok(keeper) => keeper,
            Err(stop) => return Ok(Err(stop)),
        };
        let attempt = work.attempt();
        if let Err(stop) = self.witness(attempt, work.record, &work.parts.redactor).await {
            return Ok(Err(stop));
        }
        let redactor = &*work.parts.redactor;
        let mut saver = Saver { keeper, folder: &self.folder, base: &start.tree, record: work.record, attempt, redactor, failed: None };
        let with = With {
            model: work.parts.model.as_ref(),
            sandbox,
            clock: work.parts.clock.as_ref(),
            cancel: &work.cancel,
            observer: &mut saver,
        };
        let ended = leaf::run(self.trajectory.clone(), preset, with).await;
        if let Some(stop) = saver.failed.take() {
            return Ok(Err(stop));
        }
        match ended {
            Ok(trajectory) if was_stopped(&trajectory) => Ok(Err(saver.put_down("it was stopped", Stop::Shutdown).await)),
            Ok(trajectory) if trajectory.exit_reason == Some(ExitReason::LlmQueryError) => {
                Ok(saver.keeper.stopped("the model failed").await.map(|()| trajectory).map_err(not_kept))
            }
            Ok(trajectory) if may_go_on(&trajectory) => Ok(Ok(trajectory)),
            Ok(trajectory) => Ok(saver.keeper.end(&trajectory).await.map(|()| trajectory).map_err(not_kept)),
            Err(error @ LeafError::ModelDown { .. }) => Ok(Err(saver.put_down("the model's server did not answer", stop_of(error)).await)),
            Err(LeafError::Sandbox { source: source @ SandboxError::Lost(_), .. }) => {
                Err(Lost { why: source.to_string(), stop: source.into() })
            }
            Err(error) => Ok(Err(stop_of(error))),
        }
    }

    /// Tells the audit chain where the agent begins, or behind which steps it goes on. (A step that was kept and not told is told here.)
    async fn witness(&self, attempt: u32, record: &mut dyn Record, redactor: &Redactor) -> Result<(), Stop> {
        if self.trajectory.steps.is_empty() {
            return record.witness(Kind::Attempt, json!({"attempt": attempt, "begins": true})).await;
        }
        record.witness(Kind::Attempt, json!({"attempt": attempt, "goes_on_before": self.trajectory.steps.len()})).await?;
        for step in &self.trajectory.steps {
            record.witness(Kind::Turn, turn_of(attempt, step, redactor)).await?;
        }
        Ok(())
    }

    async fn keeper(&self, work: &Work<'_>, start: &Start, new: Vec<Entry>) -> Result<Keeper, Stop> {
        let not_kept = |error: NotKept| error.stop(&self.folder);
        let opening = Opening {
            folder: &self.folder,
            shared: work.record.files().map(|files| (files, place_of_attempt(work.attempt()))),
            base: &start.base,
            trajectory: &self.trajectory,
            kept: self.recovery.as_ref().map(|_| &self.differences),
            ignored: changes::ignore_rules(&start.mirror, &start.tree).await?,
            new,
            limits: work.parts.settings.kept.clone(),
        };
        let mut keeper = Keeper::open(opening).await.map_err(not_kept)?;
        if let Some(recovery) = &self.recovery {
            keeper.recovered(recovery).await.map_err(not_kept)?;
        }
        Ok(keeper)
    }

    /// Takes the changed files out and tells how the agent ended.
    async fn conclude(
        &self,
        work: &mut Work<'_>,
        start: &Start,
        trajectory: Trajectory,
        sandbox: &mut dyn Sandbox,
    ) -> Result<Vec<ChangedFile>, Stop> {
        work.checkpoint.agent = Some(AgentSummary {
            exit_reason: trajectory.exit_reason.map_or("unknown", ExitReason::name).to_owned(),
            steps: trajectory.steps.len() as u64,
            final_message: trajectory.final_message.clone(),
            elapsed_ms: u64::try_from(Duration::try_from_secs_f64(trajectory.elapsed_sec).unwrap_or_default().as_millis())
                .unwrap_or(u64::MAX),
        });
        tell_of_agent(work);
        for recovery in &trajectory.frognano.recoveries {
            work.report.notes.push(format!("The agent went on in a new sandbox before step {}: {}.", recovery.before_step, recovery.why));
        }
        write_trajectory(&self.folder, &trajectory, &work.parts.redactor).await?;
        let why = || trajectory.error.clone().unwrap_or_else(|| trajectory.frognano.ending.clone());
        match trajectory.exit_reason {
            Some(ExitReason::LlmQueryError) => return Err(Stop::abandoned(Fault::ModelFailed, why())),
            Some(ExitReason::InfrastructureError) => return Err(Stop::TryAgain(Fault::SandboxFailed, why())),
            Some(ExitReason::InternalError) => return Err(Stop::TryAgain(Fault::Internal, why())),
            _ => {}
        }
        let changed = changes::collect(sandbox, &start.mirror, &start.tree).await?;
        if changed.is_empty() { Err(nothing(trajectory.exit_reason)) } else { Ok(changed) }
    }
}

/// Ended by a fault that another try may not meet: such an ending is not written down.
fn may_go_on(trajectory: &Trajectory) -> bool {
    matches!(trajectory.exit_reason, Some(ExitReason::LlmQueryError | ExitReason::InfrastructureError | ExitReason::InternalError))
}

fn was_stopped(trajectory: &Trajectory) -> bool {
    trajectory.exit_reason == Some(ExitReason::Cancelled)
}

/// A command may have changed more than the files of the workspace.
fn could_leave_traces(trajectory: &Trajectory) -> bool {
    let done = trajectory.steps.iter().zip(&trajectory.frognano.turns).filter(|(_, turn)| !turn.retried);
    done.flat_map(|(step, _)| &step.observations).any(|done| done.tool == "Bash")
}

/// What the model is told once its sandbox was replaced.
fn what_is_gone(left_out: u64) -> String {
    let files = match left_out {
        0 => String::new(),
        1 => " except for 1 large file that git ignores".to_owned(),
        more => format!(" except for {more} large files that git ignores"),
    };
    format!(
        "Note: the sandbox was lost and replaced by a new one before this call. {WORKSPACE} is as the call before left it{files}; \
         whatever was outside of it is gone: /tmp, the home folder, installed packages, running processes."
    )
}

/// Base without what is kept in another form.
fn without(base: &Tree, kept: &Differences) -> Tree {
    let mut tree = base.clone();
    for path in kept.keys() {
        tree.entries.remove(path);
    }
    tree
}

/// Writes the record of the attempt, without secrets: the journal alone has the very answers, and goes when the run has ended.
async fn write_trajectory(folder: &Path, trajectory: &Trajectory, redactor: &Redactor) -> Result<(), Stop> {
    let file = folder.join("trajectory.json");
    let json = trajectory.to_json().map(|mut json| {
        redactor.value(&mut json);
        json.to_string()
    });
    let text = json.unwrap_or_default();
    tokio::fs::write(&file, text).await.map_err(|error| Stop::disk(&file, &error))
}

fn nothing(exit_reason: Option<ExitReason>) -> Stop {
    let ending = exit_reason.unwrap_or(ExitReason::Agent);
    let reason = match ending {
        ExitReason::Agent => NoPatch::NothingChanged,
        ExitReason::Stuck => NoPatch::Stuck,
        _ => NoPatch::BudgetSpent,
    };
    Stop::no_patch(reason, endings::without_a_change(ending))
}

fn stop_of(error: LeafError) -> Stop {
    match error {
        LeafError::ModelDown { why, .. } => Stop::ModelDown(why),
        LeafError::NotAModel { .. } => Stop::abandoned(Fault::ModelMisconfigured, error.to_string()),
        LeafError::Sandbox { source, .. } => source.into(),
    }
}

/// Makes the guarded patch a commit of the mirror and keeps it: from here on a lost run needs no agent again.
pub(super) async fn commit(work: &mut Work<'_>, start: &Start, patch: GuardedPatch) -> Result<Candidate, Stop> {
    let commit = commit_files(work, start, patch.changed()).await?;
    keep_candidate(work, start, &commit).await?;
    Ok(Candidate { patch, commit })
}

/// The kept commit, or a new one of the mirror: these files on top of the start.
pub(super) async fn commit_files(work: &mut Work<'_>, start: &Start, changed: &[ChangedFile]) -> Result<ObjectId, Stop> {
    if let Some(commit) = work.checkpoint.candidate.clone()
        && start.mirror.has(&commit).await
    {
        return Ok(commit);
    }
    work.checkpoint.dated_s.get_or_insert(work.parts.clock.now_ms() / 1000);
    let commit = start.mirror.commit((&work.run, work.attempt()), &start.base, changed, &message(work)).await?;
    let made = changes::between(&start.mirror, &start.tree, &start.mirror.tree(&commit).await?).await?;
    if made == changed { Ok(commit) } else { Err(Stop::abandoned(Fault::Internal, "the commit is not the patch that the rules saw")) }
}

/// Keeps the commit and writes down what it changes, measured against `base`.
pub(super) async fn keep_candidate(work: &mut Work<'_>, base: &Start, commit: &ObjectId) -> Result<(), Stop> {
    let diff = base.mirror.patch(&base.base, commit).await?;
    work.report.patch_sha256 = Some(hex::encode(Sha256::digest(&diff)));
    work.report.files = base.mirror.line_counts(&base.base, commit).await?;
    let file = work.folder().await?.join("patch.diff");
    let is_the_same_patch = tokio::fs::read(&file).await.is_ok_and(|kept| kept == diff);
    if work.checkpoint.candidate.as_ref() != Some(commit) && !is_the_same_patch {
        // What an earlier run's tests said is about another patch; that is written down before the file speaks of this one.
        work.checkpoint.tests_after = None;
        work.keep().await?;
    }
    tokio::fs::write(&file, &diff).await.map_err(|error| Stop::disk(&file, &error))?;
    changes::put_into_trajectory(&work.folder().await?, &diff).await?;
    work.checkpoint.candidate = Some(commit.clone());
    work.finish_stage();
    work.keep().await
}

pub(super) fn message(work: &Work<'_>) -> CommitMessage {
    CommitMessage {
        text: text::commit_message(&work.text.title, work.issue, &work.issue_url, &work.run.0),
        by: work.parts.settings.attribution.clone(),
        at: work.checkpoint.dated_s.unwrap_or_else(|| work.parts.clock.now_ms() / 1000),
    }
}

fn tell_of_agent(work: &mut Work<'_>) {
    if let Some(agent) = &work.checkpoint.agent {
        work.report.exit_reason = Some(agent.exit_reason.clone());
        work.report.steps = agent.steps;
        work.report.final_message.clone_from(&agent.final_message);
    }
}

/// What the audit chain holds of a step: of its words as they are kept, without secrets.
fn turn_of(attempt: u32, step: &Step, redactor: &Redactor) -> Value {
    let mut assistant = step.assistant.clone();
    redactor.value(&mut assistant);
    let answers = step.observations.iter().map(|done| (done.tool.as_str(), redactor.text(&done.observation))).collect::<Vec<_>>();
    audit::turn(attempt, step.step, &assistant, answers.iter().map(|(tool, answer)| (*tool, answer.as_ref()))).unwrap_or_default()
}

/// Keeps every step.
struct Saver<'a> {
    keeper: Keeper,
    folder: &'a Path,
    base: &'a Tree,
    record: &'a mut dyn Record,
    attempt: u32,
    redactor: &'a Redactor,
    failed: Option<Stop>,
}

impl Saver<'_> {
    /// Notes that the run is stopped in order.
    async fn put_down(&mut self, why: &str, stop: Stop) -> Stop {
        match self.keeper.stopped(why).await {
            Ok(()) => stop,
            Err(error) => error.stop(self.folder),
        }
    }
}

#[async_trait]
impl Observer for Saver<'_> {
    async fn on_step(&mut self, trajectory: &Trajectory, sandbox: &mut dyn Sandbox) -> Result<(), SandboxError> {
        self.record.step(trajectory);
        if let Some(step) = trajectory.steps.last()
            && let Err(stop) = self.record.witness(Kind::Turn, turn_of(self.attempt, step, self.redactor)).await
        {
            self.failed = Some(stop);
            return Err(SandboxError::Lost("the step could not be written into the audit chain".to_owned()));
        }
        match self.keeper.step(trajectory, self.base, sandbox).await {
            Ok(()) => Ok(()),
            Err(NotKept::Sandbox(error)) => Err(error),
            Err(failed) => {
                self.failed = Some(failed.stop(self.folder));
                Err(SandboxError::Lost("the step could not be kept".to_owned()))
            }
        }
    }
}
