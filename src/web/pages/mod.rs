//! The pages for operators, reviewers and auditors: rendered here, without a script but for what changes by itself.
//!
//! What must hold: a page is made for a [`super::Viewer`] and shows nothing that they may not see; all text is escaped by the one escaper of the
//! templates; a browser is told to load nothing but our own style and script; what changes something is a POST with the viewer's token.

mod acts;
mod audit;
mod diff;
mod errors;
mod frame;
mod health;
mod line;
mod live;
mod now;
mod plots;
mod repositories;
mod reviews;
mod run;
mod runs;
mod steps;
mod text;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use futures_util::future::BoxFuture;

use super::Door;
use crate::audit::SigningKey;
use crate::domain::Check;
use crate::telemetry::traces::Shown;

pub use live::Stopping;
pub use text::Visible;

pub(super) use errors::{dressed, nothing_here};

/// Looks whether everything that a run needs is there.
pub type Examine = Arc<dyn Fn() -> BoxFuture<'static, Vec<Check>> + Send + Sync>;

/// What only the pages need.
#[derive(Clone)]
pub struct Pages {
    /// What `doctor` does.
    pub examine: Examine,
    /// The key that exports are signed with; none on a machine that has none, where no exports are made.
    pub key: Option<Arc<SigningKey>>,
    /// The folder with one folder a run, as far as runs work on this machine.
    pub runs: PathBuf,
    /// So many open pull requests hold up further runs in a repository; 0: no limit.
    pub most_open: u32,
    /// The traces of runs that people can look at; none where none are sent.
    pub traces: Option<Shown>,
    live: Arc<live::Live>,
    health: Arc<health::Examined>,
}

impl Pages {
    /// With nothing looked at yet.
    #[must_use]
    pub fn new(examine: Examine, key: Option<Arc<SigningKey>>, runs: PathBuf) -> Self {
        Self { examine, key, runs, most_open: 0, traces: None, live: Arc::default(), health: Arc::default() }
    }

    /// The same with traces that are shown.
    #[must_use]
    pub fn with_traces(self, traces: Option<Shown>) -> Self {
        Self { traces, ..self }
    }

    /// The id of the trace of a run by its job, and the trace's page; none where no trace is sent.
    pub(super) fn trace_of(&self, job: &str) -> Option<(String, Option<String>)> {
        self.traces.as_ref()?.of(job)
    }

    /// The same with a limit of open pull requests in a repository, which is shown.
    #[must_use]
    pub const fn with_most_open(mut self, most_open: u32) -> Self {
        self.most_open = most_open;
        self
    }
}

pub(super) fn routes() -> Router<Door> {
    Router::new()
        .route("/", get(now::page))
        .route("/events", get(live::events))
        .route("/runs", get(runs::page))
        .route("/runs/{run}", get(run::page))
        .route("/runs/{run}/retry", post(acts::retry))
        .route("/runs/{run}/cancel", post(acts::cancel))
        .route("/runs/{run}/export", get(audit::export))
        .route("/repositories", get(repositories::page))
        .route("/reviews", get(reviews::page))
        .route("/health", get(health::page).post(health::examine_now))
        .route("/audit", get(audit::page))
        .route("/static/style.css", get(|| file("text/css; charset=utf-8", include_str!("style.css"))))
        .route("/static/live.js", get(|| file("text/javascript; charset=utf-8", include_str!("live.js"))))
}

async fn file(of: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, of), (header::CACHE_CONTROL, "no-cache")], text)
}
