//! The agent's work in its sandbox, and the commit that it becomes.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use crate::domain::{ChangedFile, ExitReason, Fault, NoPatch, ObjectId, Stage};
use crate::git::{CommitMessage, Tree};
use crate::guard::GuardedPatch;
use crate::leaf::{self, LeafError, Observer, Preset, Recovery, Task, TaskText, Trajectory, With};
use crate::publish::text;
use crate::sandbox::{Entry, Listing, Sandbox, SandboxError};
use crate::store::AgentSummary;

use super::keep::{self, Differences, Keeper, NotKept, Resumable};
use super::{Candidate, Record, Start, Stop, Work, changes, sandboxed};

/// The files that the agent changed: from the kept commit when there is one, else by letting it work.
pub(super) async fn changed_files(work: &mut Work<'_>, start: &Start, preset: &Preset) -> Result<Vec<ChangedFile>, Stop> {
    note_what_was_left_out(&mut work.report.notes, &leaf::task_text(&work.text));
    if let Some(commit) = work.checkpoint.candidate.clone()
        && start.mirror.has(&commit).await
    {
        let after = start.mirror.tree(&commit).await?;
        tell_of_agent(work);
        return changes::between(&start.mirror, &start.tree, &after).await;
    }
    let folder = work.folder().await?;
    let mut run = match keep::load(&folder, &start.base) {
        Some(kept) => AgentRun::go_on(folder, kept, "the worker was lost or stopped"),
        None => AgentRun::begin(work, folder),
    };
    for _ in 0..work.parts.settings.max_recoveries {
        match run.until_it_ends(work, start, preset).await {
            Err(Lost { why, .. }) => match keep::load(&run.folder, &start.base) {
                Some(kept) => run = AgentRun::go_on(run.folder, kept, &why),
                None => run = AgentRun::begin(work, run.folder),
            },
            Ok(ended) => return ended,
        }
    }
    run.until_it_ends(work, start, preset).await.unwrap_or_else(|lost| Err(lost.stop))
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
        let task = leaf::task_text(&work.text);
        let id = work.run.0.clone();
        let trajectory =
            Trajectory::begin(Task { trajectory_id: id.clone(), instance_id: id, seed: work.parts.settings.seed, text: task.text });
        Self { folder, trajectory, differences: Differences::new(), has_ended: false, recovery: None }
    }

    fn go_on(folder: PathBuf, kept: Resumable, why: &str) -> Self {
        let Resumable { mut trajectory, differences, has_ended } = kept;
        let recovery = Recovery { before_step: trajectory.steps.len() as u64, why: why.to_owned() };
        tracing::info!(before_step = recovery.before_step, why, "the agent goes on in a new sandbox");
        trajectory.frognano.recoveries.push(recovery.clone());
        Self { folder, trajectory, differences, has_ended, recovery: Some(recovery) }
    }

    async fn until_it_ends(&self, work: &mut Work<'_>, start: &Start, preset: &Preset) -> Result<Result<Vec<ChangedFile>, Stop>, Lost> {
        let opened = async {
            work.enter(Stage::Proving).await?;
            let kept = keep::kept_files(&self.folder, &self.differences).map_err(|error| Stop::disk(&self.folder, &error))?;
            let mut sandbox =
                sandboxed::with_tree(work, &start.mirror, &start.base, &start.branch, &without(&start.tree, &kept), "agent").await?;
            let new = sandbox.list(Listing::Quick).await?;
            sandboxed::put_files(sandbox.as_mut(), &kept).await?;
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
        let disk = |error: std::io::Error| Stop::disk(&self.folder, &error);
        let mut keeper = match Keeper::open(&self.folder, &start.base, &self.trajectory, self.recovery.is_some(), new) {
            Ok(keeper) => keeper,
            Err(error) => return Ok(Err(disk(error))),
        };
        if let Some(Err(error)) = self.recovery.as_ref().map(|recovery| keeper.recovered(recovery)) {
            return Ok(Err(disk(error)));
        }
        let mut saver = Saver { keeper, folder: &self.folder, base: &start.tree, record: work.record, failed: None };
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
            Ok(trajectory) if was_stopped(&trajectory) => Ok(Err(Stop::Shutdown)),
            Ok(trajectory) if may_go_on(&trajectory) => Ok(Ok(trajectory)),
            Ok(trajectory) => Ok(saver.keeper.end(&trajectory).map(|()| trajectory).map_err(disk)),
            Err(LeafError::Sandbox { source: source @ SandboxError::Lost(_), .. }) => {
                Err(Lost { why: source.to_string(), stop: source.into() })
            }
            Err(error) => Ok(Err(stop_of(error))),
        }
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
        });
        tell_of_agent(work);
        for recovery in &trajectory.frognano.recoveries {
            work.report.notes.push(format!("The agent went on in a new sandbox before step {}: {}.", recovery.before_step, recovery.why));
        }
        write_trajectory(&self.folder, &trajectory).await?;
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

