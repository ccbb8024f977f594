//! A proved sandbox with a tree in it.

use serde::Serialize;
use serde_json::json;

use crate::audit::{Digest, Kind};
use crate::domain::ObjectId;
use crate::git::{Mirror, Tree};
use crate::sandbox::{ProbeReport, Sandbox};
use crate::telemetry::traces;

use super::{Stop, Work};

/// Starts a sandbox, keeps what it proved, and only then sends the files in.
pub(super) async fn with_tree(
    work: &mut Work<'_>,
    mirror: &Mirror,
    commit: &ObjectId,
    branch: &str,
    tree: &Tree,
    purpose: &str,
) -> Result<Box<dyn Sandbox>, Stop> {
    let name = format!("{}-{purpose}", work.run);
    let starting = work.parts.sandboxes.start_for(&name, &work.run.0, &work.issue_url);
    let mut sandbox = traces::span("sandbox start").around(starting).await?;
    work.report.sandbox = serde_json::to_value(Told { image: image(work), probed: sandbox.probe_report() }).ok();
    let told = work.report.sandbox.clone().unwrap_or_default();
    let facts = json!({"purpose": purpose, "image": told.get("image"), "proof": Digest::of(told.to_string().as_bytes())});
    if let Err(stop) = work.record.witness(Kind::Sandbox, facts).await {
        sandbox.close().await;
        return Err(stop);
    }
    let filled = traces::span("sandbox fill").around(fill(work, mirror, commit, branch, tree, sandbox.as_mut())).await;
    match filled {
        Ok(()) => Ok(sandbox),
        Err(stop) => {
            sandbox.close().await;
            Err(stop)
        }
    }
}

/// What a report has of a sandbox.
#[derive(Serialize)]
struct Told<'a> {
    /// What it is made of; null where that can't be told.
    image: Option<String>,
    #[serde(flatten)]
    probed: &'a ProbeReport,
}

/// What the sandboxes of a run are made of, found out once.
fn image(work: &Work<'_>) -> Option<String> {
    let known = work.report.sandbox.as_ref().and_then(|sandbox| sandbox.get("image")?.as_str());
    known.map(str::to_owned).or_else(|| work.parts.sandboxes.image())
}

async fn fill(
    work: &Work<'_>,
    mirror: &Mirror,
    commit: &ObjectId,
    branch: &str,
    tree: &Tree,
    sandbox: &mut dyn Sandbox,
) -> Result<(), Stop> {
    let mut archives = mirror.archives(tree)?;
    while let Some(archive) = archives.next().await? {
        sandbox.put(archive).await?;
    }
    let scratch = work.folder().await?.join("dot-git");
    let mut dot_git = mirror.dot_git(commit, branch, &scratch).await?;
    while let Some(archive) = dot_git.piece()? {
        sandbox.put(archive).await?;
    }
    Ok(())
}
