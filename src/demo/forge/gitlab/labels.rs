//! Labels of a project.

use super::{REPORTER, TITLE_CAP, at_least, body, paged, refuse, required, shape, short_enough, text, wrong_method};
use crate::demo::forge::state::State;
use crate::demo::forge::wire::{Answer, Ask, Caller};

pub(super) fn answer(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", ["labels"]) => {
            let repository = &state.repositories[here];
            let words = ask.query("search").unwrap_or_default().to_lowercase();
            let found = state.labels_of(repository).filter(|label| label.name.to_lowercase().contains(&words));
            Ok(paged(state, ask, found.map(shape::label_row).collect()))
        }
        ("POST", ["labels"]) => make(state, ask, caller, here),
        ("GET", ["labels", wanted]) => one(state, here, wanted),
        (_, ["labels"] | ["labels", _]) => Err(wrong_method(state, ask)),
        _ => return None,
    })
}

/// By number or by name; names are told apart by case.
fn one(state: &State, here: usize, wanted: &str) -> Result<Answer, Answer> {
    let mut labels = state.labels_of(&state.repositories[here]);
    let label = labels.find(|label| label.name == wanted || label.id.to_string() == wanted);
    label.map(|label| Answer::json(200, &shape::label_row(label))).ok_or_else(|| refuse(404, "404 Label Not Found"))
}

fn make(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    at_least(&state.repositories[here], caller, REPORTER)?;
    let body = body(ask)?;
    let (name, color) = (required(&body, "name")?, required(&body, "color")?);
    let is_color = color.strip_prefix('#').is_some_and(|digits| digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    if !is_color {
        return Err(refuse(400, serde_json::json!({ "color": ["must be a valid color code"] })));
    }
    short_enough("title", &name, TITLE_CAP)?;
    if name.contains(',') {
        return Err(refuse(400, serde_json::json!({ "title": ["is invalid"] })));
    }
    if state.labels_of(&state.repositories[here]).any(|label| label.name == name) {
        return Err(refuse(409, "Label already exists"));
    }
    let description = text(&body, "description")?.unwrap_or_default();
    let label = state.make_label(here, &name, &color, &description);
    Ok(Answer::json(201, &shape::label_row(&label)))
}
