//! The API, its keys, and the command line over it.

use std::process::{Command, Output};

use frognano_bot::app::TimeIds;
use frognano_bot::audit::{Kind as What, Note};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::{Outcome, SystemClock};
use frognano_bot::store::{Doer, Scope, Store};
use serde_json::Value;
use sqlx::{AnyConnection, Connection as _};

use crate::commands::heard;
use crate::databases::Database;
use crate::house::{House, Service};

async fn key(store: &Store, scope: Scope, repositories: Option<&[String]>, holds_ms: Option<i64>) -> String {
    let by = Doer::operator("a story");
    store.make_token(("story", scope, repositories), holds_ms, &by, &SystemClock, &TimeIds).await.unwrap().1
}

fn address(service: &Service, path: &str) -> String {
    service.door.replace("/webhooks/here", path)
}

async fn ask(service: &Service, method: &str, path: &str, key: Option<&str>) -> (u16, Value) {
    ask_with(service, method, path, key, &[]).await
}

async fn ask_with(service: &Service, method: &str, path: &str, key: Option<&str>, headers: &[(&str, &str)]) -> (u16, Value) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.request(method.parse().unwrap(), address(service, path));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = if let Some(key) = key { request.bearer_auth(key) } else { request };
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method} {path}: {status} with no JSON: {text:?}")))
}

