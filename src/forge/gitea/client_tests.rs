//! Tests of the client against prepared answers in the forges' own shapes.

use serde_json::Value;

use super::{Client, permission};
use crate::domain::Permission;
use crate::forge::canned::{Canned, Reply, TOKEN, answer, repo};
use crate::forge::{Forge as _, ForgeError, LabelSpec, NewDraft};
use secrecy::ExposeSecret as _;

const LABEL: LabelSpec = LabelSpec { name: "needs-human-review", color: "fbca04", description: "A human must review it." };

async fn client(replies: Vec<Reply>) -> (Client, Canned) {
    let canned = Canned::new(replies).await;
    (Client::new(canned.settings.clone()).unwrap(), canned)
}

fn pull(number: i64, head: &str, head_repo: &str, draft: &str) -> String {
    format!(
        r#"{{"number": {number}, "title": "WIP: t", "html_url": "http://x/{number}", {draft} "head": {{"ref": "{head}", "sha": "abc", "repo": {head_repo}}},
            "base": {{"ref": "main", "sha": "def", "repo": {{"id": 7}}}}}}"#
    )
}

#[tokio::test]
async fn a_repository_is_known_by_its_id() {
    let whole = |id: i64, empty: bool| {
        format!(r#"{{"id": {id}, "full_name": "o/n", "default_branch": "main", "empty": {empty}, "archived": true}}"#)
    };
    let moved = || answer(301, "");
    let now = r#"{"id": 7, "full_name": "o/new-name", "default_branch": "main"}"#;
    let (client, canned) = client(vec![
        answer(200, &whole(7, false)),
        answer(200, &whole(7, true)),
        answer(200, &whole(8, false)),
        answer(200, now),
        moved(),
        answer(200, now),
        moved(),
        answer(404, ""),
    ])
    .await;
    let found = client.repository(&repo()).await.unwrap();
    assert_eq!((found.repo, found.default_branch.as_deref(), found.archived), (repo(), Some("main"), true));
    assert_eq!(client.repository(&repo()).await.unwrap().default_branch, None);
    for why in ["another repository is at its path", "a pointer is at its path"] {
        assert_eq!(client.repository(&repo()).await.unwrap().repo.path, "o/new-name", "{why}");
    }
    assert!(matches!(client.repository(&repo()).await.unwrap_err(), ForgeError::NotFound { .. }));
    assert_eq!((&*canned.lines()[0], &*canned.lines()[3]), ("GET /api/repos/o/n", "GET /api/repositories/7"));
}

#[tokio::test]
async fn an_issue_is_read_with_all_its_nulls() {
    let text = r#"{"id": 1, "number": 5000000000, "title": "t", "body": null, "state": "open", "html_url": "http://x/1", "user": null, "labels": null, "pull_request": null}"#;
    let pull = r#"{"number": 2, "state": "closed", "user": {"id": 1, "login": "a"}, "labels": [{"id": 1, "name": "l"}], "pull_request": {"merged": false}}"#;
    let (client, _canned) = client(vec![answer(200, text), answer(200, pull)]).await;
    let issue = client.issue(&repo(), 5_000_000_000).await.unwrap();
    assert_eq!((issue.number, &*issue.body, &*issue.author, issue.open, issue.is_pull_request), (5_000_000_000, "", "", true, false));
    let issue = client.issue(&repo(), 2).await.unwrap();
    assert_eq!((issue.open, issue.is_pull_request, issue.confidential), (false, true, false));
    assert_eq!(issue.labels, ["l"]);
}

const TIMELINE: &str = r#"[
    {"id": 10, "type": "label", "body": "1", "label": {"id": 1, "name": "frognano-fix"}, "user": {"id": 1, "login": "reader"}},
    {"id": 11, "type": "comment", "body": "1", "label": null, "user": {"id": 2, "login": "writer"}},
    {"id": 12, "type": "label", "body": "", "label": {"id": 1, "name": "frognano-fix"}, "user": {"id": 2, "login": "writer"}},
    {"id": 13, "type": "label", "body": "1", "label": {"id": 1, "name": "Frognano-Fix"}, "user": {"id": 2, "login": "Writer"}},
    {"id": 14, "type": "label", "body": "1", "label": {"id": 2, "name": "other"}, "user": {"id": 3, "login": "third"}},
    {"id": 15, "type": "label", "body": "1", "label": null, "user": {"id": 3, "login": "third"}},
    {"id": 16, "type": "label", "body": "", "label": {"id": 1, "name": "frognano-fix"}, "user": {"id": 3, "login": "third"}}
]"#;

