//! Read: numbered lines of a text file, in memory that doesn't grow with the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use nix::libc;
use serde_json::Value;

use super::options::Limits;
use super::paths::{Args, Workdir};
use super::python::{self, Exception};
use super::text::{Capped, LossyDecoder};

/// How long one file may be read; without this an endless file of `/proc` or a sparse giant would hold the program.
const PATIENCE: Duration = Duration::from_secs(20);

/// The first line is the shown path, then `N. text` for each line from `offset` on, `limit` of them at most when it is above zero.
///
/// # Errors
/// What the reference raises; `OSError` for what is neither a regular file nor a folder.
pub(super) fn read(workdir: &Workdir, limits: &Limits, args: &Args) -> Result<String, Exception> {
    let path = workdir.path_of(args)?;
    let mut file = open(&path)?;
    let offset = optional_int(args.get("offset"), 1)?.max(1);
    let limit = optional_int(args.get("limit"), 0)?;
    let end = if limit <= 0 { i64::MAX } else { offset.saturating_add(limit) };

    let mut numbered =
        Numbered { out: Capped::new(limits.read_chars), next: 1, offset, end, is_first: true, in_line: false, after_return: false };
    numbered.out.push_str(&workdir.display(&path));
    numbered.out.push('\n');
    let mut decoder = LossyDecoder::default();
    let deadline = Instant::now() + PATIENCE;
    let mut chunk = vec![0; 256 * 1024];
    while numbered.next < end {
        if Instant::now() > deadline {
            return Err(Exception::named(
                "TimeoutError",
                format!("reading {} took longer than {} s", python::repr_str(&path), PATIENCE.as_secs()),
            ));
        }
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(size) => decoder.push(&chunk[..size], |text| numbered.push(text)),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(Exception::os(&why, None)),
        }
    }
    decoder.finish(|text| numbered.push(text));
    Ok(numbered.out.finish())
}

/// Opens a file as Python's `open` does, but refuses what could block or never end: pipes, sockets and devices other than `/dev/null`.
///
/// # Errors
/// The exception that names the path.
pub(super) fn open(path: &str) -> Result<File, Exception> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|why| Exception::os(&why, Some(path)))?;
    refuse_special(&file, path)?;
    Ok(file)
}

/// # Errors
/// `IsADirectoryError` for a folder, `OSError` for a pipe, a socket or a device.
pub(super) fn refuse_special(file: &File, path: &str) -> Result<(), Exception> {
    let about = file.metadata().map_err(|why| Exception::os(&why, Some(path)))?;
    let is_null = about.file_type().is_char_device() && about.rdev() == libc::makedev(1, 3);
    if about.is_dir() {
        Err(Exception::os(&io::Error::from_raw_os_error(libc::EISDIR), Some(path)))
    } else if about.is_file() || is_null {
        Ok(())
    } else {
        Err(Exception::named("OSError", format!("not a regular file: {}", python::repr_str(path))))
    }
}

/// `default` for a missing, null or empty value, else `int(value)`.
fn optional_int(value: Option<&Value>, default: i64) -> Result<i64, Exception> {
    match value {
        None | Some(Value::Null) => Ok(default),
        Some(Value::String(text)) if text.is_empty() => Ok(default),
        Some(value) => python::int(value),
    }
}

/// Splits text like `str.splitlines` and numbers the wanted lines.
struct Numbered {
    out: Capped,
    /// The number of the line that the next character belongs to.
    next: i64,
    offset: i64,
    end: i64,
    is_first: bool,
    in_line: bool,
    after_return: bool,
}

impl Numbered {
    fn push(&mut self, text: &str) {
        for character in text.chars() {
            if std::mem::replace(&mut self.after_return, character == '\r') && character == '\n' {
                continue;
            }
            if ends_line(character) {
                self.begin_line();
                self.in_line = false;
                self.next += 1;
            } else {
                self.begin_line();
                if self.is_wanted() {
                    self.out.push(character);
                }
            }
        }
    }

    fn is_wanted(&self) -> bool {
        (self.offset..self.end).contains(&self.next)
    }

    /// Writes the number, unless this line has it already.
    fn begin_line(&mut self) {
        if !std::mem::replace(&mut self.in_line, true) && self.is_wanted() {
            if !std::mem::take(&mut self.is_first) {
                self.out.push('\n');
            }
            self.out.push_str(&self.next.to_string());
            self.out.push_str(". ");
        }
    }
}

/// The line boundaries of `str.splitlines`.
fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
