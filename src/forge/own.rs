//! Which accounts on a forge are ours. What they do is never heard: else a text of ours could start the next run.

use std::sync::{Arc, PoisonError, RwLock};

use crate::domain::Actor;

/// Our own accounts on one forge: those that are named from the start, and the one that the token turns out to belong to. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct OwnAccounts(Arc<RwLock<Vec<Actor>>>);

impl From<Vec<String>> for OwnAccounts {
    /// The accounts of these logins.
    fn from(logins: Vec<String>) -> Self {
        let named = logins.into_iter().map(|login| Actor { id: String::new(), login, is_bot: false });
        Self(Arc::new(RwLock::new(named.collect())))
    }
}

impl OwnAccounts {
    /// Adds an account, as the forge answers who our token belongs to.
    pub fn learn(&self, account: Actor) {
        let mut accounts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !accounts.contains(&account) {
            accounts.push(account);
        }
    }

    /// Whether this account is one of ours: it has its id, or its login however it is spelt.
    #[must_use]
    pub fn has(&self, actor: &Actor) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().any(|own| is_one(own, actor))
    }
}

fn is_one(own: &Actor, actor: &Actor) -> bool {
    let same_id = !own.id.is_empty() && own.id == actor.id;
    let (ours, theirs) = (plain(&own.login), plain(&actor.login));
    let same_login = !theirs.is_empty() && (ours == theirs || (actor.is_bot && without_suffix(&ours) == without_suffix(&theirs)));
    same_id || same_login
}

fn plain(login: &str) -> String {
    login.trim().trim_start_matches('@').to_lowercase()
}

/// GitHub says `NAME[bot]` in one place and `NAME` in another.
fn without_suffix(login: &str) -> &str {
    login.strip_suffix("[bot]").unwrap_or(login)
}

#[cfg(test)]
mod tests {
    use super::OwnAccounts;
    use crate::domain::Actor;

    fn actor(id: &str, login: &str, is_bot: bool) -> Actor {
        Actor { id: id.into(), login: login.into(), is_bot }
    }

    #[test]
    fn an_account_is_ours_by_its_login_however_spelt_or_by_its_id() {
        let own = OwnAccounts::from(vec!["frognano[bot]".to_owned(), " @Frognano-Bot".to_owned()]);
        for (login, is_bot) in [("Frognano[Bot]", true), ("frognano", true), ("FROGNANO-BOT", false), ("@frognano-bot ", false)] {
            assert!(own.has(&actor("7", login, is_bot)), "{login}");
        }
        for (login, is_bot) in [("frognano", false), ("frognano-bot-2", true), ("", true)] {
            assert!(!own.has(&actor("7", login, is_bot)), "{login}");
        }
        let shared = own.clone();
        own.learn(actor("7", "renamed", false));
        assert!(shared.has(&actor("7", "anything", false)));
        assert!(!shared.has(&actor("", "anything", false)));
    }
}
