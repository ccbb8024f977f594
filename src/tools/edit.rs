//! Edit: replaces an exact text, and nothing else.
//!
//! What must hold: every byte outside of the replaced text survives (line ends, byte order mark, undecodable bytes, missing final line end), and so
//! do the file's mode, links and owner. New lines get the line end of the place where they are put.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;
use serde_json::Value;

use super::newlines::{Normalised, line_end};
use super::paths::{Args, Workdir};
use super::python::{self, Exception};
use super::read::{open, refuse_special};

/// The largest file in bytes that is edited.
const MOST: u64 = 64 << 20;

/// Replaces the only match of `old_string`, or every one with `replace_all`; matches are found from left to right and don't overlap.
///
/// # Errors
/// What the reference raises; `OSError` for what is no regular file, and for one of more than 64 MiB.
pub(super) fn edit(workdir: &Workdir, args: &Args) -> Result<String, Exception> {
    let path = workdir.path_of(args)?;
    let old = python::str_or_empty(args.get("old_string"));
    let new = python::str_or_empty(args.get("new_string"));
    if old.is_empty() {
        return Err(Exception::value("old_string must be non-empty"));
    }
    let bytes = content(&path)?;
    let normalised = Normalised::new(&bytes);
    let matches: Vec<usize> = normalised.text.match_indices(&old).map(|(at, _)| at).collect();
    match matches.len() {
        0 => return Err(Exception::value("old_string was not found")),
        1 => {}
        count if !is_set(args.get("replace_all")) => {
            return Err(Exception::value(format!(
                "old_string matched {count} times; set replace_all=true or use a more specific old_string"
            )));
        }
        _ => {}
    }
    let new = if bytes.windows(2).any(|pair| pair == b"\r\n") { new.replace("\r\n", "\n") } else { new };
    let changed = difference(&old, &new);
    let mut updated = Vec::with_capacity(bytes.len());
    let mut kept = 0;
    for at in &matches {
        let place = normalised.origin(at + changed.in_old.start..at + changed.in_old.end);
        updated.extend_from_slice(&bytes[kept..place.start]);
        updated.extend_from_slice(with_line_ends(&new[changed.in_new.clone()], line_end(&bytes, &place)).as_bytes());
        kept = place.end;
    }
    updated.extend_from_slice(&bytes[kept..]);
    replace_content(&path, &bytes, &updated)?;
    let plural = if matches.len() == 1 { "" } else { "s" };
    Ok(format!("Edited {} ({} replacement{plural}).", workdir.display(&path), matches.len()))
}

/// The reference's idea of a set flag: true, or a text that says so.
fn is_set(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Bool(value)) => *value,
        value => matches!(python::str_or_empty(value).trim_matches(python::is_space).to_lowercase().as_str(), "1" | "true" | "yes" | "on"),
    }
}

fn content(path: &str) -> Result<Vec<u8>, Exception> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(|why| Exception::os(&why, None))?;
    if bytes.len() as u64 > MOST {
        return Err(Exception::named(
            "OSError",
            format!("{} has more than {MOST} bytes, which is too large for Edit", python::repr_str(path)),
        ));
    }
    Ok(bytes)
}

/// What differs between two texts: the ranges between their common beginning and their common end.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    in_old: Range<usize>,
    in_new: Range<usize>,
}

fn difference(old: &str, new: &str) -> Difference {
    let common = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
    };
    let start = common(&mut old.chars().zip(new.chars()));
    let end = common(&mut old[start..].chars().rev().zip(new[start..].chars().rev()));
    Difference { in_old: start..old.len() - end, in_new: start..new.len() - end }
}

/// The text with every `\n` as `end`, but for those that are part of a `\r\n` already.
fn with_line_ends(text: &str, end: &str) -> String {
    if end == "\n" {
        return text.to_owned();
    }
    text.split("\r\n").map(|part| part.replace('\n', end)).collect::<Vec<_>>().join("\r\n")
}

/// Writes the new content over the old in place, so that mode, owner and links stay; puts the old content back when there is no room for the new.
fn replace_content(path: &str, old: &[u8], new: &[u8]) -> Result<(), Exception> {
    let opened = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path);
    let mut file = opened.map_err(|why| Exception::os(&why, Some(path)))?;
    refuse_special(&file, path)?;
    overwrite(&mut file, new).map_err(|why| {
        let _ = overwrite(&mut file, old);
        Exception::os(&why, None)
    })
}

fn overwrite(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(content)?;
    file.set_len(content.len() as u64)
}
