//! Whether the default branch demands a person's review, and whether our account could merge without one.

use serde_json::Value;

use super::client::Client;
use crate::domain::Checks;
use crate::forge::examine::{HUMAN_REVIEW, Wall, judge_wall};

const TO_DEMAND: &str = "Settings, Branches, the rule of the branch, \"Enable Status Check\" with frognano/human-review";
const TO_HOLD: &str = "Settings, Branches, the rule of the branch: \"Disable Push\", \"Required approvals\" 1 or a merge whitelist without the bot, and \"Block merge even for administrators\" (Forgejo: \"Enforce this rule for repository admins\")";

impl Client {
    /// `is_administrator`: our account, of the repository.
    pub(super) async fn wall(&self, checks: &mut Checks, (owner, name): (&str, &str), branch: &str, is_administrator: bool) {
        let what = format!("branch {branch} of {owner}/{name}");
        let there: Value = match self.http.get(what, &["repos", owner, name, "branches", branch]).await {
            Ok(there) => there,
            Err(error) => return checks.warn("human_review", error.to_string()),
        };
        let mut contexts = there["status_check_contexts"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let demands_review = there["enable_status_check"] == true && contexts.any(|context| covers(context, HUMAN_REVIEW));
        let passes_over = match there["effective_branch_protection_name"].as_str().filter(|rule| is_administrator && !rule.is_empty()) {
            Some(rule) => !self.holds_administrators(owner, name, rule).await,
            None => false,
        };
        let is_protected = there["protected"] == true;
        judge_wall(
            checks,
            &Wall {
                branch,
                demands_review,
                may_push: !is_protected || there["user_can_push"] == true,
                may_merge: there["user_can_merge"] != false,
                approvals: there["required_approvals"].as_u64(),
                passes_over,
                to_demand: TO_DEMAND,
                to_hold: TO_HOLD,
            },
        );
        if !is_administrator {
            let why = "the forge tells the rights of people to administrators of the repository alone: no approval can be counted; make the bot one";
            checks.warn("approvers", why);
        } else if is_protected && !passes_over {
            let why = "the bot is an administrator of the repository, as it must be to ask for the rights of people: whoever has its token could lift the protection";
            checks.warn("approvers", why);
        }
    }

    /// Gitea and Forgejo have different words for it.
    async fn holds_administrators(&self, owner: &str, name: &str, rule: &str) -> bool {
        let what = format!("the protection {rule} of {owner}/{name}");
        let there = self.http.get::<Value>(what, &["repos", owner, name, "branch_protections", rule]).await.unwrap_or_default();
        there["block_admin_merge_override"] == true || there["apply_to_admins"] == true
    }
}

/// Whether a required context, in which `*` stands for anything, is met by this one.
fn covers(required: &str, context: &str) -> bool {
    required == context || required.strip_suffix('*').is_some_and(|start| context.starts_with(start))
}
