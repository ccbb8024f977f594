//! What an administrator should know about a Gitea or Forgejo before it is relied on. Everything here only reads.

use serde_json::Value;

use super::client::Client;
use crate::domain::{Check, Checks, RepoRef};
use crate::forge::address::owner_and_name;
use crate::forge::examine::{hook_of, judge_hook, not_let_in};
use crate::forge::{Examination, ForgeError};

/// What only a token with more than it needs may read.
const EXCESS: [(&str, &[&str]); 2] = [("read:admin", &["admin", "orgs"]), ("read:notification", &["notifications", "new"])];

impl Client {
    pub(super) async fn examined(&self, examination: &Examination<'_>) -> Vec<Check> {
        let mut checks = Checks::of(&self.settings.name);
        let works = self.the_forge(&mut checks).await;
        let mut made = checks.done();
        if works {
            for repo in examination.repositories {
                let mut checks = Checks::of(format!("{} {}", self.settings.name, repo.path));
                self.one_repository(&mut checks, repo).await;
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
        checks.ok("token", format!("valid, of the account {}", user["login"].as_str().unwrap_or("?")));
        match self.http.get::<Value>("its version".to_owned(), &["version"]).await {
            Ok(version) => checks.ok("version", version["version"].as_str().unwrap_or("?")),
            Err(error) => checks.warn("version", error.to_string()),
        }
        if user["is_admin"] == true {
            checks.warn("too_wide", "the account administrates the whole forge: use one that does not");
        }
        for (scope, path) in EXCESS {
            if self.http.get::<Value>(format!("a call that needs {scope}"), path).await.is_ok() {
                checks.warn("too_wide", format!("the token has {scope}: make one with write:repository, write:issue, read:user"));
            }
        }
        true
    }

    async fn one_repository(&self, checks: &mut Checks, repo: &RepoRef) {
        let Ok((owner, name)) = owner_and_name(repo) else { return checks.fail("repository", "its path is not owner/name") };
        let there: Value = match self.http.get(format!("repository {}", repo.path), &["repos", owner, name]).await {
            Ok(there) => there,
            Err(error) => return checks.fail("repository", format!("{error}; give the bot access to it")),
        };
        checks.ok("repository", "can be seen");
        if there["archived"] == true {
            checks.fail("repository", "it is archived");
        }
        let may = &there["permissions"];
        if may["push"] == true {
            checks.ok("write", "the bot may push");
        } else {
            checks.fail("write", "the bot may not push: give it write access");
        }
        if may["admin"] == true {
            checks.ok(
                "permissions",
                "the rights of people can be asked for; protect the branch, since an administrator can lift protections",
            );
        } else {
            let why = "the forge tells rights only to administrators of the repository: labels count only from people who set them on an issue that somebody else opened; make the bot administrator to ask";
            checks.warn("permissions", why);
        }
        checks.ok(
            "drafts",
            "by the title's WIP:, unless the forge's administrator took that prefix away; what is no draft then is closed again",
        );
        self.issues(checks, owner, name).await;
        self.protection(checks, owner, name, there["default_branch"].as_str().unwrap_or("main")).await;
        self.wall(checks, (owner, name), there["default_branch"].as_str().unwrap_or("main"), may["admin"] == true).await;
        self.hook(checks, owner, name).await;
    }

    async fn issues(&self, checks: &mut Checks, owner: &str, name: &str) {
        match self.http.get::<Value>(format!("labels of {owner}/{name}"), &["repos", owner, name, "labels"]).await {
            Ok(_) => checks.ok("scopes", "the token reads repositories and issues; its scopes can't be listed (the forge shows them to the account's password alone), so whether it writes shows at the first label"),
            Err(error) => checks.fail("scopes", format!("{error}; the token needs write:repository, write:issue, read:user")),
        }
    }

    async fn protection(&self, checks: &mut Checks, owner: &str, name: &str, default_branch: &str) {
        let what = format!("branch {default_branch} of {owner}/{name}");
        match self.http.get::<Value>(what, &["repos", owner, name, "branches", default_branch]).await {
            Ok(branch) if branch["protected"] != true => checks.warn(
                "protection",
                format!(
                    "{default_branch} is not protected: who may write, the bot too, could push to it and merge; demand a review by a person"
                ),
            ),
            Ok(branch) if branch["user_can_push"] == true || branch["user_can_merge"] == true => {
                checks.warn(
                    "protection",
                    format!("{default_branch} is protected, but the bot may push or merge there: take it off the list"),
                );
            }
            Ok(_) => checks.ok("protection", format!("{default_branch} is protected from the bot")),
            Err(error) => checks.warn("protection", error.to_string()),
        }
    }

    /// Which deliveries failed is on the hook's page alone.
    async fn hook(&self, checks: &mut Checks, owner: &str, name: &str) {
        let hooks: Vec<Value> = match self.http.get(format!("webhooks of {owner}/{name}"), &["repos", owner, name, "hooks"]).await {
            Ok(hooks) => hooks,
            Err(ForgeError::Denied { .. } | ForgeError::NotFound { .. }) => {
                return checks.warn("webhook", "the bot may not see webhooks: see in the repository's settings that there is one");
            }
            Err(error) => return checks.warn("webhook", error.to_string()),
        };
        match hook_of(&hooks, &self.settings.name) {
            Some(hook) => judge_hook(checks, hook, &["issues", "issue_label"]),
            None => self.hook_of_organization(checks, owner).await,
        }
    }

    /// Where the repository has none, that of its organisation, which is shown to the organisation's owners only.
    async fn hook_of_organization(&self, checks: &mut Checks, owner: &str) {
        let name = &self.settings.name;
        let none = format!("none whose address ends in /webhooks/{name}: add it, or one of the organisation");
        match self.http.get::<Vec<Value>>(format!("webhooks of {owner}"), &["orgs", owner, "hooks"]).await {
            Ok(hooks) => match hook_of(&hooks, name) {
                Some(hook) => judge_hook(checks, hook, &["issues", "issue_label"]),
                None => checks.fail("webhook", none),
            },
            Err(ForgeError::Denied { .. }) => {
                checks.warn("webhook", format!("the repository has {none}; whether {owner} has one is told to its owners only"));
            }
            Err(_) => checks.fail("webhook", none),
        }
    }
}
