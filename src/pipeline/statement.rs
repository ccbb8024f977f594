//! The signed statement on the commit that is proposed: what code measured, and everything else by its digest; in the repository beside the commit.
//!
//! What must hold: it is made once for a commit and kept, so that a run that was killed pushes the same bytes; a forge that does not take its
//! reference costs the reference and not the run; it names people by pseudonym alone.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use url::Url;

use crate::audit::{Digest, Envelope, Kind, SigningKey, Statement};
use crate::domain::{BlobMode, ChangedFile, Fault, IssueText, ObjectId, RepoRef};
use crate::git::{CommitMessage, GitError, Mirror};
use crate::publish::report::{StatementTold, Told};
use crate::publish::{PublishError, with_access};
use crate::store::Stated;

use super::{Asked, Stop, Work, folder_of_attempt};

/// The one file of a statement's commit.
const FILE: &str = "statement.json";

/// The reference that has a run's statement.
pub(super) fn reference(run: &str) -> String {
    format!("refs/frognano/statements/{run}")
}

/// The frozen words of an issue as they are kept for an auditor.
#[must_use]
pub fn snapshot(text: &IssueText, url: &str) -> Vec<u8> {
    json!({"title": text.title, "body": text.body, "url": url}).to_string().into_bytes()
}

/// Signs the statement on the commit and keeps it, where there is a key and it was not made before.
pub(super) async fn make(work: &mut Work<'_>, repo: &RepoRef, commit: &ObjectId) -> Result<(), Stop> {
    let Some(key) = work.parts.signing.clone() else { return Ok(()) };
    if work.checkpoint.stated.as_ref().is_some_and(|stated| stated.about == *commit) {
        return Ok(());
    }
    let issue = work.record.keep_record("issue", &snapshot(&work.text, &work.issue_url)).await?;
    let transcript = keep_transcript(work).await?;
    let asked_by = match work.checkpoint.requested_by.clone() {
        Some(login) => work.record.pseudonym(&repo.forge, &login).await?,
        None => None,
    };
    let predicate = predicate(work, issue, transcript.as_ref().map(|(_, digest)| *digest), asked_by.as_deref());
    let statement = Statement::about(&address(&work.issue_url, repo), commit.as_str(), predicate);
    let envelope = written(statement.sign(&key).and_then(|envelope| serde_json::to_string(&envelope)))?;
    let kept = work.record.keep_record("statement", envelope.as_bytes()).await?;
    let facts = json!({
        "commit": commit, "statement": {"record": kept, "kind": "statement"}, "issue": {"record": issue, "kind": "issue"},
        "transcript": transcript.map(|(kind, digest)| json!({"record": digest, "kind": kind})),
    });
    work.record.witness(Kind::Verdict, facts).await?;
    work.checkpoint.stated = Some(Stated { about: commit.clone(), envelope, pushed: None });
    work.keep().await
}

/// Pushes the statement to its reference and notes for the pull request where it is, or that the forge did not take it.
pub(super) async fn put(work: &mut Work<'_>, asked: &Asked<'_>, mirror: &Mirror) -> Result<(), Stop> {
    let (Some(mut stated), Some(key)) = (work.checkpoint.stated.clone(), work.parts.signing.clone()) else { return Ok(()) };
    let reference = reference(&work.run.0);
    let file = ChangedFile { path: FILE.into(), before: None, after: Some((BlobMode::File, stated.envelope.clone().into_bytes())) };
    let commit = mirror.commit_alone(&work.run, &[file], &message(work, &stated.about)).await?;
    stated.pushed = Some(commit.clone());
    work.checkpoint.stated = Some(stated.clone());
    work.keep().await?;
    work.record.witness(Kind::ForgeWrite, json!({"to": {"write": "push", "commit": commit, "reference": reference}})).await?;
    let (commit, name) = (&commit, reference.as_str());
    let push = |remote| -> BoxFuture<'_, _> { Box::pin(async move { mirror.push_reference(&remote, commit, name).await }) };
    let refused = match with_access(asked.forge, asked.repo, &push).await {
        Ok(()) => None,
        Err(PublishError::Git(GitError::PushRefused(why))) => Some(why),
        Err(error) => return Err(error.into()),
    };
    if let Some(why) = &refused {
        tracing::warn!(why, "the forge did not take the reference of the statement; the audit export has it");
    }
    work.report.statement = Some(StatementTold { reference, key: signed_by(&stated, &key), refused });
    Ok(())
}

