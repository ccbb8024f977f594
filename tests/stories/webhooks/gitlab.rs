//! What GitLab's deliveries prove and ask, beyond the samples.

use super::*;

const KEY: &str = "whsec_L4iU2Q/7dWAJKEZMeDkggoTIaHZx3IMcwmZ6euBKpFU=";

fn signing_rows() -> Vec<(String, String)> {
    let of_first = |row: &Vec<String>| row[2].starts_with("webhook-") && row[0].ends_with("added_2026.json");
    table("signatures.tsv", 4).into_iter().filter(of_first).map(|row| (row[2].clone(), row[3].clone())).collect()
}

fn verify(secrets: &[&str], list: &[(String, String)]) -> Result<String, NotVerified> {
    let body = fixture("gitlab/issue_update_label_added_2026.json");
    inbound_with("gitlab", secrets).unwrap().verify(&Headers(list.to_vec()), &body).map(|delivery| delivery.id().to_owned())
}

#[test]
fn each_kind_of_secret_that_is_configured_is_demanded() {
    let signature = signing_rows();
    let token = [("X-Gitlab-Token".to_owned(), SECRET.to_owned())];
    let both = [&signature[..], &token[..]].concat();
    assert!(verify(&[SECRET], &token).is_ok() && verify(&[KEY], &signature).is_ok());
    assert!(verify(&[SECRET], &both).is_ok() && verify(&[KEY], &both).is_ok() && verify(&[SECRET, KEY], &both).is_ok());
    assert_eq!(verify(&[SECRET, KEY], &token), Err(NotVerified::Missing), "the token alone crosses the network in plain text");
    assert_eq!(verify(&[SECRET, KEY], &signature), Err(NotVerified::Missing));
    assert_eq!(verify(&[KEY], &token), Err(NotVerified::Missing));
}

#[test]
fn one_of_several_signatures_is_enough_and_every_part_is_signed() {
    let rows = signing_rows();
    let with = |name: &str, change: &dyn Fn(&str) -> String| -> Vec<(String, String)> {
        rows.iter().map(|(key, value)| (key.clone(), if key == name { change(value) } else { value.clone() })).collect()
    };
    assert!(verify(&[KEY], &with("webhook-signature", &|value| format!("v1,AAAA v1a,xyz {value}"))).is_ok());
    assert!(verify(&["whsec_AAAA", KEY], &rows).is_ok(), "while the secret is replaced");
    assert_eq!(verify(&["whsec_AAAA"], &rows), Err(NotVerified::Wrong));
    assert_eq!(verify(&[KEY], &with("webhook-signature", &|value| value.replace("v1,", "v1,="))), Err(NotVerified::Wrong));
    assert_eq!(verify(&[KEY], &with("webhook-id", &|value| format!("{value}0"))), Err(NotVerified::Wrong));
    assert_eq!(verify(&[KEY], &with("webhook-timestamp", &|_| "1767225601".to_owned())), Err(NotVerified::Wrong));
    assert_eq!(verify(&[KEY], &with("webhook-timestamp", &|_| "soon".to_owned())), Err(NotVerified::Stale));
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        assert_eq!(verify(&[KEY], &with(name, &|_| String::new())), Err(NotVerified::Missing), "{name}");
        let without: Vec<_> = rows.iter().filter(|(key, _)| key != name).cloned().collect();
        assert_eq!(verify(&[KEY], &without), Err(NotVerified::Missing), "{name}");
    }
}

#[test]
fn a_signing_secret_must_be_one() {
    for broken in ["whsec_", "whsec_not base64!"] {
        let complaint = inbound_with("gitlab", &[broken]).err().unwrap();
        assert!(complaint.contains("copy it again") && !complaint.contains("not base64!"), "{complaint}");
    }
}

#[test]
fn a_resend_has_the_same_id_with_and_without_the_header() {
    let token = ("X-Gitlab-Token".to_owned(), SECRET.to_owned());
    let uuid = |uuid: &str| ("X-Gitlab-Event-UUID".to_owned(), uuid.to_owned());
    let key = |key: &str| ("Idempotency-Key".to_owned(), key.to_owned());
    assert_eq!(verify(&[SECRET], &[token.clone(), uuid("a"), key("k")]).unwrap(), "k");
    assert_eq!(verify(&[SECRET], &[token.clone(), uuid("a")]), verify(&[SECRET], &[token, uuid("b")]));
    let signed = [signing_rows(), vec![key("not signed")]].concat();
    assert_eq!(verify(&[KEY], &signed).unwrap(), "5f1d7a3e-0000-4000-8000-000000000001", "the signed id is the one");
}

fn verb(event: &str, payload: &Value) -> (Verb, String) {
    let read = read_value("gitlab", event, payload).unwrap();
    (read.verb, read.why)
}

