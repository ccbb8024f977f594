//! The operator's switches: the queue is held, let go on, and everything is stopped; and the parts of the service in processes of their own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use frognano_bot::demo::forge::deliver;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::worker::Ended;

use crate::house::{House, PATIENCE};

const KEY: &str = "operator_token = { file = \"operator\" }";

async fn house() -> House {
    let house = House::new(Kind::Gitea).await.set(KEY);
    std::fs::write(house.folder.path().join("operator"), "the operator's key").unwrap();
    house
}

async fn ask(door: &str, method: &str, path: &str, key: Option<&str>) -> (u16, serde_json::Value) {
    let address = door.replace("/webhooks/here", path);
    let client = reqwest::Client::new();
    let mut request = match (method, path.ends_with("/resume")) {
        ("GET", _) => client.get(address),
        // As `curl -X POST` sends it.
        (_, true) => client.post(address),
        (_, false) => client.post(address).header("content-type", "application/x-www-form-urlencoded").body("by=ada&why=repairs"),
    };
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or_default())
}

#[tokio::test]
async fn a_held_queue_begins_nothing_and_every_label_gets_its_answer() {
    let house = house().await;
    let service = house.service().await;
    for key in [None, Some("another"), Some("")] {
        assert_eq!(ask(&service.door, "POST", "/operator/queue/pause", key).await.0, 401);
    }
    let (status, stands) = ask(&service.door, "POST", "/operator/queue/pause", Some("the operator's key")).await;
    assert_eq!((status, stands["paused"]["why"].as_str()), (200, Some("repairs")), "{stands}");
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    assert_eq!(service.step().await, Some(Ended::PutBack));
    assert_eq!(service.step().await, None);
    assert_eq!((house.said(issue).len(), house.pull_requests().len()), (1, 0));
    assert!(house.said(issue)[0].contains("in the queue"), "{:?}", house.said(issue));
    let (_, stands) = ask(&service.door, "POST", "/operator/queue/resume", Some("the operator's key")).await;
    assert!(stands["paused"].is_null() && stands["queued"] == 1, "{stands}");
    assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
    assert_eq!(ask(&service.door, "POST", "/operator/queue/burn", Some("the operator's key")).await.0, 404);
    service.end().await;
}

#[tokio::test]
async fn without_a_key_there_are_no_routes_of_an_operator() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    assert_eq!(ask(&service.door, "GET", "/operator/queue", Some("")).await.0, 404);
}

#[tokio::test]
async fn the_command_line_holds_the_queue_and_stops_what_runs() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let issue = house.open_issue();
    let asked = house.model.hold(0);
    service.take(&house.label(issue)).await;
    let worker = service.worker.clone();
    let run = tokio::spawn(async move { worker.run_next(&tokio_util::sync::CancellationToken::new()).await.unwrap() });
    asked.await.unwrap();
    let config = house.write_config();
    let queue = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        let output = command.arg("queue").args(arguments).arg("--config").arg(&config).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(queue(&["show"]).contains("0 in the queue, 1 running"));
    let told = queue(&["kill", "--by", "ada", "--why", "a bad model"]);
    assert!(told.contains("1 told to stop") && told.contains("held by ada: a bad model"), "{told}");
    let ended = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
    assert!(
        matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains("ada stopped all runs: a bad model")),
        "{ended:?}"
    );
    assert_eq!(house.said(issue).len(), 1);
    assert!(house.said(issue)[0].contains("ada stopped all runs"), "{:?}", house.said(issue));
    assert_eq!(queue(&["resume"]).trim(), "0 in the queue, 0 running, 1 done");
}

#[tokio::test]
async fn a_process_takes_webhooks_in_and_another_works_on_them() {
    let Some(database) = crate::databases::Database::postgres() else { return };
    let house = House::new(Kind::Gitea).await.on(database);
    let config = house.write_config();
    let (web, worker) = (Process::start("web", &config), Process::start("worker", &config));
    let issue = house.open_issue();
    for delivery in house.label(issue) {
        assert_eq!(deliver(&delivery, &web.door).await.unwrap(), 202);
    }
    house.until(|house| house.pull_requests().len() == 1 && house.said(issue).iter().any(|said| said.contains("draft pull request"))).await;
    house.forge().remove_label(project::PATH, issue, project::LABEL, project::MAINTAINER).unwrap();
    assert_eq!(deliver(&house.label(issue)[0], &worker.door).await.unwrap(), 404);
}

/// A part of the service in a process of its own, which ends with this.
struct Process {
    door: String,
    child: std::process::Child,
}

impl Process {
    fn start(part: &str, config: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        let mut child = command.args(["serve", "--only", part, "--config"]).arg(config).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let event: serde_json::Value = serde_json::from_str(&line).ok()?;
            event["address"].as_str().map(str::to_owned)
        });
        std::thread::spawn(move || lines.count());
        Self { door: format!("http://{}/webhooks/here", address.unwrap()), child }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
