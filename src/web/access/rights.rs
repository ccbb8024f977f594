//! What a person of a forge may see and do, by the forge's own word.
//!
//! The forge is asked with the service's own rights, not with the person's: a sign-in so needs no more than the right to know who it is, nothing of
//! the person's is kept, and who loses their access on the forge loses it here within [`HOLDS_MS`], not at the end of their session. It works alike
//! on all forges, as far as they tell our account of others: on Gitea and Forgejo, where it does not administer a public repository, people without a
//! part in it are not told of, on GitLab only members are.
//!
//! What must hold: what the forge does not say is not seen; a repository is asked about by its id, never by a path that another may have by now.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use tokio::sync::Semaphore;

use super::{Role, Sees};
use crate::domain::{Clock, RepoRef};
use crate::forge::{Forge, ForgeError};
use crate::store::{Store, StoreError, repository_name};

/// For so long the forge's word holds.
const HOLDS_MS: i64 = 10 * 60_000;
/// For so long where it could not say everything.
const HOLDS_BRIEFLY_MS: i64 = 30_000;
/// So many people are remembered.
const MOST_PEOPLE: usize = 1000;
/// The most repositories that are asked about for one person; the newest are asked about first.
const MOST_REPOSITORIES: usize = 500;
/// So many questions are under way at once for one person.
const AT_ONCE: usize = 8;

/// Who may more than look: logins, and `organization/team` for everybody in it, by forge.
#[derive(Debug, Clone, Default)]
pub struct Roles {
    /// They may everything.
    pub operators: BTreeMap<String, Vec<String>>,
    /// They see everything.
    pub auditors: BTreeMap<String, Vec<String>>,
}

/// What somebody may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct May {
    pub(super) role: Role,
    pub(super) sees: Sees,
}

/// What the forge said, when, and for how long that holds.
struct Known {
    may: May,
    at_ms: i64,
    holds_ms: i64,
}

impl Known {
    /// A clock that was set back makes nothing hold for longer.
    fn holds(&self, now_ms: i64) -> bool {
        (0..self.holds_ms).contains(&now_ms.saturating_sub(self.at_ms))
    }
}

/// Asks forges, and remembers their word for some minutes.
pub struct Rights {
    forges: HashMap<String, Arc<dyn Forge>>,
    roles: Roles,
    known: Mutex<HashMap<(String, String), Known>>,
    asking: Semaphore,
}

impl std::fmt::Debug for Rights {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Rights").field("roles", &self.roles).finish_non_exhaustive()
    }
}

impl Rights {
    /// With the service's own hands on the forges.
    #[must_use]
    pub fn new(forges: HashMap<String, Arc<dyn Forge>>, roles: Roles) -> Self {
        Self { forges, roles, known: Mutex::default(), asking: Semaphore::new(4) }
    }

    /// What this person may now.
    pub(super) async fn of(&self, forge: &str, login: &str, store: &Store, clock: &dyn Clock) -> Result<May, StoreError> {
        let key = (forge.to_owned(), login.to_lowercase());
        if let Some(may) = self.remembered(&key, clock.now_ms()) {
            return Ok(may);
        }
        // A page asks for several things at once: one of them asks the forge.
        let _one_of_few = self.asking.acquire().await;
        if let Some(may) = self.remembered(&key, clock.now_ms()) {
            return Ok(may);
        }
        let (may, is_whole) = match self.forges.get(forge) {
            Some(hands) => self.asked(hands.as_ref(), forge, login, store).await?,
            None => (May { role: Role::Reader, sees: Sees::Only(Vec::new()) }, true),
        };
        self.remember(key, &may, clock.now_ms(), if is_whole { HOLDS_MS } else { HOLDS_BRIEFLY_MS });
        Ok(may)
    }

    /// Forgets what is remembered of a person, who signs in anew; but not what was just asked, so that nobody makes the service ask without end.
    pub(super) fn forget(&self, forge: &str, login: &str, now_ms: i64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let who = (forge.to_owned(), login.to_lowercase());
        if known.get(&who).is_some_and(|known| !(0..HOLDS_BRIEFLY_MS).contains(&now_ms.saturating_sub(known.at_ms))) {
            known.remove(&who);
        }
    }

    fn remembered(&self, key: &(String, String), now_ms: i64) -> Option<May> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|known| known.holds(now_ms)).map(|known| known.may.clone())
    }

    fn remember(&self, key: (String, String), may: &May, now_ms: i64, holds_ms: i64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_PEOPLE {
            known.retain(|_, known| known.holds(now_ms));
        }
        if known.len() >= MOST_PEOPLE {
            known.clear();
        }
        known.insert(key, Known { may: may.clone(), at_ms: now_ms, holds_ms });
    }

    /// What the forge says, and whether it said everything.
    async fn asked(&self, hands: &dyn Forge, forge: &str, login: &str, store: &Store) -> Result<(May, bool), StoreError> {
        for (role, named) in [(Role::Operator, &self.roles.operators), (Role::Auditor, &self.roles.auditors)] {
            for name in named.get(forge).into_iter().flatten() {
                if is_named(hands, name, login).await {
                    return Ok((May { role, sees: Sees::All }, true));
                }
            }
        }
        let mut repositories = store.repositories(forge).await?;
        // Ids of most forges grow.
        repositories.sort_by_key(|repo| std::cmp::Reverse(repo.id.parse::<u64>().unwrap_or(0)));
        repositories.truncate(MOST_REPOSITORIES);
        let asked = futures_util::stream::iter(repositories).map(|repo| async move {
            let answer = may_read(hands, &repo, login).await;
            (repo, answer)
        });
        let answers = asked.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        let is_whole = answers.iter().all(|(_, answer)| answer.is_ok());
        for (repo, answer) in &answers {
            if let Err(error) = answer {
                tracing::warn!(repository = repo.path, %error, "the forge does not say who may see this repository, so nobody does");
            }
        }
        let mut seen =
            answers.iter().filter(|(_, answer)| matches!(answer, Ok(true))).map(|(repo, _)| repository_name(repo)).collect::<Vec<_>>();
        seen.sort();
        Ok((May { role: Role::Reader, sees: Sees::Only(seen) }, is_whole))
    }
}

/// Whether a line of the roles names this person.
async fn is_named(hands: &dyn Forge, name: &str, login: &str) -> bool {
    if !name.contains('/') {
        return name.eq_ignore_ascii_case(login);
    }
    match hands.is_in_team(name, login).await {
        Ok(is_in) => is_in,
        Err(error) => {
            tracing::warn!(team = name, %error, "the forge does not say who is in this team, so nobody is");
            false
        }
    }
}

/// The repository may have another path by now, and its old one another repository: the forge is asked which it is first.
async fn may_read(hands: &dyn Forge, repo: &RepoRef, login: &str) -> Result<bool, ForgeError> {
    let now = match hands.repository(repo).await {
        Err(ForgeError::NotFound { .. }) => return Ok(false),
        now => now?.repo,
    };
    Ok(now.id == repo.id && hands.may_read(&now, login).await?)
}
