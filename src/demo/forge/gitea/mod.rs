//! Gitea's and Forgejo's API under `/api/v1`, as far as the service and its stories need it (forges.md, section 4.3). Scopes, statuses and errors are Gitea's.

mod issues;
mod pulls;
mod setup;
pub(super) mod shape;

use serde_json::{Value, json};

use super::requests;
use super::state::{Repository, State};
use super::wire::{Answer, Ask, Caller};
use crate::demo::git_backend;
use crate::domain::Permission;

/// The version that is claimed.
const VERSION: &str = "1.27.0";

/// The version that is claimed as Forgejo, with that of the Gitea that it left.
pub(super) const FORGEJO_VERSION: &str = "15.0.0+gitea-1.22.0";

/// The default and the largest size of a page.
const PAGE: (usize, usize) = (30, 50);

/// Answers a request; none when Gitea, as far as it is known here, has no such path.
pub(super) fn answer(state: &mut State, ask: &Ask, path: &[&str]) -> Option<Answer> {
    match caller(state, ask) {
        Ok(caller) => route(state, ask, &caller, path).map(|answer| answer.unwrap_or_else(|refusal| refusal)),
        Err(refusal) => Some(refusal),
    }
}

fn route(state: &mut State, ask: &Ask, caller: &Caller, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", ["version"]) => {
            let version = if state.kind == super::Kind::Forgejo { FORGEJO_VERSION } else { VERSION };
            Ok(Answer::json(200, &json!({ "version": version })))
        }
        ("GET", ["settings", "api"]) => Ok(Answer::json(
            200,
            &json!({ "max_response_items": PAGE.1, "default_paging_num": PAGE.0, "default_git_trees_per_page": 1000 }),
        )),
        ("GET", ["admin", "orgs"]) => demand(caller, "admin", false).and_then(|()| Err(refuse(403, "user should be the site admin"))),
        ("GET", ["notifications", "new"]) => demand(caller, "notification", false).map(|()| Answer::json(200, &json!({ "new": 0 }))),
        ("GET", ["user"]) => {
            demand(caller, "user", false).and_then(|()| logged_in(caller)).map(|()| Answer::json(200, &shape::user(state, &caller.login)))
        }
        ("POST", ["user", "repos"]) => demand(caller, "repository", true).and_then(|()| setup::make_repository(state, ask, caller)),
        ("GET", ["orgs", organization, "labels"]) => organization_labels(state, ask, caller, organization),
        ("GET", ["orgs", organization, "hooks"]) => hooks_of_organization(state, caller, organization),
        ("GET", ["orgs", organization, "teams", "search"]) => {
            demand(caller, "organization", false).map(|()| teams(state, ask, organization))
        }
        ("GET", ["teams", id, "members", login]) => demand(caller, "organization", false).and_then(|()| {
            let team = id.parse::<usize>().ok().and_then(|id| state.teams.keys().nth(id.checked_sub(1)?)).ok_or_else(not_found)?;
            if state.in_team(team, login) == Some(true) { Ok(Answer::json(200, &shape::user(state, login))) } else { Err(not_found()) }
        }),
        ("GET", ["user", "repos"]) => demand(caller, "user", false)
            .and_then(|()| demand(caller, "repository", false))
            .and_then(|()| logged_in(caller))
            .map(|()| own_repositories(state, ask, caller)),
        ("GET", ["repositories", id]) => {
            let found = state.repositories.iter().position(|repository| repository.id.to_string() == *id);
            demand(caller, "repository", false).and_then(|()| seen(state, caller, found)).map(|here| show(state, caller, here))
        }
        (_, ["repos", owner, name, path @ ..]) => {
            let what = if matches!(path.first(), Some(&("issues" | "labels"))) { "issue" } else { "repository" };
            let found = state.repository_position(&format!("{owner}/{name}"));
            let admitted = demand(caller, what, ask.method != "GET").and_then(|()| seen(state, caller, found));
            match admitted {
                Ok(here) => return in_repository(state, ask, caller, here, path),
                Err(refusal) => Err(refusal),
            }
        }
        _ => return None,
    })
}

