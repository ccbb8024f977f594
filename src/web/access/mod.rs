//! Who looks at the pages, and what they may see and do.
//!
//! What must hold: without a [`Viewer`] no page is made and nothing is shown; a viewer sees the repositories that the forge lets them see and no
//! others, in lists, sums, searches and exports alike; what changes something asks for the token that only our own pages hold.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::Response;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::{Door, answer};

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look at the repositories that the forge lets them see.
    Reader,
    /// The same of all repositories, and the audit chain with its exports.
    Auditor,
    /// Everything: also retry and cancel runs, hold the queue.
    Operator,
}

/// The repositories that somebody sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sees {
    /// All of them.
    All,
    /// These, `forge/id`.
    Only(Vec<String>),
}

/// Somebody who looks at the pages.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// The name, for people and for the audit chain.
    pub name: String,
    /// The forge that they signed in with; none for who sits at the machine.
    pub forge: Option<String>,
    /// What they may do.
    pub role: Role,
    /// What they may see.
    pub sees: Sees,
    csrf: String,
}

impl Viewer {
    /// Whether they may see a repository, `forge/id`.
    #[must_use]
    pub fn sees(&self, repository: &str) -> bool {
        match &self.sees {
            Sees::All => true,
            Sees::Only(repositories) => repositories.iter().any(|seen| seen == repository),
        }
    }

    /// The value of the hidden field `csrf` in our forms.
    #[must_use]
    pub fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Whether a form is one of ours.
    #[must_use]
    pub fn wrote(&self, csrf: &str) -> bool {
        bool::from(self.csrf.as_bytes().ct_eq(csrf.as_bytes()))
    }
}

/// How it is told who looks.
#[derive(Debug, Clone)]
pub enum Access {
    /// Whoever sits at this machine may everything; nobody else may look.
    Loopback,
}

/// What tells who looks.
#[derive(Clone)]
pub struct Gate {
    access: Access,
    secret: Arc<[u8; 32]>,
}

impl Gate {
    /// With a new secret: forms of an earlier start are not taken any more.
    #[must_use]
    pub fn new(access: Access) -> Self {
        let mut secret = [0; 32];
        secret[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        secret[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        Self { access, secret: Arc::new(secret) }
    }

    fn csrf(&self, session: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(self.secret.as_slice()).map(|mac| mac.chain_update(session));
        mac.map(|mac| hex::encode(mac.finalize().into_bytes())).unwrap_or_default()
    }

    #[allow(clippy::result_large_err, reason = "the answer is made once, for who may not look")]
    fn viewer(&self, parts: &Parts) -> Result<Viewer, Response> {
        match self.access {
            Access::Loopback if comes_from_here(parts) => {
                Ok(Viewer { name: "local".to_owned(), forge: None, role: Role::Operator, sees: Sees::All, csrf: self.csrf("local") })
            }
            Access::Loopback => {
                Err(answer(StatusCode::FORBIDDEN, "these pages are shown on the machine itself only, until a sign-in is configured"))
            }
        }
    }
}

/// The peer is this machine, and was asked under a name of this machine: a page of somebody else whose name was bent to point here is not.
fn comes_from_here(parts: &Parts) -> bool {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().is_some_and(|ConnectInfo(peer)| peer.ip().is_loopback());
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host });
    let forwarded = ["x-forwarded-for", "forwarded", "x-real-ip"].iter().any(|name| parts.headers.contains_key(*name));
    peer && !forwarded && matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

impl FromRequestParts<Door> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Self::Rejection> {
        door.gate.viewer(parts)
    }
}

/// A viewer who may do what operators do.
pub struct Operator(pub Viewer);

impl FromRequestParts<Door> for Operator {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Self::Rejection> {
        let viewer = Viewer::from_request_parts(parts, door).await?;
        if viewer.role == Role::Operator {
            Ok(Self(viewer))
        } else {
            Err(answer(StatusCode::FORBIDDEN, "this takes the role of an operator"))
        }
    }
}

/// A viewer who may do what auditors do.
pub struct Auditor(pub Viewer);

impl FromRequestParts<Door> for Auditor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Self::Rejection> {
        let viewer = Viewer::from_request_parts(parts, door).await?;
        if viewer.role >= Role::Auditor {
            Ok(Self(viewer))
        } else {
            Err(answer(StatusCode::FORBIDDEN, "this takes the role of an auditor"))
        }
    }
}
