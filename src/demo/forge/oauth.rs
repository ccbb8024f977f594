//! Signing in to other programs with the demonstration forge: the page on which a person agrees, and what their code is exchanged for.
//!
//! It is as strict as the real ones: only registered addresses are redirected to, a code is good once, for the application and the address that it
//! was given for, and for who knows the verifier of its challenge. Only the password is missing: whoever comes may say who they are.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::wire::{Answer, Ask};
use super::{Account, Forge, Kind, State, Token, pages};

/// A program that people sign in to with this forge.
#[derive(Debug, Clone)]
pub(super) struct Application {
    id: String,
    secret: String,
    redirect: String,
}

/// What a person agreed to.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    code: String,
    application: String,
    redirect: String,
    challenge: Option<String>,
    login: String,
    scope: String,
}

/// Everything about it.
#[derive(Debug, Default)]
pub(super) struct OAuth {
    applications: Vec<Application>,
    grants: Vec<Grant>,
    given: u64,
}

impl Forge {
    /// Registers a program; people are sent back to exactly this address.
    pub fn add_application(&self, id: &str, secret: &str, redirect: &str) {
        let application = Application { id: id.to_owned(), secret: secret.to_owned(), redirect: redirect.to_owned() };
        self.state().oauth.applications.push(application);
    }

    /// How many tokens people's codes were exchanged for.
    #[must_use]
    pub fn tokens_given(&self) -> u64 {
        self.state().oauth.given
    }
}

/// Answers a request to these addresses; none for others.
pub(super) fn answer(state: &mut State, ask: &Ask, path: &[&str]) -> Option<Answer> {
    match (state.kind == Kind::GitLab, ask.method.as_str(), path) {
        (true, "GET", ["oauth", "authorize"]) | (false, "GET", ["login", "oauth", "authorize"]) => Some(agree(state, ask)),
        (true, "POST", ["oauth", "token"]) | (false, "POST", ["login", "oauth", "access_token"]) => Some(exchange(state, ask)),
        _ => None,
    }
}

/// Who can't be trusted with a redirect sees the reason here.
fn agree(state: &mut State, ask: &Ask) -> Answer {
    let asked = |name: &str| ask.query(name).unwrap_or_default().to_owned();
    let (id, redirect) = (asked("client_id"), asked("redirect_uri"));
    let Some(application) = state.oauth.applications.iter().find(|application| application.id == id) else {
        return pages::notice(state, 404, "There is no such application.");
    };
    if application.redirect != redirect {
        return pages::notice(state, 400, "The redirect URI is not the registered one.");
    }
    let Ok(mut back) = Url::parse(&redirect) else { return pages::notice(state, 400, "The redirect URI is none.") };
    let plain = !asked("code_challenge").is_empty() && asked("code_challenge_method") != "S256";
    let error = match asked("response_type").as_str() {
        "code" if plain => Some("invalid_request"),
        "code" => None,
        _ => Some("unsupported_response_type"),
    };
    let login = ask.query("as").map(str::to_owned);
    let person = login.as_ref().and_then(|login| state.user(login)).filter(|user| user.account == Account::Person);
    let answer = match (error, login.as_deref(), person) {
        (Some(error), ..) => ("error", error.to_owned()),
        (None, Some("nobody"), _) => ("error", "access_denied".to_owned()),
        (None, _, Some(person)) => {
            let code = uuid::Uuid::new_v4().simple().to_string();
            let challenge = Some(asked("code_challenge")).filter(|challenge| !challenge.is_empty());
            let grant =
                Grant { code: code.clone(), application: id, redirect, challenge, login: person.login.clone(), scope: asked("scope") };
            state.oauth.grants.push(grant);
            ("code", code)
        }
        (None, ..) => return pages::people(state, ask),
    };
    back.query_pairs_mut().append_pair(answer.0, &answer.1).append_pair("state", &asked("state"));
    Answer::empty(302).with([("Location".to_owned(), back.to_string())])
}

fn exchange(state: &mut State, ask: &Ask) -> Answer {
    let is_form = ask.header("content-type").is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    let form = if is_form { url::form_urlencoded::parse(&ask.body).into_owned().collect::<Vec<_>>() } else { Vec::new() };
    let field = |name: &str| form.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).unwrap_or_default();
    let known = state.oauth.applications.iter().any(|one| one.id == field("client_id") && one.secret == field("client_secret"));
    if !known {
        return refused(state.kind, ask, "client");
    }
    // Whoever asks with it, and however: it is used.
    let position = state.oauth.grants.iter().position(|grant| grant.code == field("code"));
    let Some(grant) = position.map(|position| state.oauth.grants.remove(position)) else { return refused(state.kind, ask, "code") };
    if grant.application != field("client_id") || grant.redirect != field("redirect_uri") {
        return refused(state.kind, ask, "code");
    }
    let proved = grant.challenge.is_none_or(|challenge| challenge == URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier"))));
    // GitHub alone does without it.
    let is_code_grant = field("grant_type") == "authorization_code" || state.kind == Kind::GitHub;
    if !proved || !is_code_grant {
        return refused(state.kind, ask, "code");
    }
    let token = uuid::Uuid::new_v4().simple().to_string();
    let scopes = grant.scope.split([' ', ',']).filter(|scope| !scope.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>();
    state.tokens.insert(token.clone(), Token { login: grant.login, scopes, repositories: None, ends_ms: None });
    state.oauth.given += 1;
    told(ask, state.kind, 200, &[("access_token", &token), ("token_type", "bearer"), ("scope", &grant.scope)])
}

fn refused(kind: Kind, ask: &Ask, what: &str) -> Answer {
    let (status, error) = match (kind, what) {
        (Kind::GitHub, "client") => (200, "incorrect_client_credentials"),
        (Kind::GitHub, _) => (200, "bad_verification_code"),
        (Kind::GitLab, "client") => (401, "invalid_client"),
        (Kind::GitLab, _) => (400, "invalid_grant"),
        (_, "client") => (400, "unauthorized_client"),
        _ => (400, "invalid_grant"),
    };
    told(ask, kind, status, &[("error", error), ("error_description", "the demonstration forge says no")])
}

/// GitHub speaks JSON only to who asks for it.
fn told(ask: &Ask, kind: Kind, status: u16, fields: &[(&str, &str)]) -> Answer {
    if kind == Kind::GitHub && !ask.header("accept").is_some_and(|kinds| kinds.contains("application/json")) {
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        return Answer::empty(status).with_body(form.into_bytes());
    }
    Answer::json(status, &fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect())
}
