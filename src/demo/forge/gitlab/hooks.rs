//! Deliveries in GitLab's shapes, as recorded ones have them (forges.md, sections 3.1 and 3.2).

use axum::body::Bytes;
use base64::Engine as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::above;
use super::shape::{described, note_type, noteable_type, page, state_of};
use super::verdicts;
use crate::demo::forge::state::{Act, Comment, Did, Hook, Issue, Label, Pull, Repository, Spot, State, timestamp};
use crate::demo::forge::webhook::{Delivery, News};

/// One delivery for each hook of the repository, with the address of those that have one. Nobody is told that something was deleted.
pub(in crate::demo::forge) fn deliveries(state: &mut State, spot: Spot, by: &str, news: &News) -> Vec<(Option<String>, Delivery)> {
    if matches!(news, News::Gone(_)) {
        return Vec::new();
    }
    let payload = payload(state, spot, by, news);
    let (event, what) = event_names(state.at(spot).1, news);
    let body = Bytes::from(serde_json::to_vec(&payload).unwrap_or_default());
    let told = above::hooks(state, spot, event, news).into_iter().map(|(hook, event)| {
        let id = state.next_uuid();
        let headers = headers(state, &hook, &id, event, &body);
        (hook.url, Delivery { id, what: what.clone(), headers, body: body.clone() })
    });
    told.collect()
}

fn event_names(issue: &Issue, news: &News) -> (&'static str, String) {
    let event = match (news.comment(), &issue.pull, issue.confidential) {
        (Some(_), None, true) => "Confidential Note Hook",
        (Some(_), ..) => "Note Hook",
        (None, Some(_), _) => "Merge Request Hook",
        (None, None, true) => "Confidential Issue Hook",
        (None, None, false) => "Issue Hook",
    };
    (event, format!("{event} {}", action(news)))
}

fn action(news: &News) -> &'static str {
    match news {
        News::Opened => "open",
        News::Closed => "close",
        News::Reopened => "reopen",
        News::Commented(_) => "create",
        News::Approved => "approved",
        News::Unapproved => "unapproved",
        _ => "update",
    }
}

