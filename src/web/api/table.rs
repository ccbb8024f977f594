//! Routes that know what they are called, so that a test can hold the description against them.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{get, post};

use crate::web::Door;

/// Routes and their names.
#[derive(Default)]
pub(super) struct Table {
    pub(super) router: Router<Door>,
    /// Method and path.
    pub(super) listed: Vec<(&'static str, &'static str)>,
}

impl Table {
    pub(super) fn get<T: 'static>(mut self, path: &'static str, handler: impl Handler<T, Door>) -> Self {
        self.listed.push(("get", path));
        Self { router: self.router.route(path, get(handler)), listed: self.listed }
    }

    pub(super) fn post<T: 'static>(mut self, path: &'static str, handler: impl Handler<T, Door>) -> Self {
        self.listed.push(("post", path));
        Self { router: self.router.route(path, post(handler)), listed: self.listed }
    }
}
