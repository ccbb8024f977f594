//! What an administrator should know about a GitHub before it is relied on. Everything here only reads.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::Value;

use super::client::Client;
use crate::domain::{Check, Checks, RepoRef};
use crate::forge::address::owner_and_name;
use crate::forge::examine::{hook_of, judge_hook, not_let_in};
use crate::forge::http::{Call, read};
use crate::forge::{Examination, Forge as _, ForgeError};

/// What an App needs, and what its tokens are cut to.
const NEEDED: [(&str, &str); 5] =
    [("contents", "write"), ("issues", "write"), ("metadata", "read"), ("pull_requests", "write"), ("statuses", "write")];
/// Scopes of a classic token beyond `repo` that the service has a use for.
const FINE: [&str; 5] = ["repo", "repo:status", "public_repo", "read:org", "repo_deployment"];

/// What is heard beside `issues`.
const EVENTS: [&str; 5] = ["issue_comment", "label", "pull_request", "pull_request_review", "repository"];

impl Client {
    pub(super) async fn examined(&self, examination: &Examination<'_>) -> Vec<Check> {
        let mut checks = Checks::of(&self.settings.name);
        let works = match &self.app {
            Some(_) => self.as_app(&mut checks).await,
            None => self.as_person(&mut checks).await,
        };
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

    async fn as_person(&self, checks: &mut Checks) -> bool {
        let answer = match self.http.send(&Call::new("our own account".to_owned(), Method::GET, &["user"])).await {
            Ok(answer) => answer,
            Err(error) => return not_let_in(checks, &error),
        };
        checks.ok("reachable", format!("answers at {}", self.settings.api_base));
        let user: Value = read("our own account", &answer).unwrap_or_default();
        checks.ok("token", format!("valid, of the account {}", user["login"].as_str().unwrap_or("?")));
        match self.http.get::<Value>("its version".to_owned(), &["meta"]).await {
            Ok(meta) => checks.ok("version", meta["installed_version"].as_str().unwrap_or("github.com")),
            Err(error) => checks.warn("version", error.to_string()),
        }
        if user["site_admin"] == true {
            checks.warn("too_wide", "the account is a site administrator: use one that is not");
        }
        match answer.headers.get("x-oauth-scopes").and_then(|scopes| scopes.to_str().ok()).filter(|scopes| !scopes.trim().is_empty()) {
            None => checks.ok("scopes", "a fine-grained token, whose permissions the forge does not list; the repositories show them"),
            Some(scopes) => {
                let scopes = scopes.split(',').map(str::trim).collect::<Vec<_>>();
                if scopes.contains(&"repo") || scopes.contains(&"public_repo") {
                    checks.ok("scopes", format!("enough: {}", scopes.join(", ")));
                } else {
                    checks.fail("scopes", "the scope `repo` is missing: make a token with it");
                }
                let excess = scopes.iter().filter(|scope| !FINE.contains(scope)).copied().collect::<Vec<_>>();
                if !excess.is_empty() {
                    checks.warn("too_wide", format!("the token may more than it needs: {}; make one with `repo` alone", excess.join(", ")));
                }
            }
        }
        true
    }

    async fn as_app(&self, checks: &mut Checks) -> bool {
        let Some(app) = &self.app else { return false };
        let told: Value = match app.http.get("our own app".to_owned(), &["app"]).await {
            Ok(told) => told,
            Err(error) => return not_let_in(checks, &error),
        };
        checks.ok("reachable", format!("answers at {}", self.settings.api_base));
        checks.ok("token", format!("the key signs for the app {}", told["slug"].as_str().unwrap_or("?")));
        let granted: BTreeMap<String, String> = serde_json::from_value(told["permissions"].clone()).unwrap_or_default();
        let has =
            |what: &str, way: &str| granted.get(what).is_some_and(|granted| granted == way || granted == "write" || granted == "admin");
        let missing = NEEDED.iter().filter(|(what, way)| !has(what, way)).map(|(what, way)| format!("{what}: {way}")).collect::<Vec<_>>();
        if missing.is_empty() {
            checks.ok("scopes", "the app has every permission that it needs");
        } else {
            checks.fail(
                "scopes",
                format!("the app has not {}: give them in its settings and accept them in the installation", missing.join(", ")),
            );
        }
        let fine = |(what, way): &(&String, &String)| {
            NEEDED.iter().any(|(needed, as_far)| what == needed && (way == as_far || *way == "read"))
                || (*what == "members" && *way == "read")
                || (*what == "checks" && *way == "write")
        };
        let excess = granted.iter().filter(|row| !fine(row)).map(|(what, way)| format!("{what}: {way}")).collect::<Vec<_>>();
        if !excess.is_empty() {
            checks.warn("too_wide", format!("the app may more than it needs: {}; take it away in its settings", excess.join(", ")));
        }
        judge_events(checks, &told["events"], "the app");
        self.app_hook(checks).await;
        true
    }

    async fn app_hook(&self, checks: &mut Checks) {
        let Some(app) = &self.app else { return };
        let ends = format!("/webhooks/{}", self.settings.name);
        match app.http.get::<Value>("the app's hook".to_owned(), &["app", "hook", "config"]).await {
            Ok(hook) if !hook["url"].as_str().is_some_and(|url| url.trim_end_matches('/').ends_with(&ends)) => {
                checks.fail("webhook", format!("the app's hook does not lead to an address that ends in {ends}: see the app's settings"));
            }
            Ok(hook) if hook["secret"].as_str().is_none_or(str::is_empty) => {
                checks.fail("webhook", "the app's hook has no secret, so that what it sends is refused: set one in the app's settings");
            }
            Ok(hook) if hook["insecure_ssl"] == "1" => {
                checks.warn("webhook", "it does not check our certificate: switch SSL verification on");
            }
            Ok(_) => checks.ok("webhook", "the app's hook leads here"),
            Err(ForgeError::NotFound { .. }) => {
                checks.fail("webhook", format!("the app has none: make it active, with an address that ends in {ends}, in its settings"));
            }
            Err(error) => checks.warn("webhook", error.to_string()),
        }
        let what = "deliveries of the app's hook".to_owned();
        let call = Call::new(what, Method::GET, &["app", "hook", "deliveries"]).asking(vec![("per_page", "100".to_owned())]);
        match app.http.ask::<Vec<Value>>(&call).await {
            Ok(tries) => judge_tries(checks, &tries),
            Err(error) => checks.warn("deliveries", format!("they can't be seen: {error}")),
        }
    }

    async fn one_repository(&self, checks: &mut Checks, repo: &RepoRef) {
        let Ok((owner, name)) = owner_and_name(repo) else { return checks.fail("repository", "its path is not owner/name") };
        let there: Value = match self.http.get(format!("repository {}", repo.path), &["repos", owner, name]).await {
            Ok(there) => there,
            Err(error) => return checks.fail("repository", format!("{error}; give the bot write access to it")),
        };
        checks.ok("repository", "can be seen");
        if there["archived"] == true {
            checks.fail("repository", "it is archived");
        }
        if self.app.is_none() {
            match (&there["permissions"]["admin"], &there["permissions"]["push"]) {
                (Value::Bool(true), _) => {
                    checks.warn("too_wide", "the bot is an administrator here and could lift protections: give it write access only")
                }
                (_, Value::Bool(true)) => checks.ok("write", "the bot may push"),
                _ => checks.fail("write", "the bot may not push: give it write access"),
            }
        }
        let whom = self.myself().await.map(|myself| myself.login).unwrap_or_default();
        match self.permission(repo, &whom).await {
            Ok(_) => checks.ok("permissions", "the rights of people can be asked for"),
            Err(error) => checks.fail("permissions", format!("the rights of people can't be asked for: {error}")),
        }
        if there["private"] == true && self.settings.api_base.host_str() == Some("api.github.com") {
            checks.warn(
                "drafts",
                "a private repository on github.com has drafts only with a paid plan; draft_fallback says what is done without",
            );
        } else {
            checks.ok("drafts", "supported");
        }
        let is_administrator = self.app.is_none() && there["permissions"]["admin"] == true;
        self.protection(checks, (owner, name), there["default_branch"].as_str().unwrap_or("main"), is_administrator).await;
        if self.app.is_none() {
            self.hook(checks, owner, name).await;
        }
    }

    async fn hook(&self, checks: &mut Checks, owner: &str, name: &str) {
        let hooks: Vec<Value> = match self.http.get(format!("webhooks of {owner}/{name}"), &["repos", owner, name, "hooks"]).await {
            Ok(hooks) => hooks,
            Err(_) => {
                let why = "the token may not see webhooks, which is as it should be: see in the repository's settings that there is one";
                return checks.warn("webhook", why);
            }
        };
        let Some(hook) = hook_of(&hooks, &self.settings.name) else {
            return checks.fail("webhook", format!("none whose address ends in /webhooks/{}: add it", self.settings.name));
        };
        judge_hook(checks, hook, &["issues"]);
        judge_events(checks, &hook["events"], "the webhook");
        let id = hook["id"].to_string();
        let path = ["repos", owner, name, "hooks", &id, "deliveries"];
        let call = Call::new("its deliveries".to_owned(), Method::GET, &path).asking(vec![("per_page", "100".to_owned())]);
        if let Ok(tries) = self.http.ask::<Vec<Value>>(&call).await {
            judge_tries(checks, &tries);
        }
    }
}

fn judge_events(checks: &mut Checks, sent: &Value, who: &str) {
    let is_sent = |event: &str| sent.as_array().is_some_and(|sent| sent.iter().any(|one| one == event || one == "*"));
    let missing = EVENTS.into_iter().filter(|event| !is_sent(event)).collect::<Vec<_>>().join(", ");
    if !is_sent("issues") {
        checks.fail("events", format!("{who} does not send issues, and so no label: see its events"));
    } else if !missing.is_empty() {
        checks.warn("events", format!("{who} does not send {missing}: what they tell is found later, or not at all"));
    }
}

fn judge_tries(checks: &mut Checks, tries: &[Value]) {
    let failed = tries.iter().filter(|one| !one["status_code"].as_u64().is_some_and(|status| (200..300).contains(&status))).count();
    match (tries.len(), failed) {
        (0, _) => checks.warn("deliveries", "none yet: set the label once, or redeliver the ping"),
        (of, 0) => checks.ok("deliveries", format!("the last {of} arrived")),
        (of, failed) => checks.warn("deliveries", format!("{failed} of the last {of} did not arrive: see the hook's page on the forge")),
    }
}
