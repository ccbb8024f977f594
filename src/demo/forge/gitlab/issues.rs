//! Issues, and what issues and merge requests have in common: notes, labels and their history.

use serde_json::{Value, json};

use super::{
    MAINTAINER, OWNER, REPORTER, TEXT_CAP, TITLE_CAP, approvals, at_least, body, forbidden, level, logged_in, not_found, paged,
    quick_actions, refuse, required, seen, shape, short_enough, spot, text, wrong_method,
};
use crate::demo::forge::state::{Issue, Spot, State};
use crate::demo::forge::wire::{Answer, Ask, Caller};

pub(super) fn answer(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    let (iid, path) = match (ask.method.as_str(), path) {
        ("GET", []) => return Some(Ok(list(state, ask, caller, here))),
        ("POST", []) => return Some(open(state, ask, caller, here)),
        (_, []) => return Some(Err(wrong_method(state, ask))),
        (_, [iid, path @ ..]) => (iid, path),
    };
    let found = spot(state, here, iid, |issue| issue.pull.is_none());
    let spot = match found.and_then(|spot| if may_see(state, caller, spot) { Ok(spot) } else { Err(not_found()) }) {
        Ok(spot) => spot,
        Err(refusal) => return Some(Err(refusal)),
    };
    Some(match (ask.method.as_str(), path) {
        ("GET", []) => Ok(show(state, 200, spot)),
        ("PUT", []) => change(state, ask, caller, spot).map(|()| show(state, 200, spot)),
        ("DELETE", []) => delete(state, caller, spot),
        ("POST", ["move"]) => move_away(state, ask, caller, spot),
        (_, [] | ["move"]) => Err(wrong_method(state, ask)),
        (_, path) => return below(state, ask, caller, spot, path),
    })
}

/// Confidential issues are for members from Reporter up, and for who wrote them.
fn may_see(state: &State, caller: &Caller, spot: Spot) -> bool {
    let (repository, issue) = state.at(spot);
    !issue.confidential || issue.author == caller.login || level(repository, &caller.login) >= REPORTER
}

/// What is below an issue as below a merge request.
pub(super) fn below(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", ["notes"]) => Ok(notes(state, ask, spot)),
        ("POST", ["notes"]) => write_note(state, ask, caller, spot),
        ("PUT", ["notes", id]) => edit_note(state, ask, caller, spot, id),
        ("GET", ["resource_label_events"]) => Ok(label_events(state, ask, spot)),
        (_, ["notes"] | ["notes", _] | ["resource_label_events"]) => Err(wrong_method(state, ask)),
        _ => return None,
    })
}

fn show(state: &State, status: u16, spot: Spot) -> Answer {
    let (repository, issue) = state.at(spot);
    Answer::json(status, &shape::issue_row(state, repository, issue))
}

/// Which of a list are wanted: all unless told otherwise.
pub(super) fn wanted(ask: &Ask, issue: &Issue) -> bool {
    let in_state = match ask.query("state") {
        Some("opened") => issue.open,
        Some("closed") => !issue.open,
        _ => true,
    };
    let mut names = ask.query("labels").into_iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty());
    in_state && names.all(|name| issue.labels.iter().any(|label| label.name == name))
}

fn list(state: &State, ask: &Ask, caller: &Caller, here: usize) -> Answer {
    let repository = &state.repositories[here];
    let hidden = |position: usize| !may_see(state, caller, Spot { repository: here, issue: position });
    let confidential = ask.query("confidential").map(|asked| asked == "true");
    let fits = repository.issues.iter().enumerate().rev().filter(|(position, issue)| {
        issue.pull.is_none()
            && !issue.gone
            && !hidden(*position)
            && confidential.is_none_or(|asked| asked == issue.confidential)
            && wanted(ask, issue)
    });
    paged(state, ask, fits.map(|(_, issue)| shape::issue_row(state, repository, issue)).collect())
}

/// Anybody who sees the project may; who is a member may label as well.
fn open(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    logged_in(caller)?;
    if state.repositories[here].archived {
        return Err(forbidden());
    }
    let body = body(ask)?;
    let title = required(&body, "title")?;
    short_enough("title", &title, TITLE_CAP)?;
    let words = text(&body, "description")?.unwrap_or_default();
    short_enough("description", &words, TEXT_CAP)?;
    let names = text(&body, "labels")?.filter(|_| level(&state.repositories[here], &caller.login) > 0).unwrap_or_default();
    let labels = listed(&names).map(|name| state.label_or_make(here, name)).collect();
    let (words, actions) = quick_actions::split(&words);
    let spot = state.open_labelled(here, &caller.login, &title, &words, labels);
    quick_actions::carry_out(state, spot, &caller.login, actions);
    Ok(show(state, 201, spot))
}

