//! Pull requests. A draft is one whose title says so.

use serde_json::Value;

use super::{body, issues, not_found, paged, refuse, required, shape, text, unarchived, wanted, writable};
use crate::demo::forge::requests;
use crate::demo::forge::state::{Pull, Spot, State};
use crate::demo::forge::wire::{Answer, Ask, Caller};

pub(super) fn answer(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", []) => Ok(list(state, ask, here)),
        ("POST", []) => open(state, ask, caller, here),
        ("GET", [number]) => spot(state, here, number).and_then(|spot| show(state, 200, spot)),
        ("PATCH", [number]) => {
            spot(state, here, number).and_then(|spot| issues::change(state, ask, caller, spot).and_then(|_| show(state, 201, spot)))
        }
        ("POST", [number, "requested_reviewers"]) => spot(state, here, number).and_then(|spot| {
            requests::ask_for_review(state, ask, spot).map_err(|why| refuse(422, &why))?;
            show(state, 201, spot)
        }),
        ("GET", [number, "reviews"]) => spot(state, here, number).map(|spot| reviews(state, ask, spot)),
        ("GET", [number, "reviews", id, "comments"]) => spot(state, here, number).and_then(|spot| remarks(state, ask, spot, id)),
        ("GET", [base, head]) => by_branches(state, here, base, head),
        _ => return None,
    })
}

fn spot(state: &State, here: usize, number: &str) -> Result<Spot, Answer> {
    issues::spot(state, here, number).ok().filter(|&spot| state.at(spot).1.pull.is_some()).ok_or_else(not_found)
}

fn show(state: &State, status: u16, spot: Spot) -> Result<Answer, Answer> {
    let (repository, issue) = state.at(spot);
    let pull = issue.pull.as_ref().ok_or_else(not_found)?;
    Ok(Answer::json(status, &shape::pull(state, repository, issue, pull)))
}

fn reviews(state: &State, ask: &Ask, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    paged(state, ask, state.listed_reviews(repository, issue))
}

fn remarks(state: &State, ask: &Ask, spot: Spot, review: &str) -> Result<Answer, Answer> {
    let (repository, issue) = state.at(spot);
    let remarks = state.listed_remarks(repository, issue, review).ok_or_else(not_found)?;
    Ok(paged(state, ask, remarks))
}

fn list(state: &State, ask: &Ask, here: usize) -> Answer {
    let repository = &state.repositories[here];
    let fits = repository.issues.iter().rev().filter(|issue| wanted(ask, issue.open));
    paged(state, ask, fits.filter_map(|issue| Some(shape::pull(state, repository, issue, issue.pull.as_ref()?))).collect())
}

/// The newest pull request between two branches, open or not.
fn by_branches(state: &State, here: usize, base: &str, head: &str) -> Result<Answer, Answer> {
    let between = |pull: &Pull| pull.base == base && pull.head == head;
    let newest = state.repositories[here].issues.iter().rposition(|issue| issue.pull.as_ref().is_some_and(between));
    newest.ok_or_else(not_found).and_then(|issue| show(state, 200, Spot { repository: here, issue }))
}

fn open(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    unarchived(repository)?;
    let body = body(ask)?;
    let (head, base, title) = (required(&body, "head")?, required(&body, "base")?, required(&body, "title")?);
    if head == base {
        return Err(refuse(422, "Invalid PullRequest: There are no changes between the head and the base"));
    }
    let head_sha = repository.branch_tip(&head).filter(|_| repository.branch_tip(&base).is_some()).ok_or_else(not_found)?;
    let is_open_from_head = |pull: &Pull| pull.head == head;
    if let Some(there) = repository.issues.iter().find(|issue| issue.open && issue.pull.as_ref().is_some_and(is_open_from_head)) {
        let message = format!("pull request already exists for these targets [id: {}, issue_id: {}]", there.id, there.id);
        return Err(refuse(409, &message));
    }
    let labels = body.get("labels").and_then(Value::as_array).cloned().unwrap_or_default();
    if !labels.is_empty() {
        writable(repository, caller)?;
    }
    if !labels.iter().all(Value::is_u64) {
        return Err(refuse(422, "[labels]: cannot unmarshal string into int64"));
    }
    let meant = state.labels_of(repository).filter(|label| labels.contains(&label.id.into())).cloned().collect::<Vec<_>>();
    let words = text(&body, "body")?.unwrap_or_default();
    let pull = Pull { head, base, draft: false, head_sha, merged_as: None };
    let spot = state.open(here, &caller.login, &title, &words, Some(pull));
    for label in meant {
        state.put_label(spot, &caller.login, label);
    }
    show(state, 201, spot)
}
