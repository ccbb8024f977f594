//! The small forge that the program carries: what `frognano-bot demo` starts, and what the story tests drive.
//!
//! One state has four faces, one for each [`Kind`]. It refuses what the real forges refuse, remembers everything that it was
//! asked, and keeps a list of requests that it does not know, so that nothing passes silently. Acts of people are methods here: each
//! changes the state first and hands back the webhook deliveries that a real forge would send; the caller sends, drops, repeats or
//! reorders them. Deliveries caused through the API are kept for [`Forge::take_deliveries`]; only those of hooks that were themselves made
//! through the API are sent from here.

mod accounts;
mod acts;
mod approvals;
mod archive;
mod gitea;
mod github;
mod gitlab;
mod kind;
mod knobs;
mod oauth;
mod on;
mod pages;
mod people;
mod requests;
mod setup;
mod state;
mod statuses;
mod verdicts;
mod webhook;
mod wire;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::demo::git_backend;
use crate::domain::{Clock, Permission};

pub use accounts::{Account, Token, User};
pub use approvals::Protection;
pub use github::{Installed, Tried};
pub use kind::Kind;
pub use knobs::{Failure, Logged, Strike};
pub use on::On;
pub use people::Opened;
pub use requests::Status;
pub use state::{Act, Comment, Did, Hook, Issue, Label, Pull, Repository, State};
pub use verdicts::{NewReview, Review, Verdict};
pub use webhook::{Delivery, deliver};
pub(super) use wire::serve;

/// Why the forge can't be set up or a person can't act as asked: a mistake of the caller.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Mistake(pub(in crate::demo) String);

/// The forge. Clones share one state.
#[derive(Clone)]
pub struct Forge(Arc<Mutex<State>>);

impl std::fmt::Debug for Forge {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Forge").finish_non_exhaustive()
    }
}

