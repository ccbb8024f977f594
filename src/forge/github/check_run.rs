//! Check runs, which only an App may make, and only with the permission: beside the commit status of the same name, so that the protection of
//! a branch can name the App as the one source that counts.

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Client;
use crate::domain::RepoRef;
use crate::forge::address::owner_and_name;
use crate::forge::http::Call;
use crate::forge::{CommitStatus, ForgeError};

#[derive(Debug, Deserialize)]
struct RunsRow {
    #[serde(default)]
    check_runs: Vec<RunRow>,
}

#[derive(Debug, Deserialize)]
struct RunRow {
    name: String,
    #[serde(default)]
    conclusion: Option<String>,
}

impl Client {
    /// Says in a check run what a status says; nothing where we may not.
    pub(super) async fn run_check(&self, repo: &RepoRef, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        if !self.may_check().await? {
            return Ok(());
        }
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("the check run {} on {commit} of {}", status.context, repo.path);
        let conclusion = if status.passed { "success" } else { "failure" };
        let output = json!({"title": status.description, "summary": status.description});
        let body = json!({
            "name": status.context, "head_sha": commit, "status": "completed", "conclusion": conclusion, "output": output,
        });
        let path = ["repos", owner, name, "check-runs"];
        not_granted(self.http.send(&Call::new(what, Method::POST, &path).with(body)).await.map(drop), ())
    }

    /// Whether the check run of this name says the same as a status; also where we may make none.
    pub(super) async fn check_agrees(&self, repo: &RepoRef, commit: &str, status: &CommitStatus) -> Result<bool, ForgeError> {
        if !self.may_check().await? {
            return Ok(true);
        }
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("the check run {} on {commit} of {}", status.context, repo.path);
        let path = ["repos", owner, name, "commits", commit, "check-runs"];
        let call = Call::new(what, Method::GET, &path).asking(vec![("check_name", status.context.to_owned())]);
        let latest = match self.http.ask::<RunsRow>(&call).await {
            Err(error) => return not_granted(Err(error), true),
            Ok(there) => there.check_runs.into_iter().find(|run| run.name == status.context),
        };
        Ok(latest.is_some_and(|run| (run.conclusion.as_deref() == Some("success")) == status.passed))
    }

    /// As the App's own settings say, asked once; an installation may not have accepted them yet.
    async fn may_check(&self) -> Result<bool, ForgeError> {
        let Some(app) = &self.app else { return Ok(false) };
        let ask = async || {
            let told: Value = app.http.get("our own app".to_owned(), &["app"]).await?;
            Ok(told["permissions"]["checks"] == "write")
        };
        self.checks.get_or_try_init(ask).await.copied()
    }
}

/// What the installation does not let us do is left to the status.
fn not_granted<T>(done: Result<T, ForgeError>, without: T) -> Result<T, ForgeError> {
    match done {
        Err(error @ (ForgeError::Denied { .. } | ForgeError::Rejected { .. })) => {
            tracing::warn!(%error, "there is no check run, only the status: accept the App's permissions in its installation");
            Ok(without)
        }
        done => done,
    }
}
