//! Where the traces of runs go, and what people are shown of them.

use std::sync::Arc;

use super::forges::read_ca;
use crate::config::Config;
use crate::domain::Clock;
use crate::telemetry::traces::{Pace, Settings, Shown, Traces};

/// How the collector is reached; none where none is configured.
///
/// # Errors
/// When the certificates can't be read.
pub(super) fn settings(config: &Config) -> Result<Option<Settings>, String> {
    let Some(traces) = &config.file.telemetry.traces else { return Ok(None) };
    let of_the_service = [
        ("service.name", traces.service_name.clone()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", config.file.service.worker.clone()),
    ];
    let of_the_service = of_the_service.map(|(key, value)| (key.to_owned(), value)).into_iter();
    let further = traces.attributes.iter().map(|(key, value)| (key.clone(), value.clone()));
    let is_left = |(key, _): &(String, String)| !traces.attributes.contains_key(key);
    Ok(Some(Settings {
        endpoint: traces.endpoint.clone(),
        header: traces.header.clone().zip(config.traces_header.clone()),
        ca_bundle: read_ca(traces.ca_file.as_deref()).map_err(|why| format!("[telemetry.traces] ca_file: {why}"))?,
        resource: of_the_service.filter(is_left).chain(further).collect(),
        share: traces.share,
        pace: Pace::default(),
    }))
}

/// The traces that are sent: none where none are configured.
///
/// # Errors
/// When the certificates or the header can't be used.
pub(super) fn sent(config: &Config, clock: &Arc<dyn Clock>) -> Result<Traces, String> {
    match settings(config)? {
        Some(settings) => Traces::start(settings, clock.clone()).map_err(|why| format!("[telemetry.traces] {why}")),
        None => Ok(Traces::default()),
    }
}

/// The traces that people can look at.
pub(super) fn shown(config: &Config) -> Option<Shown> {
    config.file.telemetry.traces.as_ref().map(|traces| Shown { share: traces.share, link: traces.link.clone() })
}
