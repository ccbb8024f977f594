use frognano_bot::demo::Kind;
use frognano_bot::demo::forge::{Failure, Strike};
use serde_json::{Value, json};

use super::{Stage, pull, sample};

#[tokio::test(flavor = "multi_thread")]
async fn gitea_and_forgejo_refuse_what_they_refuse() {
    for kind in [Kind::Gitea, Kind::Forgejo] {
        as_gitea_refuses_what_refuses(Stage::new(kind).await).await;
    }
}

async fn as_gitea_refuses_what_refuses(stage: Stage) {
    let forge = stage.forge();
    let number = forge.open_issue(sample::PATH, "rita", "Bug", "Text", &[]).unwrap().number;
    assert_eq!(number, 1);
    forge.add_token("narrow-token", "wren", &["read:repository", "read:issue"]).unwrap();
    let bug = forge.add_label(sample::PATH, "bug", "ff0000").unwrap();
    let spare = forge.add_label(sample::PATH, "spare", "00ff00").unwrap();
    let comment = stage.call("POST", "issues/1/comments", "rita", Some(json!({ "body": "Hello" }))).await;
    assert_eq!((comment.0, &comment.1["body"]), (201, &json!("Hello")));
    let comment = format!("issues/comments/{}", comment.1["id"]);

    for (method, path, login, body, status) in [
        ("GET", "", "", None, 404),
        ("GET", "", "nobody", None, 401),
        ("GET", "", "stranger", None, 404),
        ("GET", "/user", "", None, 401),
        ("GET", "/version", "", None, 200),
        ("GET", "issues/2", "wren", None, 404),
        ("POST", "issues/1/comments", "narrow", Some(json!({ "body": "x" })), 403),
        ("POST", "issues/1/comments", "wren", Some(json!({ "body": "" })), 422),
        ("POST", "issues/1/comments", "wren", Some(json!({ "body": 1 })), 422),
        ("PATCH", comment.as_str(), "rita", Some(json!({ "body": "Mine" })), 200),
        ("PATCH", comment.as_str(), "wren", Some(json!({ "body": "A writer may" })), 200),
        ("GET", "collaborators/rita/permission", "wren", None, 403),
        ("GET", "collaborators/wren/permission", "wren", None, 200),
        ("GET", "collaborators/ghost/permission", "ada", None, 404),
        ("POST", "issues/1/labels", "rita", Some(json!({ "labels": [bug] })), 403),
        ("POST", "issues/1/labels", "wren", Some(json!({ "labels": [bug, "bug"] })), 400),
        ("DELETE", "issues/1/labels/1", "wren", None, 422),
        ("DELETE", &format!("issues/1/labels/{spare}"), "wren", None, 204),
        ("POST", "labels", "wren", Some(json!({ "name": "x", "color": "red" })), 422),
        ("POST", "labels", "wren", Some(json!({ "name": "x", "color": "#AABBCC" })), 201),
        ("GET", "/orgs/acme/labels", "wren", None, 200),
        ("GET", "/orgs/ada/labels", "wren", None, 404),
        ("PATCH", "issues/1", "wren", Some(json!({ "state": "closed" })), 201),
        ("GET", "issues/77", "wren", None, 404),
        ("GET", "issues/77/comments", "wren", None, 500),
        ("GET", "issues/77/timeline", "wren", None, 500),
    ] {
        let answer = stage.call(method, path, login, body).await;
        assert_eq!(answer.0, status, "{method} {path} as {login}: {}", answer.1);
    }
    let labels = stage.call("POST", "issues/1/labels", "wren", Some(json!({ "labels": ["bug", "unknown"] }))).await;
    assert_eq!((labels.0, labels.1.as_array().unwrap().len()), (200, 1), "an unknown name is dropped without a word");
    let permission = stage.call("GET", "collaborators/rita/permission", "ada", None).await.1;
    assert_eq!(permission["permission"], "read");
    let timeline = stage.call("GET", "issues/1/timeline", "wren", None).await.1;
    let kinds: Vec<_> = timeline.as_array().unwrap().iter().map(|entry| (entry["type"].clone(), entry["user"]["login"].clone())).collect();
    assert_eq!(kinds, [("comment", "rita"), ("close", "wren"), ("label", "wren")].map(|(kind, login)| (json!(kind), json!(login))));
    assert_eq!((&timeline[2]["body"], &timeline[2]["label"]["name"]), (&json!("1"), &json!("bug")));
    assert_eq!(stage.call("GET", "issues/1/timeline?page=2", "wren", None).await, (200, Value::Null), "an empty page is no list");
    assert!(forge.unexpected().is_empty(), "{:?}", forge.unexpected());
}

#[tokio::test(flavor = "multi_thread")]
async fn gitea_and_forgejo_open_one_pull_request_for_a_branch_that_is_there() {
    for kind in [Kind::Gitea, Kind::Forgejo] {
        as_gitea_opens_one_pull_request_for_a_branch_that_is_there(Stage::new(kind).await).await;
    }
}

