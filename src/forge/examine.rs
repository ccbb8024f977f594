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

/// The status that says whether a person has reviewed the head of a pull request of ours.
pub const HUMAN_REVIEW: &str = "frognano/human-review";

/// What stands between our account and a merge into the default branch, as far as the forge tells it.
#[derive(Debug)]
pub(super) struct Wall<'a> {
    /// The default branch.
    pub(super) branch: &'a str,
    /// Whether a merge needs [`HUMAN_REVIEW`].
    pub(super) demands_review: bool,
    /// Our account may push there, without any pull request.
    pub(super) may_push: bool,
    /// Our account may merge there, once all that is demanded is there.
    pub(super) may_merge: bool,
    /// How many approvals by people a merge needs; none where that is not told.
    pub(super) approvals: Option<u64>,
    /// Our account is not held by what is demanded.
    pub(super) passes_over: bool,
    /// What to click so that the status is demanded.
    pub(super) to_demand: &'a str,
    /// What to click so that our account can't merge by itself.
    pub(super) to_hold: &'a str,
}

/// The status alone is no wall against our own account, which sets it: a person's approval is, or that it may not merge.
pub(super) fn judge_wall(checks: &mut Checks, wall: &Wall<'_>) {
    let Wall { branch, to_demand, to_hold, .. } = wall;
    if wall.demands_review {
        checks.ok("human_review", format!("{branch} demands {HUMAN_REVIEW} before a merge"));
    } else {
        checks.warn("human_review", format!("{branch} does not demand {HUMAN_REVIEW} before a merge: {to_demand}"));
    }
    let check = "could_merge";
    match wall.approvals {
        _ if wall.passes_over => {
            checks.fail(check, format!("the bot is an administrator whom the protection of {branch} does not hold: {to_hold}"));
        }
        _ if wall.may_push => checks.fail(check, format!("the bot may push to {branch} directly: {to_hold}")),
        _ if !wall.may_merge => checks.ok(check, format!("the bot may not merge into {branch}")),
        Some(0) => checks.fail(check, format!("the bot could merge into {branch} without a person: {to_hold}")),
        Some(approvals) => {
            checks.ok(check, format!("a merge into {branch} needs {approvals} approval by people, which the bot can't give itself"))
        }
        None => checks.warn(check, format!("it is not told whether a merge into {branch} needs an approval: {to_hold}")),
    }
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