/// The names of a comma-separated list.
fn listed(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Changes an issue or a merge request: the author its words, members from Reporter up all of it.
pub(super) fn change(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<(), Answer> {
    logged_in(caller)?;
    let (repository, issue) = state.at(spot);
    let is_member = level(repository, &caller.login) >= REPORTER;
    if (!is_member && issue.author != caller.login) || repository.archived {
        return Err(forbidden());
    }
    let body = body(ask)?;
    let field = |name: &str| text(&body, name);
    let (title, words, event) = (field("title")?, field("description")?, field("state_event")?);
    let (add, remove, lock) = (field("add_labels")?, field("remove_labels")?, body["discussion_locked"].as_bool());
    if lock.is_none() && [&title, &words, &event, &add, &remove].iter().all(|field| field.is_none()) {
        return Err(Answer::json(
            400,
            &json!({ "error": "title, description, state_event, add_labels, ... are missing, at least one must be provided" }),
        ));
    }
    short_enough("title", title.as_deref().unwrap_or_default(), TITLE_CAP)?;
    short_enough("description", words.as_deref().unwrap_or_default(), TEXT_CAP)?;
    let open = match event.as_deref() {
        None => None,
        Some("close") => Some(false),
        Some("reopen") => Some(true),
        Some(_) => return Err(Answer::json(400, &json!({ "error": "state_event does not have a valid value" }))),
    };
    let (words, actions) = words.map(|words| quick_actions::split(&words)).unzip();
    quick_actions::carry_out(state, spot, &caller.login, actions.unwrap_or_default());
    state.edit(spot, &caller.login, title.as_deref(), words.as_deref());
    if is_member {
        for name in listed(&add.unwrap_or_default()) {
            let label = state.label_or_make(spot.repository, name);
            state.put_label(spot, &caller.login, label);
        }
        for name in listed(&remove.unwrap_or_default()) {
            let id = state.at(spot).1.labels.iter().find(|label| label.name == name).map(|label| label.id);
            if let Some(id) = id {
                state.take_label(spot, &caller.login, id);
            }
        }
    }
    if let Some(open) = open {
        state.set_open(spot, &caller.login, open);
    }
    match lock.filter(|_| is_member) {
        Some(true) => state.lock(spot, &caller.login),
        Some(false) => state.issue_mut(spot).locked = false,
        None => {}
    }
    Ok(())
}

/// Only who owns the project may.
fn delete(state: &mut State, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    at_least(state.at(spot).0, caller, OWNER)?;
    state.take_away(spot, &caller.login, "deleted");
    Ok(Answer::empty(204))
}

/// Members from Reporter up on both sides may. The issue that was moved stays, closed, and names the one that took its place.
fn move_away(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    at_least(state.at(spot).0, caller, REPORTER)?;
    let missing = || Answer::json(400, &json!({ "error": "to_project_id is missing" }));
    let id = body(ask)?["to_project_id"].as_u64().ok_or_else(missing)?;
    let there = seen(state, caller, &id.to_string())?;
    let refused = |_| refuse(400, "Cannot move issue due to insufficient permissions!");
    at_least(&state.repositories[there], caller, REPORTER).map_err(refused)?;
    if there == spot.repository {
        return Err(refuse(400, "Cannot move issue to project it originates from!"));
    }
    let Issue { title, body, author, .. } = state.at(spot).1.clone();
    let new = state.open(there, &author, &title, &body, None);
    let id = state.at(new).1.id;
    state.move_away(spot, &caller.login, id);
    Ok(show(state, 201, new))
}

/// Newest first unless told otherwise, what GitLab itself noted down among them.
fn notes(state: &State, ask: &Ask, spot: Spot) -> Answer {
    let (_, issue) = state.at(spot);
    let mut rows: Vec<Value> = issue.timeline.iter().filter_map(|act| shape::note_of_act(state, issue, act)).collect();
    rows.extend(approvals::notes(state, issue));
    if ask.query("sort") != Some("asc") {
        rows.reverse();
    }
    paged(state, ask, rows)
}

fn note_text(ask: &Ask) -> Result<String, Answer> {
    let words = required(&body(ask)?, "body")?;
    short_enough("note", &words, TEXT_CAP)?;
    Ok(words)
}

/// A note of nothing but quick actions is not written.
fn write_note(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    logged_in(caller)?;
    if state.at(spot).0.archived {
        return Err(forbidden());
    }
    let (words, actions) = quick_actions::split(&note_text(ask)?);
    quick_actions::carry_out(state, spot, &caller.login, actions);
    if words.trim().is_empty() {
        return Ok(Answer::json(202, &json!({ "commands_changes": {}, "summary": ["Applied"] })));
    }
    let comment = state.comment(spot, &caller.login, &words);
    Ok(Answer::json(201, &shape::note(state, state.at(spot).1, &comment)))
}

/// Who wrote it may change it, and maintainers.
fn edit_note(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot, id: &str) -> Result<Answer, Answer> {
    let (repository, issue) = state.at(spot);
    let id: u64 = id.parse().map_err(|_| not_found())?;
    let author = &issue.comments.iter().find(|comment| comment.id == id).ok_or_else(|| refuse(404, "404 Note Not Found"))?.author;
    if *author != caller.login {
        at_least(repository, caller, MAINTAINER)?;
    } else if repository.archived {
        return Err(forbidden());
    }
    let words = note_text(ask)?;
    let comment = state.edit_comment(spot, &caller.login, id, &words).ok_or_else(not_found)?;
    Ok(Answer::json(200, &shape::note(state, state.at(spot).1, &comment)))
}

fn label_events(state: &State, ask: &Ask, spot: Spot) -> Answer {
    let (_, issue) = state.at(spot);
    paged(state, ask, issue.timeline.iter().filter_map(|act| shape::label_event(state, issue, act)).collect())
}
