//! What tells who comes: the machine itself, a session, a reverse proxy, the key of a program.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, Version, header};
use hmac::{Hmac, KeyInit as _, Mac as _};
use ipnet::IpNet;
use serde_json::json;
use sha2::Sha256;
use url::Url;

use super::cookies::SESSION;
use super::limit::{Limit, REFUSALS, SIGN_INS};
use super::rights::Rights;
use super::{By, Door, Refused, Role, Sees, Viewer};
use crate::audit::{Kind, Note};
use crate::forge::oauth::SignIn;
use crate::store::{ApiToken, Scope, SessionTimes, StoreError, TOKEN_PREFIX};

/// The longest login that a proxy may name, in bytes.
const LONGEST_LOGIN: usize = 255;

/// How it is told who looks.
#[derive(Debug)]
pub enum Access {
    /// Whoever sits at this machine may everything; nobody else may look.
    Loopback,
    /// People sign in with a forge.
    Forge(FrontDoor),
    /// A reverse proxy says who it is.
    Proxy(Proxied),
}

/// How people sign in.
#[derive(Debug)]
pub struct FrontDoor {
    /// The address under which people reach us, without a slash at the end.
    pub public_url: Url,
    /// By the name of the forge.
    pub ways: BTreeMap<String, SignIn>,
    /// How long sessions hold.
    pub times: SessionTimes,
}

/// What a reverse proxy says of who looks.
#[derive(Debug)]
pub struct Proxied {
    /// The header with the login, in lower case.
    pub header: String,
    /// Where it is believed from.
    pub trusted: Vec<IpNet>,
    /// The forge whose login it is.
    pub forge: String,
}

/// What tells who looks.
#[derive(Clone)]
pub struct Gate {
    pub(super) access: Arc<Access>,
    pub(super) rights: Arc<Rights>,
    pub(super) sign_ins: Arc<Limit>,
    pub(super) refusals: Arc<Limit>,
    secret: Arc<str>,
    prefix: Arc<str>,
}

impl Gate {
    /// `secret` is what our forms and our other cookies are known by ([`crate::store::Store::web_secret`]); `prefix` is the path below which people
    /// reach us, without a slash at its end, empty for none.
    #[must_use]
    pub fn new(access: Access, rights: Rights, secret: &str, prefix: &str) -> Self {
        let (secret, prefix) = (secret.into(), prefix.into());
        let (sign_ins, refusals) = (Arc::new(Limit::of(SIGN_INS)), Arc::new(Limit::of(REFUSALS)));
        Self { access: Arc::new(access), rights: Arc::new(rights), sign_ins, refusals, secret, prefix }
    }

