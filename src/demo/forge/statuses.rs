//! Statuses of commits as the API tells them, and what the protection of a branch demands, in the words of each face.

use serde_json::{Value, json};

use super::requests::Status;
use super::state::{Repository, State};
use crate::demo::git_backend;

impl State {
    /// The status that a commit has now under a context.
    pub(super) fn latest_status(&self, repository: u64, commit: &str, context: &str) -> Option<&Status> {
        let is_it = |status: &&Status| status.repository == repository && status.commit == commit && status.context == context;
        self.statuses.iter().rfind(is_it)
    }

    /// The latest status of each context, the newest first.
    pub(super) fn latest_statuses(&self, repository: u64, commit: &str) -> Vec<&Status> {
        let mut latest: Vec<&Status> = Vec::new();
        for status in self.statuses.iter().rev().filter(|status| status.repository == repository && status.commit == commit) {
            if latest.iter().all(|there| there.context != status.context) {
                latest.push(status);
            }
        }
        latest
    }

    /// All of a commit's in one, as GitHub (`word` is `state`), Gitea and Forgejo (`status`) have it; none for a commit that is not there.
    pub(super) fn combined_status(&self, repository: &Repository, commit: &str, word: &str) -> Option<Value> {
        git_backend::commits_ahead(&repository.git_dir, commit, commit)?;
        let latest = self.latest_statuses(repository.id, commit);
        let all_green = !latest.is_empty() && latest.iter().all(|status| status.state == "success");
        let rows = latest.iter().map(|status| {
            let mut row = json!({ "context": status.context, "description": status.description, "target_url": null });
            row[word] = status.state.as_str().into();
            row
        });
        let state = if all_green { "success" } else { "pending" };
        Some(json!({ "sha": commit, "state": state, "total_count": latest.len(), "statuses": rows.collect::<Vec<_>>() }))
    }

    /// What GitHub tells everybody of a protected branch.
    pub(super) fn protection_by_branch(&self, protected: bool) -> Value {
        let contexts = if protected { self.protection.statuses.clone() } else { Vec::new() };
        let level = if contexts.is_empty() { "off" } else { "non_admins" };
        json!({ "enabled": protected, "required_status_checks": { "enforcement_level": level, "contexts": contexts, "checks": [] } })
    }

    /// The rules of GitHub's rulesets for a branch: that reviews are demanded stands here, since branch protection hides it.
    pub(super) fn rules_for(&self, repository: &Repository, branch: &str) -> Value {
        if let Some(rules) = self.rules.get(branch) {
            return rules.clone();
        }
        if !self.protected || branch != repository.default_branch || self.protection.approvals == 0 {
            return json!([]);
        }
        let parameters = json!({ "required_approving_review_count": self.protection.approvals, "dismiss_stale_reviews_on_push": false });
        json!([{ "type": "pull_request", "parameters": parameters, "ruleset_id": 1 }])
    }
}
