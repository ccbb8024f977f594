//! GitHub Apps: who proves to be one by a signature gets tokens for installations, cut as asked and good for an hour (forges.md, section 2.4).

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::installed::Installed;
use super::{PAGE, body, not_found, refuse, shape};
use crate::demo::forge::state::{State, timestamp};
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::demo::forge::{Account, Token};
use crate::demo::forge::{Forge, Mistake};
use crate::domain::Permission;

const LIFE_MS: i64 = 60 * 60 * 1000;

/// The one App of this forge, installed on everything.
#[derive(Debug)]
pub(in crate::demo::forge) struct App {
    id: String,
    slug: String,
    public_key: Vec<u8>,
    installation: u64,
    pub(super) installed: Installed,
    granted: BTreeSet<String>,
    hook: String,
    events: Vec<String>,
    deliveries: Vec<Tried>,
}

/// One try of a delivery to the App's hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The number of the try.
    pub id: u64,
    /// The delivery, the same for every try of it.
    pub guid: String,
    /// When, in milliseconds since the epoch.
    pub at_ms: i64,
    /// What the receiver answered; 0 for nothing.
    pub status: u16,
}

impl App {
    /// The installation as GitHub tells of it.
    pub(super) fn row(&self) -> Value {
        let suspended_at = (self.installed == Installed::Suspended).then_some("2026-11-01T00:00:00Z");
        json!({"id": self.installation, "app_slug": self.slug, "suspended_at": suspended_at})
    }
}

/// Refuses what the App asks while its installation is suspended.
pub(super) fn works(state: &State) -> Result<(), Answer> {
    let suspended = state.app.as_ref().is_some_and(|app| app.installed == Installed::Suspended);
    if suspended { Err(refuse(403, "This installation has been suspended")) } else { Ok(()) }
}

impl Forge {
    /// Makes the App with this client id and slug, installed on every repository; `public_key` is its RSA key in PEM form (PKCS #1), `granted`
    /// what it may be given, like `write:issues`. Its account is `slug[bot]`, which must be permitted like any other.
    ///
    /// # Errors
    /// When the key is none.
    pub fn add_app(&self, id: &str, slug: &str, public_key: &str, granted: &[&str]) -> Result<(), Mistake> {
        let encoded = public_key.lines().filter(|line| !line.starts_with("-----")).collect::<String>();
        let key = base64::engine::general_purpose::STANDARD.decode(encoded);
        let public_key = key.map_err(|error| Mistake(format!("the app's key is no PEM: {error}")))?;
        let mut state = self.state();
        state.add_account(&format!("{slug}[bot]"), Account::Bot);
        let installation = state.next_id();
        let granted = granted.iter().map(|&scope| scope.to_owned()).collect();
        let (id, slug, deliveries) = (id.to_owned(), slug.to_owned(), Vec::new());
        let hook = "https://bot.example.com/webhooks/here".to_owned();
        let events = ["issues", "issue_comment", "label", "pull_request", "pull_request_review", "repository"].map(str::to_owned).to_vec();
        state.app = Some(App { id, slug, public_key, installation, installed: Installed::Works, granted, hook, events, deliveries });
        Ok(())
    }

    /// Lets the App's webhook lead to this address, nowhere where it is empty, and tell of these events.
    pub fn set_app_hook(&self, address: &str, events: &[&str]) {
        if let Some(app) = &mut self.state().app {
            address.clone_into(&mut app.hook);
            app.events = events.iter().map(|&event| event.to_owned()).collect();
        }
    }

    /// Adds a try of a delivery to the App's list.
    pub fn tried(&self, guid: &str, at_ms: i64, status: u16) {
        let mut state = self.state();
        let id = state.next_id();
        if let Some(app) = &mut state.app {
            app.deliveries.insert(0, Tried { id, guid: guid.to_owned(), at_ms, status });
        }
    }

    /// The tries of the App's deliveries, the newest first.
    #[must_use]
    pub fn tries(&self) -> Vec<Tried> {
        self.state().app.as_ref().map(|app| app.deliveries.clone()).unwrap_or_default()
    }

