//! Answers the requests one after the other.
//!
//! Requests and answers are JSON objects, one a line; `put` and `take` are followed by as many raw bytes as they say in `bytes`, and so are the
//! answers of `list` and `take`. The end of the input ends the program and everything it started: at once when a command has been running for
//! a while; requests that were piped in as a whole still get their answers, for 2.5 seconds at most.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::input::{Input, Message, Payload};
use super::options::{Limits, Options};
use super::output::HeadAndTail;
use super::paths::Workdir;
use super::process::{Ended, Processes};
use super::tree::NotTaken;
use super::{bash, confine, edit, glob, memory, probe, read, tree, unpack, write};

/// What a tool needs besides its arguments.
pub(super) struct Room {
    /// Where it works.
    pub workdir: Workdir,
    /// How much it may say.
    pub limits: Limits,
    /// What it started.
    pub processes: Processes,
    /// Where the end of the input shows.
    pub bell: File,
    /// The contents that were named before.
    pub known: tree::Known,
    /// The variables that nothing inherits.
    pub without_env: Vec<OsString>,
}

/// The input has ended while a command ran.
pub(super) struct InputClosed;

/// An answer to a request other than a tool call.
enum Answer {
    Plain(Value),
    WithBytes(Vec<u8>),
    Refused { kind: &'static str, error: String },
}

/// Runs the program until its input ends.
///
/// # Errors
/// One sentence, when it could not start or its output is gone.
pub(super) fn serve(options: Options) -> Result<(), String> {
    std::env::set_current_dir(&options.workdir).map_err(|why| format!("can't enter the workdir {:?}: {why}", options.workdir))?;
    let workdir = std::env::current_dir().map_err(|why| format!("can't name the workdir {:?}: {why}", options.workdir))?;
    let processes = Processes::new().map_err(|why| format!("can't take over the children of this program: {why}"))?;
    if options.confine {
        confine::confine(&options.bounds)?;
    }
    let input = Input::open().and_then(|input| Ok((input, Input::bell()?)));
    let (mut input, bell) = input.map_err(|why| format!("can't read the input: {why}"))?;
    let mut room = Room {
        workdir: Workdir::new(workdir),
        limits: options.limits,
        processes,
        bell,
        known: tree::Known::default(),
        without_env: hidden(&options.without_env),
    };
    let ended = room.answer_all(&mut input);
    room.processes.end_all();
    ended.map_err(|why| format!("the answers can't be written: {why}"))
}

/// The names of all variables that begin with one of these.
fn hidden(prefixes: &[String]) -> Vec<OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| prefixes.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))).collect()
}

