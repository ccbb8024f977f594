//! A GitHub App: who it is, and the tokens that it makes for one repository at a time (forges.md, section 2.4).
//!
//! What must hold: the App's key signs and is nowhere else; a token is asked for when a call needs it, never before, for the one repository
//! and the least that the call may need; a token is opaque text of any length.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Method;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::Mutex;

use super::client::PAGES;
use super::rs256;
use crate::domain::Clock;
use crate::forge::ForgeError;
use crate::forge::Settings;
use crate::forge::credentials::Credentials;
use crate::forge::http::{Call, Http, Rows};

/// A token is not used in its last minutes: a push may take as long.
const SPARE_MS: i64 = 5 * 60 * 1000;
/// Clocks that differ by less than this are no reason for a refusal.
const SMALL_SKEW_MS: i64 = 5_000;

/// What makes the service a GitHub App.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The App's client id, or its number.
    pub id: String,
    /// Its private key, in PEM form.
    pub key: SecretString,
}

/// Signs for the App itself.
struct Signer {
    id: String,
    key: EncodingKey,
    clock: Arc<dyn Clock>,
    /// How far the forge's clock is ahead of ours, in milliseconds.
    ahead_ms: AtomicI64,
}

impl Signer {
    fn forge_now_ms(&self) -> i64 {
        self.clock.now_ms() + self.ahead_ms.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Credentials for Signer {
    async fn token(&self, _: &[&str]) -> Result<SecretString, ForgeError> {
        let now = self.forge_now_ms() / 1000;
        let claims = json!({"iat": now - 60, "exp": now + 9 * 60, "iss": self.id});
        let signed = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key);
        signed.map(SecretString::from).map_err(|why| {
            let message = format!("its key does not sign: {why}");
            ForgeError::Denied { what: format!("the app {}", self.id), message }
        })
    }

    /// Worth another try when the forge's clock is not where it was thought to be.
    async fn refused(&self, _: &SecretString, forge_time_ms: Option<i64>) -> bool {
        let Some(theirs) = forge_time_ms else { return false };
        let off = theirs - self.forge_now_ms();
        if off.abs() < SMALL_SKEW_MS {
            return false;
        }
        tracing::warn!(seconds = off / 1000, "the forge's clock differs from ours: the app signs by the forge's");
        self.ahead_ms.fetch_add(off, Ordering::Relaxed);
        true
    }
}

/// What a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Use {
    /// Calls about a repository.
    Api,
    /// Fetching and pushing.
    Git,
    /// Asking who is in a team.
    Members,
    /// Asking which repositories there are.
    List,
    /// Making check runs.
    Checks,
}

impl Use {
    fn permissions(self) -> Value {
        match self {
            Self::Api => json!({"contents": "write", "issues": "write", "pull_requests": "write", "metadata": "read", "statuses": "write"}),
            Self::Git => json!({"contents": "write", "metadata": "read"}),
            Self::Members => json!({"members": "read"}),
            Self::List => json!({"metadata": "read"}),
            Self::Checks => json!({"checks": "write", "metadata": "read"}),
        }
    }
}

/// What a token is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum About {
    /// `owner` and `name` in lower case.
    Repository(String, String),
    /// A repository whose path is not known any more.
    RepositoryId(i64),
    /// An organisation.
    Organization(String),
    /// All that an installation reaches.
    Installation(i64),
}

struct Kept {
    token: SecretString,
    ends_ms: i64,
}

/// The tokens of an App.
pub(super) struct App {
    pub(super) http: Http,
    signer: Arc<Signer>,
    kept: Mutex<HashMap<(About, Use), Kept>>,
}

#[derive(Deserialize)]
struct InstallationRow {
    id: i64,
    #[serde(default)]
    suspended_at: Option<String>,
}

#[derive(Deserialize)]
struct TokenRow {
    token: SecretString,
    expires_at: String,
}

impl App {
    /// # Errors
    /// A sentence when the key is none, or the address or the certificates can't be used.
    pub(super) fn new(settings: &Settings, identity: &Identity, more: &[(&'static str, &'static str)]) -> Result<Self, String> {
        rs256::install();
        let key = EncodingKey::from_rsa_pem(identity.key.expose_secret().as_bytes())
            .map_err(|why| format!("forge `{}`: the app's key is no RSA key in PEM form: {why}", settings.name))?;
        let (id, clock) = (identity.id.clone(), Arc::clone(&settings.clock));
        let signer = Arc::new(Signer { id, key, clock, ahead_ms: AtomicI64::new(0) });
        let http = Http::with_credentials(settings, more, signer.clone())?;
        Ok(Self { http, signer, kept: Mutex::default() })
    }

