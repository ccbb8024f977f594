//! Text as the observations have it: decoded with replacement, counted and cut by characters.

/// Decodes UTF-8 that comes in pieces; each maximal undecodable run becomes one U+FFFD, as in CPython's `errors="replace"`.
#[derive(Debug, Default)]
pub(super) struct LossyDecoder {
    pending: Vec<u8>,
}

impl LossyDecoder {
    /// Gives the text of the next piece to `sink`, keeping back a character that is cut off at its end.
    pub(super) fn push(&mut self, piece: &[u8], mut sink: impl FnMut(&str)) {
        if self.pending.is_empty() {
            let kept_from = decode(piece, &mut sink);
            self.pending.extend_from_slice(&piece[kept_from..]);
        } else {
            let mut joined = std::mem::take(&mut self.pending);
            joined.extend_from_slice(piece);
            let kept_from = decode(&joined, &mut sink);
            joined.drain(..kept_from);
            self.pending = joined;
        }
    }

    /// Gives what was kept back.
    pub(super) fn finish(&mut self, mut sink: impl FnMut(&str)) {
        if !std::mem::take(&mut self.pending).is_empty() {
            sink("\u{fffd}");
        }
    }
}

/// Decodes all but an incomplete character at the end, and says where that begins.
fn decode(bytes: &[u8], sink: &mut impl FnMut(&str)) -> usize {
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        if !chunk.valid().is_empty() {
            sink(chunk.valid());
        }
        at += chunk.valid().len();
        if chunk.invalid().is_empty() {
            continue;
        }
        let is_last = at + chunk.invalid().len() == bytes.len();
        if is_last && std::str::from_utf8(chunk.invalid()).is_err_and(|why| why.error_len().is_none()) {
            return at;
        }
        sink("\u{fffd}");
        at += chunk.invalid().len();
    }
    at
}

/// Keeps the first characters of what is pushed and counts the rest.
#[derive(Debug)]
pub(super) struct Capped {
    text: String,
    room: usize,
    left_out: u64,
}

impl Capped {
    /// Room for `limit` characters; zero or less means without a limit.
    pub(super) fn new(limit: i64) -> Self {
        let room = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        Self { text: String::new(), room, left_out: 0 }
    }

    /// Adds one character.
    pub(super) fn push(&mut self, character: char) {
        if self.room > 0 {
            self.room -= 1;
            self.text.push(character);
        } else {
            self.left_out += 1;
        }
    }

    /// Adds a text.
    pub(super) fn push_str(&mut self, text: &str) {
        text.chars().for_each(|character| self.push(character));
    }

    /// Counts characters that nobody kept.
    pub(super) fn leave_out(&mut self, characters: u64) {
        self.left_out += characters;
    }

    /// The text, with the count of what was left out on a line of its own.
    pub(super) fn finish(self) -> String {
        if self.left_out == 0 { self.text } else { format!("{}\n[truncated {} chars]", self.text, self.left_out) }
    }
}