/// Base without what is kept in another form.
fn without(base: &Tree, kept: &[ChangedFile]) -> Tree {
    let mut tree = base.clone();
    for file in kept {
        tree.entries.remove(&file.path);
    }
    tree
}

async fn write_trajectory(folder: &Path, trajectory: &Trajectory) -> Result<(), Stop> {
    let file = folder.join("trajectory.json");
    let text = trajectory.to_json().map(|json| json.to_string()).unwrap_or_default();
    tokio::fs::write(&file, text).await.map_err(|error| Stop::disk(&file, &error))
}

fn note_what_was_left_out(notes: &mut Vec<String>, task: &TaskText) {
    if task.had_hidden_text() {
        let hidden = format!("{} hidden comments and {} invisible characters", task.hidden_comments, task.hidden_characters);
        notes.push(format!("The issue held text that its page does not show ({hidden}); the model did not get it."));
    }
    if task.cut_characters > 0 {
        notes.push(format!("The issue is long: {} characters from its middle were not given to the model.", task.cut_characters));
    }
}

fn nothing(exit_reason: Option<ExitReason>) -> Stop {
    match exit_reason {
        Some(ExitReason::Agent) | None => Stop::no_patch(NoPatch::NothingChanged, "the agent ended its work without changing anything"),
        Some(reason) => {
            Stop::no_patch(NoPatch::BudgetSpent, format!("a budget of the run was spent ({}) before anything was changed", reason.name()))
        }
    }
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
pub(super) async fn commit_files(work: &Work<'_>, start: &Start, changed: &[ChangedFile]) -> Result<ObjectId, Stop> {
    if let Some(commit) = work.checkpoint.candidate.clone()
        && start.mirror.has(&commit).await
    {
        return Ok(commit);
    }
    let commit = start.mirror.commit(&work.run, &start.base, changed, &message(work)).await?;
    let made = changes::between(&start.mirror, &start.tree, &start.mirror.tree(&commit).await?).await?;
    if made == changed { Ok(commit) } else { Err(Stop::abandoned(Fault::Internal, "the commit is not the patch that the rules saw")) }
}

/// Keeps the commit and writes down what it changes, measured against `base`.
pub(super) async fn keep_candidate(work: &mut Work<'_>, base: &Start, commit: &ObjectId) -> Result<(), Stop> {
    let diff = base.mirror.patch(&base.base, commit).await?;
    work.report.patch_sha256 = Some(hex::encode(Sha256::digest(&diff)));
    work.report.files = base.mirror.line_counts(&base.base, commit).await?;
    let file = work.folder().await?.join("patch.diff");
    tokio::fs::write(&file, &diff).await.map_err(|error| Stop::disk(&file, &error))?;
    if work.checkpoint.candidate.as_ref() != Some(commit) {
        // What an earlier run's tests said is about another patch.
        work.checkpoint.tests_after = None;
    }
    work.checkpoint.candidate = Some(commit.clone());
    work.finish_stage();
    work.keep().await
}

pub(super) fn message(work: &Work<'_>) -> CommitMessage {
    CommitMessage {
        text: text::commit_message(&work.text.title, work.issue, &work.issue_url, &work.run.0),
        by: work.parts.settings.attribution.clone(),
        at: work.parts.clock.now_ms() / 1000,
    }
}

fn tell_of_agent(work: &mut Work<'_>) {
    if let Some(agent) = &work.checkpoint.agent {
        work.report.exit_reason = Some(agent.exit_reason.clone());
        work.report.steps = agent.steps;
        work.report.final_message.clone_from(&agent.final_message);
    }
}

/// Keeps every step.
struct Saver<'a> {
    keeper: Keeper,
    folder: &'a Path,
    base: &'a Tree,
    record: &'a mut dyn Record,
    failed: Option<Stop>,
}

#[async_trait]
impl Observer for Saver<'_> {
    async fn on_step(&mut self, trajectory: &Trajectory, sandbox: &mut dyn Sandbox) -> Result<(), SandboxError> {
        self.record.step(trajectory);
        match self.keeper.step(trajectory, self.base, sandbox).await {
            Ok(()) => Ok(()),
            Err(NotKept::Sandbox(error)) => Err(error),
            Err(NotKept::Disk(error)) => {
                let said = error.to_string();
                self.failed = Some(Stop::disk(self.folder, &error));
                Err(SandboxError::Lost(said))
            }
        }
    }
}
