//! What an administrator should know about a GitLab before it is relied on. Everything here only reads.

use serde_json::Value;

use super::client::Client;
use super::rows::permission;
use crate::domain::{Check, Checks, Permission, RepoRef};
use crate::forge::examine::not_let_in;
use crate::forge::{Examination, ForgeError};

/// The one scope that all calls need; for git it holds what it has to.
const NEEDED: &str = "api";

impl Client {
    pub(super) async fn examined(&self, examination: &Examination<'_>) -> Vec<Check> {
        let mut checks = Checks::of(&self.settings.name);
        let works = self.the_forge(&mut checks).await;
        let mut made = checks.done();
        if works {
            for repo in examination.repositories {
                let mut checks = Checks::of(format!("{} {}", self.settings.name, repo.path));
                self.one_project(&mut checks, repo).await;
                made.extend(checks.done());
            }
        }
        made
    }

    async fn the_forge(&self, checks: &mut Checks) -> bool {
        let user: Value = match self.http.get("our own account".to_owned(), &["user"]).await {
            Ok(user) => user,
            Err(error) => return not_let_in(checks, &error),
        };
        checks.ok("reachable", format!("answers at {}", self.settings.api_base));
        checks.ok("token", format!("valid, of the account {}", user["username"].as_str().unwrap_or("?")));
        match self.http.get::<Value>("its version".to_owned(), &["version"]).await {
            Ok(version) => checks.ok("version", version["version"].as_str().unwrap_or("?")),
            Err(error) => checks.warn("version", error.to_string()),
        }
        if user["is_admin"] == true {
            checks.warn("too_wide", "the account administrates the whole GitLab: use one that does not");
        }
        match self.http.get::<Value>("our own token".to_owned(), &["personal_access_tokens", "self"]).await {
            Ok(token) => judge_scopes(checks, &token),
            Err(error) => checks.warn("scopes", format!("{error}; the token needs the scope {NEEDED}")),
        }
        true
    }

    /// By its number, or where only a path is known by that.
    async fn one_project(&self, checks: &mut Checks, repo: &RepoRef) {
        let id = if repo.id.is_empty() { &repo.path } else { &repo.id };
        let there: Value = match self.http.get(format!("project {}", repo.path), &["projects", id]).await {
            Ok(there) => there,
            Err(error) => return checks.fail("repository", format!("{error}; make the bot a member of it")),
        };
        checks.ok("repository", "can be seen");
        if there["archived"] == true {
            checks.fail("repository", "it is archived");
        }
        judge_access(checks, &there);
        checks.ok("permissions", "the rights of people can be asked for");
        checks.ok("drafts", "by the title's Draft:; what is no draft then is closed again");
        if let Some(branch) = there["default_branch"].as_str() {
            self.protection(checks, id, branch).await;
            self.wall(checks, &there, id, branch).await;
        }
        self.hook(checks, id).await;
    }

    async fn protection(&self, checks: &mut Checks, id: &str, branch: &str) {
        let path = ["projects", id, "repository", "branches", branch];
        match self.http.get::<Value>(format!("branch {branch} of {id}"), &path).await {
            Ok(there) if there["protected"] != true => {
                let risk = "is not protected: who may write, the bot too, could push to it and merge; demand a review by a person";
                checks.warn("protection", format!("{branch} {risk}"));
            }
            Ok(there) if there["can_push"] == true || there["developers_can_merge"] == true => {
                checks.warn("protection", format!("{branch} is protected, but the bot may push or merge there: let maintainers alone"));
            }
            Ok(_) => checks.ok("protection", format!("{branch} is protected from the bot")),
            Err(error) => checks.warn("protection", error.to_string()),
        }
    }

    /// Only maintainers may see hooks, and the bot should be none.
    async fn hook(&self, checks: &mut Checks, id: &str) {
        let hooks: Vec<Value> = match self.http.get(format!("webhooks of {id}"), &["projects", id, "hooks"]).await {
            Ok(hooks) => hooks,
            Err(ForgeError::Denied { .. } | ForgeError::NotFound { .. }) => {
                return checks.warn(
                    "webhook",
                    "the bot may not see webhooks: see in the project's settings that there is one and that it is not disabled",
                );
            }
            Err(error) => return checks.warn("webhook", error.to_string()),
        };
        let ends = format!("/webhooks/{}", self.settings.name);
        let ours = hooks.iter().find(|hook| hook["url"].as_str().is_some_and(|url| url.trim_end_matches('/').ends_with(&ends)));
        match ours {
            Some(hook) => judge_hook(checks, hook),
            None => checks.fail("webhook", format!("none whose address ends in {ends}: add it, or one of the group")),
        }
    }
}

fn judge_scopes(checks: &mut Checks, token: &Value) {
    let scopes = token["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    if scopes.contains(&NEEDED) {
        let until = token["expires_at"].as_str().map_or_else(String::new, |day| format!("; the token expires on {day}"));
        checks.ok("scopes", format!("{NEEDED}, as needed{until}"));
    } else {
        checks.fail("scopes", format!("the token has {} but needs {NEEDED}", scopes.join(", ")));
    }
    let excess = scopes.into_iter().filter(|scope| *scope != NEEDED && !is_part_of_needed(scope)).collect::<Vec<_>>();
    if !excess.is_empty() {
        checks.warn("too_wide", format!("the token has {} beyond its need: make one with {NEEDED} alone", excess.join(", ")));
    }
}

fn is_part_of_needed(scope: &str) -> bool {
    matches!(scope, "read_api" | "read_user" | "read_repository" | "write_repository" | "self_rotate")
}

fn judge_access(checks: &mut Checks, project: &Value) {
    let levels = ["project_access", "group_access"].map(|way| project["permissions"][way]["access_level"].as_i64());
    match levels.into_iter().flatten().max().map(permission) {
        None => checks.warn("write", "it is not listed how the bot gets in: see that it is Developer"),
        Some(Permission::Write) => checks.ok("write", "the bot may push"),
        Some(Permission::Admin) => {
            checks.ok("write", "the bot may push");
            checks.warn("too_wide", "the bot is Maintainer or more and could lift the protection of branches: Developer is enough");
        }
        Some(_) => checks.fail("write", "the bot may not push: make it Developer"),
    }
}

/// GitLab switches a hook off for a while, and at last for good, when it is not answered as it wants.
fn judge_hook(checks: &mut Checks, hook: &Value) {
    let status = hook["alert_status"].as_str().unwrap_or("executable");
    if status != "executable" {
        checks.fail(
            "webhook",
            format!("GitLab paused it ({status}) after failed deliveries: press Test on its page once this service answers"),
        );
    } else if hook["issues_events"] != true {
        checks.fail("webhook", "it does not send issue events");
    } else if hook["note_events"] != true || hook["merge_requests_events"] != true {
        checks.warn("webhook", "it does not send comments or merge request events, so that commands and reviews are not heard");
    } else if hook["enable_ssl_verification"] == false {
        checks.warn("webhook", "it does not check our certificate: switch SSL verification on");
    } else {
        checks.ok("webhook", "there and working");
    }
}
