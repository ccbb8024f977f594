//! What the stories of recovery are played with: runs in real sandboxes that are struck at one word, life after life over one folder.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use frognano_bot::app;
use frognano_bot::config::File;
use frognano_bot::demo::project;
use frognano_bot::domain::{IssueText, RunId, Stage, SystemClock};
use frognano_bot::git::Remote;
use frognano_bot::leaf::Trajectory;
use frognano_bot::model::{Client, Endpoint, Model, ModelError, RestartOn, Script, Scripted, Settings, Turn, TurnRequest};
use frognano_bot::pipeline::{self, Record, Stop, Work};
use frognano_bot::publish::report::Report;
use frognano_bot::sandbox::{Command, Entry, Listing, ProbeReport, Ran, Sandbox, SandboxError, Sandboxes, TakenFile, local};
use frognano_bot::store::Checkpoint;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::house::tools;

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// The program inside the sandbox.
    Helper,
    /// The sandbox's own process.
    Sandbox,
    /// The one who works with it.
    Worker,
    /// Nothing: the worker is asked to stop.
    Stop,
}

/// Strikes at words of the agent's sandboxes, counted over all of them.
pub struct Striking {
    pub blow: Blow,
    /// Strikes once this many words are said; the word is lost, or only its answer.
    pub countdown: AtomicUsize,
    pub after_the_word: bool,
    /// Only calls of tools count as words.
    pub calls_only: bool,
    /// The countdowns to further strikes, the last one first.
    pub then: Mutex<Vec<usize>>,
    worker_is_dead: Notify,
    stop: Notify,
}

impl Striking {
    pub fn new(blow: Blow, countdown: usize, after_the_word: bool) -> Self {
        Self {
            blow,
            countdown: AtomicUsize::new(countdown),
            after_the_word,
            calls_only: false,
            then: Mutex::default(),
            worker_is_dead: Notify::new(),
            stop: Notify::new(),
        }
    }

    /// Strikes before calls of tools.
    pub fn at_calls(blow: Blow, countdown: usize, then: &[usize]) -> Arc<Self> {
        let then = Mutex::new(then.iter().rev().copied().collect());
        Arc::new(Self { calls_only: true, then, ..Self::new(blow, countdown, false) })
    }

    /// Whether this word is the one.
    fn comes(&self) -> bool {
        let comes = self.countdown.fetch_sub(1, Ordering::SeqCst) == 1;
        if let Some(next) = self.then.lock().unwrap().pop_if(|_| comes) {
            self.countdown.store(next, Ordering::SeqCst);
        }
        comes
    }
}

struct Struck {
    inner: Box<dyn Sandbox>,
    helper: Pid,
    striking: Arc<Striking>,
}

impl Struck {
    /// Counts one of the two moments of a word; whether it was struck.
    async fn moment(&mut self, is_call: bool, is_after: bool) -> bool {
        let counts = is_after == self.striking.after_the_word && (is_call || !self.striking.calls_only);
        if !counts || !self.striking.comes() {
            return false;
        }
        match self.striking.blow {
            Blow::Helper => kill(self.helper, Signal::SIGKILL).unwrap(),
            Blow::Sandbox => kill(parent_of(self.helper), Signal::SIGKILL).unwrap(),
            Blow::Worker => {
                self.striking.worker_is_dead.notify_one();
                std::future::pending::<()>().await;
            }
            Blow::Stop => {
                self.striking.stop.notify_one();
                std::future::pending::<()>().await;
            }
        }
        true
    }
}

/// An answer of one who was killed over it does not come.
macro_rules! word {
    ($self:ident, $word:expr) => {
        word!($self, false, $word)
    };
    ($self:ident, $is_call:literal, $word:expr) => {{
        $self.moment($is_call, false).await;
        let answer = $word.await;
        if $self.moment($is_call, true).await { Err(SandboxError::Lost("killed before it answered".to_owned())) } else { answer }
    }};
}

#[async_trait]
impl Sandbox for Struck {
    fn probe_report(&self) -> &ProbeReport {
        self.inner.probe_report()
    }
    async fn put(&mut self, tar: Vec<u8>) -> Result<(), SandboxError> {
        word!(self, self.inner.put(tar))
    }
    async fn put_into(&mut self, folder: &str, tar: Vec<u8>) -> Result<(), SandboxError> {
        word!(self, self.inner.put_into(folder, tar))
    }
    async fn call(&mut self, tool: &str, args: &serde_json::Value) -> Result<String, SandboxError> {
        word!(self, true, self.inner.call(tool, args))
    }
    async fn run(&mut self, command: &Command) -> Result<Ran, SandboxError> {
        word!(self, self.inner.run(command))
    }
    async fn list(&mut self, how: Listing) -> Result<Vec<Entry>, SandboxError> {
        word!(self, self.inner.list(how))
    }
    async fn take(&mut self, folder: &str, paths: &[Vec<u8>], limit: u64) -> Result<Vec<TakenFile>, SandboxError> {
        word!(self, self.inner.take(folder, paths, limit))
    }
    async fn close(self: Box<Self>) {
        self.inner.close().await;
    }
}

struct Places {
    inner: local::Local,
    striking: Arc<Striking>,
}

#[async_trait]
impl Sandboxes for Places {
    async fn start(&self, name: &str) -> Result<Box<dyn Sandbox>, SandboxError> {
        let mut inner = self.inner.start(name).await?;
        if !name.ends_with("-agent") {
            return Ok(inner);
        }
        let helper = first_process_of(inner.as_mut()).await;
        Ok(Box::new(Struck { inner, helper, striking: self.striking.clone() }))
    }
}

