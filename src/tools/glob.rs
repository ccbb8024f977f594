//! Glob: Python's `glob.glob(pattern, recursive=True)`, files only.
//!
//! What must hold: the same rows as Python's, also where it gives a file more than once (several `**`, links); bounded time whatever the pattern
//! and the tree are, because a folder that is reached in many ways is looked at once and counted.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::libc;

use super::fnmatch::{Pattern, has_magic};
use super::options::Limits;
use super::paths::{self, Args, Workdir};
use super::python::{self, Exception};

/// How long one search may take, and how much memory: links that lead back up make a tree without an end.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_BYTES: usize = 256 << 20;
/// What a name takes besides its path.
const NAME_BYTES: usize = 100;

/// The shown paths of the files that match, sorted by code point, one a line; `... N more files` after the limit.
///
/// # Errors
/// What the reference raises; `TimeoutError` after 10 s, `ValueError` when 256 MiB are not enough for the paths.
pub(super) fn glob(workdir: &Workdir, limits: &Limits, args: &Args) -> Result<String, Exception> {
    let pattern = python::str_or_empty(args.get("pattern"));
    if pattern.is_empty() {
        return Err(Exception::value("pattern is required"));
    }
    let root = python::str_or_empty(args.get("path"));
    let root = workdir.resolve(if root.is_empty() { "." } else { &root })?;
    let mut walk = Walk { deadline: Instant::now() + PATIENCE, names: HashMap::new(), room: MOST_BYTES };
    let found = walk.expand(&paths::join(&root, &pattern))?;
    let rows = shown_files(workdir, found)?;
    let limit = usize::try_from(limits.glob_rows).unwrap_or(0).max(1);
    let total = rows.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let mut shown = Vec::new();
    for (row, count) in &rows {
        let room = limit - shown.len();
        shown.extend(std::iter::repeat_n(row.as_str(), usize::try_from(*count).unwrap_or(usize::MAX).min(room)));
    }
    if shown.is_empty() {
        return Ok("No files matched.".to_owned());
    }
    let more = total - shown.len() as u64;
    let suffix = if more == 0 { String::new() } else { format!("\n... {more} more files") };
    Ok(shown.join("\n") + &suffix)
}

/// Paths, each with the number of ways in which it was found.
type Found = BTreeMap<PathBuf, u64>;

fn shown_files(workdir: &Workdir, found: Found) -> Result<BTreeMap<String, u64>, Exception> {
    let mut real_folders: HashMap<PathBuf, PathBuf> = HashMap::new();
    let mut rows = BTreeMap::new();
    for (path, count) in found {
        if !is_file(&path)? {
            continue;
        }
        let row = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) if fs::symlink_metadata(&path).is_ok_and(|about| !about.is_symlink()) => {
                let real = real_folders.entry(folder.to_owned()).or_insert_with(|| paths::real_path(folder)).join(name);
                workdir.relative(&real).unwrap_or_else(|| path.to_string_lossy().into_owned())
            }
            _ => workdir.display(&path.to_string_lossy()),
        };
        let sum: &mut u64 = rows.entry(row).or_default();
        *sum = sum.saturating_add(count);
    }
    Ok(rows)
}

/// `Path.is_file`: false for what isn't there, an exception for what can't be looked at.
fn is_file(path: &Path) -> Result<bool, Exception> {
    match fs::metadata(path) {
        Ok(about) => Ok(about.is_file()),
        Err(why) if matches!(why.raw_os_error(), None | Some(libc::ENOENT | libc::ENOTDIR | libc::EBADF | libc::ELOOP)) => Ok(false),
        Err(why) => Err(Exception::os(&why, Some(&path.to_string_lossy()))),
    }
}

struct Walk {
    deadline: Instant,
    names: HashMap<PathBuf, Rc<Vec<Name>>>,
    room: usize,
}

struct Name {
    name: OsString,
    is_folder: bool,
}

