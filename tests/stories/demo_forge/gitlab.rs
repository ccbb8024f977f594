use frognano_bot::demo::Kind;
use frognano_bot::demo::forge::{Failure, NewReview, On, Strike, Verdict};
use frognano_bot::domain::Permission;
use serde_json::{Value, json};

use super::{Stage, sample};

fn draft(branch: &str) -> Option<Value> {
    Some(json!({ "source_branch": branch, "target_branch": "main", "title": "Draft: Mend it", "description": "Text" }))
}

#[tokio::test(flavor = "multi_thread")]
async fn gitlab_refuses_what_gitlab_refuses() {
    let stage = Stage::new(Kind::GitLab).await;
    let forge = stage.forge();
    forge.open_issue(sample::PATH, "rita", "Bug", "", &["frognano-fix"]).unwrap();
    forge.add_token("looker-token", "wren", &["read_api"]).unwrap();
    forge.add_token("pusher-token", "wren", &["write_repository"]).unwrap();
    let url = format!("{}/api/v4/user", stage.running.base_url);
    for (header, value, status) in [
        ("private-token", "wren-token", 200),
        ("authorization", "Bearer wren-token", 200),
        ("authorization", "token wren-token", 401),
        ("private-token", "x", 401),
    ] {
        assert_eq!(stage.client.get(&url).header(header, value).send().await.unwrap().status(), status, "{header}: {value}");
    }
    let label = |name: &str| Some(json!({ "name": name, "color": "#ededed" }));
    let say = |words: &str| Some(json!({ "body": words }));
    for (method, path, login, body, status) in [
        ("GET", "", "", None, 404),
        ("GET", "", "stranger", None, 404),
        ("GET", "/projects/999999", "wren", None, 404),
        ("GET", "issues/1", "looker", None, 200),
        ("GET", "issues/1", "pusher", None, 403),
        ("GET", "issues/99", "wren", None, 404),
        ("GET", "merge_requests/1", "wren", None, 404),
        ("PATCH", "issues/1", "wren", say("x"), 405),
        ("POST", "issues/1", "wren", say("x"), 405),
        ("PATCH", "issues/1/notes/1", "wren", say("x"), 405),
        ("POST", "issues/1/notes", "looker", say("x"), 403),
        ("POST", "issues/1/notes", "wren", Some(json!({})), 400),
        ("POST", "issues/1/notes", "wren", say(&"é".repeat(1_000_001)), 400),
        ("PUT", "issues/1/notes/1", "wren", say("x"), 404),
        ("PUT", "issues/1", "wren", Some(json!({})), 400),
        ("PUT", "issues/1", "wren", Some(json!({ "state_event": "closed" })), 400),
        ("PUT", "issues/1", "wren", Some(json!({ "title": "x".repeat(256) })), 400),
        ("POST", "labels", "wren", Some(json!({ "name": "x" })), 400),
        ("POST", "labels", "wren", Some(json!({ "name": "x", "color": "ededed" })), 400),
        ("POST", "labels", "wren", label("a,b"), 400),
        ("POST", "labels", "wren", label(&"é".repeat(256)), 400),
        ("POST", "labels", "wren", label(&"é".repeat(255)), 201),
        ("POST", "labels", "wren", label("frognano-fix"), 409),
        ("POST", "labels", "wren", label("Frognano-Fix"), 201),
        ("GET", "labels/none", "wren", None, 404),
        ("GET", "members/all/999", "wren", None, 404),
        ("POST", "merge_requests", "rita", draft("fix"), 403),
        ("DELETE", "repository/branches/main", "wren", None, 403),
    ] {
        let answer = stage.call(method, path, login, body).await;
        assert_eq!(answer.0, status, "{method} {path} as {login}: {}", answer.1);
    }
    let refused = stage.call("GET", "issues/1", "pusher", None).await.1;
    assert_eq!(refused["error"], "insufficient_scope");
    assert_eq!(forge.unexpected().len(), 3, "the wrong methods: {:?}", forge.unexpected());

    forge.with_repository(sample::PATH, |repository| repository.archived = true).unwrap();
    assert_eq!(stage.call("POST", "issues/1/notes", "wren", say("x")).await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_known_by_number_with_their_level() {
    let stage = Stage::new(Kind::GitLab).await;
    for (login, level) in [("ada", Some(40)), ("wren", Some(30)), ("rita", Some(20)), ("stranger", None)] {
        let found = stage.call("GET", &format!("/users?username={}", login.to_uppercase()), "wren", None).await.1;
        let id = found[0]["id"].as_u64().unwrap();
        let (status, member) = stage.call("GET", &format!("members/all/{id}"), "wren", None).await;
        assert_eq!((status, member["access_level"].as_i64()), (if level.is_some() { 200 } else { 404 }, level), "{login}");
    }
    assert_eq!(stage.call("GET", "/users?username=ghost", "wren", None).await.1, json!([]));
    assert_eq!(stage.call("GET", "/users?username=acme", "wren", None).await.1, json!([]), "a group is no account");
    stage.forge().with_repository(sample::PATH, |repository| repository.private = false).unwrap();
    let id = stage.forge().state().user("stranger").unwrap().id;
    assert_eq!(stage.call("GET", &format!("members/all/{id}"), "wren", None).await.0, 404, "who may read what is public is no member");
    assert_eq!(stage.call("POST", "labels", "stranger", Some(json!({ "name": "x", "color": "#ededed" }))).await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn gitlab_opens_one_merge_request_for_a_branch_and_numbers_it_apart() {
    let stage = Stage::new(Kind::GitLab).await;
    stage.forge().open_issue(sample::PATH, "rita", "Bug", "", &[]).unwrap();
    let sha = stage.push_branch("frognano", "frognano/issue-1-a").await;
    for (body, status) in [(draft("gone"), 400), (draft("main"), 409), (Some(json!({ "source_branch": "x" })), 400)] {
        assert_eq!(stage.call("POST", "merge_requests", "frognano", body.clone()).await.0, status, "{body:?}");
    }
    let (status, opened) = stage.call("POST", "merge_requests", "frognano", draft("frognano/issue-1-a")).await;
    assert_eq!((status, &opened["iid"], &opened["draft"], &opened["sha"]), (201, &json!(1), &json!(true), &json!(sha)));
    let (status, refused) = stage.call("POST", "merge_requests", "frognano", draft("frognano/issue-1-a")).await;
    assert_eq!((status, &refused["message"]), (409, &json!(["Another open merge request already exists for this source branch: !1"])));
    assert_eq!(stage.call("GET", "issues/1", "wren", None).await.1["title"], "Bug");

    for (title, is_draft) in [("[draft] x", true), ("(Draft) x", true), ("draft: x", true), ("WIP: x", false), ("x Draft: y", false)] {
        let changed = stage.call("PUT", "merge_requests/1", "wren", Some(json!({ "title": title }))).await.1;
        assert_eq!(changed["draft"], json!(is_draft), "{title}");
    }
    let found = async |query: &str| stage.call("GET", &format!("merge_requests?{query}"), "wren", None).await.1.as_array().unwrap().len();
    assert_eq!(found("state=opened&source_branch=frognano%2Fissue-1-a").await, 1);
    assert_eq!(found("state=opened&source_branch=other").await, 0);
    let closed = stage.call("PUT", "merge_requests/1", "wren", Some(json!({ "state_event": "close" }))).await.1;
    assert_eq!(closed["state"], "closed");
    assert_eq!((found("state=opened").await, found("").await), (0, 1));
    assert_eq!(stage.call("POST", "merge_requests", "frognano", draft("frognano/issue-1-a")).await.1["iid"], json!(2));
    stage.forge().drafts_supported(false);
    assert_eq!(stage.call("GET", "merge_requests/2", "wren", None).await.1["draft"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_come_newest_first_with_what_gitlab_notes_down_itself() {
    let stage = Stage::new(Kind::GitLab).await;
    stage.forge().open_issue(sample::PATH, "rita", "Bug", "", &["bug"]).unwrap();
    let (_, note) = stage.call("POST", "issues/1/notes", "rita", Some(json!({ "body": "One" }))).await;
    let path = format!("issues/1/notes/{}", note["id"]);
    for (login, status) in [("rita", 200), ("wren", 403), ("ada", 200)] {
        assert_eq!(stage.call("PUT", &path, login, Some(json!({ "body": login }))).await.0, status, "{login}");
    }
    let notes = async |query: &str| {
        let rows = stage.call("GET", &format!("issues/1/notes{query}"), "wren", None).await.1;
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| (row["system"] == json!(true), row["body"].as_str().unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    let label = stage.forge().state().repository(sample::PATH).unwrap().issues[0].labels[0].id;
    let (system, said) = ((true, format!("added ~{label} label")), (false, "ada".to_owned()));
    assert_eq!(notes("").await, [said.clone(), system.clone()]);
    assert_eq!(notes("?sort=asc").await, [system, said]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_begins_with_a_slash_is_carried_out() {
    let stage = Stage::new(Kind::GitLab).await;
    let forge = stage.forge();
    forge.open_issue(sample::PATH, "rita", "Bug", "", &[]).unwrap();
    let say = |words: &str| Some(json!({ "body": words }));
    for harmless in ["/frognano retry", "see\n\n```\n/close\n```", "` /close`", " /close"] {
        assert_eq!(stage.call("POST", "issues/1/notes", "wren", say(harmless)).await.1["body"], harmless);
    }
    assert!(forge.state().quick_actions.is_empty());
    let (status, note) = stage.call("POST", "issues/1/notes", "wren", say("Done.\n/close")).await;
    assert_eq!((status, &note["body"]), (201, &json!("Done.")));
    assert!(!forge.state().repository(sample::PATH).unwrap().issues[0].open);
    assert_eq!(stage.call("POST", "issues/1/notes", "wren", say("/reopen")).await.0, 202);
    assert_eq!(forge.state().quick_actions, ["wren: /close", "wren: /reopen"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_name_the_next_one_and_limits_answer_a_plain_text() {
    let stage = Stage::new(Kind::GitLab).await;
    for index in 1..45 {
        stage.forge().add_label(sample::PATH, &format!("label {index}"), "ededed").unwrap();
    }
    let ask = async |query: &str| {
        let url = format!("{}/api/v4/projects/acme%2Ftallybook/labels{query}", stage.running.base_url);
        let answer = stage.client.get(url).header("private-token", "wren-token").send().await.unwrap();
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let (status, next, retry) = (answer.status().as_u16(), header("x-next-page"), header("retry-after"));
        (status, next, retry, answer.text().await.unwrap())
    };
    for (query, next, rows) in [("", "2", 20), ("?page=3", "", 5), ("?per_page=1000", "", 45), ("?per_page=40&page=1", "2", 40)] {
        let (status, named, _, body) = ask(query).await;
        let found = serde_json::from_str::<Vec<Value>>(&body).unwrap().len();
        assert_eq!((status, &*named, found), (200, next, rows), "{query}");
    }
    let headers = [("Retry-After".to_owned(), "7".to_owned())].into();
    stage.forge().fail(Failure { method: "*".to_owned(), path: "*".to_owned(), status: 429, times: 1, strike: Strike::Before, headers });
    assert_eq!(ask("").await, (429, String::new(), "7".to_owned(), "Retry later\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn gitlab_tells_of_an_issue_as_recorded_deliveries_do() {
    let stage = Stage::new(Kind::GitLab).await;
    let forge = stage.forge();
    let opened = forge.open_issue(sample::PATH, "rita", "Bug", "Text", &["frognano-fix", "bug"]).unwrap().deliveries;
    let [opened] = opened.as_slice() else { panic!("one delivery, with all labels: {opened:?}") };
    let names =
        |value: &Value| value.as_array().unwrap().iter().map(|label| label["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let json_of = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
    assert_eq!(names(&json_of(&opened.body)["labels"]), ["frognano-fix", "bug"]);
    assert_eq!((opened.header("X-Gitlab-Event"), opened.header("X-Gitlab-Token")), (Some("Issue Hook"), Some(super::SECRET)));
    assert_eq!(opened.header("Idempotency-Key"), Some(opened.id.as_str()));

    let removed = json_of(&forge.remove_label(sample::PATH, 1, "bug", "wren").unwrap()[0].body);
    assert_eq!(removed["object_attributes"]["action"], "update");
    assert_eq!(names(&removed["changes"]["labels"]["previous"]), ["frognano-fix", "bug"]);
    assert_eq!(names(&removed["changes"]["labels"]["current"]), ["frognano-fix"]);
    assert!(forge.set_label(sample::PATH, 1, "frognano-fix", "wren").unwrap().is_empty(), "it was there already");
    let closed = json_of(&forge.close_issue(sample::PATH, 1, "wren").unwrap()[0].body);
    assert_eq!(closed["object_attributes"]["action"], "close");
    assert_eq!(names(&closed["changes"]["labels"]["previous"]), ["frognano-fix", "bug"], "repeated, as if it had just happened");

    let said = forge.write_comment(sample::PATH, 1, "/frognano retry", "wren").unwrap();
    assert_eq!((said[0].header("X-Gitlab-Event"), said[0].what.as_str()), (Some("Note Hook"), "Note Hook create"));
    let said = json_of(&said[0].body);
    assert_eq!((&said["object_attributes"]["noteable_type"], &said["issue"]["iid"]), (&json!("Issue"), &json!(1)));
    forge.with_repository(sample::PATH, |repository| repository.issues[0].confidential = true).unwrap();
    let hidden = forge.write_comment(sample::PATH, 1, "x", "wren").unwrap();
    assert_eq!(hidden[0].header("X-Gitlab-Event"), Some("Confidential Note Hook"));
    let hidden = forge.reopen_issue(sample::PATH, 1, "wren").unwrap();
    assert_eq!(hidden[0].header("X-Gitlab-Event"), Some("Confidential Issue Hook"));
    assert_eq!(json_of(&hidden[0].body)["event_type"], "confidential_issue");

    stage.push_branch("frognano", "fix").await;
    drop(forge.take_deliveries());
    stage.call("POST", "merge_requests", "frognano", draft("fix")).await;
    let opened = forge.take_deliveries();
    assert_eq!(opened[0].header("X-Gitlab-Event"), Some("Merge Request Hook"));
    let opened = json_of(&opened[0].body);
    assert_eq!((&opened["object_attributes"]["draft"], &opened["object_attributes"]["source_branch"]), (&json!(true), &json!("fix")));
}

#[tokio::test(flavor = "multi_thread")]
async fn confidential_issues_are_hidden_from_who_is_no_member() {
    let stage = Stage::new(Kind::GitLab).await;
    let forge = stage.forge();
    forge.open_issue(sample::PATH, "wren", "Secret", "", &[]).unwrap();
    forge
        .with_repository(sample::PATH, |repository| {
            repository.private = false;
            repository.issues[0].confidential = true;
        })
        .unwrap();
    forge.permit(sample::PATH, "rita", Permission::None).unwrap();
    for (login, status, rows) in [("ada", 200, 1), ("wren", 200, 1), ("rita", 404, 0), ("stranger", 404, 0)] {
        assert_eq!(stage.call("GET", "issues/1", login, None).await.0, status, "{login}");
        assert_eq!(stage.call("GET", "issues", login, None).await.1.as_array().unwrap().len(), rows, "{login}");
    }
    assert_eq!(stage.call("GET", "issues?confidential=false", "ada", None).await.1, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn projects_are_listed_by_level_and_issues_locked_moved_deleted_by_who_may() {
    let stage = Stage::new(Kind::GitLab).await;
    stage.forge().open_issue(sample::PATH, "rita", "Bug", "", &[]).unwrap();
    let id = stage.forge().state().repository(sample::PATH).unwrap().id;
    let listed = async |login: &str, more: &str| {
        let path = format!("/projects?membership=true{more}");
        stage.call("GET", &path, login, None).await.1.as_array().unwrap().len()
    };
    for (login, any, developer) in [("wren", 1, 1), ("rita", 1, 0), ("stranger", 0, 0)] {
        assert_eq!((listed(login, "").await, listed(login, "&min_access_level=30").await), (any, developer), "{login}");
    }
    let to = |id: u64| Some(json!({ "to_project_id": id }));
    let lock = || Some(json!({ "discussion_locked": true }));
    for (method, path, login, body, status) in [
        ("PUT", "/projects", "wren", None, 405),
        ("DELETE", "issues/1", "ada", None, 403),
        ("POST", "issues/1/move", "wren", Some(json!({})), 400),
        ("POST", "issues/1/move", "wren", to(id), 400),
        ("POST", "issues/1/move", "wren", to(999_999), 404),
        ("GET", "issues/1/move", "wren", None, 405),
        ("PUT", "issues/1", "stranger", lock(), 404),
        ("PUT", "issues/1", "wren", lock(), 200),
        ("POST", "archive", "wren", None, 403),
    ] {
        let answer = stage.call(method, path, login, body).await;
        assert_eq!(answer.0, status, "{method} {path} as {login}: {}", answer.1);
    }
    assert_eq!(stage.call("GET", "issues/1", "wren", None).await.1["discussion_locked"], json!(true));
    stage.forge().transfer_issue(sample::PATH, 1, "wren").unwrap();
    let moved = stage.call("GET", "issues/1", "wren", None).await.1;
    assert!(moved["moved_to_id"].is_u64() && moved["state"] == "closed", "{moved}");
    stage.forge().delete_issue(sample::PATH, 1, "ada").unwrap();
    assert_eq!(stage.call("GET", "issues/1", "wren", None).await.0, 404);
    assert_eq!(stage.call("POST", "archive", "ada", None).await.1["archived"], json!(true));
    assert_eq!((listed("wren", "&archived=false").await, listed("wren", "&archived=true").await), (0, 1));
    assert_eq!(stage.call("POST", "unarchive", "ada", None).await.1["archived"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reviewer_has_a_state_and_the_words_are_notes() {
    let stage = Stage::new(Kind::GitLab).await;
    stage.push_branch("frognano", "fix").await;
    stage.call("POST", "merge_requests", "frognano", draft("fix")).await;
    let on = On::PullRequest(1);
    let lines = [("tallybook/plan.py", 12, "Why?")];
    let review = |verdict| NewReview { verdict, body: "Not so.", lines: &lines };
    assert_eq!(stage.call("POST", "merge_requests/1/approve", "frognano", None).await.0, 401, "its own");
    assert_eq!(stage.call("POST", "merge_requests/1/approve", "rita", None).await.0, 403);
    assert_eq!(stage.call("POST", "merge_requests/1/unapprove", "wren", None).await.0, 404);
    assert_eq!(stage.call("POST", "merge_requests/1/approve", "wren", None).await.0, 201);
    assert_eq!(stage.call("POST", "merge_requests/1/approve", "wren", None).await.0, 401, "once is enough");
    let approvals = async || stage.call("GET", "merge_requests/1/approvals", "ada", None).await.1["approved_by"].as_array().unwrap().len();
    assert_eq!(approvals().await, 1);
    let told = stage.forge().review(sample::PATH, on, "wren", review(Verdict::ChangesRequested)).unwrap();
    assert_eq!(
        told.iter().map(|told| told.what.as_str()).collect::<Vec<_>>(),
        ["Note Hook create", "Note Hook create", "Merge Request Hook update"]
    );
    let changes = serde_json::from_slice::<Value>(&told[2].body).unwrap()["changes"]["reviewers"].clone();
    assert_eq!((&changes["previous"][0]["state"], &changes["current"][0]["state"]), (&json!("approved"), &json!("requested_changes")));
    assert_eq!(approvals().await, 0, "who wants changes approves no more");
    let reviewers = stage.call("GET", "merge_requests/1/reviewers", "ada", None).await.1;
    assert_eq!((&reviewers[0]["user"]["username"], &reviewers[0]["state"]), (&json!("wren"), &json!("requested_changes")));
    let threads = stage.call("GET", "merge_requests/1/discussions", "ada", None).await.1;
    let note = |thread: usize| threads[thread]["notes"][0].clone();
    assert_eq!((&note(0)["body"], &note(0)["position"]), (&json!("Not so."), &json!(null)));
    assert_eq!((&note(1)["type"], &note(1)["position"]["new_line"]), (&json!("DiffNote"), &json!(12)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_asker_has_already_is_not_sent_again() {
    for (kind, has_tags) in [(Kind::GitLab, true), (Kind::GitHub, true), (Kind::Gitea, false)] {
        let stage = Stage::new(kind).await;
        let number = stage.forge().open_issue(sample::PATH, "rita", "Bug", "", &[]).unwrap().number;
        let project = if kind == Kind::GitLab { "projects/acme%2Ftallybook" } else { "repos/acme/tallybook" };
        let url = format!("{}/{}/{project}/issues/{number}", stage.running.base_url, kind.api());
        let ask = async |tag: &str| {
            let request = stage.client.get(&url).bearer_auth("wren-token").header("if-none-match", tag);
            let answer = request.send().await.unwrap();
            let tag = answer.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned()).unwrap_or_default();
            (answer.status().as_u16(), tag, answer.text().await.unwrap().is_empty())
        };
        let (status, tag, _) = ask("W/\"x\"").await;
        assert_eq!((status, !tag.is_empty()), (200, has_tags), "{kind:?}");
        if has_tags {
            assert_eq!(ask(&tag).await, (304, tag.clone(), true), "{kind:?}");
            stage.forge().edit_issue(sample::PATH, number, "Bugs", "", "rita").unwrap();
            assert_eq!(ask(&tag).await.0, 200, "{kind:?}");
        }
    }
}
