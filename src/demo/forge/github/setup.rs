//! Repositories, collaborators and webhooks, as people set them up. Who is invited must accept.

use serde_json::json;

use super::{body, invalid_field, logged_in, not_found, required, shape};
use crate::demo::forge::state::State;
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::domain::Permission;

pub(super) fn make_repository(state: &mut State, ask: &Ask, caller: &Caller) -> Result<Answer, Answer> {
    logged_in(caller)?;
    let name = required(&body(ask)?, "Repository", "name")?;
    let here = state.make_repository(&caller.login, &name).ok_or_else(|| invalid_field("Repository", "name", "already_exists"))?;
    Ok(Answer::json(201, &shape::repository(state, &state.repositories[here], &caller.login)))
}

pub(super) fn invite(state: &mut State, ask: &Ask, caller: &Caller, here: usize, login: &str) -> Result<Answer, Answer> {
    administers(state, caller, here)?;
    let login = state.user(login).ok_or_else(not_found)?.login.clone();
    let permission = match body(ask)?["permission"].as_str() {
        Some("admin") => Permission::Admin,
        Some("pull" | "triage") => Permission::Read,
        _ => Permission::Write,
    };
    let id = state.next_id();
    state.invitations.push((id, here, login, permission));
    Ok(Answer::json(201, &json!({ "id": id, "repository": shape::repository(state, &state.repositories[here], "") })))
}

pub(super) fn accept(state: &mut State, caller: &Caller, id: &str) -> Result<Answer, Answer> {
    let mine = |(number, _, login, _): &(u64, usize, String, Permission)| number.to_string() == id && *login == caller.login;
    let position = state.invitations.iter().position(mine).ok_or_else(not_found)?;
    let (_, here, login, permission) = state.invitations.remove(position);
    state.let_in(here, &login, permission);
    Ok(Answer::empty(204))
}

pub(super) fn make_hook(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    administers(state, caller, here)?;
    let body = body(ask)?;
    let config = &body["config"];
    let url = config["url"].as_str().ok_or_else(|| invalid_field("Hook", "url", "missing_field"))?.to_owned();
    let id = state.make_hook(here, &url, config["secret"].as_str().unwrap_or_default());
    Ok(Answer::json(201, &json!({ "id": id, "type": "Repository", "name": "web", "active": body["active"], "events": body["events"] })))
}

fn administers(state: &State, caller: &Caller, here: usize) -> Result<(), Answer> {
    logged_in(caller)?;
    if state.repositories[here].permission(&caller.login) == Permission::Admin { Ok(()) } else { Err(not_found()) }
}
