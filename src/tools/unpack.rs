//! Unpacks a tar archive in a folder.
//!
//! What must hold: nothing is written outside of the folder, neither by `..` nor through a link that the archive or the folder holds.

use std::io::{self, Read};
use std::path::{Component, Path};

use tar::{Archive, EntryType};

/// Unpacks files (with their executable bit), folders and links, making the folders above them, and says how many entries there were.
///
/// # Errors
/// When the archive is damaged, an entry would leave the folder or is of a kind that git doesn't keep, or the disk is full.
pub(super) fn unpack(folder: &Path, tar: impl Read) -> io::Result<u64> {
    std::fs::create_dir_all(folder)?;
    let mut archive = Archive::new(tar);
    archive.set_preserve_mtime(false);
    let mut entries = 0;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        match entry.header().entry_type() {
            EntryType::XGlobalHeader => continue,
            EntryType::Regular | EntryType::Continuous | EntryType::Directory | EntryType::Symlink | EntryType::Link => {}
            kind => return Err(invalid(format!("{path:?} is of a kind that is not taken: {kind:?}"))),
        }
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(invalid(format!("{path:?} leaves the folder")));
        }
        if !entry.unpack_in(folder)? && path.components().any(|part| matches!(part, Component::Normal(_))) {
            return Err(invalid(format!("{path:?} could not be placed in the folder")));
        }
        entries += 1;
    }
    Ok(entries)
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