#[test]
fn what_happens_to_issues() {
    const ADDED: &str = "gitlab/issue_update_label_added_2026.json";
    const OPENED: &str = "gitlab/issue_open_with_trigger.json";
    let label = |title: &str| json!([{"title": title}]);
    let cases: Vec<Case> = vec![
        (ADDED, vec![("/object_kind", json!("work_item"))], Verb::Start, "was added"),
        (ADDED, vec![("/object_kind", json!("work_item")), ("/object_attributes/type", Value::Null)], Verb::Recheck, "does not say"),
        (ADDED, vec![("/object_attributes/type", json!("Incident"))], Verb::Ignore, "`Incident`"),
        (ADDED, vec![("/object_kind", Value::Null), ("/event_type", Value::Null)], Verb::Start, "was added"),
        (ADDED, vec![("/user/username", json!("project_9_bot_00ff"))], Verb::Ignore, "a bot"),
        (ADDED, vec![("/user/username", json!("group_9_bot_00ff"))], Verb::Ignore, "a bot"),
        (ADDED, vec![("/user", Value::Null)], Verb::Start, "was added"),
        (ADDED, vec![("/user/username", json!("FROGNANO-bot"))], Verb::Ignore, "our own account"),
        (ADDED, vec![("/changes/labels/current", label(" Frognano-FIX "))], Verb::Start, "was added"),
        (ADDED, vec![("/changes/labels/current", label("scope::frognano-fix"))], Verb::Ignore, "not `frognano-fix`"),
        (ADDED, vec![("/changes/labels/current", Value::Null)], Verb::Ignore, "not `frognano-fix`"),
        (ADDED, vec![("/changes/labels/previous", Value::Null)], Verb::Start, "was added"),
        (ADDED, vec![("/changes/labels/previous", label("FROGNANO-FIX"))], Verb::Ignore, "there before"),
        (ADDED, vec![("/changes", json!({"title": {"previous": "a", "current": "b"}}))], Verb::Ignore, "not its labels"),
        (ADDED, vec![("/changes", Value::Null)], Verb::Ignore, "not its labels"),
        (ADDED, vec![("/changes", json!({"discussion_locked": {"previous": null, "current": true}}))], Verb::Cancel, "locked"),
        (ADDED, vec![("/changes", json!({"discussion_locked": {"previous": true, "current": false}}))], Verb::Ignore, "not its labels"),
        (ADDED, vec![("/changes", json!({"confidential": {"previous": false, "current": true}}))], Verb::Cancel, "became confidential"),
        (ADDED, vec![("/object_attributes/confidential", json!(true))], Verb::Ignore, "confidential"),
        (ADDED, vec![("/event_type", json!("confidential_issue"))], Verb::Ignore, "confidential"),
        (ADDED, vec![("/object_attributes/action", json!("close")), ("/object_attributes/moved_to_id", json!(9))], Verb::Cancel, "moved"),
        (ADDED, vec![("/object_attributes/action", json!("reopen"))], Verb::Ignore, "reopening"),
        (ADDED, vec![("/object_attributes/action", json!("promote"))], Verb::Ignore, "`promote`"),
        (ADDED, vec![("/object_attributes/action", Value::Null)], Verb::Ignore, "no action"),
        (OPENED, vec![("/labels", Value::Null), ("/object_attributes/labels", label("frognano-fix"))], Verb::Start, "opened with"),
        (OPENED, vec![("/labels", json!([])), ("/object_attributes/labels", json!([]))], Verb::Ignore, "opened without"),
        (OPENED, vec![("/user/username", json!("project_9_bot_00ff"))], Verb::Ignore, "a bot"),
    ];
    all_hold("gitlab", "Issue Hook", cases);
    let of_confidential = read_value("gitlab", "Confidential Issue Hook", &changed(ADDED, &[("/event_type", Value::Null)])).unwrap();
    assert_eq!(of_confidential.verb, Verb::Ignore);
}

#[test]
fn what_is_written_on_issues_and_merge_requests() {
    const NOTE: &str = "gitlab/note_issue_command.json";
    const ON_REQUEST: &str = "gitlab/note_merge_request.json";
    let cases: Vec<Case> = vec![
        (NOTE, vec![("/object_attributes/action", Value::Null)], Verb::Command, "/frognano retry"),
        (NOTE, vec![("/object_attributes/system", json!(true))], Verb::Ignore, "GitLab wrote"),
        (NOTE, vec![("/object_attributes/internal", json!(true))], Verb::Ignore, "internal"),
        (NOTE, vec![("/event_type", json!("confidential_note"))], Verb::Ignore, "internal"),
        (NOTE, vec![("/issue/confidential", json!(true))], Verb::Ignore, "confidential"),
        (NOTE, vec![("/issue/type", json!("Task"))], Verb::Ignore, "`Task`"),
        (NOTE, vec![("/object_attributes/noteable_type", json!("Commit"))], Verb::Ignore, "`Commit`"),
        (NOTE, vec![("/user/username", json!("frognano-bot"))], Verb::Ignore, "our own account"),
        (NOTE, vec![("/object_attributes/note", json!("```\n/frognano retry\n```"))], Verb::Ignore, "whole first line"),
        (ON_REQUEST, vec![("/object_attributes/note", json!("/frognano revise\nmore tests"))], Verb::Command, "/frognano revise"),
        (ON_REQUEST, vec![("/object_attributes/action", json!("update"))], Verb::Ignore, "only new notes"),
    ];
    all_hold("gitlab", "Note Hook", cases);
    let read = read_value("gitlab", "Note Hook", &sample(ON_REQUEST)).unwrap();
    assert!(read.about_pull_request && read.note.is_some_and(|note| note.id == "1244" && note.text == "This MR needs work."));
    assert_eq!(read.trigger.map(|trigger| trigger.number), Some(1));
}

