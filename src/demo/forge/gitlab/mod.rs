//! GitLab's API under `/api/v4`, as far as the service and its stories need it (forges.md, section 3.3). Statuses and errors are GitLab's.
//!
//! Projects go by number or by path, issues and merge requests are numbered apart, and who may do what goes by access levels.

mod above;
mod approvals;
pub(super) mod hooks;
mod issues;
mod labels;
mod merge_requests;
mod projects;
mod quick_actions;
mod reviews;
mod setup;
pub(super) mod shape;
pub(super) mod verdicts;

use serde_json::{Value, json};

pub(super) use above::Above;

use super::state::{Issue, Repository, Spot, State};
use super::wire::{Answer, Ask, Caller};
use crate::demo::git_backend;
use crate::domain::Permission;

const VERSION: &str = "18.6.0";

/// The default and the largest size of a page.
const PAGE: (usize, usize) = (20, 100);

/// The longest title of anything, in characters.
const TITLE_CAP: usize = 255;

/// The longest text of anything, in characters.
const TEXT_CAP: usize = 1_000_000;

const REPORTER: i64 = 20;
const DEVELOPER: i64 = 30;
const MAINTAINER: i64 = 40;
const OWNER: i64 = 50;

/// Answers a request; none when GitLab, as far as it is known here, has no such path.
pub(super) fn answer(state: &mut State, ask: &Ask, path: &[&str]) -> Option<Answer> {
    match caller(state, ask).and_then(|caller| covered(&caller, ask).map(|()| caller)) {
        Ok(caller) => route(state, ask, &caller, path).map(|answer| answer.unwrap_or_else(|refusal| refusal)),
        Err(refusal) => Some(refusal),
    }
}

fn route(state: &mut State, ask: &Ask, caller: &Caller, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", ["version"]) => logged_in(caller).map(|()| Answer::json(200, &json!({ "version": VERSION, "revision": "0" }))),
        ("GET", ["user"]) => logged_in(caller).map(|()| Answer::json(200, &shape::user(state, &caller.login))),
        ("GET", ["personal_access_tokens", "self"]) => {
            logged_in(caller).map(|()| Answer::json(200, &json!({ "scopes": caller.scopes(), "active": true, "expires_at": "2027-01-01" })))
        }
        ("GET", ["groups", group, "members", "all", id]) => logged_in(caller).and_then(|()| reviews::group_member(state, group, id)),
        ("GET", ["users"]) => logged_in(caller).map(|()| users(state, ask)),
        ("GET", ["projects"]) => logged_in(caller).map(|()| projects::list(state, ask, caller)),
        ("POST", ["projects"]) => setup::make_project(state, ask, caller),
        (_, ["projects"]) => Err(wrong_method(state, ask)),
        (_, ["projects", id, path @ ..]) => match seen(state, caller, id) {
            Ok(here) => return in_project(state, ask, caller, here, path),
            Err(refusal) => Err(refusal),
        },
        _ => return None,
    })
}

fn in_project(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", []) => Ok(Answer::json(200, &shape::project_row(state, &state.repositories[here], &caller.login))),
        ("POST", ["archive"]) => projects::archive(state, caller, here, true),
        ("POST", ["unarchive"]) => projects::archive(state, caller, here, false),
        ("POST", ["members"]) => setup::let_in(state, ask, caller, here),
        ("POST", ["statuses", commit]) => {
            at_least(&state.repositories[here], caller, DEVELOPER).and_then(|()| reviews::put_status(state, ask, here, commit))
        }
        ("GET", ["repository", "commits", commit, "statuses"]) => approvals::statuses(state, ask, here, commit),
        ("GET", ["hooks"]) => at_least(&state.repositories[here], caller, MAINTAINER).map(|()| reviews::hooks(state, here)),
        ("POST", ["hooks"]) => setup::make_hook(state, ask, caller, here),
        ("GET", ["members", "all", id]) => member(state, caller, here, id),
        ("GET", ["repository", "branches", branch]) => branch_answer(state, here, branch),
        ("DELETE", ["repository", "branches", branch]) => delete_branch(state, caller, here, branch),
        (_, ["labels", ..]) => return labels::answer(state, ask, caller, here, path),
        (_, ["issues", path @ ..]) => return issues::answer(state, ask, caller, here, path),
        (_, ["merge_requests", path @ ..]) => return merge_requests::answer(state, ask, caller, here, path),
        _ => return None,
    })
}

fn caller(state: &State, ask: &Ask) -> Result<Caller, Answer> {
    let bearer = ask.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let Some(token) = ask.header("private-token").or(bearer) else { return Ok(Caller::visitor()) };
    state.tokens.get(token.trim()).cloned().map(Caller::with).ok_or_else(|| refuse(401, "401 Unauthorized"))
}

/// The scope `api` is for everything, `read_api` for looking.
fn covered(caller: &Caller, ask: &Ask) -> Result<(), Answer> {
    let of_oneself = caller.has("read_user") && ask.path.get(2..) == Some(&["user".to_owned()]);
    let looks = ask.method == "GET" && (caller.has("read_api") || of_oneself);
    if caller.is_visitor() || caller.has("all") || caller.has("api") || looks {
        return Ok(());
    }
    let words = "The request requires higher privileges than provided by the access token.";
    Err(Answer::json(403, &json!({ "error": "insufficient_scope", "error_description": words, "scope": "api read_api" })))
}

/// An error in GitLab's form; the message is a text, a list or an object.
fn refuse(status: u16, message: impl Into<Value>) -> Answer {
    Answer::json(status, &json!({ "message": message.into() }))
}

fn not_found() -> Answer {
    refuse(404, "404 Not found")
}

