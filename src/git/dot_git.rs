//! The `.git` of a sandbox: it knows one commit and no remote, history or credential.
//!
//! What must hold: it is sent in pieces, so that a large repository needs little memory of ours; nothing of the forge is in it.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::domain::{BlobMode, ObjectId};

use super::mirror::Mirror;
use super::workspace::{Packing, TAR_BYTES};
use super::{Git, GitError};

/// The size that git keeps a pack under, unless one object alone is larger.
const PACK_SIZE: &str = "--max-pack-size=4m";

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfilemode = true\n[user]\n\tname = agent\n\temail = agent@localhost\n[gc]\n\tauto = 0\n";

/// The folder `.git`, archive by archive; its copy on our disk is removed with this.
pub struct DotGit {
    scratch: PathBuf,
    left: VecDeque<PathBuf>,
}

impl Mirror {
    /// A `.git` folder whose only commit is `commit`, on a branch of the given name. It is made in `scratch`, which is ours alone.
    ///
    /// # Errors
    /// When git fails or the disk is full.
    pub async fn dot_git(&self, commit: &ObjectId, branch: &str, scratch: &Path) -> Result<DotGit, GitError> {
        let source = std::path::absolute(&self.folder).map_err(|error| failed(&self.folder, &error))?;
        let scratch = &std::path::absolute(scratch).map_err(|error| failed(scratch, &error))?;
        let mut made = DotGit { scratch: scratch.clone(), left: VecDeque::new() };
        remove(scratch);
        write_files(scratch, commit, branch).map_err(|error| failed(scratch, &error))?;
        copy_objects(&self.git, &source, commit, scratch).await?;
        self.git.run(scratch, &["read-tree", commit.as_str()]).await?;
        made.left = below(scratch, Path::new(".git")).map_err(|error| failed(scratch, &error))?;
        Ok(made)
    }
}

impl DotGit {
    /// The next archive of about [`TAR_BYTES`]; none after the last.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn piece(&mut self) -> Result<Option<Vec<u8>>, GitError> {
        let mut archive = Packing::with_room(0);
        let mut any = false;
        while let Some(path) = self.left.pop_front() {
            any = true;
            self.add(&path, &mut archive)?;
            if archive.bytes() >= TAR_BYTES {
                break;
            }
        }
        if any { archive.finish().map(Some) } else { Ok(None) }
    }

    fn add(&self, path: &Path, archive: &mut Packing) -> Result<(), GitError> {
        let (name, on_disk) = (path.as_os_str().as_bytes(), self.scratch.join(path));
        if on_disk.is_dir() {
            return archive.add(name, BlobMode::Submodule, 0, std::io::empty());
        }
        let file = fs::File::open(&on_disk).map_err(|error| failed(&on_disk, &error))?;
        let bytes = file.metadata().map_err(|error| failed(&on_disk, &error))?.len();
        archive.add(name, BlobMode::File, bytes, file)
    }
}

impl Drop for DotGit {
    fn drop(&mut self) {
        remove(&self.scratch);
    }
}

fn write_files(scratch: &Path, commit: &ObjectId, branch: &str) -> std::io::Result<()> {
    let folder = scratch.join(".git");
    fs::create_dir_all(folder.join("objects/pack"))?;
    fs::create_dir_all(folder.join("refs/heads"))?;
    fs::write(folder.join("HEAD"), format!("ref: refs/heads/{branch}\n"))?;
    fs::write(folder.join("packed-refs"), format!("{} refs/heads/{branch}\n", commit.as_str()))?;
    fs::write(folder.join("shallow"), format!("{}\n", commit.as_str()))?;
    fs::write(folder.join("config"), CONFIG)
}

/// The commit, its trees and its files, and nothing of what was before it.
async fn copy_objects(git: &Git, source: &Path, commit: &ObjectId, scratch: &Path) -> Result<(), GitError> {
    let names = git.run(source, &["rev-list", "--objects", "--no-object-names", "--no-walk", commit.as_str()]).await?;
    let packs = scratch.join(".git/objects/pack/pack");
    let packs = packs.to_str().ok_or_else(|| GitError::Failed(format!("{}: the path is no UTF-8", scratch.display())))?;
    git.feed(source, &["pack-objects", "--quiet", PACK_SIZE, packs], names).await?;
    Ok(())
}

