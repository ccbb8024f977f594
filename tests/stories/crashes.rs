//! kill -9: the service is a process of its own and is killed at each of its words to the forge and to the model, then started again.
//! Whatever the moment, there is one pull request, one comment, one branch, one outcome, and nothing is left running.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use frognano_bot::demo::forge::{Logged, On, Strike, deliver};
use frognano_bot::demo::{Kind, project};
use frognano_bot::store::Store;

use crate::house::{House, TOKEN};

/// The service as a process of its own.
pub struct Bot {
    child: Child,
    pub door: String,
    log: std::thread::JoinHandle<String>,
    pub ended: tokio::sync::mpsc::UnboundedReceiver<()>,
}

impl Bot {
    pub fn start(house: &House) -> Self {
        Self::start_with(house, &[])
    }

    /// With further variables in its environment.
    pub fn start_with(house: &House, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        command.args(["serve", "--config"]).arg(house.write_config()).stderr(Stdio::piped()).stdin(Stdio::null());
        command.envs(variables.iter().copied());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut log = String::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("the service did not start: {log}")).unwrap();
            let event: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if event["message"] == "serving" {
                break event["address"].as_str().unwrap().to_owned();
            }
            log += &line;
        };
        let (ends, ended) = tokio::sync::mpsc::unbounded_channel();
        let with = move |log: String, line: String| {
            if line.contains(r#""message":"ended""#) {
                ends.send(()).ok();
            }
            log + &line + "\n"
        };
        let log = std::thread::spawn(move || lines.map_while(Result::ok).fold(log, with));
        Self { child, door: format!("http://{address}/webhooks/here"), log, ended }
    }

    /// kill -9.
    pub fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log.join().unwrap()
    }

    /// SIGTERM; it must end by itself.
    pub fn stop(mut self) -> String {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        self.log.join().unwrap()
    }
}

fn is_said(house: &House) -> bool {
    house.has_proposed(1)
}

/// Starts again, waits for the proposal, stops in order, and looks at everything that is left.
pub async fn recovers(house: &House, moment: &str) {
    let mut bot = Bot::start(house);
    house.until(is_said).await;
    let ended = tokio::time::timeout(std::time::Duration::from_secs(90), bot.ended.recv()).await;
    assert_eq!(ended, Ok(Some(())), "{moment}: what was said before the kill must be written down too");
    let log = bot.stop();
    assert!(!log.contains(TOKEN), "{moment}: the token is in the log");
    let open = house.pull_requests().iter().filter(|pull_request| pull_request.open).count();
    assert_eq!((open, house.pull_requests().len(), house.branches().len(), house.said(1).len()), (1, 1, 1, 1), "{moment}\n{log}");
    let labels = house.pull_requests()[0].labels.iter().map(|label| label.name.clone()).collect::<Vec<_>>();
    assert_eq!(labels, ["needs-human-review"], "{moment}");
    let database = house.database();
    let jobs = Store::open(&database).await.unwrap().jobs(10).await.unwrap();
    let outcomes = jobs.iter().map(|job| job.outcome.clone().unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(outcomes, ["proposed"], "{moment}: {jobs:#?}");
    assert_eq!(inside_of(house), Vec::<String>::new(), "{moment}: something still runs");
}

/// The processes of this machine that have to do with the house's folder, or run inside a sandbox of ours.
pub fn inside_of(house: &House) -> Vec<String> {
    let folder = house.folder.path().display().to_string();
    let processes = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()));
    let lines = processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&folder)).collect()
}

/// A house whose service was told of a label and runs until it is held at a request to the forge.
async fn killed_at_the_forge(kind: Kind, after: usize, strike: Strike) -> Option<House> {
    let house = House::new(kind).await;
    house.open_issue();
    let bot = Bot::start(&house);
    // At its start the service asks who it is, beside its work; what is counted is what comes behind that.
    house.until(|house| house.forge().count("GET", "*/user") > 0).await;
    let at_start = house.forge().requests().len();
    let reached = house.forge().hold(after, strike);
    for delivery in house.label(1) {
        assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
    }
    let came = tokio::select! {
        reached = reached => reached.is_ok(),
        () = house.until(|house| house.forge().requests().len() <= at_start + after && is_said(house)) => false,
    };
    bot.kill();
    came.then_some(house)
}

/// What a request is of: its method and path without what differs from one run to the next.
fn kind_of(request: &Logged) -> String {
    let shared = |part: &str| if part.bytes().any(|byte| byte.is_ascii_digit()) && !part.starts_with('v') { "*" } else { part }.to_owned();
    format!("{} {}", request.method, request.path.split('/').map(shared).collect::<Vec<_>>().join("/"))
}

