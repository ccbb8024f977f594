//! GitLab's payloads in the one form. One reader serves every age of GitLab, so each field is looked up where it may stand.

use serde_json::Value;

use crate::domain::{Actor, Event, Note, RepoRef, ReviewState, Trigger, Verb, same_label};
use crate::forge::payload::{Asked, Payload, command};

/// What a payload is about: GitLab's `object_kind`, or what its event's name says.
pub(super) fn kind(event: &str, payload: &Payload) -> String {
    let named = ["/object_kind", "/event_type", "/event_name"].iter().map(|place| payload.text_at(place)).find(|name| !name.is_empty());
    let name = named.map_or_else(|| event.trim_end_matches(" Hook").to_lowercase().replace(' ', "_"), str::to_owned);
    match name.strip_prefix("confidential_").unwrap_or(&name) {
        "expiring_access_token" | "resource_access_token" => "access_token".to_owned(),
        name => name.to_owned(),
    }
}

/// Whether only some may see it: a confidential issue, or an internal note.
pub(super) fn is_confidential(event: &str, payload: &Payload) -> bool {
    let by_name = event.starts_with("Confidential ") || payload.text_at("/event_type").starts_with("confidential_");
    by_name
        || ["/object_attributes/confidential", "/object_attributes/internal", "/issue/confidential"].iter().any(|at| payload.is_true(at))
}

/// Who did it.
pub(super) fn actor(payload: &Payload) -> Option<Actor> {
    let login = [payload.text_at("/user/username"), payload.text_at("/user_username")].into_iter().find(|login| !login.is_empty())?;
    let id = [payload.id_at("/user/id"), payload.id_at("/user_id")].into_iter().find(|id| !id.is_empty()).unwrap_or_default();
    Some(Actor { id, login: login.to_owned(), is_bot: is_bot(login) })
}

/// GitLab marks no bot; the users of its access tokens are called `project_5_bot_4ffca233`, `group_5_bot…`, its service accounts
/// `service_account_…`.
pub(super) fn is_bot(login: &str) -> bool {
    let login = login.to_ascii_lowercase();
    let of_token = login.strip_prefix("project_").or_else(|| login.strip_prefix("group_")).is_some_and(|rest| {
        let (number, rest) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let tail = rest.strip_prefix("_bot");
        !number.is_empty() && tail.is_some_and(|tail| tail.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'_'))
    });
    of_token || login.starts_with("service_account_") || login.ends_with("[bot]")
}

/// Whether a list of labels has this one.
pub(super) fn has_label(labels: &Value, label: &str) -> bool {
    labels.as_array().is_some_and(|labels| {
        labels.iter().any(|one| {
            let title = one["title"].as_str().or_else(|| one["name"].as_str()).or_else(|| one.as_str());
            title.is_some_and(|title| same_label(title, label))
        })
    })
}

/// The reviewer who now wants changes and did not before.
pub(super) fn wants_changes(payload: &Payload) -> bool {
    let wanting = |at: &str| {
        let reviewers = payload.at(at).as_array().cloned().unwrap_or_default();
        reviewers.into_iter().filter(|one| one["state"] == "requested_changes").map(|one| one["username"].clone()).collect::<Vec<_>>()
    };
    let before = wanting("/changes/reviewers/previous");
    wanting("/changes/reviewers/current").iter().any(|reviewer| !before.contains(reviewer))
}

/// Whether a merge request's title makes it a draft.
pub(super) fn is_draft_title(title: &str) -> bool {
    const PREFIXES: [&str; 3] = ["Draft:", "[Draft]", "(Draft)"];
    PREFIXES.iter().any(|prefix| title.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)))
}