fn forbidden() -> Answer {
    refuse(403, "403 Forbidden")
}

/// The path is one of GitLab's, the method is not.
fn wrong_method(state: &mut State, ask: &Ask) -> Answer {
    state.knobs.unexpected.push(format!("{} {}", ask.method, ask.raw_path));
    Answer::json(405, &json!({ "error": "405 Not Allowed" }))
}

fn logged_in(caller: &Caller) -> Result<(), Answer> {
    if caller.is_visitor() { Err(refuse(401, "401 Unauthorized")) } else { Ok(()) }
}

/// The access level in a project, 0 for who is no member.
fn level(repository: &Repository, login: &str) -> i64 {
    match repository.membership(login) {
        Permission::Admin if repository.owner().eq_ignore_ascii_case(login) => OWNER,
        Permission::Admin => MAINTAINER,
        Permission::Write => DEVELOPER,
        Permission::Read => REPORTER,
        Permission::None => 0,
    }
}

/// The caller has at least this level, and the project may be written to.
fn at_least(repository: &Repository, caller: &Caller, least: i64) -> Result<(), Answer> {
    logged_in(caller)?;
    if level(repository, &caller.login) < least || repository.archived { Err(forbidden()) } else { Ok(()) }
}

/// The project with this number or path is there and not hidden from the caller.
fn seen(state: &State, caller: &Caller, id: &str) -> Result<usize, Answer> {
    let by_number = state.repositories.iter().position(|repository| repository.id.to_string() == id);
    let found = by_number.or_else(|| state.repository_position(id));
    let visible = |&position: &usize| state.repositories[position].permission(&caller.login) >= Permission::Read;
    found.filter(visible).ok_or_else(|| refuse(404, "404 Project Not Found"))
}

fn spot(state: &State, here: usize, iid: &str, wanted: impl Fn(&Issue) -> bool) -> Result<Spot, Answer> {
    let iid: i64 = iid.parse().map_err(|_| Answer::json(400, &json!({ "error": "iid is invalid" })))?;
    let issue = state.repositories[here]
        .issues
        .iter()
        .position(|issue| issue.number == iid && !issue.gone && wanted(issue))
        .ok_or_else(not_found)?;
    Ok(Spot { repository: here, issue })
}

fn body(ask: &Ask) -> Result<Value, Answer> {
    if !ask.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(Answer::json(406, &json!({ "error": "The requested content-type is not supported." })));
    }
    ask.object().ok_or_else(|| Answer::json(400, &json!({ "error": "the body is no JSON object" })))
}

/// A text field; absent and null are none.
fn text(body: &Value, name: &str) -> Result<Option<String>, Answer> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Answer::json(400, &json!({ "error": format!("{name} is invalid") }))),
    }
}

fn required(body: &Value, name: &str) -> Result<String, Answer> {
    match text(body, name)? {
        Some(text) if !text.is_empty() => Ok(text),
        Some(_) => Err(Answer::json(400, &json!({ "error": format!("{name} is empty") }))),
        None => Err(Answer::json(400, &json!({ "error": format!("{name} is missing") }))),
    }
}

fn short_enough(field: &str, text: &str, cap: usize) -> Result<(), Answer> {
    if text.chars().count() <= cap {
        return Ok(());
    }
    Err(refuse(400, json!({ field: [format!("is too long (maximum is {cap} characters)")] })))
}

fn paged(state: &State, ask: &Ask, items: Vec<Value>) -> Answer {
    let (items, headers) = ask.page(&state.base_url, items, "per_page", PAGE);
    let page: usize = ask.query("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    let more = headers.iter().any(|(name, _)| name == "Link");
    let next = if more { (page + 1).to_string() } else { String::new() };
    let headers = headers.into_iter().map(|(name, value)| (if name == "X-Total-Count" { "X-Total".to_owned() } else { name }, value));
    Answer::json(200, &Value::Array(items)).with(headers).with([("X-Page".to_owned(), page.to_string()), ("X-Next-Page".to_owned(), next)])
}

/// The accounts of exactly this name: one or none.
fn users(state: &State, ask: &Ask) -> Answer {
    let found = ask.query("username").and_then(|login| state.user(login));
    let people = found.into_iter().filter(|user| user.account != super::Account::Organization);
    paged(state, ask, people.map(|user| shape::user(state, &user.login)).collect())
}

fn member(state: &State, caller: &Caller, here: usize, id: &str) -> Result<Answer, Answer> {
    logged_in(caller)?;
    let repository = &state.repositories[here];
    let user = state.users.iter().find(|user| user.id.to_string() == id).ok_or_else(not_found)?;
    match level(repository, &user.login) {
        0 => Err(not_found()),
        level => Ok(Answer::json(200, &shape::member(state, &user.login, level))),
    }
}

fn branch_answer(state: &State, here: usize, branch: &str) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    let tip = repository.branch_tip(branch).ok_or_else(|| refuse(404, "404 Branch Not Found"))?;
    let default = branch == repository.default_branch;
    let protected = default && state.protected;
    Ok(Answer::json(
        200,
        &json!({ "name": branch, "commit": { "id": tip }, "protected": protected, "default": default, "can_push": !protected,
            "developers_can_push": false, "developers_can_merge": protected && state.protection.writers_may_merge }),
    ))
}

fn delete_branch(state: &State, caller: &Caller, here: usize, branch: &str) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    at_least(repository, caller, DEVELOPER)?;
    if branch == repository.default_branch {
        return Err(refuse(403, "You are not allowed to push into this branch"));
    }
    let deleted = git_backend::delete_branch(&repository.git_dir, branch);
    if deleted { Ok(Answer::empty(204)) } else { Err(refuse(404, "404 Branch Not Found")) }
}