fn in_repository(state: &mut State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", []) => Ok(show(state, caller, here)),
        ("GET", ["hooks"]) => setup::administers(state, caller, here).map(|()| Answer::json(200, &state.hooks_of(here))),
        ("GET", ["branches", branch]) => branch_answer(state, caller, here, branch),
        ("POST", ["statuses", commit]) => writable(&state.repositories[here], caller)
            .and_then(|()| requests::put_status(state, ask, here, commit).ok_or_else(|| refuse(422, "invalid state"))),
        ("GET", ["commits", commit, "status"]) => {
            let combined = state.combined_status(&state.repositories[here], commit, "status");
            combined.map(|combined| Answer::json(200, &combined)).ok_or_else(not_found)
        }
        ("GET", ["branch_protections", name]) => branch_protection(state, caller, here, name),
        ("DELETE", ["branches", branch]) => delete_branch(state, caller, here, branch),
        ("PUT", ["collaborators", login]) => setup::let_in(state, ask, caller, here, login),
        ("POST", ["hooks"]) => setup::make_hook(state, ask, caller, here),
        ("GET", ["collaborators", login, "permission"]) => permission(state, caller, here, login),
        ("GET", ["reviewers"]) => reviewers(state, caller, here),
        (_, ["labels", ..] | ["issues", ..]) => return issues::answer(state, ask, caller, here, path),
        (_, ["pulls", path @ ..]) => return pulls::answer(state, ask, caller, here, path),
        _ => return None,
    })
}

fn caller(state: &State, ask: &Ask) -> Result<Caller, Answer> {
    let Some(value) = ask.header("authorization") else { return Ok(Caller::visitor()) };
    let token =
        ["token ", "Bearer "].into_iter().find_map(|scheme| value.strip_prefix(scheme)).and_then(|token| state.tokens.get(token.trim()));
    token.cloned().map(Caller::with).ok_or_else(|| refuse(401, "invalid username, password or token"))
}

/// An error in Gitea's form.
fn refuse(status: u16, message: &str) -> Answer {
    Answer::json(status, &json!({ "message": message, "url": "https://demo.invalid/api/swagger" }))
}

fn not_found() -> Answer {
    refuse(404, "The target couldn't be found.")
}

fn logged_in(caller: &Caller) -> Result<(), Answer> {
    if caller.is_visitor() { Err(refuse(401, "token is required")) } else { Ok(()) }
}

/// The token's scopes cover this, and writing needs a token at all.
fn demand(caller: &Caller, what: &str, write: bool) -> Result<(), Answer> {
    if write {
        logged_in(caller)?;
    }
    if caller.covers(what, write) {
        return Ok(());
    }
    let scope = format!("{}:{what}", if write { "write" } else { "read" });
    Err(refuse(403, &format!("token does not have at least one of required scope(s), required=[{scope}]")))
}

/// The repository is there and not hidden from the caller.
fn seen(state: &State, caller: &Caller, found: Option<usize>) -> Result<usize, Answer> {
    let visible = |&position: &usize| state.repositories[position].permission(&caller.login) >= Permission::Read;
    found.filter(visible).ok_or_else(not_found)
}

/// The caller may write, and the repository may be written to.
fn writable(repository: &Repository, caller: &Caller) -> Result<(), Answer> {
    if repository.permission(&caller.login) < Permission::Write {
        return Err(refuse(403, "user should have a permission to write to a repo"));
    }
    unarchived(repository)
}

fn unarchived(repository: &Repository) -> Result<(), Answer> {
    if repository.archived { Err(refuse(423, &format!("{} is archived", repository.path))) } else { Ok(()) }
}

fn body(ask: &Ask) -> Result<Value, Answer> {
    if !ask.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(refuse(422, "[]: Unsupported Content-Type"));
    }
    ask.object().ok_or_else(|| refuse(422, "[]: the body is no JSON object"))
}

/// A text field; absent and null are none.
fn text(body: &Value, name: &str) -> Result<Option<String>, Answer> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(refuse(422, &format!("[{name}]: cannot unmarshal into string"))),
    }
}

fn required(body: &Value, name: &str) -> Result<String, Answer> {
    text(body, name)?.filter(|text| !text.is_empty()).ok_or_else(|| refuse(422, &format!("[{name}]: Required")))
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
    let (items, headers) = ask.page(&state.base_url, items, "limit", PAGE);
    Answer::json(200, &Value::Array(items)).with(headers)
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

fn branch_answer(state: &State, caller: &Caller, here: usize, branch: &str) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    let tip = repository.branch_tip(branch).ok_or_else(not_found)?;
    let protected = state.protected && branch == repository.default_branch;
    let (rules, may) = (&state.protection, repository.permission(&caller.login));
    let may_merge = may >= Permission::Write && (!protected || rules.writers_may_merge);
    let contexts = if protected { rules.statuses.clone() } else { Vec::new() };
    Ok(Answer::json(
        200,
        &json!({
            "name": branch, "commit": { "id": tip }, "protected": protected, "user_can_push": !protected, "user_can_merge": may_merge,
            "required_approvals": if protected { rules.approvals } else { 0 }, "enable_status_check": !contexts.is_empty(),
            "status_check_contexts": contexts, "effective_branch_protection_name": if protected { branch } else { "" },
        }),
    ))
}

