//! How GitLab's API writes things down: field names, nulls and words as in forges.md, section 3.3.

use serde_json::{Value, json};

use crate::demo::forge::Account;
use crate::demo::forge::state::{Act, Comment, Did, Issue, Label, Pull, Repository, State, exact_timestamp, timestamp};

/// An account.
pub fn user(state: &State, login: &str) -> Value {
    let found = state.user(login);
    json!({
        "id": found.map_or(0, |user| user.id), "username": login, "name": login, "state": "active", "locked": false, "avatar_url": null,
        "web_url": format!("{}/{login}", state.base_url), "bot": found.is_some_and(|user| user.account == Account::Bot),
    })
}

/// An account as it stands inside other things: without a word on whether it is a bot.
fn person(state: &State, login: &str) -> Value {
    let mut person = user(state, login);
    if let Some(fields) = person.as_object_mut() {
        fields.remove("bot");
    }
    person
}

/// A member of a project.
pub fn member(state: &State, login: &str, level: i64) -> Value {
    let mut member = person(state, login);
    member["access_level"] = level.into();
    member["membership_state"] = "active".into();
    member["expires_at"] = Value::Null;
    member
}

/// A project; `permissions` are those of `viewer`.
pub fn project_row(state: &State, repository: &Repository, viewer: &str) -> Value {
    let address = format!("{}/{}", state.base_url, repository.path);
    let access = match super::level(repository, viewer) {
        0 => Value::Null,
        level => json!({ "access_level": level, "notification_level": 3 }),
    };
    let is_empty = repository.is_empty();
    json!({
        "id": repository.id, "name": repository.name(), "path": repository.name(), "path_with_namespace": repository.path,
        "description": null, "default_branch": Some(&repository.default_branch).filter(|_| !is_empty), "empty_repo": is_empty,
        "archived": repository.archived, "visibility": if repository.private { "private" } else { "public" },
        "http_url_to_repo": format!("{address}.git"), "ssh_url_to_repo": "", "web_url": address, "issues_access_level": "enabled",
        "namespace": { "full_path": repository.owner(), "kind": "group" },
        "only_allow_merge_if_pipeline_succeeds": !state.protection.statuses.is_empty(), "allow_merge_on_skipped_pipeline": false,
        "permissions": { "project_access": access, "group_access": null },
    })
}

/// A label.
pub fn label_row(label: &Label) -> Value {
    json!({
        "id": label.id, "name": label.name, "color": format!("#{}", label.color), "text_color": "#FFFFFF",
        "description": Some(&label.description).filter(|text| !text.is_empty()), "is_project_label": true,
    })
}

/// An issue.
pub fn issue_row(state: &State, repository: &Repository, issue: &Issue) -> Value {
    json!({
        "id": issue.id, "iid": issue.number, "project_id": repository.id, "title": issue.title, "description": described(issue),
        "state": state_of(issue), "created_at": timestamp(issue.created_ms), "updated_at": timestamp(issue.updated_ms),
        "closed_at": closed_at(issue), "labels": names(issue), "author": person(state, &issue.author), "assignees": [], "assignee": null,
        "type": issue.item.to_uppercase(), "issue_type": issue.item.to_lowercase(), "confidential": issue.confidential, "discussion_locked": issue.locked.then_some(true), "moved_to_id": issue.moved_to,
        "web_url": page(state, repository, issue), "user_notes_count": issue.comments.len(),
    })
}

/// A merge request.
pub fn merge_request_row(state: &State, repository: &Repository, issue: &Issue, pull: &Pull) -> Value {
    let draft = state.is_draft(issue, pull);
    json!({
        "id": issue.id, "iid": issue.number, "project_id": repository.id, "title": issue.title, "description": described(issue),
        "state": state_of(issue), "created_at": timestamp(issue.created_ms), "updated_at": timestamp(issue.updated_ms),
        "closed_at": closed_at(issue), "merged_at": pull.merged_as.as_ref().and_then(|_| closed_at(issue)), "source_branch": pull.head, "target_branch": pull.base,
        "source_project_id": repository.id, "target_project_id": repository.id, "labels": names(issue), "draft": draft,
        "work_in_progress": draft, "author": person(state, &issue.author), "assignees": [],
        "reviewers": super::reviews::reviewers(state, repository.id, issue.number),
        "sha": repository.head_sha(issue, pull), "merge_commit_sha": pull.merged_as, "detailed_merge_status": if draft { "draft_status" } else { "mergeable" },
        "web_url": page(state, repository, issue), "user_notes_count": issue.comments.len(),
    })
}

