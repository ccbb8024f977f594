//! The worker's end of the line protocol: one JSON object a line each way, some followed at once by exactly as many raw bytes as they announce.
//!
//! What must hold: the other end is an enemy. A late, long, odd or unasked-for answer ends the link, and with the link the sandbox; so does a
//! call that is dropped half-way. Only an answer that says honestly what went wrong leaves the link usable.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::task::JoinHandle;

use super::probe::{Attempt, Target};
use super::{Command, Entry, Listing, Ran, SandboxError, TakenFile, bundle};

/// The longest reply line in bytes.
const LONGEST_LINE: u64 = 64 << 20;
/// The longest list of files in bytes.
const LONGEST_LIST: u64 = 256 << 20;
/// How much of the end of the error stream is told when the link is lost, in bytes.
const STDERR_TAIL: usize = 2048;
/// The longest that one Bash call may ask for: the time of a whole run.
const LONGEST_BASH: Duration = Duration::from_secs(10_800);
/// What a Bash call gets when it names no time (the Leaf contract).
const DEFAULT_BASH: Duration = Duration::from_secs(120);

/// What one attempt to reach something is given.
const PROBE: Duration = Duration::from_millis(300);

/// How long an answer is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// On top of the time that the program inside keeps by itself (of a command, of the Bash tool).
    pub grace: Duration,
    /// For what has no time of its own: bytes in, bytes out, a list, a small tool.
    pub transfer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { grace: Duration::from_secs(15), transfer: Duration::from_secs(120) }
    }
}

struct Streams {
    reader: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
}

/// The channel to one `frognano-tools` inside a sandbox. Dropping it closes the program's input, which ends the program.
pub struct Link {
    streams: Option<Streams>,
    stderr: Arc<Mutex<Vec<u8>>>,
    drain: JoinHandle<()>,
    patience: Patience,
    last_id: u64,
    memory_kills: u64,
}

impl Link {
    /// Speaks over the program's own output and input; its error stream is drained into a short tail for messages.
    /// Must be called within a tokio runtime.
    pub fn new(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        stderr: impl AsyncRead + Send + Unpin + 'static,
        patience: Patience,
    ) -> Self {
        let tail = Arc::new(Mutex::new(Vec::new()));
        let drain = tokio::spawn(keep_tail(stderr, Arc::clone(&tail)));
        let streams = Streams { reader: BufReader::new(Box::new(output)), writer: Box::new(input) };
        Self { streams: Some(streams), stderr: tail, drain, patience, last_id: 0, memory_kills: 0 }
    }

    /// Unpacks a tar archive in a folder inside; the number of entries.
    ///
    /// # Errors
    /// [`SandboxError::NoRoom`] when the disk inside is full, [`SandboxError::Lost`] else.
    pub async fn put(&mut self, folder: &str, tar: &[u8]) -> Result<u64, SandboxError> {
        let request = json!({"op": "put", "folder": folder, "bytes": tar.len()});
        let (reply, _) = self.ask(request, tar, self.patience.transfer, None).await?;
        self.expect(reply["put"].as_u64(), "put")
    }

    /// One call of a Leaf tool; the observation.
    ///
    /// # Errors
    /// [`SandboxError::Lost`]; what goes wrong in a tool is an observation.
    pub async fn call(&mut self, tool: &str, args: &Value) -> Result<String, SandboxError> {
        let deadline = if tool == "Bash" { bash_time(args) + self.patience.grace } else { self.patience.transfer };
        let (reply, _) = self.ask(json!({"tool": tool, "args": args}), &[], deadline, None).await?;
        self.expect(reply["observation"].as_str().map(str::to_owned), "observation")
    }

    /// Runs a command in the working folder.
    ///
    /// # Errors
    /// [`SandboxError::Lost`].
    pub async fn run(&mut self, command: &Command) -> Result<Ran, SandboxError> {
        let timeout_ms = u64::try_from(command.timeout.as_millis()).unwrap_or(u64::MAX);
        let request = json!({"op": "run", "script": command.script, "timeout_ms": timeout_ms, "output_limit": command.output_limit});
        let (mut reply, _) = self.ask(request, &[], command.timeout.saturating_add(self.patience.grace), None).await?;
        let ran = serde_json::from_value::<RanReply>(reply["ran"].take()).ok();
        self.memory_kills = ran.as_ref().map_or(0, |ran| ran.memory_kills);
        self.expect(ran.map(Ran::from), "ran")
    }

    /// Lists a folder as git would see it.
    ///
    /// # Errors
    /// [`SandboxError::TooLarge`] for a list that nobody could work with (the link ends), [`SandboxError::Lost`] else.
    pub async fn list(&mut self, folder: &str, how: Listing) -> Result<Vec<Entry>, SandboxError> {
        let listed = self
            .ask(json!({"op": "list", "folder": folder, "quick": how == Listing::Quick}), &[], self.patience.transfer, Some(LONGEST_LIST))
            .await;
        let (_, bytes) = listed.map_err(|error| match error {
            SandboxError::TooLarge { limit, .. } => SandboxError::TooLarge { what: "the list of the files inside".to_owned(), limit },
            other => other,
        })?;
        bundle::entries(&bytes).map_err(|why| self.lose(why))
    }