#[tokio::test]
async fn a_key_does_what_its_scope_says_and_sees_what_it_reaches() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let job = service.jobs().await[0].id.clone();
    let run = format!("/api/v1/runs/{job}");
    let elsewhere = ["here/999".to_owned()];
    let [read, audit, operate] = [
        key(&service.store, Scope::Read, None, None).await,
        key(&service.store, Scope::Audit, None, None).await,
        key(&service.store, Scope::Operate, None, None).await,
    ];
    let blind = key(&service.store, Scope::Operate, Some(&elsewhere), None).await;
    let ended = key(&service.store, Scope::Operate, None, Some(-1)).await;
    let statuses = async |method: &str, path: &str| {
        let mut all = Vec::new();
        for key in [&read, &audit, &operate, &blind, &ended, "frognano_wrong"] {
            let (status, answer) = ask(&service, method, path, Some(key)).await;
            assert!(status < 400 || answer["message"].is_string(), "{answer}");
            all.push(status);
        }
        all
    };
    assert_eq!(statuses("GET", &run).await, [200, 200, 200, 404, 401, 401]);
    assert_eq!(statuses("GET", "/api/v1/audit").await, [403, 200, 200, 403, 401, 401]);
    assert_eq!(statuses("GET", "/api/v1/queue").await, [200, 200, 200, 403, 401, 401]);
    assert_eq!(statuses("POST", "/api/v1/queue/pause").await, [403, 403, 200, 403, 401, 401]);
    assert_eq!(statuses("POST", &format!("{run}/retry")).await, [403, 403, 409, 404, 401, 401]);
    assert_eq!(statuses("POST", &format!("{run}/cancel")).await, [403, 403, 202, 404, 401, 401]);
    assert_eq!(ask(&service, "GET", "/api/v1/runs", Some(&blind)).await.1["runs"], serde_json::json!([]));
    // Who sits at the machine needs no key, but a page of another site can't play them.
    assert_eq!(ask(&service, "POST", "/api/v1/queue/resume", None).await.0, 403);
    assert_eq!(ask_with(&service, "POST", "/api/v1/queue/resume", None, &[("x-frognano-request", "1")]).await.0, 200);
    for (name, value) in [
        ("host", "evil.example"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("via", "1.1 proxy"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        assert_eq!(ask_with(&service, "GET", "/api/v1/runs", None, &[(name, value)]).await.0, 403, "{name}");
    }
    // What can't be meant is said, in JSON, and nothing breaks.
    for (query, status) in [
        ("?limit=0", 400),
        ("?limit=201", 400),
        ("?limit=99999999999999999999", 400),
        ("?before=1-'%20or%201=1", 400),
        ("?before=zzz", 400),
        ("?outcome=fine", 400),
        ("?colour=red", 400),
        ("?person=%00", 400),
        ("?repository=", 400),
        ("?from_ms=9223372036854775807&until_ms=-9223372036854775808", 200),
        ("?before=999999999999999999-zzz", 200),
        ("/..%2f..%2fetc%2fpasswd", 404),
        ("/%ff", 404),
        ("/%00", 404),
        ("/x/y/z", 404),
    ] {
        assert_eq!(ask(&service, "GET", &format!("/api/v1/runs{query}"), Some(&read)).await.0, status, "{query}");
    }
    assert_eq!(ask(&service, "DELETE", &run, Some(&operate)).await.0, 405);
    assert_eq!(ask(&service, "GET", "/api/v2", None).await.0, 404);
    // A key that is in the database is not in it.
    let bytes = std::fs::read(house.folder.path().join("data/frognano.sqlite")).unwrap_or_default();
    assert!(!bytes.windows(operate.len()).any(|part| part == operate.as_bytes()));
    let did = house.events().await.into_iter().filter(|event| event.kind == What::Operator);
    let did = did.map(|event| event.facts["did"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(did, ["pause", "cancel", "resume"]);
}

#[tokio::test]
async fn the_command_line_lists_shows_follows_retries_and_cancels_over_the_api() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let runs = async |arguments: &[&str]| -> Output {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        command.arg("runs").args(arguments).arg("--url").arg(address(&service, "")).output().await.unwrap()
    };
    let said = async |arguments: &[&str]| -> String {
        let output = runs(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let job = service.jobs().await[0].id.clone();
    // A job that waits is ended by a worker's hand, and its issue is told once.
    said(&["cancel", &job]).await;
    heard(&service).await;
    assert_eq!(service.jobs().await[0].outcome.as_deref(), Some("cancelled"));
    assert!(house.said(issue).concat().contains("asked for it"), "{:?}", house.said(issue));
    assert_eq!(runs(&["cancel", &job]).await.status.code(), Some(4));
    // It is made once more, and once only; its log is followed to its end.
    said(&["retry", &job]).await;
    assert_eq!(runs(&["retry", &job]).await.status.code(), Some(4));
    let next = service.jobs().await[0].id.clone();
    assert_ne!(next, job);
    let step = service.worker.clone();
    let worked = tokio::spawn(async move { step.run_next(&tokio_util::sync::CancellationToken::new()).await.unwrap() });
    let run = loop {
        let listed = serde_json::from_str::<Value>(&said(&["list", "--json", "--limit", "1"]).await).unwrap();
        if listed["runs"][0]["run"] != listed["runs"][0]["job"] {
            break listed["runs"][0]["run"].as_str().unwrap().to_owned();
        }
    };
    let log = said(&["logs", &run, "--follow"]).await;
    assert!(log.contains("job-claimed") && log.contains("step 6: ") && log.contains("run-ended"), "{log}");
    assert!(matches!(worked.await.unwrap(), Some(frognano_bot::worker::Ended::Outcome(Outcome::Proposed { .. }))));
    let list = said(&["list", "--repo", project::PATH, "--person", project::MAINTAINER]).await;
    assert!(list.contains(&run) && list.contains("proposed") && !list.contains(&job), "{list}");
    assert!(said(&["show", &run]).await.contains("asked by     ada"));
    let (_, steps) = ask(&service, "GET", &format!("/api/v1/runs/{run}/steps"), None).await;
    assert_eq!(steps["attempts"][0]["steps"].as_array().map(Vec::len), Some(6), "{steps}");
    assert_eq!(runs(&["show", "nothing"]).await.status.code(), Some(3));
    assert_eq!(runs(&["list", "--outcome", "fine"]).await.status.code(), Some(2));
    std::fs::write(house.folder.path().join("key"), "frognano_wrong").unwrap();
    let file = house.folder.path().join("key");
    assert_eq!(runs(&["list", "--token-file", file.to_str().unwrap()]).await.status.code(), Some(4));
    service.end().await;
}

#[tokio::test]
async fn who_follows_a_run_misses_no_line_that_another_process_commits_late() {
    let Some(database) = Database::postgres() else { return };
    let store = database.open().await;
    let say = async |word: &str| store.witness(&Note::new(What::Stage, serde_json::json!({"stage": word})).of_run("r")).await.unwrap();
    let followed = async |after: i64| {
        let lines = store.log_of_run("r", after, 100).await.unwrap();
        (
            lines.iter().map(|line| line.event.facts["stage"].as_str().unwrap().to_owned()).collect::<Vec<_>>(),
            lines.last().map_or(after, |line| line.nth),
        )
    };
    say("first").await;
    let mut connection = AnyConnection::connect(&database.url).await.unwrap();
    let mut slow = connection.begin().await.unwrap();
    sqlx::query("insert into audit_events (run, event) select run, replace(event, 'first', 'late') from audit_events")
        .execute(&mut *slow)
        .await
        .unwrap();
    say("second").await;
    let (lines, next) = followed(0).await;
    assert_eq!(lines, ["first", "second"]);
    slow.commit().await.unwrap();
    say("third").await;
    let (lines, next) = followed(next).await;
    assert_eq!(lines, ["late", "third"]);
    assert_eq!(followed(next).await.0, Vec::<String>::new());
    store.close().await;
}

#[tokio::test]
async fn keys_are_made_listed_and_ended_on_the_command_line() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    service.take(&house.label(house.open_issue())).await;
    let config = house.write_config();
    let token = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        command.arg("token").args(arguments).arg("--config").arg(&config).output().unwrap()
    };
    let output = token(&["new", "--name", "ci", "--scope", "read", "--repo", &format!("here:{}", project::PATH), "--days", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let key = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let (_, me) = ask(&service, "GET", "/api/v1/me", Some(&key)).await;
    assert_eq!((me["role"].as_str(), me["repositories"].as_array().map(Vec::len)), (Some("reader"), Some(1)), "{me}");
    assert_eq!(ask(&service, "GET", "/api/v1/runs", Some(&key)).await.1["runs"].as_array().map(Vec::len), Some(1));
    let listed = String::from_utf8(token(&["list"]).stdout).unwrap();
    assert!(listed.contains("ci") && !listed.contains(&key), "{listed}");
    let id = service.store.tokens().await.unwrap()[0].id.clone();
    assert!(token(&["revoke", &id]).status.success());
    assert_eq!(ask(&service, "GET", "/api/v1/me", Some(&key)).await.0, 401);
    assert_eq!(token(&["revoke", &id]).status.code(), Some(2));
    for (scope, repository) in [("read", "here:no/such"), ("audit", &format!("here:{}", project::PATH))] {
        assert_eq!(token(&["new", "--name", "ci", "--scope", scope, "--repo", repository]).status.code(), Some(2), "{scope} {repository}");
    }
}

/// Every address of the description, asked many things that nobody thought of; runs where FROGNANO_TEST_SCHEMATHESIS is a virtualenv with it.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_the_api_answers_as_it_is_described() {
    let Ok(environment) = std::env::var("FROGNANO_TEST_SCHEMATHESIS") else {
        println!("FROGNANO_TEST_SCHEMATHESIS is not set: the description was not tried");
        return;
    };
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    service.take(&house.label(house.open_issue())).await;
    let key = key(&service.store, Scope::Operate, None, None).await;
    let mut command = tokio::process::Command::new(format!("{environment}/bin/schemathesis"));
    command.current_dir(house.folder.path()).args(["run", &address(&service, "/api/openapi.json"), "--url", &address(&service, "")]);
    command.args(["--header", &format!("Authorization: Bearer {key}"), "--max-examples", "40", "--seed", "7", "--workers", "1"]);
    command.args(["--phases", "examples,coverage,fuzzing", "--checks"]);
    command.arg("not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection");
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    service.end().await;
}