    /// A sign under a text that only we can make, for one use of it.
    pub(super) fn sign(&self, of: &str, text: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes());
        mac.map(|mac| hex::encode(mac.chain_update(of).chain_update([0]).chain_update(text).finalize().into_bytes())).unwrap_or_default()
    }

    /// What stands before the paths of all our addresses, as people reach them; empty where nothing does.
    pub(in crate::web) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Who looks, with what they came with before; none when they may not any more.
    pub(in crate::web) async fn still(&self, parts: &Parts, door: &Door) -> Option<Viewer> {
        self.viewer(parts, door).await.ok()
    }

    pub(super) async fn viewer(&self, parts: &Parts, door: &Door) -> Result<Viewer, Refused> {
        if let Some(key) = bearer(&parts.headers) {
            let token = if key.starts_with(TOKEN_PREFIX) { door.store.token(key, door.clock.as_ref()).await.map_err(down)? } else { None };
            return token.map(program).ok_or(Refused::new(StatusCode::UNAUTHORIZED, "the key is wrong, was ended, or ran out"));
        }
        match &*self.access {
            Access::Loopback if comes_from_here(parts) => Ok(Viewer {
                name: "local".to_owned(),
                forge: None,
                role: Role::Operator,
                sees: Sees::All,
                by: By::Place,
                csrf: self.sign("csrf", "local"),
            }),
            Access::Loopback => {
                Err(Refused::new(StatusCode::FORBIDDEN, "these pages are shown on the machine itself only, until a sign-in is configured"))
            }
            Access::Forge(front) => self.signed_in(front, parts, door).await,
            Access::Proxy(proxied) => self.proxied(proxied, parts, door).await,
        }
    }

    async fn signed_in(&self, front: &FrontDoor, parts: &Parts, door: &Door) -> Result<Viewer, Refused> {
        const SIGN_IN: Refused = Refused::new(StatusCode::UNAUTHORIZED, "you are not signed in, or not any more");
        let secret = SESSION.read(&parts.headers, &front.public_url).ok_or(SIGN_IN)?;
        let session = door.store.session(&secret, front.times, door.clock.as_ref()).await.map_err(down)?;
        let session = session.filter(|session| front.ways.contains_key(&session.forge)).ok_or(SIGN_IN)?;
        self.person(session.forge, session.login, (By::Session, &secret), door).await
    }

    async fn proxied(&self, proxied: &Proxied, parts: &Parts, door: &Door) -> Result<Viewer, Refused> {
        let peer = peer(parts);
        let says = parts.headers.get_all(&proxied.header).iter().collect::<Vec<_>>();
        if !peer.is_some_and(|peer| proxied.trusted.iter().any(|net| net.contains(&peer))) {
            if !says.is_empty() && self.refusals.takes(peer, door.clock.now_ms()) {
                tracing::warn!(?peer, header = proxied.header, "somebody else than the proxy says who they are");
                let note = Note::new(Kind::Access, json!({"did": "refused", "why": "the proxy's header came from elsewhere"}));
                door.store.witness(&note).await.map_err(down)?;
            }
            return Err(Refused::new(StatusCode::FORBIDDEN, "these pages are reached through the proxy that signs people in"));
        }
        let is_login =
            |login: &&str| !login.is_empty() && login.len() <= LONGEST_LOGIN && login.bytes().all(|byte| byte.is_ascii_graphic());
        match says[..] {
            [login] => {
                let login = login.to_str().ok().filter(is_login);
                let login = login.ok_or(Refused::new(StatusCode::BAD_REQUEST, "the proxy's header holds no login"))?;
                self.person(proxied.forge.clone(), login.to_owned(), (By::Place, login), door).await
            }
            [] => Err(Refused::new(StatusCode::UNAUTHORIZED, "the proxy does not say who you are")),
            _ => Err(Refused::new(StatusCode::BAD_REQUEST, "the proxy's header is there twice")),
        }
    }

    async fn person(&self, forge: String, login: String, (by, known_by): (By, &str), door: &Door) -> Result<Viewer, Refused> {
        let may = self.rights.of(&forge, &login, &door.store, door.clock.as_ref()).await.map_err(down)?;
        let csrf = self.sign("csrf", known_by);
        Ok(Viewer { name: login, forge: Some(forge), role: may.role, sees: may.sees, by, csrf })
    }
}

fn program(token: ApiToken) -> Viewer {
    let role = match token.scope {
        Scope::Read => Role::Reader,
        Scope::Audit => Role::Auditor,
        Scope::Operate => Role::Operator,
    };
    let name = format!("token {} ({})", token.name, token.id);
    Viewer { name, forge: None, role, sees: token.repositories.map_or(Sees::All, Sees::Only), by: By::Key, csrf: String::new() }
}

pub(super) fn down(error: StoreError) -> Refused {
    tracing::error!(%error, "it can't be told who looks");
    Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer")
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

pub(super) fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_canonical())
}

/// The peer is this machine, and was asked under a name of this machine: a page of somebody else whose name was bent to point here is not, nor is a page
/// of somebody else that a browser of this machine shows. What comes through a proxy on this machine is not from here, as far as it can be told: by the
/// headers that proxies add, and by the version of HTTP that no browser speaks.
fn comes_from_here(parts: &Parts) -> bool {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host });
    let is_of_a_proxy =
        |name: &HeaderName| matches!(name.as_str(), "forwarded" | "via" | "x-real-ip") || name.as_str().starts_with("x-forwarded-");
    let through_a_proxy = parts.headers.keys().any(is_of_a_proxy) || parts.version < Version::HTTP_11;
    let is_here = peer(parts).is_some_and(|peer| peer.is_loopback()) && matches!(name, "127.0.0.1" | "localhost" | "[::1]");
    is_here && !through_a_proxy && !is_asked_by_another_page(&parts.headers)
}

/// A page of another site or port asks, as browsers say; a link that somebody follows is no such question.
fn is_asked_by_another_page(headers: &HeaderMap) -> bool {
    let says = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    matches!(says("sec-fetch-site"), Some("cross-site" | "same-site")) && says("sec-fetch-mode") != Some("navigate")
}