async fn as_gitea_opens_one_pull_request_for_a_branch_that_is_there(stage: Stage) {
    let sha = stage.push_branch("frognano", "frognano/issue-1-a").await;
    let other_base = json!({ "head": "frognano/issue-1-a", "base": "none", "title": "x" });
    for (body, status) in [(pull("gone"), 404), (Some(other_base), 404), (pull("main"), 422), (pull("main~0"), 404), (Some(json!({})), 422)]
    {
        assert_eq!(stage.call("POST", "pulls", "frognano", body.clone()).await.0, status, "{body:?}");
    }
    let (status, opened) = stage.call("POST", "pulls", "frognano", pull("frognano/issue-1-a")).await;
    assert_eq!((status, &opened["draft"], &opened["head"]["sha"]), (201, &json!(true), &json!(sha)));
    assert_eq!(stage.call("POST", "pulls", "frognano", pull("frognano/issue-1-a")).await.0, 409);
    let (status, found) = stage.call("GET", "pulls/main/frognano%2Fissue-1-a", "frognano", None).await;
    assert_eq!((status, &found["number"]), (200, &opened["number"]));
    let issue = stage.call("GET", "issues/1", "frognano", None).await.1;
    assert!(issue["pull_request"].is_object(), "a pull request is an issue too");

    let (status, closed) = stage.call("PATCH", "pulls/1", "frognano", Some(json!({ "title": "Mend it", "state": "closed" }))).await;
    assert_eq!((status, &closed["state"], &closed["draft"]), (201, &json!("closed"), &json!(false)));
    assert_eq!(stage.call("GET", "pulls?state=open", "frognano", None).await.1, json!([]));
    assert_eq!(stage.call("POST", "pulls", "frognano", pull("frognano/issue-1-a")).await.0, 201, "a closed one does not block");
    assert_eq!(stage.forge().count("POST", "*/pulls"), 8);

    stage.forge().drafts_supported(false);
    assert_eq!(stage.call("GET", "pulls/2", "frognano", None).await.1["draft"], json!(false));
    stage.forge().with_repository(sample::PATH, |repository| repository.archived = true).unwrap();
    assert_eq!(stage.call("POST", "issues/1/comments", "wren", Some(json!({ "body": "x" }))).await.0, 423);
}

#[tokio::test(flavor = "multi_thread")]
async fn github_refuses_what_github_refuses() {
    let stage = Stage::new(Kind::GitHub).await;
    let forge = stage.forge();
    forge.open_issue(sample::PATH, "rita", "Bug", "", &["frognano-fix"]).unwrap();
    forge.add_token("narrow-token", "wren", &["read:metadata", "read:issues"]).unwrap();
    let nameless = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/api/v3/user", stage.running.base_url);
    assert_eq!(nameless.get(&url).bearer_auth("wren-token").send().await.unwrap().status(), 403, "a User-Agent is demanded");
    assert_eq!(stage.client.get(&url).header("authorization", "token wren-token").send().await.unwrap().status(), 401);

    for (method, path, login, body, status) in [
        ("GET", "", "", None, 404),
        ("GET", "", "nobody", None, 401),
        ("GET", "", "stranger", None, 404),
        ("POST", "issues/1/comments", "narrow", Some(json!({ "body": "x" })), 403),
        ("POST", "issues/1/comments", "wren", Some(json!({ "body": "é".repeat(65_537) })), 422),
        ("POST", "issues/1/comments", "wren", Some(json!({ "body": "é".repeat(65_536) })), 201),
        ("GET", "collaborators/wren/permission", "rita", None, 403),
        ("GET", "collaborators/ghost/permission", "wren", None, 404),
        ("POST", "issues/1/labels", "rita", Some(json!({ "labels": ["x"] })), 403),
        ("DELETE", "issues/1/labels/none", "wren", None, 404),
        ("POST", "labels", "wren", Some(json!({ "name": "Frognano-FIX", "color": "ededed" })), 422),
        ("POST", "labels", "wren", Some(json!({ "name": "x", "color": "#ededed" })), 422),
        ("POST", "labels", "wren", Some(json!({ "name": "é".repeat(51), "color": "ededed" })), 422),
        ("DELETE", "git/refs/heads/none", "wren", None, 422),
    ] {
        let answer = stage.call(method, path, login, body).await;
        assert_eq!(answer.0, status, "{method} {path} as {login}: {}", answer.1);
    }
    assert_eq!(stage.call("GET", "issues/1", "wren", None).await.1["body"], json!(null), "an empty text is null");
    let (status, labels) = stage.call("POST", "issues/1/labels", "wren", Some(json!({ "labels": ["needs-human-review"] }))).await;
    assert_eq!((status, &labels[1]["color"]), (200, &json!("ededed")), "a missing label is made");
    let events = stage.call("GET", "issues/1/events", "wren", None).await.1;
    let labelled: Vec<_> = events.as_array().unwrap().iter().map(|event| (&event["event"], &event["actor"]["login"])).collect();
    assert_eq!(labelled, [(&json!("labeled"), &json!("rita")), (&json!("labeled"), &json!("wren"))]);
    assert!(forge.unexpected().is_empty(), "{:?}", forge.unexpected());
}

