//! The client and the loop against a real model server: llama.cpp's with SmolLM2-135M, which is small enough for any processor.
//!
//! `tests/llama/install.sh FOLDER` fetches both and `FROGNANO_TEST_LLAMA=FOLDER` names the folder; without it each of these stories says that
//! it was not run. A model of this size solves nothing: what is tried here is the wire, in the words of the server itself.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Once};
use std::time::Duration;

use frognano_bot::domain::{ExitReason, SystemClock};
use frognano_bot::leaf::{self, Preset, Trajectory, With, tools};
use frognano_bot::model::{Client, Endpoint, Model as _, ModelError, Settings, Turn, TurnRequest};
use frognano_bot::sandbox::local::{self, Local};
use frognano_bot::sandbox::{Command, Sandboxes as _};
use serde_json::{Value, json};
use tokio::process::{Child, Command as Process};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::leaf_loop::world::{Checkpoints, Time, World, begun};

const FOLDER: &str = "FROGNANO_TEST_LLAMA";
/// No wait is longer; one that is has failed. A machine that builds something else at the same time is slow.
const PATIENCE: Duration = Duration::from_secs(240);
/// One server at a time: two of them would only slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A server of our own.
struct Llama {
    child: Child,
    port: u16,
    arguments: Vec<String>,
    installed: HashMap<String, String>,
    log: tempfile::NamedTempFile,
    web: reqwest::Client,
    _turn: MutexGuard<'static, ()>,
}

