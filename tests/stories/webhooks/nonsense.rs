//! Payloads of any shape: none breaks a reader, none starts something without an issue.

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_oneof, proptest};

use super::*;

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "labeled",
        "label_updated",
        "opened",
        "closed",
        "created",
        "reviewed",
        "edited",
        "issue",
        "note",
        "merge_request",
        "update",
        "open",
        "close",
        "Issue",
        "/frognano retry",
        LABEL,
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "action",
        "issue",
        "label",
        "labels",
        "comment",
        "pull_request",
        "repository",
        "sender",
        "number",
        "id",
        "name",
        "full_name",
        "login",
        "user",
        "body",
        "title",
        "changes",
        "old_issue",
        "type",
        "draft",
        "object_kind",
        "object_attributes",
        "iid",
        "project",
        "path_with_namespace",
        "previous",
        "current",
        "noteable_type",
        "note",
    ]);
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(keys.clone().prop_map(str::to_owned), inner, 0..8).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_event() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "issues",
        "issue_comment",
        "pull_request",
        "pull_request_review",
        "pull_request_comment",
        "label",
        "installation",
        "push",
        "Issue Hook",
        "Note Hook",
        "Merge Request Hook",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_json_makes_it_panic_or_start_without_an_issue(payload in any_json(), event in any_event()) {
        for kind in FORGES {
            if let Ok(read) = read_value(kind, event, &payload) {
                let needs_issue = matches!(read.verb, Verb::Start | Verb::Cancel | Verb::Command | Verb::Feedback | Verb::Finish);
                prop_assert!(!needs_issue || read.trigger.is_some());
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(body in any::<Vec<u8>>(), event in any_event(), form in any::<bool>()) {
        let content = if form { "application/x-www-form-urlencoded" } else { "application/json" };
        let digest = hmac_sha256_hex(SECRET.as_bytes(), &body);
        for kind in FORGES {
            let headers = headers(&[
                ("x-gitlab-token", SECRET),
                ("x-gitlab-event", event),
                ("content-type", content),
                ("x-hub-signature-256", &format!("sha256={digest}")),
                ("x-github-event", event),
            ]);
            let inbound = inbound(kind);
            if let Ok(delivery) = inbound.verify(&headers, &body) {
                let _ = inbound.event(&delivery);
            }
        }
    }
}
