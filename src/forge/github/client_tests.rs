//! Tests of the client against prepared answers in GitHub's own shapes.

use serde_json::{Value, json};

use super::Client;
use crate::domain::Permission;
use crate::forge::canned::{Canned, Reply, TOKEN, answer, repo};
use crate::forge::{Forge as _, ForgeError, LabelSpec, NewDraft};

const LABEL: LabelSpec = LabelSpec { name: "needs-human-review", color: "fbca04", description: "A human must review it." };

async fn client(replies: Vec<Reply>) -> (Client, Canned) {
    let canned = Canned::new(replies).await;
    (Client::new(canned.settings.clone()).unwrap(), canned)
}

#[tokio::test]
async fn every_request_says_who_asks_and_in_which_version() {
    let (client, canned) = client(vec![answer(200, r#"{"id": 302, "login": "frognano[bot]", "type": "Bot"}"#)]).await;
    assert!(client.myself().await.unwrap().is_bot);
    let seen = &canned.seen()[0];
    assert_eq!(seen.header("authorization"), Some(&*format!("Bearer {TOKEN}")));
    assert_eq!(seen.header("x-github-api-version"), Some("2022-11-28"));
    assert_eq!(seen.header("accept"), Some("application/vnd.github+json"));
}

#[tokio::test]
async fn moved_gone_and_hidden_issues_are_not_found() {
    let moved = Reply::Answer(301, vec![("location", "https://api.github.com/repositories/1/issues/2".into())], vec![]);
    let (client, _canned) = client(vec![moved, answer(404, ""), answer(410, "")]).await;
    for _ in 0..3 {
        assert!(matches!(client.issue(&repo(), 5).await.unwrap_err(), ForgeError::NotFound { .. }));
    }
}

#[tokio::test]
async fn the_last_one_who_put_the_label_on_is_found_in_the_events() {
    let first = (0..100).map(
        |id| json!({"id": id, "event": "labeled", "label": {"name": "frognano-fix"}, "actor": {"id": 1, "login": "first", "type": "User"}}),
    );
    let first = Value::from(first.collect::<Vec<_>>()).to_string();
    let last = r#"[{"id": 200, "event": "labeled", "label": {"name": "Frognano-fix", "color": "x"}, "actor": {"id": 2, "login": "app[bot]", "type": "Bot"}},
        {"id": 201, "event": "unlabeled", "label": {"name": "frognano-fix"}, "actor": {"id": 3, "login": "third", "type": "User"}},
        {"id": 202, "event": "labeled", "label": {"name": "other"}, "actor": {"id": 3, "login": "third", "type": "User"}},
        {"id": 203, "event": "closed", "actor": null}]"#;
    let ghost = r#"[{"id": 204, "event": "labeled", "label": {"name": "frognano-fix"}, "actor": null}]"#;
    let (client, canned) = client(vec![answer(200, &first), answer(200, last), answer(200, &first), answer(200, ghost)]).await;
    let set = client.label_set(&repo(), 5, "frognano-fix").await.unwrap().unwrap();
    assert_eq!((&*set.by.login, set.by.is_bot, &*set.episode), ("app[bot]", true, "200"));
    assert_eq!(client.label_set(&repo(), 5, "frognano-fix").await.unwrap(), None, "whoever did it last is not known");
    assert_eq!(canned.lines()[1], "GET /api/repos/o/n/issues/5/events?per_page=100&page=2");
}

#[tokio::test]
async fn permission_is_none_for_strangers_and_an_error_for_a_narrow_token() {
    let says = |word: &str| answer(200, &format!(r#"{{"permission": "{word}", "role_name": "maintain"}}"#));
    let (client, _canned) = client(vec![
        says("admin"),
        says("write"),
        says("read"),
        says("none"),
        answer(404, ""),
        answer(403, r#"{"message": "Resource not accessible by integration"}"#),
    ])
    .await;
    for expected in [Permission::Admin, Permission::Write, Permission::Read, Permission::None, Permission::None] {
        assert_eq!(client.permission(&repo(), "dev-a").await.unwrap(), expected);
    }
    assert!(matches!(client.permission(&repo(), "dev-a").await.unwrap_err(), ForgeError::Denied { .. }));
}

#[tokio::test]
async fn a_missing_label_is_made_with_its_colour_first() {
    let exists =
        answer(422, r#"{"message": "Validation Failed", "errors": [{"resource": "Label", "code": "already_exists", "field": "name"}]}"#);
    for made in [answer(201, "{}"), exists] {
        let (client, canned) = client(vec![answer(404, ""), made, answer(200, "[]")]).await;
        client.add_label(&repo(), 5, LABEL).await.unwrap();
        assert_eq!(
            canned.lines(),
            ["GET /api/repos/o/n/labels/needs-human-review", "POST /api/repos/o/n/labels", "POST /api/repos/o/n/issues/5/labels"]
        );
        let sent: Value = serde_json::from_str(&canned.seen()[1].body).unwrap();
        assert_eq!(sent, json!({"name": "needs-human-review", "color": "fbca04", "description": "A human must review it."}));
        assert_eq!(canned.seen()[2].body, r#"{"labels":["needs-human-review"]}"#);
    }
    let (client, canned) = client(vec![answer(200, r#"{"id": 1, "name": "needs-human-review"}"#), answer(200, "[]")]).await;
    client.add_label(&repo(), 5, LABEL).await.unwrap();
    assert_eq!(canned.lines().len(), 2);
}

#[tokio::test]
async fn a_label_that_is_not_there_comes_off() {
    let (client, canned) = client(vec![answer(404, ""), answer(200, "[]")]).await;
    client.remove_label(&repo(), 5, "a b/c").await.unwrap();
    client.remove_label(&repo(), 5, "a b/c").await.unwrap();
    assert_eq!(canned.lines()[1], "DELETE /api/repos/o/n/issues/5/labels/a%20b%2Fc");
}

fn pull(number: i64, head_repo: &str, draft: bool) -> String {
    format!(
        r#"{{"number": {number}, "title": "t", "html_url": "http://x/{number}", "draft": {draft}, "head": {{"ref": "frognano/issue-5-r", "sha": "abc", "repo": {head_repo}}}}}"#
    )
}

#[tokio::test]
async fn our_pull_request_is_found_by_branch_and_repository() {
    let rows = format!("[{}, {}, {}]", pull(1, "null", true), pull(2, r#"{"id": 8}"#, true), pull(3, r#"{"id": 7}"#, true));
    let (client, canned) = client(vec![answer(200, &rows), answer(200, "[]")]).await;
    assert_eq!(client.find_pull_request(&repo(), "frognano/issue-5-r").await.unwrap().unwrap().number, 3);
    assert_eq!(client.find_pull_request(&repo(), "frognano/issue-5-r").await.unwrap(), None);
    assert_eq!(canned.lines()[0], "GET /api/repos/o/n/pulls?state=open&head=o%3Afrognano%2Fissue-5-r&per_page=100&page=1");
}

#[tokio::test]
async fn a_draft_is_asked_for_and_refusals_are_told() {
    let draft = NewDraft { head: "frognano/issue-5-r".into(), base: "main".into(), title: "t".into(), body: "b".into() };
    let unsupported = answer(422, r#"{"message": "Draft pull requests are not supported in this repository.", "errors": []}"#);
    let exists = answer(
        422,
        r#"{"message": "Validation Failed", "errors": [{"resource": "PullRequest", "code": "custom", "message": "A pull request already exists for o:b."}]}"#,
    );
    let (client, canned) =
        client(vec![answer(201, &pull(3, r#"{"id": 7}"#, true)), answer(201, &pull(4, r#"{"id": 7}"#, false)), unsupported, exists]).await;
    assert!(client.open_draft(&repo(), &draft).await.unwrap().draft);
    assert!(!client.open_draft(&repo(), &draft).await.unwrap().draft);
    for words in ["Draft pull requests are not supported", "already exists"] {
        let error = client.open_draft(&repo(), &draft).await.unwrap_err();
        assert!(matches!(&error, ForgeError::Rejected { message, .. } if message.contains(words)), "{error:?}");
    }
    let sent: Value = serde_json::from_str(&canned.seen()[0].body).unwrap();
    assert_eq!(sent, json!({"head": "frognano/issue-5-r", "base": "main", "title": "t", "body": "b", "draft": true}));
}

#[tokio::test]
async fn comments_are_paged_written_once_and_edited() {
    let full =
        Value::from((0..100).map(|id| json!({"id": id, "body": "x", "user": {"id": 1, "login": "a", "type": "User"}})).collect::<Vec<_>>())
            .to_string();
    let (client, canned) = client(vec![
        answer(200, &full),
        answer(200, r#"[{"id": 100, "body": null, "user": null}]"#),
        answer(201, r#"{"id": 101, "body": "y"}"#),
        answer(200, "{}"),
        answer(200, "{}"),
    ])
    .await;
    let comments = client.comments(&repo(), 5).await.unwrap();
    assert_eq!((comments.len(), &*comments[100].id, &*comments[100].body), (101, "100", ""));
    assert_eq!(client.comment(&repo(), 5, "y").await.unwrap().id, "101");
    client.edit_comment(&repo(), "101", "z").await.unwrap();
    client.close_pull_request(&repo(), 6).await.unwrap();
    assert_eq!(canned.lines()[3..], ["PATCH /api/repos/o/n/issues/comments/101", "PATCH /api/repos/o/n/pulls/6"]);
    assert_eq!(canned.seen()[4].body, r#"{"state":"closed"}"#);
}

#[tokio::test]
async fn git_gets_the_apps_user_name() {
    let (client, _canned) = client(vec![]).await;
    let access = client.git_access(&repo()).await.unwrap();
    assert_eq!((&*access.url, &*access.username), ("https://forge.example/o/n.git", "x-access-token"));
}
