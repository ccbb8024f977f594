//! What the loop's stories are played with: a scripted model whose requests are kept, a sandbox that records its calls, and time that
//! nobody waits for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use frognano_bot::domain::Clock;
use frognano_bot::leaf::{LeafError, Observer, Preset, Task, Trajectory, With, run};
use frognano_bot::model::{Client, Endpoint, Model, ModelError, Pause, RestartOn, Script, Scripted, Settings, Turn, TurnRequest};
use frognano_bot::sandbox::{Command, Entry, Listing, ProbeReport, Ran, Sandbox, SandboxError, TakenFile};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A clock that is moved by hand, and whose pauses are recorded.
#[derive(Debug, Default)]
pub struct Time {
    pub now_ms: AtomicI64,
    pub pauses: Mutex<Vec<Duration>>,
}

impl Clock for Time {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Pause for Time {
    async fn pause(&self, duration: Duration) {
        self.pauses.lock().unwrap().push(duration);
    }

    fn jitter(&self) -> f64 {
        0.0
    }
}

/// A client over a script that keeps every request.
pub struct Recorded {
    pub client: Client,
    pub requests: Mutex<Vec<TurnRequest>>,
}

#[async_trait]
impl Model for Recorded {
    async fn turn(&self, request: &TurnRequest) -> Result<Turn, ModelError> {
        self.requests.lock().unwrap().push(request.clone());
        self.client.turn(request).await
    }

    async fn is_up(&self) -> bool {
        self.client.is_up().await
    }

    fn name(&self) -> &str {
        self.client.name()
    }
}

/// A model that is asked and never answers.
pub struct Silent {
    /// Called when it is asked.
    pub asked: Box<dyn Fn() + Send + Sync>,
}

#[async_trait]
impl Model for Silent {
    async fn turn(&self, _: &TurnRequest) -> Result<Turn, ModelError> {
        (self.asked)();
        std::future::pending().await
    }

    async fn is_up(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "silent"
    }
}

type Answer = Result<String, SandboxError>;
type Effect = Box<dyn FnMut(usize) + Send>;

/// Answers from a list (then with the tool's name) and records the calls. Whatever else is asked of it is a fault of the loop.
#[derive(Default)]
pub struct Calls {
    pub made: Vec<(String, Value)>,
    pub answers: VecDeque<Answer>,
    pub effect: Option<Effect>,
    pub hang_at: Option<usize>,
}

#[async_trait]
impl Sandbox for Calls {
    async fn call(&mut self, tool: &str, args: &Value) -> Answer {
        self.made.push((tool.to_owned(), args.clone()));
        if let Some(effect) = &mut self.effect {
            effect(self.made.len());
        }
        if self.hang_at == Some(self.made.len()) {
            std::future::pending::<()>().await;
        }
        self.answers.pop_front().unwrap_or_else(|| Ok(format!("answer of {tool}")))
    }

    fn probe_report(&self) -> &ProbeReport {
        unreachable!("the loop only calls tools")
    }

    async fn put(&mut self, _: Vec<u8>) -> Result<(), SandboxError> {
        unreachable!("the loop only calls tools")
    }

    async fn put_into(&mut self, _: &str, _: Vec<u8>) -> Result<(), SandboxError> {
        unreachable!("the loop only calls tools")
    }

    async fn run(&mut self, _: &Command) -> Result<Ran, SandboxError> {
        unreachable!("the loop only calls tools")
    }

    async fn list(&mut self, _: Listing) -> Result<Vec<Entry>, SandboxError> {
        unreachable!("the loop only calls tools")
    }

    async fn take(&mut self, _: &str, _: &[Vec<u8>], _: u64) -> Result<Vec<TakenFile>, SandboxError> {
        unreachable!("the loop only calls tools")
    }

    async fn close(self: Box<Self>) {}
}

/// Keeps every checkpoint as JSON.
#[derive(Default)]
pub struct Checkpoints(pub Vec<Value>);

#[async_trait]
impl Observer for Checkpoints {
    async fn on_step(&mut self, trajectory: &Trajectory, _: &mut dyn Sandbox) -> Result<(), SandboxError> {
        self.0.push(trajectory.to_json().unwrap());
        Ok(())
    }
}

/// All of a story.
pub struct World {
    pub model: Recorded,
    pub sandbox: Calls,
    pub time: Arc<Time>,
    pub cancel: CancellationToken,
    pub checkpoints: Checkpoints,
    pub preset: Preset,
}

impl World {
    /// A model that answers these lines.
    pub fn new(lines: &[Value]) -> Self {
        let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let script = Scripted::new(Script::parse(&text.join("\n")).unwrap(), RestartOn::Never);
        let time = Arc::new(Time::default());
        let client = Client::new(Endpoint::Script(script), Settings::default()).unwrap().with_time(time.clone(), time.clone());
        Self {
            model: Recorded { client, requests: Mutex::default() },
            sandbox: Calls::default(),
            time,
            cancel: CancellationToken::new(),
            checkpoints: Checkpoints::default(),
            preset: Preset::default(),
        }
    }

    /// Runs from the start to an ending.
    pub async fn run(&mut self) -> Result<Trajectory, LeafError> {
        self.go_on(begun()).await
    }

    /// Runs from a kept trajectory.
    pub async fn go_on(&mut self, trajectory: Trajectory) -> Result<Trajectory, LeafError> {
        let with = With {
            model: &self.model,
            sandbox: &mut self.sandbox,
            clock: &*self.time,
            cancel: &self.cancel,
            observer: &mut self.checkpoints,
        };
        let running = run(trajectory, &self.preset, with);
        assert_can_be_spawned(&running);
        running.await
    }

    /// Runs from the start with another model.
    pub async fn run_with(&mut self, model: &dyn Model) -> Result<Trajectory, LeafError> {
        let with = With { model, sandbox: &mut self.sandbox, clock: &*self.time, cancel: &self.cancel, observer: &mut self.checkpoints };
        run(begun(), &self.preset, with).await
    }

    pub fn requests(&self) -> Vec<TurnRequest> {
        self.model.requests.lock().unwrap().clone()
    }

    pub fn pauses(&self) -> Vec<u64> {
        self.time.pauses.lock().unwrap().iter().map(Duration::as_secs).collect()
    }
}

fn assert_can_be_spawned<T: Send>(_: &T) {}

pub fn begun() -> Trajectory {
    Trajectory::begin(Task { trajectory_id: "t1".into(), instance_id: "demo/owner/name#7".into(), text: "Fix it.".into(), seed: Some(3) })
}

pub fn call(name: &str, arguments: &Value) -> Value {
    json!({"reasoning_content": format!("I need {name}."), "tool_calls": [{"name": name, "arguments": arguments}]})
}

pub fn done() -> Value {
    json!({"content": "Fixed."})
}
