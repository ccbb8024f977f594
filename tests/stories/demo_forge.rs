//! The demonstration forge is strict where the real forges are: the other stories may rely on what it lets pass.

mod api;
mod clients;
mod forgejo;
mod git;
mod gitlab;
mod hooks;
mod model;
mod pages;
mod project;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use frognano_bot::demo::forge::Forge;
use frognano_bot::demo::{self, Kind, Running, project as sample};
use frognano_bot::domain::{Clock, Permission};
use serde_json::{Value, json};
use tempfile::TempDir;

const SECRET: &str = "It's a Secret to Everybody";

/// A second a look, from a fixed day on.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now_ms(&self) -> i64 {
        self.0.fetch_add(1_000, Ordering::Relaxed)
    }
}

/// A forge with the sample project (private), people with every permission, and a token for each, named after its owner.
struct Stage {
    running: Running,
    client: reqwest::Client,
    folder: TempDir,
}

impl Stage {
    async fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let forge = Forge::new(kind, Arc::new(Ticking(AtomicI64::new(1_790_000_000_000))));
        sample::put_on(&forge, folder.path(), SECRET, "frognano-token").unwrap();
        forge.add_user("wren", false);
        forge.add_user("stranger", false);
        for login in ["ada", "wren", "rita", "stranger"] {
            forge.add_token(&format!("{login}-token"), login, &["all"]).unwrap();
        }
        forge.permit(sample::PATH, "wren", Permission::Write).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().user_agent("stories").build().unwrap();
        Self { running: demo::start(forge).await.unwrap(), client, folder }
    }

    fn forge(&self) -> &Forge {
        &self.running.forge
    }

    /// Status and JSON of a call to the API, below `/repos/acme/tallybook` (GitLab: `/projects/acme%2Ftallybook`) unless the path starts with a slash.
    async fn call(&self, method: &str, path: &str, login: &str, body: Option<Value>) -> (u16, Value) {
        let (status, _, body) = self.call_fully(method, path, login, body).await;
        (status, body)
    }

    async fn call_fully(&self, method: &str, path: &str, login: &str, body: Option<Value>) -> (u16, String, Value) {
        let api = self.forge().state().kind.api();
        let project = if api == Kind::GitLab.api() { "projects/acme%2Ftallybook" } else { "repos/acme/tallybook" };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{project}/{path}") };
        let url = format!("{}/{api}{}", self.running.base_url, path.trim_end_matches('/'));
        let mut request = self.client.request(method.parse().unwrap(), url);
        if !login.is_empty() {
            request = request.bearer_auth(format!("{login}-token"));
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let link = response.headers().get("link").map(|link| link.to_str().unwrap().to_owned()).unwrap_or_default();
        (response.status().as_u16(), link, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }

    /// The address that git takes, with a token in it: only in tests.
    fn remote(&self, login: &str) -> String {
        let credentials = if login.is_empty() { String::new() } else { format!("any:{login}-token@") };
        format!("{}/{}.git", self.running.base_url.replace("http://", &format!("http://{credentials}")), sample::PATH)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Clones as somebody.
    async fn clone_as(&self, login: &str, name: &str) -> PathBuf {
        let folder = self.path(name);
        succeed(git(self.folder.path(), &["clone", "--quiet", &self.remote(login), folder.to_str().unwrap()]).await);
        folder
    }

    /// Clones, commits one file on a branch and pushes it.
    async fn push_branch(&self, login: &str, branch: &str) -> String {
        let folder = self.clone_as(login, &format!("clone-{login}-{}", branch.replace('/', "-"))).await;
        commit(&folder, branch, &format!("{}.txt", branch.replace('/', "-")), "<b>text</b>\n").await;
        succeed(git(&folder, &["push", "--quiet", "origin", branch]).await);
        let sha = succeed(git(&folder, &["rev-parse", "HEAD"]).await);
        sha.trim().to_owned()
    }
}

async fn commit(folder: &Path, branch: &str, file: &str, text: &str) {
    succeed(git(folder, &["checkout", "--quiet", "-B", branch]).await);
    std::fs::write(folder.join(file), text).unwrap();
    succeed(git(folder, &["add", "."]).await);
    succeed(git(folder, &["commit", "--quiet", "-m", "Change"]).await);
}

/// Runs git as a person would, without any configuration of this machine.
async fn git(folder: &Path, arguments: &[&str]) -> Output {
    let mut git = Command::new("git");
    git.current_dir(folder).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "true").env_remove("GIT_DIR");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "Wren").env(format!("GIT_{role}_EMAIL"), "wren@example.com");
    }
    tokio::task::spawn_blocking(move || git.output().unwrap()).await.unwrap()
}

#[track_caller]
fn succeed(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What git said on its way to failing.
#[track_caller]
fn fail(output: Output) -> String {
    assert!(!output.status.success(), "git was let in");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn pull(head: &str) -> Option<Value> {
    Some(json!({ "head": head, "base": "main", "title": "WIP: Mend it", "body": "Text", "draft": true }))
}
