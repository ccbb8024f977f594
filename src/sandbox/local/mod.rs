//! Sandboxes on this machine by bubblewrap, as root (which drops to a user of their own) or as any other user.
//!
//! What must hold: nothing of a workspace is ever on the host's disk; bubblewrap and what it locks in never have the host's user id 0; when the
//! worker dies, by whatever means, the kernel kills each of its sandboxes; what is left of their control groups is swept at the next start.

mod bwrap;
mod cgroup;
mod image;
mod settings;
mod spawn;

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::process::{Child, Command as Process};

pub(super) use settings::complaint_about_variable;
pub use settings::{SANDBOX_UID, Settings};

use super::probe::{Bait, outside};
use super::{Command, Entry, Link, Listing, ProbeReport, Ran, Sandbox, SandboxError, Sandboxes, TakenFile, WORKSPACE};
use crate::telemetry::traces;
use cgroup::{Group, Limits, Tree};
use spawn::{Descent, Passage};

const OUT_OF_MEMORY: &str = "processes inside were killed because the memory limit of the sandbox was reached";

/// Makes sandboxes on this machine.
#[derive(Debug)]
pub struct Local {
    settings: Settings,
    tree: Option<Tree>,
    as_root: bool,
}

impl Local {
    /// Checks the settings and finds out what this process may do.
    ///
    /// # Errors
    /// All complaints at once, one sentence each.
    pub fn new(settings: Settings) -> Result<Self, Vec<String>> {
        let mut complaints = settings.complaints();
        let as_root = nix::unistd::geteuid().is_root();
        if as_root && let Err(error) = std::fs::create_dir_all(spawn::STAGE) {
            complaints.push(format!("sandbox: the folder {} can't be made: {error}", spawn::STAGE));
        }
        if complaints.is_empty() { Ok(Self { settings, tree: Tree::find(), as_root }) } else { Err(complaints) }
    }

    /// Removes what crashed workers left on this machine, killing what still runs in it; how many control groups there were.
    /// Sandboxes of living workers are left alone. Blocks for as long as the kernel needs.
    #[must_use]
    pub fn sweep(&self) -> usize {
        self.tree.as_ref().map_or(0, Tree::sweep)
    }

    fn limits(&self) -> Limits {
        Limits { processes: self.settings.max_processes, memory: self.settings.memory_bytes, cpus: self.settings.cpus }
    }

    async fn lock_up(&self, name: &str) -> Result<LocalSandbox, String> {
        let group = self.tree.as_ref().map(|tree| tree.make(name, self.limits())).transpose();
        let group = group.map_err(|error| format!("its control groups could not be made: {error}"))?;
        let mut life = Life { child: None, group, ending: None };
        let limit_memory = !life.group.as_ref().is_some_and(Group::bounds_memory);

        let parts: Vec<&Path> = [&self.settings.tools].into_iter().chain(&self.settings.binds).map(|part| part.as_path()).collect();
        let (descent, found) = self.descent(&parts).map_err(|error| format!("a folder to be seen inside can't be found: {error}"))?;
        let binds = spawn::binds(&found[1..], &self.settings.binds);
        let line = bwrap::Line::new(&self.settings, &found[0], &binds, limit_memory)
            .map_err(|error| format!("its small files could not be made: {error}"))?;

        let mut bounds = life.group.as_ref().map(|group| group.bounds(self.limits())).unwrap_or_default();
        bounds.extend(bwrap::bounds(&self.settings, limit_memory));

        let doors = life.group.as_ref().map(Group::doors).transpose();
        let doors = doors.map_err(|error| format!("its control groups can't be joined: {error}"))?.unwrap_or_default();
        let mut command = Process::new(&self.settings.bwrap);
        command.args(&line.args).env_clear().current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn::spawn(command, Passage { doors, descent, files: line.files }).await?;
        let pipes = child.stdout.take().zip(child.stdin.take()).zip(child.stderr.take());
        life.child = Some(child);
        let ((output, input), stderr) = pipes.ok_or("bubblewrap was started without its pipes")?;
        let report = ProbeReport { attempts: Vec::new(), bounds, elapsed_ms: 0 };
        Ok(LocalSandbox { link: Link::new(output, input, stderr, self.settings.patience), life, report, memory_kills: 0 })
    }

    fn descent(&self, parts: &[&Path]) -> std::io::Result<(Option<Descent>, Vec<std::path::PathBuf>)> {
        if self.as_root {
            let (descent, found) = Descent::new(self.settings.uid, parts)?;
            return Ok((Some(descent), found));
        }
        Ok((None, spawn::unstaged(parts)?))
    }
}

#[async_trait]
impl Sandboxes for Local {
    fn image(&self) -> Option<String> {
        image::of(&self.settings)
    }

    async fn start(&self, name: &str) -> Result<Box<dyn Sandbox>, SandboxError> {
        static STARTS: AtomicU64 = AtomicU64::new(0);
        let began = Instant::now();
        let number = STARTS.fetch_add(1, Ordering::Relaxed);
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(64).chain(format!("-{number}").chars()).collect();
        let bait = Bait::lay(&format!("frognano-bait-{}-{name}", std::process::id())).map_err(SandboxError::NotStarted)?;
        let mut sandbox = self.lock_up(&name).await.map_err(SandboxError::NotStarted)?;
        traces::span("probe").around(sandbox.prove(&bait, &self.settings.probe_targets)).await.map_err(|error| match error {
            SandboxError::Lost(why) => SandboxError::NotStarted(why),
            other => other,
        })?;
        sandbox.report.elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Box::new(sandbox))
    }
}

