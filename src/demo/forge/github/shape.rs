//! How GitHub Enterprise Server writes things down, without the many addresses that nobody here follows.

use serde_json::{Value, json};

use crate::demo::forge::Account;
use crate::demo::forge::state::{Act, Comment, Did, Issue, Label, Pull, Repository, State, timestamp};
use crate::domain::Permission;

/// An account.
pub fn user(state: &State, login: &str) -> Value {
    let found = state.user(login);
    let kind = match found.map(|user| user.account) {
        Some(Account::Bot) => "Bot",
        Some(Account::Organization) => "Organization",
        _ => "User",
    };
    json!({
        "login": login, "id": found.map_or(0, |user| user.id), "node_id": "", "avatar_url": "", "gravatar_id": "",
        "url": format!("{}/api/v3/users/{login}", state.base_url), "html_url": format!("{}/{login}", state.base_url), "type": kind,
        "site_admin": false,
    })
}

/// A repository; `permissions` are those of `viewer`, and absent for the empty login.
pub fn repository(state: &State, repository: &Repository, viewer: &str) -> Value {
    let address = format!("{}/{}", state.base_url, repository.path);
    let may = repository.permission(viewer);
    let mut answer = json!({
        "id": repository.id, "node_id": "", "name": repository.name(), "full_name": repository.path, "private": repository.private,
        "owner": user(state, repository.owner()), "html_url": address, "description": null, "fork": false, "url": api(state, repository),
        "clone_url": format!("{address}.git"), "archived": repository.archived, "disabled": false, "default_branch": repository.default_branch,
        "visibility": if repository.private { "private" } else { "public" },
    });
    if !viewer.is_empty() {
        let [admin, write, read] = [Permission::Admin, Permission::Write, Permission::Read].map(|least| may >= least);
        answer["permissions"] = json!({ "admin": admin, "maintain": admin, "push": write, "triage": write, "pull": read });
    }
    answer
}

/// A label.
pub fn label(state: &State, repository: &Repository, label: &Label) -> Value {
    json!({
        "id": label.id, "node_id": "", "url": format!("{}/labels/{}", api(state, repository), label.name), "name": label.name,
        "color": label.color, "default": false, "description": Some(&label.description).filter(|text| !text.is_empty()),
    })
}

/// The labels of an issue.
pub fn labels(state: &State, repository: &Repository, issue: &Issue) -> Value {
    issue.labels.iter().map(|label| self::label(state, repository, label)).collect()
}

/// An issue, or the issue's side of a pull request.
pub fn issue(state: &State, repository: &Repository, issue: &Issue) -> Value {
    let address = format!("{}/issues/{}", api(state, repository), issue.number);
    let mut answer = json!({
        "url": address, "repository_url": api(state, repository), "comments_url": format!("{address}/comments"),
        "events_url": format!("{address}/events"), "html_url": page(state, repository, issue), "id": issue.id, "node_id": "",
        "number": issue.number, "title": issue.title, "user": user(state, &issue.author), "labels": labels(state, repository, issue),
        "state": state_of(issue), "locked": issue.locked, "assignee": null, "assignees": [], "milestone": null, "comments": issue.comments.len(),
        "created_at": timestamp(issue.created_ms), "updated_at": timestamp(issue.updated_ms), "closed_at": closed_at(issue),
        "author_association": association(repository, &issue.author), "active_lock_reason": null, "body": body_of(issue),
    });
    if let Some(pull) = &issue.pull {
        let address = format!("{}/pulls/{}", api(state, repository), issue.number);
        answer["draft"] = state.is_draft(issue, pull).into();
        answer["pull_request"] = json!({ "url": address, "html_url": page(state, repository, issue), "merged_at": merged_at(issue, pull) });
    }
    answer
}

