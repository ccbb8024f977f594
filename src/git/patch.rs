//! A patch file, read as git itself reads it: applied to a throw-away index, so that nothing of the repository is written, run or trusted.

use std::path::{Path, PathBuf};

use crate::domain::{BlobMode, ChangedFile, ObjectId};

use super::tree::{BlobReader, Tree, TreeEntry};
use super::{Git, GitError, collect, finished, words};

/// A repository at its HEAD, with a folder of our own for what a patch makes of it.
pub struct Bench {
    git: Git,
    objects: tempfile::TempDir,
    head: ObjectId,
    /// The tree of HEAD.
    pub base: Tree,
}

impl Bench {
    /// Looks at a repository's HEAD.
    ///
    /// # Errors
    /// When the folder is no repository, has no commit, or its objects can't be read.
    pub async fn at_head(git: &Git, repository: &Path) -> Result<Self, GitError> {
        let asked = |args: &'static [&'static str]| async move {
            let answer = git.run(repository, args).await.map_err(|error| GitError::RepositoryGone(error.to_string()))?;
            Ok::<_, GitError>(String::from_utf8_lossy(&answer).trim().to_owned())
        };
        let objects_there = asked(&["rev-parse", "--path-format=absolute", "--git-path", "objects"]).await?;
        let format = asked(&["rev-parse", "--show-object-format"]).await?;
        let head = asked(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).await.map_err(|_| GitError::Empty)?;
        let head = ObjectId::parse(&head).ok_or(GitError::Empty)?;
        let failed = |error: std::io::Error| GitError::Failed(format!("no temporary folder: {error}"));
        let objects = tempfile::Builder::new().prefix("frognano-patch-").tempdir().map_err(failed)?;
        git.run(objects.path(), &["init", "--quiet", "--bare", "--template=", &format!("--object-format={format}")]).await?;
        if objects_there.contains('\n') {
            return Err(GitError::RepositoryGone("its path has a line end".to_owned()));
        }
        std::fs::create_dir_all(objects.path().join("objects/info")).map_err(failed)?;
        std::fs::write(objects.path().join("objects/info/alternates"), format!("{objects_there}\n")).map_err(failed)?;
        let mut bench = Self { git: git.clone(), objects, head, base: Tree::default() };
        bench.base = bench.tree(bench.head.as_str()).await?;
        Ok(bench)
    }

    /// What a patch changes: the files with their contents at HEAD and after it, or git's own words why it does not apply.
    ///
    /// # Errors
    /// When git fails for another reason than the patch.
    pub async fn read(&self, patch: Vec<u8>) -> Result<Result<Vec<ChangedFile>, String>, GitError> {
        self.on_index(&["read-tree", self.head.as_str()], Vec::new()).await.and_then(|output| finished(&["read-tree"], &output))?;
        let applied = self.on_index(&["apply", "--cached", "--whitespace=nowarn", "-"], patch).await?;
        if !applied.status.success() {
            return Ok(Err(words(&applied)));
        }
        let written = self.on_index(&["write-tree"], Vec::new()).await?;
        if !written.status.success() {
            return Ok(Err(words(&written)));
        }
        let after = self.tree(String::from_utf8_lossy(&written.stdout).trim()).await?;
        self.between(&after).await.map(Ok)
    }

    /// The contents of files of HEAD, in the order asked; submodules have none.
    ///
    /// # Errors
    /// When an object is missing.
    pub async fn contents(&self, paths: &[&[u8]]) -> Result<Vec<Vec<u8>>, GitError> {
        let mut reader = BlobReader::open(&self.git, self.objects.path())?;
        let mut contents = Vec::with_capacity(paths.len());
        for path in paths {
            contents.push(match self.base.entries.get(*path) {
                Some(entry) => content(&mut reader, entry).await?,
                None => Vec::new(),
            });
        }
        Ok(contents)
    }

    async fn on_index(&self, args: &[&str], input: Vec<u8>) -> Result<std::process::Output, GitError> {
        let mut command = self.git.command(self.objects.path(), None);
        command.env("GIT_DIR", self.objects.path()).env("GIT_INDEX_FILE", self.index()).args(args).stdin(std::process::Stdio::piped());
        collect(command, Some(input), None).await
    }

    fn index(&self) -> PathBuf {
        self.objects.path().join("index-of-the-patch")
    }

    async fn tree(&self, revision: &str) -> Result<Tree, GitError> {
        Tree::read(&self.git, self.objects.path(), revision).await
    }

    async fn between(&self, after: &Tree) -> Result<Vec<ChangedFile>, GitError> {
        let mut reader = BlobReader::open(&self.git, self.objects.path())?;
        let mut changed = Vec::new();
        let differing = self.base.entries.keys().chain(after.entries.keys().filter(|path| !self.base.entries.contains_key(*path)));
        for path in differing.filter(|path| self.base.entries.get(*path) != after.entries.get(*path)) {
            let mut side = async |entry: Option<&TreeEntry>| match entry {
                Some(entry) => Ok::<_, GitError>(Some((entry.mode, content(&mut reader, entry).await?))),
                None => Ok(None),
            };
            let before = side(self.base.entries.get(path)).await?;
            let after = side(after.entries.get(path)).await?;
            changed.push(ChangedFile { path: path.clone(), before, after });
        }
        changed.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changed)
    }
}

/// The bytes of a file; the commit of a submodule in hexadecimal.
async fn content(reader: &mut BlobReader, entry: &TreeEntry) -> Result<Vec<u8>, GitError> {
    if entry.mode == BlobMode::Submodule { Ok(entry.blob.clone().into_bytes()) } else { reader.read(&entry.blob).await }
}