/// Only administrators of the repository may see it whole.
fn branch_protection(state: &State, caller: &Caller, here: usize, name: &str) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    if repository.permission(&caller.login) < Permission::Admin {
        return Err(refuse(403, "user should be an owner or a collaborator with admin write of a repository"));
    }
    if !state.protected || name != repository.default_branch {
        return Err(not_found());
    }
    let rules = &state.protection;
    let word = if state.kind == super::Kind::Forgejo { "apply_to_admins" } else { "block_admin_merge_override" };
    Ok(Answer::json(
        200,
        &json!({
            "rule_name": name, (word): !rules.administrators_pass, "enable_merge_whitelist": !rules.writers_may_merge,
            "required_approvals": rules.approvals, "status_check_contexts": rules.statuses,
        }),
    ))
}

fn delete_branch(state: &State, caller: &Caller, here: usize, branch: &str) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    writable(repository, caller)?;
    if branch == repository.default_branch {
        return Err(refuse(403, "can not delete default branch"));
    }
    if git_backend::delete_branch(&repository.git_dir, branch) { Ok(Answer::empty(204)) } else { Err(not_found()) }
}

/// Only administrators may ask about others; on Forgejo only by a token that is not limited to some repositories.
fn permission(state: &State, caller: &Caller, here: usize, login: &str) -> Result<Answer, Answer> {
    logged_in(caller)?;
    let repository = &state.repositories[here];
    let counts_as_reader = state.kind == super::Kind::Forgejo && caller.has("limited");
    if (counts_as_reader || repository.permission(&caller.login) < Permission::Admin) && !caller.login.eq_ignore_ascii_case(login) {
        let message =
            "Only admins can query all permissions, repo admins can query all repo permissions, collaborators can query only their own";
        return Err(refuse(403, message));
    }
    let user = state.user(login).ok_or_else(not_found)?;
    Ok(Answer::json(200, &shape::permission(state, repository, &user.login)))
}

/// Everybody but the caller who has a part in the repository; told to every reader.
fn reviewers(state: &State, caller: &Caller, here: usize) -> Result<Answer, Answer> {
    logged_in(caller)?;
    let repository = &state.repositories[here];
    let others = state.users.iter().filter(|user| user.account != super::Account::Organization && user.login != caller.login);
    let readers = others.filter(|user| repository.membership(&user.login) >= Permission::Read);
    Ok(Answer::json(200, &readers.map(|user| shape::user(state, &user.login)).collect::<Value>()))
}

/// Told to the organisation's owners, of whom this forge knows none.
fn hooks_of_organization(state: &State, caller: &Caller, organization: &str) -> Result<Answer, Answer> {
    demand(caller, "organization", false)?;
    let is_organization = state.user(organization).is_some_and(|user| user.account == super::Account::Organization);
    Err(if is_organization { refuse(403, "Must be an organization owner") } else { refuse(404, "user redirect does not exist") })
}

fn organization_labels(state: &State, ask: &Ask, caller: &Caller, organization: &str) -> Result<Answer, Answer> {
    demand(caller, "organization", false)?;
    let is_organization = state.user(organization).is_some_and(|user| user.account == super::Account::Organization);
    if !is_organization {
        return Err(refuse(404, "user redirect does not exist"));
    }
    let labels = state.organization_labels.get(organization).into_iter().flatten();
    let labels = labels.map(|label| {
        json!({
            "id": label.id, "name": label.name, "exclusive": false, "is_archived": false, "color": label.color, "description": label.description,
            "url": format!("{}/api/v1/orgs/{organization}/labels/{}", state.base_url, label.id),
        })
    });
    Ok(paged(state, ask, labels.collect()))
}

/// The teams of an organisation whose names contain the searched text; the number of a team is its place among all.
fn teams(state: &State, ask: &Ask, organization: &str) -> Answer {
    let searched = ask.query("q").unwrap_or_default().to_lowercase();
    let rows = state.teams.keys().enumerate().filter_map(|(at, team)| {
        let name = team.strip_prefix(organization)?.strip_prefix('/')?;
        name.to_lowercase().contains(&searched).then(|| json!({"id": at + 1, "name": name, "permission": "write"}))
    });
    Answer::json(200, &json!({"ok": true, "data": rows.collect::<Vec<_>>()}))
}
