//! Git: the only user of the `git` program.
//!
//! What must hold: git runs with an empty environment and a fixed configuration (no hooks, filters, helpers, submodules, prompts, redirects);
//! a credential reaches it by askpass alone, never as an argument, in a URL or in a file; no file of a repository is ever written to the
//! host's file system under a name of its own: trees are read from and written to the object store, without a work tree.

mod commit;
mod dot_git;
mod ignored;
mod leftovers;
mod mirror;
mod patch;
mod tree;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

pub use commit::CommitMessage;
pub use dot_git::DotGit;
pub use ignored::IgnoreRules;
pub use mirror::{Mirror, Mirrors};
pub use patch::Bench;
pub use tree::{Tree, TreeEntry};
pub use workspace::{Packing, TAR_BYTES};

/// How git gets into a remote repository.
#[derive(Debug, Clone)]
pub struct Remote {
    /// The address, without any credential.
    pub url: String,
    /// The user name and the token; none for a folder of this machine.
    pub credential: Option<(String, SecretString)>,
    /// The certificates (PEM) that alone are trusted, by their whole path; none for the machine's own.
    pub ca_file: Option<PathBuf>,
}

/// What may go wrong with git. The variant decides the outcome, the text is for people.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The repository is not there, or hidden from us.
    #[error("the repository can't be read: {0}")]
    RepositoryGone(String),
    /// There is no commit in it.
    #[error("the repository is empty: it has no commit to start from")]
    Empty,
    /// The branch is not there.
    #[error("the branch {0:?} does not exist in the repository")]
    BranchMissing(String),
    /// It is larger than the limit.
    #[error("the repository is larger than the limit of {limit} bytes; raise [repositories] max_bytes or leave it out")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The remote does not answer, or answers with a fault of its own.
    #[error("the forge does not serve git: {0}")]
    Unavailable(String),
    /// The push was refused.
    #[error("the push was refused: {0}")]
    PushRefused(String),
    /// No room on the disk.
    #[error("no room left on the disk: {0}")]
    DiskFull(String),
    /// The candidate can't be a commit: a path that git refuses.
    #[error("git does not take the changed files: {0}")]
    Unacceptable(String),
    /// Git failed in a way that has no name.
    #[error("git failed: {0}")]
    Failed(String),
}

impl GitError {
    /// Whether the remote did not let us in: the credential may be old, or never was enough.
    #[must_use]
    pub fn was_not_let_in(&self) -> bool {
        let (Self::RepositoryGone(said) | Self::PushRefused(said)) = self else { return false };
        let said = said.to_lowercase();
        ["error: 401", "error: 403", "authentication failed", "access denied"].iter().any(|words| said.contains(words))
    }
}

/// The git program with its fixed surroundings.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    askpass: PathBuf,
    home: PathBuf,
}

/// Git is only ever run with these: whatever a repository or the machine says is not asked.
const FIXED: [&str; 15] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.quotePath=true",
    "credential.helper=",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=120",
    "fetch.recurseSubmodules=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "diff.renames=false",
];

impl Git {
    /// Looks for the program, ends what a killed service left running, and writes the askpass script into `state`, which must be ours alone.
    ///
    /// # Errors
    /// A sentence when git is missing or the folder can't be written.
    pub async fn new(state: &Path) -> Result<Self, String> {
        let program = which("git").ok_or("git is not installed: install the package git")?;
        let home = std::path::absolute(state.join("git")).map_err(|error| format!("{}: {error}", state.display()))?;
        tokio::fs::create_dir_all(&home).await.map_err(|error| format!("{}: can't be made: {error}", home.display()))?;
        let left = leftovers::end(&home);
        if left > 0 {
            tracing::info!(processes = left, "ended git processes of a service that was killed");
        }
        let askpass = home.join("askpass");
        tokio::fs::write(&askpass, ASKPASS).await.map_err(|error| format!("{}: can't be written: {error}", askpass.display()))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        tokio::fs::set_permissions(&askpass, mode).await.map_err(|error| format!("{}: {error}", askpass.display()))?;
        let config = home.join("config");
        tokio::fs::write(&config, CONFIG).await.map_err(|error| format!("{}: can't be written: {error}", config.display()))?;
        Ok(Self { program, askpass, home })
    }

    fn command(&self, folder: &Path, remote: Option<&Remote>) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C").env("HOME", &self.home);
        command.env("GIT_CONFIG_GLOBAL", self.home.join("config"));
        for (name, value) in [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_LFS_SKIP_SMUDGE", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
        ] {
            command.env(name, value);
        }
        command.arg("-C").arg(folder);
        for setting in FIXED {
            command.arg("-c").arg(setting);
        }
        for protocol in remote.map_or(&["protocol.file.allow=always"][..], |remote| protocols(&remote.url)) {
            command.arg("-c").arg(protocol);
        }
        if let Some(ca_file) = remote.and_then(|remote| remote.ca_file.as_ref()) {
            command.env("GIT_SSL_CAINFO", ca_file);
        }
        if let Some((username, token)) = remote.and_then(|remote| remote.credential.as_ref()) {
            command.env("GIT_ASKPASS", &self.askpass).env("FROGNANO_USERNAME", username).env("FROGNANO_TOKEN", token.expose_secret());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
        command
    }

    /// Runs git in a folder and gives its whole output.
    async fn run(&self, folder: &Path, args: &[&str]) -> Result<Vec<u8>, GitError> {
        let mut command = self.command(folder, None);
        command.args(args);
        finished(args, &collect(command, None, None).await?)
    }

