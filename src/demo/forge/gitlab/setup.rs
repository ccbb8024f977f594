//! Projects, members and webhooks, as people set them up.

use serde_json::json;

use super::{DEVELOPER, MAINTAINER, at_least, body, logged_in, not_found, refuse, required, shape, text};
use crate::demo::forge::state::State;
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::domain::Permission;

pub(super) fn make_project(state: &mut State, ask: &Ask, caller: &Caller) -> Result<Answer, Answer> {
    logged_in(caller)?;
    let name = required(&body(ask)?, "name")?;
    let taken = || refuse(400, json!({ "path": ["has already been taken"] }));
    let here = state.make_repository(&caller.login, &name).ok_or_else(taken)?;
    Ok(Answer::json(201, &shape::project_row(state, &state.repositories[here], &caller.login)))
}

pub(super) fn let_in(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    at_least(&state.repositories[here], caller, MAINTAINER)?;
    let body = body(ask)?;
    let missing = |name: &str| Answer::json(400, &json!({ "error": format!("{name} is missing") }));
    let id = body["user_id"].as_u64().ok_or_else(|| missing("user_id"))?;
    let level = body["access_level"].as_i64().ok_or_else(|| missing("access_level"))?;
    let login = state.users.iter().find(|user| user.id == id).ok_or_else(not_found)?.login.clone();
    let permission = match level {
        MAINTAINER.. => Permission::Admin,
        DEVELOPER.. => Permission::Write,
        _ => Permission::Read,
    };
    state.let_in(here, &login, permission);
    Ok(Answer::json(201, &shape::member(state, &login, level)))
}

/// A hook is told of what it asked for alone; nothing but pushes unless it says so.
pub(super) fn make_hook(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    at_least(&state.repositories[here], caller, MAINTAINER)?;
    let body = body(ask)?;
    let (url, secret) = (required(&body, "url")?, text(&body, "token")?.unwrap_or_default());
    if body["issues_events"] != true || body["note_events"] != true || body["merge_requests_events"] != true {
        return Err(refuse(422, "the demonstration forge has no hooks for some events alone"));
    }
    let id = state.make_hook(here, &url, &secret);
    Ok(Answer::json(201, &json!({ "id": id, "url": url, "project_id": state.repositories[here].id, "alert_status": "executable" })))
}
