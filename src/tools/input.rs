//! Reads requests from stdin in a thread of its own, so that the end of the input is seen while a command runs.
//!
//! What must hold: exactly the announced bytes after a line are taken for it, whatever becomes of the request; a line that can't be understood
//! costs one error answer and nothing else; memory is bounded by [`MAX_LINE`] and a few chunks, not by what the other side sends.

use std::io::{self, BufRead, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde_json::Value;

/// The longest line in bytes; a longer one is skipped and answered with an error.
pub(super) const MAX_LINE: usize = 48 * 1024 * 1024;
const CHUNK: usize = 256 * 1024;

/// One line of the input.
pub(super) enum Message {
    /// A JSON object with the bytes that were announced by its `bytes`.
    Request {
        /// The object.
        body: Value,
        /// The raw bytes after the line.
        payload: Payload,
    },
    /// A line that is no request.
    Malformed {
        /// The request's `id` where it could be read, else null.
        id: Value,
        /// What was wrong.
        error: String,
        /// Whether it was a tool call, whose caller waits for an observation.
        is_tool_call: bool,
    },
}

/// The raw bytes after a line. What is not read is consumed when it is dropped.
#[derive(Default)]
pub(super) struct Payload {
    chunks: Option<Receiver<Vec<u8>>>,
    current: io::Cursor<Vec<u8>>,
    missing: u64,
}

/// The requests, in the order in which they came.
pub(super) struct Input {
    bell: PipeReader,
    messages: Receiver<Message>,
}

impl Input {
    /// Starts the reading thread.
    ///
    /// # Errors
    /// When the thread or its pipe can't be made.
    pub(super) fn start() -> io::Result<Self> {
        let (bell, mut ring) = io::pipe()?;
        let (sender, messages) = sync_channel(16);
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            let mut stdin = io::stdin().lock();
            while let Ok(Some((message, chunks))) = next_message(&mut stdin) {
                let wanted = matches!(&message, Message::Request { payload, .. } if payload.missing > 0).then(|| missing(&message));
                if sender.send(message).is_err() || ring.write_all(b"!").is_err() {
                    return;
                }
                if let (Some(wanted), Some(chunks)) = (wanted, chunks)
                    && !pass_on(&mut stdin, wanted, &chunks)
                {
                    return;
                }
            }
        })?;
        Ok(Self { bell, messages })
    }

    /// Readable when a message is there; hung up when the input has ended.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The next message; none at the end of the input. Blocks until there is one.
    pub(super) fn next(&mut self) -> Option<Message> {
        self.bell.read_exact(&mut [0]).ok()?;
        self.messages.recv().ok()
    }
}

type Next = Option<(Message, Option<SyncSender<Vec<u8>>>)>;

fn next_message(stdin: &mut impl BufRead) -> io::Result<Next> {
    let mut line = Vec::new();
    let taken = stdin.take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
    if taken == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') && taken == MAX_LINE {
        line.truncate(1024);
        stdin.skip_until(b'\n')?;
        let error = format!("the line is longer than {MAX_LINE} bytes");
        return Ok(Some((Message::Malformed { id: leading_id(&line), error, is_tool_call: names_a_tool(&line) }, None)));
    }
    let body = match serde_json::from_slice::<Value>(&line) {
        Ok(body @ Value::Object(_)) => body,
        Ok(_) => return Ok(Some((malformed(&line, "a request is a JSON object".to_owned()), None))),
        Err(why) => return Ok(Some((malformed(&line, format!("the line is no JSON: {why}")), None))),
    };
    let has_bytes = matches!(body.get("op").and_then(Value::as_str), Some("put" | "take"));
    let missing = body.get("bytes").and_then(Value::as_u64).filter(|_| has_bytes).unwrap_or(0);
    if missing == 0 {
        return Ok(Some((Message::Request { body, payload: Payload::default() }, None)));
    }
    let (sender, chunks) = sync_channel(4);
    let payload = Payload { chunks: Some(chunks), current: io::Cursor::default(), missing };
    Ok(Some((Message::Request { body, payload }, Some(sender))))
}

fn missing(message: &Message) -> u64 {
    match message {
        Message::Request { payload, .. } => payload.missing,
        Message::Malformed { .. } => 0,
    }
}

/// Hands `wanted` bytes over in chunks; false when the input ended before.
fn pass_on(stdin: &mut impl Read, mut wanted: u64, chunks: &SyncSender<Vec<u8>>) -> bool {
    while wanted > 0 {
        let size = usize::try_from(wanted).map_or(CHUNK, |wanted| wanted.min(CHUNK));
        let mut chunk = vec![0; size];
        if stdin.read_exact(&mut chunk).is_err() {
            return false;
        }
        wanted -= size as u64;
        let _ = chunks.send(chunk);
    }
    true
}

fn malformed(line: &[u8], error: String) -> Message {
    Message::Malformed { id: leading_id(line), error, is_tool_call: false }
}

/// The value of `id` when it is the first member and a number or a short text.
fn leading_id(line: &[u8]) -> Value {
    let head = String::from_utf8_lossy(&line[..line.len().min(256)]).into_owned();
    let Some(rest) = head.trim_start().strip_prefix('{') else { return Value::Null };
    let Some(rest) = rest.trim_start().strip_prefix("\"id\"") else { return Value::Null };
    let Some(rest) = rest.trim_start().strip_prefix(':') else { return Value::Null };
    serde_json::Deserializer::from_str(rest)
        .into_iter::<Value>()
        .next()
        .and_then(Result::ok)
        .filter(|id| !id.is_object() && !id.is_array())
        .unwrap_or_default()
}

fn names_a_tool(line: &[u8]) -> bool {
    String::from_utf8_lossy(&line[..line.len().min(256)]).contains("\"tool\"")
}

impl Read for Payload {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut got = self.current.read(into)?;
        if got == 0 && self.missing > 0 && !into.is_empty() {
            let next = self.chunks.as_ref().and_then(|chunks| chunks.recv().ok());
            self.current =
                io::Cursor::new(next.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the input ended inside the archive"))?);
            got = self.current.read(into)?;
        }
        self.missing -= got as u64;
        Ok(got)
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let _ = io::copy(self, &mut io::sink());
    }
}