/// The event in the one form. What is ignored may be as odd as it likes; what asks for something must name its project and issue.
pub(super) fn event(forge: &str, kind: &str, payload: &Payload, (verb, why): Asked) -> Result<Event, String> {
    let about_pull_request = kind == "merge_request" || (kind == "note" && payload.has("/merge_request"));
    let repository = repository(forge, payload);
    let trigger = repository.as_ref().and_then(|repo| trigger(repo, kind, payload));
    if repository.is_none() && !matches!(verb, Verb::Ignore | Verb::Admin) {
        return Err("the payload has no `project` with `id` and `path_with_namespace`".to_owned());
    }
    if trigger.is_none() && !matches!(verb, Verb::Ignore | Verb::Admin) {
        return Err("the payload names no issue (`iid`)".to_owned());
    }
    let note = matches!(verb, Verb::Command | Verb::Feedback).then(|| note(kind, payload));
    let said = note.as_ref().filter(|_| verb == Verb::Command).and_then(|note| command(&note.text));
    Ok(Event { verb, why, repository, trigger, about_pull_request, command: said, note, actor: actor(payload) })
}

fn repository(forge: &str, payload: &Payload) -> Option<RepoRef> {
    let ids = ["/project/id", "/project_id", "/object_attributes/target_project_id", "/object_attributes/project_id"];
    let id = ids.iter().map(|at| payload.id_at(at)).find(|id| !id.is_empty())?;
    let paths = ["/project/path_with_namespace", "/object_attributes/target/path_with_namespace"];
    let path = paths.iter().map(|at| payload.text_at(at)).find(|path| !path.is_empty())?;
    Some(RepoRef { forge: forge.to_owned(), id, path: path.to_owned() })
}

fn trigger(repo: &RepoRef, kind: &str, payload: &Payload) -> Option<Trigger> {
    let place = match kind {
        "note" if payload.has("/merge_request") => "/merge_request",
        "note" => "/issue",
        "issue" | "work_item" | "merge_request" => "/object_attributes",
        _ => return None,
    };
    let at = |field: &str| format!("{place}/{field}");
    Some(Trigger {
        repo: repo.clone(),
        number: payload.id_at(&at("iid")).parse().ok()?,
        title: payload.text_at(&at("title")).to_owned(),
        body: payload.text_at(&at("description")).to_owned(),
        url: payload.text_at(&at("url")).to_owned(),
    })
}

fn note(kind: &str, payload: &Payload) -> Note {
    if kind == "note" {
        return Note {
            id: payload.id_at("/object_attributes/id"),
            text: payload.text_at("/object_attributes/note").to_owned(),
            review: None,
        };
    }
    let review = if wants_changes(payload) { ReviewState::ChangesRequested } else { ReviewState::Approved };
    Note { id: String::new(), text: String::new(), review: Some(review) }
}

#[cfg(test)]
mod tests {
    use super::{is_bot, is_draft_title, kind};
    use crate::forge::payload::Payload;

    #[test]
    fn users_of_tokens_are_bots_and_people_are_not() {
        for login in ["project_5_bot_4ffca233d8298ea1", "group_12_bot_aa", "project_5_bot", "project_5_bot1", "Service_Account_x", "a[bot]"]
        {
            assert!(is_bot(login), "{login}");
        }
        for login in ["dev-a", "project_bot", "project_x_bot", "project_5_bottle", "my_project_5_bot", "robot", ""] {
            assert!(!is_bot(login), "{login}");
        }
    }

    #[test]
    fn the_kind_is_in_the_body_or_else_in_the_header() {
        let of = |event: &str, body: &str| kind(event, &Payload::parse(body.as_bytes()).unwrap());
        assert_eq!(of("System Hook", r#"{"object_kind": "merge_request"}"#), "merge_request");
        assert_eq!(of("Issue Hook", r#"{"event_type": "confidential_issue"}"#), "issue");
        assert_eq!(of("Confidential Note Hook", "{}"), "note");
        assert_eq!(of("Resource Access Token Hook", r#"{"object_kind": null}"#), "access_token");
        assert_eq!(of("", "{}"), "");
    }

    #[test]
    fn a_draft_says_so_first() {
        assert!(["Draft: x", "draft:x", "[Draft] x", "(draft) x"].into_iter().all(is_draft_title));
        assert!(!["", "x Draft: y", "Drafty", "WIP: x", "ü"].into_iter().any(is_draft_title));
    }
}
