//! `frognano-bot queue`: how the queue stands, and the switches that hold it, for all workers of a database.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::app;
use crate::config::Config;
use crate::domain::SystemClock;
use crate::store::{Doer, Store, StoreError};

use super::{fault, print, usage};

/// Look at the queue, hold it, let it go on, stop everything.
#[derive(Debug, Args)]
pub(super) struct Queue {
    /// The configuration file.
    #[arg(long, default_value = "config/frognano.toml", global = true)]
    config: PathBuf,
    /// For machines.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// How many jobs wait, run and ended, and whether the queue is held.
    Show,
    /// Begin nothing more; labels get their answer and their place, runs go on.
    Pause(Said),
    /// Begin jobs again.
    Resume(Said),
    /// Pause, and stop every run on every worker: their sandboxes end, and their issues are told.
    Kill(Said),
}

#[derive(Debug, Args)]
struct Said {
    /// Why, for who asks.
    #[arg(long, default_value = "")]
    why: String,
    /// Who says so.
    #[arg(long, default_value = "an operator")]
    by: String,
}

impl Queue {
    pub(super) async fn run(self) -> ExitCode {
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(complaints) => return usage(&complaints),
        };
        let store = match app::open_store(&config).await {
            Ok(store) => store,
            Err(why) => return fault(&why),
        };
        let done = self.done(&store).await;
        store.close().await;
        match done {
            Ok(told) => {
                print(&told);
                ExitCode::SUCCESS
            }
            Err(error) => fault(&error.to_string()),
        }
    }

    async fn done(&self, store: &Store) -> Result<String, StoreError> {
        let stopped = match &self.act {
            Act::Show => None,
            Act::Pause(said) => store.pause(&Doer::operator(&said.by), &said.why, &SystemClock).await.map(|()| None)?,
            Act::Resume(said) => store.resume(&Doer::operator(&said.by)).await.map(|_| None)?,
            Act::Kill(said) => Some(store.kill(&Doer::operator(&said.by), &said.why, &SystemClock).await?),
        };
        let (summary, paused) = (store.summary().await?, store.paused().await?);
        if self.json {
            let paused = paused.map(|paused| json!({"by": paused.by, "why": paused.why, "on_ms": paused.on_ms}));
            let told = json!({
                "queued": summary.queued, "running": summary.running, "done": summary.done, "paused": paused, "told_to_stop": stopped,
            });
            return Ok(told.to_string());
        }
        let mut told = format!("{} in the queue, {} running, {} done", summary.queued, summary.running, summary.done);
        if let Some(stopped) = stopped {
            told.push_str(&format!("\n{stopped} told to stop"));
        }
        if let Some(paused) = paused {
            let why = if paused.why.is_empty() { String::new() } else { format!(": {}", paused.why) };
            told.push_str(&format!("\nheld by {}{why}; `frognano-bot queue resume` lets it go on", paused.by));
        }
        Ok(told)
    }
}
