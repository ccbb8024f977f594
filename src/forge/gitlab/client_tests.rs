//! Tests of the client against prepared answers in GitLab's own shapes.

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::Client;
use crate::domain::{Permission, RepoRef};
use crate::forge::canned::{Canned, Reply, TOKEN, answer};
use crate::forge::{CommitStatus, Forge as _, ForgeError, LabelSpec, NewDraft};

const LABEL: LabelSpec = LabelSpec { name: "needs-human-review", color: "fbca04", description: "A human must review it." };

async fn client(replies: Vec<Reply>) -> (Client, Canned) {
    let canned = Canned::new(replies).await;
    (Client::new(canned.settings.clone()).unwrap(), canned)
}

fn repo() -> RepoRef {
    RepoRef { forge: "canned".into(), id: "7".into(), path: "group/sub group/name".into() }
}

fn bodies(canned: &Canned) -> Vec<Value> {
    canned.seen().iter().filter(|seen| !seen.body.is_empty()).map(|seen| serde_json::from_str(&seen.body).unwrap()).collect()
}

#[tokio::test]
async fn the_token_is_in_gitlabs_own_header_and_nowhere_else() {
    let me = r#"{"id": 302, "username": "project_7_bot_1a2b", "bot": true, "state": "active"}"#;
    let (client, canned) = client(vec![answer(200, me)]).await;
    let own = client.myself().await.unwrap();
    assert_eq!((&*own.id, &*own.login, own.is_bot), ("302", "project_7_bot_1a2b", true));
    let seen = &canned.seen()[0];
    assert_eq!((&*seen.line, seen.header("private-token"), seen.header("authorization")), ("GET /api/user", Some(TOKEN), None));
}