/// A pull request.
pub fn pull(state: &State, repository: &Repository, issue: &Issue, pull: &Pull) -> Value {
    let side = |branch: &str, sha: Option<String>| {
        json!({
            "label": format!("{}:{branch}", repository.owner()), "ref": branch, "sha": sha.unwrap_or_default(),
            "user": user(state, repository.owner()), "repo": self::repository(state, repository, ""),
        })
    };
    let address = format!("{}/pulls/{}", api(state, repository), issue.number);
    json!({
        "url": address, "id": issue.id, "node_id": "", "html_url": page(state, repository, issue), "number": issue.number,
        "state": state_of(issue), "locked": issue.locked, "title": issue.title, "user": user(state, &issue.author), "body": body_of(issue),
        "created_at": timestamp(issue.created_ms), "updated_at": timestamp(issue.updated_ms), "closed_at": closed_at(issue), "merged_at": merged_at(issue, pull),
        "merge_commit_sha": pull.merged_as, "assignee": null, "assignees": [], "requested_reviewers": [], "requested_teams": [],
        "labels": labels(state, repository, issue), "milestone": null, "draft": state.is_draft(issue, pull),
        "head": side(&pull.head, Some(repository.head_sha(issue, pull))), "base": side(&pull.base, repository.branch_tip(&pull.base)),
        "author_association": association(repository, &issue.author), "merged": pull.merged_as.is_some(), "comments": issue.comments.len(),
    })
}

/// A comment.
pub fn comment(state: &State, repository: &Repository, issue: &Issue, comment: &Comment) -> Value {
    json!({
        "url": format!("{}/issues/comments/{}", api(state, repository), comment.id),
        "html_url": format!("{}#issuecomment-{}", page(state, repository, issue), comment.id),
        "issue_url": format!("{}/issues/{}", api(state, repository), issue.number), "id": comment.id, "node_id": "",
        "user": user(state, &comment.author), "created_at": timestamp(comment.created_ms), "updated_at": timestamp(comment.updated_ms),
        "author_association": association(repository, &comment.author), "body": comment.body,
    })
}

/// An entry of the issue's events; none for a comment, which is no event.
pub fn event(state: &State, repository: &Repository, act: &Act) -> Option<Value> {
    let (name, key, value) = match &act.did {
        Did::Labelled(label) => ("labeled", "label", json!({ "name": label.name, "color": label.color })),
        Did::Unlabelled(label) => ("unlabeled", "label", json!({ "name": label.name, "color": label.color })),
        Did::Closed => ("closed", "state_reason", Value::Null),
        Did::Reopened => ("reopened", "state_reason", Value::Null),
        Did::Renamed { from, to } => ("renamed", "rename", json!({ "from": from, "to": to })),
        Did::Commented(_) => return None,
    };
    let mut event = json!({
        "id": act.id, "node_id": "", "url": format!("{}/issues/events/{}", api(state, repository), act.id), "actor": user(state, &act.by),
        "event": name, "commit_id": null, "commit_url": null, "created_at": timestamp(act.at_ms), "performed_via_github_app": null,
    });
    event[key] = value;
    Some(event)
}

/// What somebody may do, in GitHub's words.
pub fn permission(state: &State, repository: &Repository, login: &str) -> Value {
    let word = match repository.permission(login) {
        Permission::Admin => "admin",
        Permission::Write => "write",
        Permission::Read => "read",
        Permission::None => "none",
    };
    json!({ "permission": word, "role_name": word, "user": user(state, login) })
}

/// Only a hint, as on GitHub: never a permission.
fn association(repository: &Repository, login: &str) -> &'static str {
    match repository.permission(login) {
        Permission::Admin => "OWNER",
        Permission::Write => "COLLABORATOR",
        Permission::Read | Permission::None => "NONE",
    }
}

fn body_of(issue: &Issue) -> Option<&str> {
    Some(issue.body.as_str()).filter(|body| !body.is_empty())
}

fn page(state: &State, repository: &Repository, issue: &Issue) -> String {
    let kind = if issue.pull.is_some() { "pull" } else { "issues" };
    format!("{}/{}/{kind}/{}", state.base_url, repository.path, issue.number)
}

fn api(state: &State, repository: &Repository) -> String {
    format!("{}/api/v3/repos/{}", state.base_url, repository.path)
}

fn state_of(issue: &Issue) -> &'static str {
    if issue.open { "open" } else { "closed" }
}

fn merged_at(issue: &Issue, pull: &Pull) -> Option<String> {
    pull.merged_as.as_ref().and_then(|_| closed_at(issue))
}

fn closed_at(issue: &Issue) -> Option<String> {
    (!issue.open).then(|| timestamp(issue.updated_ms))
}
