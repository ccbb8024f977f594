//! `[web]`: who may look at the pages and use the API.

use ipnet::IpNet;
use serde::Deserialize;
use url::Url;

use super::{File, SecretSource};

/// How it is told who looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebAccess {
    /// Whoever sits at this machine may everything; nobody else may look.
    #[default]
    Loopback,
    /// People sign in with a forge.
    Forge,
    /// A reverse proxy says who it is.
    Proxy,
}

/// `[web]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// How it is told who looks.
    pub access: WebAccess,
    /// How long somebody stays signed in at most, in hours.
    pub session_hours: u32,
    /// How long somebody stays signed in who does nothing, in minutes.
    pub idle_minutes: u32,
    /// The forges to sign in with, for `access = "forge"`.
    pub sign_in: Vec<SignIn>,
    /// The reverse proxy, for `access = "proxy"`.
    pub proxy: Option<Proxy>,
    /// Who may more than look.
    pub roles: Roles,
}

impl Default for Web {
    fn default() -> Self {
        Self {
            access: WebAccess::Loopback,
            session_hours: 12,
            idle_minutes: 120,
            sign_in: Vec::new(),
            proxy: None,
            roles: Roles::default(),
        }
    }
}

/// `[[web.sign_in]]`: this service as an OAuth application of a forge.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The forge's name in this file.
    pub forge: String,
    /// The id of the application there.
    pub client_id: String,
    /// Where its secret is.
    pub client_secret: SecretSource,
}

/// `[web.proxy]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// The header with the login.
    pub header: String,
    /// The addresses that it is believed from.
    pub trusted: Vec<IpNet>,
    /// The forge whose logins these are, by its name in this file.
    pub forge: String,
}

/// `[web.roles]`: each entry is `forge:login`, or `forge:organization/team` for everybody in it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Roles {
    /// They may everything.
    pub operators: Vec<String>,
    /// They see all repositories and the audit chain.
    pub auditors: Vec<String>,
}

impl File {
    /// Everything that is wrong in `[web]`, one sentence each.
    pub(super) fn complaints_of_web(&self) -> Vec<String> {
        let web = &self.web;
        let mut complaints = Vec::new();
        let mut demand = |holds: bool, complaint: String| {
            if !holds {
                complaints.push(complaint);
            }
        };
        let is_known = |name: &str| self.forges.iter().any(|forge| forge.name == name);
        demand(web.session_hours > 0 && web.idle_minutes > 0, "[web] session_hours and idle_minutes: at least 1".to_owned());
        demand((web.access == WebAccess::Forge) != web.sign_in.is_empty(), sign_in_fits().to_owned());
        demand(
            (web.access == WebAccess::Proxy) == web.proxy.is_some(),
            "[web] proxy: it goes with access = \"proxy\", and only with it".to_owned(),
        );
        if web.access == WebAccess::Forge {
            let public = self.service.public_url.as_ref();
            demand(
                public.is_some_and(keeps_cookies),
                "[service] public_url: signing in needs the https:// address under which people reach these pages".to_owned(),
            );
        }
        for (at, entry) in web.sign_in.iter().enumerate() {
            let place = format!("[[web.sign_in]] {:?}", entry.forge);
            demand(is_known(&entry.forge), format!("{place} forge: no [[forge]] has this name"));
            demand(web.sign_in.iter().take(at).all(|other| other.forge != entry.forge), format!("{place} forge: given twice"));
            demand(!entry.client_id.trim().is_empty(), format!("{place} client_id: empty"));
        }
        if let Some(proxy) = &web.proxy {
            demand(is_known(&proxy.forge), format!("[web.proxy] forge: {:?}: no [[forge]] has this name", proxy.forge));
            demand(!proxy.trusted.is_empty(), "[web.proxy] trusted: empty, so that the proxy would never be believed".to_owned());
            let everybody = proxy.trusted.iter().any(|net| net.prefix_len() == 0);
            demand(!everybody, "[web.proxy] trusted: /0 is everybody, and everybody could say who they are".to_owned());
            let is_name = !proxy.header.is_empty() && proxy.header.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let taken = ["host", "cookie", "authorization", "forwarded", "x-forwarded-for", "x-real-ip"];
            let is_free = !taken.contains(&proxy.header.to_lowercase().as_str());
            demand(is_name && is_free, format!("[web.proxy] header: {:?} can't carry a login", proxy.header));
        }
        for (key, names) in [("operators", &web.roles.operators), ("auditors", &web.roles.auditors)] {
            for name in names {
                let named = name.split_once(':').filter(|(forge, who)| is_known(forge) && !who.trim().is_empty());
                demand(
                    named.is_some(),
                    format!("[web.roles] {key}: {name:?} is not forge:login or forge:organization/team of a [[forge]]"),
                );
            }
        }
        complaints
    }
}

const fn sign_in_fits() -> &'static str {
    "[[web.sign_in]]: access = \"forge\" needs at least one, and nothing else has any"
}

/// Browsers send our cookies to it, and nobody reads them on the way.
fn keeps_cookies(url: &Url) -> bool {
    url.scheme() == "https" || super::check::is_loopback(url)
}
