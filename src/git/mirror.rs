//! One bare mirror a repository in the data folder: fetched with the credential, read without it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::domain::{ObjectId, RunId};

use super::{Git, GitError, Remote, words};

/// The mirrors of this machine. Work on one repository's mirror is one at a time.
#[derive(Debug, Clone)]
pub struct Mirrors {
    git: Git,
    folder: PathBuf,
    max_bytes: u64,
    timeout: Duration,
    locks: Arc<Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>>,
}

/// One mirror, brought up to date.
#[derive(Debug, Clone)]
pub struct Mirror {
    pub(super) git: Git,
    pub(super) folder: PathBuf,
    lock: Arc<Mutex<()>>,
    timeout: Duration,
}

impl Mirrors {
    /// Mirrors below `folder`; one larger than `max_bytes` is refused, and a fetch or push is given up after `timeout`.
    #[must_use]
    pub fn new(git: Git, folder: PathBuf, max_bytes: u64, timeout: Duration) -> Self {
        Self { git, folder, max_bytes, timeout, locks: Arc::default() }
    }

    /// The name of the mirror of a forge's repository, by the forge's own id of it.
    #[must_use]
    pub fn name_of(forge: &str, repository_id: &str) -> String {
        let safe = |text: &str| text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect::<String>();
        format!("{}-{}", safe(forge), safe(repository_id))
    }

    /// Brings the mirror's copy of the remote's `reference` (`refs/heads/NAME`, or `HEAD`) up to date as its branch `branch`, and gives the commit at its tip.
    ///
    /// # Errors
    /// Each way in which a repository can be unusable has its own variant.
    pub async fn fetch(&self, name: &str, remote: &Remote, reference: &str, branch: &str) -> Result<(Mirror, ObjectId), GitError> {
        let mirror = self.open(name).await?;
        let _held = mirror.lock.lock().await;
        self.git
            .run(&mirror.folder, &["check-ref-format", &format!("refs/heads/{branch}")])
            .await
            .map_err(|_| GitError::BranchMissing(branch.to_owned()))?;
        let refspec = format!("+{reference}:refs/heads/{branch}");
        let args = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            // A folder of this machine may be a shallow clone: its branch would be left out silently.
            "--update-shallow",
            "--end-of-options",
            &remote.url,
            &refspec,
        ];
        let output = tokio::select! {
            output = self.git.talk(&mirror.folder, remote, &args, self.timeout) => output?,
            () = self.outgrown(&mirror.folder) => return Err(self.too_large(&mirror.folder).await),
        };
        if !output.status.success() {
            return Err(self.why_not(&mirror, remote, branch, &words(&output)).await);
        }
        if size_of(&mirror.folder).await > self.max_bytes {
            return Err(self.too_large(&mirror.folder).await);
        }
        let tip = mirror.resolve(&format!("refs/heads/{branch}")).await?;
        drop(_held);
        Ok((mirror, tip))
    }

    /// Whether there is a mirror of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.folder.join(format!("{name}.git")).join("HEAD").is_file()
    }

    /// Opens a mirror as it is, making it when it is missing.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub async fn open(&self, name: &str) -> Result<Mirror, GitError> {
        let folder = self.folder.join(format!("{name}.git"));
        let lock = self.locks.lock().await.entry(folder.clone()).or_default().clone();
        let mirror = Mirror { git: self.git.clone(), folder, lock, timeout: self.timeout };
        let _held = mirror.lock.lock().await;
        if !mirror.folder.join("HEAD").is_file() {
            let made = tokio::fs::create_dir_all(&mirror.folder).await;
            made.map_err(|error| disk(&mirror.folder, &error))?;
            self.git.run(&mirror.folder, &["init", "--quiet", "--bare", "--template="]).await?;
        }
        drop(_held);
        Ok(mirror)
    }

    /// Forgets a run that has ended, and packs the mirror together when fetches and runs have left it in many pieces.
    ///
    /// # Errors
    /// When the mirror can't be opened; a mirror that can't be packed is only larger than it need be.
    pub async fn tidy(&self, name: &str, run: &RunId) -> Result<(), GitError> {
        const PACKS: usize = 50;
        let mirror = self.open(name).await?;
        let _held = mirror.lock.lock().await;
        mirror.forget(run).await;
        let packs = std::fs::read_dir(mirror.folder.join("objects/pack")).map_or(0, |entries| entries.flatten().count() / 2);
        if packs > PACKS
            && let Err(error) = self.git.run(&mirror.folder, &["gc", "--quiet", "--prune=2.weeks.ago"]).await
        {
            tracing::warn!(%error, name, "the mirror could not be packed together");
        }
        Ok(())
    }

    async fn outgrown(&self, folder: &Path) {
        let mut look = tokio::time::interval(Duration::from_millis(250));
        loop {
            look.tick().await;
            if size_of(folder).await > self.max_bytes {
                return;
            }
        }
    }

    async fn too_large(&self, folder: &Path) -> GitError {
        tokio::fs::remove_dir_all(folder).await.ok();
        GitError::TooLarge { limit: self.max_bytes }
    }

    async fn why_not(&self, mirror: &Mirror, remote: &Remote, branch: &str, said: &str) -> GitError {
        if said.contains("No space left on device") || said.contains("Disk quota exceeded") {
            return GitError::DiskFull(said.to_owned());
        }
        if !said.contains("couldn't find remote ref") && !said.contains("not our ref") {
            return unreachable_remote(said);
        }
        match self.git.talk(&mirror.folder, remote, &["ls-remote", "--heads", "--end-of-options", &remote.url], self.timeout).await {
            Ok(output) if output.status.success() && output.stdout.is_empty() => GitError::Empty,
            Ok(output) if output.status.success() => GitError::BranchMissing(branch.to_owned()),
            Ok(output) => unreachable_remote(&words(&output)),
            Err(error) => error,
        }
    }
}

