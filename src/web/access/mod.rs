//! Who looks at the pages and uses the API, and what they may see and do.
//!
//! What must hold: without a [`Viewer`] no page is made and nothing is shown; a viewer sees the repositories that the forge lets them see and no
//! others, in lists, sums, searches and exports alike; what changes something asks for the token that only our own pages hold, or for the key of a
//! program.

mod cookies;
mod gate;
mod limit;
mod rights;
mod sign_in;
mod told;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use subtle::ConstantTimeEq as _;

use super::Door;
use crate::store::Doer;

pub use gate::{Access, FrontDoor, Gate, Proxied};
pub use rights::{Rights, Roles};
pub(super) use sign_in::routes;
use told::refused;

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

impl Sees {
    /// As questions to the database have it.
    #[must_use]
    pub fn within(&self) -> Option<&[String]> {
        match self {
            Self::All => None,
            Self::Only(repositories) => Some(repositories),
        }
    }
}

/// Somebody who looks at the pages, or a program that uses the API.
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
    by: By,
    csrf: String,
}

/// How it is known who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// They sit at the machine, or a proxy says it.
    Place,
    /// They signed in.
    Session,
    /// They showed a key.
    Key,
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
        !self.csrf.is_empty() && bool::from(self.csrf.as_bytes().ct_eq(csrf.as_bytes()))
    }

    /// A program with a key of its own; no browser sends that by itself.
    #[must_use]
    pub const fn is_program(&self) -> bool {
        matches!(self.by, By::Key)
    }

    /// They signed in here, so they may sign out here.
    #[must_use]
    pub const fn may_sign_out(&self) -> bool {
        matches!(self.by, By::Session)
    }

    /// As the audit chain names them.
    #[must_use]
    pub fn doer(&self) -> Doer {
        Doer { name: self.name.clone(), forge: self.forge.clone() }
    }
}

impl FromRequestParts<Door> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Self::Rejection> {
        door.gate.viewer(parts, door).await.map_err(|why| refused(parts, &door.gate, why))
    }
}

/// A viewer who may do what operators do.
pub struct Operator(pub Viewer);

impl FromRequestParts<Door> for Operator {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Self::Rejection> {
        at_least(Role::Operator, "this takes the role of an operator", parts, door).await.map(Self)
    }
}

/// A viewer who may do what auditors do. The chain, its exports and the health are of all repositories alike: who sees some of them alone is none.
pub struct Auditor(pub Viewer);

impl FromRequestParts<Door> for Auditor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Self::Rejection> {
        let viewer = at_least(Role::Auditor, "this takes the role of an auditor", parts, door).await?;
        match viewer.sees {
            Sees::All => Ok(Self(viewer)),
            Sees::Only(_) => {
                let words = "this is of all repositories, and shown to who sees all of them";
                Err(refused(parts, &door.gate, Refused::new(StatusCode::FORBIDDEN, words)))
            }
        }
    }
}

async fn at_least(role: Role, words: &'static str, parts: &mut Parts, door: &Door) -> Result<Viewer, Response> {
    let viewer = Viewer::from_request_parts(parts, door).await?;
    if viewer.role >= role { Ok(viewer) } else { Err(refused(parts, &door.gate, Refused::new(StatusCode::FORBIDDEN, words))) }
}

/// Why somebody may not come in.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    words: &'static str,
}

impl Refused {
    const fn new(status: StatusCode, words: &'static str) -> Self {
        Self { status, words }
    }
}
