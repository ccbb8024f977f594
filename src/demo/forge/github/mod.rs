//! GitHub's API as Enterprise Server has it under `/api/v3`, as far as the service and its stories need it (forges.md, section 2.3).

mod app;
mod check_runs;
mod installed;
mod issues;
mod pulls;
mod setup;
pub(super) mod shape;
mod watched;

use serde_json::{Value, json};

pub(super) use app::App;
pub use app::Tried;
pub use installed::Installed;

use super::requests;
use super::state::{Repository, State};
use super::wire::{Answer, Ask, Caller};
use crate::demo::git_backend;
use crate::domain::Permission;

/// The version that is claimed.
const VERSION: &str = "3.19.0";

/// The default and the largest size of a page.
const PAGE: (usize, usize) = (30, 100);

/// The longest title, in characters.
const TITLE_CAP: usize = 256;

/// The longest text of an issue, a pull request or a comment, in characters.
const BODY_CAP: usize = 65_536;

/// Answers a request; none when GitHub, as far as it is known here, has no such path.
pub(super) fn answer(state: &mut State, ask: &Ask, path: &[&str]) -> Option<Answer> {
    if let Some(answer) = introduced(ask).ok().and_then(|()| app::answer(state, ask, path)) {
        return Some(answer);
    }
    let admitted = introduced(ask).and_then(|()| caller(state, ask));
    match admitted {
        Ok(caller) => route(state, ask, &caller, path).map(|answer| answer.unwrap_or_else(|refusal| refusal)),
        Err(refusal) => Some(refusal),
    }
}

fn route(state: &mut State, ask: &Ask, caller: &Caller, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", ["meta"]) => Ok(Answer::json(200, &json!({ "installed_version": VERSION }))),
        ("POST", ["user", "repos"]) => setup::make_repository(state, ask, caller),
        ("PATCH", ["user", "repository_invitations", id]) => logged_in(caller).and_then(|()| setup::accept(state, caller, id)),
        ("GET", ["user"]) => logged_in(caller).map(|()| {
            let scopes = ("X-OAuth-Scopes".to_owned(), caller.classic_scopes());
            Answer::json(200, &shape::user(state, &caller.login)).with([scopes])
        }),
        ("GET", ["orgs", organization, "teams", team, "memberships", login]) => demand(caller, "members", false).and_then(|()| {
            let member = state.in_team(&format!("{organization}/{team}"), login).unwrap_or(false);
            if member { Ok(Answer::json(200, &json!({"state": "active", "role": "member"}))) } else { Err(not_found()) }
        }),
        ("GET", ["installation", "repositories"]) => app::installed_on(state, ask, caller),
        ("GET", ["user", "repos"]) => logged_in(caller).map(|()| own_repositories(state, ask, caller)),
        ("GET", ["repositories", id]) => {
            let found = state.repositories.iter().position(|repository| repository.id.to_string() == *id);
            seen(state, caller, found).map(|here| show(state, caller, here))
        }
        (_, ["repos", owner, name, path @ ..]) => match seen(state, caller, state.repository_position(&format!("{owner}/{name}"))) {
            Ok(here) => return in_repository(state, ask, caller, here, path),
            Err(refusal) => Err(refusal),
        },
        _ => return None,
    })
}

