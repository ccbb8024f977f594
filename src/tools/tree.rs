//! Shows a folder as git would see it, and brings files of it out.
//!
//! What must hold: links are never followed, nothing that git can't keep is opened, and what is said about a file is true of one reading of it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::libc;
use sha1::{Digest, Sha1};

/// The names of contents that were worked out before, by what the file system says of each file: a tree that hardly changes is listed again and
/// again, once a step. A file that changed a moment before it was read is not remembered, since it could change again unseen.
#[derive(Default)]
pub(super) struct Known(HashMap<Identity, String>);

/// Device, inode, size, and the times of the last change of content and of anything, in seconds and nanoseconds.
type Identity = (u64, u64, u64, (i64, i64), (i64, i64));

impl Known {
    fn identity(about: &Metadata) -> Identity {
        (about.dev(), about.ino(), about.len(), (about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec()))
    }

    fn hash(&mut self, file: File, about: &Metadata) -> io::Result<String> {
        const FRESH_SECONDS: i64 = 2;
        let identity = Self::identity(about);
        if let Some(name) = self.0.get(&identity) {
            return Ok(name.clone());
        }
        let name = hash(file, about.len())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if about.ctime().saturating_add(FRESH_SECONDS) < i64::try_from(now).unwrap_or(i64::MAX) {
            self.0.insert(identity, name.clone());
        }
        Ok(name)
    }
}

/// The records `MODE SP SHA1 SP SIZE SP PATH NUL` of everything below `folder` but folders and whatever is named `.git`, sorted by path. `whole`
/// leaves nothing out: `.git` is in it, and empty folders have the mode `folder`.
///
/// # Errors
/// When the folder itself can't be read.
pub(super) fn list(folder: &Path, known: &mut Known, whole: bool) -> io::Result<Vec<u8>> {
    let mut records: Vec<(Vec<u8>, String)> = Vec::new();
    let mut folders = vec![PathBuf::new()];
    fs::read_dir(folder)?;
    while let Some(inside) = folders.pop() {
        let entries = match fs::read_dir(folder.join(&inside)) {
            Ok(entries) => entries,
            Err(_) => {
                records.push((inside.into_os_string().into_vec(), other(0)));
                continue;
            }
        };
        let mut is_empty = true;
        for entry in entries.flatten().filter(|entry| whole || entry.file_name() != ".git") {
            is_empty = false;
            let path = inside.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else {
                let record = record(&entry.path(), known);
                records.push((path.into_os_string().into_vec(), record));
            }
        }
        if whole && is_empty && !inside.as_os_str().is_empty() {
            records.push((inside.into_os_string().into_vec(), "folder - 0 ".to_owned()));
        }
    }
    records.sort_unstable();
    Ok(records.into_iter().flat_map(|(path, record)| [record.as_bytes(), &path, b"\0"].concat()).collect())
}

fn record(path: &Path, known: &mut Known) -> String {
    let Ok(about) = fs::symlink_metadata(path) else { return other(0) };
    let named = if about.is_symlink() {
        fs::read_link(path).map(|target| (120_000, blob(target.as_os_str().as_bytes()), target.as_os_str().len() as u64))
    } else {
        open_regular(path).and_then(|(file, about)| Ok((mode(&about), known.hash(file, &about)?, about.len())))
    };
    named.map_or_else(|_| other(about.len()), |(mode, sha1, size)| format!("{mode} {sha1} {size} "))
}

fn other(size: u64) -> String {
    format!("other - {size} ")
}

fn mode(about: &Metadata) -> u32 {
    if about.mode() & 0o100 == 0 { 100_644 } else { 100_755 }
}

fn blob(content: &[u8]) -> String {
    let mut sha1 = Sha1::new_with_prefix(format!("blob {}\0", content.len()));
    sha1.update(content);
    hexadecimal(&sha1.finalize())
}

