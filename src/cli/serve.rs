//! `frognano-bot serve`

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;

use crate::app;
use crate::config::Config;
use crate::telemetry;

use super::{fault, usage};

/// Run the service.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The configuration file.
    #[arg(long, default_value = "config/frognano.toml")]
    config: PathBuf,
    /// Only a part of the service; the other part runs in other processes of the same PostgreSQL database.
    #[arg(long)]
    only: Option<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Take webhooks in.
    Web,
    /// Work on jobs.
    Worker,
}

impl Serve {
    pub(super) async fn run(self, stop: CancellationToken) -> ExitCode {
        telemetry::start();
        telemetry::metrics::start();
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(complaints) => return usage(&complaints),
        };
        match app::redactor(&config) {
            Ok(redactor) => telemetry::redact_with(Arc::new(redactor)),
            Err(why) => return usage(&[why]),
        }
        let is_shared = config.file.service.database.as_deref().is_some_and(|database| database.starts_with("postgres"));
        if self.only.is_some() && !is_shared {
            return usage(&["--only: needs a PostgreSQL database ([service] database), which the other part shares".to_owned()]);
        }
        let stopping = stop.clone();
        tokio::spawn(async move {
            stopping.cancelled().await;
            tracing::info!("stopping: nothing new is taken in");
        });
        let forges = config.file.forges.len();
        let served = if self.only == Some(Part::Web) {
            match app::build_door(&config).await {
                Ok(door) => {
                    tracing::info!(address = %door.address, forges, "taking webhooks in");
                    door.run(stop).await
                }
                Err(complaints) => return usage(&complaints),
            }
        } else {
            match app::build(&config).await {
                Ok(service) => {
                    tracing::info!(address = %service.address, forges, "serving");
                    let service = if self.only == Some(Part::Worker) { service.without_webhooks() } else { service };
                    service.run(stop).await
                }
                Err(complaints) => return usage(&complaints),
            }
        };
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fault(&error.to_string()),
        }
    }
}
