//! The sandbox: the enemy's room.
//!
//! What must hold: no credential, remote, proxy or route is ever in it; it proves that it reaches nothing before the first byte of the
//! repository enters, and no configuration can give it a network; what comes out of it is untrusted bytes; everything in it dies with it.

mod bundle;
pub mod kubernetes;
mod link;
pub mod local;
mod probe;

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::{BlobMode, Check};

pub use link::{Link, Patience};
pub use probe::{Attempt, Bait, ProbeReport, Target};

/// The folder of the repository inside every sandbox.
pub const WORKSPACE: &str = "/workspace";

/// What may go wrong with a sandbox; none of it is the model's fault.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// It could not be started.
    #[error("the sandbox could not be started: {0}")]
    NotStarted(String),
    /// It can't be started now, and can be when what is in the way has passed.
    #[error("there is no place for the sandbox yet: {0}")]
    NoPlaceYet(String),
    /// It can't be started until somebody changes something.
    #[error("the sandbox can't be started as things are: {0}")]
    Unfit(String),
    /// Something was reachable from inside.
    #[error("the sandbox reaches {0}: the run is refused before the repository enters")]
    NetworkOpen(String),
    /// It died or its channel broke.
    #[error("the sandbox was lost: {0}")]
    Lost(String),
    /// It ran out of the memory or the disk that it was given.
    #[error("the sandbox has no room left: {0}")]
    NoRoom(String),
    /// More came out than the limit allows.
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// What.
        what: String,
        /// The limit in bytes.
        limit: u64,
    },
}

/// One path of the workspace as git would see it, the top-level `.git` left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path from the workspace, `/` between parts, in whatever bytes it has.
    pub path: Vec<u8>,
    /// Its kind; none for what git can't keep (sockets, pipes, devices).
    pub mode: Option<BlobMode>,
    /// The size in bytes.
    pub size: u64,
    /// SHA-1 of `blob <size>\0<content>` in lower-case hexadecimal, as git names blobs; empty for what git can't keep.
    pub blob: String,
}

/// A file brought out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenFile {
    /// The path as asked.
    pub path: Vec<u8>,
    /// Its kind.
    pub mode: BlobMode,
    /// The content (for a symlink the target).
    pub content: Vec<u8>,
}

/// How a list is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Every content is read: what a patch is made from.
    Exact,
    /// Contents that the file system calls unchanged since the last list are not read again (a write through a memory map can escape that), and
    /// nothing is left out: `.git` is in it, and an empty folder stands as a submodule does in git, a path without content. What is kept after
    /// each step.
    Quick,
}

/// A command for the project, not for the model: the tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Run by `/bin/bash -c` in the workspace.
    pub script: String,
    /// Killed, with all it started, after this time.
    pub timeout: Duration,
    /// At most so many bytes of each stream are kept (the head and the tail, half each); the rest is counted and dropped while it is read.
    pub output_limit: usize,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The exit status, negative for a signal; none when it was stopped for time.
    pub exit_code: Option<i32>,
    /// Its output, undecodable bytes replaced.
    pub stdout: String,
    /// Its error output.
    pub stderr: String,
    /// How long it took.
    pub elapsed: Duration,
}

/// A started and proved sandbox. Dropping it ends everything in it.
#[async_trait]
pub trait Sandbox: Send {
    /// What was tried against the walls before anything entered, for the record.
    fn probe_report(&self) -> &ProbeReport;
    /// Unpacks a tar archive in the workspace. Called any number of times before the first tool call.
    async fn put(&mut self, tar: Vec<u8>) -> Result<(), SandboxError>;
    /// Unpacks a tar archive in another folder of the sandbox (a temporary one).
    async fn put_into(&mut self, folder: &str, tar: Vec<u8>) -> Result<(), SandboxError>;
    /// One call of a Leaf tool; the answer is the observation, to the letter what the model sees.
    async fn call(&mut self, tool: &str, args: &serde_json::Value) -> Result<String, SandboxError>;
    /// Runs a command in the workspace. Everything that it started is dead when this returns.
    async fn run(&mut self, command: &Command) -> Result<Ran, SandboxError>;
    /// Lists the workspace.
    async fn list(&mut self, how: Listing) -> Result<Vec<Entry>, SandboxError>;
    /// Brings files of a folder out; missing ones are left out of the answer. `limit` is the sum of their sizes in bytes.
    async fn take(&mut self, folder: &str, paths: &[Vec<u8>], limit: u64) -> Result<Vec<TakenFile>, SandboxError>;
    /// Ends it and everything in it, and waits until nothing is left.
    async fn close(self: Box<Self>);
}

/// Makes sandboxes. There is no way to ask one for a network.
#[async_trait]
pub trait Sandboxes: Send + Sync {
    /// What its sandboxes are made of, the same text for the same programs and settings and on every machine that has them; none where that can't be
    /// told, and nothing measured in one may then be used again.
    fn image(&self) -> Option<String> {
        None
    }
    /// Starts a sandbox and has it prove that it reaches nothing.
    async fn start(&self, name: &str) -> Result<Box<dyn Sandbox>, SandboxError>;
    /// The same for a run, which is written on the sandbox where it is kept by others, with the address of what it works on.
    async fn start_for(&self, name: &str, _run: &str, _works_on: &str) -> Result<Box<dyn Sandbox>, SandboxError> {
        self.start(name).await
    }
    /// What the place of its sandboxes looks like beside what starting one shows; nothing is changed there.
    async fn examine(&self) -> Vec<Check> {
        Vec::new()
    }
    /// Removes what is left of sandboxes of runs that are none of these, where they are kept by others; the names of what was removed.
    async fn reap(&self, _held: &HashSet<String>, _now_ms: i64) -> Result<Vec<String>, SandboxError> {
        Ok(Vec::new())
    }
}