    /// A token of the App for git in one repository.
    pub(super) async fn git_token(&self, owner: &str, name: &str) -> Result<SecretString, ForgeError> {
        self.kept_or_new(About::Repository(owner.to_lowercase(), name.to_lowercase()), Use::Git).await
    }

    /// A token for the list of an installation's repositories.
    pub(super) async fn list_token(&self, installation: i64) -> Result<SecretString, ForgeError> {
        self.kept_or_new(About::Installation(installation), Use::List).await
    }

    async fn kept_or_new(&self, about: About, purpose: Use) -> Result<SecretString, ForgeError> {
        let mut kept = self.kept.lock().await;
        let now = self.signer.forge_now_ms();
        kept.retain(|_, token| token.ends_ms > now + SPARE_MS);
        if let Some(there) = kept.get(&(about.clone(), purpose)) {
            return Ok(there.token.clone());
        }
        let made = self.make(&about, purpose).await?;
        let token = made.token.clone();
        kept.insert((about, purpose), made);
        Ok(token)
    }

    async fn make(&self, about: &About, purpose: Use) -> Result<Kept, ForgeError> {
        match about {
            About::Repository(owner, name) => {
                let id =
                    self.installation(format!("the app's installation on {owner}/{name}"), &["repos", owner, name, "installation"]).await?;
                self.ask_for(id, json!({"repositories": [name], "permissions": purpose.permissions()})).await
            }
            About::Organization(organization) => {
                let what = format!("the app's installation on {organization}");
                let id = self.installation(what, &["orgs", organization, "installation"]).await?;
                self.ask_for(id, json!({"permissions": purpose.permissions()})).await
            }
            About::Installation(id) => self.ask_for(*id, json!({"permissions": purpose.permissions()})).await,
            About::RepositoryId(repository) => {
                for id in self.installations().await? {
                    match self.ask_for(id, json!({"repository_ids": [repository], "permissions": purpose.permissions()})).await {
                        Err(ForgeError::Rejected { .. } | ForgeError::NotFound { .. }) => {}
                        made => return made,
                    }
                }
                Err(ForgeError::NotFound { what: format!("an installation of the app with repository {repository}") })
            }
        }
    }

    /// The installations that work, as many as are read of a list.
    pub(super) async fn installations(&self) -> Result<Vec<i64>, ForgeError> {
        let what = "the app's installations".to_owned();
        let rows: Rows<InstallationRow> = self.http.list(what, &["app", "installations"], &[], PAGES).await?;
        Ok(rows.rows.into_iter().filter(|row| row.suspended_at.is_none()).map(|row| row.id).collect())
    }

    async fn installation(&self, what: String, path: &[&str]) -> Result<i64, ForgeError> {
        let row = self.http.get::<InstallationRow>(what.clone(), path).await?;
        if row.suspended_at.is_some() {
            return Err(ForgeError::NotFound { what: format!("{what}, which is suspended") });
        }
        Ok(row.id)
    }

    async fn ask_for(&self, installation: i64, cut: Value) -> Result<Kept, ForgeError> {
        let what = format!("a token for installation {installation} of the app");
        let path = ["app", "installations", &installation.to_string(), "access_tokens"];
        let row: TokenRow = self.http.ask(&Call::new(what.clone(), Method::POST, &path).with(cut)).await?;
        let ends = OffsetDateTime::parse(&row.expires_at, &Rfc3339)
            .map_err(|_| ForgeError::Unreadable { what, message: "the token has no time at which it ends".to_owned() })?;
        Ok(Kept { token: row.token, ends_ms: ends.unix_timestamp() * 1000 })
    }
}

#[async_trait]
impl Credentials for App {
    async fn token(&self, path: &[&str]) -> Result<SecretString, ForgeError> {
        let (about, purpose) = match path {
            ["repos", owner, name, "check-runs"] | ["repos", owner, name, "commits", _, "check-runs"] => {
                (About::Repository(owner.to_lowercase(), name.to_lowercase()), Use::Checks)
            }
            ["repos", owner, name, ..] => (About::Repository(owner.to_lowercase(), name.to_lowercase()), Use::Api),
            ["repositories", id, ..] if id.parse::<i64>().is_ok() => (About::RepositoryId(id.parse().unwrap_or_default()), Use::Api),
            ["orgs", organization, ..] => (About::Organization(organization.to_lowercase()), Use::Members),
            _ => {
                let message = "a GitHub App has no token for this, only for repositories and organisations".to_owned();
                return Err(ForgeError::Denied { what: path.join("/"), message });
            }
        };
        self.kept_or_new(about, purpose).await
    }

    /// A token that was refused is thrown away; the next one is made anew.
    async fn refused(&self, token: &SecretString, _: Option<i64>) -> bool {
        self.kept.lock().await.retain(|_, kept| kept.token.expose_secret() != token.expose_secret());
        true
    }
}