/// A statement that was kept may be signed with an earlier key.
fn signed_by(stated: &Stated, key: &SigningKey) -> String {
    let envelope = serde_json::from_str::<Envelope>(&stated.envelope).ok();
    envelope.and_then(|envelope| Some(envelope.signatures.first()?.keyid.clone())).unwrap_or_else(|| key.public().id())
}

/// Keeps the transcript of the chosen attempt: what the record calls it, and its digest.
async fn keep_transcript(work: &mut Work<'_>) -> Result<Option<(String, Digest)>, Stop> {
    let number = work.report.attempts.iter().find(|attempt| attempt.chosen).map_or(1, |attempt| attempt.number);
    let file = folder_of_attempt(&work.folder, number).join("trajectory.json");
    let Ok(transcript) = tokio::fs::read(file).await else { return Ok(None) };
    let kind = format!("trajectory-{number}");
    let kept = work.record.keep_record(&kind, &transcript).await?;
    Ok(Some((kind, kept)))
}

/// What is said of the commit. No time stands in it, no login and no text of anybody.
fn predicate(work: &Work<'_>, issue: Digest, transcript: Option<Digest>, asked_by: Option<&str>) -> Value {
    let report = &work.report;
    let counts = |told: &Option<Told>| told.as_ref().map(|told| json!([told.passed, told.failed, told.errors, told.skipped]));
    let findings = report.findings.iter().map(|finding| json!({"rule": finding.rule, "severity": finding.severity}));
    json!({
        "run": work.run, "by": concat!("frognano-bot ", env!("CARGO_PKG_VERSION")), "base": report.base, "patch": report.patch_sha256,
        "issue": {"number": work.issue, "snapshot": issue}, "asked_by": asked_by, "policy": report.policy_sha256,
        "model": {"name": work.parts.model.name(), "weights": work.parts.settings.weights_sha256}, "preset": report.preset,
        "image": report.sandbox.as_ref().and_then(|sandbox| sandbox.get("image")), "transcript": transcript,
        "verdict": {
            "proof": report.proof, "findings": findings.collect::<Vec<_>>(),
            "tests": {"command": report.tests.command.as_ref().map(|command| Digest::of(command.as_bytes())),
                "before": counts(&report.tests.before), "after": counts(&report.tests.after)},
        },
    })
}

/// The address of the repository, as people know it by the issue's page.
fn address(issue_url: &str, repo: &RepoRef) -> String {
    match Url::parse(issue_url) {
        Ok(mut url) => {
            let end = url.path().find(&repo.path).map(|at| at + repo.path.len());
            url.set_path(&end.map_or_else(|| repo.path.clone(), |end| url.path()[..end].to_owned()));
            url.set_query(None);
            url.set_fragment(None);
            url.into()
        }
        Err(_) => repo.path.clone(),
    }
}

fn message(work: &Work<'_>, about: &ObjectId) -> CommitMessage {
    let at = work.checkpoint.dated_s.unwrap_or_else(|| work.parts.clock.now_ms() / 1000);
    CommitMessage { text: format!("Statement on {about}\n"), by: work.parts.settings.attribution.clone(), at }
}

fn written<T>(written: Result<T, serde_json::Error>) -> Result<T, Stop> {
    written.map_err(|error| Stop::TryAgain(Fault::Internal, format!("the statement can't be written: {error}")))
}
