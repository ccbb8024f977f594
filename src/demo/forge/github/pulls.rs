//! Pull requests.

use serde_json::{Value, json};

use super::{
    body, demand, invalid, invalid_field, issues, not_found, paged, refuse, required, shape, short_enough, text, wanted, writable,
};
use crate::demo::forge::requests;
use crate::demo::forge::state::{Pull, Repository, Spot, State};
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::demo::git_backend;

pub(super) fn answer(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    if let Err(refusal) = demand(caller, "pull_requests", ask.method != "GET") {
        return Some(Err(refusal));
    }
    Some(match (ask.method.as_str(), path) {
        ("GET", []) => Ok(list(state, ask, here)),
        ("POST", []) => open(state, ask, caller, here),
        ("GET", [number]) => spot(state, here, number).and_then(|spot| show(state, 200, spot)),
        ("PATCH", [number]) => {
            spot(state, here, number).and_then(|spot| issues::change(state, ask, caller, spot).and_then(|()| show(state, 200, spot)))
        }
        ("POST", [number, "requested_reviewers"]) => spot(state, here, number).and_then(|spot| {
            requests::ask_for_review(state, ask, spot).map_err(|why| refuse(422, &why))?;
            show(state, 201, spot)
        }),
        ("GET", [number, "reviews"]) => spot(state, here, number).map(|spot| reviews(state, ask, spot)),
        ("GET", [number, "reviews", id, "comments"]) => spot(state, here, number).and_then(|spot| remarks(state, ask, spot, id)),
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

/// The filter `head` counts only as `owner:branch`; without the owner it is ignored, as GitHub does.
fn list(state: &State, ask: &Ask, here: usize) -> Answer {
    let repository = &state.repositories[here];
    let head = ask.query("head").and_then(|head| head.split_once(':'));
    let has_head = |pull: &Pull| head.is_none_or(|(owner, branch)| owner.eq_ignore_ascii_case(repository.owner()) && pull.head == branch);
    let has_base = |pull: &Pull| ask.query("base").is_none_or(|base| pull.base == base);
    let fits =
        repository.issues.iter().rev().filter(|issue| wanted(ask, issue.open)).filter_map(|issue| Some((issue, issue.pull.as_ref()?)));
    let fits = fits.filter(|(_, pull)| has_head(pull) && has_base(pull));
    paged(state, ask, fits.map(|(issue, pull)| shape::pull(state, repository, issue, pull)).collect())
}

fn open(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    writable(repository, caller)?;
    let body = body(ask)?;
    let (title, head) = (required(&body, "PullRequest", "title")?, required(&body, "PullRequest", "head")?);
    let base = required(&body, "PullRequest", "base")?;
    let words = text(&body, "body")?.unwrap_or_default();
    short_enough("PullRequest", Some(&title), Some(&words))?;
    let head = own_branch(repository, &head)?;
    let draft = body.get("draft").and_then(Value::as_bool).unwrap_or(false);
    let head_sha = acceptable(repository, &base, &head)?;
    if draft && !state.knobs.drafts_supported {
        return Err(refuse(422, "Draft pull requests are not supported in this repository."));
    }
    let spot = state.open(here, &caller.login, &title, &words, Some(Pull { head, base, draft, head_sha, merged_as: None }));
    show(state, 201, spot)
}

/// The branch without `owner:`; branches of other owners are not there.
fn own_branch(repository: &Repository, head: &str) -> Result<String, Answer> {
    match head.split_once(':') {
        Some((owner, branch)) if owner.eq_ignore_ascii_case(repository.owner()) => Ok(branch.to_owned()),
        Some(_) => Err(invalid_field("PullRequest", "head", "invalid")),
        None => Ok(head.to_owned()),
    }
}

/// Whether a pull request can be opened between these branches; the commit at the head if so.
fn acceptable(repository: &Repository, base: &str, head: &str) -> Result<String, Answer> {
    let custom = |message: String| invalid(&json!({ "resource": "PullRequest", "code": "custom", "message": message }));
    let base_sha = repository.branch_tip(base).ok_or_else(|| invalid_field("PullRequest", "base", "invalid"))?;
    let head_sha = repository.branch_tip(head).ok_or_else(|| invalid_field("PullRequest", "head", "invalid"))?;
    if git_backend::commits_ahead(&repository.git_dir, &base_sha, &head_sha) == Some(0) {
        return Err(custom(format!("No commits between {base} and {head}")));
    }
    let is_open_from_head = |pull: &Pull| pull.head == head;
    if repository.issues.iter().any(|issue| issue.open && issue.pull.as_ref().is_some_and(is_open_from_head)) {
        return Err(custom(format!("A pull request already exists for {}:{head}.", repository.owner())));
    }
    Ok(head_sha)
}
