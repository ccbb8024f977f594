//! How Gitea writes things down. Field names, order and odd values follow the recorded deliveries.

use serde_json::{Value, json};

use crate::demo::forge::Account;
use crate::demo::forge::state::{Act, Comment, Did, Issue, Label, Pull, Repository, State, timestamp};
use crate::domain::Permission;

/// An account; Gitea does not say whether it is a bot.
pub fn user(state: &State, login: &str) -> Value {
    let id = state.user(login).map_or(0, |user| user.id);
    json!({
        "id": id, "login": login, "full_name": "", "email": format!("{login}@example.com"), "avatar_url": "", "language": "", "is_admin": false,
        "last_login": "0001-01-01T00:00:00Z", "restricted": false, "active": true, "prohibit_login": false, "location": "", "website": "",
        "description": "", "visibility": "public", "username": login,
    })
}

/// A repository; `permissions` are those of `viewer`.
pub fn repository(state: &State, repository: &Repository, viewer: &str) -> Value {
    let address = format!("{}/{}", state.base_url, repository.path);
    let may = repository.permission(viewer);
    json!({
        "id": repository.id, "owner": user(state, repository.owner()), "name": repository.name(), "full_name": repository.path,
        "description": "", "empty": repository.is_empty(), "private": repository.private, "fork": false,
        "template": false, "parent": null, "mirror": false, "size": 24, "html_url": address, "clone_url": format!("{address}.git"),
        "ssh_url": "", "default_branch": repository.default_branch, "archived": repository.archived,
        "permissions": { "admin": may >= Permission::Admin, "push": may >= Permission::Write, "pull": may >= Permission::Read },
        "has_issues": true, "has_pull_requests": true, "internal": false,
    })
}

/// A label.
pub fn label(state: &State, repository: &Repository, label: &Label) -> Value {
    json!({
        "id": label.id, "name": label.name, "exclusive": false, "is_archived": false, "color": label.color, "description": label.description,
        "url": format!("{}/labels/{}", api(state, repository), label.id),
    })
}

/// An issue, or the issue's side of a pull request.
pub fn issue(state: &State, repository: &Repository, issue: &Issue) -> Value {
    let pull_request = issue.pull.as_ref().map(|pull| {
        json!({ "merged": pull.merged_as.is_some(), "merged_at": merged_at(issue, pull), "draft": state.is_draft(issue, pull), "html_url": page(state, repository, issue) })
    });
    json!({
        "id": issue.id, "url": format!("{}/issues/{}", api(state, repository), issue.number), "html_url": page(state, repository, issue),
        "number": issue.number, "user": user(state, &issue.author), "original_author": "", "original_author_id": 0, "title": issue.title,
        "body": issue.body, "ref": "", "labels": labels(state, repository, issue), "milestone": null, "assignee": null, "assignees": null,
        "state": state_of(issue), "is_locked": issue.locked, "comments": issue.comments.len(), "created_at": timestamp(issue.created_ms),
        "updated_at": timestamp(issue.updated_ms), "closed_at": closed_at(issue), "due_date": null, "pull_request": pull_request,
        "repository": { "id": repository.id, "name": repository.name(), "owner": repository.owner(), "full_name": repository.path },
    })
}

/// A pull request.
pub fn pull(state: &State, repository: &Repository, issue: &Issue, pull: &Pull) -> Value {
    let side = |branch: &str, sha: Option<String>| {
        json!({
            "label": branch, "ref": branch, "sha": sha.unwrap_or_default(), "repo_id": repository.id,
            "repo": self::repository(state, repository, repository.owner()),
        })
    };
    json!({
        "id": issue.id, "url": page(state, repository, issue), "number": issue.number, "user": user(state, &issue.author), "title": issue.title,
        "body": issue.body, "labels": labels(state, repository, issue), "milestone": null, "assignee": null, "assignees": null,
        "requested_reviewers": null, "state": state_of(issue), "draft": state.is_draft(issue, pull), "is_locked": issue.locked,
        "comments": issue.comments.len(), "html_url": page(state, repository, issue), "mergeable": issue.open, "merged": pull.merged_as.is_some(),
        "merged_at": merged_at(issue, pull), "merge_commit_sha": pull.merged_as, "base": side(&pull.base, repository.branch_tip(&pull.base)),
        "head": side(&pull.head, Some(repository.head_sha(issue, pull))), "created_at": timestamp(issue.created_ms),
        "updated_at": timestamp(issue.updated_ms), "closed_at": closed_at(issue),
    })
}

/// A comment.
pub fn comment(state: &State, repository: &Repository, issue: &Issue, comment: &Comment) -> Value {
    let page = page(state, repository, issue);
    let (of_pull, of_issue) = if issue.pull.is_some() { (page.as_str(), "") } else { ("", page.as_str()) };
    json!({
        "id": comment.id, "html_url": format!("{page}#issuecomment-{}", comment.id), "pull_request_url": of_pull, "issue_url": of_issue,
        "user": user(state, &comment.author), "original_author": "", "original_author_id": 0, "body": comment.body, "assets": [],
        "created_at": timestamp(comment.created_ms), "updated_at": timestamp(comment.updated_ms),
    })
}

/// An entry of the timeline.
pub fn act(state: &State, repository: &Repository, issue: &Issue, act: &Act) -> Value {
    let mut entry = json!({
        "id": act.id, "type": "", "html_url": page(state, repository, issue), "user": user(state, &act.by), "body": "",
        "created_at": timestamp(act.at_ms), "updated_at": timestamp(act.at_ms), "label": null, "old_title": "", "new_title": "",
    });
    let (kind, body) = match &act.did {
        Did::Labelled(_) => ("label", "1"),
        Did::Unlabelled(_) => ("label", ""),
        Did::Closed => ("close", ""),
        Did::Reopened => ("reopen", ""),
        Did::Renamed { .. } => ("change_title", ""),
        Did::Commented(id) => {
            ("comment", issue.comments.iter().find(|comment| comment.id == *id).map_or("", |comment| comment.body.as_str()))
        }
    };
    entry["type"] = kind.into();
    entry["body"] = body.into();
    match &act.did {
        Did::Labelled(label) | Did::Unlabelled(label) => entry["label"] = self::label(state, repository, label),
        Did::Renamed { from, to } => {
            entry["old_title"] = from.as_str().into();
            entry["new_title"] = to.as_str().into();
        }
        Did::Commented(id) => entry["id"] = (*id).into(),
        Did::Closed | Did::Reopened => {}
    }
    entry
}

/// What somebody may do, in Gitea's words.
pub fn permission(state: &State, repository: &Repository, login: &str) -> Value {
    let is_owner =
        repository.owner().eq_ignore_ascii_case(login) && state.user(login).is_some_and(|user| user.account != Account::Organization);
    let word = match repository.permission(login) {
        _ if is_owner => "owner",
        Permission::Admin => "admin",
        Permission::Write => "write",
        Permission::Read => "read",
        Permission::None => "none",
    };
    json!({ "permission": word, "role_name": word, "user": user(state, login) })
}

/// The labels of an issue.
pub fn labels(state: &State, repository: &Repository, issue: &Issue) -> Value {
    issue.labels.iter().map(|label| self::label(state, repository, label)).collect()
}

fn page(state: &State, repository: &Repository, issue: &Issue) -> String {
    let kind = if issue.pull.is_some() { "pulls" } else { "issues" };
    format!("{}/{}/{kind}/{}", state.base_url, repository.path, issue.number)
}

fn api(state: &State, repository: &Repository) -> String {
    format!("{}/api/v1/repos/{}", state.base_url, repository.path)
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