fn hash(file: File, size: u64) -> io::Result<String> {
    let mut sha1 = Sha1::new_with_prefix(format!("blob {size}\0"));
    let mut file = file.take(size);
    let mut buffer = [0; 32 * 1024];
    let mut read = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) if read == size => return Ok(hexadecimal(&sha1.finalize())),
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file changed while it was read")),
            Ok(got) => {
                read += got as u64;
                sha1.update(&buffer[..got]);
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Opens a regular file, without following a link and without waiting for the other end of a pipe.
fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let about = file.metadata()?;
    if about.is_file() { Ok((file, about)) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")) }
}

/// Why files could not be brought out.
#[derive(Debug)]
pub(super) enum NotTaken {
    /// Their sizes add up to more than the limit.
    TooLarge(String),
    /// Anything else.
    Failed(String),
}

/// A tar archive of the named files and links of `folder`. What is missing, special, or behind a link is left out.
///
/// # Errors
/// When a path is not a plain relative one, when the sizes exceed `limit` bytes, or when a file can't be read.
pub(super) fn take(folder: &Path, paths: &[u8], limit: u64) -> Result<Vec<u8>, NotTaken> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut sum = 0;
    for raw in paths.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = Path::new(OsStr::from_bytes(raw));
        if !is_plain(path) {
            return Err(NotTaken::Failed(format!("the path {path:?} is not a plain relative one")));
        }
        if is_behind_a_link(folder, path) {
            continue;
        }
        add(&mut archive, folder, path, &mut sum, limit)?;
    }
    archive.into_inner().map_err(|why| NotTaken::Failed(format!("the archive could not be ended: {why}")))
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn is_behind_a_link(folder: &Path, path: &Path) -> bool {
    path.ancestors()
        .skip(1)
        .any(|above| fs::symlink_metadata(folder.join(above)).is_ok_and(|about| about.is_symlink()) && above != Path::new(""))
}

fn add(archive: &mut tar::Builder<Vec<u8>>, folder: &Path, path: &Path, sum: &mut u64, limit: u64) -> Result<(), NotTaken> {
    let full = folder.join(path);
    let failed = |why: io::Error| NotTaken::Failed(format!("{path:?} could not be brought out: {why}"));
    let mut grow = |size: u64| {
        *sum = sum.saturating_add(size);
        if *sum > limit {
            Err(NotTaken::TooLarge(format!("with {path:?} the files have {sum} bytes, the limit is {limit}")))
        } else {
            Ok(())
        }
    };
    let Ok(about) = fs::symlink_metadata(&full) else { return Ok(()) };
    let mut header = tar::Header::new_gnu();
    header.set_mtime(0);
    if about.is_symlink() {
        let target = fs::read_link(&full).map_err(failed)?;
        grow(target.as_os_str().len() as u64)?;
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        // A short target is set as it is: the library would else tidy it (`a//b`, `a/./b`), and the link would differ from its blob.
        return match header.set_link_name_literal(target.as_os_str().as_bytes()) {
            Ok(()) => archive.append_data(&mut header, path, io::empty()).map_err(failed),
            Err(_) => archive.append_link(&mut header, path, target).map_err(failed),
        };
    }
    if !about.is_file() {
        return Ok(());
    }
    let (file, about) = match open_regular(&full) {
        // Removed since it was looked at, by a process that runs on.
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    grow(about.len())?;
    let mut content = Vec::new();
    file.take(about.len()).read_to_end(&mut content).map_err(failed)?;
    header.set_size(content.len() as u64);
    header.set_mode(if about.mode() & 0o100 == 0 { 0o644 } else { 0o755 });
    archive.append_data(&mut header, path, content.as_slice()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::{Known, list, take};

    #[test]
    fn a_list_is_the_same_with_and_without_memory_and_sees_each_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let mut known = Known::default();
        let mut listed = |text: &str| {
            fs::write(&path, text).unwrap();
            let with = list(folder.path(), &mut known, true).unwrap();
            assert_eq!(with, list(folder.path(), &mut Known::default(), true).unwrap());
            with
        };
        let (one, two) = (listed("one\n"), listed("two\n"));
        assert_ne!(one, two, "the same size in the same moment");
        assert_eq!(listed("one\n"), one);
    }

    #[test]
    fn a_link_is_brought_out_with_its_target_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let long = "d/".repeat(80) + "/x";
        for target in ["a", "./a", "a//b", "a/./b", "../a/", long.as_str()] {
            let _ = fs::remove_file(folder.path().join("link"));
            std::os::unix::fs::symlink(target, folder.path().join("link")).unwrap();
            let archive = take(folder.path(), b"link\0", 1000).unwrap();
            let mut archive = tar::Archive::new(archive.as_slice());
            let entry = archive.entries().unwrap().next().unwrap().unwrap();
            assert_eq!(entry.link_name_bytes().unwrap(), target.as_bytes(), "{target}");
        }
    }

    #[test]
    fn only_what_has_been_still_for_a_while_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "old").unwrap();
        let mut known = Known::default();
        list(folder.path(), &mut known, true).unwrap();
        assert_eq!(known.0.len(), 0, "changed a moment ago");
        let about = fs::metadata(&path).unwrap();
        known.0.insert(Known::identity(&about), "0123".to_owned());
        assert!(String::from_utf8(list(folder.path(), &mut known, true).unwrap()).unwrap().contains("0123"));
        File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
        assert!(!String::from_utf8(list(folder.path(), &mut known, true).unwrap()).unwrap().contains("0123"));
    }
}