    /// Brings files of a folder out, `limit` bytes together at most.
    ///
    /// # Errors
    /// [`SandboxError::TooLarge`] above the limit, [`SandboxError::Lost`] else.
    pub async fn take(&mut self, folder: &str, paths: &[Vec<u8>], limit: u64) -> Result<Vec<TakenFile>, SandboxError> {
        const ENVELOPE: u64 = 8192;
        let names: Vec<u8> = paths.iter().flat_map(|path| path.iter().copied().chain([0])).collect();
        let archive =
            (paths.len() as u64).saturating_mul(ENVELOPE).saturating_add(2 * names.len() as u64 + 2 * ENVELOPE).saturating_add(limit);
        let request = json!({"op": "take", "folder": folder, "bytes": names.len(), "limit": limit});
        let taken = self.ask(request, &names, self.patience.transfer, Some(archive)).await;
        let (_, bytes) = taken.map_err(|error| match error {
            SandboxError::TooLarge { .. } if self.is_lost() => self.lose("an answer announces more bytes than were asked for"),
            SandboxError::TooLarge { .. } => SandboxError::TooLarge { what: "what was to be taken out of the sandbox".to_owned(), limit },
            other => other,
        })?;
        bundle::taken(&bytes, paths, limit).map_err(|why| self.lose(why))
    }

    /// Has the program inside try to reach each target.
    ///
    /// # Errors
    /// [`SandboxError::Lost`], also when the answer is not about these targets in this order.
    pub async fn probe(&mut self, targets: &[Target]) -> Result<Vec<Attempt>, SandboxError> {
        self.probe_within(targets, PROBE).await
    }

    /// The same with another time for each attempt.
    ///
    /// # Errors
    /// As [`Link::probe`].
    pub async fn probe_within(&mut self, targets: &[Target], each: Duration) -> Result<Vec<Attempt>, SandboxError> {
        let request = json!({"op": "probe", "targets": targets, "patience_ms": u64::try_from(each.as_millis()).unwrap_or(u64::MAX)});
        let (mut reply, _) = self.ask(request, &[], self.patience.grace + each, None).await?;
        let attempts = serde_json::from_value::<Vec<Attempt>>(reply["probed"].take()).ok();
        let about_these = |attempts: &Vec<Attempt>| {
            let same = |(target, attempt): (&Target, &Attempt)| target.kind == attempt.kind && target.address == attempt.address;
            attempts.len() == targets.len() && targets.iter().zip(attempts).all(same)
        };
        self.expect(attempts.filter(about_these), "probed")
    }

    /// The kernel's lines about the rights of the program inside, and so of all that it starts.
    ///
    /// # Errors
    /// [`SandboxError::Lost`].
    pub async fn rights(&mut self) -> Result<BTreeMap<String, String>, SandboxError> {
        let (mut reply, _) = self.ask(json!({"op": "about"}), &[], self.patience.grace, None).await?;
        let about = serde_json::from_value(reply["about"].take()).ok();
        self.expect(about, "about")
    }

    /// How many processes the kernel killed for want of memory during the last command, as the program inside counted them.
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        self.memory_kills
    }

    /// Whether nothing can be asked any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.streams.is_none()
    }

    /// Closes both directions, which ends the program inside.
    pub fn close(&mut self) {
        self.streams = None;
    }

    /// The end of what the program wrote to its error stream, once that is closed (or soon); control characters escaped.
    pub async fn last_words(&mut self) -> String {
        const SOON: Duration = Duration::from_millis(500);
        if !self.drain.is_finished() {
            let _ = tokio::time::timeout(SOON, &mut self.drain).await;
        }
        let tail = self.stderr.lock().map(|tail| tail.clone()).unwrap_or_default();
        let words = String::from_utf8_lossy(&tail);
        words.trim().chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
    }

    fn expect<T>(&mut self, value: Option<T>, field: &str) -> Result<T, SandboxError> {
        value.ok_or_else(|| self.lose(format!("the program inside answered without a proper \"{field}\"")))
    }

    fn lose(&mut self, why: impl Into<String>) -> SandboxError {
        self.close();
        SandboxError::Lost(why.into())
    }

    /// One question, one answer. The streams are put back only after a proper answer, so whatever else happens closes them.
    async fn ask(
        &mut self,
        mut request: Value,
        payload: &[u8],
        deadline: Duration,
        most: Option<u64>,
    ) -> Result<(Value, Vec<u8>), SandboxError> {
        let mut streams = self.streams.take().ok_or_else(|| SandboxError::Lost("it has already ended".to_owned()))?;
        self.last_id += 1;
        request["id"] = self.last_id.into();
        let asked = async {
            streams.send(&request, payload).await?;
            streams.receive(self.last_id, most).await
        };
        let reply = match tokio::time::timeout(deadline, asked).await {
            Ok(reply) => reply.map_err(|broken| match broken {
                Broken::Lost(why) => SandboxError::Lost(why),
                Broken::TooMuch { limit } => SandboxError::TooLarge { what: "an answer from inside".to_owned(), limit },
            })?,
            Err(_) => return Err(SandboxError::Lost(format!("no answer within {} ms", deadline.as_millis()))),
        };
        let Some(sentence) = reply.0.get("error") else {
            self.streams = Some(streams);
            return Ok(reply);
        };
        let sentence = sentence.as_str().unwrap_or("an error without words").chars().take(500).collect::<String>();
        match reply.0["kind"].as_str() {
            Some("no_room") => {
                self.streams = Some(streams);
                Err(SandboxError::NoRoom(sentence))
            }
            Some("too_large") => {
                self.streams = Some(streams);
                Err(SandboxError::TooLarge { what: sentence, limit: most.unwrap_or(0) })
            }
            _ => Err(SandboxError::Lost(format!("the program inside could not do what was asked: {sentence}"))),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.drain.abort();
    }
}

