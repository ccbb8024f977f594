//! `frognano-bot fix --replay`: a finished run once more from its kept answers; the same answers must make the same patch.
//!
//! What must hold: "the same" is only said of bytes that were made again; what could not be made again is said with its reason, and so is what
//! was changed in the folder since. Of a run of several attempts the chosen one is repeated. Time can't be repeated, so it stands still: the kept answers end the run where its time was over.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::domain::{Clock, ExitReason, Outcome, SystemClock};
use crate::leaf::{Kept, Trajectory};
use crate::model::{Client, Endpoint, RestartOn, Script, Scripted, Settings};
use crate::pipeline::folder_of_attempt;
use crate::publish::report::Report;
use crate::store::Checkpoint;

use super::super::{fault, print, usage};
use super::Prepared;
use super::order::Order;
use super::verdict::{Finished, Repeated, Verdict};

pub(super) async fn run(folder: &Path, as_json: bool, stop: CancellationToken) -> ExitCode {
    match read(folder) {
        Ok((order, checkpoint, finished)) => repeat(order, checkpoint, &finished, as_json, stop).await,
        Err(why) => usage(&[format!("--replay {}: {why}", folder.display())]),
    }
}

/// Repeats a finished run and says whether its patch is the same. Status 0: it is, byte for byte; 1: it is not, or it could not be repeated.
pub(in crate::cli) async fn repeat(
    order: Order,
    checkpoint: Checkpoint,
    finished: &Finished,
    as_json: bool,
    stop: CancellationToken,
) -> ExitCode {
    let out = match tempfile::Builder::new().prefix("frognano-replay-").tempdir() {
        Ok(out) => out,
        Err(error) => return fault(&format!("no temporary folder: {error}")),
    };
    let model = match kept_answers(&finished.trajectory) {
        Ok(model) => model,
        Err(why) => return fault(&why),
    };
    let start = Checkpoint { base: checkpoint.base, default_branch: checkpoint.default_branch, ..Checkpoint::default() };
    let mut prepared = match order.prepare_with(out.path().to_path_buf(), start, model).await {
        Ok(prepared) => prepared,
        Err(complaints) => return usage(&complaints),
    };
    repeat_exactly(&mut prepared, &finished.trajectory);
    let (outcome, report) = prepared.solve_until(stop).await;
    let repeated = Repeated {
        patch: std::fs::read(out.path().join("patch.diff")).ok(),
        trajectory: read_trajectory(out.path()).ok(),
        was_stopped: matches!(outcome, Outcome::Abandoned { .. } | Outcome::Cancelled { .. }),
        report,
    };
    let verdict = Verdict::of(finished, &repeated);
    print(&if as_json { verdict.json() } else { verdict.to_string() });
    ExitCode::from(u8::from(!verdict.is_same()))
}

/// The budgets of the run instead of those of today's configuration; and no second sandbox, since each answer is kept for one asking.
fn repeat_exactly(prepared: &mut Prepared, kept: &Trajectory) {
    let settings = &mut prepared.parts.settings;
    if let Some(budgets) = &kept.frognano.budgets {
        settings.preset = budgets.hold_in(settings.preset.clone());
    }
    settings.max_recoveries = 0;
    settings.attempts = 1;
    prepared.parts.clock = Arc::new(Still(SystemClock.now_ms()));
}

/// A clock that stands still.
struct Still(i64);

impl Clock for Still {
    fn now_ms(&self) -> i64 {
        self.0
    }
}

fn kept_answers(kept: &Trajectory) -> Result<Client, String> {
    let answers = Endpoint::Script(Scripted::new(Script::of(kept.answers()), RestartOn::Never));
    let (name, parse_tool_calls) = (kept.frognano.model.clone(), kept.frognano.parse_tool_calls);
    Client::new(answers, Settings { name, parse_tool_calls, ..Settings::default() }).map_err(|error| error.to_string())
}

fn read(folder: &Path) -> Result<(Order, Checkpoint, Finished), String> {
    let (order, checkpoint) = Order::read(folder)?;
    let report: Option<Report> = std::fs::read(folder.join("report.json")).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let chosen = report.iter().flat_map(|report| &report.attempts).find(|attempt| attempt.chosen).map_or(1, |attempt| attempt.number);
    let record = folder_of_attempt(folder, chosen);
    let trajectory = read_trajectory(&record).map_err(|why| not_ended(report.as_ref(), &why))?;
    if trajectory.exit_reason.is_none() {
        return Err(not_ended(None, "trajectory.json says so"));
    }
    if let Some(why) = broken_off(&trajectory) {
        return Err(format!("{why}; --resume goes on with it"));
    }
    let journal = std::fs::read(record.join("kept/journal.jsonl")).ok().and_then(|text| Kept::read(&text));
    let patch = std::fs::read(folder.join("patch.diff")).ok();
    Ok((order, checkpoint, Finished { trajectory, patch, report, journal: journal.map(|kept| kept.trajectory) }))
}

/// Why there is nothing to repeat in a run that a fault ended.
pub(in crate::cli) fn broken_off(trajectory: &Trajectory) -> Option<String> {
    let reason = trajectory.exit_reason?;
    let is_fault = matches!(reason, ExitReason::LlmQueryError | ExitReason::InfrastructureError | ExitReason::InternalError);
    let why = trajectory.error.as_deref().unwrap_or(&trajectory.frognano.ending);
    is_fault.then(|| format!("a fault broke the run off before it made a patch ({}: {why})", reason.name()))
}

fn read_trajectory(folder: &Path) -> Result<Trajectory, String> {
    let text = std::fs::read(folder.join("trajectory.json")).map_err(|error| format!("trajectory.json: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("trajectory.json: {error}"))
}

fn not_ended(report: Option<&Report>, why: &str) -> String {
    match report.filter(|report| matches!(report.outcome.as_str(), "no_patch" | "refused")) {
        Some(report) => {
            format!(
                "the run ended before the model was asked ({} {}), so there is nothing to repeat ({why})",
                report.outcome, report.reason
            )
        }
        None => format!("the run has not ended ({why}); --resume goes on with it"),
    }
}
