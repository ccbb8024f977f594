//! The App's installation ends, is suspended, or loses a repository: what the App can't do from then on, and what its hook is told.

use axum::body::Bytes;
use serde_json::{Value, json};

use super::shape;
use crate::demo::forge::state::State;
use crate::demo::forge::webhook::{Delivery, github_headers};
use crate::demo::forge::{Forge, Mistake};
use crate::domain::Permission;

/// How far the App is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    /// On every repository that its account may read.
    Works,
    /// Everything is refused until somebody lets it work again.
    Suspended,
    /// Not at all.
    Not,
}

impl Forge {
    /// Suspends the App's installation or takes it away, as the owner of the repositories may; what the App's hook is told.
    ///
    /// # Errors
    /// When there is no App, or no such account.
    pub fn end_installation(&self, becomes: Installed, by: &str) -> Result<Vec<Delivery>, Mistake> {
        let mut state = self.state();
        let by = state.login(by)?;
        let app = state.app.as_mut().ok_or_else(|| Mistake("there is no App".to_owned()))?;
        app.installed = becomes;
        let action = match becomes {
            Installed::Works => "unsuspend",
            Installed::Suspended => "suspend",
            Installed::Not => "deleted",
        };
        if becomes == Installed::Not {
            state.tokens.retain(|_, token| token.ends_ms.is_none());
        }
        let repositories = state.repositories.iter().map(told).collect::<Value>();
        Ok(state.tell_app("installation", action, &by, "repositories", &repositories))
    }

    /// Takes a repository out of the App's installation; what the App's hook is told.
    ///
    /// # Errors
    /// When the App, the repository or the account is not there.
    pub fn remove_from_installation(&self, repository: &str, by: &str) -> Result<Vec<Delivery>, Mistake> {
        let mut state = self.state();
        let (position, by) = (state.need_repository(repository)?, state.login(by)?);
        let account = state.app.as_ref().map(super::app::account).ok_or_else(|| Mistake("there is no App".to_owned()))?;
        state.repositories[position].permissions.insert(account, Permission::None);
        let id = state.repositories[position].id;
        let of_the_app = state.tokens.values_mut().filter(|token| token.ends_ms.is_some());
        of_the_app.filter_map(|token| token.repositories.as_mut()).for_each(|reached| {
            reached.remove(&id);
        });
        let removed = json!([told(&state.repositories[position])]);
        Ok(state.tell_app("installation_repositories", "removed", &by, "repositories_removed", &removed))
    }
}

impl State {
    /// The App's hook has the secret of the first repository's.
    fn tell_app(&mut self, event: &str, action: &str, by: &str, list: &str, repositories: &Value) -> Vec<Delivery> {
        let (installation, secret) = match (&self.app, self.repositories.iter().flat_map(|repository| &repository.hooks).next()) {
            (Some(app), Some(hook)) => (app.row(), hook.secret.clone()),
            _ => return Vec::new(),
        };
        let mut payload = json!({"action": action, "installation": installation, "sender": shape::user(self, by)});
        payload[list] = repositories.clone();
        let body = Bytes::from(serde_json::to_vec(&payload).unwrap_or_default());
        let id = self.next_uuid();
        let headers = github_headers(&id, event, 1, 1, &secret, &body);
        vec![Delivery { id, what: format!("{event} {action}"), headers, body }]
    }
}

fn told(repository: &crate::demo::forge::Repository) -> Value {
    json!({"id": repository.id, "name": repository.name(), "full_name": repository.path, "private": true})
}
