//! The parts of the service as processes of their own, which stand still, die and end when they are told to.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::house::{House, PATIENCE};

/// Which part of the service.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// It takes webhooks in.
    Web,
    /// It works, with this data folder.
    Worker(&'static str),
    /// Both.
    Whole,
}

/// When a process stands still: in the moment in which its log says so.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    /// A stage begins.
    Enters(&'static str),
    /// A message.
    Said(&'static str),
}

impl Moment {
    fn is_now(self, line: &Value) -> bool {
        match self {
            Self::Enters(stage) => line["message"] == "entering" && line["stage"] == stage,
            Self::Said(message) => line["message"] == message,
        }
    }
}

/// What a worker says of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It has its outcome.
    Ended,
    /// It is in the queue again.
    PutBack,
}

/// Lets a process stand still, from anywhere.
#[derive(Debug, Clone, Copy)]
pub struct Freezer(Pid);

impl Freezer {
    pub fn freeze(self) {
        kill(self.0, Signal::SIGSTOP).unwrap();
    }
}

/// A process of the service; it is killed with this.
pub struct Process {
    child: Child,
    pub door: String,
    said: UnboundedReceiver<Said>,
    log: Option<JoinHandle<String>>,
}

impl Process {
    pub fn start(house: &House, part: Part, freezes_at: Option<Moment>) -> Self {
        Self::start_with(house, part, freezes_at, |config| config)
    }

    /// With other words in its configuration.
    pub fn start_with(house: &House, part: Part, freezes_at: Option<Moment>, changed: impl Fn(String) -> String) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        command.arg("serve").stderr(Stdio::piped()).stdin(Stdio::null());
        match part {
            Part::Web => command.args(["--only", "web"]),
            Part::Worker(_) => command.args(["--only", "worker"]),
            Part::Whole => &mut command,
        };
        let mut child = command.arg("--config").arg(config(house, part, changed)).spawn().unwrap();
        let pid = pid_of(&child);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut log = String::new();
        let address = lines.by_ref().find_map(|line| {
            log += &line;
            read(&line)["address"].as_str().map(str::to_owned)
        });
        let Some(address) = address else { panic!("the service did not start: {log}") };
        let (tells, said) = unbounded_channel();
        let mut freezes_at = freezes_at;
        let log = std::thread::spawn(move || {
            for line in lines {
                let event = read(&line);
                if freezes_at.take_if(|moment| moment.is_now(&event)).is_some() {
                    kill(pid, Signal::SIGSTOP).ok();
                }
                match event["message"].as_str() {
                    Some("ended") => drop(tells.send(Said::Ended)),
                    Some("the job is put back") => drop(tells.send(Said::PutBack)),
                    _ => {}
                }
                log += &(line + "\n");
            }
            log
        });
        Self { child, door: format!("http://{address}/webhooks/here"), said, log: Some(log) }
    }

    fn pid(&self) -> Pid {
        pid_of(&self.child)
    }

    pub fn freezer(&self) -> Freezer {
        Freezer(self.pid())
    }

    pub fn freeze(&self) {
        self.freezer().freeze();
    }

    pub fn thaw(&self) {
        kill(self.pid(), Signal::SIGCONT).unwrap();
    }

    /// Waits for something outside of the log.
    pub async fn until(&self, is_so: impl Fn() -> bool) {
        let wait = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap();
    }

    pub async fn until_frozen(&self) {
        let stat = format!("/proc/{}/stat", self.pid());
        self.until(|| state_and_parent(&std::fs::read_to_string(&stat).unwrap()).0 == 'T').await;
    }

    /// What it says next of a job.
    pub async fn next(&mut self) -> Said {
        match tokio::time::timeout(PATIENCE, self.said.recv()).await {
            Ok(Some(said)) => said,
            Ok(None) => panic!("the worker is gone"),
            Err(_) => {
                self.child.kill().unwrap();
                panic!("the worker says nothing: {}", self.log.take().unwrap().join().unwrap())
            }
        }
    }

    /// kill -9 for its sandboxes, which it has or is about to make; false where it makes none.
    pub async fn kill_sandbox(&self) -> bool {
        let mine = || sandboxes_of(self.pid());
        self.thaw();
        let comes = tokio::time::timeout(Duration::from_millis(1500), self.until(|| !mine().is_empty())).await.is_ok();
        for sandbox in mine() {
            kill(sandbox, Signal::SIGKILL).ok();
        }
        comes
    }

    /// The most memory that was resident, in bytes.
    #[allow(dead_code, reason = "for the benches")]
    pub fn peak_memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// kill -9.
    pub fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log.take().unwrap().join().unwrap()
    }

    /// SIGTERM; it must end by itself.
    pub async fn stop(mut self) -> String {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        let ended = tokio::task::spawn_blocking(move || {
            let status = self.child.wait().unwrap();
            (status.success(), self.log.take().unwrap().join().unwrap())
        });
        let (in_order, log) = tokio::time::timeout(PATIENCE, ended).await.expect("it does not end").unwrap();
        assert!(in_order, "{log}");
        log
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The configuration of a part: that of the house, with a data folder of its own for each worker.
fn config(house: &House, part: Part, changed: impl Fn(String) -> String) -> PathBuf {
    let folder = if let Part::Worker(folder) = part { folder } else { "data" };
    let data = |name: &str| format!("data = {:?}", house.folder.path().join(name));
    let text = std::fs::read_to_string(house.write_config()).unwrap().replace(&data("data"), &data(folder));
    let own = house.folder.path().join(format!("{folder}.toml"));
    std::fs::write(&own, changed(text)).unwrap();
    own
}

fn read(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// The state of a process and its parent, from its line in /proc.
fn state_and_parent(stat: &str) -> (char, i32) {
    let mut fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    (fields.next().unwrap().chars().next().unwrap(), fields.next().unwrap().parse().unwrap())
}

/// The processes of bubblewrap that a process of the service made.
fn sandboxes_of(parent: Pid) -> Vec<Pid> {
    let stats = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_string_lossy().parse::<i32>().ok()?;
        Some((pid, std::fs::read_to_string(entry.path().join("stat")).ok()?))
    });
    let ours = stats.filter(|(_, stat)| stat.contains("(bwrap)") && state_and_parent(stat).1 == parent.as_raw());
    ours.map(|(pid, _)| Pid::from_raw(pid)).collect()
}
