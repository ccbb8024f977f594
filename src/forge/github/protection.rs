//! Whether the default branch demands a person's review, and whether our account could merge without one.

use serde_json::Value;

use super::client::Client;
use crate::domain::Checks;
use crate::forge::examine::{HUMAN_REVIEW, Wall, judge_wall};

const TO_DEMAND: &str =
    "Settings, Rules, Rulesets, the ruleset of the branch, \"Require status checks to pass\" with frognano/human-review";
const TO_HOLD: &str = "Settings, Rules, Rulesets, a ruleset for the default branch with \"Require a pull request before merging\" and 1 required approval, the bot not in its bypass list and no administrator";

/// What GitHub asks for before something becomes a branch of ours, or part of one.
const BLOCKING: [&str; 7] = [
    "creation",
    "update",
    "deletion",
    "required_signatures",
    "branch_name_pattern",
    "commit_author_email_pattern",
    "commit_message_pattern",
];

impl Client {
    /// What protects the default branch, by its protection and by rulesets, and whether rules hold for branches of ours. `is_administrator`: our
    /// account, of the repository.
    pub(super) async fn protection(&self, checks: &mut Checks, (owner, name): (&str, &str), branch: &str, is_administrator: bool) {
        let what = format!("branch {branch} of {owner}/{name}");
        match self.http.get::<Value>(what, &["repos", owner, name, "branches", branch]).await {
            Ok(there) => {
                let rules = self.rules(owner, name, branch).await;
                tell_of_protection(checks, &there, &rules, branch);
                judge_wall(checks, &wall(&there, &rules, branch, is_administrator));
            }
            Err(error) => {
                checks.warn("protection", error.to_string());
                checks.warn("human_review", error.to_string());
            }
        }
        let rules = self.rules(owner, name, "frognano/issue-0-doctor").await;
        let found = rules.iter().filter_map(|rule| rule["type"].as_str()).filter(|kind| BLOCKING.contains(kind)).collect::<Vec<_>>();
        if !found.is_empty() {
            checks
                .warn("our_branches", format!("rules of the repository hold for frognano/*: {}; let the bot pass them", found.join(", ")));
        }
    }

    /// The rules that hold for a branch by now, of the repository and of its organisation; none where they can't be read.
    async fn rules(&self, owner: &str, name: &str, branch: &str) -> Vec<Value> {
        let what = format!("rules for {branch} in {owner}/{name}");
        self.http.get(what, &["repos", owner, name, "rules", "branches", branch]).await.unwrap_or_default()
    }
}

/// How many approvals the rules demand before a pull request is merged; none where they demand no pull request.
fn demanded_approvals(rules: &[Value]) -> Option<u64> {
    let demands = rules.iter().filter(|rule| rule["type"] == "pull_request");
    demands.map(|rule| rule["parameters"]["required_approving_review_count"].as_u64().unwrap_or(0)).max()
}

fn tell_of_protection(checks: &mut Checks, there: &Value, rules: &[Value], branch: &str) {
    match demanded_approvals(rules) {
        Some(approvals @ 1..) => checks.ok("protection", format!("a ruleset demands approving reviews for {branch}: {approvals}")),
        _ if there["protected"] == true => {
            checks.ok("protection", format!("{branch} is protected; see that it demands a review, which only administrators are shown"));
        }
        Some(_) => checks.warn(
            "protection",
            format!("a ruleset demands pull requests for {branch}, but no approval: the bot could merge its own; demand one"),
        ),
        None => checks.warn(
            "protection",
            format!("{branch} is not protected: who may write, the bot too, could push to it and merge; demand a review by a person"),
        ),
    }
}

/// Approvals that a protection demands are told to administrators only, those of rulesets to everybody.
fn wall<'a>(there: &Value, rules: &[Value], branch: &'a str, is_administrator: bool) -> Wall<'a> {
    let of_kind = |kind: &'static str| rules.iter().filter(move |rule| rule["type"] == kind).map(|rule| &rule["parameters"]);
    let by_protection = &there["protection"]["required_status_checks"]["contexts"];
    let by_rules = of_kind("required_status_checks").flat_map(|rule| rule["required_status_checks"].as_array().into_iter().flatten());
    let demands_review = by_protection.as_array().into_iter().flatten().any(|context| context == HUMAN_REVIEW)
        || by_rules.map(|check| &check["context"]).any(|context| context == HUMAN_REVIEW);
    let approvals = match demanded_approvals(rules) {
        None if there["protected"] == true => None,
        demanded => Some(demanded.unwrap_or(0)),
    };
    Wall {
        branch,
        demands_review,
        may_push: there["protected"] != true && rules.is_empty(),
        may_merge: of_kind("update").next().is_none(),
        approvals,
        passes_over: is_administrator,
        to_demand: TO_DEMAND,
        to_hold: TO_HOLD,
    }
}