impl Forge {
    /// An empty forge whose timestamps come from this clock.
    #[must_use]
    pub fn new(kind: Kind, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Mutex::new(State::new(kind, clock))))
    }

    /// The state, locked until the guard is dropped: for looking at anything, and for changes that no webhook tells of.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an account and answers its id.
    pub fn add_user(&self, login: &str, is_bot: bool) -> u64 {
        let account = if is_bot { Account::Bot } else { Account::Person };
        self.state().add_account(login, account)
    }

    /// Lets a token in; `scopes` as [`Token::scopes`] has them.
    ///
    /// # Errors
    /// When the account is not there.
    pub fn add_token(&self, token: &str, login: &str, scopes: &[&str]) -> Result<(), Mistake> {
        let mut state = self.state();
        let login = state.login(login)?;
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        state.tokens.insert(token.to_owned(), Token { login, scopes, repositories: None, ends_ms: None });
        Ok(())
    }

    /// Takes over a bare repository under `owner/name` (on GitLab also below groups within groups) and answers its id. The default branch is the one that its HEAD names; from now on
    /// git refuses pushes to it. The owner becomes an organisation when there is no such account.
    ///
    /// # Errors
    /// When the path is not `owner/name`, is taken, or the folder is no bare repository that can be written to.
    pub fn add_repository(&self, path: &str, git_dir: &Path) -> Result<u64, Mistake> {
        let is_part = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
        };
        let nested = self.state().kind == Kind::GitLab;
        let is_owner = |owner: &str| owner.split('/').all(is_part) && (nested || !owner.contains('/'));
        let Some((owner, _)) = path.rsplit_once('/').filter(|(owner, name)| is_owner(owner) && is_part(name)) else {
            return Err(Mistake(format!("`{path}` is no owner/name of letters, digits, `-`, `_` and `.`")));
        };
        let shown = git_dir.display();
        let default_branch = git_backend::default_branch(git_dir)
            .ok_or_else(|| Mistake(format!("{shown} is no git repository: make it with git init --bare")))?;
        git_backend::protect_default_branch(git_dir)
            .map_err(|error| Mistake(format!("{shown}: the update hook can't be written: {error}")))?;
        let mut state = self.state();
        if state.repository(path).is_some() {
            return Err(Mistake(format!("there is a repository `{path}` already")));
        }
        if state.user(owner).is_none() {
            state.add_account(owner, Account::Organization);
        }
        let id = state.enter_repository(path, git_dir, default_branch);
        Ok(id)
    }

    /// Changes a repository without telling anybody (archive it, publish it, rename it, name another default branch).
    ///
    /// # Errors
    /// When it is not there.
    pub fn with_repository<T>(&self, path: &str, change: impl FnOnce(&mut Repository) -> T) -> Result<T, Mistake> {
        let mut state = self.state();
        let position = state.need_repository(path)?;
        Ok(change(&mut state.repositories[position]))
    }

    /// Says what somebody may do in a repository.
    ///
    /// # Errors
    /// When either is not there.
    pub fn permit(&self, path: &str, login: &str, permission: Permission) -> Result<(), Mistake> {
        let mut state = self.state();
        let (position, login) = (state.need_repository(path)?, state.login(login)?);
        state.repositories[position].permissions.insert(login, permission);
        Ok(())
    }

    /// Makes a label in a repository and answers its id; the color is six hexadecimal digits.
    ///
    /// # Errors
    /// When the repository is not there.
    pub fn add_label(&self, path: &str, name: &str, color: &str) -> Result<u64, Mistake> {
        let mut state = self.state();
        let position = state.need_repository(path)?;
        Ok(state.make_label(position, name, color, "").id)
    }

    /// Adds a webhook to a repository; with an empty secret, deliveries carry the empty signatures that real forges send.
    ///
    /// # Errors
    /// When the repository is not there.
    pub fn add_hook(&self, path: &str, secret: &str) -> Result<(), Mistake> {
        let mut state = self.state();
        let (position, id) = (state.need_repository(path)?, state.next_id());
        state.repositories[position].hooks.push(Hook { id, secret: secret.to_owned(), url: None });
        Ok(())
    }

    /// The deliveries caused through the API since the last call, oldest first.
    #[must_use]
    pub fn take_deliveries(&self) -> Vec<Delivery> {
        std::mem::take(&mut self.state().outbox)
    }

    /// Fails the next `times` requests that fit, before anything is done. In the path, `*` stands for any characters.
    pub fn fail_next(&self, method: &str, path: &str, status: u16, times: u32) {
        let (method, path, headers) = (method.to_owned(), path.to_owned(), std::collections::BTreeMap::new());
        self.fail(Failure { method, path, status, times, strike: Strike::Before, headers });
    }

    /// Does what the next `times` requests ask, and answers a failure all the same.
    pub fn fail_after_doing(&self, method: &str, path: &str, status: u16, times: u32) {
        let (method, path, headers) = (method.to_owned(), path.to_owned(), std::collections::BTreeMap::new());
        self.fail(Failure { method, path, status, times, strike: Strike::After, headers });
    }

    /// Adds a failure; of several that fit, the first added strikes first.
    pub fn fail(&self, failure: Failure) {
        self.state().knobs.failures.push(failure);
    }

    /// Lets something happen once, before or after the next request is answered that fits; `*` stands for any characters.
    pub fn when(&self, method: &str, path: &str, strike: Strike, act: impl FnOnce(&Self) + Send + 'static) {
        let (method, path) = (method.to_owned(), path.to_owned());
        self.state().knobs.happenings.push(knobs::Happening { method, path, strike, act: Box::new(act) });
    }

    /// Ends every failure to come.
    pub fn recover(&self) {
        self.state().knobs.failures.clear();
    }

    /// Holds back every answer to paths that fit; of several that fit, the first added counts.
    pub fn slow(&self, path: &str, delay: Duration) {
        self.state().knobs.delays.push((path.to_owned(), delay));
    }

    /// Lets one request hang for ever, before or after it was done: the next one for `after` = 0. The receiver hears when it has come.
    #[must_use]
    pub fn hold(&self, after: usize, strike: Strike) -> oneshot::Receiver<()> {
        let (reached, hears) = oneshot::channel();
        self.state().knobs.hold = Some((after, strike, reached));
        hears
    }

    /// Changes after every answer.
    #[must_use]
    pub fn answered(&self) -> watch::Receiver<usize> {
        self.state().knobs.answered.subscribe()
    }

    /// Whether drafts can be made; without, GitHub refuses them and the others take the title's prefix for a word like any other.
    pub fn drafts_supported(&self, supported: bool) {
        self.state().knobs.drafts_supported = supported;
    }

    /// All requests answered so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Logged> {
        self.state().knobs.requests.clone()
    }

    /// How many requests were answered that fit, whatever the status; `*` stands for any characters.
    #[must_use]
    pub fn count(&self, method: &str, path: &str) -> usize {
        let fits = |request: &&Logged| knobs::fits(method, &request.method) && knobs::fits(path, &request.path);
        self.state().knobs.requests.iter().filter(fits).count()
    }

    /// The requests that the forge does not know, as `METHOD path`. Empty unless somebody asked for what no forge of this kind has, or for
    /// what has to be added here.
    #[must_use]
    pub fn unexpected(&self) -> Vec<String> {
        self.state().knobs.unexpected.clone()
    }
}

impl State {
    fn add_account(&mut self, login: &str, account: Account) -> u64 {
        let id = self.next_id();
        self.users.push(User { id, login: login.to_owned(), account });
        id
    }

    fn need_repository(&self, path: &str) -> Result<usize, Mistake> {
        self.repository_position(path).ok_or_else(|| Mistake(format!("there is no repository `{path}` on the demonstration forge")))
    }

    fn login(&self, login: &str) -> Result<String, Mistake> {
        let user = self
            .user(login)
            .ok_or_else(|| Mistake(format!("there is no account `{login}` on the demonstration forge: add_user makes it")))?;
        Ok(user.login.clone())
    }
}
