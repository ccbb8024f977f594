//! Whether a merge into the default branch waits for a person's review, and whether our account could merge without one.
//!
//! Without a licence GitLab demands no single status; but a status that failed is a pipeline that failed.

use serde_json::Value;

use super::client::Client;
use super::rows::permission;
use crate::domain::{Checks, Permission};
use crate::forge::examine::{Wall, judge_wall};

const TO_DEMAND: &str = "Settings, Merge requests, \"Pipelines must succeed\": the failed status is a failed pipeline";
const TO_HOLD: &str = "Settings, Repository, Protected branches: \"Allowed to merge\" Maintainers, \"Allowed to push and merge\" No one, and make the bot Developer";

impl Client {
    /// `project` as GitLab answered it.
    pub(super) async fn wall(&self, checks: &mut Checks, project: &Value, id: &str, branch: &str) {
        let path = ["projects", id, "repository", "branches", branch];
        let there: Value = match self.http.get(format!("branch {branch} of {id}"), &path).await {
            Ok(there) => there,
            Err(error) => return checks.warn("human_review", error.to_string()),
        };
        let levels = ["project_access", "group_access"].map(|way| project["permissions"][way]["access_level"].as_i64());
        let is_maintainer = levels.into_iter().flatten().max().map(permission) == Some(Permission::Admin);
        let is_protected = there["protected"] == true;
        judge_wall(
            checks,
            &Wall {
                branch,
                demands_review: project["only_allow_merge_if_pipeline_succeeds"] == true,
                may_push: !is_protected || there["can_push"] == true,
                may_merge: is_maintainer || there["developers_can_merge"] == true,
                approvals: Some(0),
                passes_over: false,
                to_demand: TO_DEMAND,
                to_hold: TO_HOLD,
            },
        );
    }
}