#[tokio::test]
async fn a_project_is_asked_for_by_its_number_wherever_it_is_now() {
    let project = |more: &str| answer(200, &format!(r#"{{"id": 7, "path_with_namespace": "new/place/name"{more}}}"#));
    let (client, canned) = client(vec![
        project(r#", "default_branch": "main", "archived": true, "permissions": {"project_access": {"access_level": 20}, "group_access": {"access_level": 30}}"#),
        project(r#", "default_branch": null, "permissions": {"project_access": {"access_level": 20}, "group_access": null}"#),
        project(r#", "default_branch": "main", "empty_repo": true, "permissions": {"project_access": null, "group_access": null}"#),
        answer(404, r#"{"message": "404 Project Not Found"}"#),
        Reply::Answer(301, vec![("location", "https://gitlab.example/api/v4/projects/8".into())], vec![]),
    ])
    .await;
    let found = client.repository(&repo()).await.unwrap();
    assert_eq!((&*found.repo.path, &*found.repo.id, found.archived, found.may_push), ("new/place/name", "7", true, true));
    assert_eq!(found.default_branch.as_deref(), Some("main"));
    let found = client.repository(&repo()).await.unwrap();
    assert_eq!((found.default_branch, found.archived, found.may_push), (None, false, false));
    let found = client.repository(&repo()).await.unwrap();
    assert_eq!((found.default_branch, found.may_push), (None, true), "access by an invited group is not listed");
    for _ in 0..2 {
        assert!(matches!(client.repository(&repo()).await.unwrap_err(), ForgeError::NotFound { .. }));
    }
    assert_eq!(canned.lines()[0], "GET /api/projects/7");
}

#[tokio::test]
async fn an_issue_is_read_with_all_its_nulls() {
    let text = r#"{"id": 1, "iid": 5000000000, "title": "t", "description": null, "state": "opened", "author": null, "labels": ["a b", "c"],
        "confidential": false, "web_url": "http://x/-/issues/1"}"#;
    let hidden =
        r#"{"iid": 2, "title": "t", "description": "d", "state": "closed", "author": {"id": 1, "username": "a"}, "confidential": true}"#;
    let (client, canned) = client(vec![answer(200, text), answer(200, hidden), answer(200, r#"{"iid": 2}"#)]).await;
    let issue = client.issue(&repo(), 5_000_000_000).await.unwrap();
    assert_eq!((issue.number, &*issue.body, &*issue.author, issue.open), (5_000_000_000, "", "", true));
    assert!(issue.has_label("A B") && !issue.confidential && !issue.is_pull_request);
    let issue = client.issue(&repo(), 2).await.unwrap();
    assert_eq!((issue.open, issue.confidential, &*issue.author, &*issue.body), (false, true, "a", "d"));
    assert!(client.issue(&repo(), 2).await.unwrap().confidential, "what does not say that it is public is not");
    assert_eq!(canned.lines()[0], "GET /api/projects/7/issues/5000000000");
}

#[tokio::test]
async fn the_last_one_who_put_the_label_on_is_found_in_its_history_page_by_page() {
    let event = |id: u64, action: &str, label: &str, user: &str| {
        format!(
            r#"{{"id": {id}, "user": {user}, "created_at": "2026-01-01T00:00:00Z", "resource_type": "Issue", "label": {label}, "action": "{action}"}}"#
        )
    };
    let (ours, rita, wren) =
        (r#"{"id": 1, "name": "frognano-fix"}"#, r#"{"id": 1, "username": "rita"}"#, r#"{"id": 2, "username": "wren"}"#);
    let page = |next: &str, rows: &[String]| {
        Reply::Answer(200, vec![("x-next-page", next.to_owned())], format!("[{}]", rows.join(",")).into_bytes())
    };
    let first = [event(10, "add", ours, rita), event(11, "remove", ours, wren), event(12, "add", "null", wren)];
    let second = [event(13, "add", r#"{"name": "Frognano-Fix"}"#, wren), event(14, "add", r#"{"name": "other"}"#, rita)];
    let gone = [event(15, "add", ours, "null")];
    let (client, canned) = client(vec![page("2", &first), page("", &second), page("", &gone), page("", &[])]).await;
    let set = client.label_set(&repo(), 5, "frognano-fix").await.unwrap().unwrap();
    assert_eq!((&*set.by.login, &*set.by.id, set.by.is_bot, &*set.episode), ("wren", "2", false, "13"));
    assert_eq!(client.label_set(&repo(), 5, "frognano-fix").await.unwrap(), None, "whoever did it last is not known");
    assert_eq!(client.label_set(&repo(), 5, "frognano-fix").await.unwrap(), None);
    let path = "GET /api/projects/7/issues/5/resource_label_events";
    assert_eq!(canned.lines()[..2], [format!("{path}?per_page=100&page=1"), format!("{path}?per_page=100&page=2")]);
}

#[tokio::test]
async fn a_history_without_an_end_names_nobody() {
    let row = |id: u64| format!(r#"[{{"id": {id}, "action": "add", "label": {{"name": "l"}}, "user": {{"id": 1, "username": "a"}}}}]"#);
    let pages = (0..50).map(|page| Reply::Answer(200, vec![("x-next-page", (page + 2).to_string())], row(page).into_bytes()));
    let (client, canned) = client(pages.collect()).await;
    assert_eq!(client.label_set(&repo(), 5, "l").await.unwrap(), None);
    assert_eq!(canned.lines().len(), 50);
}

#[tokio::test]
async fn permission_is_that_of_every_way_into_the_project() {
    let known = |login: &str| answer(200, &format!(r#"[{{"id": 9, "username": "{login}"}}]"#));
    let member = |level: i64, more: &str| answer(200, &format!(r#"{{"id": 9, "access_level": {level}{more}}}"#));
    let (client, canned) = client(vec![
        known("Wren"),
        member(30, r#", "state": "active", "membership_state": "active""#),
        known("wren"),
        member(40, r#", "state": "awaiting""#),
        known("wren"),
        member(40, r#", "state": "blocked""#),
        known("wren"),
        answer(404, r#"{"message": "404 Not found"}"#),
        answer(200, "[]"),
        known("wrenetta"),
        known("wren"),
        answer(403, r#"{"message": "403 Forbidden"}"#),
    ])
    .await;
    let expected = [Permission::Write, Permission::None, Permission::None, Permission::None, Permission::None, Permission::None];
    for means in expected {
        assert_eq!(client.permission(&repo(), "wren").await.unwrap(), means);
    }
    assert!(matches!(client.permission(&repo(), "wren").await.unwrap_err(), ForgeError::Denied { .. }));
    assert_eq!(canned.lines()[..2], ["GET /api/users?username=wren&per_page=100&page=1", "GET /api/projects/7/members/all/9"]);
}

#[tokio::test]
async fn only_public_comments_of_people_are_read() {
    let notes = r#"[{"id": 1, "body": "x", "author": {"id": 1, "username": "a"}, "system": false, "internal": false},
        {"id": 2, "body": "added ~1 label", "author": {"id": 1, "username": "a"}, "system": true},
        {"id": 3, "body": "among us", "author": {"id": 1, "username": "a"}, "system": false, "internal": true},
        {"id": 4, "body": "among us", "author": {"id": 1, "username": "a"}, "system": false, "confidential": true},
        {"id": 5, "body": null, "author": null}]"#;
    let written = || answer(201, r#"{"id": 6, "body": "y", "author": {"id": 9, "username": "bot"}}"#);
    let (client, canned) =
        client(vec![answer(200, notes), written(), answer(200, "{}"), written(), answer(200, "{}"), answer(200, "[]")]).await;
    let comments = client.comments(&repo(), 5).await.unwrap();
    assert_eq!(
        comments.iter().map(|comment| (&*comment.id, &*comment.author)).collect::<Vec<_>>(),
        [("issues/5/notes/1", "a"), ("issues/5/notes/5", "")]
    );
    let on_issue = client.comment(&repo(), 5, "y").await.unwrap();
    client.edit_comment(&repo(), &on_issue.id, "z").await.unwrap();
    let on_merge_request = client.comment_on_pull_request(&repo(), 5, "y").await.unwrap();
    client.edit_comment(&repo(), &on_merge_request.id, "z").await.unwrap();
    assert!(client.pull_request_comments(&repo(), 5).await.unwrap().is_empty());
    assert_eq!(
        canned.lines(),
        [
            "GET /api/projects/7/issues/5/notes?sort=asc&order_by=created_at&per_page=100&page=1",
            "POST /api/projects/7/issues/5/notes",
            "PUT /api/projects/7/issues/5/notes/6",
            "POST /api/projects/7/merge_requests/5/notes",
            "PUT /api/projects/7/merge_requests/5/notes/6",
            "GET /api/projects/7/merge_requests/5/notes?sort=asc&order_by=created_at&per_page=100&page=1",
        ]
    );
    for odd in ["6", "issues/5/notes", "issues/../notes/6", "epics/5/notes/6", "issues/5/notes/6/x"] {
        assert!(matches!(client.edit_comment(&repo(), odd, "z").await, Err(ForgeError::NotFound { .. })), "{odd}");
    }
}

#[tokio::test]
async fn labels_are_made_with_colour_and_description_before_they_are_put_on() {
    let there = || answer(200, r##"{"id": 3, "name": "needs-human-review", "color": "#fbca04"}"##);
    let missing = || answer(404, r#"{"message": "404 Label Not Found"}"#);
    let (here, canned) = client(vec![there(), answer(200, "{}"), there(), answer(200, "{}")]).await;
    here.add_label(&repo(), 5, LABEL).await.unwrap();
    here.label_pull_request(&repo(), 5, LABEL).await.unwrap();
    assert_eq!(
        canned.lines(),
        [
            "GET /api/projects/7/labels/needs-human-review",
            "PUT /api/projects/7/issues/5",
            "GET /api/projects/7/labels/needs-human-review",
            "PUT /api/projects/7/merge_requests/5",
        ]
    );
    assert_eq!(bodies(&canned), [json!({"add_labels": "needs-human-review"}), json!({"add_labels": "needs-human-review"})]);

    for (status, text) in [(201, "{}"), (409, r#"{"message": "Label already exists"}"#)] {
        let (made, canned) = client(vec![missing(), answer(status, text), answer(200, "{}")]).await;
        made.add_label(&repo(), 5, LABEL).await.unwrap();
        let body = json!({"name": "needs-human-review", "color": "#fbca04", "description": "A human must review it."});
        assert_eq!(bodies(&canned)[0], body);
    }
    let (refused, _canned) = client(vec![missing(), answer(403, r#"{"message": "403 Forbidden"}"#)]).await;
    assert!(matches!(refused.add_label(&repo(), 5, LABEL).await.unwrap_err(), ForgeError::Denied { .. }));
}

#[tokio::test]
async fn a_label_comes_off_by_the_name_that_it_has_there() {
    let with = |labels: &str| answer(200, &format!(r#"{{"iid": 5, "labels": [{labels}]}}"#));
    let (client, canned) = client(vec![with(r#""x", "Frognano No-Fix""#), answer(200, "{}"), with(r#""x""#)]).await;
    for _ in 0..2 {
        client.remove_label(&repo(), 5, "frognano no-fix").await.unwrap();
    }
    assert_eq!(bodies(&canned), [json!({"remove_labels": "Frognano No-Fix"})]);
}

fn merge_request(iid: i64, branch: &str, project: &str, draft: &str) -> String {
    format!(
        r#"{{"id": 1, "iid": {iid}, "web_url": "http://x/-/merge_requests/{iid}", {draft} "sha": "abc", "source_branch": "{branch}", "target_branch": "main",
            "source_project_id": {project}, "target_project_id": 7}}"#
    )
}

#[tokio::test]
async fn our_merge_request_is_found_by_branch_and_project() {
    let rows = [
        merge_request(1, "frognano/issue-5-r", "8", ""),
        merge_request(2, "frognano/issue-5-r", "null", ""),
        merge_request(3, "frognano/issue-5-r", "7", r#""draft": false,"#),
    ];
    let (client, canned) = client(vec![answer(200, &format!("[{}]", rows.join(","))), answer(200, "[]")]).await;
    let found = client.find_pull_request(&repo(), "frognano/issue-5-r").await.unwrap().unwrap();
    assert_eq!((found.number, found.draft, &*found.head_sha, &*found.url), (3, false, "abc", "http://x/-/merge_requests/3"));
    assert_eq!(client.find_pull_request(&repo(), "frognano/issue-5-r").await.unwrap(), None);
    assert_eq!(canned.lines()[0], "GET /api/projects/7/merge_requests?state=opened&source_branch=frognano%2Fissue-5-r&per_page=100&page=1");
}

#[tokio::test]
async fn a_draft_is_one_when_the_forge_says_so() {
    let draft = |title: &str| NewDraft { head: "frognano/issue-5-r".into(), base: "main".into(), title: title.into(), body: "b".into() };
    let opened = |says: &str| answer(201, &merge_request(3, "frognano/issue-5-r", "7", says));
    let there = r#"{"message": ["Another open merge request already exists for this source branch: !3"]}"#;
    let (client, canned) = client(vec![
        opened(r#""draft": true,"#),
        opened(r#""draft": false, "work_in_progress": true,"#),
        opened(r#""work_in_progress": true,"#),
        opened(""),
        answer(409, there),
        answer(200, "{}"),
    ])
    .await;
    for is_draft in [true, false, true, false] {
        assert_eq!(client.open_draft(&repo(), &draft("t")).await.unwrap().draft, is_draft);
    }
    let refused = client.open_draft(&repo(), &draft(&"ü".repeat(300))).await.unwrap_err();
    assert!(matches!(&refused, ForgeError::Rejected { message, .. } if message.contains("already exists for this source branch: !3")));
    client.close_pull_request(&repo(), 3).await.unwrap();
    let sent = bodies(&canned);
    assert_eq!(sent[0], json!({"source_branch": "frognano/issue-5-r", "target_branch": "main", "title": "Draft: t", "description": "b"}));
    assert_eq!(sent[4]["title"].as_str().unwrap().chars().count(), 255);
    assert_eq!((&*canned.lines()[5], &sent[5]), ("PUT /api/projects/7/merge_requests/3", &json!({"state_event": "close"})));
}

#[tokio::test]
async fn refusals_and_limits_are_understood_in_all_their_shapes() {
    let scope = r#"{"error": "insufficient_scope", "error_description": "The request requires higher privileges than provided by the access token.", "scope": "api"}"#;
    let (client, canned) = client(vec![
        answer(401, r#"{"error": "invalid_token", "error_description": "Token was revoked."}"#),
        answer(403, scope),
        answer(400, r#"{"message": {"base": ["is invalid"]}}"#),
        Reply::Answer(429, vec![("retry-after", "7".to_owned())], b"Retry later\n".to_vec()),
        answer(200, r#"{"iid": 5, "confidential": false}"#),
        answer(429, "Retry later\n"),
    ])
    .await;
    for words in ["Token was revoked", "insufficient_scope; The request requires higher privileges"] {
        let error = client.issue(&repo(), 5).await.unwrap_err();
        assert!(matches!(error, ForgeError::Denied { .. }) && error.to_string().contains(words), "{error}");
    }
    assert!(
        matches!(client.issue(&repo(), 5).await.unwrap_err(), ForgeError::Rejected { message, .. } if message.contains("base is invalid"))
    );
    client.issue(&repo(), 5).await.unwrap();
    assert_eq!(canned.pauses(), [7]);
    let error = client.issue(&repo(), 5).await.unwrap_err();
    assert!(matches!(error, ForgeError::Unavailable { retry_after_ms: Some(60_000), .. }), "without a time: {error:?}");
}

#[tokio::test]
async fn git_gets_an_address_with_every_group_and_without_the_token() {
    let (client, _canned) = client(vec![]).await;
    let access = client.git_access(&repo()).await.unwrap();
    assert_eq!((&*access.url, &*access.username), ("https://forge.example/group/sub%20group/name.git", "oauth2"));
    assert_eq!(access.token.expose_secret(), TOKEN);
    for odd in ["", "name", "../x", "a//b", "a/../b"] {
        assert_eq!(client.git_access(&RepoRef { path: odd.into(), ..repo() }).await.unwrap().url, "https://forge.example/", "{odd}");
    }
    assert!(!format!("{access:?}").contains(TOKEN));
}

#[tokio::test]
async fn a_reviewer_is_asked_beside_others_and_only_the_answer_says_so() {
    let known = || answer(200, r#"[{"id": 9, "username": "olga"}]"#);
    let asks = |ids: &[i64]| {
        let rows = ids.iter().map(|id| format!(r#"{{"id": {id}, "username": "u{id}"}}"#)).collect::<Vec<_>>();
        answer(200, &format!(r#"{{"iid": 3, "reviewers": [{}]}}"#, rows.join(",")))
    };
    let (client, canned) =
        client(vec![known(), asks(&[5]), asks(&[5, 9]), known(), asks(&[9]), known(), asks(&[5]), asks(&[5]), answer(200, "[]")]).await;
    for _ in 0..2 {
        client.request_review(&repo(), 3, "olga").await.unwrap();
    }
    for (who, why) in [("olga", "needs a licence"), ("ghost", "no such account"), ("group/team", "groups are not asked")] {
        let refused = client.request_review(&repo(), 3, who).await.unwrap_err();
        assert!(matches!(&refused, ForgeError::Rejected { message, .. } if message.contains(why)), "{refused}");
    }
    assert_eq!(bodies(&canned), [json!({"reviewer_ids": [5, 9]}), json!({"reviewer_ids": [5, 9]})]);
}

#[tokio::test]
async fn a_status_that_stands_already_and_a_group_with_its_path() {
    let stands = r#"{"message": "Cannot transition status via :drop from :failed (Reason(s): Status cannot transition via \"drop\")"}"#;
    let known = || answer(200, r#"[{"id": 9, "username": "olga"}]"#);
    let (client, canned) = client(vec![
        answer(201, "{}"),
        answer(400, stands),
        answer(400, r#"{"message": "ref is ambiguous"}"#),
        known(),
        answer(200, r#"{"id": 9, "access_level": 10, "state": "active"}"#),
        known(),
        answer(404, ""),
        answer(200, "[]"),
    ])
    .await;
    let status = CommitStatus { context: "frognano/human-review", passed: false, description: "A person must look.".into() };
    for _ in 0..2 {
        client.set_status(&repo(), "abc", &status).await.unwrap();
    }
    assert!(matches!(client.set_status(&repo(), "abc", &status).await.unwrap_err(), ForgeError::Rejected { .. }));
    let body = json!({"state": "failed", "name": "frognano/human-review", "description": "A person must look."});
    assert_eq!((&*canned.lines()[0], &bodies(&canned)[0]), ("POST /api/projects/7/statuses/abc", &body));
    for is_in in [true, false, false] {
        assert_eq!(client.is_in_team("acme/inner/fixers", "olga").await.unwrap(), is_in);
    }
    assert_eq!(canned.lines()[4], "GET /api/groups/acme%2Finner%2Ffixers/members/all/9");
}

#[tokio::test]
async fn a_merge_request_is_read_as_it_stands_and_its_text_replaced() {
    let row = |state: &str, project: &str| {
        let row = merge_request(3, "frognano/issue-5-r", project, "");
        answer(200, &row.replacen('{', &format!(r#"{{"state": "{state}", "#), 1))
    };
    let (client, canned) =
        client(vec![row("opened", "7"), row("merged", "7"), row("locked", "8"), answer(404, ""), answer(200, "{}")]).await;
    let now = client.pull_request(&repo(), 3).await.unwrap();
    assert_eq!((now.number, now.open, now.head.as_deref(), &*now.base), (3, true, Some("frognano/issue-5-r"), "main"));
    assert_eq!(&*now.url, "http://x/-/merge_requests/3");
    assert!(!client.pull_request(&repo(), 3).await.unwrap().open);
    let of_a_fork = client.pull_request(&repo(), 3).await.unwrap();
    assert_eq!((of_a_fork.open, of_a_fork.head), (false, None));
    assert!(matches!(client.pull_request(&repo(), 3).await.unwrap_err(), ForgeError::NotFound { .. }));
    client.edit_pull_request(&repo(), 3, None, "new text").await.unwrap();
    assert_eq!(bodies(&canned), [json!({"description": "new text"})]);
    assert_eq!(canned.lines()[3..], ["GET /api/projects/7/merge_requests/3", "PUT /api/projects/7/merge_requests/3"]);
}

#[tokio::test]
async fn labelled_issues_are_those_of_every_spelling_once_and_none_that_is_hidden() {
    let issue =
        |iid: u64, more: &str| format!(r#"{{"iid": {iid}, "title": "t", "state": "opened", "labels": ["x"], "confidential": {more}}}"#);
    let labels = r#"[{"name": "frognano-fix"}, {"name": "Frognano-Fix"}, {"name": "frognano-fix-later"}]"#;
    let page = |next: &str, rows: &[String]| {
        Reply::Answer(200, vec![("x-next-page", next.to_owned())], format!("[{}]", rows.join(",")).into_bytes())
    };
    let (client, canned) = client(vec![
        answer(200, labels),
        page("2", &[issue(3, "false"), issue(2, "true")]),
        page("", &[issue(1, "false")]),
        page("", &[issue(4, "false"), issue(3, "false")]),
        answer(200, r#"[{"name": "frognano-fix-later"}]"#),
    ])
    .await;
    let found = client.labelled_issues(&repo(), "FROGNANO-FIX").await.unwrap();
    assert_eq!(found.iter().map(|issue| issue.number).collect::<Vec<_>>(), [4, 3, 1]);
    assert!(client.labelled_issues(&repo(), "frognano-fix").await.unwrap().is_empty(), "there is no such label");
    let path = "GET /api/projects/7";
    assert_eq!(
        canned.lines()[..4],
        [
            format!("{path}/labels?search=FROGNANO-FIX&per_page=100&page=1"),
            format!("{path}/issues?state=opened&labels=frognano-fix&per_page=100&page=1"),
            format!("{path}/issues?state=opened&labels=frognano-fix&per_page=100&page=2"),
            format!("{path}/issues?state=opened&labels=Frognano-Fix&per_page=100&page=1"),
        ]
    );
}

#[tokio::test]
async fn our_projects_are_listed_page_by_page_and_asked_for_again_only_when_they_changed() {
    let project = |id: u64| format!(r#"[{{"id": {id}, "path_with_namespace": "g/p{id}"}}]"#).into_bytes();
    let page =
        |tag: &str, next: &str, id: u64| Reply::Answer(200, vec![("etag", tag.to_owned()), ("x-next-page", next.to_owned())], project(id));
    let same = |next: &str| Reply::Answer(304, vec![("x-next-page", next.to_owned())], vec![]);
    let (client, canned) = client(vec![page("W/\"1\"", "2", 8), page("W/\"2\"", "", 9), same("2"), page("W/\"3\"", "", 10)]).await;
    let mut listed = Vec::new();
    for _ in 0..2 {
        listed.push(client.repositories().await.unwrap().into_iter().map(|repo| format!("{} {}", repo.id, repo.path)).collect::<Vec<_>>());
    }
    assert_eq!(listed, [["8 g/p8", "9 g/p9"], ["8 g/p8", "10 g/p10"]]);
    let path = "GET /api/projects?membership=true&archived=false&min_access_level=30&per_page=100&page=1";
    assert_eq!(canned.lines()[0], path);
    let asked_with = canned.seen().iter().map(|seen| seen.header("if-none-match").map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(asked_with, [None, None, Some("W/\"1\"".to_owned()), Some("W/\"2\"".to_owned())]);
}

#[tokio::test]
async fn what_an_archived_project_forbids_is_called_so() {
    let refused = || answer(403, r#"{"message": "403 Forbidden"}"#);
    let project = |archived: bool| answer(200, &format!(r#"{{"id": 7, "path_with_namespace": "g/p", "archived": {archived}}}"#));
    let (client, _canned) = client(vec![refused(), project(true), refused(), project(false), refused(), answer(404, "")]).await;
    for is_archived in [true, false, false] {
        let error = client.comment(&repo(), 5, "x").await.unwrap_err();
        assert!(matches!(&error, ForgeError::Denied { message, .. } if message.contains("archived") == is_archived), "{error}");
    }
}
