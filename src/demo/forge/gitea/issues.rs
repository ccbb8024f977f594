//! Issues, their comments, labels and history.

use serde_json::{Value, json};

use super::{body, logged_in, not_found, paged, refuse, required, shape, text, unarchived, wanted, writable};
use crate::demo::forge::state::{Label, Spot, State};
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::domain::Permission;

pub(super) fn answer(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", ["labels"]) => Ok(repository_labels(state, ask, here)),
        ("POST", ["labels"]) => make_label(state, ask, caller, here),
        ("GET", ["issues"]) => Ok(list(state, ask, here)),
        ("POST", ["issues"]) => open(state, ask, caller, here),
        ("PATCH", ["issues", "comments", id]) => edit_comment(state, ask, caller, here, id),
        (_, ["issues", number, path @ ..]) => match spot(state, here, number) {
            Ok(spot) => return on_issue(state, ask, caller, spot, path),
            Err(_) if matches!(path, ["comments" | "timeline"]) => Err(refuse(500, "")),
            Err(refusal) => Err(refusal),
        },
        _ => return None,
    })
}

fn on_issue(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", []) => Ok(show(state, 200, spot)),
        ("PATCH", []) => change(state, ask, caller, spot),
        ("GET", ["comments"]) => Ok(comments(state, spot)),
        ("POST", ["comments"]) => comment(state, ask, caller, spot),
        ("GET", ["timeline"]) => Ok(timeline(state, ask, spot)),
        ("GET", ["labels"]) => Ok(labels(state, spot)),
        ("POST", ["labels"]) => add_labels(state, ask, caller, spot),
        ("DELETE", ["labels", id]) => take_label(state, caller, spot, id),
        _ => return None,
    })
}

pub(super) fn spot(state: &State, here: usize, number: &str) -> Result<Spot, Answer> {
    number.parse::<i64>().ok().and_then(|number| state.spot(here, number)).ok_or_else(not_found)
}

fn show(state: &State, status: u16, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    Answer::json(status, &shape::issue(state, repository, issue))
}

fn list(state: &State, ask: &Ask, here: usize) -> Answer {
    let repository = &state.repositories[here];
    let names: Vec<&str> = ask.query("labels").into_iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty()).collect();
    let fits = repository.issues.iter().rev().filter(|issue| {
        let of_type = match ask.query("type") {
            Some("issues") => issue.pull.is_none(),
            Some("pulls") => issue.pull.is_some(),
            _ => true,
        };
        of_type && !issue.gone && wanted(ask, issue.open) && names.iter().all(|name| issue.labels.iter().any(|label| label.name == *name))
    });
    paged(state, ask, fits.map(|issue| shape::issue(state, repository, issue)).collect())
}

fn open(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    unarchived(&state.repositories[here])?;
    let body = body(ask)?;
    let (title, words) = (required(&body, "title")?, text(&body, "body")?.unwrap_or_default());
    let spot = state.open(here, &caller.login, &title, &words, None);
    Ok(show(state, 201, spot))
}

/// The answer to an edited issue has status 201.
pub(super) fn change(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    may_change(state, caller, spot)?;
    let body = body(ask)?;
    let (title, words, wish) = (text(&body, "title")?, text(&body, "body")?, text(&body, "state")?);
    state.edit(spot, &caller.login, title.as_deref().filter(|title| !title.is_empty()), words.as_deref());
    match wish.as_deref() {
        Some("open") => state.set_open(spot, &caller.login, true),
        Some("closed") => state.set_open(spot, &caller.login, false),
        Some(other) => return Err(refuse(422, &format!("unknown state: {other}"))),
        None => {}
    }
    Ok(show(state, 201, spot))
}

/// The author and those with write access may change an issue.
fn may_change(state: &State, caller: &Caller, spot: Spot) -> Result<(), Answer> {
    let (repository, issue) = state.at(spot);
    if issue.author != caller.login && repository.permission(&caller.login) < Permission::Write {
        return Err(refuse(403, "user should have a permission to write to a repo"));
    }
    unarchived(repository)
}