/// One sandbox of bubblewrap.
struct LocalSandbox {
    link: Link,
    life: Life,
    report: ProbeReport,
    memory_kills: u64,
}

impl LocalSandbox {
    async fn prove(&mut self, bait: &Bait, further: &[super::Target]) -> Result<(), SandboxError> {
        let targets = [bait.targets(), outside(), further.to_vec()].concat();
        let probed = self.link.probe(&targets).await;
        self.report.attempts = self.settle(probed).await?;
        self.report.attempts.extend(bait.visits());
        self.report.judge()?;

        const STATUS: &str =
            r#"while read -r key value; do case $key in NoNewPrivs:|Cap???:|Seccomp:) echo "$key$value"; esac; done </proc/self/status"#;
        let asked = Command { script: STATUS.to_owned(), timeout: Duration::from_secs(10), output_limit: 4096 };
        let ran = self.link.run(&asked).await;
        let status = self.settle(ran).await?.stdout;
        let holds = |line: &str| status.lines().any(|found| found == line);
        let expected = ["NoNewPrivs:1", "Seccomp:2", "CapEff:0000000000000000", "CapPrm:0000000000000000", "CapBnd:0000000000000000"];
        match expected.into_iter().find(|line| !holds(line)) {
            Some(line) => Err(SandboxError::NotStarted(format!("a process inside is not confined: {line} was expected"))),
            None => Ok(()),
        }
    }

    /// Ends the sandbox when its link is lost, and says what is known of the reason.
    async fn settle<T>(&mut self, outcome: Result<T, SandboxError>) -> Result<T, SandboxError> {
        let new_kills = self.count_memory_kills();
        if self.link.is_lost() {
            self.life.end();
        }
        let Err(SandboxError::Lost(why)) = outcome else { return outcome };
        if new_kills {
            return Err(SandboxError::NoRoom(OUT_OF_MEMORY.to_owned()));
        }
        match self.link.last_words().await.as_str() {
            "" => Err(SandboxError::Lost(why)),
            words => Err(SandboxError::Lost(format!("{why}; its last words: {words}"))),
        }
    }

    fn count_memory_kills(&mut self) -> bool {
        let kills = self.life.group.as_ref().map_or(0, Group::memory_kills);
        std::mem::replace(&mut self.memory_kills, kills) < kills
    }
}

#[async_trait]
impl Sandbox for LocalSandbox {
    fn probe_report(&self) -> &ProbeReport {
        &self.report
    }

    async fn put(&mut self, tar: Vec<u8>) -> Result<(), SandboxError> {
        self.put_into(WORKSPACE, tar).await
    }

    async fn put_into(&mut self, folder: &str, tar: Vec<u8>) -> Result<(), SandboxError> {
        let put = self.link.put(folder, &tar).await;
        self.settle(put).await.map(|_| ())
    }

    async fn call(&mut self, tool: &str, args: &serde_json::Value) -> Result<String, SandboxError> {
        let called = self.link.call(tool, args).await;
        self.settle(called).await
    }

    async fn run(&mut self, command: &Command) -> Result<Ran, SandboxError> {
        let kills = self.memory_kills;
        let ran = self.link.run(command).await;
        let ran = self.settle(ran).await?;
        if ran.exit_code != Some(0) && self.memory_kills > kills {
            return Err(SandboxError::NoRoom(OUT_OF_MEMORY.to_owned()));
        }
        Ok(ran)
    }

    async fn list(&mut self, how: Listing) -> Result<Vec<Entry>, SandboxError> {
        let listed = self.link.list(WORKSPACE, how).await;
        self.settle(listed).await
    }

    async fn take(&mut self, folder: &str, paths: &[Vec<u8>], limit: u64) -> Result<Vec<TakenFile>, SandboxError> {
        let taken = self.link.take(folder, paths, limit).await;
        self.settle(taken).await
    }

    async fn close(mut self: Box<Self>) {
        self.link.close();
        self.life.end();
        if let Some(ending) = self.life.ending.take() {
            let _ = tokio::task::spawn_blocking(move || ending.join()).await;
        }
    }
}

/// The process of a sandbox and its control groups; ends with this value.
#[derive(Debug)]
struct Life {
    child: Option<Child>,
    group: Option<Group>,
    ending: Option<JoinHandle<()>>,
}

impl Life {
    /// Ends everything inside, on a thread of its own. Must be called after the input of the program inside was closed.
    fn end(&mut self) {
        let (child, group) = (self.child.take(), self.group.take());
        if child.is_some() || group.is_some() {
            self.ending = std::thread::Builder::new().name("sandbox-end".to_owned()).spawn(move || bury(child, group)).ok();
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for the program inside to end at the end of its input, so that bubblewrap can reap it; kills both if it takes too long; removes the groups.
fn bury(child: Option<Child>, group: Option<Group>) {
    const PIECE: Duration = Duration::from_millis(1);
    const LEAVE: u32 = 1000;
    if let Some(mut child) = child {
        let ended = |child: &mut Child| {
            (0..LEAVE).any(|_| match child.try_wait() {
                Ok(None) => {
                    std::thread::sleep(PIECE);
                    false
                }
                _ => true,
            })
        };
        if !ended(&mut child) {
            let _ = child.start_kill();
            ended(&mut child);
        }
    }
    if let Some(group) = group {
        group.remove();
    }
}
