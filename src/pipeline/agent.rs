//! The agent's work in its sandbox, and the commit that it becomes.

use std::path::PathBuf;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use crate::domain::{ChangedFile, ExitReason, Fault, NoPatch, Stage};
use crate::git::CommitMessage;
use crate::guard::GuardedPatch;
use crate::leaf::{self, LeafError, Observer, Preset, Task, TaskText, Trajectory, With};
use crate::publish::text;
use crate::sandbox::Sandbox;
use crate::store::AgentSummary;

use super::{Candidate, Record, Start, Stop, Work, changes, sandboxed};

/// The files that the agent changed: from the kept commit when there is one, else by letting it work.
pub(super) async fn changed_files(work: &mut Work<'_>, start: &Start, preset: &Preset) -> Result<Vec<ChangedFile>, Stop> {
    if let Some(commit) = work.checkpoint.candidate.clone()
        && start.mirror.has(&commit).await
    {
        let after = start.mirror.tree(&commit).await?;
        tell_of_agent(work);
        note_what_was_left_out(&mut work.report.notes, &leaf::task_text(&work.text));
        return changes::between(&start.mirror, &start.tree, &after).await;
    }
    work.enter(Stage::Proving).await?;
    let mut sandbox = sandboxed::with_tree(work, &start.mirror, &start.base, &start.branch, &start.tree, "agent").await?;
    let worked = let_it_work(work, start, preset, sandbox.as_mut()).await;
    sandbox.close().await;
    worked
}

async fn let_it_work(work: &mut Work<'_>, start: &Start, preset: &Preset, sandbox: &mut dyn Sandbox) -> Result<Vec<ChangedFile>, Stop> {
    work.enter(Stage::Agent).await?;
    let task = leaf::task_text(&work.text);
    note_what_was_left_out(&mut work.report.notes, &task);
    let settings = &work.parts.settings;
    let trajectory = Trajectory::begin(Task {
        trajectory_id: work.run.0.clone(),
        instance_id: work.run.0.clone(),
        seed: settings.seed,
        text: task.text,
    });
    let mut saver = Saver { file: work.folder().await?.join("trajectory.json"), record: work.record, failed: None };
    let with =
        With { model: work.parts.model.as_ref(), sandbox, clock: work.parts.clock.as_ref(), cancel: &work.cancel, observer: &mut saver };
    let ended = leaf::run(trajectory, preset, with).await;
    if let Some(stop) = saver.failed.take() {
        return Err(stop);
    }
    let trajectory = ended.map_err(stop_of)?;
    saver.on_step(&trajectory).await;
    work.checkpoint.agent = Some(AgentSummary {
        exit_reason: trajectory.exit_reason.map_or("unknown", ExitReason::name).to_owned(),
        steps: trajectory.steps.len() as u64,
        final_message: trajectory.final_message.clone(),
    });
    tell_of_agent(work);
    let why = || trajectory.error.clone().unwrap_or_else(|| trajectory.frognano.ending.clone());
    match trajectory.exit_reason {
        Some(ExitReason::LlmQueryError) => return Err(Stop::abandoned(Fault::ModelFailed, why())),
        Some(ExitReason::Cancelled) => return Err(Stop::Shutdown),
        Some(ExitReason::InfrastructureError | ExitReason::ToolError) => return Err(Stop::TryAgain(Fault::SandboxFailed, why())),
        Some(ExitReason::InternalError) => return Err(Stop::TryAgain(Fault::Internal, why())),
        _ => {}
    }
    let changed = changes::collect(sandbox, &start.mirror, &start.tree).await?;
    if changed.is_empty() {
        return Err(nothing(trajectory.exit_reason));
    }
    Ok(changed)
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
    let kept = match work.checkpoint.candidate.clone() {
        Some(commit) if start.mirror.has(&commit).await => Some(commit),
        _ => None,
    };
    let commit = match kept {
        Some(commit) => commit,
        None => {
            let commit = start.mirror.commit(&work.run, &start.base, patch.changed(), &message(work)).await?;
            let made = changes::between(&start.mirror, &start.tree, &start.mirror.tree(&commit).await?).await?;
            if made != patch.changed() {
                return Err(Stop::abandoned(Fault::Internal, "the commit is not the patch that the rules saw"));
            }
            commit
        }
    };
    let diff = start.mirror.patch(&start.base, &commit).await?;
    work.report.patch_sha256 = Some(hex::encode(Sha256::digest(&diff)));
    work.report.files = start.mirror.line_counts(&start.base, &commit).await?;
    let file = work.folder().await?.join("patch.diff");
    tokio::fs::write(&file, &diff).await.map_err(|error| Stop::disk(&file, &error))?;
    if work.checkpoint.candidate.as_ref() != Some(&commit) {
        // What an earlier run's tests said is about another patch.
        work.checkpoint.tests_after = None;
    }
    work.checkpoint.candidate = Some(commit.clone());
    work.finish_stage();
    work.keep().await?;
    Ok(Candidate { patch, commit })
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

/// Keeps the trajectory on the disk after every step.
struct Saver<'a> {
    file: PathBuf,
    record: &'a mut dyn Record,
    failed: Option<Stop>,
}

#[async_trait]
impl Observer for Saver<'_> {
    async fn on_step(&mut self, trajectory: &Trajectory) {
        self.record.step(trajectory);
        let half_written = self.file.with_extension("json.new");
        let text = trajectory.to_json().map(|json| json.to_string()).unwrap_or_default();
        let written = async {
            tokio::fs::write(&half_written, text).await?;
            tokio::fs::rename(&half_written, &self.file).await
        };
        if let Err(error) = written.await {
            self.failed = Some(Stop::disk(&self.file, &error));
        }
    }
}
