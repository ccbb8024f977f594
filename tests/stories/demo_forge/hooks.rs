use std::path::Path;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use frognano_bot::demo::Kind;
use frognano_bot::demo::forge::{Delivery, deliver};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{SECRET, Stage, sample};

fn signature(body: &[u8]) -> String {
    hex::encode(Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap().chain_update(body).finalize().into_bytes())
}

fn json_of(delivery: &Delivery) -> Value {
    serde_json::from_slice(&delivery.body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn gitea_signs_the_bytes_and_names_no_label() {
    let stage = Stage::new(Kind::Gitea).await;
    let opened = stage.forge().open_issue(sample::PATH, "rita", "Bug", "Text", &[]).unwrap();
    assert_eq!(opened.deliveries.iter().map(|delivery| delivery.what.as_str()).collect::<Vec<_>>(), ["issues opened"]);
    let deliveries = stage.forge().set_label(sample::PATH, 1, "frognano-fix", "wren").unwrap();
    let [delivery] = deliveries.as_slice() else { panic!("one hook, one delivery") };
    let expected = signature(&delivery.body);
    assert_eq!(delivery.header("X-Gitea-Signature"), Some(expected.as_str()));
    assert_eq!(delivery.header("X-Hub-Signature-256"), Some(format!("sha256={expected}").as_str()));
    assert_eq!((delivery.header("X-Gitea-Event"), delivery.header("X-Gitea-Event-Type")), (Some("issues"), Some("issue_label")));
    assert!(delivery.body.starts_with(b"{\n  \"action\": \"label_updated\""));
    let payload = json_of(delivery);
    assert_eq!(payload["issue"]["labels"][0]["name"], "frognano-fix");
    assert_eq!((&payload["sender"]["login"], &payload["label"]), (&json!("wren"), &json!(null)));
    assert_eq!(payload["repository"]["full_name"], sample::PATH);

    let again = stage.forge().set_label(sample::PATH, 1, "frognano-fix", "wren").unwrap();
    assert_eq!(again.len(), 1, "Gitea tells of a label that was there already");
    assert_ne!(again[0].id, delivery.id);
    assert!(stage.forge().remove_label(sample::PATH, 1, "other", "wren").unwrap().is_empty());
    assert_eq!(stage.forge().remove_label(sample::PATH, 1, "frognano-fix", "wren").unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn github_signs_the_bytes_and_names_the_label() {
    let stage = Stage::new(Kind::GitHub).await;
    let opened = stage.forge().open_issue(sample::PATH, "rita", "Bug", "Text", &["frognano-fix"]).unwrap();
    let what: Vec<_> = opened.deliveries.iter().map(|delivery| delivery.what.as_str()).collect();
    assert_eq!(what, ["issues opened", "issues labeled"]);
    let delivery = &opened.deliveries[1];
    assert_eq!(delivery.header("X-Hub-Signature-256"), Some(format!("sha256={}", signature(&delivery.body)).as_str()));
    assert_eq!((delivery.header("X-GitHub-Event"), delivery.header("X-GitHub-Delivery")), (Some("issues"), Some(delivery.id.as_str())));
    assert!(delivery.body.starts_with(b"{\"action\":\"labeled\""));
    let payload = json_of(delivery);
    assert_eq!((&payload["label"]["name"], &payload["sender"]["type"]), (&json!("frognano-fix"), &json!("User")));
    assert!(stage.forge().set_label(sample::PATH, 1, "FROGNANO-fix", "wren").unwrap().is_empty(), "it was there already");

    let edited = stage.forge().edit_issue(sample::PATH, 1, "Bug", "Other text", "rita").unwrap();
    assert_eq!(json_of(&edited[0])["changes"], json!({ "body": { "from": "Text" } }));
    let command = stage.forge().write_comment(sample::PATH, 1, "/frognano retry", "wren").unwrap();
    assert_eq!(command[0].header("X-GitHub-Event"), Some("issue_comment"));
    assert_eq!(stage.forge().close_issue(sample::PATH, 1, "wren").unwrap()[0].what, "issues closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_bot_does_through_the_api_is_told_to_the_hooks_too() {
    let stage = Stage::new(Kind::GitHub).await;
    let _ = stage.forge().open_issue(sample::PATH, "rita", "Bug", "Text", &[]).unwrap();
    assert_eq!(stage.call("POST", "issues/1/comments", "frognano", Some(json!({ "body": "Working on it" }))).await.0, 201);
    let told = stage.forge().take_deliveries();
    assert_eq!((told.len(), json_of(&told[0])["sender"]["type"].clone()), (1, json!("Bot")));
    assert!(stage.forge().take_deliveries().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_arrives_byte_for_byte() {
    let stage = Stage::new(Kind::Gitea).await;
    let deliveries = stage.forge().open_issue(sample::PATH, "rita", "Bug 🐸", "Text", &[]).unwrap().deliveries;
    let check = |headers: HeaderMap, body: Bytes| async move {
        let matches = headers["x-gitea-signature"] == signature(&body) && headers["content-type"] == "application/json";
        if matches { StatusCode::ACCEPTED } else { StatusCode::UNAUTHORIZED }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhooks/demo", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, Router::new().route("/webhooks/{name}", post(check))).await });
    assert_eq!(deliver(&deliveries[0], &url).await.unwrap(), 202);
    server.abort();
}

/// Every field that the recorded deliveries of the real forges have, and that readers use, has the same type here.
#[tokio::test(flavor = "multi_thread")]
async fn payloads_have_the_types_of_recorded_ones() {
    const COMMON: [&str; 15] = [
        "/action",
        "/issue/id",
        "/issue/number",
        "/issue/title",
        "/issue/body",
        "/issue/state",
        "/issue/user/id",
        "/issue/user/login",
        "/issue/labels/0/name",
        "/issue/html_url",
        "/repository/id",
        "/repository/full_name",
        "/repository/archived",
        "/sender/id",
        "/sender/login",
    ];
    const OF_GITLAB: [&str; 21] = [
        "/object_kind",
        "/event_type",
        "/user/id",
        "/user/username",
        "/project/id",
        "/project/path_with_namespace",
        "/project/default_branch",
        "/project/namespace",
        "/object_attributes/id",
        "/object_attributes/iid",
        "/object_attributes/action",
        "/object_attributes/title",
        "/object_attributes/description",
        "/object_attributes/state",
        "/object_attributes/confidential",
        "/object_attributes/type",
        "/object_attributes/url",
        "/object_attributes/moved_to_id",
        "/labels/0/title",
        "/changes/labels/current/0/title",
        "/changes/labels/previous",
    ];
    for (kind, file, pointers) in [
        (Kind::Gitea, "gitea/issues_label_updated_trigger.json", [&COMMON[..], &["/number", "/repository/permissions/push"]].concat()),
        (Kind::Forgejo, "forgejo/issues_label_updated_trigger.json", [&COMMON[..], &["/number", "/repository/permissions/push"]].concat()),
        (
            Kind::GitHub,
            "github/issues_labeled_trigger.json",
            [&COMMON[..], &["/label/id", "/sender/type", "/issue/author_association"]].concat(),
        ),
        (Kind::GitLab, "gitlab/issue_update_label_added_2026.json", OF_GITLAB.to_vec()),
    ] {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/webhooks").join(file);
        let recorded: Value = serde_json::from_slice(&std::fs::read(recorded).unwrap()).unwrap();
        let stage = Stage::new(kind).await;
        stage.forge().open_issue(sample::PATH, "rita", "Bug", "Text", &["other"]).unwrap();
        let sent = json_of(&stage.forge().set_label(sample::PATH, 1, "frognano-fix", "wren").unwrap()[0]);
        for pointer in pointers {
            let kind_of = |value: &Value| value.pointer(pointer).map(std::mem::discriminant);
            assert!(kind_of(&recorded).is_some() && kind_of(&sent) == kind_of(&recorded), "{file} {pointer}");
        }
    }
}
