//! Signing people in: OAuth 2 with a code, a state and PKCE, the same for all forges but for addresses and words.
//!
//! What must hold: nothing but who it is is asked for, by the narrowest scope that the forge has; the person's token is used once, for that, and
//! then forgotten; the code goes to the configured forge alone; neither code, token nor secret is in an error or a log.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::address::below;
use super::http;
use super::{ForgeError, Settings};
use crate::config::ForgeKind;
use crate::domain::Actor;

const LARGEST_ANSWER: usize = 256 * 1024;
const TIMEOUT: Duration = Duration::from_secs(15);

/// This service as an OAuth application of a forge.
#[derive(Debug, Clone)]
pub struct Application {
    /// Its id there.
    pub client_id: String,
    /// Its secret.
    pub client_secret: SecretString,
}

/// How people sign in with one forge.
#[derive(Debug)]
pub struct SignIn {
    client: Client,
    application: Application,
    scope: &'static str,
    authorize: Url,
    token: Url,
    user: Url,
}

#[derive(Deserialize)]
struct TokenRow {
    access_token: Option<SecretString>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct UserRow {
    id: i64,
    /// GitHub, Gitea, Forgejo.
    login: Option<String>,
    /// GitLab; Gitea has both.
    username: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    bot: bool,
}

impl SignIn {
    /// For the forge of these settings.
    ///
    /// # Errors
    /// A sentence when the address or the certificates can't be used.
    pub fn new(settings: &Settings, kind: ForgeKind, application: Application) -> Result<Self, String> {
        let people = settings.web_base.as_ref().unwrap_or(&settings.git_base);
        let (ask, take, scope): (&[&str], &[&str], _) = match kind {
            // Without any scope GitHub tells who somebody is, and nothing more.
            ForgeKind::Github => (&["login", "oauth", "authorize"], &["login", "oauth", "access_token"], ""),
            ForgeKind::Gitlab => (&["oauth", "authorize"], &["oauth", "token"], "read_user"),
            ForgeKind::Gitea | ForgeKind::Forgejo => (&["login", "oauth", "authorize"], &["login", "oauth", "access_token"], "read:user"),
        };
        let at =
            |base: &Url, path: &[&str]| below(base, path).ok_or_else(|| format!("forge `{}`: {base} is no base address", settings.name));
        Ok(Self {
            client: http::client(settings, &[])?,
            application,
            scope,
            authorize: at(people, ask)?,
            token: at(&settings.git_base, take)?,
            user: at(&settings.api_base, &["user"])?,
        })
    }

    /// The page of the forge on which a person agrees. `state` and `verifier` are secrets of this one sign-in.
    #[must_use]
    pub fn page(&self, state: &str, verifier: &str, redirect: &Url) -> Url {
        let mut page = self.authorize.clone();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
        page.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.application.client_id)
            .append_pair("redirect_uri", redirect.as_str())
            .append_pair("state", state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if !self.scope.is_empty() {
            page.query_pairs_mut().append_pair("scope", self.scope);
        }
        page
    }

    /// Whose code it is. The token that the forge gives for it ends with this call.
    ///
    /// # Errors
    /// [`ForgeError::Denied`] for a code that the forge does not take; else what kept us from asking.
    pub async fn account(&self, code: &str, verifier: &str, redirect: &Url) -> Result<Actor, ForgeError> {
        let what = "signing somebody in";
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("client_id", &self.application.client_id)
            .append_pair("client_secret", self.application.client_secret.expose_secret())
            .append_pair("code", code)
            .append_pair("code_verifier", verifier)
            .append_pair("redirect_uri", redirect.as_str())
            .finish();
        let ask = self.client.post(self.token.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
        let row: TokenRow = answer(what, ask, true).await?;
        let denied = |why: String| ForgeError::Denied { what: what.to_owned(), message: why };
        let Some(token) = row.access_token.filter(|token| !token.expose_secret().is_empty()) else {
            let error = row.error.unwrap_or_else(|| "no token and no error".to_owned());
            return Err(denied(error.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(60).collect()));
        };
        let user = self.client.get(self.user.clone()).header(AUTHORIZATION, format!("Bearer {}", token.expose_secret()));
        let row: UserRow = answer("the account that signs in", user, false).await?;
        let login = row.login.or(row.username).filter(|login| !login.trim().is_empty() && row.id > 0);
        let login = login.ok_or_else(|| denied("the forge names no account".to_owned()))?;
        let is_bot = row.bot || row.kind.as_deref() == Some("Bot");
        Ok(Actor { id: row.id.to_string(), login, is_bot })
    }
}

/// One try: a code is good for one. `refusals_speak`: a refusal has a body with the reason.
async fn answer<T: serde::de::DeserializeOwned>(what: &str, ask: RequestBuilder, refusals_speak: bool) -> Result<T, ForgeError> {
    let later = |message: &str| ForgeError::Unavailable { what: what.to_owned(), message: message.to_owned(), retry_after_ms: None };
    let mut got = ask.header(ACCEPT, "application/json").timeout(TIMEOUT).send().await.map_err(|_| later("it can't be reached"))?;
    let status = got.status();
    let speaks = status.is_success() || (refusals_speak && matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED));
    if !speaks {
        return Err(match status.as_u16() {
            401 | 403 => ForgeError::Denied { what: what.to_owned(), message: format!("status {}", status.as_u16()) },
            300..=499 => ForgeError::Rejected { what: what.to_owned(), message: format!("status {}", status.as_u16()) },
            other => later(&format!("status {other}")),
        });
    }
    let mut body = Vec::new();
    while let Some(part) = got.chunk().await.map_err(|_| later("its answer broke off"))? {
        if body.len() + part.len() > LARGEST_ANSWER {
            return Err(ForgeError::Unreadable { what: what.to_owned(), message: "the answer is too large".to_owned() });
        }
        body.extend_from_slice(&part);
    }
    serde_json::from_slice(&body)
        .map_err(|_| ForgeError::Unreadable { what: what.to_owned(), message: "it is not the JSON that was awaited".to_owned() })
}
