//! Issues, their comments, labels and events.

use serde_json::Value;

use super::{body, demand, invalid_field, not_found, paged, refuse, required, shape, short_enough, text, unarchived, wanted, writable};
use crate::demo::forge::state::{Issue, Spot, State};
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::domain::Permission;

pub(super) fn answer(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    let answer = match (ask.method.as_str(), path) {
        ("GET", ["labels"]) => repository_labels(state, ask, here),
        ("POST", ["labels"]) => make_label(state, ask, caller, here),
        ("GET", ["labels", name]) => one_label(state, here, name),
        ("GET", ["issues"]) => list(state, ask, here),
        ("POST", ["issues"]) => open(state, ask, caller, here),
        ("PATCH", ["issues", "comments", id]) => edit_comment(state, ask, caller, here, id),
        (_, ["issues", number, path @ ..]) => match spot(state, here, number) {
            Ok(spot) => on_issue(state, ask, caller, spot, path)?,
            Err(refusal) => Err(refusal),
        },
        _ => return None,
    };
    Some(if ask.method == "GET" { demand(caller, "issues", false).and(answer) } else { answer })
}

fn on_issue(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", []) => Ok(show(state, 200, spot)),
        ("PATCH", []) => change(state, ask, caller, spot).map(|()| show(state, 200, spot)),
        ("GET", ["comments"]) => Ok(comments(state, ask, spot)),
        ("POST", ["comments"]) => comment(state, ask, caller, spot),
        ("GET", ["events"]) => Ok(events(state, ask, spot)),
        ("GET", ["labels"]) => Ok(labels(state, spot)),
        ("POST", ["labels"]) => add_labels(state, ask, caller, spot),
        ("DELETE", ["labels", name]) => take_label(state, caller, spot, name),
        _ => return None,
    })
}

pub(super) fn spot(state: &State, here: usize, number: &str) -> Result<Spot, Answer> {
    number.parse::<i64>().ok().and_then(|number| state.spot(here, number)).ok_or_else(not_found)
}

/// Issues and pull requests have permissions of their own.
fn demand_write(caller: &Caller, issue: &Issue) -> Result<(), Answer> {
    demand(caller, if issue.pull.is_some() { "pull_requests" } else { "issues" }, true)
}

fn show(state: &State, status: u16, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    Answer::json(status, &shape::issue(state, repository, issue))
}

fn list(state: &State, ask: &Ask, here: usize) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    let names: Vec<&str> = ask.query("labels").into_iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty()).collect();
    let has = |issue: &Issue, name: &str| issue.labels.iter().any(|label| label.name.eq_ignore_ascii_case(name));
    let fits =
        repository.issues.iter().rev().filter(|issue| !issue.gone && wanted(ask, issue.open) && names.iter().all(|name| has(issue, name)));
    Ok(paged(state, ask, fits.map(|issue| shape::issue(state, repository, issue)).collect()))
}

fn open(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    demand(caller, "issues", true)?;
    unarchived(&state.repositories[here])?;
    let body = body(ask)?;
    let (title, words) = (required(&body, "Issue", "title")?, text(&body, "body")?.unwrap_or_default());
    short_enough("Issue", Some(&title), Some(&words))?;
    let spot = state.open(here, &caller.login, &title, &words, None);
    Ok(show(state, 201, spot))
}