/// The first request of each kind that a run makes on this forge, counted from the label on.
async fn first_of_each_kind(kind: Kind) -> Vec<(usize, String)> {
    let house = House::new(kind).await;
    house.open_issue();
    let mut bot = Bot::start(&house);
    house.until(|house| house.forge().count("GET", "*/user") > 0).await;
    let at_start = house.forge().requests().len();
    told(house.label(1), &bot).await;
    bot.ended.recv().await.unwrap();
    bot.stop();
    let mut seen = BTreeSet::new();
    let kinds = house.forge().requests()[at_start..].iter().map(kind_of).enumerate().collect::<Vec<_>>();
    kinds.into_iter().filter(|(_, kind)| seen.insert(kind.clone())).collect()
}

async fn killed_at_each_kind_of_word_to(kind: Kind) {
    let moments = first_of_each_kind(kind).await;
    for (nth, (after, request)) in moments.iter().enumerate() {
        let strike = if (nth % 2 == 0) == matches!(kind, Kind::GitLab | Kind::Forgejo) { Strike::Before } else { Strike::After };
        let moment = format!("{kind:?}: killed at {request}, {strike:?}");
        let house = killed_at_the_forge(kind, *after, strike).await.unwrap_or_else(|| panic!("{moment}: it did not come to that"));
        recovers(&house, &moment).await;
    }
    println!("{kind:?}: killed at {} kinds of requests: {moments:?}", moments.len());
    assert!(moments.len() > 12, "only {moments:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_word_to_gitea_it_ends_in_one_pull_request() {
    killed_at_each_kind_of_word_to(Kind::Gitea).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_word_to_forgejo_it_ends_in_one_pull_request() {
    killed_at_each_kind_of_word_to(Kind::Forgejo).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_word_to_github_it_ends_in_one_pull_request() {
    killed_at_each_kind_of_word_to(Kind::GitHub).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_word_to_gitlab_it_ends_in_one_merge_request() {
    killed_at_each_kind_of_word_to(Kind::GitLab).await;
}

/// An agent that adds a line each time.
const ONE_LINE_MORE: &str = r#"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "echo '# more' >> tallybook/money.py"}}]}
{"content": "done"}"#;

async fn told(deliveries: Vec<frognano_bot::demo::forge::Delivery>, bot: &Bot) {
    for delivery in deliveries {
        assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_word_of_another_round_it_adds_one_commit() {
    let mut moments = 0;
    for after in (0..).step_by(4) {
        let house = House::with_script(Kind::ALL[(after / 4) % 4], ONE_LINE_MORE).await;
        house.open_issue();
        let mut bot = Bot::start(&house);
        told(house.label(1), &bot).await;
        bot.ended.recv().await.unwrap();
        let number = On::PullRequest(house.pull_requests()[0].number);
        let is_done = |house: &House| house.has_proposed(number);
        let before = house.forge().requests().len();
        let strike = if after % 8 == 0 { Strike::Before } else { Strike::After };
        let reached = house.forge().hold(after, strike);
        told(house.forge().write_comment(project::PATH, number, "/frognano revise\nOne line more.", project::MAINTAINER).unwrap(), &bot)
            .await;
        let came = tokio::select! {
            reached = reached => reached.is_ok(),
            () = house.until(|house| house.forge().requests().len() <= before + after && is_done(house)) => false,
        };
        bot.kill();
        if !came {
            break;
        }
        let mut bot = Bot::start(&house);
        house.until(is_done).await;
        bot.ended.recv().await.unwrap();
        let log = bot.stop();
        let branch = house.branches().pop().unwrap();
        let count = Command::new("git")
            .arg("-C")
            .arg(house.folder.path().join("tallybook.git"))
            .args(["rev-list", "--count", &format!("main..{branch}")])
            .output()
            .unwrap();
        let moment = format!("killed at request {} of the round, {strike:?}", after + 1);
        assert_eq!(String::from_utf8_lossy(&count.stdout).trim(), "2", "{moment}\n{log}");
        assert_eq!((house.pull_requests().len(), house.branches().len(), house.said(number).len()), (1, 1, 1), "{moment}\n{log}");
        assert_eq!(inside_of(&house), Vec::<String>::new(), "{moment}: something still runs");
        moments += 1;
    }
    println!("another round: killed at {moments} moments");
    assert!(moments >= 6, "only {moments}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_word_while_it_answers_it_answers_once() {
    let mut moments = 0;
    for after in 0.. {
        let house = House::new(Kind::ALL[after % 4]).await;
        house.open_issue();
        let bot = Bot::start(&house);
        // Who it is, is asked at the start, beside what it is told: what is counted comes behind that.
        house.until(|house| house.forge().count("GET", "*/user") > 0).await;
        let at_start = house.forge().requests().len();
        let strike = if (after + after / 4) % 2 == 0 { Strike::Before } else { Strike::After };
        let reached = house.forge().hold(after, strike);
        for delivery in house.forge().write_comment(project::PATH, 1, "/frognano help", project::MAINTAINER).unwrap() {
            assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
        }
        let is_answered = |house: &House| house.said(1).concat().contains("listens to people");
        let came = tokio::select! {
            reached = reached => reached.is_ok(),
            () = house.until(|house| house.forge().requests().len() <= at_start + after && is_answered(house)) => false,
        };
        bot.kill();
        if !came {
            break;
        }
        let bot = Bot::start(&house);
        house.until(is_answered).await;
        // It must not say it once more: whoever looked before the kill looks again now.
        for delivery in house.forge().write_comment(project::PATH, 1, "/frognano status", project::MAINTAINER).unwrap() {
            assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
        }
        house.until(|house| house.said(1).concat().contains("has not worked on this issue")).await;
        let log = bot.stop();
        assert_eq!(house.said(1).len(), 2, "killed at request {}: {:?}\n{log}", after + 1, house.said(1));
        moments += 1;
    }
    println!("answering: killed at {moments} moments");
    assert!(moments >= 5, "only {moments}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_word_to_the_model_it_ends_in_one_pull_request() {
    for (after, kind) in (0..6).zip(Kind::ALL.into_iter().cycle()) {
        let house = House::new(kind).await;
        house.open_issue();
        let bot = Bot::start(&house);
        let reached = house.model.hold(after);
        for delivery in house.label(1) {
            assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
        }
        reached.await.unwrap();
        bot.kill();
        recovers(&house, &format!("killed at request {} to the model", after + 1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_the_tests_run_it_leaves_nothing_and_ends_in_one_pull_request() {
    for (after_the_agent, kind) in [(false, Kind::Gitea), (true, Kind::Forgejo)] {
        let house = House::new(kind).await;
        let gate =
            r#"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "sleep 1000 & setsid sleep 1000 & sleep 1000"}}]}"#;
        let house = if after_the_agent { house } else { House::with_script(Kind::Gitea, &format!("{gate}\n{}", project::SCRIPT)).await };
        house.open_issue();
        let bot = Bot::start(&house);
        let stage = if after_the_agent { "second, fresh sandbox" } else { "the model works on the issue" };
        for delivery in house.label(1) {
            assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
        }
        house.until(|house| house.said(1).concat().contains(stage)).await;
        bot.kill();
        assert_eq!(inside_of(&house), Vec::<String>::new());
        if after_the_agent {
            recovers(&house, stage).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_order_puts_the_run_back_and_the_next_start_ends_it() {
    let house = House::new(Kind::Gitea).await;
    house.open_issue();
    let bot = Bot::start(&house);
    let reached = house.model.hold(2);
    for delivery in house.label(1) {
        assert_eq!(deliver(&delivery, &bot.door).await.unwrap(), 202);
    }
    reached.await.unwrap();
    let log = bot.stop();
    assert!(log.contains("put back"), "{log}");
    recovers(&house, "stopped by SIGTERM").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_that_hold_their_requests_open_do_not_hold_up_a_stop() {
    let house = House::new(Kind::Gitea).await;
    let bot = Bot::start(&house);
    let address = bot.door.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", bot.child.id())).unwrap();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>(), ["0", "0", "bytes"]);
    let mut held = Vec::new();
    for begun in
        ["", "POST /webhooks/here HTTP/1.1\r\nhost: x\r\n", "POST /webhooks/here HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"]
    {
        let mut peer = std::net::TcpStream::connect(&address).unwrap();
        peer.write_all(begun.as_bytes()).unwrap();
        held.push(peer);
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    let began = std::time::Instant::now();
    bot.stop();
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "it took {:?} to stop", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_log_nobody_reads_any_more_stops_when_it_is_asked_to() {
    let house = House::new(Kind::Gitea).await;
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
    command.args(["serve", "--config"]).arg(house.write_config()).stderr(Stdio::piped()).stdin(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut log = tokio::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(r#""message":"serving""#) {
        line.clear();
        assert_ne!(tokio::io::AsyncBufReadExt::read_line(&mut log, &mut line).await.unwrap(), 0);
    }
    drop(log);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(30), child.wait()).await;
    assert!(ended.is_ok_and(|status| status.unwrap().success()));
}