/// A comment.
pub fn note(state: &State, issue: &Issue, comment: &Comment) -> Value {
    let mut note = json!({
        "id": comment.id, "type": note_type(comment), "body": comment.body, "author": person(state, &comment.author),
        "created_at": exact_timestamp(comment.created_ms), "updated_at": exact_timestamp(comment.updated_ms), "system": false, "noteable_id": issue.id,
        "noteable_type": noteable_type(issue), "noteable_iid": issue.number, "resolvable": comment.on_line.is_some(), "confidential": false,
        "internal": false,
    });
    if let Some((path, line)) = &comment.on_line {
        note["resolved"] = false.into();
        note["position"] = json!({ "position_type": "text", "old_path": path, "new_path": path, "old_line": null, "new_line": line });
    }
    note
}

/// `DiffNote` on a line, null otherwise.
pub fn note_type(comment: &Comment) -> Option<&'static str> {
    comment.on_line.as_ref().map(|_| "DiffNote")
}

/// The note that an act left: a person's own, or what GitLab writes down of it.
pub fn note_of_act(state: &State, issue: &Issue, act: &Act) -> Option<Value> {
    let words = match &act.did {
        Did::Commented(id) => return issue.comments.iter().find(|comment| comment.id == *id).map(|comment| note(state, issue, comment)),
        Did::Labelled(label) => format!("added ~{} label", label.id),
        Did::Unlabelled(label) => format!("removed ~{} label", label.id),
        Did::Closed => "closed".to_owned(),
        Did::Reopened => "reopened".to_owned(),
        Did::Renamed { from, to } => format!("changed title from **{from}** to **{to}**"),
    };
    let comment = Comment { id: act.id, author: act.by.clone(), body: words, created_ms: act.at_ms, updated_ms: act.at_ms, on_line: None };
    let mut note = note(state, issue, &comment);
    note["system"] = true.into();
    Some(note)
}

/// An entry of the history of labels; none for another act.
pub fn label_event(state: &State, issue: &Issue, act: &Act) -> Option<Value> {
    let (label, action) = match &act.did {
        Did::Labelled(label) => (label, "add"),
        Did::Unlabelled(label) => (label, "remove"),
        _ => return None,
    };
    Some(json!({
        "id": act.id, "user": person(state, &act.by), "created_at": timestamp(act.at_ms), "resource_type": noteable_type(issue),
        "resource_id": issue.id, "label": { "id": label.id, "name": label.name, "color": format!("#{}", label.color), "description": null },
        "action": action,
    }))
}

/// The page for people.
pub fn page(state: &State, repository: &Repository, issue: &Issue) -> String {
    let kind = if issue.pull.is_some() { "merge_requests" } else { "issues" };
    format!("{}/{}/-/{kind}/{}", state.base_url, repository.path, issue.number)
}

/// `opened` or `closed`.
pub fn state_of(issue: &Issue) -> &'static str {
    match &issue.pull {
        _ if issue.open => "opened",
        Some(pull) if pull.merged_as.is_some() => "merged",
        _ => "closed",
    }
}

/// What a note is on.
pub fn noteable_type(issue: &Issue) -> &'static str {
    if issue.pull.is_some() { "MergeRequest" } else { "Issue" }
}

/// The text, null for none.
pub fn described(issue: &Issue) -> Option<&str> {
    Some(issue.body.as_str()).filter(|body| !body.is_empty())
}

fn names(issue: &Issue) -> Vec<&str> {
    issue.labels.iter().map(|label| label.name.as_str()).collect()
}

fn closed_at(issue: &Issue) -> Option<String> {
    (!issue.open).then(|| timestamp(issue.updated_ms))
}
