//! The figures of the main job on this machine, each with its goal or a ratio to a named baseline: `cargo bench --bench main_job`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code, reason = "a bench may stop at once and say why")]

#[path = "../stories/databases.rs"]
mod databases;
#[path = "../stories/house.rs"]
mod house;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use frognano_bot::demo::forge::{Delivery, deliver};
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::sandbox::{Sandboxes as _, local};

use house::{House, tools};

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        sandbox_ready().await;
        webhook_answered().await;
        label_to_draft().await;
        resident_memory().await;
    });
}

/// Middle and 95th percentile in milliseconds.
fn middle(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    (at(50), at(95))
}

fn timed(times: usize, mut work: impl FnMut()) -> Vec<Duration> {
    (0..times)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect()
}

async fn sandbox_ready() {
    let state = tempfile::tempdir().unwrap();
    let sandboxes = local::Local::new(local::Settings::new(tools(), state.path())).unwrap();
    let mut times = Vec::new();
    for round in 0..50 {
        let began = Instant::now();
        let sandbox = sandboxes.start(&format!("bench-{round}")).await.unwrap();
        times.push(began.elapsed());
        sandbox.close().await;
    }
    let baseline = middle(timed(50, || {
        let line = [
            "--unshare-all",
            "--ro-bind",
            "/usr",
            "/usr",
            "--symlink",
            "usr/lib",
            "/lib",
            "--symlink",
            "usr/lib64",
            "/lib64",
            "/usr/bin/true",
        ];
        assert!(Command::new("bwrap").args(line).status().unwrap().success());
    }));
    let (ready, worst) = middle(times);
    println!(
        "sandbox ready and proved      {ready:8.1} ms (p95 {worst:.1}); goal 20 ms; {:.1} x bare `bwrap true` ({:.1} ms)",
        ready / baseline.0,
        baseline.0
    );
}

async fn webhook_answered() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let issue = house.open_issue();
    let delivery = house.label(issue).pop().unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut times = Vec::new();
    for round in 0..300 {
        let delivery = renamed(&delivery, round);
        let mut request = client.post(&service.door).body(delivery.body.clone());
        for (name, value) in &delivery.headers {
            request = request.header(name, value);
        }
        let began = Instant::now();
        assert_eq!(request.send().await.unwrap().status().as_u16(), 202);
        times.push(began.elapsed());
    }
    let (answered, worst) = middle(times);
    println!("webhook verified, stored, 202 {answered:8.1} ms (p95 {worst:.1}); goal 10 ms");
    service.end().await;
}

fn renamed(delivery: &Delivery, round: usize) -> Delivery {
    let mut delivery = delivery.clone();
    delivery.headers.iter_mut().filter(|(name, _)| name.ends_with("-Delivery")).for_each(|(_, id)| *id = format!("{id}-{round}"));
    delivery
}

async fn label_to_draft() {
    let mut beyond_tests = Vec::new();
    let mut stages = std::collections::BTreeMap::<String, Vec<u64>>::new();
    for _ in 0..7 {
        let house = House::new(Kind::Gitea).await;
        let service = house.service().await;
        let issue = house.open_issue();
        let deliveries = house.label(issue);
        let began = Instant::now();
        for delivery in &deliveries {
            assert_eq!(deliver(delivery, &service.door).await.unwrap(), 202);
        }
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
        beyond_tests.push(began.elapsed());
        let report: serde_json::Value = serde_json::from_str(service.jobs().await[0].report.as_deref().unwrap()).unwrap();
        let mut took = std::collections::BTreeMap::<String, u64>::new();
        for stage in report["stage_ms"].as_array().unwrap() {
            *took.entry(stage[0].as_str().unwrap().to_owned()).or_default() += stage[1].as_u64().unwrap();
        }
        took.into_iter().for_each(|(stage, ms)| stages.entry(stage).or_default().push(ms));
        service.end().await;
    }
    let folder = tempfile::tempdir().unwrap();
    project::write_to(folder.path()).unwrap();
    let tests = middle(timed(7, || {
        Command::new("/usr/bin/python3").args(["-m", "unittest"]).current_dir(folder.path()).stderr(Stdio::null()).status().unwrap();
    }));
    let (whole, worst) = middle(beyond_tests);
    let own = 2.0 * tests.0;
    println!(
        "label to draft pull request   {whole:8.1} ms (p95 {worst:.1}); goal 3000 ms beyond the project's own tests (twice {:.0} ms); {:.1} x those",
        tests.0,
        whole / own
    );
    for (stage, mut ms) in stages {
        ms.sort_unstable();
        println!("    {stage:<25} {:8} ms", ms[ms.len() / 2]);
    }
}

async fn resident_memory() {
    let house = House::new(Kind::Gitea).await;
    let issue = house.open_issue();
    let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
    let mut child = command.args(["serve", "--config"]).arg(house.write_config()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let address = lines
        .by_ref()
        .find_map(|line| {
            let event: serde_json::Value = serde_json::from_str(&line).ok()?;
            (event["message"] == "serving").then(|| event["address"].as_str().unwrap().to_owned())
        })
        .unwrap();
    let log = std::thread::spawn(move || lines.count());
    for delivery in house.label(issue) {
        assert_eq!(deliver(&delivery, &format!("http://{address}/webhooks/here")).await.unwrap(), 202);
    }
    house.until(|house| house.has_proposed(issue)).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let kib = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()).unwrap()
    };
    println!("resident memory of the service{:8.1} MB (peak {:.1}); goal 100 MB", kib("VmRSS:") / 1024.0, kib("VmHWM:") / 1024.0);
    child.kill().unwrap();
    child.wait().unwrap();
    log.join().unwrap();
}
