//! `[telemetry]`: what the service tells of itself to other programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use url::Url;

use super::check::{is_loopback, is_web};
use super::{File, SecretSource};

/// The longest key or value of `attributes`, in bytes, and how many there may be.
const LONGEST: usize = 200;
const MOST: usize = 32;

/// `[telemetry]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// Traces by OpenTelemetry; none are sent without it.
    pub traces: Option<Traces>,
}

/// `[telemetry.traces]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// The collector's address for traces by OTLP over HTTP, its path included: `https://collector:4318/v1/traces`.
    pub endpoint: Url,
    /// A PEM file with the certificates of a private authority.
    pub ca_file: Option<PathBuf>,
    /// The name of a header that the collector wants.
    pub header: Option<String>,
    /// Where the value of that header is.
    pub header_value: Option<SecretSource>,
    /// The header may go over plain HTTP to another machine.
    #[serde(default)]
    pub allow_plain_http: bool,
    /// The name of the service in the traces.
    #[serde(default = "service_name")]
    pub service_name: String,
    /// What else is said of the service, such as `"deployment.environment.name" = "production"`.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// The share of runs of which a trace is sent, 0 to 1.
    #[serde(default = "all")]
    pub share: f64,
    /// The page of a trace where people look at traces, with `{trace}` in the place of its id.
    pub link: Option<String>,
}

fn service_name() -> String {
    "frognano-bot".to_owned()
}

const fn all() -> f64 {
    1.0
}

impl File {
    /// Everything that is wrong in `[telemetry]`, one sentence each.
    pub(super) fn complaints_of_telemetry(&self) -> Vec<String> {
        self.telemetry.traces.as_ref().map(Traces::complaints).unwrap_or_default()
    }
}

impl Traces {
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut demand = |holds: bool, complaint: String| {
            if !holds {
                complaints.push(format!("[telemetry.traces] {complaint}"));
            }
        };
        let endpoint = &self.endpoint;
        demand(is_web(endpoint), "endpoint: no http(s) address".to_owned());
        let has_credential = !endpoint.username().is_empty() || endpoint.password().is_some();
        demand(!has_credential, "endpoint: a credential stands in it; use header and header_value".to_owned());
        demand(endpoint.path().len() > 1, "endpoint: write its path too, as a rule /v1/traces".to_owned());
        demand(self.header.is_some() == self.header_value.is_some(), "header and header_value: either needs the other".to_owned());
        if let Some(header) = &self.header {
            let is_name = !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            let taken = ["host", "content-type", "content-length", "content-encoding", "transfer-encoding", "connection", "user-agent"];
            demand(is_name && !taken.contains(&header.to_lowercase().as_str()), format!("header: {header:?} can't carry a secret"));
            let is_safe = endpoint.scheme() == "https" || is_loopback(endpoint) || self.allow_plain_http;
            demand(
                is_safe,
                "endpoint: http:// would send the header in the clear; use https://, or set allow_plain_http = true".to_owned(),
            );
        }
        if let Some(ca) = &self.ca_file {
            demand(ca.is_file(), format!("ca_file: {} is not there", ca.display()));
        }
        demand(!self.service_name.trim().is_empty() && self.service_name.len() <= LONGEST, "service_name: empty, or too long".to_owned());
        let fits = |text: &String| !text.is_empty() && text.len() <= LONGEST;
        demand(
            self.attributes.len() <= MOST && self.attributes.iter().all(|(key, value)| fits(key) && fits(value)),
            format!("attributes: at most {MOST}, keys and values of 1 to {LONGEST} bytes"),
        );
        demand((0.0..=1.0).contains(&self.share), "share: between 0 and 1".to_owned());
        demand(
            self.link.as_deref().is_none_or(is_link),
            "link: an https:// address with {trace} behind the host, where the trace's id is put".to_owned(),
        );
        complaints
    }
}

/// Whether it leads to a page of one trace, whatever the trace, on one host.
fn is_link(link: &str) -> bool {
    let with = |trace: &str| Url::parse(&link.replace("{trace}", trace)).ok().filter(|url| url.scheme() == "https");
    let (Some(one), Some(other)) = (with("a"), with("b")) else { return false };
    let is_of_one_host = one.host() == other.host() && one.host().is_some() && one.port() == other.port();
    one != other && is_of_one_host && one.username().is_empty() && one.password().is_none()
}

#[cfg(test)]
mod tests {
    use super::{Traces, is_link};

    fn complaints(lines: &str) -> Vec<String> {
        let endpoint = if lines.contains("endpoint") { "" } else { "endpoint = \"https://collector.example.com:4318/v1/traces\"\n" };
        toml::from_str::<Traces>(&format!("{endpoint}{lines}")).unwrap().complaints()
    }

    #[test]
    fn what_can_be_worked_with_is_taken() {
        for lines in [
            "",
            "endpoint = \"http://collector.tracing.svc:4318/v1/traces\"",
            "endpoint = \"http://127.0.0.1:4318/v1/traces\"\nheader = \"Authorization\"\nheader_value = { env = \"X\" }",
            "endpoint = \"http://collector/v1/traces\"\nheader = \"x-key\"\nheader_value = { env = \"X\" }\nallow_plain_http = true",
            "share = 0.1\nservice_name = \"bot\"\nattributes = { \"deployment.environment.name\" = \"production\" }",
            "link = \"https://jaeger.example.com/trace/{trace}\"",
        ] {
            assert_eq!(complaints(lines), Vec::<String>::new(), "{lines}");
        }
    }

    #[test]
    fn what_is_impossible_is_said_all_at_once() {
        for (lines, words) in [
            ("endpoint = \"ftp://collector/v1/traces\"", "no http(s) address"),
            ("endpoint = \"https://me:secret@collector/v1/traces\"", "a credential stands in it"),
            ("endpoint = \"https://collector:4318\"", "write its path too"),
            ("header = \"x-key\"", "either needs the other"),
            ("header_value = { env = \"X\" }", "either needs the other"),
            ("header = \"Content-Type\"\nheader_value = { env = \"X\" }", "can't carry a secret"),
            ("header = \"x y\"\nheader_value = { env = \"X\" }", "can't carry a secret"),
            ("endpoint = \"http://collector/v1/traces\"\nheader = \"x-key\"\nheader_value = { env = \"X\" }", "in the clear"),
            ("ca_file = \"/nowhere/ca.pem\"", "is not there"),
            ("service_name = \" \"", "service_name: empty"),
            ("attributes = { \"\" = \"x\" }", "attributes: at most"),
            ("share = 1.5", "share: between 0 and 1"),
            ("share = nan", "share: between 0 and 1"),
        ] {
            let said = complaints(lines);
            assert!(said.len() == 1 && said[0].starts_with("[telemetry.traces] ") && said[0].contains(words), "{lines}: {said:?}");
        }
        assert_eq!(complaints("share = 2.0\nlink = \"x\"\nheader = \"x\"").len(), 3);
    }

    #[test]
    fn a_link_leads_to_one_host_by_https() {
        for link in ["https://t.example.com/{trace}", "https://t.example.com/?a=1&id={trace}", "https://t.example.com/#/{trace}"] {
            assert!(is_link(link), "{link}");
        }
        for link in [
            "",
            "{trace}",
            "http://t.example.com/{trace}",
            "javascript:alert('{trace}')",
            "https://t.example.com/",
            "https://{trace}.example.com/",
            "https://t.example.com:{trace}/",
            "https://me@t.example.com/{trace}",
            "https:///{trace}",
        ] {
            assert!(!is_link(link), "{link}");
        }
    }
}