/// A secret that begins with `whsec_` signs; any other is sent along as it is.
fn headers(state: &mut State, hook: &Hook, id: &str, event: &str, body: &[u8]) -> Vec<(String, String)> {
    let (event_id, hook_id, seconds) = (state.next_uuid(), state.next_uuid(), state.now_ms() / 1000);
    let mut headers: Vec<(String, String)> = [
        ("Content-Type", "application/json"),
        ("User-Agent", "GitLab/18.6.0"),
        ("Idempotency-Key", id),
        ("X-Gitlab-Event", event),
        ("X-Gitlab-Webhook-UUID", &hook_id),
        ("X-Gitlab-Instance", &state.base_url),
        ("X-Gitlab-Event-UUID", &event_id),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    let mut put = |name: &str, value: String| headers.push((name.to_owned(), value));
    match hook.secret.strip_prefix("whsec_") {
        Some(key) => {
            put("webhook-id", id.to_owned());
            put("webhook-timestamp", seconds.to_string());
            put("webhook-signature", format!("v1,{}", signature(key, id, seconds, body)));
        }
        None if hook.secret.is_empty() => {}
        None => put("X-Gitlab-Token", hook.secret.clone()),
    }
    headers
}

fn signature(key: &str, id: &str, seconds: i64, body: &[u8]) -> String {
    let base64 = base64::engine::general_purpose::STANDARD;
    let key = base64.decode(key).unwrap_or_default();
    let signed = [format!("{id}.{seconds}.").as_bytes(), body].concat();
    Hmac::<Sha256>::new_from_slice(&key)
        .map_or_else(|_| String::new(), |mac| base64.encode(mac.chain_update(&signed).finalize().into_bytes()))
}

fn payload(state: &State, spot: Spot, by: &str, news: &News) -> Value {
    let (repository, issue) = state.at(spot);
    let comment = news.comment().and_then(|id| issue.comments.iter().find(|comment| comment.id == id));
    let kind = match (comment, &issue.pull) {
        (Some(_), _) => "note",
        (None, Some(_)) => "merge_request",
        (None, None) if issue.item == "Issue" => "issue",
        (None, None) => "work_item",
    };
    let mut payload = json!({
        "object_kind": kind, "event_type": if issue.confidential { format!("confidential_{kind}") } else { kind.to_owned() },
        "user": user(state, by), "project_id": repository.id, "project": project(state, repository),
    });
    let mut put = |key: &str, value: Value| payload[key] = value;
    match comment {
        Some(comment) => {
            put("object_attributes", note(state, repository, issue, comment, news));
            match &issue.pull {
                Some(pull) => put("merge_request", merge_request(state, repository, issue, pull)),
                None => put("issue", attributes(state, repository, issue)),
            }
        }
        None => {
            let mut object = match &issue.pull {
                Some(pull) => merge_request(state, repository, issue, pull),
                None => attributes(state, repository, issue),
            };
            let merged = issue.pull.as_ref().is_some_and(|pull| pull.merged_as.is_some());
            object["action"] = if merged && matches!(news, News::Closed) { "merge" } else { action(news) }.into();
            if let News::Pushed { before } = news {
                object["oldrev"] = before.as_str().into();
            }
            put("object_attributes", object);
            put("labels", labels(repository, &issue.labels));
            put("changes", changes(state, spot, news));
            if issue.pull.is_some() {
                put("reviewers", verdicts::told(state, spot));
            }
        }
    }
    put(
        "repository",
        json!({ "name": repository.name(), "url": "", "description": null, "homepage": format!("{}/{}", state.base_url, repository.path) }),
    );
    payload
}

fn user(state: &State, login: &str) -> Value {
    json!({ "id": state.user(login).map(|user| user.id), "name": login, "username": login, "avatar_url": null, "email": "[REDACTED]" })
}

fn project(state: &State, repository: &Repository) -> Value {
    let address = format!("{}/{}", state.base_url, repository.path);
    json!({
        "id": repository.id, "name": repository.name(), "description": null, "web_url": address, "avatar_url": null, "git_ssh_url": "",
        "git_http_url": format!("{address}.git"), "namespace": repository.owner(), "visibility_level": if repository.private { 0 } else { 20 },
        "path_with_namespace": repository.path, "default_branch": repository.default_branch, "ci_config_path": "", "homepage": address,
        "url": "", "ssh_url": "", "http_url": format!("{address}.git"),
    })
}

fn labels(repository: &Repository, labels: &[Label]) -> Value {
    let label = |label: &Label| {
        json!({
            "id": label.id, "title": label.name, "color": format!("#{}", label.color), "project_id": repository.id, "template": false,
            "description": Some(&label.description).filter(|text| !text.is_empty()), "type": "ProjectLabel", "group_id": null,
        })
    };
    labels.iter().map(label).collect()
}

/// What issues and merge requests have in common.
fn attributes(state: &State, repository: &Repository, issue: &Issue) -> Value {
    let author = state.user(&issue.author).map(|user| user.id);
    let mut object = json!({
        "id": issue.id, "iid": issue.number, "author_id": author, "title": issue.title, "description": described(issue),
        "created_at": timestamp(issue.created_ms), "updated_at": timestamp(issue.updated_ms), "state": state_of(issue),
        "state_id": if issue.open { 1 } else { 2 }, "labels": labels(repository, &issue.labels), "url": page(state, repository, issue),
        "assignee_id": null, "assignee_ids": [], "milestone_id": null, "updated_by_id": null,
    });
    if issue.pull.is_none() {
        object["project_id"] = repository.id.into();
        object["confidential"] = issue.confidential.into();
        object["type"] = issue.item.into();
        object["moved_to_id"] = issue.moved_to.into();
        object["discussion_locked"] = issue.locked.then_some(true).into();
        object["closed_at"] = (!issue.open).then(|| timestamp(issue.updated_ms)).into();
    }
    object
}

fn merge_request(state: &State, repository: &Repository, issue: &Issue, pull: &Pull) -> Value {
    let draft = state.is_draft(issue, pull);
    let mut object = attributes(state, repository, issue);
    for (key, value) in [
        ("source_branch", json!(pull.head)),
        ("target_branch", json!(pull.base)),
        ("source_project_id", json!(repository.id)),
        ("target_project_id", json!(repository.id)),
        ("draft", json!(draft)),
        ("work_in_progress", json!(draft)),
        ("source", project(state, repository)),
        ("target", project(state, repository)),
        ("last_commit", json!({ "id": repository.head_sha(issue, pull), "message": "", "title": "", "url": "" })),
        ("merge_status", json!("can_be_merged")),
        ("reviewer_ids", json!([])),
    ] {
        object[key] = value;
    }
    object
}

fn note(state: &State, repository: &Repository, issue: &Issue, comment: &Comment, news: &News) -> Value {
    json!({
        "id": comment.id, "note": comment.body, "noteable_type": noteable_type(issue), "author_id": state.user(&comment.author).map(|user| user.id),
        "created_at": timestamp(comment.created_ms), "updated_at": timestamp(comment.updated_ms), "project_id": repository.id, "attachment": null,
        "line_code": null, "type": note_type(comment), "commit_id": "", "noteable_id": issue.id, "system": false, "st_diff": null, "internal": false,
        "action": action(news), "description": comment.body, "url": format!("{}#note_{}", page(state, repository, issue), comment.id),
    })
}

/// Before and after. Closing and reopening repeat the last change of labels, as recorded deliveries do.
fn changes(state: &State, spot: Spot, news: &News) -> Value {
    let (repository, issue) = state.at(spot);
    let pair = |previous: Value, current: Value| json!({ "previous": previous, "current": current });
    let mut changes = json!({});
    match news {
        News::Opened => {
            changes["iid"] = pair(Value::Null, issue.number.into());
        }
        News::Labelled(_) | News::Unlabelled(_) => {}
        News::Closed => changes["state_id"] = pair(1.into(), 2.into()),
        News::Reopened => changes["state_id"] = pair(2.into(), 1.into()),
        News::Edited { title_from, body_from } => {
            if let Some(from) = title_from {
                changes["title"] = pair(from.as_str().into(), issue.title.as_str().into());
            }
            if let Some(from) = body_from {
                changes["description"] = pair(from.as_str().into(), issue.body.as_str().into());
            }
        }
        News::Locked => changes["discussion_locked"] = pair(Value::Null, true.into()),
        News::Reviewed { before } => changes["reviewers"] = pair(before.clone(), verdicts::told(state, spot)),
        News::Commented(_) | News::CommentEdited { .. } | News::Gone(_) | News::Pushed { .. } | News::Approved | News::Unapproved => {}
    }
    if matches!(news, News::Labelled(_) | News::Unlabelled(_) | News::Closed | News::Reopened)
        && let Some(act) = issue.timeline.iter().rfind(|act| matches!(act.did, Did::Labelled(_) | Did::Unlabelled(_)))
    {
        changes["labels"] = pair(labels(repository, &before(issue, act)), labels(repository, &issue.labels));
    }
    changes
}

/// The labels before this act, the last one on them.
fn before(issue: &Issue, act: &Act) -> Vec<Label> {
    match &act.did {
        Did::Labelled(label) => issue.labels.iter().filter(|there| there.id != label.id).cloned().collect(),
        Did::Unlabelled(label) => issue.labels.iter().chain([label]).cloned().collect(),
        _ => issue.labels.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::signature;

    /// The vector of the documentation of Standard Webhooks.
    #[test]
    fn signatures_are_those_of_the_documentation() {
        let body = br#"{"email":"test@example.com","username":"test_user"}"#;
        let signed = signature("C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1_649_367_553, body);
        assert_eq!(signed, "tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
    }
}
