//! Which lines a patch adds and removes: a line that was only moved is neither.

use std::collections::HashMap;

use crate::domain::{BlobMode, ChangedFile};

/// The lines of the new content that the old one does not have as often, with their numbers from 1, without their line ends.
pub(super) fn added(file: &ChangedFile) -> Vec<(u64, &[u8])> {
    surplus(text(file.after.as_ref()), text(file.before.as_ref()))
}

/// The lines of the old content that the new one does not have as often.
pub(super) fn removed(file: &ChangedFile) -> Vec<(u64, &[u8])> {
    surplus(text(file.before.as_ref()), text(file.after.as_ref()))
}

fn text(blob: Option<&(BlobMode, Vec<u8>)>) -> &[u8] {
    blob.map_or(&[], |(_, content)| content)
}

fn surplus<'a>(of: &'a [u8], over: &'a [u8]) -> Vec<(u64, &'a [u8])> {
    let mut known: HashMap<&[u8], usize> = HashMap::new();
    for line in split(over) {
        *known.entry(line).or_default() += 1;
    }
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(split(of)) {
        match known.get_mut(line) {
            Some(left) if *left > 0 => *left -= 1,
            _ => lines.push((number, line)),
        }
    }
    lines
}

fn split(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    })
}

#[cfg(test)]
mod tests {
    use super::{added, removed};
    use crate::guard::tests::changed;

    #[test]
    fn moved_lines_and_line_ends_are_no_change() {
        let file = changed("a", Some("one\r\ntwo\nthree"), Some("three\none\nnew\nnew\n"));
        assert_eq!(added(&file), [(3, &b"new"[..]), (4, b"new")]);
        assert_eq!(removed(&file), [(2, &b"two"[..])]);
        assert_eq!(added(&changed("a", Some("x\n"), Some("x\nx\n"))), [(2, &b"x"[..])]);
        assert!(added(&changed("a", Some("x\n"), None)).is_empty());
    }
}