impl Walk {
    /// The paths that match an absolute pattern.
    fn expand(&mut self, pattern: &str) -> Result<Found, Exception> {
        let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
        let literal = parts.iter().take_while(|part| !has_magic(part)).count();
        let root = if pattern.starts_with("//") { "//" } else { "/" };
        let start = PathBuf::from(format!("{root}{}", parts[..literal].join("/")));
        let mut found = Found::from([(start.clone(), 1)]);
        if literal == parts.len() {
            found.retain(|path, _| exists(path));
        } else if start.as_os_str().as_bytes().contains(&0) {
            return Err(Exception::value("embedded null byte"));
        }
        for (index, part) in parts.iter().enumerate().skip(literal) {
            let folders_only = index + 1 < parts.len();
            found = match *part {
                "**" => self.below(found, folders_only)?,
                part if has_magic(part) => self.matching(found, part, folders_only)?,
                part => found.into_iter().map(|(folder, count)| (folder.join(part), count)).filter(|(path, _)| exists(path)).collect(),
            };
        }
        Ok(found)
    }

    /// The names in each folder that match one part of a pattern.
    fn matching(&mut self, folders: Found, part: &str, folders_only: bool) -> Result<Found, Exception> {
        let pattern = Pattern::new(part);
        let wants_hidden = part.starts_with('.');
        let mut found = Found::new();
        for (folder, count) in folders {
            for name in self.names(&folder)?.iter() {
                let fits = (!folders_only || name.is_folder)
                    && (wants_hidden || !is_hidden(&name.name))
                    && pattern.matches(&name.name.to_string_lossy());
                if fits {
                    add(&mut found, folder.join(&name.name), count);
                }
            }
        }
        Ok(found)
    }

    /// Each folder itself and everything below it that isn't hidden. Links to folders are followed, as far as the system follows them.
    fn below(&mut self, folders: Found, folders_only: bool) -> Result<Found, Exception> {
        let mut found = Found::new();
        // Each entry carries in how many ways its folder was reached from above it; the folder's own ways come on top.
        let mut own = folders.clone();
        let mut next: Vec<(PathBuf, u64)> = Vec::new();
        for (folder, _) in folders {
            next.push((folder, 0));
            while let Some((folder, from_above)) = next.pop() {
                let Some(count) =
                    own.remove(&folder).map(|count| count.saturating_add(from_above)).or((from_above > 0).then_some(from_above))
                else {
                    continue;
                };
                add(&mut found, folder.clone(), count);
                for name in self.names(&folder)?.iter().filter(|name| !is_hidden(&name.name)) {
                    let path = folder.join(&name.name);
                    if name.is_folder {
                        next.push((path, count));
                    } else if !folders_only {
                        add(&mut found, path, count);
                    }
                }
            }
        }
        Ok(found)
    }

    /// What is in a folder; nothing when it is none or can't be read.
    fn names(&mut self, folder: &Path) -> Result<Rc<Vec<Name>>, Exception> {
        if let Some(names) = self.names.get(folder) {
            return Ok(Rc::clone(names));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if Instant::now() > self.deadline {
                return Err(Exception::named(
                    "TimeoutError",
                    format!("the search took longer than {} s; use a narrower pattern", PATIENCE.as_secs()),
                ));
            }
            let size = folder.as_os_str().len() + entry.file_name().len() + NAME_BYTES;
            self.room =
                self.room.checked_sub(size).ok_or_else(|| Exception::value("the search finds too many names; use a narrower pattern"))?;
            let is_folder = match entry.file_type() {
                Ok(kind) if kind.is_symlink() => fs::metadata(entry.path()).is_ok_and(|about| about.is_dir()),
                Ok(kind) => kind.is_dir(),
                Err(_) => false,
            };
            names.push(Name { name: entry.file_name(), is_folder });
        }
        let names = Rc::new(names);
        self.names.insert(folder.to_owned(), Rc::clone(&names));
        Ok(names)
    }
}

fn add(found: &mut Found, path: PathBuf, count: u64) {
    let sum = found.entry(path).or_default();
    *sum = sum.saturating_add(count);
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.')
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
