//! A running `frognano-tools` in a folder of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

/// The program, started in an empty folder with a clean environment (the login shell reads no profile of the machine's user).
pub struct Program {
    folder: tempfile::TempDir,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    pub fn start_with(options: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), options, environment)
    }

    pub fn start_in(folder: tempfile::TempDir, options: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-tools"));
        command.arg("--workdir").arg(folder.path()).args(options);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", folder.path()).env("LANG", "C.UTF-8");
        command.envs(environment.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { folder, child, stdin, stdout }
    }

    /// The workdir as the kernel names it.
    pub fn workdir(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.workdir().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn content(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    pub fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("the answer {line:?} is no JSON: {why}"))
    }

    /// Sends a request and the bytes after it, and gives the answer.
    pub fn request(&mut self, body: &Value, bytes: &[u8]) -> Value {
        self.send(format!("{body}\n").as_bytes());
        self.send(bytes);
        self.answer()
    }

    /// The raw bytes that an answer announced.
    pub fn bytes_of(&mut self, answer: &Value) -> Vec<u8> {
        let size = answer["bytes"].as_u64().unwrap_or_else(|| panic!("no bytes follow {answer}"));
        let mut bytes = vec![0; usize::try_from(size).unwrap()];
        self.stdout.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The observation of a tool call.
    pub fn call(&mut self, tool: &str, args: Value) -> String {
        let answer = self.request(&json!({"id": 1, "tool": tool, "args": args}), b"");
        answer["observation"].as_str().unwrap_or_else(|| panic!("no observation in {answer}")).to_owned()
    }

    pub fn put(&mut self, archive: &[u8]) -> Value {
        let folder = self.workdir();
        self.request(&json!({"id": 2, "op": "put", "folder": folder, "bytes": archive.len()}), archive)
    }

    pub fn run(&mut self, script: &str, timeout_ms: u64) -> Value {
        let answer = self.request(&json!({"id": 5, "op": "run", "script": script, "timeout_ms": timeout_ms, "output_limit": 1_000}), b"");
        answer["ran"].clone()
    }

    /// Ends the input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the program.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// Whether a process with this number is there and not a zombie.
pub fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
