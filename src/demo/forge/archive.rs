//! Archiving a repository: GitHub tells its hooks, Gitea tells nobody.

use serde_json::json;

use super::Kind;
use super::state::State;
use super::webhook::{Delivery, github_headers};
use super::{Forge, Mistake, github};

impl Forge {
    /// Makes a repository read-only.
    ///
    /// # Errors
    /// When the repository or the account is not there.
    pub fn archive(&self, repository: &str, by: &str) -> Result<Vec<Delivery>, Mistake> {
        let mut state = self.state();
        let (position, by) = (state.need_repository(repository)?, state.login(by)?);
        state.repositories[position].archived = true;
        Ok(if state.kind == Kind::GitHub { state.tell_of_archive(position, &by) } else { Vec::new() })
    }
}

impl State {
    fn tell_of_archive(&mut self, position: usize, by: &str) -> Vec<Delivery> {
        let repository = self.repositories[position].clone();
        let payload = json!({
            "action": "archived", "repository": github::shape::repository(self, &repository, ""), "sender": github::shape::user(self, by),
        });
        let body = axum::body::Bytes::from(serde_json::to_vec(&payload).unwrap_or_default());
        let mut delivery = |hook: &super::Hook| {
            let id = self.next_uuid();
            let headers = github_headers(&id, "repository", hook.id, repository.id, &hook.secret, &body);
            Delivery { id, what: "repository archived".to_owned(), headers, body: body.clone() }
        };
        repository.hooks.iter().map(&mut delivery).collect()
    }
}
