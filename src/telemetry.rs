//! What the service tells of itself: [`metrics`], and logs: one line an event, as JSON for machines or as text for a terminal, on the error output. Bodies and secrets are never in them.

pub mod metrics;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts the log. `RUST_LOG` chooses what is told; by default this crate's `info` and everybody's warnings.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,frognano_bot=info"));
    // A line that nobody takes is lost; to complain of it on the same broken pipe would end whoever wrote it.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    let started = if std::io::stderr().is_terminal() { log.compact().try_init() } else { log.json().flatten_event(true).try_init() };
    if let Err(error) = started {
        tracing::debug!(%error, "the log was started already");
    }
}