    /// Runs git in a folder with an input and gives its whole output.
    async fn feed(&self, folder: &Path, args: &[&str], input: Vec<u8>) -> Result<Vec<u8>, GitError> {
        let mut command = self.command(folder, None);
        command.args(args).stdin(Stdio::piped());
        finished(args, &collect(command, Some(input), None).await?)
    }

    /// Runs git against a remote; the caller reads the words of a failure.
    async fn talk(&self, folder: &Path, remote: &Remote, args: &[&str], limit: Duration) -> Result<std::process::Output, GitError> {
        let mut command = self.command(folder, Some(remote));
        command.args(args);
        let mut output = collect(command, None, Some(limit)).await?;
        if let Some((_, token)) = &remote.credential {
            // The forge's own words come along, whatever it repeats in them.
            output.stderr = String::from_utf8_lossy(&output.stderr).replace(token.expose_secret(), "[token]").into_bytes();
        }
        Ok(output)
    }
}

/// Local repositories may belong to other users, and a single commit may be fetched from a mirror of ours.
const CONFIG: &str = "[safe]\n\tdirectory = *\n[uploadpack]\n\tallowAnySHA1InWant = true\n";

const ASKPASS: &str =
    "#!/bin/sh\ncase \"$1\" in\nUsername*) printf '%s\\n' \"$FROGNANO_USERNAME\" ;;\n*) printf '%s\\n' \"$FROGNANO_TOKEN\" ;;\nesac\n";

fn protocols(url: &str) -> &'static [&'static str] {
    if url.starts_with("https://") {
        &["protocol.https.allow=always"]
    } else if url.starts_with("http://") {
        &["protocol.http.allow=always"]
    } else {
        &["protocol.file.allow=always"]
    }
}

async fn collect(
    mut command: tokio::process::Command,
    input: Option<Vec<u8>>,
    limit: Option<Duration>,
) -> Result<std::process::Output, GitError> {
    let mut child = command.spawn().map_err(|error| GitError::Failed(format!("git could not be started: {error}")))?;
    let mut helpers = Helpers(child.id());
    let (mut stdin, mut stdout, mut stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let work = async {
        let write = async {
            if let (Some(pipe), Some(input)) = (stdin.as_mut(), input) {
                pipe.write_all(&input).await.ok();
            }
            drop(stdin.take());
        };
        let read_out = async {
            if let Some(pipe) = stdout.as_mut() {
                pipe.read_to_end(&mut out).await.ok();
            }
        };
        let read_err = async {
            if let Some(pipe) = stderr.as_mut() {
                pipe.take(64 * 1024).read_to_end(&mut err).await.ok();
            }
        };
        tokio::join!(write, read_out, read_err);
        child.wait().await
    };
    let status = match limit {
        Some(limit) => {
            tokio::time::timeout(limit, work).await.map_err(|_| GitError::Unavailable(format!("no end after {} s", limit.as_secs())))?
        }
        None => work.await,
    };
    let status = status.map_err(|error| GitError::Failed(error.to_string()))?;
    helpers.0 = None;
    Ok(std::process::Output { status, stdout: out, stderr: err })
}

/// The process group of a git that was not waited for: its helpers would go on talking to a remote that hangs, with the credential.
struct Helpers(Option<u32>);

impl Drop for Helpers {
    fn drop(&mut self) {
        if let Some(group) = self.0.and_then(|leader| i32::try_from(leader).ok()) {
            killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
        }
    }
}

fn finished(args: &[&str], output: &std::process::Output) -> Result<Vec<u8>, GitError> {
    if output.status.success() {
        return Ok(output.stdout.clone());
    }
    let words = words(output);
    if words.contains("No space left on device") || words.contains("Disk quota exceeded") {
        return Err(GitError::DiskFull(words));
    }
    Err(GitError::Failed(format!("git {}: {words}", args.first().copied().unwrap_or_default())))
}

/// What git said on its error output, shortened to 400 characters of one line.
fn words(output: &std::process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(400).collect()
}

/// The full path of a program on the `PATH`.
#[must_use]
pub fn which(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::{Git, Remote};

    #[tokio::test]
    async fn a_private_authority_and_a_credential_reach_git_by_its_environment_alone() {
        let state = tempfile::tempdir().unwrap();
        let git = Git::new(state.path()).await.unwrap();
        let authority = std::path::absolute("tests/fixtures/tls/authority.pem").unwrap();
        let credential = Some(("bot".to_owned(), "token-5d1".into()));
        let remote = Remote { url: "https://localhost/a/b.git".to_owned(), credential, ca_file: Some(authority.clone()) };
        let command = git.command(state.path(), Some(&remote));
        let variable = |wanted: &str| command.as_std().get_envs().find(|(name, _)| *name == wanted).and_then(|(_, value)| value);
        assert_eq!(variable("GIT_SSL_CAINFO"), Some(authority.as_os_str()));
        assert_eq!(variable("FROGNANO_TOKEN"), Some("token-5d1".as_ref()));
        assert!(command.as_std().get_args().all(|argument| !argument.to_string_lossy().contains("token-5d1")));
        let output = git.talk(state.path(), &remote, &["token-5d1"], std::time::Duration::from_secs(10)).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("[token]") && !said.contains("token-5d1"), "what repeats it is not shown: {said}");
    }
}
