//! Whether the default branch demands a person's review, and whether our account could merge without one.

use serde_json::Value;

use super::client::Client;
use crate::domain::Checks;
use crate::forge::examine::{HUMAN_REVIEW, Wall, judge_wall};

const TO_DEMAND: &str =
    "Settings, Rules, Rulesets, the ruleset of the branch, \"Require status checks to pass\" with frognano/human-review";
const TO_HOLD: &str = "Settings, Rules, Rulesets, a ruleset for the default branch with \"Require a pull request before merging\" and 1 required approval, the bot not in its bypass list and no administrator";

impl Client {
    /// By the protection of the branch and by rulesets. Approvals that a protection demands are told to administrators only, those of rulesets
    /// to everybody. `is_administrator`: our account, of the repository.
    pub(super) async fn wall(&self, checks: &mut Checks, (owner, name): (&str, &str), branch: &str, is_administrator: bool) {
        let what = format!("branch {branch} of {owner}/{name}");
        let there: Value = match self.http.get(what, &["repos", owner, name, "branches", branch]).await {
            Ok(there) => there,
            Err(error) => return checks.warn("human_review", error.to_string()),
        };
        let what = format!("rules for {branch} in {owner}/{name}");
        let rules = self.http.get::<Vec<Value>>(what, &["repos", owner, name, "rules", "branches", branch]).await.unwrap_or_default();
        let of_kind = |kind: &'static str| rules.iter().filter(move |rule| rule["type"] == kind).map(|rule| &rule["parameters"]);
        let by_protection = &there["protection"]["required_status_checks"]["contexts"];
        let by_rules = of_kind("required_status_checks").flat_map(|rule| rule["required_status_checks"].as_array().into_iter().flatten());
        let demands_review = by_protection.as_array().into_iter().flatten().any(|context| context == HUMAN_REVIEW)
            || by_rules.map(|check| &check["context"]).any(|context| context == HUMAN_REVIEW);
        let by_rules = of_kind("pull_request").filter_map(|rule| rule["required_approving_review_count"].as_u64()).max().unwrap_or(0);
        let approvals = match by_rules {
            0 if there["protected"] == true && of_kind("pull_request").next().is_none() => None,
            approvals => Some(approvals),
        };
        judge_wall(
            checks,
            &Wall {
                branch,
                demands_review,
                may_push: there["protected"] != true && rules.is_empty(),
                may_merge: of_kind("update").next().is_none(),
                approvals,
                passes_over: is_administrator,
                to_demand: TO_DEMAND,
                to_hold: TO_HOLD,
            },
        );
    }
}