impl Room {
    /// A command in the working folder, with the environment that is handed on.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for name in &self.without_env {
            command.env_remove(name);
        }
        command.current_dir(self.workdir.path());
        command
    }

    fn answer_all(&mut self, input: &mut Input) -> io::Result<()> {
        loop {
            if !input.has_more() {
                self.processes.wait_for(self.bell.as_fd())?;
            }
            let (head, bytes) = match input.next() {
                None => return Ok(()),
                Some(Message::Malformed { id, error, is_tool_call: true }) => {
                    (json!({"id": id, "observation": format!("ValueError: {error}")}), Vec::new())
                }
                Some(Message::Malformed { id, error, .. }) => (json!({"id": id, "error": error}), Vec::new()),
                Some(Message::Request { body, payload }) => match self.answer(&body, payload) {
                    Ok(answer) => answer,
                    Err(InputClosed) => return Ok(()),
                },
            };
            let mut out = io::stdout().lock();
            let mut line = serde_json::to_vec(&head)?;
            line.push(b'\n');
            out.write_all(&line)?;
            out.write_all(&bytes)?;
            out.flush()?;
        }
    }

    /// The answer's line and the raw bytes after it. A fault of our own is an answer too.
    fn answer(&mut self, body: &Value, payload: Payload<'_>) -> Result<(Value, Vec<u8>), InputClosed> {
        let id = body.get("id").cloned().unwrap_or_default();
        let is_tool_call = body.get("tool").is_some();
        let answered = catch_unwind(AssertUnwindSafe(|| {
            if is_tool_call {
                return self.observe(body).map(|observation| (json!({"id": id, "observation": observation}), Vec::new()));
            }
            self.operate(body, payload).map(|answer| match answer {
                Answer::Plain(mut head) => {
                    let mut named = json!({"id": id});
                    if let (Some(named), Some(head)) = (named.as_object_mut(), head.as_object_mut()) {
                        named.append(head);
                    }
                    (named, Vec::new())
                }
                Answer::WithBytes(bytes) => (json!({"id": id, "bytes": bytes.len()}), bytes),
                Answer::Refused { kind, error } => (json!({"id": id, "error": error, "kind": kind}), Vec::new()),
            })
        }));
        answered.unwrap_or_else(|_| {
            let fault = "the program inside the sandbox failed on this request";
            let head = if is_tool_call {
                json!({"id": id, "observation": format!("RuntimeError: {fault}")})
            } else {
                json!({"id": id, "error": fault, "kind": "failed"})
            };
            Ok((head, Vec::new()))
        })
    }

    fn observe(&mut self, body: &Value) -> Result<String, InputClosed> {
        let tool = super::python::str_or_empty(body.get("tool"));
        let args = body.get("args").filter(|args| !args.is_null()).or_else(|| body.get("arguments"));
        let args = args.and_then(Value::as_object).cloned().unwrap_or_default();
        let observation = match tool.as_str() {
            "Read" => read::read(&self.workdir, &self.limits, &args),
            "Write" => write::write(&self.workdir, &args),
            "Edit" => edit::edit(&self.workdir, &args),
            "Glob" => glob::glob(&self.workdir, &self.limits, &args),
            "Bash" => return bash::bash(self, &args),
            _ => Ok(format!("Unknown tool: {tool}")),
        };
        Ok(observation.unwrap_or_else(|exception| exception.observation()))
    }

    fn operate(&mut self, body: &Value, payload: Payload<'_>) -> Result<Answer, InputClosed> {
        Ok(match body.get("op").and_then(Value::as_str) {
            Some("put") => put(body, payload),
            Some("list") => {
                let mut nothing = tree::Known::default();
                let is_quick = body.get("quick") == Some(&Value::Bool(true));
                let known = if is_quick { &mut self.known } else { &mut nothing };
                match folder(body)
                    .and_then(|folder| tree::list(&folder, known, is_quick).map_err(|why| format!("{folder:?} can't be listed: {why}")))
                {
                    Ok(records) => Answer::WithBytes(records),
                    Err(error) => failed(error),
                }
            }
            Some("take") => take(body, payload),
            Some("run") => self.run(body)?,
            Some("about") => confine::about().map_or_else(failed, |about| Answer::Plain(json!({"about": about}))),
            Some("probe") => match serde_json::from_value(body.get("targets").cloned().unwrap_or_default()) {
                Ok(targets) => probe::probe(targets, body.get("patience_ms").and_then(Value::as_u64))
                    .map_or_else(failed, |attempts| Answer::Plain(json!({"probed": attempts}))),
                Err(why) => failed(format!("the targets of a probe can't be understood: {why}")),
            },
            Some(op) => failed(format!("unknown op {op:?}; known are put, list, take, run, about and probe")),
            None => failed("a request needs `tool` or `op`".to_owned()),
        })
    }

    fn run(&mut self, body: &Value) -> Result<Answer, InputClosed> {
        let number = |name: &str| body.get(name).and_then(Value::as_u64).ok_or_else(|| format!("`run` needs a whole number `{name}`"));
        let asked = body.get("script").and_then(Value::as_str).ok_or_else(|| "`run` needs a text `script`".to_owned());
        let asked = asked.and_then(|script| Ok((script, number("timeout_ms")?, number("output_limit")?)));
        let (script, timeout, limit) = match asked {
            Ok(asked) => asked,
            Err(error) => return Ok(failed(error)),
        };
        let mut command = self.command(bash::SHELL);
        command.args(["-c", script]);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut out, mut err) = (HeadAndTail::new(limit), HeadAndTail::new(limit));
        let kills = memory::kills();
        let started = Instant::now();
        let ended = self.processes.run(command, Duration::from_millis(timeout), self.bell.as_fd(), &mut out, &mut err);
        self.processes.end_all();
        let exit_code = match ended {
            Ok(Ended::Exited(code)) => Some(code),
            Ok(Ended::TimedOut) => None,
            Ok(Ended::InputClosed) => return Err(InputClosed),
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(no_shell(&why)),
            Err(why) => return Ok(failed(format!("{} could not be started: {why}", bash::SHELL))),
        };
        let memory_kills = memory::kills().saturating_sub(kills);
        let elapsed = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Answer::Plain(
            json!({"ran": {"exit_code": exit_code, "stdout": out.text(), "stderr": err.text(), "elapsed_ms": elapsed, "memory_kills": memory_kills}}),
        ))
    }
}

