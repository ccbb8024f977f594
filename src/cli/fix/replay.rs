//! `frognano-bot fix --replay`: a finished run once more from its kept answers; the same answers must make the same patch.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::domain::Outcome;
use crate::leaf::Trajectory;
use crate::model::{Client, Endpoint, RestartOn, Script, Scripted, Settings};
use crate::store::Checkpoint;

use super::super::{fault, print, usage};
use super::order::Order;

pub(super) async fn run(folder: &Path, as_json: bool) -> ExitCode {
    let complaint = |why: String| usage(&[format!("--replay {}: {why}", folder.display())]);
    let (order, kept, recorded) = match read(folder) {
        Ok(read) => read,
        Err(why) => return complaint(why),
    };
    let out = match tempfile::Builder::new().prefix("frognano-replay-").tempdir() {
        Ok(out) => out,
        Err(error) => return fault(&format!("no temporary folder: {error}")),
    };
    let base = order.1.base.clone();
    let checkpoint = Checkpoint { base, default_branch: order.1.default_branch.clone(), ..Checkpoint::default() };
    let answers = Endpoint::Script(Scripted::new(Script::of(kept.answers()), RestartOn::Never));
    let model = match Client::new(
        answers,
        Settings { name: kept.frognano.model.clone(), parse_tool_calls: kept.frognano.parse_tool_calls, ..Settings::default() },
    ) {
        Ok(model) => model,
        Err(error) => return fault(&error.to_string()),
    };
    let prepared = match order.0.prepare_with(out.path().to_path_buf(), checkpoint, model).await {
        Ok(prepared) => prepared,
        Err(complaints) => return usage(&complaints),
    };
    let (outcome, report) = prepared.solve_until_stopped().await;
    let repeated = std::fs::read(out.path().join("patch.diff")).ok();
    let again = std::fs::read(out.path().join("trajectory.json")).ok().and_then(|text| serde_json::from_slice::<Trajectory>(&text).ok());
    let same = repeated == recorded && !matches!(outcome, Outcome::Abandoned { .. } | Outcome::Cancelled { .. });
    let differing = again.as_ref().map_or(kept.steps.len(), |again| differing_answers(&kept, again));
    if as_json {
        let digest = |patch: &Option<Vec<u8>>| patch.as_ref().map(|patch| hex::encode(Sha256::digest(patch)));
        let told = json!({
            "same_patch": same, "recorded_sha256": digest(&recorded), "repeated_sha256": digest(&repeated),
            "steps": kept.steps.len(), "steps_with_other_observations": differing, "outcome": report.outcome, "reason": report.reason,
        });
        print(&serde_json::to_string_pretty(&told).unwrap_or_default());
    } else {
        let verdict = if same { "the same patch, byte for byte" } else { "NOT the same patch" };
        print(&format!("{verdict}; {} steps, {differing} with other observations; {} {}", kept.steps.len(), report.outcome, report.detail));
    }
    ExitCode::from(u8::from(!same))
}

type Finished = ((Order, Checkpoint), Trajectory, Option<Vec<u8>>);

fn read(folder: &Path) -> Result<Finished, String> {
    let order = Order::read(folder)?;
    let text = std::fs::read(folder.join("trajectory.json"))
        .map_err(|error| format!("the run has not ended (trajectory.json: {error}); --resume goes on with it"))?;
    let trajectory = serde_json::from_slice::<Trajectory>(&text).map_err(|error| format!("trajectory.json: {error}"))?;
    Ok((order, trajectory, std::fs::read(folder.join("patch.diff")).ok()))
}

fn differing_answers(kept: &Trajectory, again: &Trajectory) -> usize {
    let pairs = kept.steps.iter().zip(&again.steps);
    pairs.filter(|(one, other)| one.observations != other.observations).count() + kept.steps.len().abs_diff(again.steps.len())
}
