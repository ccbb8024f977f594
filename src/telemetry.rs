//! What the service tells of itself: [`metrics`], [`traces`], and logs: one line an event, as JSON for machines or as text for a terminal, on the error output. Bodies and secrets are never in them.

pub mod metrics;
pub mod traces;

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, OnceLock};

use tracing_subscriber::EnvFilter;

use crate::domain::Redactor;

/// What takes secrets out of each line; nothing does before the configuration is read.
static REDACTOR: OnceLock<Arc<Redactor>> = OnceLock::new();

/// From now on secrets are taken out of each line, whatever told them.
pub fn redact_with(redactor: Arc<Redactor>) {
    REDACTOR.set(redactor).ok();
}

/// The error output, line by line without secrets.
struct Redacted;

impl Write for Redacted {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        match REDACTOR.get() {
            Some(redactor) => io::stderr().write_all(redactor.text(&text).as_bytes())?,
            None => io::stderr().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Starts the log. `RUST_LOG` chooses what is told; by default this crate's `info` and everybody's warnings.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,frognano_bot=info"));
    // A line that nobody takes is lost; to complain of it on the same broken pipe would end whoever wrote it.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Redacted).log_internal_errors(false);
    let started = if std::io::stderr().is_terminal() { log.compact().try_init() } else { log.json().flatten_event(true).try_init() };
    if let Err(error) = started {
        tracing::debug!(%error, "the log was started already");
    }
}
