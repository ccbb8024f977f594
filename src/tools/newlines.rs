//! A file's bytes as the text that Python reads (`\r\n` and `\r` as `\n`, undecodable bytes as U+FFFD), with the way back to the bytes.

use std::ops::Range;

/// The text of a file, and where each of its characters came from.
#[derive(Debug)]
pub(super) struct Normalised {
    /// What Python's `read_text(errors="replace")` gives.
    pub text: String,
    /// After each place where text and bytes differ in length: (offset in the text, offset in the bytes).
    marks: Vec<(usize, usize)>,
}

impl Normalised {
    /// Reads the bytes.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut this = Self { text: String::with_capacity(bytes.len()), marks: Vec::new() };
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            let mut rest = chunk.valid();
            while let Some(place) = rest.find('\r') {
                this.text.push_str(&rest[..place]);
                this.text.push('\n');
                let size = if rest[place..].starts_with("\r\n") { 2 } else { 1 };
                at += place + size;
                rest = &rest[place + size..];
                if size == 2 {
                    this.marks.push((this.text.len(), at));
                }
            }
            this.text.push_str(rest);
            at += rest.len();
            if !chunk.invalid().is_empty() {
                this.text.push('\u{fffd}');
                at += chunk.invalid().len();
                this.marks.push((this.text.len(), at));
            }
        }
        this
    }

    /// The bytes that a range of the text came from; its ends must be between characters.
    pub(super) fn origin(&self, range: Range<usize>) -> Range<usize> {
        self.offset(range.start)..self.offset(range.end)
    }

    fn offset(&self, in_text: usize) -> usize {
        match self.marks.partition_point(|(text, _)| *text <= in_text) {
            0 => in_text,
            after => in_text - self.marks[after - 1].0 + self.marks[after - 1].1,
        }
    }
}

/// The line end that new lines should have at a place: that of the replaced bytes, else of the rest of the line there, else of the line before.
pub(super) fn line_end(bytes: &[u8], place: &Range<usize>) -> &'static str {
    let after = bytes[place.start..].iter().position(|byte| matches!(byte, b'\r' | b'\n')).map(|at| place.start + at);
    let before = || bytes[..place.start].iter().rposition(|byte| matches!(byte, b'\r' | b'\n'));
    match after.or_else(before) {
        Some(at) if bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n') => "\r\n",
        Some(at) if bytes[at] == b'\n' && at > 0 && bytes[at - 1] == b'\r' => "\r\n",
        Some(at) if bytes[at] == b'\r' => "\r",
        _ => "\n",
    }
}