/// All that is below a folder, the folder itself first.
fn below(root: &Path, folder: &Path) -> std::io::Result<VecDeque<PathBuf>> {
    let mut found = VecDeque::from([folder.to_owned()]);
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.append(&mut below(root, &path)?);
        } else {
            found.push_back(path);
        }
    }
    Ok(found)
}

fn remove(scratch: &Path) {
    if let Err(error) = fs::remove_dir_all(scratch)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %scratch.display(), %error, "a copy of .git is left behind");
    }
}

fn failed(path: &Path, error: &std::io::Error) -> GitError {
    GitError::Failed(format!("the sandbox's .git: {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use crate::git::{Git, Mirrors, Remote};

    fn git(folder: &Path, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.arg("-C").arg(folder).args(["-c", "user.name=a", "-c", "user.email=a@localhost"]).args(args);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    /// Bytes that no packing makes smaller.
    fn noise(seed: u64, bytes: usize) -> Vec<u8> {
        let mut state = seed * 2 + 1;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(bytes).collect()
    }

    #[tokio::test]
    async fn it_is_whole_comes_in_pieces_and_knows_one_commit_and_nothing_else() {
        let state = tempfile::tempdir().unwrap();
        let (origin, inside, scratch) = (state.path().join("origin"), state.path().join("inside"), state.path().join("scratch"));
        std::fs::create_dir_all(origin.join("deep/er")).unwrap();
        std::fs::create_dir_all(&inside).unwrap();
        git(&origin, &["init", "--quiet"]);
        std::fs::write(origin.join("secret-of-before"), "gone").unwrap();
        git(&origin, &["add", "."]);
        git(&origin, &["commit", "--quiet", "-m", "one"]);
        std::fs::remove_file(origin.join("secret-of-before")).unwrap();
        for at in 0..24 {
            std::fs::write(origin.join(format!("deep/er/{at}")), noise(at, 1 << 20)).unwrap();
        }
        git(&origin, &["add", "--all"]);
        git(&origin, &["commit", "--quiet", "-m", "two"]);

        let mirrors = Mirrors::new(Git::new(state.path()).await.unwrap(), state.path().join("mirrors"), 1 << 30, Duration::from_secs(60));
        let remote = Remote { url: origin.display().to_string(), credential: None, ca_file: None };
        let (mirror, commit) = mirrors.fetch("origin", &remote, "HEAD", "main").await.unwrap();
        let branch = "frognano/issue-1-x";
        let mut dot_git = mirror.dot_git(&commit, branch, &scratch).await.unwrap();
        while let Some(archive) = dot_git.piece().unwrap() {
            assert!(archive.len() < 16 << 20, "a piece of {} bytes", archive.len());
            tar::Archive::new(archive.as_slice()).unpack(&inside).unwrap();
        }
        drop(dot_git);
        assert!(!scratch.exists());

        assert_eq!(git(&inside, &["rev-parse", "HEAD", branch]), format!("{commit}\n{commit}", commit = commit.as_str()));
        assert_eq!(git(&inside, &["log", "--all", "--format=%s"]), "two");
        assert_eq!((git(&inside, &["remote"]), git(&inside, &["status", "--short", "--branch"]).lines().count()), (String::new(), 25));
        git(&inside, &["fsck", "--full", "--strict"]);
        git(&inside, &["checkout", "--quiet", "."]);
        assert_eq!(std::fs::read(inside.join("deep/er/7")).unwrap(), noise(7, 1 << 20));
        assert_eq!(git(&inside, &["status", "--short"]), "");
        let before = git(&origin, &["rev-parse", "HEAD~1:secret-of-before"]);
        let asked = Command::new("git").arg("-C").arg(&inside).args(["cat-file", "-e", &before]).output().unwrap();
        assert!(!asked.status.success(), "an object of an earlier commit is inside");
    }
}