/// The author and those with write access may change an issue.
pub(super) fn change(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<(), Answer> {
    let (repository, issue) = state.at(spot);
    demand_write(caller, issue)?;
    if issue.author != caller.login && repository.permission(&caller.login) < Permission::Write {
        return Err(refuse(403, "Must have admin rights to Repository."));
    }
    unarchived(repository)?;
    let body = body(ask)?;
    let (title, words, wish) = (text(&body, "title")?, text(&body, "body")?, text(&body, "state")?);
    let open = match wish.as_deref() {
        None => None,
        Some("open") => Some(true),
        Some("closed") => Some(false),
        Some(_) => return Err(invalid_field("Issue", "state", "invalid")),
    };
    short_enough("Issue", title.as_deref(), words.as_deref())?;
    state.edit(spot, &caller.login, title.as_deref(), words.as_deref());
    if let Some(open) = open {
        state.set_open(spot, &caller.login, open);
    }
    Ok(())
}

fn comments(state: &State, ask: &Ask, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    paged(state, ask, issue.comments.iter().map(|comment| shape::comment(state, repository, issue, comment)).collect())
}

fn comment_text(ask: &Ask) -> Result<String, Answer> {
    let words = required(&body(ask)?, "IssueComment", "body")?;
    short_enough("IssueComment", None, Some(&words))?;
    Ok(words)
}

fn comment(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    demand_write(caller, state.at(spot).1)?;
    unarchived(state.at(spot).0)?;
    let words = comment_text(ask)?;
    let comment = state.comment(spot, &caller.login, &words);
    let (repository, issue) = state.at(spot);
    Ok(Answer::json(201, &shape::comment(state, repository, issue, &comment)))
}

fn edit_comment(state: &mut State, ask: &Ask, caller: &Caller, here: usize, id: &str) -> Result<Answer, Answer> {
    let id: u64 = id.parse().map_err(|_| not_found())?;
    let spot = state.comment_spot(here, id).ok_or_else(not_found)?;
    let (repository, issue) = state.at(spot);
    demand_write(caller, issue)?;
    let is_author = issue.comments.iter().any(|comment| comment.id == id && comment.author == caller.login);
    if !is_author && repository.permission(&caller.login) < Permission::Write {
        return Err(refuse(403, "Must have admin rights to Repository."));
    }
    unarchived(repository)?;
    let words = comment_text(ask)?;
    let comment = state.edit_comment(spot, &caller.login, id, &words).ok_or_else(not_found)?;
    let (repository, issue) = state.at(spot);
    Ok(Answer::json(200, &shape::comment(state, repository, issue, &comment)))
}

fn events(state: &State, ask: &Ask, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    paged(state, ask, issue.timeline.iter().filter_map(|act| shape::event(state, repository, act)).collect())
}

fn labels(state: &State, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    Answer::json(200, &shape::labels(state, repository, issue))
}

fn repository_labels(state: &State, ask: &Ask, here: usize) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    Ok(paged(state, ask, repository.labels.iter().map(|label| shape::label(state, repository, label)).collect()))
}

fn one_label(state: &State, here: usize, name: &str) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    let label = repository.labels.iter().find(|label| label.name.eq_ignore_ascii_case(name)).ok_or_else(not_found)?;
    Ok(Answer::json(200, &shape::label(state, repository, label)))
}

fn make_label(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    demand(caller, "issues", true)?;
    writable(&state.repositories[here], caller)?;
    let body = body(ask)?;
    let name = required(&body, "Label", "name")?;
    if name.chars().count() > 50 {
        return Err(invalid_field("Label", "name", "invalid"));
    }
    let color = text(&body, "color")?.unwrap_or_else(|| "ededed".to_owned());
    if color.len() != 6 || !color.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(invalid_field("Label", "color", "invalid"));
    }
    if state.repositories[here].labels.iter().any(|label| label.name.eq_ignore_ascii_case(&name)) {
        return Err(invalid_field("Label", "name", "already_exists"));
    }
    let description = text(&body, "description")?.unwrap_or_default();
    if description.chars().count() > 100 {
        return Err(invalid_field("Label", "description", "invalid"));
    }
    let label = state.make_label(here, &name, &color, &description);
    Ok(Answer::json(201, &shape::label(state, &state.repositories[here], &label)))
}

/// Takes names. Unknown ones are made, grey and without a description.
fn add_labels(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    let (repository, issue) = state.at(spot);
    demand_write(caller, issue)?;
    writable(repository, caller)?;
    let body = body(ask)?;
    let names: Option<Vec<&str>> = body.get("labels").and_then(Value::as_array).and_then(|names| names.iter().map(Value::as_str).collect());
    let names = names.ok_or_else(|| refuse(422, "Invalid request.\n\nNo subschema in \"anyOf\" matched: labels must be names."))?;
    for name in names {
        let known = state.label_named(state.at(spot).0, name).cloned();
        let label = known.unwrap_or_else(|| state.make_label(spot.repository, name, "ededed", ""));
        state.put_label(spot, &caller.login, label);
    }
    Ok(labels(state, spot))
}

fn take_label(state: &mut State, caller: &Caller, spot: Spot, name: &str) -> Result<Answer, Answer> {
    let (repository, issue) = state.at(spot);
    demand_write(caller, issue)?;
    writable(repository, caller)?;
    let id = issue.labels.iter().find(|label| label.name.eq_ignore_ascii_case(name)).map(|label| label.id);
    let id = id.ok_or_else(|| refuse(404, "Label does not exist"))?;
    state.take_label(spot, &caller.login, id);
    Ok(labels(state, spot))
}
