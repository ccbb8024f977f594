//! What is kept of a command's output while it is read: never more than a bound, however much comes.

use std::collections::VecDeque;

use super::text::LossyDecoder;

/// Takes the bytes of one stream as they come.
pub(super) trait Sink {
    /// The next bytes.
    fn take(&mut self, bytes: &[u8]);
}

/// Keeps enough of the beginning for `limit` characters and counts all characters, both as they are and with CRLF folded to one.
#[derive(Debug)]
pub(super) struct Head {
    kept: Vec<u8>,
    room: usize,
    decoder: LossyDecoder,
    count: Count,
}

#[derive(Debug, Default)]
struct Count {
    characters: u64,
    pairs: u64,
    after_return: bool,
}

impl Count {
    fn add(&mut self, text: &str) {
        self.characters += text.chars().count() as u64;
        for byte in text.bytes() {
            self.pairs += u64::from(self.after_return && byte == b'\n');
            self.after_return = byte == b'\r';
        }
    }
}

/// The text of a stream: its beginning, and how many characters it had in all.
#[derive(Debug)]
pub(super) struct HeadText {
    /// At least the first `limit` characters, or all there were.
    pub text: String,
    /// How many characters the stream had beyond `text`.
    pub left_out: u64,
}

impl Head {
    /// Room for `limit` characters; zero or less means for 64 MiB.
    pub(super) fn new(limit: i64) -> Self {
        let room =
            usize::try_from(limit).ok().filter(|limit| *limit > 0).map_or(64 << 20, |limit| limit.saturating_mul(4).saturating_add(4));
        Self { kept: Vec::new(), room, decoder: LossyDecoder::default(), count: Count::default() }
    }

    /// The text as it came.
    pub(super) fn raw(mut self) -> HeadText {
        self.decoder.finish(|text| self.count.add(text));
        let text = String::from_utf8_lossy(&self.kept).into_owned();
        let left_out = self.count.characters.saturating_sub(text.chars().count() as u64);
        HeadText { text, left_out }
    }

    /// The text with CRLF and CR as LF, as Python reads a stream in text mode.
    pub(super) fn folded(mut self) -> HeadText {
        self.decoder.finish(|text| self.count.add(text));
        let text = String::from_utf8_lossy(&self.kept).replace("\r\n", "\n").replace('\r', "\n");
        let left_out = (self.count.characters - self.count.pairs).saturating_sub(text.chars().count() as u64);
        HeadText { text, left_out }
    }
}

impl Sink for Head {
    fn take(&mut self, bytes: &[u8]) {
        let keep = bytes.len().min(self.room);
        self.kept.extend_from_slice(&bytes[..keep]);
        self.room -= keep;
        self.decoder.push(bytes, |text| self.count.add(text));
    }
}

/// Keeps the first and the last half of `limit` bytes.
#[derive(Debug)]
pub(super) struct HeadAndTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half: usize,
    dropped: u64,
}

impl HeadAndTail {
    /// Room for `limit` bytes in all.
    pub(super) fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: limit / 2, dropped: 0 }
    }

    /// The text, undecodable bytes replaced, with a line that says how much is missing in the middle.
    pub(super) fn text(self) -> String {
        let tail: Vec<u8> = self.tail.into();
        if self.dropped == 0 {
            return String::from_utf8_lossy(&[self.head, tail].concat()).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        format!("{head}\n[... {} bytes left out ...]\n{tail}", self.dropped)
    }
}

impl Sink for HeadAndTail {
    fn take(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        let (skipped, last) = rest.split_at(rest.len().saturating_sub(self.half));
        let surplus = (self.tail.len() + last.len()).saturating_sub(self.half);
        self.tail.drain(..surplus);
        self.tail.extend(last);
        self.dropped += (skipped.len() + surplus) as u64;
    }
}