fn comments(state: &State, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    Answer::json(200, &issue.comments.iter().map(|comment| shape::comment(state, repository, issue, comment)).collect())
}

fn comment(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    logged_in(caller)?;
    unarchived(state.at(spot).0)?;
    let words = required(&body(ask)?, "body")?;
    let comment = state.comment(spot, &caller.login, &words);
    let (repository, issue) = state.at(spot);
    Ok(Answer::json(201, &shape::comment(state, repository, issue, &comment)))
}

fn edit_comment(state: &mut State, ask: &Ask, caller: &Caller, here: usize, id: &str) -> Result<Answer, Answer> {
    let id: u64 = id.parse().map_err(|_| not_found())?;
    let spot = state.comment_spot(here, id).ok_or_else(not_found)?;
    let (repository, issue) = state.at(spot);
    let is_author = issue.comments.iter().any(|comment| comment.id == id && comment.author == caller.login);
    if !is_author && repository.permission(&caller.login) < Permission::Write {
        return Err(refuse(403, "user is not the poster of the comment"));
    }
    unarchived(repository)?;
    let words = required(&body(ask)?, "body")?;
    let comment = state.edit_comment(spot, &caller.login, id, &words).ok_or_else(not_found)?;
    let (repository, issue) = state.at(spot);
    Ok(Answer::json(200, &shape::comment(state, repository, issue, &comment)))
}

/// A page without entries is `null`, not an empty list.
fn timeline(state: &State, ask: &Ask, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    let page = paged(state, ask, issue.timeline.iter().map(|act| shape::act(state, repository, issue, act)).collect());
    if page.body == b"[]" { Answer { body: b"null\n".to_vec(), ..page } } else { page }
}

fn labels(state: &State, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    Answer::json(200, &shape::labels(state, repository, issue))
}

fn repository_labels(state: &State, ask: &Ask, here: usize) -> Answer {
    let repository = &state.repositories[here];
    paged(state, ask, repository.labels.iter().map(|label| shape::label(state, repository, label)).collect())
}

fn make_label(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    writable(&state.repositories[here], caller)?;
    let body = body(ask)?;
    let (name, color) = (required(&body, "name")?, required(&body, "color")?);
    let digits = color.trim_start_matches('#');
    if !matches!(digits.len(), 3 | 6) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(refuse(422, &format!("bad color code: {color}")));
    }
    let description = text(&body, "description")?.unwrap_or_default();
    let label = state.make_label(here, name.trim(), &color, &description);
    Ok(Answer::json(201, &shape::label(state, &state.repositories[here], &label)))
}

/// Takes ids or names. Unknown ones are dropped without a word, both kinds together are refused.
fn add_labels(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    writable(state.at(spot).0, caller)?;
    let body = body(ask)?;
    let entries = body.get("labels").and_then(Value::as_array).cloned().unwrap_or_default();
    if !entries.iter().all(Value::is_u64) && !entries.iter().all(Value::is_string) {
        return Err(refuse(400, "labels must be all integers or all strings"));
    }
    let repository = state.at(spot).0;
    let is_meant = |label: &&Label| entries.contains(&json!(label.id)) || entries.contains(&json!(label.name));
    let meant: Vec<Label> = state.labels_of(repository).filter(is_meant).cloned().collect();
    for label in meant {
        state.put_label(spot, &caller.login, label);
    }
    Ok(labels(state, spot))
}

fn take_label(state: &mut State, caller: &Caller, spot: Spot, id: &str) -> Result<Answer, Answer> {
    let repository = state.at(spot).0;
    writable(repository, caller)?;
    let id: u64 = id.parse().map_err(|_| not_found())?;
    if !state.labels_of(repository).any(|label| label.id == id) {
        return Err(refuse(422, &format!("label does not exist [label_id: {id}]")));
    }
    state.take_label(spot, &caller.login, id);
    Ok(Answer::empty(204))
}
