//! Merge requests. A draft is one whose title says so.

use serde_json::json;

use super::{
    DEVELOPER, TEXT_CAP, TITLE_CAP, approvals, at_least, body, issues, not_found, paged, quick_actions, refuse, required, reviews, shape,
    short_enough, spot, text, verdicts, wrong_method,
};
use crate::demo::forge::state::{Pull, Spot, State};
use crate::demo::forge::wire::{Answer, Ask, Caller};

pub(super) fn answer(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    let (iid, path) = match (ask.method.as_str(), path) {
        ("GET", []) => return Some(Ok(list(state, ask, here))),
        ("POST", []) => return Some(open(state, ask, caller, here)),
        (_, []) => return Some(Err(wrong_method(state, ask))),
        (_, [iid, path @ ..]) => (iid, path),
    };
    let spot = match spot(state, here, iid, |issue| issue.pull.is_some()) {
        Ok(spot) => spot,
        Err(refusal) => return Some(Err(refusal)),
    };
    Some(match (ask.method.as_str(), path) {
        ("GET", []) => show(state, 200, spot),
        ("PUT", []) => change(state, ask, caller, spot).and_then(|()| show(state, 200, spot)),
        (_, []) => Err(wrong_method(state, ask)),
        ("GET", ["approvals"]) => Ok(approvals::approvals(state, spot)),
        ("GET", ["versions"]) => Ok(approvals::versions(state, ask, spot)),
        (_, ["approvals" | "versions"]) => Err(wrong_method(state, ask)),
        (_, path) => {
            return verdicts::answer(state, ask, caller, spot, path).or_else(|| issues::below(state, ask, caller, spot, path));
        }
    })
}

/// Reviewers by a wish of their own, all else as of issues.
fn change(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<(), Answer> {
    let body = body(ask)?;
    let Some(ids) = body["reviewer_ids"].as_array() else { return issues::change(state, ask, caller, spot) };
    at_least(state.at(spot).0, caller, DEVELOPER)?;
    reviews::set_reviewers(state, spot, ids);
    Ok(())
}

fn show(state: &State, status: u16, spot: Spot) -> Result<Answer, Answer> {
    let (repository, issue) = state.at(spot);
    let pull = issue.pull.as_ref().ok_or_else(not_found)?;
    Ok(Answer::json(status, &shape::merge_request_row(state, repository, issue, pull)))
}

fn list(state: &State, ask: &Ask, here: usize) -> Answer {
    let repository = &state.repositories[here];
    let has = |name: &str, branch: &str| ask.query(name).is_none_or(|asked| asked == branch);
    let fits = repository.issues.iter().rev().filter(|issue| issues::wanted(ask, issue));
    let fits = fits.filter_map(|issue| Some((issue, issue.pull.as_ref()?)));
    let fits = fits.filter(|(_, pull)| has("source_branch", &pull.head) && has("target_branch", &pull.base));
    paged(state, ask, fits.map(|(issue, pull)| shape::merge_request_row(state, repository, issue, pull)).collect())
}

fn open(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    at_least(repository, caller, DEVELOPER)?;
    let body = body(ask)?;
    let (head, base, title) = (required(&body, "source_branch")?, required(&body, "target_branch")?, required(&body, "title")?);
    short_enough("title", &title, TITLE_CAP)?;
    let words = text(&body, "description")?.unwrap_or_default();
    short_enough("description", &words, TEXT_CAP)?;
    if head == base {
        return Err(refuse(409, json!(["You can't use same project/branch for source and target"])));
    }
    let missing = |field: &str| refuse(400, json!({ field: ["does not exist"] }));
    let head_sha = repository.branch_tip(&head).ok_or_else(|| missing("source_branch"))?;
    repository.branch_tip(&base).ok_or_else(|| missing("target_branch"))?;
    let between = |pull: &Pull| pull.head == head && pull.base == base;
    if let Some(there) = repository.issues.iter().find(|issue| issue.open && issue.pull.as_ref().is_some_and(between)) {
        let words = format!("Another open merge request already exists for this source branch: !{}", there.number);
        return Err(refuse(409, json!([words])));
    }
    let (words, actions) = quick_actions::split(&words);
    let spot = state.open(here, &caller.login, &title, &words, Some(Pull { head, base, draft: false, head_sha, merged_as: None }));
    quick_actions::carry_out(state, spot, &caller.login, actions);
    show(state, 201, spot)
}
