//! Check runs: only Apps make them, with a permission of its own.

use serde_json::json;

use super::{demand, invalid_field, not_found, refuse};
use crate::demo::forge::requests::Status;
use crate::demo::forge::state::State;
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::demo::git_backend;

pub(super) fn make(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    if !caller.login.ends_with("[bot]") {
        return Err(refuse(403, "You must authenticate via a GitHub App."));
    }
    demand(caller, "checks", true)?;
    let body = ask.object().unwrap_or_default();
    let text =
        |field: &'static str| body[field].as_str().map(str::to_owned).ok_or_else(|| invalid_field("CheckRun", field, "missing_field"));
    let (context, commit, conclusion) = (text("name")?, text("head_sha")?, text("conclusion")?);
    if !["success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"].contains(&conclusion.as_str()) {
        return Err(invalid_field("CheckRun", "conclusion", "invalid"));
    }
    git_backend::commits_ahead(&state.repositories[here].git_dir, &commit, &commit)
        .ok_or_else(|| refuse(422, "No commit found for SHA"))?;
    let (repository, id) = (state.repositories[here].id, state.next_id());
    let answer = json!({ "id": id, "name": context, "head_sha": commit, "status": "completed", "conclusion": conclusion });
    let description = body["output"]["title"].as_str().unwrap_or_default().to_owned();
    state.check_runs.push(Status { repository, commit, context, state: conclusion, description });
    Ok(Answer::json(201, &answer))
}

/// The latest of this name.
pub(super) fn list(state: &State, ask: &Ask, caller: &Caller, here: usize, commit: &str) -> Result<Answer, Answer> {
    demand(caller, "checks", false)?;
    let repository = &state.repositories[here];
    git_backend::commits_ahead(&repository.git_dir, commit, commit).ok_or_else(not_found)?;
    let name = ask.query("check_name");
    let is_it = |run: &&Status| run.repository == repository.id && run.commit == commit && name.is_none_or(|name| name == run.context);
    let rows = state.check_runs.iter().rev().filter(is_it).take(1);
    let rows = rows.map(|run| json!({ "name": run.context, "status": "completed", "conclusion": run.state })).collect::<Vec<_>>();
    Ok(Answer::json(200, &json!({ "total_count": rows.len(), "check_runs": rows })))
}
