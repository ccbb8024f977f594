//! `[[forge]]`: where a forge is, how the service gets in, and who may ask.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use url::Url;

use super::SecretSource;

/// The kinds of forges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForgeKind {
    /// GitHub or GitHub Enterprise Server.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea.
    Gitea,
    /// Forgejo.
    Forgejo,
}

/// `[[forge]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forge {
    /// The name; deliveries come to `/webhooks/NAME`.
    pub name: String,
    /// Its kind.
    pub kind: ForgeKind,
    /// The address of the forge for people, and for the service where `internal_url` is not given, `https://git.example.com`.
    pub url: Url,
    /// The address that the service itself uses, for the API and for git, where it can't reach `url`.
    pub internal_url: Option<Url>,
    /// The address of its API, where it is not the kind's own place below `internal_url` or `url`.
    pub api_url: Option<Url>,
    /// Where the webhook secrets are; several while they are rotated.
    #[serde(default)]
    pub webhook_secrets: Vec<SecretSource>,
    /// Where the token is; none for a GitHub App.
    pub token: Option<SecretSource>,
    /// The GitHub App's client id, or its number.
    pub app_id: Option<String>,
    /// Where the GitHub App's private key is, in PEM form.
    pub app_key: Option<SecretSource>,
    /// When given, a label counts only if one of these logins set it, or a member of `allowed_teams`; write access is needed besides.
    #[serde(default)]
    pub allowed_users: Vec<String>,
    /// The same for the members of these teams, `organization/team`.
    #[serde(default)]
    pub allowed_teams: Vec<String>,
    /// Who is asked to review where no CODEOWNERS says it: logins.
    #[serde(default)]
    pub reviewers: Vec<String>,
    /// When given, only an approval by a member of one of these teams, `organization/team`, turns `frognano/human-review` green; write
    /// access is needed besides.
    #[serde(default)]
    pub human_review_teams: Vec<String>,
    /// What is done where the forge makes no drafts.
    #[serde(default)]
    pub draft_fallback: DraftFallback,
    /// The least time between calls that change something, in milliseconds; where it is not given, what the kind of forge asks for.
    pub write_spacing_ms: Option<u64>,
    /// A PEM file with the certificates of a private authority.
    pub ca_file: Option<PathBuf>,
    /// Allows `http://` to another machine than this one. The token then crosses the network in the clear.
    #[serde(default)]
    pub allow_plain_http: bool,
}

/// What is done where the forge makes no drafts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DraftFallback {
    /// No pull request is opened.
    #[default]
    Refuse,
    /// A ready one is opened, but only once a failing commit status says on its head that a person must review it.
    ReviewStatus,
}

impl Forge {
    /// The address that the service itself uses.
    #[must_use]
    pub fn service_url(&self) -> &Url {
        self.internal_url.as_ref().unwrap_or(&self.url)
    }

    /// The least time between calls that change something: a second on GitHub, which asks for that, and none elsewhere.
    #[must_use]
    pub fn write_spacing(&self) -> Duration {
        let asked_for = if self.kind == ForgeKind::Github { 1000 } else { 0 };
        Duration::from_millis(self.write_spacing_ms.unwrap_or(asked_for))
    }

    /// The address of the API: as configured, or where this kind has it.
    #[must_use]
    pub fn api_base(&self) -> Url {
        if let Some(url) = &self.api_url {
            return url.clone();
        }
        let mut url = self.service_url().clone();
        let root = url.path().trim_end_matches('/').to_owned();
        match self.kind {
            ForgeKind::Github if url.host_str() == Some("github.com") => {
                url.set_host(Some("api.github.com")).ok();
                url.set_path("/");
            }
            ForgeKind::Github => url.set_path(&format!("{root}/api/v3")),
            ForgeKind::Gitlab => url.set_path(&format!("{root}/api/v4")),
            ForgeKind::Gitea | ForgeKind::Forgejo => url.set_path(&format!("{root}/api/v1")),
        }
        url
    }
}