#[tokio::test]
async fn the_last_one_who_put_the_label_on_is_found_in_the_timeline() {
    let gone = r#"[{"id": 17, "type": "label", "body": "1", "label": {"id": 1, "name": "frognano-fix"}, "user": null}]"#;
    let (client, canned) = client(vec![
        answer(200, TIMELINE),
        answer(200, "null\n"),
        answer(200, TIMELINE),
        answer(200, gone),
        answer(200, "[]"),
        answer(200, "null\n"),
    ])
    .await;
    let set = client.label_set(&repo(), 5, "frognano-fix").await.unwrap().unwrap();
    assert_eq!((&*set.by.login, &*set.by.id, set.by.is_bot, &*set.episode), ("Writer", "2", false, "13"));
    assert_eq!(client.label_set(&repo(), 5, "frognano-fix").await.unwrap(), None, "whoever did it last is not known");
    assert_eq!(client.label_set(&repo(), 5, "frognano-fix").await.unwrap(), None);
    assert_eq!(canned.lines()[0], "GET /api/repos/o/n/issues/5/timeline?limit=50&page=1");
}

#[tokio::test]
async fn an_issue_that_is_gone_is_not_waited_for() {
    let missing = || answer(500, r#"{"message": "", "url": "http://x/api/swagger"}"#);
    let four_times = || [missing(), missing(), missing(), missing()];
    let gone = || [answer(404, r#"{"message": "The target couldn't be found."}"#)];
    let there = [answer(200, r#"{"number": 5, "state": "open"}"#)];
    let replies = four_times().into_iter().chain(gone()).chain(four_times()).chain(gone()).chain(four_times()).chain(there);
    let (client, canned) = client(replies.collect()).await;
    assert!(matches!(client.comments(&repo(), 5).await.unwrap_err(), ForgeError::NotFound { .. }));
    assert_eq!(canned.lines()[4], "GET /api/repos/o/n/issues/5");
    assert!(matches!(client.label_set(&repo(), 5, "l").await.unwrap_err(), ForgeError::NotFound { .. }));
    assert!(matches!(client.comments(&repo(), 5).await.unwrap_err(), ForgeError::Unavailable { .. }), "the forge is out of order");
}

#[tokio::test]
async fn permission_is_what_the_forge_says() {
    let (client, canned) = client(vec![answer(200, r#"{"permission": "write", "role_name": "write"}"#), answer(404, "")]).await;
    assert_eq!(client.permission(&repo(), "a b").await.unwrap(), Permission::Write);
    assert_eq!(client.permission(&repo(), "nobody").await.unwrap(), Permission::None);
    assert_eq!(canned.lines()[0], "GET /api/repos/o/n/collaborators/a%20b/permission");
    for (word, means) in [
        ("owner", Permission::Admin),
        ("admin", Permission::Admin),
        ("read", Permission::Read),
        ("none", Permission::None),
        ("new", Permission::None),
    ] {
        assert_eq!(permission(word), means);
    }
}

#[tokio::test]
async fn where_the_forge_will_not_say_the_timeline_proves_write_access() {
    let refuses = || answer(403, r#"{"message": "Only admins can query all permissions"}"#);
    let opened_by = |login: &str| answer(200, &format!(r#"{{"number": 5, "state": "open", "user": {{"id": 1, "login": "{login}"}}}}"#));
    let (client, _canned) = client(vec![
        refuses(),
        answer(200, TIMELINE),
        answer(200, "[]"),
        refuses(),
        opened_by("reader"),
        refuses(),
        opened_by("writer"),
        refuses(),
    ])
    .await;
    assert_eq!(client.permission(&repo(), "writer").await.unwrap(), Permission::None, "no timeline was read yet");
    client.label_set(&repo(), 5, "frognano-fix").await.unwrap();
    assert_eq!(client.permission(&repo(), "writer").await.unwrap(), Permission::Write);
    assert_eq!(client.permission(&repo(), "writer").await.unwrap(), Permission::None, "anybody may label what he opens");
    assert_eq!(client.permission(&repo(), "third").await.unwrap(), Permission::None);
}

#[tokio::test]
async fn a_token_without_the_scope_is_no_answer_about_a_person() {
    let scope = r#"{"message": "token does not have at least one of required scope(s): [read:repository]"}"#;
    let (client, _canned) = client(vec![answer(403, scope), answer(401, r#"{"message": "token is required"}"#)]).await;
    for _ in 0..2 {
        assert!(matches!(client.permission(&repo(), "writer").await.unwrap_err(), ForgeError::Denied { .. }));
    }
}

#[tokio::test]
async fn labels_go_on_by_id_wherever_they_are_defined() {
    let ours = r#"[{"id": 3, "name": "Needs-Human-Review"}]"#;
    let (here, canned) = client(vec![answer(200, ours), answer(200, "[]"), answer(200, "[]")]).await;
    here.add_label(&repo(), 5, LABEL).await.unwrap();
    assert_eq!(
        canned.seen().last().map(|seen| (seen.line.clone(), seen.body.clone())).unwrap(),
        ("POST /api/repos/o/n/issues/5/labels".into(), r#"{"labels":[3]}"#.into())
    );

    let (of_org, canned) = client(vec![answer(200, "[]"), answer(200, ours), answer(200, "[]"), answer(200, "[]")]).await;
    of_org.add_label(&repo(), 5, LABEL).await.unwrap();
    assert_eq!(canned.lines()[1], "GET /api/orgs/o/labels?limit=50&page=1");
    assert_eq!(canned.seen()[3].body, r#"{"labels":[3]}"#);

    for no_list in [404, 403] {
        let (missing, canned) = client(vec![
            answer(200, "[]"),
            answer(no_list, ""),
            answer(201, r#"{"id": 9, "name": "needs-human-review"}"#),
            answer(200, "[]"),
        ])
        .await;
        missing.add_label(&repo(), 5, LABEL).await.unwrap();
        let made: Value = serde_json::from_str(&canned.seen()[2].body).unwrap();
        assert_eq!((made["name"].as_str(), made["color"].as_str()), (Some("needs-human-review"), Some("#fbca04")));
        assert_eq!(canned.seen()[3].body, r#"{"labels":[9]}"#);
    }
}

#[tokio::test]
async fn a_label_that_is_not_there_comes_off() {
    let with = r#"{"number": 5, "state": "open", "labels": [{"id": 4, "name": "l"}]}"#;
    let (client, canned) =
        client(vec![answer(200, with), answer(204, ""), answer(200, with), answer(404, ""), answer(200, r#"{"number": 5, "labels": []}"#)])
            .await;
    for _ in 0..3 {
        client.remove_label(&repo(), 5, "L").await.unwrap();
    }
    assert_eq!(canned.lines().iter().filter(|line| *line == "DELETE /api/repos/o/n/issues/5/labels/4").count(), 2);
}

#[tokio::test]
async fn our_pull_request_is_found_by_branch_and_repository() {
    let fork = pull(1, "frognano/issue-5-r", r#"{"id": 8}"#, "");
    let gone = pull(2, "frognano/issue-5-r", "null", "");
    let ours = pull(3, "frognano/issue-5-r", r#"{"id": 7}"#, r#""draft": false,"#);
    let (client, canned) =
        client(vec![answer(200, &format!("[{fork}, {gone}]")), answer(200, &format!("[{ours}]")), answer(200, "[]"), answer(200, "[]")])
            .await;
    let found = client.find_pull_request(&repo(), "frognano/issue-5-r").await.unwrap().unwrap();
    assert_eq!((found.number, found.draft, &*found.head_sha, &*found.url), (3, false, "abc", "http://x/3"));
    assert_eq!(client.find_pull_request(&repo(), "frognano/issue-5-r").await.unwrap(), None);
    assert_eq!(canned.lines()[1], "GET /api/repos/o/n/pulls?state=open&limit=50&page=2");
}

#[tokio::test]
async fn a_draft_is_one_when_the_forge_says_so() {
    let draft = NewDraft { head: "frognano/issue-5-r".into(), base: "main".into(), title: "t".into(), body: "b".into() };
    let opened = |says: &str| answer(201, &pull(3, "frognano/issue-5-r", r#"{"id": 7}"#, says));
    let (client, canned) = client(vec![
        opened(r#""draft": true,"#),
        opened(r#""draft": false,"#),
        opened(""),
        answer(409, r#"{"message": "pull request already exists"}"#),
    ])
    .await;
    assert!(client.open_draft(&repo(), &draft).await.unwrap().draft);
    assert!(!client.open_draft(&repo(), &draft).await.unwrap().draft);
    assert!(client.open_draft(&repo(), &draft).await.unwrap().draft, "old versions do not say, but go by the title");
    assert!(matches!(client.open_draft(&repo(), &draft).await.unwrap_err(), ForgeError::Rejected { .. }));
    let sent: Value = serde_json::from_str(&canned.seen()[0].body).unwrap();
    assert_eq!(sent, serde_json::json!({"head": "frognano/issue-5-r", "base": "main", "title": "WIP: t", "body": "b"}));
}

#[tokio::test]
async fn comments_are_read_at_once_written_once_and_edited() {
    let list = r#"[{"id": 1, "body": "x", "user": {"id": 1, "login": "a"}}, {"id": 2, "body": "", "user": null}]"#;
    let (client, canned) = client(vec![
        answer(200, list),
        answer(201, r#"{"id": 3, "body": "y", "user": {"id": 9, "login": "bot"}}"#),
        answer(200, "{}"),
        answer(201, "{}"),
    ])
    .await;
    let comments = client.comments(&repo(), 5).await.unwrap();
    assert_eq!(comments.iter().map(|comment| (&*comment.id, &*comment.author)).collect::<Vec<_>>(), [("1", "a"), ("2", "")]);
    assert_eq!(client.comment(&repo(), 5, "y").await.unwrap().id, "3");
    client.edit_comment(&repo(), "3", "z").await.unwrap();
    client.close_pull_request(&repo(), 6).await.unwrap();
    assert_eq!(
        canned.lines(),
        [
            "GET /api/repos/o/n/issues/5/comments",
            "POST /api/repos/o/n/issues/5/comments",
            "PATCH /api/repos/o/n/issues/comments/3",
            "PATCH /api/repos/o/n/pulls/6"
        ]
    );
    assert!(
        matches!(client.edit_comment(&repo(), "../../x/..", "z").await, Err(ForgeError::Unavailable { .. })),
        "one segment, asked of a server that is gone"
    );
    assert!(matches!(client.edit_comment(&repo(), "..", "z").await, Err(ForgeError::NotFound { .. })));
}

#[tokio::test]
async fn git_gets_an_address_without_the_token() {
    let (client, _canned) = client(vec![]).await;
    let access = client.git_access(&repo()).await.unwrap();
    assert_eq!(access.url, "https://forge.example/o/n.git");
    assert_eq!(access.token.expose_secret(), TOKEN);
    let mut odd = repo();
    odd.path = "../x".into();
    assert_eq!(client.git_access(&odd).await.unwrap().url, "https://forge.example/");
    assert!(!format!("{access:?}").contains(TOKEN));
}

#[tokio::test]
async fn our_own_account_is_asked_for() {
    let (client, canned) = client(vec![answer(200, r#"{"id": 302, "login": "frognano-bot", "is_admin": false}"#)]).await;
    let own = client.myself().await.unwrap();
    assert_eq!((&*own.id, &*own.login), ("302", "frognano-bot"));
    assert_eq!(canned.seen()[0].header("authorization"), Some(&*format!("token {TOKEN}")));
}
