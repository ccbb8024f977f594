//! What people set up through the API before anything happens: a repository, who may do what in it, and a webhook.

use std::path::Path;

use super::state::{Hook, Repository, State};
use crate::demo::git_backend;
use crate::domain::Permission;

impl State {
    pub(super) fn enter_repository(&mut self, path: &str, git_dir: &Path, default_branch: String) -> u64 {
        let id = self.next_id();
        self.repositories.push(Repository {
            id,
            path: path.to_owned(),
            git_dir: git_dir.to_owned(),
            default_branch,
            archived: false,
            private: true,
            permissions: std::collections::BTreeMap::new(),
            labels: Vec::new(),
            issues: Vec::new(),
            hooks: Vec::new(),
        });
        id
    }

    /// Makes an empty private repository of somebody's own; where it is kept. None when it can't be made.
    pub(super) fn make_repository(&mut self, owner: &str, name: &str) -> Option<usize> {
        let is_sound =
            !name.is_empty() && !name.starts_with('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let path = format!("{owner}/{name}");
        if !is_sound || self.repository(&path).is_some() {
            return None;
        }
        let git_dir = self.new_repositories.as_ref()?.join(format!("{owner}-{name}.git"));
        git_backend::init_bare(&git_dir, "main").and_then(|()| git_backend::protect_default_branch(&git_dir)).ok()?;
        self.enter_repository(&path, &git_dir, "main".to_owned());
        self.repository_position(&path)
    }

    /// Lets somebody in.
    pub(super) fn let_in(&mut self, repository: usize, login: &str, permission: Permission) {
        self.repositories[repository].permissions.insert(login.to_owned(), permission);
    }

    /// Makes a webhook to which the forge itself sends, and answers its id.
    pub(super) fn make_hook(&mut self, repository: usize, url: &str, secret: &str) -> u64 {
        let id = self.next_id();
        self.repositories[repository].hooks.push(Hook { id, secret: secret.to_owned(), url: Some(url.to_owned()) });
        id
    }
}
