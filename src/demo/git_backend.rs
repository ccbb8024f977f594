//! The forge's side of git: bare repositories on disk, questions about their branches, and smart HTTP through `git http-backend`.
//!
//! Every git process starts with a cleared environment and without the machine's or the person's configuration. Branches are given as
//! full refs (`refs/heads/…`), so that no name of a stranger is ever read as an option.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use futures_util::{StreamExt as _, stream};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// The script that refuses pushes to the default branch, as a protected branch does, once it is there. `$1` is the ref, `$2` its commit.
const UPDATE_HOOK: &str = "#!/bin/sh\nif [ \"$1\" = \"$(git symbolic-ref HEAD)\" ] && [ -n \"$(printf %s \"$2\" | tr -d 0)\" ]; then\n  \
     echo \"Not allowed to push to protected branch ${1#refs/heads/}\" >&2\n  exit 1\nfi\n";

/// The settings of every git process: any owner of the folders is fine, pushes over HTTP are on, partial clones too.
const SETTINGS: [(&str, &str); 3] = [("safe.directory", "*"), ("http.receivepack", "true"), ("uploadpack.allowFilter", "true")];

fn git(repository: &Path) -> Command {
    let mut git = Command::new("git");
    git.env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()))
        .env("GIT_DIR", repository)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_CONFIG_COUNT", SETTINGS.len().to_string())
        .stdin(Stdio::null());
    for (index, (key, value)) in SETTINGS.iter().enumerate() {
        git.env(format!("GIT_CONFIG_KEY_{index}"), key).env(format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    git
}

fn run(command: &mut Command) -> io::Result<Output> {
    let output = command.output().map_err(|error| io::Error::other(format!("the git program can't be started: {error}; install git")))?;
    if output.status.success() {
        return Ok(output);
    }
    let arguments = command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    Err(io::Error::other(format!("git {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// Makes an empty bare repository whose default branch will be `branch`.
///
/// # Errors
/// What git says when the folder can't be made.
pub fn init_bare(repository: &Path, branch: &str) -> io::Result<()> {
    run(git(repository).args(["init", "--quiet", "--bare", "--template="]).arg(format!("--initial-branch={branch}")))?;
    Ok(())
}

/// Puts the whole of `folder` as one commit on the default branch; author and date are fixed, so that its id is always the same.
///
/// # Errors
/// What git says.
pub fn commit_folder(repository: &Path, folder: &Path, message: &str) -> io::Result<()> {
    let mut add = git(repository);
    run(add.arg("--work-tree").arg(folder).args(["add", "--all", "."]).current_dir(folder))?;
    let mut commit = git(repository);
    for role in ["AUTHOR", "COMMITTER"] {
        commit.env(format!("GIT_{role}_NAME"), "Ada Example").env(format!("GIT_{role}_EMAIL"), "ada@example.com");
        commit.env(format!("GIT_{role}_DATE"), "2026-01-12T09:00:00+00:00");
    }
    run(commit.arg("--work-tree").arg(folder).args(["commit", "--quiet", "--no-verify", "-m", message]))?;
    Ok(())
}

/// Commits one more file to a branch, as somebody who pushes it; its text is its name.
///
/// # Errors
/// What git says.
pub fn commit_file(repository: &Path, branch: &str, file: &str, by: &str) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let (text, index) = (folder.path().join("text"), folder.path().join("index"));
    std::fs::write(&text, format!("# {file}\n"))?;
    let told = |output: Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let reference = format!("refs/heads/{branch}");
    let blob = told(run(git(repository).args(["hash-object", "-w", "--no-filters", "--"]).arg(&text))?);
    run(git(repository).env("GIT_INDEX_FILE", &index).args(["read-tree", &reference]))?;
    let entry = format!("100644,{blob},{file}");
    run(git(repository).env("GIT_INDEX_FILE", &index).args(["update-index", "--add", "--cacheinfo", &entry]))?;
    let tree = told(run(git(repository).env("GIT_INDEX_FILE", &index).arg("write-tree"))?);
    let mut commit = git(repository);
    for role in ["AUTHOR", "COMMITTER"] {
        commit.env(format!("GIT_{role}_NAME"), by).env(format!("GIT_{role}_EMAIL"), format!("{by}@example.com"));
    }
    let made = told(run(commit.args(["commit-tree", "-p", &reference, "-m", &format!("Add {file}"), &tree]))?);
    run(git(repository).args(["update-ref", &reference, &made]))?;
    Ok(())
}

/// Merges a branch into another, as the button on a forge does; the head stays reachable as `kept`. The merge commit.
///
/// # Errors
/// What git says, also where they do not go together.
pub fn merge(repository: &Path, (base, head): (&str, &str), kept: &str, by: &str) -> io::Result<String> {
    let told = |output: Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (base, head) = (format!("refs/heads/{base}"), format!("refs/heads/{head}"));
    let tree = told(run(git(repository).args(["merge-tree", "--write-tree", &base, &head]))?);
    let mut commit = git(repository);
    for role in ["AUTHOR", "COMMITTER"] {
        commit.env(format!("GIT_{role}_NAME"), by).env(format!("GIT_{role}_EMAIL"), format!("{by}@example.com"));
    }
    let made = told(run(commit.args(["commit-tree", "-p", &base, "-p", &head, "-m", &format!("Merge {head}"), &tree]))?);
    run(git(repository).args(["update-ref", kept, &head]))?;
    run(git(repository).args(["update-ref", &base, &made]))?;
    Ok(made)
}

/// Protects the default branch of a repository that the forge takes over.
///
/// # Errors
/// When the hook can't be written.
pub fn protect_default_branch(repository: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let hook = repository.join("hooks").join("update");
    std::fs::create_dir_all(repository.join("hooks"))?;
    std::fs::write(&hook, UPDATE_HOOK)?;
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755))
}

/// The branch that HEAD names, whether it has a commit or not.
#[must_use]
pub fn default_branch(repository: &Path) -> Option<String> {
    let output = run(git(repository).args(["symbolic-ref", "HEAD"])).ok()?;
    String::from_utf8_lossy(&output.stdout).trim().strip_prefix("refs/heads/").map(str::to_owned)
}

/// The commit at the tip of a branch; none when there is no such branch.
#[must_use]
pub fn branch_tip(repository: &Path, branch: &str) -> Option<String> {
    let output = run(git(repository).args(["show-ref", "--verify", "--hash", &format!("refs/heads/{branch}")])).ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether there is no branch at all.
#[must_use]
pub fn is_empty(repository: &Path) -> bool {
    run(git(repository).args(["for-each-ref", "--count=1", "refs/heads"])).is_ok_and(|output| output.stdout.is_empty())
}

/// How many commits `head` has that `base` has not; none when either is unknown.
#[must_use]
pub fn commits_ahead(repository: &Path, base: &str, head: &str) -> Option<u64> {
    let output = run(git(repository).args(["rev-list", "--count", "--end-of-options", &format!("{base}..{head}"), "--"])).ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// What `head` changes since it left `base`, as a unified diff. Undecodable bytes are replaced.
///
/// # Errors
/// What git says, for instance of an unknown commit.
pub fn diff(repository: &Path, base: &str, head: &str) -> io::Result<String> {
    let range = format!("{base}...{head}");
    let output = run(git(repository).args(["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--end-of-options", &range, "--"]))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Deletes a branch; false when there was none.
#[must_use]
pub fn delete_branch(repository: &Path, branch: &str) -> bool {
    branch_tip(repository, branch).is_some() && run(git(repository).args(["update-ref", "-d", &format!("refs/heads/{branch}")])).is_ok()
}

/// One request to `git http-backend`.
#[derive(Debug)]
pub struct SmartRequest<'a> {
    /// The request's method.
    pub method: &'a str,
    /// `/info/refs`, `/git-upload-pack` or `/git-receive-pack`.
    pub service_path: &'a str,
    /// The query string without `?`, empty for none.
    pub query: &'a str,
    /// The request's headers; four of them reach git.
    pub headers: &'a HeaderMap,
    /// Who asks; empty for nobody.
    pub login: &'a str,
}

/// Answers one request of a git client, streaming both ways.
///
/// # Errors
/// When git can't be started or answers no CGI header.
pub async fn serve(repository: &Path, request: SmartRequest<'_>, body: Body) -> io::Result<Response<Body>> {
    let mut command = git(repository);
    command
        .arg("http-backend")
        .env_remove("GIT_DIR")
        .env("GIT_PROJECT_ROOT", repository)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", request.service_path)
        .env("REQUEST_METHOD", request.method)
        .env("QUERY_STRING", request.query)
        .env("REMOTE_USER", request.login)
        .env("REMOTE_ADDR", "127.0.0.1");
    let passed = [
        (header::CONTENT_TYPE, "CONTENT_TYPE"),
        (header::CONTENT_LENGTH, "CONTENT_LENGTH"),
        (header::CONTENT_ENCODING, "HTTP_CONTENT_ENCODING"),
        (HeaderName::from_static("git-protocol"), "GIT_PROTOCOL"),
    ];
    for (name, variable) in passed {
        if let Some(value) = request.headers.get(name).and_then(|value| value.to_str().ok()) {
            command.env(variable, value);
        }
    }
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut backend = command.spawn()?;
    let (Some(stdin), Some(stdout)) = (backend.stdin.take(), backend.stdout.take()) else {
        return Err(io::Error::other("git http-backend was started without pipes"));
    };
    tokio::spawn(feed(stdin, body));
    answer(backend, BufReader::new(stdout)).await
}

async fn feed(mut stdin: ChildStdin, body: Body) {
    let mut chunks = body.into_data_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        if stdin.write_all(&chunk).await.is_err() {
            return;
        }
    }
}

async fn answer(backend: Child, mut stdout: BufReader<ChildStdout>) -> io::Result<Response<Body>> {
    let mut status = StatusCode::OK;
    let mut headers = HeaderMap::new();
    loop {
        let mut line = String::new();
        if stdout.read_line(&mut line).await? == 0 {
            return Err(io::Error::other("git http-backend ended without an answer"));
        }
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("status") {
            status = value.get(..3).and_then(|code| code.parse().ok()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        } else if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    let chunks = stream::unfold((backend, stdout), |(mut backend, mut stdout)| async move {
        let mut chunk = vec![0; 64 * 1024];
        match stdout.read(&mut chunk).await {
            Ok(0) => {
                let ended = backend.wait().await;
                ended.err().map(|error| (Err(error), (backend, stdout)))
            }
            Ok(length) => {
                chunk.truncate(length);
                Some((Ok(Bytes::from(chunk)), (backend, stdout)))
            }
            Err(error) => Some((Err(error), (backend, stdout))),
        }
    });
    let mut response = Response::new(Body::from_stream(chunks));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}