    /// The tokens that the App was given and that no one took back.
    #[must_use]
    pub fn app_tokens(&self) -> Vec<(String, Token)> {
        let state = self.state();
        state.tokens.iter().filter(|(_, token)| token.ends_ms.is_some()).map(|(text, token)| (text.clone(), token.clone())).collect()
    }

    /// Takes a token back, as if it had been revoked.
    pub fn revoke(&self, token: &str) {
        self.state().tokens.remove(token);
    }
}

/// Answers what only an App may ask; none for all else.
pub(super) fn answer(state: &mut State, ask: &Ask, path: &[&str]) -> Option<Answer> {
    let route = (ask.method.as_str(), path);
    let known = matches!(
        route,
        ("GET", ["app"] | ["app", "installations"] | ["app", "hook", "config" | "deliveries"] | ["repos", _, _, "installation"])
            | ("POST", ["app", "installations", _, "access_tokens"] | ["app", "hook", "deliveries", _, "attempts"])
    );
    known.then(|| proved(state, ask).and_then(|()| as_app(state, ask, path)).unwrap_or_else(|refusal| refusal))
}

fn as_app(state: &mut State, ask: &Ask, path: &[&str]) -> Result<Answer, Answer> {
    let app = state.app.as_ref().ok_or_else(not_found)?;
    let installation = app.row();
    match path {
        ["app", "installations"] if app.installed == Installed::Not => Ok(super::paged(state, ask, Vec::new())),
        ["repos", _, _, "installation"] | ["app", "installations", _, "access_tokens"] if app.installed == Installed::Not => {
            Err(not_found())
        }
        ["app"] => {
            let permissions = app.granted.iter().filter_map(|scope| scope.split_once(':')).map(|(way, what)| (what.to_owned(), json!(way)));
            Ok(Answer::json(
                200,
                &json!({"slug": app.slug, "permissions": permissions.collect::<serde_json::Map<_, _>>(), "events": app.events}),
            ))
        }
        ["app", "installations"] => Ok(super::paged(state, ask, vec![installation])),
        ["repos", owner, name, "installation"] => {
            let visible =
                state.repository(&format!("{owner}/{name}")).is_some_and(|there| there.permission(&account(app)) >= Permission::Read);
            if visible { Ok(Answer::json(200, &installation)) } else { Err(not_found()) }
        }
        ["app", "installations", id, "access_tokens"] if *id == app.installation.to_string() => {
            works(state)?;
            new_token(state, ask)
        }
        ["app", "hook", "config"] if app.hook.is_empty() => Err(not_found()),
        ["app", "hook", "config"] => {
            Ok(Answer::json(200, &json!({"url": app.hook, "content_type": "json", "insecure_ssl": "0", "secret": "********"})))
        }
        ["app", "hook", "deliveries"] => Ok(Answer::json(200, &app.deliveries.iter().map(told).collect())),
        ["app", "hook", "deliveries", id, "attempts"] => {
            let found = app.deliveries.iter().find(|tried| tried.id.to_string() == *id).cloned().ok_or_else(not_found)?;
            let (id, at_ms) = (state.next_id(), state.now_ms());
            if let Some(app) = &mut state.app {
                app.deliveries.insert(0, Tried { id, at_ms, status: 202, ..found });
            }
            Ok(Answer::json(202, &json!({})))
        }
        _ => Err(not_found()),
    }
}

/// The repositories that an installation's token reaches, for such a token alone.
pub(super) fn installed_on(state: &State, ask: &Ask, caller: &Caller) -> Result<Answer, Answer> {
    if !caller.is_installation() {
        return Err(refuse(
            403,
            "You must authenticate with an installation access token in order to list repositories for an installation.",
        ));
    }
    let reached = |repository: &&crate::demo::forge::Repository| {
        caller.reaches(repository) && repository.permission(&caller.login) >= Permission::Read
    };
    let rows = state.repositories.iter().filter(reached).map(|repository| shape::repository(state, repository, &caller.login));
    let rows = rows.collect::<Vec<_>>();
    let total = rows.len();
    let (rows, headers) = ask.page(&state.base_url, rows, "per_page", PAGE);
    let links = headers.into_iter().filter(|(name, _)| name == "Link");
    Ok(Answer::json(200, &json!({"total_count": total, "repository_selection": "all", "repositories": rows})).with(links))
}

