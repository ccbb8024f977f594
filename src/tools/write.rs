//! Write: a whole file, its parent folders made as needed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;

use super::paths::{Args, Workdir};
use super::python::{self, Exception};
use super::read::refuse_special;

/// Writes `content` and says how many characters it has (the reference calls them bytes).
///
/// # Errors
/// What the reference raises; `OSError` for what is neither a regular file nor a folder.
pub(super) fn write(workdir: &Workdir, args: &Args) -> Result<String, Exception> {
    let path = workdir.path_of(args)?;
    let content = args.get("content").map(python::str).unwrap_or_default();
    make_folder(Path::new(&path).parent().unwrap_or(Path::new("/")))?;
    let opened = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(libc::O_NONBLOCK).open(&path);
    let mut file = opened.map_err(|why| Exception::os(&why, Some(&path)))?;
    refuse_special(&file, &path)?;
    if file.metadata().is_ok_and(|about| about.is_file()) {
        file.set_len(0).map_err(|why| Exception::os(&why, Some(&path)))?;
    }
    file.write_all(content.as_bytes()).map_err(|why| Exception::os(&why, None))?;
    Ok(format!("Wrote {} ({} bytes).", workdir.display(&path), content.chars().count()))
}

/// `Path.mkdir(parents=True, exist_ok=True)`: the error names the folder that could not be made.
fn make_folder(folder: &Path) -> Result<(), Exception> {
    let failed = |folder: &Path, why: &io::Error| Err(Exception::os(why, Some(&folder.to_string_lossy())));
    let mut to_make = vec![folder];
    while let Some(folder) = to_make.last() {
        match fs::create_dir(folder) {
            Ok(()) => {
                to_make.pop();
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => match folder.parent() {
                Some(parent) if to_make.len() < 10_000 => to_make.push(parent),
                _ => return failed(folder, &why),
            },
            Err(why) if why.kind() == io::ErrorKind::InvalidInput => return failed(folder, &why),
            Err(why) if !folder.is_dir() => return failed(folder, &why),
            Err(_) => {
                to_make.pop();
            }
        }
    }
    Ok(())
}
