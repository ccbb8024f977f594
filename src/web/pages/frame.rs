//! What stands around every page.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};

use crate::web::{Door, Role, Sees, Viewer};

use super::errors;

/// What stands around a page.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    /// What stands before the paths of all links.
    pub prefix: String,
    /// The name of the page in the list of pages; empty for one that is not there.
    pub here: &'static str,
    /// Who looks; empty for nobody.
    pub viewer: String,
    /// What they may do, in a word.
    pub role: &'static str,
    /// The token of our forms.
    pub csrf: String,
    /// They may see all repositories and the chain.
    pub is_auditor: bool,
    /// They may change something.
    pub is_operator: bool,
    /// They signed in, so they may sign out.
    pub may_leave: bool,
}

impl Frame {
    pub(super) fn of(door: &Door, viewer: &Viewer, here: &'static str) -> Self {
        let role = match viewer.role {
            Role::Reader => "reader",
            Role::Auditor => "auditor",
            Role::Operator => "operator",
        };
        Self {
            prefix: door.gate.prefix().to_owned(),
            here,
            viewer: viewer.name.clone(),
            role,
            csrf: viewer.csrf().to_owned(),
            is_auditor: viewer.role >= Role::Auditor && viewer.sees == Sees::All,
            is_operator: viewer.role == Role::Operator,
            may_leave: viewer.may_sign_out(),
        }
    }

    /// For nobody in particular.
    pub(super) fn bare(door: &Door) -> Self {
        Self { prefix: door.gate.prefix().to_owned(), ..Self::default() }
    }

    /// `aria-current` of a page's link.
    pub(super) fn current(&self, page: &str) -> &'static str {
        if self.here == page { "page" } else { "false" }
    }
}

/// The repositories that questions to the database are about, for this viewer.
pub(super) fn within(viewer: &Viewer) -> Option<Vec<String>> {
    match &viewer.sees {
        Sees::All => None,
        Sees::Only(repositories) => Some(repositories.clone()),
    }
}

/// The page, or what is answered in its place.
pub(super) fn show(page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => Html(html).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            errors::failed()
        }
    }
}
