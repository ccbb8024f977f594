//! What the examinations of all forges share.

use serde_json::Value;

use super::ForgeError;
use crate::domain::{Checks, RepoRef};

/// What is to be examined.
#[derive(Debug, Clone, Copy)]
pub struct Examination<'a> {
    /// The repositories to look at.
    pub repositories: &'a [RepoRef],
}

/// The first call failed: whether the forge is not there or does not let us in.
pub(super) fn not_let_in(checks: &mut Checks, error: &ForgeError) -> bool {
    match error {
        ForgeError::Denied { .. } => {
            checks.ok("reachable", "it answers");
            checks.fail("token", error.to_string());
        }
        _ => checks.fail("reachable", format!("{error}; see url, api_url, internal_url and ca_file")),
    }
    false
}

/// The webhook that leads to this service: its address ends in `/webhooks/NAME`.
pub(super) fn hook_of<'a>(hooks: &'a [Value], name: &str) -> Option<&'a Value> {
    let ends = format!("/webhooks/{name}");
    hooks.iter().find(|hook| hook["config"]["url"].as_str().is_some_and(|url| url.trim_end_matches('/').ends_with(&ends)))
}

/// Whether a webhook is as it has to be; one of `events` is enough.
pub(super) fn judge_hook(checks: &mut Checks, hook: &Value, events: &[&str]) {
    let has = |event: &str| hook["events"].as_array().is_some_and(|there| there.iter().any(|name| name == event || name == "*"));
    if hook["active"] != true {
        checks.fail("webhook", "it is switched off: make it active");
    } else if !events.iter().any(|event| has(event)) {
        checks.fail("webhook", format!("it does not send the event {}", events.join(" or ")));
    } else if hook["config"]["insecure_ssl"] == "1" {
        checks.warn("webhook", "it does not check our certificate: switch SSL verification on");
    } else {
        checks.ok("webhook", "there and active");
    }
}
