//! The kept contents: a folder of files that are named as git names their contents.
//!
//! What must hold: a file under its name is whole as far as this process knows; what was stored is on the disk when it was synced.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha1::{Digest as _, Sha1};

use super::Differences;

/// The folder.
#[derive(Default)]
pub(super) struct Blobs {
    folder: PathBuf,
    known: HashSet<String>,
    bytes: u64,
    unsynced: Vec<String>,
}

/// What was stored and may not be on the disk yet.
pub(super) struct Unsynced {
    folder: PathBuf,
    /// Their names.
    pub(super) names: Vec<String>,
}

impl Blobs {
    /// Opens the folder with what a run names, which was found whole; without a run it is emptied.
    pub(super) fn open(folder: PathBuf, kept: Option<&Differences>) -> std::io::Result<Self> {
        if kept.is_none() && folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        let mut bytes = 0;
        for entry in std::fs::read_dir(&folder)? {
            bytes += entry?.metadata()?.len();
        }
        let known = kept.into_iter().flat_map(Differences::values).flatten().map(|(_, blob)| blob.clone()).collect();
        Ok(Self { folder, known, bytes, unsynced: Vec::new() })
    }

    pub(super) fn knows(&self, blob: &str) -> bool {
        self.known.contains(blob)
    }

    /// The size of all contents, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Stores a content; its name.
    pub(super) fn store(&mut self, content: &[u8]) -> std::io::Result<String> {
        let blob = name_of(content);
        if !self.known.contains(&blob) {
            let half_written = self.folder.join(format!("{blob}.new"));
            std::fs::write(&half_written, content)?;
            std::fs::rename(&half_written, self.folder.join(&blob))?;
            self.bytes += content.len() as u64;
            self.unsynced.push(blob.clone());
            self.known.insert(blob.clone());
        }
        Ok(blob)
    }

    /// What is to be synced before it is named.
    pub(super) fn unsynced(&mut self) -> Unsynced {
        Unsynced { folder: self.folder.clone(), names: std::mem::take(&mut self.unsynced) }
    }
}

impl Unsynced {
    /// Waits until it is on the disk: file by file, or, when there are many, the whole file system at once.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        const MANY: usize = 64;
        if self.names.is_empty() {
            return Ok(());
        }
        let folder = File::open(&self.folder)?;
        if self.names.len() > MANY {
            return nix::unistd::syncfs(&folder).map_err(std::io::Error::from);
        }
        for name in &self.names {
            File::open(self.folder.join(name))?.sync_data()?;
        }
        folder.sync_all()
    }
}

/// Whether a file has the content that its name says.
pub(super) fn is_whole(folder: &Path, blob: &str) -> bool {
    let hashed = || {
        let mut file = File::open(folder.join(blob))?;
        let mut sha1 = prefix(file.metadata()?.len());
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok::<_, std::io::Error>(hex::encode(sha1.finalize())),
                read => sha1.update(&buffer[..read]),
            }
        }
    };
    hashed().is_ok_and(|name| name == blob)
}

pub(super) fn name_of(content: &[u8]) -> String {
    let mut sha1 = prefix(content.len() as u64);
    sha1.update(content);
    hex::encode(sha1.finalize())
}

fn prefix(bytes: u64) -> Sha1 {
    Sha1::new_with_prefix(format!("blob {bytes}\0"))
}