/// An image without a shell: what a shell says of a program that it does not find.
fn no_shell(why: &io::Error) -> Answer {
    let stderr = format!("{} is not in this image: {why}", bash::SHELL);
    Answer::Plain(json!({"ran": {"exit_code": 127, "stdout": "", "stderr": stderr, "elapsed_ms": 0, "memory_kills": 0}}))
}

fn put(body: &Value, mut payload: Payload<'_>) -> Answer {
    let folder = match bytes_are_named(body).and_then(|()| folder(body)) {
        Ok(folder) => folder,
        Err(error) => return failed(error),
    };
    match unpack::unpack(&folder, &mut payload) {
        Ok(entries) => Answer::Plain(json!({"put": entries})),
        Err(why) => {
            let kind = if is_no_room(&why) { "no_room" } else { "failed" };
            Answer::Refused { kind, error: format!("the archive could not be unpacked in {folder:?}: {}", whole_story(&why)) }
        }
    }
}

fn take(body: &Value, payload: Payload<'_>) -> Answer {
    let asked = folder(body).and_then(|folder| {
        bytes_are_named(body)?;
        let limit = body.get("limit").and_then(Value::as_u64).ok_or("`take` needs a whole number `limit`")?;
        Ok((folder, limit))
    });
    let (folder, limit) = match asked {
        Ok(asked) => asked,
        Err(error) => return failed(error),
    };
    let mut paths = Vec::new();
    const MOST: u64 = 256 << 20;
    match payload.take(MOST).read_to_end(&mut paths) {
        Ok(size) if size as u64 == MOST => {
            return Answer::Refused { kind: "too_large", error: format!("the paths have {MOST} bytes or more") };
        }
        Ok(_) => {}
        Err(why) => return failed(format!("the paths could not be read: {why}")),
    }
    match tree::take(&folder, &paths, limit) {
        Ok(archive) => Answer::WithBytes(archive),
        Err(NotTaken::TooLarge(error)) => Answer::Refused { kind: "too_large", error },
        Err(NotTaken::Failed(error)) => failed(error),
    }
}

fn failed(error: String) -> Answer {
    Answer::Refused { kind: "failed", error }
}

fn folder(body: &Value) -> Result<PathBuf, String> {
    let folder = body.get("folder").and_then(Value::as_str).map(PathBuf::from);
    folder.filter(|folder| folder.is_absolute()).ok_or_else(|| "the request needs an absolute path `folder`".to_owned())
}

fn bytes_are_named(body: &Value) -> Result<(), String> {
    body.get("bytes").and_then(Value::as_u64).map(|_| ()).ok_or_else(|| "the request needs a whole number `bytes`".to_owned())
}

fn is_no_room(why: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, StorageFull};
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(why);
    while let Some(this) = cause {
        if this
            .downcast_ref::<io::Error>()
            .is_some_and(|why| matches!(why.kind(), StorageFull | QuotaExceeded | FileTooLarge | OutOfMemory))
        {
            return true;
        }
        cause = this.source();
    }
    false
}

/// The error with its causes.
fn whole_story(why: &io::Error) -> String {
    let mut story = why.to_string();
    let mut cause = std::error::Error::source(why);
    while let Some(this) = cause {
        let more = this.to_string();
        if !story.contains(&more) {
            story = format!("{story}: {more}");
        }
        cause = this.source();
    }
    story
}