fn in_repository(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    if let Some(answer) = watched::answer(state, ask, caller, here, path) {
        return Some(Ok(answer));
    }
    Some(match (ask.method.as_str(), path) {
        ("GET", []) => demand(caller, "metadata", false).map(|()| show(state, caller, here)),
        ("GET", ["branches", branch @ ..]) if !branch.is_empty() => {
            demand(caller, "contents", false).and_then(|()| branch_answer(state, here, &branch.join("/")))
        }
        ("POST", ["statuses", commit]) => demand(caller, "statuses", true).and_then(|()| {
            writable(&state.repositories[here], caller)?;
            requests::put_status(state, ask, here, commit).ok_or_else(|| invalid_field("Status", "state", "invalid"))
        }),
        ("POST", ["check-runs"]) => check_runs::make(state, ask, caller, here),
        ("GET", ["commits", commit, "check-runs"]) => check_runs::list(state, ask, caller, here, commit),
        ("GET", ["commits", commit, "status"]) => demand(caller, "statuses", false).and_then(|()| {
            let combined = state.combined_status(&state.repositories[here], commit, "state");
            combined.map(|combined| Answer::json(200, &combined)).ok_or_else(|| refuse(422, &format!("No commit found for SHA: {commit}")))
        }),
        ("DELETE", ["git", "refs", "heads", branch @ ..]) => delete_branch(state, caller, here, &branch.join("/")),
        ("PUT", ["collaborators", login]) => setup::invite(state, ask, caller, here, login),
        ("POST", ["hooks"]) => setup::make_hook(state, ask, caller, here),
        ("GET", ["collaborators", login, "permission"]) => permission(state, caller, here, login),
        (_, ["labels", ..] | ["issues", ..]) => return issues::answer(state, ask, caller, here, path),
        (_, ["pulls", path @ ..]) => return pulls::answer(state, ask, caller, here, path),
        _ => return None,
    })
}

/// GitHub answers nobody who does not say which program asks.
fn introduced(ask: &Ask) -> Result<(), Answer> {
    if ask.header("user-agent").is_some_and(|agent| !agent.is_empty()) {
        return Ok(());
    }
    let words = "Request forbidden by administrative rules. Please make sure your request has a User-Agent header.\n";
    Err(Answer { status: 403, headers: vec![("Content-Type".to_owned(), "text/html".to_owned())], body: words.as_bytes().to_vec() })
}

fn caller(state: &State, ask: &Ask) -> Result<Caller, Answer> {
    let Some(value) = ask.header("authorization") else { return Ok(Caller::visitor()) };
    let token = value.strip_prefix("Bearer ").and_then(|token| state.live_token(token.trim()));
    let caller = token.cloned().map(Caller::with).ok_or_else(|| refuse(401, "Bad credentials"))?;
    if caller.is_installation() {
        app::works(state)?
    }
    Ok(caller)
}

/// An error in GitHub's form.
fn refuse(status: u16, message: &str) -> Answer {
    Answer::json(status, &json!({ "message": message, "documentation_url": "https://demo.invalid/rest", "status": status.to_string() }))
}

fn not_found() -> Answer {
    refuse(404, "Not Found")
}

/// 422 with one entry in `errors`.
fn invalid(error: &Value) -> Answer {
    Answer::json(
        422,
        &json!({ "message": "Validation Failed", "errors": [error], "documentation_url": "https://demo.invalid/rest", "status": "422" }),
    )
}

fn invalid_field(resource: &str, field: &str, code: &str) -> Answer {
    invalid(&json!({ "resource": resource, "field": field, "code": code }))
}

fn logged_in(caller: &Caller) -> Result<(), Answer> {
    if caller.is_visitor() { Err(refuse(401, "Requires authentication")) } else { Ok(()) }
}

/// The token's permissions cover this, and writing needs a token at all.
fn demand(caller: &Caller, what: &str, write: bool) -> Result<(), Answer> {
    if write {
        logged_in(caller)?;
    }
    if caller.covers(what, write) {
        return Ok(());
    }
    let needed = format!("{what}={}", if write { "write" } else { "read" });
    Err(refuse(403, "Resource not accessible by personal access token").with([("X-Accepted-GitHub-Permissions".to_owned(), needed)]))
}

/// The repository is there and not hidden from the caller.
fn seen(state: &State, caller: &Caller, found: Option<usize>) -> Result<usize, Answer> {
    let visible = |&position: &usize| {
        let repository = &state.repositories[position];
        caller.reaches(repository) && repository.permission(&caller.login) >= Permission::Read
    };
    found.filter(visible).ok_or_else(not_found)
}

/// The caller may write, and the repository may be written to.
fn writable(repository: &Repository, caller: &Caller) -> Result<(), Answer> {
    if repository.permission(&caller.login) < Permission::Write {
        return Err(refuse(403, "Must have push access to repository."));
    }
    unarchived(repository)
}

