//! Paths as Python's `pathlib` has them: joined to the workdir, tidied without looking at the disk, shown relative to the workdir when inside it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::python::{self, Exception};

/// The arguments of a call.
pub(super) type Args = Map<String, Value>;

/// The folder that relative paths start from.
#[derive(Debug, Clone)]
pub(super) struct Workdir {
    path: PathBuf,
    text: String,
}

impl Workdir {
    /// A workdir as the kernel names it: absolute and without links.
    pub(super) fn new(path: PathBuf) -> Self {
        let text = path.to_string_lossy().into_owned();
        Self { path, text }
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a call: `file_path`, or `path` when that is missing or empty.
    ///
    /// # Errors
    /// `ValueError` when there is neither, `RuntimeError` when `~` can't be expanded.
    pub(super) fn path_of(&self, args: &Args) -> Result<String, Exception> {
        let named = ["file_path", "path"].iter().filter_map(|name| args.get(*name)).find(|value| python::is_true(value));
        let named = named.ok_or_else(|| Exception::value("file_path is required"))?;
        self.resolve(&python::str(named))
    }

    /// The absolute path that `path` means; `..` and links stay as they are.
    ///
    /// # Errors
    /// `RuntimeError` when `~` can't be expanded.
    pub(super) fn resolve(&self, path: &str) -> Result<String, Exception> {
        Ok(join(&self.text, &expand_home(&tidy(path))?))
    }

    /// The path as it is shown: relative to the workdir after resolving links when it is inside, else as it is.
    pub(super) fn display(&self, path: &str) -> String {
        self.relative(&real_path(Path::new(path))).unwrap_or_else(|| path.to_owned())
    }

    /// A path without links relative to the workdir, `.` for the workdir itself; none when it is outside.
    pub(super) fn relative(&self, real: &Path) -> Option<String> {
        let relative = real.strip_prefix(&self.path).ok()?;
        Some(if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.to_string_lossy().into_owned() })
    }
}

/// `Path(base) / path`.
pub(super) fn join(base: &str, path: &str) -> String {
    let path = tidy(path);
    if path.starts_with('/') {
        path
    } else if path == "." {
        base.to_owned()
    } else if base.ends_with('/') {
        format!("{base}{path}")
    } else {
        format!("{base}/{path}")
    }
}

/// `str(Path(path))`: no empty or `.` parts, no slash at the end; exactly two leading slashes stay two.
fn tidy(path: &str) -> String {
    let root = match path.bytes().take_while(|byte| *byte == b'/').count() {
        0 => "",
        2 => "//",
        _ => "/",
    };
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let tidy = format!("{root}{}", parts.join("/"));
    if tidy.is_empty() { ".".to_owned() } else { tidy }
}

/// `Path.expanduser`.
fn expand_home(path: &str) -> Result<String, Exception> {
    let Some(rest) = path.strip_prefix('~') else { return Ok(path.to_owned()) };
    let (user, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let own = || std::env::var("HOME").ok().or_else(|| home_of(|fields| fields[2] == nix::unistd::getuid().to_string()));
    let home = if user.is_empty() { own() } else { home_of(|fields| fields[0] == user) };
    match home {
        Some(home) if home.starts_with('~') => Err(no_home()),
        Some(home) => Ok(join(&tidy(&home), rest)),
        None => Err(no_home()),
    }
}

fn no_home() -> Exception {
    Exception::named("RuntimeError", "Could not determine home directory.")
}

fn home_of(is_wanted: impl Fn(&[&str]) -> bool) -> Option<String> {
    let users = std::fs::read("/etc/passwd").ok()?;
    let users = String::from_utf8_lossy(&users);
    users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.len() >= 7 && is_wanted(fields))
        .map(|fields| fields[5].to_owned())
}

/// `os.path.realpath`: links resolved as far as the path exists, the rest taken as it is.
pub(super) fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let mut real = PathBuf::from("/");
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                real.pop();
            }
            std::path::Component::Normal(name) => {
                real.push(name);
                real = real.canonicalize().unwrap_or(real);
            }
            _ => {}
        }
    }
    real
}
