//! What a local run was asked for, kept beside its results, so that it can be gone on with or repeated.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::app;
use crate::config::File;
use crate::domain::{IssueText, RunId, SystemClock};
use crate::model::Client;
use crate::pipeline;
use crate::store::Checkpoint;

use super::Prepared;
use super::model::Named;
use super::python::python_of_this_shell;

const ORDER: &str = "kept/order.json";
const CHECKPOINT: &str = "kept/checkpoint.json";

/// What was asked for; every path in it is absolute.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::cli) struct Order {
    /// The run.
    pub(in crate::cli) run: RunId,
    /// The repository.
    pub(in crate::cli) repo: String,
    /// The issue.
    pub(in crate::cli) text: IssueText,
    /// The command of the tests.
    pub(in crate::cli) test: Option<String>,
    /// Who answers.
    pub(in crate::cli) model: Named,
    /// Further folders in the sandbox.
    pub(in crate::cli) bind: Vec<PathBuf>,
    /// A configuration.
    pub(in crate::cli) config: Option<PathBuf>,
}

impl Order {
    /// Reads what was asked for and what is finished.
    pub(super) fn read(folder: &Path) -> Result<(Self, Checkpoint), String> {
        let text =
            std::fs::read(folder.join(ORDER)).map_err(|error| format!("there is no run of `frognano-bot fix` in it ({ORDER}: {error})"))?;
        let order = serde_json::from_slice(&text).map_err(|error| format!("{ORDER}: {error}"))?;
        let checkpoint = std::fs::read(folder.join(CHECKPOINT)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Ok((order, checkpoint.unwrap_or_default()))
    }

    pub(super) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder.join("kept"))?;
        std::fs::write(folder.join(ORDER), serde_json::to_string_pretty(self)?)
    }

    /// What is wrong with the files that it names.
    pub(super) fn complaints(&self) -> Vec<String> {
        let model = self.client(0).err();
        let config = self.file().err().unwrap_or_default();
        model.into_iter().chain(config).collect()
    }

    /// Everything that the run needs.
    pub(super) async fn prepare(self, out: PathBuf, mut checkpoint: Checkpoint, goes_on: bool) -> Result<Prepared, Vec<String>> {
        let kept = if goes_on { pipeline::kept_run(&out) } else { None };
        let kept = kept.filter(|(base, _)| checkpoint.base.as_ref().is_none_or(|known| known == base));
        let done = kept.as_ref().map_or(0, |(_, steps)| *steps);
        checkpoint.base = checkpoint.base.or(kept.map(|(base, _)| base));
        let model = self.client(done).map_err(|why| vec![why])?;
        self.prepare_with(out, checkpoint, model).await
    }

    /// The same with another model.
    pub(super) async fn prepare_with(self, out: PathBuf, checkpoint: Checkpoint, model: Client) -> Result<Prepared, Vec<String>> {
        let data = tempfile::Builder::new().prefix("frognano-").tempdir().map_err(|error| vec![format!("no temporary folder: {error}")])?;
        open_for_the_sandbox(data.path());
        let file = self.file()?;
        let sandboxes = app::sandboxes_here(&file, data.path(), Vec::new())?;
        let clock = Arc::new(SystemClock);
        let parts = app::assemble(&file, data.path(), Arc::new(sandboxes), Arc::new(model), clock, self.test.clone()).await?;
        Ok(Prepared { parts, order: self, checkpoint, out, _data: data })
    }

    /// The model, after the first `done` answers.
    fn client(&self, done: usize) -> Result<Client, String> {
        let local = || nowhere().map(|url| File::local(url, "local"));
        let file = self.configured().ok().flatten().map_or_else(local, Ok).map_err(|why| why.join("; "))?;
        let folder = self.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
        self.model.client(done, &file, folder)
    }

    fn configured(&self) -> Result<Option<File>, Vec<String>> {
        self.config.as_deref().map(File::load_without_forges).transpose()
    }

    fn file(&self) -> Result<File, Vec<String>> {
        let mut file = match self.configured()? {
            Some(file) => file,
            None => File::local(nowhere()?, "local"),
        };
        file.sandbox.binds.extend(self.bind.iter().cloned());
        if let Some(python) = python_of_this_shell() {
            file.sandbox.path.push(python.prefix.join("bin"));
            file.sandbox.binds.extend([python.prefix, python.base_prefix]);
            file.sandbox.binds.sort();
            file.sandbox.binds.dedup();
        }
        Ok(file)
    }
}

/// Keeps what is finished.
pub(super) fn keep(folder: &Path, checkpoint: &Checkpoint) -> std::io::Result<()> {
    std::fs::create_dir_all(folder.join("kept"))?;
    let half_written = folder.join("kept/checkpoint.json.new");
    std::fs::write(&half_written, serde_json::to_string(checkpoint)?)?;
    std::fs::rename(half_written, folder.join(CHECKPOINT))
}

/// Without a configuration the model is named on the command line alone.
fn nowhere() -> Result<url::Url, Vec<String>> {
    url::Url::parse("http://localhost/").map_err(|error| vec![error.to_string()])
}

/// The sandbox's own small files lie below this folder and are read by its user, who is not ours when we are root.
fn open_for_the_sandbox(folder: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(folder, mode).ok();
}
