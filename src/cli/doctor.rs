//! `frognano-bot doctor`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::app::doctor;
use crate::config::{Config, File};
use crate::domain::{Check, Health, RepoRef};

use super::{print, usage};

/// Look whether everything that a run needs is there, and not more than it needs; nothing is changed on any forge.
///
/// Exit status: 0 when nothing would fail, 1 when something would, 2 for a configuration that can't be read.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// The configuration file.
    #[arg(long, default_value = "config/frognano.toml")]
    config: PathBuf,
    /// A repository to look at, `owner/name` or `FORGE:owner/name`; without, those that were worked on.
    #[arg(long = "repo", value_name = "REPOSITORY")]
    repositories: Vec<String>,
    /// One JSON object in place of the table.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) async fn run(self) -> ExitCode {
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(complaints) => return usage(&complaints),
        };
        let named = match self.repositories.iter().map(|text| named(&config.file, text)).collect::<Result<Vec<_>, _>>() {
            Ok(named) => named,
            Err(complaint) => return usage(&[complaint]),
        };
        let checks = doctor::examine(&config, &named).await;
        let ok = checks.iter().all(|check| check.status != Health::Fail);
        if self.json {
            print(&json!({"ok": ok, "checks": checks}).to_string());
        } else {
            print(&table(&checks));
        }
        ExitCode::from(u8::from(!ok))
    }
}

/// The repository that was meant; the forge may be left out where there is one.
fn named(file: &File, text: &str) -> Result<RepoRef, String> {
    let (forge, path) = match text.split_once(':') {
        Some((forge, path)) => (forge, path),
        None if file.forges.len() == 1 => (file.forges[0].name.as_str(), text),
        None => return Err(format!("--repo {text}: there are several forges; write FORGE:{text}")),
    };
    if !file.forges.iter().any(|entry| entry.name == forge) {
        return Err(format!("--repo {text}: there is no [[forge]] {forge:?}"));
    }
    Ok(RepoRef { forge: forge.to_owned(), id: String::new(), path: path.to_owned() })
}

fn table(checks: &[Check]) -> String {
    let width = |of: fn(&Check) -> usize| checks.iter().map(of).max().unwrap_or(0);
    let (subject, check) = (width(|check| check.subject.chars().count()), width(|check| check.check.len()));
    let word = |status| match status {
        Health::Ok => "ok",
        Health::Warn => "warn",
        Health::Fail => "FAIL",
    };
    let lines =
        checks.iter().map(|row| format!("{:<4}  {:<subject$}  {:<check$}  {}", word(row.status), row.subject, row.check, row.detail));
    lines.collect::<Vec<_>>().join("\n")
}
