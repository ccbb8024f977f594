//! `frognano-bot serve`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::app;
use crate::config::Config;
use crate::telemetry;

use super::{asked_to_stop, fault, usage};

/// Run the service.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The configuration file.
    #[arg(long, default_value = "config/frognano.toml")]
    config: PathBuf,
}

impl Serve {
    pub(super) async fn run(self) -> ExitCode {
        telemetry::start();
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(complaints) => return usage(&complaints),
        };
        let service = match app::build(&config).await {
            Ok(service) => service,
            Err(complaints) => return usage(&complaints),
        };
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let asked = asked_to_stop();
        tokio::spawn(async move {
            asked.await;
            tracing::info!("stopping: nothing new is taken in");
            stopping.cancel();
        });
        tracing::info!(address = %service.address, forges = config.file.forges.len(), "serving");
        match service.run(stop).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fault(&error.to_string()),
        }
    }
}