#[test]
fn what_happens_to_merge_requests() {
    const CHANGED: &str = "gitlab/merge_request_label_added_trigger.json";
    const APPROVED: &str = "gitlab/merge_request_approved.json";
    let titles = |before: &str, after: &str| json!({"title": {"previous": before, "current": after}});
    let reviewer = |state: &str| json!([{"username": "dev-a", "state": state}]);
    let reviewers = |before: &str, after: &str| json!({"reviewers": {"previous": reviewer(before), "current": reviewer(after)}});
    let cases: Vec<Case> = vec![
        (CHANGED, vec![("/changes", titles("Draft: x", "x"))], Verb::Finish, "no draft any more"),
        (CHANGED, vec![("/changes", titles("[Draft] x", "Draft: x"))], Verb::Ignore, "not used"),
        (CHANGED, vec![("/changes", titles("x", "y"))], Verb::Ignore, "not used"),
        (CHANGED, vec![("/changes", json!({"draft": {"previous": true, "current": false}}))], Verb::Finish, "no draft any more"),
        (CHANGED, vec![("/changes", json!({"draft": {"previous": false, "current": true}}))], Verb::Ignore, "not used"),
        (CHANGED, vec![("/changes", reviewers("unreviewed", "requested_changes"))], Verb::Feedback, "wants a merge request changed"),
        (CHANGED, vec![("/changes", reviewers("requested_changes", "requested_changes"))], Verb::Ignore, "not used"),
        (CHANGED, vec![("/object_attributes/action", json!("reopen"))], Verb::Ignore, "`reopen`"),
        (APPROVED, vec![("/object_attributes/action", json!("approval"))], Verb::Feedback, "approved"),
        (APPROVED, vec![("/object_attributes/action", json!("unapproved"))], Verb::Ignore, "`unapproved`"),
        (APPROVED, vec![("/user/username", json!("project_9_bot_00ff"))], Verb::Ignore, "a bot"),
        ("gitlab/system_hook_merge_request.json", vec![("/object_attributes/action", json!("merge"))], Verb::Finish, "merged"),
    ];
    all_hold("gitlab", "System Hook", cases);
    let read = read_value("gitlab", "Merge Request Hook", &sample(APPROVED)).unwrap();
    assert!(read.about_pull_request && read.trigger.is_some_and(|pull| pull.number == 3));
}

#[test]
fn hooks_of_groups_and_the_instance_and_odd_payloads_are_read() {
    for (event, payload) in [
        ("System Hook", json!({"event_name": "project_create", "path_with_namespace": "a/b"})),
        ("Subgroup Hook", json!({"event_name": "subgroup_create"})),
        ("Pipeline Hook", json!({"object_kind": "pipeline"})),
        ("", json!({})),
        ("Issue Hook", json!({"object_kind": 7, "object_attributes": []})),
        ("Note Hook", json!({"object_kind": "note", "object_attributes": null})),
    ] {
        assert_eq!(verb(event, &payload).0, Verb::Ignore, "{event} {payload}");
    }
    let (asked, why) = verb("Resource Access Token Hook", &sample("gitlab/access_token_expiring.json"));
    assert!(asked == Verb::Admin && why.contains("2024-01-26"), "{why}");
    let nested = changed(
        "gitlab/issue_update_label_added_2026.json",
        &[
            ("/project/path_with_namespace", json!("a/b/c/d")),
            ("/project/id", json!("80222147")),
            ("/object_attributes/iid", json!("5000000000")),
            ("/object_attributes/description", Value::Null),
        ],
    );
    let trigger = read_value("gitlab", "Issue Hook", &nested).unwrap().trigger.unwrap();
    assert_eq!((&*trigger.repo.path, &*trigger.repo.id, trigger.number, &*trigger.body), ("a/b/c/d", "80222147", 5_000_000_000, ""));
    for (changes, words) in [(("/project", Value::Null), "no `project`"), (("/object_attributes/iid", Value::Null), "names no issue")] {
        let broken = changed("gitlab/issue_update_label_added_2026.json", &[changes, ("/object_attributes/project_id", Value::Null)]);
        assert!(read_value("gitlab", "Issue Hook", &broken).unwrap_err().contains(words));
    }
    assert!(read("gitlab", "Issue Hook", "x.json", b"custom template").unwrap_err().contains("not JSON"));
}
