//! `frognano-bot replay`: the patch of an exported run once more, from the kept answers of its model.
//!
//! What must hold: nothing is believed of a file that does not hold; what is compared is the very patch that the run's chain names.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::audit::{Export, Kind};
use crate::domain::{IssueText, ObjectId, RunId};
use crate::leaf::Trajectory;
use crate::publish::report::Report;
use crate::store::Checkpoint;

use super::audit::public_key;
use super::fix::{Finished, Named, Order, broken_off, repeat, repository};
use super::{fault, usage};

/// Rebuild the patch of an exported run from the kept answers of its model, without any model, and say whether it is the same, byte for byte.
///
/// Exit status: 0 the same patch; 1 another one, or a file that does not hold; 2 nothing to repeat, or a file that can't be read.
#[derive(Debug, Args)]
pub(super) struct Replay {
    /// The file of `audit export`.
    file: PathBuf,
    /// A clone of the repository that has the commit from which the run started; nothing in it is changed.
    #[arg(long)]
    repo: PathBuf,
    /// The public key that must have signed the file, as PEM.
    #[arg(long)]
    key: Option<PathBuf>,
    /// The configuration of the service whose [sandbox] and [run] the run had.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// For machines.
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(super) async fn run(self, stop: CancellationToken) -> ExitCode {
        match self.read() {
            Ok((order, checkpoint, finished)) => repeat(order, checkpoint, &finished, self.json, stop).await,
            Err(failed) => failed,
        }
    }

    fn read(&self) -> Result<(Order, Checkpoint, Finished), ExitCode> {
        let key = self.key.as_deref().map(public_key).transpose()?;
        let bytes = std::fs::read(&self.file).map_err(|error| usage(&[format!("{}: {error}", self.file.display())]))?;
        let (export, _) =
            Export::verify(&bytes, key.as_ref()).map_err(|broken| fault(&format!("{}: does not hold: {broken}", self.file.display())))?;
        let repo = repository(&self.repo).map_err(|why| usage(&[format!("--repo {}: {why}", self.repo.display())]))?;
        let config = self.config.as_deref().map(std::path::absolute).transpose();
        let config = config.map_err(|error| usage(&[format!("--config: {error}")]))?;
        read(&export, repo, config).map_err(|why| usage(&[format!("{}: {why}", self.file.display())]))
    }
}

/// What an export has of a run, as a run of a local repository.
fn read(export: &Export, repo: String, config: Option<PathBuf>) -> Result<(Order, Checkpoint, Finished), String> {
    // Folders and sandboxes are named after it.
    if export.run.is_empty() || export.run.len() > 64 || !export.run.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err("the name of its run is none that this service gives".to_owned());
    }
    let report: Option<Report> = parsed(export.last_record("report"));
    let chosen = report.iter().flat_map(|report| &report.attempts).find(|attempt| attempt.chosen).map_or(1, |attempt| attempt.number);
    let trajectory: Trajectory = parsed(export.last_record(&format!("trajectory-{chosen}")))
        .ok_or("it has no transcript: the model was not asked, or its texts were erased since, as the chain says")?;
    if let Some(why) = broken_off(&trajectory) {
        return Err(why);
    }
    let issue: Value = parsed(export.last_record("issue")).ok_or("it has no issue")?;
    let words = |name: &str| issue.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (base, head) = ground(export);
    if head.is_some() {
        return Err(
            "the run was a further round at a pull request, on top of what people pushed there; only first runs are repeated".to_owned()
        );
    }
    let checkpoint = Checkpoint { base: Some(base.ok_or("no event names the commit that it started from")?), ..Checkpoint::default() };
    let order = Order {
        run: RunId(export.run.clone()),
        repo,
        text: IssueText { title: words("title"), body: words("body") },
        test: None,
        model: Named::Script(Path::new("the kept answers").to_path_buf()),
        bind: Vec::new(),
        config,
    };
    let patch = report.as_ref().filter(|report| report.patch_sha256.is_some()).and_then(|_| export.last_record("patch"));
    Ok((order, checkpoint, Finished { trajectory, patch, report, journal: None }))
}

/// The commits that the run was measured against and that its agent worked on top of.
fn ground(export: &Export) -> (Option<ObjectId>, Option<ObjectId>) {
    let policy = export.events().filter(|(_, event)| event.kind == Kind::Policy && event.facts.get("base").is_some()).last();
    let commit = |name: &str| ObjectId::parse(policy?.1.facts.get(name)?.as_str()?);
    (commit("base"), commit("head"))
}

fn parsed<T: serde::de::DeserializeOwned>(bytes: Option<Vec<u8>>) -> Option<T> {
    serde_json::from_slice(&bytes?).ok()
}
