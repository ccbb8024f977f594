//! What a step of the agent costs beside the model: `cargo bench --bench leaf`. Each figure stands beside a named baseline, run on the same machine in the same minute.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a bench may stop at once and say why")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use frognano_bot::app;
use frognano_bot::config::File;
use frognano_bot::demo::project;
use frognano_bot::domain::{IssueText, RunId, Stage, SystemClock};
use frognano_bot::git::Remote;
use frognano_bot::leaf::Trajectory;
use frognano_bot::model::{Client, Endpoint, RestartOn, Script, Scripted, Settings};
use frognano_bot::pipeline::{self, Record, Stop, Work};
use frognano_bot::publish::report::Report;
use frognano_bot::sandbox::{Sandbox, Sandboxes as _, local};
use frognano_bot::store::Checkpoint;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // On the runtime's own threads, where the service's runs are too.
    let benches = runtime.spawn(async {
        tools_round_trip().await;
        steps_of_a_long_run().await;
    });
    runtime.block_on(benches).unwrap();
}

fn tools() -> PathBuf {
    std::env::var_os("FROGNANO_TOOLS").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_frognano-tools")), PathBuf::from)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

async fn call(sandbox: &mut dyn Sandbox, tool: &str, args: Value, times: usize) -> f64 {
    let mut took = Vec::new();
    for round in 0..times {
        let args =
            serde_json::from_str::<Value>(&args.to_string().replace("ROUND", &round.to_string()).replace("NEXT", &(round + 1).to_string()))
                .unwrap();
        let began = Instant::now();
        let observation = sandbox.call(tool, &args).await.unwrap();
        took.push(began.elapsed());
        assert!(!observation.contains("Error:"), "{observation}");
    }
    median(took)
}

/// What the reference does for each call: three process chains, the last of them Python.
fn reference_chain(file: &Path) -> f64 {
    let shell = |script: &str| {
        let mut command = Command::new("/bin/bash");
        command.args(["-lc", script]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").env("FILE", file);
        assert!(command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap().success());
    };
    let python = "import base64, json, pathlib, subprocess, os; print(len(pathlib.Path(os.environ['FILE']).read_text().splitlines()))";
    let times = (0..30).map(|_| {
        let began = Instant::now();
        shell("printf x > /tmp/request.$$; tar -C /tmp -cf - request.$$ | base64 > /dev/null; rm /tmp/request.$$");
        shell("test -e \"$FILE\"");
        shell(&format!("for p in python3 python; do command -v $p >/dev/null && break; done; $p -c \"{python}\""));
        began.elapsed()
    });
    median(times.collect())
}

fn bare_login_shell() -> f64 {
    let times = (0..50).map(|_| {
        let began = Instant::now();
        let mut command = Command::new("/bin/bash");
        command.args(["-lc", "true"]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
        assert!(command.status().unwrap().success());
        began.elapsed()
    });
    median(times.collect())
}

async fn tools_round_trip() {
    let state = tempfile::tempdir().unwrap();
    let sandboxes = local::Local::new(local::Settings::new(tools(), state.path())).unwrap();
    let mut sandbox = sandboxes.start("bench").await.unwrap();
    let sandbox = sandbox.as_mut();
    let text = (0..200).map(|line| format!("line {line} of a file of about eight kilobytes\n")).collect::<String>();
    let make = "import os\nfor n in range(10000):\n    os.makedirs(f'tree/{n % 100}', exist_ok=True)\n    open(f'tree/{n % 100}/{n}.py', 'w').close()\n";
    call(sandbox, "Write", json!({"file_path": "eight.txt", "content": text}), 1).await;
    call(sandbox, "Write", json!({"file_path": "make.py", "content": make}), 1).await;
    call(sandbox, "Bash", json!({"command": "/usr/bin/python3 make.py"}), 1).await;
    call(sandbox, "Write", json!({"file_path": "edit.txt", "content": format!("{text}mark 0 end\n")}), 1).await;
    let file = state.path().join("eight.txt");
    std::fs::write(&file, &text).unwrap();
    let (chain, login) = (reference_chain(&file), bare_login_shell());
    println!("one call as the reference makes it: three process chains {chain:8.2} ms; a bare `bash -lc true` {login:.2} ms");
    let read = call(sandbox, "Read", json!({"file_path": "eight.txt"}), 200).await;
    println!("Read of 8 kB                        {read:8.3} ms   {:6.0} x faster than the chain (goal 300)", chain / read);
    let edit =
        call(sandbox, "Edit", json!({"file_path": "edit.txt", "old_string": "mark ROUND end", "new_string": "mark NEXT end"}), 100).await;
    println!("Edit of 8 kB                        {edit:8.3} ms   {:6.0} x faster than the chain", chain / edit);
    let glob = call(sandbox, "Glob", json!({"pattern": "**/*.py"}), 20).await;
    println!("Glob over 10,000 files              {glob:8.3} ms   {:6.1} x the chain's time for one file", glob / chain);
    let bash = call(sandbox, "Bash", json!({"command": "true"}), 100).await;
    println!("Bash `true`                         {bash:8.3} ms   {:6.2} x a bare `bash -lc true` (goal 2)", bash / login);
}

/// Takes the time between two steps.
struct Stopwatch {
    last: Instant,
    steps: Vec<Duration>,
}

#[async_trait]
impl Record for Stopwatch {
    async fn enter(&mut self, _: Stage) -> Result<(), Stop> {
        self.last = Instant::now();
        Ok(())
    }
    async fn keep(&mut self, _: &Checkpoint) -> Result<(), Stop> {
        Ok(())
    }
    fn step(&mut self, _: &Trajectory) {
        self.steps.push(self.last.elapsed());
        self.last = Instant::now();
    }
}

/// 150 steps that fill 131,072 tokens of context, against a model that answers at once.
async fn steps_of_a_long_run() {
    const STEPS: usize = 150;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let bare = folder.path().join("project.git");
    project::make_bare(&bare).unwrap();
    let write = |step: usize| {
        let call = json!({"name": if step.is_multiple_of(3) { "Write" } else { "Read" }, "arguments": {"file_path": "filled.txt", "content": format!("{step}\n{}", "word ".repeat(600))}});
        json!({"content": "", "reasoning_content": "thinking ".repeat(20), "tool_calls": [call], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 870 * (step + 1)}}).to_string()
    };
    let script = (0..STEPS - 1).map(write).chain([json!({"content": "done"}).to_string()]).collect::<Vec<_>>().join("\n");
    let model =
        Client::new(Endpoint::Script(Scripted::new(Script::parse(&script).unwrap(), RestartOn::Never)), Settings::default()).unwrap();
    let file = File::local("http://localhost/".parse().unwrap(), "script");
    let sandboxes = local::Local::new(local::Settings::new(tools(), folder.path())).unwrap();
    let parts = app::assemble(&file, folder.path(), Arc::new(sandboxes), Arc::new(model), Arc::new(SystemClock), Some("true".to_owned()))
        .await
        .unwrap();
    let mut record = Stopwatch { last: Instant::now(), steps: Vec::new() };
    let mut work = Work {
        parts: &parts,
        record: &mut record,
        folder: folder.path().join("run"),
        run: RunId("run".to_owned()),
        text: IssueText { title: "t".to_owned(), body: "b".to_owned() },
        issue: 0,
        issue_url: String::new(),
        origin: None,
        checkpoint: Checkpoint::default(),
        report: Report::default(),
        cancel: CancellationToken::new(),
        stage_began: None,
    };
    let start =
        pipeline::start_from_folder(&mut work, &Remote { url: bare.display().to_string(), credential: None, ca_file: None }).await.unwrap();
    pipeline::propose(&mut work, &start).await.map(|_| ()).ok();
    let journal = std::fs::read(folder.path().join("run/kept/journal.jsonl")).unwrap();
    let lines = journal.split(|byte| *byte == b'\n').map(<[u8]>::len).collect::<Vec<_>>();
    println!("a step beside the model and its tool, goal 5 ms and flat in what is stored:");
    for from in [0, 45, 90, 135] {
        let steps = record.steps[from..(from + 14).min(record.steps.len())].to_vec();
        let bytes = lines[from + 1..from + 15].iter().sum::<usize>() / 14;
        println!("    steps {:>3} to {:>3}                  {:8.2} ms   {bytes:6} bytes stored a step", from + 1, from + 14, median(steps));
    }
}