#[tokio::test(flavor = "multi_thread")]
async fn github_says_why_a_pull_request_is_not_opened() {
    let stage = Stage::new(Kind::GitHub).await;
    stage.push_branch("frognano", "fix").await;
    stage.forge().drafts_supported(false);
    let refused = stage.call("POST", "pulls", "frognano", pull("fix")).await;
    assert_eq!((refused.0, &refused.1["message"]), (422, &json!("Draft pull requests are not supported in this repository.")));
    stage.forge().drafts_supported(true);
    for (head, error) in [
        ("gone", json!({ "resource": "PullRequest", "field": "head", "code": "invalid" })),
        ("main", json!({ "resource": "PullRequest", "code": "custom", "message": "No commits between main and main" })),
    ] {
        let refused = stage.call("POST", "pulls", "frognano", pull(head)).await;
        assert_eq!((refused.0, &refused.1["errors"]), (422, &json!([error])));
    }
    let long = json!({ "head": "fix", "base": "main", "title": "Mend it", "body": "é".repeat(65_537), "draft": true });
    let refused = stage.call("POST", "pulls", "frognano", Some(long)).await;
    assert_eq!((refused.0, &refused.1["errors"][0]["field"]), (422, &json!("body")));
    let (status, opened) = stage.call("POST", "pulls", "frognano", pull("fix")).await;
    assert_eq!((status, &opened["draft"]), (201, &json!(true)));
    let again = stage.call("POST", "pulls", "frognano", pull("acme:fix")).await;
    assert_eq!((again.0, &again.1["errors"][0]["message"]), (422, &json!("A pull request already exists for acme:fix.")));
    for (filter, rows) in [("acme:fix", 1), ("acme:other", 0), ("other:fix", 0), ("other", 1)] {
        let found = stage.call("GET", &format!("pulls?state=open&head={filter}"), "frognano", None).await.1;
        assert_eq!(found.as_array().unwrap().len(), rows, "{filter}");
    }
    assert_eq!(stage.call("PATCH", "pulls/1", "frognano", Some(json!({ "state": "closed" }))).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_come_in_pages() {
    for (kind, size, most) in [(Kind::Gitea, "limit", 50), (Kind::Forgejo, "limit", 50), (Kind::GitHub, "per_page", 100)] {
        let stage = Stage::new(kind).await;
        for index in 1..120 {
            stage.forge().add_label(sample::PATH, &format!("label {index}"), "ededed").unwrap();
        }
        let (_, link, first) = stage.call_fully("GET", "labels", "wren", None).await;
        assert_eq!(first.as_array().unwrap().len(), 30);
        assert!(link.contains(&format!("{}/api", stage.running.base_url)) && link.contains("page=2>; rel=\"next\""), "{link}");
        let capped = stage.call("GET", &format!("labels?{size}=1000"), "wren", None).await.1;
        assert_eq!(capped.as_array().unwrap().len(), most);
        let (_, link, last) = stage.call_fully("GET", &format!("labels?{size}=50&page=3"), "wren", None).await;
        assert_eq!((last.as_array().unwrap().len(), link.as_str()), (20, ""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_strike_as_told_and_everything_asked_is_remembered() {
    let stage = Stage::new(Kind::Gitea).await;
    let forge = stage.forge();
    forge.open_issue(sample::PATH, "rita", "Bug", "", &[]).unwrap();
    let say = || Some(json!({ "body": "x" }));
    forge.fail_next("POST", "*/comments", 502, 1);
    forge.fail_after_doing("POST", "*/comments", 504, 1);
    let statuses = [502, 504, 201];
    for status in statuses {
        assert_eq!(stage.call("POST", "issues/1/comments", "wren", say()).await.0, status);
    }
    assert_eq!(forge.state().repository(sample::PATH).unwrap().issues[0].comments.len(), 2, "the second was written although it failed");

    let headers = [("Retry-After".to_owned(), "7".to_owned())].into();
    forge.fail(Failure { method: "*".to_owned(), path: "*".to_owned(), status: 429, times: 1, strike: Strike::Before, headers });
    let url = format!("{}/api/v1/user", stage.running.base_url);
    let limited = stage.client.get(&url).bearer_auth("wren-token").send().await.unwrap();
    assert_eq!((limited.status().as_u16(), limited.headers()["retry-after"].to_str().unwrap()), (429, "7"));

    assert_eq!(stage.call("GET", "milestones?token=x", "wren", None).await.0, 404);
    assert_eq!(forge.unexpected(), ["GET /api/v1/repos/acme/tallybook/milestones"]);
    let logged: Vec<_> = forge.requests().iter().map(|request| request.status).collect();
    assert_eq!(logged, [502, 504, 201, 429, 404]);
}