fn unarchived(repository: &Repository) -> Result<(), Answer> {
    if repository.archived { Err(refuse(403, "Repository was archived so is read-only.")) } else { Ok(()) }
}

fn body(ask: &Ask) -> Result<Value, Answer> {
    ask.object().ok_or_else(|| refuse(400, "Problems parsing JSON"))
}

/// A text field; absent and null are none.
fn text(body: &Value, name: &str) -> Result<Option<String>, Answer> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(refuse(422, &format!("Invalid request.\n\nFor 'properties/{name}', {other} is not a string."))),
    }
}

fn required(body: &Value, resource: &str, name: &str) -> Result<String, Answer> {
    text(body, name)?.filter(|text| !text.trim().is_empty()).ok_or_else(|| invalid_field(resource, name, "missing_field"))
}

/// Title and text are within GitHub's limits.
fn short_enough(resource: &str, title: Option<&str>, body: Option<&str>) -> Result<(), Answer> {
    for (field, text, most) in [("title", title, TITLE_CAP), ("body", body, BODY_CAP)] {
        if text.is_some_and(|text| text.chars().count() > most) {
            let message = format!("{field} is too long (maximum is {most} characters)");
            return Err(invalid(&json!({ "resource": resource, "field": field, "code": "custom", "message": message })));
        }
    }
    Ok(())
}

/// Which issues a list holds: open ones unless told otherwise.
fn wanted(ask: &Ask, open: bool) -> bool {
    match ask.query("state") {
        Some("closed") => !open,
        Some("all") => true,
        _ => open,
    }
}

fn paged(state: &State, ask: &Ask, items: Vec<Value>) -> Answer {
    let (items, headers) = ask.page(&state.base_url, items, "per_page", PAGE);
    Answer::json(200, &Value::Array(items)).with(headers.into_iter().filter(|(name, _)| name == "Link"))
}

/// The repositories in which the caller has a role of his own.
fn own_repositories(state: &State, ask: &Ask, caller: &Caller) -> Answer {
    let has_a_role = |repository: &&Repository| {
        let named = repository.permissions.iter().any(|(who, may)| who.eq_ignore_ascii_case(&caller.login) && *may >= Permission::Read);
        named || repository.owner().eq_ignore_ascii_case(&caller.login)
    };
    let own = state.repositories.iter().filter(has_a_role);
    paged(state, ask, own.map(|repository| shape::repository(state, repository, &caller.login)).collect())
}

fn show(state: &State, caller: &Caller, here: usize) -> Answer {
    Answer::json(200, &shape::repository(state, &state.repositories[here], &caller.login))
}

fn branch_answer(state: &State, here: usize, branch: &str) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    let tip = repository.branch_tip(branch).ok_or_else(|| refuse(404, "Branch not found"))?;
    let protected = state.protected && branch == repository.default_branch;
    let protection = state.protection_by_branch(protected);
    Ok(Answer::json(200, &json!({ "name": branch, "commit": { "sha": tip }, "protected": protected, "protection": protection })))
}

fn delete_branch(state: &State, caller: &Caller, here: usize, branch: &str) -> Result<Answer, Answer> {
    demand(caller, "contents", true)?;
    let repository = &state.repositories[here];
    writable(repository, caller)?;
    if branch == repository.default_branch {
        return Err(refuse(422, "Cannot delete the default branch"));
    }
    let deleted = git_backend::delete_branch(&repository.git_dir, branch);
    if deleted { Ok(Answer::empty(204)) } else { Err(refuse(422, "Reference does not exist")) }
}

/// Only those who may push may ask.
fn permission(state: &State, caller: &Caller, here: usize, login: &str) -> Result<Answer, Answer> {
    logged_in(caller)?;
    demand(caller, "metadata", false)?;
    let repository = &state.repositories[here];
    if repository.permission(&caller.login) < Permission::Write {
        return Err(refuse(403, "Must have push access to view collaborator permission."));
    }
    let user = state.user(login).ok_or_else(not_found)?;
    Ok(Answer::json(200, &shape::permission(state, repository, &user.login)))
}