impl Mirror {
    /// Its name, which stands for the forge and the repository.
    #[must_use]
    pub fn name(&self) -> String {
        self.folder.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The commit that a full reference name stands for.
    ///
    /// # Errors
    /// When there is no such reference.
    pub async fn resolve(&self, reference: &str) -> Result<ObjectId, GitError> {
        let output = self
            .git
            .run(&self.folder, &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{reference}^{{commit}}")])
            .await?;
        let text = String::from_utf8_lossy(&output);
        ObjectId::parse(text.trim()).ok_or_else(|| GitError::Failed(format!("git rev-parse answered {text:?}")))
    }

    /// Whether the mirror has this commit.
    pub async fn has(&self, commit: &ObjectId) -> bool {
        self.git.run(&self.folder, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).await.is_ok()
    }

    /// Writes a commit to a new branch of the remote. Looks first: a branch that has this very commit already is left as it is.
    ///
    /// # Errors
    /// When the branch has another commit, the remote refuses, or does not answer.
    pub async fn push(&self, remote: &Remote, commit: &ObjectId, branch: &str) -> Result<(), GitError> {
        self.push_reference(remote, commit, &format!("refs/heads/{branch}")).await
    }

    /// The same for any reference, by its full name.
    ///
    /// # Errors
    /// As [`Mirror::push`].
    pub async fn push_reference(&self, remote: &Remote, commit: &ObjectId, reference: &str) -> Result<(), GitError> {
        if let Some(there) = self.remote_tip(remote, reference).await? {
            if there == *commit {
                return Ok(());
            }
            let (what, name) = match reference.strip_prefix("refs/heads/") {
                Some(branch) => ("branch", branch),
                None => ("reference", reference),
            };
            return Err(GitError::PushRefused(format!("the {what} {name} is there already with another commit ({there})")));
        }
        self.send(remote, &format!("{commit}:{reference}"), &[]).await
    }

    /// Adds a commit to a branch of the remote whose tip is `parent`, the commit's own parent. Looks first: a branch that has the commit already is
    /// left as it is, and one that anybody moved meanwhile too; false then.
    ///
    /// # Errors
    /// When the remote refuses, or does not answer.
    pub async fn push_on(&self, remote: &Remote, parent: &ObjectId, commit: &ObjectId, branch: &str) -> Result<bool, GitError> {
        let reference = format!("refs/heads/{branch}");
        match self.remote_tip(remote, &reference).await? {
            Some(there) if there == *commit => return Ok(true),
            Some(there) if there == *parent => {}
            _ => return Ok(false),
        }
        // Never forced: what is not on top of the branch is rejected.
        match self.send(remote, &format!("{commit}:{reference}"), &[]).await {
            Err(GitError::PushRefused(_)) if self.remote_tip(remote, &reference).await?.as_ref() != Some(parent) => Ok(false),
            sent => sent.map(|()| true),
        }
    }

    /// A commit between these two that says in git's own words that it reverts the first.
    ///
    /// # Errors
    /// When git fails.
    pub async fn reverted_by(&self, commit: &ObjectId, tip: &ObjectId) -> Result<Option<ObjectId>, GitError> {
        let (words, range) = (format!("--grep=This reverts commit {commit}"), format!("{commit}..{tip}"));
        let args = ["log", "--format=%H", "--max-count=1", "--fixed-strings", &words, "--end-of-options", &range];
        let output = self.git.run(&self.folder, &args).await?;
        Ok(ObjectId::parse(String::from_utf8_lossy(&output).trim()))
    }

    /// The newest commit that both stem from.
    ///
    /// # Errors
    /// When there is none.
    pub async fn merge_base(&self, one: &ObjectId, other: &ObjectId) -> Result<ObjectId, GitError> {
        let output = self.git.run(&self.folder, &["merge-base", "--end-of-options", one.as_str(), other.as_str()]).await?;
        let text = String::from_utf8_lossy(&output);
        ObjectId::parse(text.trim()).ok_or_else(|| GitError::Failed(format!("git merge-base answered {text:?}")))
    }

    /// Asks the remote whether a push would be let in at all; nothing is sent. A forge may still refuse the push itself.
    ///
    /// # Errors
    /// When it would not, or the remote does not answer.
    pub async fn may_push(&self, remote: &Remote, commit: &ObjectId, branch: &str) -> Result<(), GitError> {
        self.send(remote, &format!("{commit}:refs/heads/{branch}"), &["--dry-run"]).await
    }

    /// Removes a reference of the remote, by its full name, that has this very commit at its tip; false when it is not there or anybody moved it.
    ///
    /// # Errors
    /// When the remote refuses, or does not answer.
    pub async fn remove_reference(&self, remote: &Remote, commit: &ObjectId, reference: &str) -> Result<bool, GitError> {
        if self.remote_tip(remote, reference).await?.as_ref() != Some(commit) {
            return Ok(false);
        }
        // The remote compares once more: what is pushed in this moment is not lost.
        let only_if = format!("--force-with-lease={reference}:{commit}");
        match self.send(remote, &format!(":{reference}"), &[&only_if]).await {
            Err(GitError::PushRefused(_)) if self.remote_tip(remote, reference).await?.as_ref() != Some(commit) => Ok(false),
            sent => sent.map(|()| true),
        }
    }

    async fn send(&self, remote: &Remote, refspec: &str, more: &[&str]) -> Result<(), GitError> {
        let mut args = vec!["push", "--quiet", "--no-verify", "--no-follow-tags"];
        args.extend(more);
        args.extend(["--end-of-options", &remote.url, refspec]);
        let output = self.git.talk(&self.folder, remote, &args, self.timeout).await?;
        if output.status.success() {
            return Ok(());
        }
        let said = words(&output);
        let refused = ["[remote rejected]", "[rejected]", "pre-receive hook declined", "error: 403", "error: 401", "Authentication failed"];
        if refused.iter().any(|words| said.contains(words)) { Err(GitError::PushRefused(said)) } else { Err(unreachable_remote(&said)) }
    }

    async fn remote_tip(&self, remote: &Remote, reference: &str) -> Result<Option<ObjectId>, GitError> {
        let output = self.git.talk(&self.folder, remote, &["ls-remote", "--end-of-options", &remote.url, reference], self.timeout).await?;
        if !output.status.success() {
            return Err(unreachable_remote(&words(&output)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().next().and_then(ObjectId::parse))
    }

    /// Forgets the run's own references; their objects go with [`Mirrors::tidy`].
    pub async fn forget(&self, run: &RunId) {
        let later = self.git.run(&self.folder, &["for-each-ref", "--format=%(refname)", &later_attempts(run)]).await.unwrap_or_default();
        let later = String::from_utf8_lossy(&later).lines().map(str::to_owned).collect::<Vec<_>>();
        for reference in later.into_iter().chain([run_reference(run), judged_reference(run), statement_reference(run)]) {
            self.git.run(&self.folder, &["update-ref", "-d", &reference]).await.ok();
        }
    }
}

pub(super) fn judged_reference(run: &RunId) -> String {
    format!("refs/frognano-judged/{run}")
}

pub(super) fn statement_reference(run: &RunId) -> String {
    format!("refs/frognano-statements/{run}")
}

fn run_reference(run: &RunId) -> String {
    format!("refs/frognano/{run}")
}

fn later_attempts(run: &RunId) -> String {
    format!("refs/frognano-attempts/{run}/")
}

pub(super) fn attempt_reference(run: &RunId, attempt: u32) -> String {
    if attempt == 1 { run_reference(run) } else { format!("{}{attempt}", later_attempts(run)) }
}

fn unreachable_remote(said: &str) -> GitError {
    let lower = said.to_lowercase();
    let gone = [
        "not found",
        "does not exist",
        "does not appear to be a git repository",
        "authentication failed",
        "access denied",
        "error: 403",
        "error: 401",
        "could not read username",
    ];
    if gone.iter().any(|words| lower.contains(words)) {
        GitError::RepositoryGone(said.to_owned())
    } else {
        GitError::Unavailable(said.to_owned())
    }
}

fn disk(folder: &Path, error: &std::io::Error) -> GitError {
    let text = format!("{}: {error}", folder.display());
    if error.kind() == std::io::ErrorKind::StorageFull { GitError::DiskFull(text) } else { GitError::Failed(text) }
}

async fn size_of(folder: &Path) -> u64 {
    let folder = folder.to_path_buf();
    tokio::task::spawn_blocking(move || bytes_below(&folder)).await.unwrap_or(0)
}

fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => bytes_below(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Mirrors, Remote};
    use crate::git::Git;

    #[tokio::test]
    async fn a_fetch_that_is_given_up_leaves_no_process() {
        let state = tempfile::tempdir().unwrap();
        let git = Git::new(state.path()).await.unwrap();
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = Remote { url: format!("http://{}/a/b.git", silent.local_addr().unwrap()), credential: None, ca_file: None };
        let mirrors = Mirrors::new(git, state.path().join("mirrors"), 1 << 30, Duration::from_millis(500));
        let given_up = mirrors.fetch("silent", &remote, "refs/heads/main", "main").await.unwrap_err();
        assert!(given_up.to_string().contains("no end after"), "{given_up}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(crate::git::leftovers::end(&state.path().join("git")), 0);
    }

    #[tokio::test]
    async fn a_shallow_clone_in_a_folder_with_an_odd_name_is_fetched() {
        let state = tempfile::tempdir().unwrap();
        let git = Git::new(state.path()).await.unwrap();
        let (full, shallow) = (state.path().join("full"), state.path().join("shallow 100%41 'é"));
        std::fs::create_dir_all(&full).unwrap();
        git.run(&full, &["init", "--quiet", "--template="]).await.unwrap();
        for message in ["one", "two"] {
            let who = ["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "--allow-empty", "-m", message];
            git.run(&full, &who).await.unwrap();
        }
        let url = format!("file://{}", full.display());
        git.run(state.path(), &["clone", "--quiet", "--depth=1", &url, &shallow.display().to_string()]).await.unwrap();

        let mirrors = Mirrors::new(git.clone(), state.path().join("mirrors"), 1 << 30, Duration::from_secs(60));
        let remote = Remote { url: shallow.display().to_string(), credential: None, ca_file: None };
        let (mirror, base) = mirrors.fetch("local", &remote, "HEAD", "main").await.unwrap();
        let tip = git.run(&full, &["rev-parse", "HEAD"]).await.unwrap();
        assert_eq!(base.as_str(), String::from_utf8_lossy(&tip).trim());
        assert!(mirror.tree(&base).await.unwrap().entries.is_empty());
    }
}