impl Llama {
    /// Starts one with this template and these further arguments, and waits until it is ready. None when none is installed.
    async fn start(template: &str, arguments: &[&str]) -> Option<Self> {
        let Some(folder) = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()) else {
            say_that_it_is_not_run();
            return None;
        };
        let turn = ONE_AT_A_TIME.lock().await;
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let installed = std::fs::read_to_string(top.join(PathBuf::from(folder)).join("env")).expect("install.sh writes it");
        let installed: HashMap<_, _> =
            installed.lines().map(|line| line.split_once('=').unwrap()).map(|(name, value)| (name.into(), value.into())).collect();
        let template = top.join("tests/llama").join(template).display().to_string();
        let own = ["--jinja", "--chat-template-file", &template, "-np", "1", "-t", "1", "--no-webui", "--offline", "--alias", "smol"];
        let arguments: Vec<String> = own.iter().chain(arguments).map(ToString::to_string).collect();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = tempfile::NamedTempFile::new().unwrap();
        rustls::crypto::ring::default_provider().install_default().ok();
        let web = reqwest::Client::builder().no_proxy().build().unwrap();
        let child = spawn(&installed, port, &arguments, &log);
        let mut llama = Self { child, port, arguments, installed, log, web, _turn: turn };
        llama.ready().await;
        Some(llama)
    }

    async fn start_again(&mut self) {
        self.child = spawn(&self.installed, self.port, &self.arguments, &self.log);
        self.ready().await;
    }

    async fn ready(&mut self) {
        let limit = std::time::Instant::now() + PATIENCE;
        while !self.web.get(self.address("/health")).send().await.is_ok_and(|answer| answer.status() == 200) {
            let ended = self.child.try_wait().unwrap();
            let late = std::time::Instant::now() > limit;
            assert!(ended.is_none() && !late, "{ended:?}: {}", std::fs::read_to_string(self.log.path()).unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the server has written so many tokens of a turn.
    async fn has_written(&self, tokens: u64) {
        let wait = async {
            loop {
                let slots: Value = self.web.get(self.address("/slots")).send().await.unwrap().json().await.unwrap();
                if slots.pointer("/0/next_token/0/n_decoded").and_then(Value::as_u64).is_some_and(|count| count >= tokens) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("it writes");
    }

    /// As `kill -9` would.
    async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The real client, greedy so that its answers are always the same; its pauses are recorded instead of waited for.
    fn client(&self) -> (Client, Arc<Time>) {
        let time = Arc::new(Time::default());
        let endpoint = Endpoint::Http { base_url: self.address("/v1"), api_key: None, ca_bundle: None };
        let settings = Settings { name: "smol".to_owned(), temperature: 0.0, retries: 2, request_timeout: PATIENCE, ..Settings::default() };
        (Client::new(endpoint, settings).unwrap().with_time(time.clone(), time.clone()), time)
    }
}

fn say_that_it_is_not_run() {
    static ONCE: Once = Once::new();
    // Not by the macro: the harness would hide it.
    let say = || {
        writeln!(std::io::stderr(), "\nNOT RUN here: the stories of a real model; {FOLDER} names no folder made by tests/llama/install.sh")
    };
    ONCE.call_once(|| say().unwrap());
}

fn spawn(installed: &HashMap<String, String>, port: u16, arguments: &[String], log: &tempfile::NamedTempFile) -> Child {
    let mut command = Process::new(&installed["LLAMA_SERVER"]);
    command.args(["--model", &installed["LLAMA_MODEL"], "--host", "127.0.0.1", "--port", &port.to_string()]).args(arguments);
    command.env("LD_LIBRARY_PATH", &installed["LLAMA_LIB"]).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    command.stderr(log.reopen().unwrap()).spawn().expect("llama-server starts")
}

fn request(messages: Vec<Value>, cap: u64) -> TurnRequest {
    TurnRequest { messages, tools: tools(), max_completion_tokens: cap, seed: None }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Two earlier calls with their results: enough for even the smallest model to go on in the same way.
fn two_calls() -> Vec<Value> {
    let pair = |id: &str, file: &str| {
        let arguments = json!({"file_path": file}).to_string();
        let call = json!({"id": id, "type": "function", "function": {"name": "Read", "arguments": arguments}});
        [
            json!({"role": "assistant", "content": "", "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": id, "content": format!("{file}\n1. x = 1")}),
        ]
    };
    [pair("one", "a.py"), pair("two", "b.py")].concat()
}

fn asked_to_read() -> Vec<Value> {
    [vec![json!({"role": "system", "content": "You call tools."}), user("Read a.py, b.py, c.py and d.py")], two_calls()].concat()
}

fn pauses(time: &Time) -> usize {
    time.pauses.lock().unwrap().len()
}

fn assert_plausible(turn: &Turn, at_least: u64) {
    let usage = turn.usage.expect("llama.cpp counts");
    assert!(usage.prompt_tokens >= at_least && usage.completion_tokens > 0, "{usage:?}");
    assert_eq!(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
}

#[tokio::test]
async fn real_turns_are_read_calls_and_answers() {
    let Some(llama) = Llama::start("called.jinja", &["-c", "2048"]).await else { return };
    let (client, time) = llama.client();
    assert!(client.is_up().await);

    let turn = client.turn(&request(asked_to_read(), 64)).await.unwrap();
    assert_eq!((turn.finish_reason.as_str(), turn.content.as_str()), ("tool_calls", ""));
    let [call] = turn.tool_calls.as_slice() else { panic!("{:?}", turn.tool_calls) };
    assert_eq!(call.name, "Read");
    assert_eq!(serde_json::from_str::<Value>(&call.arguments).unwrap(), json!({"file_path": "c.py"}));
    assert!(!call.id.is_empty());
    assert_plausible(&turn, 100);

    let turn = client.turn(&request(vec![user("Say hi.")], 64)).await.unwrap();
    assert_eq!((turn.finish_reason.as_str(), turn.tool_calls.len()), ("stop", 0));
    assert!(!turn.content.is_empty());
    assert_plausible(&turn, 5);

    let turn = client.turn(&request(vec![user("Say hi.")], 4)).await.unwrap();
    assert_eq!((turn.finish_reason.as_str(), turn.usage.unwrap().completion_tokens), ("length", 4));
    assert_eq!(pauses(&time), 0);
}

#[tokio::test]
async fn a_real_refusal_is_told_from_a_full_context() {
    let Some(llama) = Llama::start("called.jinja", &["-c", "256"]).await else { return };
    let (client, time) = llama.client();
    let nameless =
        Client::new(Endpoint::Http { base_url: llama.address("/elsewhere"), api_key: None, ca_bundle: None }, Settings::default());

    for (message, said) in [
        (json!({"role": "user", "content": 5}), "HTTP 400: Expected 'content' to be a string"),
        (json!({"content": "from nobody"}), "HTTP 500: Failed to parse messages: Missing 'role'"),
    ] {
        let refused = client.turn(&request(vec![message], 8)).await.unwrap_err();
        assert!(matches!(&refused, ModelError::Refused(why) if why.contains(said)), "{refused}");
    }
    let refused = nameless.unwrap().turn(&request(vec![user("Say hi.")], 8)).await.unwrap_err();
    assert!(matches!(&refused, ModelError::Refused(why) if why.contains("HTTP 404") && why.contains("check the address")), "{refused}");

    let full = client.turn(&request(vec![user(&"word ".repeat(400))], 8)).await.unwrap_err();
    assert!(matches!(&full, ModelError::ContextFull(why) if why.contains("exceeds the available context size (256 tokens)")), "{full}");
    assert_eq!(pauses(&time), 0, "nothing of it is repeated");
}

#[tokio::test]
async fn a_real_turn_that_meets_the_end_of_the_context_is_cut_and_named_after_it() {
    let Some(llama) = Llama::start("called.jinja", &["-c", "256", "--ignore-eos"]).await else { return };
    let (client, _) = llama.client();
    let turn = client.turn(&request(vec![user("Count.")], 8_192)).await.unwrap();
    assert_eq!((turn.finish_reason.as_str(), turn.usage.unwrap().total_tokens), ("length", 256));

    let mut world = World::new(&[json!({})]);
    let trajectory = world.run_with(&client).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.steps.len()), (Some(ExitReason::MaxContextLen), 1));
    assert_eq!(world.sandbox.made, []);
    assert!(!trajectory.final_message.is_empty(), "what there was is kept");
}

#[tokio::test]
async fn a_real_server_takes_the_note_that_answers_a_cut_turn() {
    let Some(llama) = Llama::start("called.jinja", &["-c", "512", "--ignore-eos"]).await else { return };
    let mut world = World::new(&[json!({})]);
    world.preset = Preset { max_tokens_per_turn: 8, retry_cut_turns: true, ..Preset::default() };
    let trajectory = world.run_with(&llama.client().0).await.unwrap();
    assert_eq!((trajectory.exit_reason, trajectory.steps.len()), (Some(ExitReason::MaxTokensPerTurn), 2), "{}", trajectory.frognano.ending);
    let counts: Vec<_> = trajectory.frognano.turns.iter().map(|turn| turn.usage.unwrap().prompt_tokens).collect();
    assert!(counts[1] > counts[0] + 8 + 20, "the note is in the prompt: {counts:?}");
}

#[tokio::test]
async fn a_real_server_killed_in_the_middle_of_a_turn_is_down_and_then_up_again() {
    let Some(mut llama) = Llama::start("called.jinja", &["-c", "2048", "--ignore-eos"]).await else { return };
    let (client, time) = llama.client();
    let asking = {
        let client = llama.client().0.with_time(time.clone(), time.clone());
        tokio::spawn(async move { client.turn(&request(vec![user("Count.")], 8_192)).await })
    };
    llama.has_written(3).await;
    assert!(client.is_up().await, "a server that works on a turn is up");
    llama.kill().await;
    let down = asking.await.unwrap().unwrap_err();
    assert!(matches!(&down, ModelError::Down(why) if why.contains("after 3 tries")), "{down}");
    assert_eq!(pauses(&time), 2);
    assert!(!client.is_up().await);

    llama.start_again().await;
    assert!(client.is_up().await);
    assert_eq!(client.turn(&request(vec![user("Count.")], 4)).await.unwrap().usage.unwrap().completion_tokens, 4);
}

#[tokio::test]
async fn a_real_slip_of_the_format_is_the_model_s_and_no_outage() {
    let Some(llama) = Llama::start("bare.jinja", &["-c", "1024"]).await else { return };
    let (client, time) = llama.client();
    let odd = "<tool_call>\n{\"name\": \"Foo\", \"arguments\": {}}\n</tool_call>";
    let history = [user("Again"), json!({"role": "assistant", "content": odd})];
    let messages = [&history[..], &history, &history, &[user("Again")]].concat();
    let body = json!({"messages": messages, "tools": tools(), "temperature": 0, "max_completion_tokens": 64});
    let raw = llama.web.post(llama.address("/v1/chat/completions")).json(&body).send().await.unwrap();
    assert_eq!(raw.status(), 500, "the server still refuses what the model wrote");

    let slipped = client.turn(&request(messages, 64)).await.unwrap_err();
    assert!(matches!(&slipped, ModelError::FormatSlip), "{slipped}");
    assert_eq!(pauses(&time), 0, "asked again at once, and only once");
}

#[tokio::test]
async fn the_whole_loop_runs_with_a_real_model_in_a_real_sandbox() {
    let Some(llama) = Llama::start("called.jinja", &["-c", "4096"]).await else { return };
    let (client, time) = llama.client();
    let settings = local::Settings::new(crate::house::tools(), "/nowhere/frognano-state");
    let mut sandbox = Local::new(settings).unwrap().start("llama").await.unwrap();
    let files = Command {
        script: "for name in a b c d; do echo 'x = 1' >$name.py; done".to_owned(),
        timeout: Duration::from_secs(60),
        output_limit: 1_000,
    };
    assert_eq!(sandbox.run(&files).await.unwrap().exit_code, Some(0));

    let mut trajectory: Trajectory = begun();
    trajectory.messages[1] = user("Read a.py, b.py, c.py and d.py");
    trajectory.messages.extend(two_calls());
    let (cancel, mut checkpoints) = (CancellationToken::new(), Checkpoints::default());
    let preset = Preset { max_steps: 4, max_tokens_per_turn: 128, max_context_tokens: 4_096, ..Preset::default() };
    let with = With { model: &client, sandbox: sandbox.as_mut(), clock: &SystemClock, cancel: &cancel, observer: &mut checkpoints };
    let trajectory = leaf::run(trajectory, &preset, with).await.unwrap();
    sandbox.close().await;

    let reason = trajectory.exit_reason.unwrap();
    assert!(
        matches!(reason, ExitReason::Agent | ExitReason::MaxTurns | ExitReason::MaxTokensPerTurn | ExitReason::MaxContextLen),
        "{reason:?}: {}",
        trajectory.frognano.ending
    );
    assert_eq!((trajectory.error.as_deref(), checkpoints.0.len()), (None, trajectory.steps.len()));
    let first = &trajectory.steps[0];
    assert_eq!(first.observations[0].observation, "c.py\n1. x = 1", "{first:?}");
    let counted = trajectory.frognano.turns[0].usage.unwrap();
    assert!(trajectory.frognano.turns[0].context_tokens >= counted.total_tokens);
    assert_eq!(pauses(&time), 0);
}
