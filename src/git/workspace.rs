//! A commit's files as tar archives for a sandbox.

use std::io::Read;
use std::path::Path;

use crate::domain::BlobMode;

use super::GitError;
use super::mirror::Mirror;
use super::tree::{BlobReader, Tree};

/// An archive is sent on when it has grown to this many bytes, so that a large repository needs little memory.
pub const TAR_BYTES: usize = 8 * 1024 * 1024;

/// The files of a tree, read blob by blob into one archive after the other.
pub struct Archives<'a> {
    tree: std::collections::btree_map::Iter<'a, Vec<u8>, super::TreeEntry>,
    reader: BlobReader,
}

impl Mirror {
    /// The archives of a tree.
    ///
    /// # Errors
    /// When git can't be started.
    pub fn archives<'a>(&self, tree: &'a Tree) -> Result<Archives<'a>, GitError> {
        Ok(Archives { tree: tree.entries.iter(), reader: BlobReader::open(&self.git, &self.folder)? })
    }
}

impl Archives<'_> {
    /// The next archive of about [`TAR_BYTES`]; none after the last.
    ///
    /// # Errors
    /// When a blob can't be read.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, GitError> {
        let mut archive = Packing::with_room(0);
        let mut any = false;
        for (path, entry) in self.tree.by_ref() {
            any = true;
            let content = if entry.mode == BlobMode::Submodule { Vec::new() } else { self.reader.read(&entry.blob).await? };
            archive.add(path, entry.mode, content.len() as u64, content.as_slice())?;
            if archive.bytes() >= TAR_BYTES {
                break;
            }
        }
        if any { archive.finish().map(Some) } else { Ok(None) }
    }
}

/// An archive for a sandbox out of files that are at hand.
pub struct Packing(tar::Builder<Vec<u8>>);

impl Packing {
    /// With room for files of these sizes together, so that it is not copied while it grows.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self(tar::Builder::new(Vec::with_capacity(bytes)))
    }

    /// Adds a file, a link (whose content is its target) or an empty folder.
    ///
    /// # Errors
    /// When the path can't stand in an archive or the content can't be read.
    pub fn add(&mut self, path: &[u8], mode: BlobMode, bytes: u64, mut content: impl Read) -> Result<(), GitError> {
        let archive = &mut self.0;
        match mode {
            BlobMode::Submodule => append(archive, path, tar::EntryType::Directory, 0o755, 0, std::io::empty()),
            BlobMode::Symlink => {
                let mut target = Vec::new();
                content.read_to_end(&mut target).map_err(|error| untarred(path, &error))?;
                append_link(archive, path, &target)
            }
            BlobMode::Executable => append(archive, path, tar::EntryType::Regular, 0o755, bytes, content),
            BlobMode::File => append(archive, path, tar::EntryType::Regular, 0o644, bytes, content),
        }
    }

    /// How much is in it, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.get_ref().len()
    }

    /// The archive.
    ///
    /// # Errors
    /// Never in memory.
    pub fn finish(self) -> Result<Vec<u8>, GitError> {
        self.0.into_inner().map_err(|error| GitError::Failed(error.to_string()))
    }
}

fn append(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &[u8],
    kind: tar::EntryType,
    mode: u32,
    bytes: u64,
    content: impl Read,
) -> Result<(), GitError> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(bytes);
    archive.append_data(&mut header, as_path(path), content).map_err(|error| untarred(path, &error))
}

fn append_link(archive: &mut tar::Builder<Vec<u8>>, path: &[u8], target: &[u8]) -> Result<(), GitError> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_mode(0o777);
    header.set_size(0);
    // A short target is set as it is: the library would else tidy it (`a//b`, `a/./b`), and the link would differ from its blob.
    let appended = match header.set_link_name_literal(target) {
        Ok(()) => archive.append_data(&mut header, as_path(path), std::io::empty()),
        Err(_) => archive.append_link(&mut header, as_path(path), as_path(target)),
    };
    appended.map_err(|error| untarred(path, &error))
}

fn untarred(path: &[u8], error: &std::io::Error) -> GitError {
    GitError::Failed(format!("{:?} can't be sent to the sandbox: {error}", String::from_utf8_lossy(path)))
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_its_target_byte_for_byte() {
        let long = "d/".repeat(80) + "/x";
        for target in ["a", "./a", "a//b", "a/./b", "../a/", "/", "//x", long.as_str()] {
            let mut packing = Packing::with_room(0);
            packing.add(b"link", BlobMode::Symlink, target.len() as u64, target.as_bytes()).unwrap();
            let archive = packing.finish().unwrap();
            let mut archive = tar::Archive::new(archive.as_slice());
            let entry = archive.entries().unwrap().next().unwrap().unwrap();
            assert_eq!(entry.link_name_bytes().unwrap(), target.as_bytes(), "{target}");
        }
    }
}