/// The first process of the sandbox, as this machine numbers it.
async fn first_process_of(sandbox: &mut dyn Sandbox) -> Pid {
    let script = "readlink /proc/self/ns/pid".to_owned();
    let asked = Command { script, timeout: std::time::Duration::from_secs(60), output_limit: 1024 };
    let space = sandbox.run(&asked).await.unwrap().stdout.trim().to_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_it = |pid: &i32| {
        let theirs = std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|link| link.display().to_string() == space);
        theirs && status(*pid, "NSpid:").last().is_some_and(|inside| inside == "1")
    };
    Pid::from_raw(processes.into_iter().find(is_it).unwrap())
}

fn parent_of(pid: Pid) -> Pid {
    Pid::from_raw(status(pid.as_raw(), "PPid:").concat().parse().unwrap())
}

/// The words behind a key of a process's status.
pub fn status(pid: i32, key: &str) -> Vec<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().to_owned();
    line.split_whitespace().map(str::to_owned).collect()
}

/// Answers with the line that belongs to the conversation's length: a step that was not finished is asked again.
struct ByLength {
    script: Script,
    asked: Arc<Mutex<Vec<TurnRequest>>>,
}

#[async_trait]
impl Model for ByLength {
    async fn turn(&self, request: &TurnRequest) -> Result<Turn, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        let done = request.messages.iter().filter(|message| message["role"] == "assistant").count();
        let scripted = Scripted::after(self.script.clone(), RestartOn::Never, done);
        Client::new(Endpoint::Script(scripted), Settings::default()).unwrap().turn(request).await
    }
    async fn is_up(&self) -> bool {
        true
    }
    fn name(&self) -> &str {
        "script"
    }
}

/// Remembers what is finished, from life to life.
#[derive(Default, Clone)]
struct Remembered(Arc<Mutex<Checkpoint>>);

#[async_trait]
impl Record for Remembered {
    async fn enter(&mut self, _: Stage) -> Result<(), Stop> {
        Ok(())
    }
    async fn keep(&mut self, checkpoint: &Checkpoint) -> Result<(), Stop> {
        *self.0.lock().unwrap() = checkpoint.clone();
        Ok(())
    }
    fn step(&mut self, _: &Trajectory) {}
}

/// One run without a forge, which may need several lives.
pub struct Run {
    folder: tempfile::TempDir,
    script: Script,
    remembered: Remembered,
    pub limits: pipeline::KeepLimits,
    pub max_recoveries: u32,
    /// Every request to the model, of all lives.
    pub asked: Arc<Mutex<Vec<TurnRequest>>>,
}

impl Run {
    pub fn new(script: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("recovery-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        project::make_bare(&folder.path().join("project.git")).unwrap();
        Self {
            folder,
            script: Script::parse(script).unwrap(),
            remembered: Remembered::default(),
            limits: pipeline::KeepLimits::default(),
            max_recoveries: 3,
            asked: Arc::default(),
        }
    }

    /// One life; none when it was ended by a blow.
    pub async fn live(&self, striking: Arc<Striking>) -> Option<Result<(), Stop>> {
        let inner = local::Local::new(local::Settings::new(tools(), self.folder.path())).unwrap();
        let places = Arc::new(Places { inner, striking: striking.clone() });
        let model = Arc::new(ByLength { script: self.script.clone(), asked: self.asked.clone() });
        let file = File::local("http://localhost/".parse().unwrap(), "script");
        let mut parts = app::assemble(&file, self.folder.path(), places, model, Arc::new(SystemClock), None).await.unwrap();
        (parts.settings.kept, parts.settings.max_recoveries) = (self.limits.clone(), self.max_recoveries);
        parts.settings.attempts = 1;
        let (mut record, cancel) = (self.remembered.clone(), CancellationToken::new());
        let checkpoint = self.remembered.0.lock().unwrap().clone();
        let mut work = Work {
            parts: &parts,
            record: &mut record,
            folder: self.path("run"),
            run: RunId("run".to_owned()),
            text: IssueText { title: "t".to_owned(), body: "b".to_owned() },
            issue: 0,
            issue_url: String::new(),
            origin: None,
            checkpoint,
            report: Report::default(),
            cancel: cancel.clone(),
            stage_began: None,
        };
        let url = self.path("project.git").display().to_string();
        let solved = async {
            let start = pipeline::start_from_folder(&mut work, &Remote { url, credential: None, ca_file: None }).await?;
            pipeline::propose(&mut work, &start).await.map(|_| ())
        };
        let stopping = async {
            striking.stop.notified().await;
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            solved = solved => Some(solved),
            () = stopping => None,
            () = striking.worker_is_dead.notified() => None,
        }
    }

    /// Lives until there is an end.
    pub async fn live_on(&self, striking: Arc<Striking>) -> Result<(), Stop> {
        loop {
            if let Some(ended) = self.live(striking.clone()).await {
                return ended;
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn patch(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path("run/patch.diff")).unwrap()).into_owned()
    }

    pub fn trajectory(&self) -> Trajectory {
        serde_json::from_slice(&std::fs::read(self.path("run/trajectory.json")).unwrap()).unwrap()
    }
}

pub const NEVER: usize = 1_000_000;
