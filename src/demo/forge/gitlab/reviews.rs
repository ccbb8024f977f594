//! What goes with a merge request: reviewers, statuses of commits, members of groups; and the webhooks as they are listed.

use serde_json::{Value, json};

use super::{body, level, not_found, refuse, required, shape, text};
use crate::demo::forge::requests::Status;
use crate::demo::forge::state::{Spot, State};
use crate::demo::forge::wire::{Answer, Ask};
use crate::demo::git_backend;

/// Members of the project alone are taken, and without a licence only the first, others dropped without a word.
pub(super) fn set_reviewers(state: &mut State, spot: Spot, ids: &[Value]) {
    let (repository, issue) = state.at(spot);
    let ids = if state.one_reviewer { &ids[..ids.len().min(1)] } else { ids };
    let members = state.users.iter().filter(|user| ids.contains(&user.id.into()) && level(repository, &user.login) > 0);
    let asked: Vec<_> = members.map(|user| (repository.id, issue.number, user.login.clone())).collect();
    let (id, number) = (repository.id, issue.number);
    state.review_requests.retain(|(repository, there, _)| (*repository, *there) != (id, number));
    state.review_requests.extend(asked);
}

/// Whom a merge request asks.
pub(super) fn reviewers(state: &State, repository: u64, number: i64) -> Value {
    let asked = state.review_requests.iter().filter(|(there, of, _)| (*there, *of) == (repository, number));
    asked.map(|(_, _, login)| shape::user(state, login)).collect()
}

/// A status that goes on can't be set to what it is.
pub(super) fn put_status(state: &mut State, ask: &Ask, here: usize, commit: &str) -> Result<Answer, Answer> {
    let body = body(ask)?;
    let (word, name) = (required(&body, "state")?, text(&body, "name")?.unwrap_or_else(|| "default".to_owned()));
    if !["pending", "running", "success", "failed", "canceled", "skipped"].contains(&word.as_str()) {
        return Err(Answer::json(400, &json!({ "error": "state does not have a valid value" })));
    }
    let repository = state.repositories[here].id;
    let is_it =
        |status: &&Status| (status.repository, status.commit.as_str(), status.context.as_str()) == (repository, commit, name.as_str());
    // One that has ended is followed by a new one.
    let goes_on = ["pending", "running"].contains(&word.as_str());
    if goes_on && state.statuses.iter().rev().find(is_it).is_some_and(|status| status.state == word) {
        return Err(refuse(400, format!("Cannot transition status via :enqueue from :{word}")));
    }
    let description = text(&body, "description")?.unwrap_or_default();
    git_backend::commits_ahead(&state.repositories[here].git_dir, commit, commit).ok_or_else(|| refuse(404, "404 Commit Not Found"))?;
    state.statuses.push(Status { repository, commit: commit.to_owned(), context: name.clone(), state: word.clone(), description });
    Ok(Answer::json(201, &json!({ "sha": commit, "status": word, "name": name })))
}

/// A member of a group by its path.
pub(super) fn group_member(state: &State, group: &str, id: &str) -> Result<Answer, Answer> {
    let user = state.users.iter().find(|user| user.id.to_string() == id).ok_or_else(not_found)?;
    match state.in_team(group, &user.login) {
        Some(true) => Ok(Answer::json(200, &shape::member(state, &user.login, super::DEVELOPER))),
        _ => Err(not_found()),
    }
}

/// The webhooks, paused when the last delivery failed; those that were not made through the API have the address that the stories' service has.
pub(super) fn hooks(state: &State, here: usize) -> Answer {
    let failed = state.hook_tries.last().is_some_and(|status| !(200..300).contains(status));
    let status = if failed { "temporarily_disabled" } else { "executable" };
    let row = |hook: &crate::demo::forge::Hook| {
        json!({
            "id": hook.id, "url": hook.url.as_deref().unwrap_or("http://service.invalid/webhooks/here"), "alert_status": status,
            "issues_events": true, "note_events": true, "merge_requests_events": true, "enable_ssl_verification": true,
        })
    };
    Answer::json(200, &state.repositories[here].hooks.iter().map(row).collect())
}