enum Broken {
    Lost(String),
    TooMuch { limit: u64 },
}

fn lost<T>(why: impl Into<String>) -> Result<T, Broken> {
    Err(Broken::Lost(why.into()))
}

impl Streams {
    async fn send(&mut self, request: &Value, payload: &[u8]) -> Result<(), Broken> {
        let broken = |error: std::io::Error| Broken::Lost(format!("the channel broke while asking: {error}"));
        let mut line = request.to_string().into_bytes();
        line.push(b'\n');
        self.writer.write_all(&line).await.map_err(broken)?;
        self.writer.write_all(payload).await.map_err(broken)?;
        self.writer.flush().await.map_err(broken)
    }

    async fn receive(&mut self, id: u64, most: Option<u64>) -> Result<(Value, Vec<u8>), Broken> {
        let broken = |error: std::io::Error| Broken::Lost(format!("the channel broke while waiting for an answer: {error}"));
        let mut line = Vec::new();
        (&mut self.reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await.map_err(broken)?;
        match line.last() {
            None => return lost("the channel was closed from inside"),
            Some(b'\n') => {}
            Some(_) if line.len() as u64 == LONGEST_LINE => return lost(format!("an answer is longer than {LONGEST_LINE} bytes")),
            Some(_) => return lost("the channel was closed from inside, in the middle of an answer"),
        }
        let Ok(reply) = serde_json::from_slice::<Value>(&line) else { return lost("an answer is no JSON") };
        if !reply.is_object() || reply["id"].as_u64() != Some(id) {
            return lost(format!("an answer is not the one to question {id}"));
        }
        let announced = match (reply.get("bytes").map(Value::as_u64), most) {
            (Some(Some(bytes)), Some(limit)) if bytes > limit => return Err(Broken::TooMuch { limit }),
            (Some(Some(bytes)), Some(_)) => bytes,
            (None, None) => 0,
            (None, Some(_)) if reply.get("error").is_some() => 0,
            _ => return lost("an answer is wrong about whether bytes follow"),
        };
        let mut bytes = Vec::new();
        (&mut self.reader).take(announced).read_to_end(&mut bytes).await.map_err(broken)?;
        if bytes.len() as u64 != announced {
            return lost("the channel was closed from inside, in the middle of an answer");
        }
        Ok((reply, bytes))
    }
}

#[derive(serde::Deserialize)]
struct RanReply {
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
    elapsed_ms: u64,
    #[serde(default)]
    memory_kills: u64,
}

impl From<RanReply> for Ran {
    fn from(reply: RanReply) -> Self {
        let elapsed = Duration::from_millis(reply.elapsed_ms);
        Self { exit_code: reply.exit_code, stdout: reply.stdout, stderr: reply.stderr, elapsed }
    }
}

/// The time that the Bash tool keeps by itself: `timeout` in seconds, or in milliseconds when above 1000, or `timeout_ms` (the Leaf contract).
fn bash_time(args: &Value) -> Duration {
    let number = |name: &str| args[name].as_f64().or_else(|| args[name].as_str()?.trim().parse().ok());
    let seconds = match (number("timeout"), number("timeout_ms")) {
        (Some(seconds), _) if seconds <= 1000.0 => seconds,
        (Some(ms), _) | (None, Some(ms)) => ms / 1000.0,
        (None, None) => return DEFAULT_BASH,
    };
    let asked = if seconds > 0.0 { Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_BASH) } else { DEFAULT_BASH };
    asked.clamp(DEFAULT_BASH, LONGEST_BASH)
}

async fn keep_tail(mut stderr: impl AsyncRead + Unpin, tail: Arc<Mutex<Vec<u8>>>) {
    let mut piece = [0; STDERR_TAIL];
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        let Ok(mut tail) = tail.lock() else { return };
        tail.extend_from_slice(&piece[..read]);
        let surplus = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..surplus);
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
