//! Repositories, collaborators and webhooks, as people set them up.

use serde_json::{Value, json};

use super::{body, logged_in, not_found, refuse, required, shape};
use crate::demo::forge::state::State;
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::domain::Permission;

pub(super) fn make_repository(state: &mut State, ask: &Ask, caller: &Caller) -> Result<Answer, Answer> {
    logged_in(caller)?;
    let name = required(&body(ask)?, "name")?;
    let taken = || refuse(409, "The repository with the same name already exists.");
    let here = state.make_repository(&caller.login, &name).ok_or_else(taken)?;
    Ok(Answer::json(201, &shape::repository(state, &state.repositories[here], &caller.login)))
}

pub(super) fn let_in(state: &mut State, ask: &Ask, caller: &Caller, here: usize, login: &str) -> Result<Answer, Answer> {
    administers(state, caller, here)?;
    let login = state.user(login).ok_or_else(not_found)?.login.clone();
    let permission = match body(ask)?["permission"].as_str() {
        Some("admin") => Permission::Admin,
        Some("read") => Permission::Read,
        _ => Permission::Write,
    };
    state.let_in(here, &login, permission);
    Ok(Answer::empty(204))
}

pub(super) fn make_hook(state: &mut State, ask: &Ask, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    administers(state, caller, here)?;
    let body = body(ask)?;
    let kind = required(&body, "type")?;
    if !matches!(kind.as_str(), "gitea" | "forgejo") {
        return Err(refuse(422, &format!("Invalid hook type: {kind}")));
    }
    let config = &body["config"];
    let url = config["url"].as_str().ok_or_else(|| refuse(422, "Missing config option: url"))?.to_owned();
    if config["content_type"] != "json" {
        return Err(refuse(422, "Invalid content type"));
    }
    let id = state.make_hook(here, &url, config["secret"].as_str().unwrap_or_default());
    Ok(Answer::json(201, &json!({ "id": id, "type": kind, "active": body["active"] == Value::Bool(true), "events": body["events"] })))
}

pub(super) fn administers(state: &State, caller: &Caller, here: usize) -> Result<(), Answer> {
    logged_in(caller)?;
    let may = state.repositories[here].permission(&caller.login) == Permission::Admin;
    if may { Ok(()) } else { Err(refuse(403, "user should be an owner or a collaborator with admin write of a repository")) }
}
