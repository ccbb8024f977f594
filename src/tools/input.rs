//! Reads requests from stdin, one at a time, in the thread that answers them: every hop to another thread would cost more than a Read does.
//!
//! What must hold: exactly the announced bytes after a line are taken for it, whatever becomes of the request; a line that can't be understood
//! costs one error answer and nothing else; memory is bounded by [`MAX_LINE`], not by what the other side sends.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;

use serde_json::Value;

/// The longest line in bytes; a longer one is skipped and answered with an error.
pub(super) const MAX_LINE: usize = 48 * 1024 * 1024;
/// How much is read at once, in bytes.
const CHUNK: usize = 64 * 1024;

/// One line of the input.
pub(super) enum Message<'input> {
    /// A JSON object with the bytes that were announced by its `bytes`.
    Request {
        /// The object.
        body: Value,
        /// The raw bytes after the line.
        payload: Payload<'input>,
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
pub(super) struct Payload<'input> {
    stdin: &'input mut BufReader<File>,
    missing: u64,
}

/// The requests, in the order in which they came.
pub(super) struct Input {
    stdin: BufReader<File>,
}

impl Input {
    /// Takes stdin over.
    ///
    /// # Errors
    /// When it is closed.
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { stdin: BufReader::with_capacity(CHUNK, Self::bell()?) })
    }

    /// Stdin once more, to wait for: readable when more has come, hung up when the other side has closed it.
    ///
    /// # Errors
    /// When stdin is closed.
    pub(super) fn bell() -> io::Result<File> {
        Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Whether something was read already that [`Input::next`] has not given yet.
    pub(super) fn has_more(&self) -> bool {
        !self.stdin.buffer().is_empty()
    }

    /// The next message; none at the end of the input. Blocks until there is one.
    pub(super) fn next(&mut self) -> Option<Message<'_>> {
        next_message(&mut self.stdin).ok().flatten()
    }
}

fn next_message(stdin: &mut BufReader<File>) -> io::Result<Option<Message<'_>>> {
    let mut line = Vec::new();
    let taken = stdin.take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
    if taken == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') && taken == MAX_LINE {
        line.truncate(1024);
        stdin.skip_until(b'\n')?;
        let error = format!("the line is longer than {MAX_LINE} bytes");
        return Ok(Some(Message::Malformed { id: leading_id(&line), error, is_tool_call: names_a_tool(&line) }));
    }
    let body = match serde_json::from_slice::<Value>(&line) {
        Ok(body @ Value::Object(_)) => body,
        Ok(_) => return Ok(Some(malformed(&line, "a request is a JSON object".to_owned()))),
        Err(why) => return Ok(Some(malformed(&line, format!("the line is no JSON: {why}")))),
    };
    let has_bytes = matches!(body.get("op").and_then(Value::as_str), Some("put" | "take"));
    let missing = body.get("bytes").and_then(Value::as_u64).filter(|_| has_bytes).unwrap_or(0);
    Ok(Some(Message::Request { body, payload: Payload { stdin, missing } }))
}

fn malformed(line: &[u8], error: String) -> Message<'static> {
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

impl Read for Payload<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.stdin.by_ref().take(self.missing).read(into)?;
        if got == 0 && self.missing > 0 && !into.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the input ended inside the archive"));
        }
        self.missing -= got as u64;
        Ok(got)
    }
}

impl Drop for Payload<'_> {
    fn drop(&mut self) {
        let _ = io::copy(self, &mut io::sink());
    }
}