pub(super) fn account(app: &App) -> String {
    format!("{}[bot]", app.slug)
}

fn told(tried: &Tried) -> Value {
    let status = if (200..300).contains(&tried.status) { "OK" } else { "failed" };
    json!({"id": tried.id, "guid": tried.guid, "delivered_at": timestamp(tried.at_ms), "status": status, "status_code": tried.status, "redelivery": false, "event": "issues"})
}

/// About 520 characters with dots, as github.com makes them.
fn new_token(state: &mut State, ask: &Ask) -> Result<Answer, Answer> {
    let body = body(ask)?;
    let app = state.app.as_ref().ok_or_else(not_found)?;
    let wanted = body["permissions"].as_object().cloned().unwrap_or_default();
    let scopes = wanted.iter().map(|(what, way)| format!("{}:{what}", way.as_str().unwrap_or_default())).collect::<BTreeSet<_>>();
    if scopes.is_empty() || !scopes.is_subset(&app.granted) {
        return Err(refuse(422, "The permissions requested are not granted to this installation."));
    }
    let owned = |repository: &&crate::demo::forge::Repository| {
        let named = |list: &str, value: Value| body[list].as_array().is_some_and(|list| list.contains(&value));
        named("repositories", json!(repository.name().to_lowercase())) || named("repository_ids", json!(repository.id))
    };
    let is_cut = ["repositories", "repository_ids"].iter().any(|list| !body[list].is_null());
    let reach = is_cut.then(|| state.repositories.iter().filter(owned).map(|repository| repository.id).collect::<BTreeSet<_>>());
    if reach.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(refuse(422, "There is at least one repository that does not exist or is not accessible to the parent installation."));
    }
    let (login, id) = (account(app), app.id.clone());
    let (number, ends_ms) = (state.next_id(), state.now_ms() + LIFE_MS);
    let token = format!("ghs_{id}_{number}.{}.{}", "x".repeat(300), "y".repeat(200));
    state.tokens.insert(token.clone(), Token { login, scopes, repositories: reach, ends_ms: Some(ends_ms) });
    Ok(Answer::json(
        201,
        &json!({"token": token, "expires_at": timestamp(ends_ms), "permissions": wanted, "repository_selection": "selected"}),
    ))
}

/// The signature fits the App's key, and its times are now by this forge's clock.
fn proved(state: &State, ask: &Ask) -> Result<(), Answer> {
    let now = state.now_ms() / 1000;
    let date = OffsetDateTime::from_unix_timestamp(now).ok().and_then(|now| now.format(&Rfc2822).ok()).unwrap_or_default();
    let refused = |why: &str| refuse(401, why).with([("Date".to_owned(), date.replace("+0000", "GMT"))]);
    let app = state.app.as_ref().ok_or_else(|| refused("Integration not found"))?;
    let token = ask.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let claims = token.and_then(|token| claims(token, &app.public_key)).ok_or_else(|| refused("A JSON web token could not be decoded"))?;
    let time = |name: &str| claims[name].as_i64().unwrap_or(0);
    if claims["iss"].as_str() != Some(&app.id) {
        return Err(refused("'Issuer' claim ('iss') must be an Integer or String that was assigned to the app"));
    }
    if time("iat") > now {
        return Err(refused("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"));
    }
    if time("exp") <= now {
        return Err(refused(
            "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires",
        ));
    }
    if time("exp") > now + 600 {
        return Err(refused("'Expiration time' claim ('exp') is too far in the future"));
    }
    Ok(())
}

fn claims(token: &str, public_key: &[u8]) -> Option<Value> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let parsed = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    if parsed(header)?["alg"] != "RS256" {
        return None;
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public_key).verify(signed.as_bytes(), &signature).ok()?;
    parsed(claims)
}
