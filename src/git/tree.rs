//! A commit's tree, read from the object store: names and contents as bytes, no filter, no line-end change, LFS pointers as they are.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::domain::{BlobMode, ObjectId};

use super::mirror::Mirror;
use super::{Git, GitError};

/// One path of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its kind.
    pub mode: BlobMode,
    /// The blob (for a submodule the commit).
    pub blob: String,
    /// The size in bytes; 0 for a submodule.
    pub size: u64,
}

/// The files of a commit by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Every path from the top of the repository, `/` between parts, in whatever bytes it has.
    pub entries: BTreeMap<Vec<u8>, TreeEntry>,
}

impl Tree {
    /// The sum of the sizes in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.values().map(|entry| entry.size).sum()
    }

    pub(super) async fn read(git: &Git, folder: &Path, revision: &str) -> Result<Self, GitError> {
        let listed = git.run(folder, &["ls-tree", "-r", "-z", "-l", "--full-tree", revision]).await?;
        let mut tree = Self::default();
        for record in listed.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
            let (path, entry) =
                entry(record).ok_or_else(|| GitError::Failed(format!("git ls-tree answered {:?}", String::from_utf8_lossy(record))))?;
            tree.entries.insert(path, entry);
        }
        Ok(tree)
    }
}

impl Mirror {
    /// Reads the tree of a commit.
    ///
    /// # Errors
    /// When the commit is not in the mirror.
    pub async fn tree(&self, commit: &ObjectId) -> Result<Tree, GitError> {
        Tree::read(&self.git, &self.folder, commit.as_str()).await
    }

    /// Reads blobs in the order asked.
    ///
    /// # Errors
    /// When one is missing.
    pub async fn blobs(&self, blobs: &[&str]) -> Result<Vec<Vec<u8>>, GitError> {
        let mut reader = BlobReader::open(&self.git, &self.folder)?;
        let mut contents = Vec::with_capacity(blobs.len());
        for blob in blobs {
            contents.push(reader.read(blob).await?);
        }
        Ok(contents)
    }
}

fn entry(record: &[u8]) -> Option<(Vec<u8>, TreeEntry)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let head = std::str::from_utf8(record.get(..tab)?).ok()?;
    let mut parts = head.split_whitespace();
    let mode = BlobMode::parse(parts.next()?)?;
    let (_kind, blob, size) = (parts.next()?, parts.next()?, parts.next()?);
    Some((record.get(tab + 1..)?.to_vec(), TreeEntry { mode, blob: blob.to_owned(), size: size.parse().unwrap_or(0) }))
}

/// One `git cat-file --batch`: contents one after the other through one process.
pub(super) struct BlobReader {
    _child: tokio::process::Child,
    stdin: tokio::process::ChildStdin,
    stdout: BufReader<tokio::process::ChildStdout>,
}

impl BlobReader {
    pub(super) fn open(git: &Git, folder: &Path) -> Result<Self, GitError> {
        let mut command = git.command(folder, None);
        command.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| GitError::Failed(format!("git could not be started: {error}")))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => Ok(Self { _child: child, stdin, stdout: BufReader::with_capacity(256 * 1024, stdout) }),
            _ => Err(GitError::Failed("git cat-file has no pipes".to_owned())),
        }
    }

    pub(super) async fn read(&mut self, blob: &str) -> Result<Vec<u8>, GitError> {
        let failed = |error: std::io::Error| GitError::Failed(format!("git cat-file: {error}"));
        self.stdin.write_all(format!("{blob}\n").as_bytes()).await.map_err(failed)?;
        let mut head = String::new();
        self.stdout.read_line(&mut head).await.map_err(failed)?;
        let size = head.split_whitespace().nth(2).and_then(|size| size.parse::<usize>().ok());
        let size = size.ok_or_else(|| GitError::Failed(format!("object {blob} can't be read: {}", head.trim())))?;
        let mut content = vec![0; size + 1];
        self.stdout.read_exact(&mut content).await.map_err(failed)?;
        content.truncate(size);
        Ok(content)
    }
}
