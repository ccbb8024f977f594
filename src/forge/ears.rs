//! Ears: the one place that knows which [`Inbound`] goes with which kind of forge.

use std::sync::Arc;

use secrecy::SecretString;

use super::{Inbound, OwnAccounts, gitea, github, gitlab};
use crate::config::ForgeKind;

/// What it takes to listen to one forge.
#[derive(Debug, Clone)]
pub struct Ears {
    /// Its kind.
    pub kind: ForgeKind,
    /// The name of its entry in the configuration.
    pub name: String,
    /// The label that starts a run.
    pub label: String,
    /// Our own accounts there.
    pub myself: OwnAccounts,
}

impl Ears {
    /// Ears that believe what one of the secrets proves; `age` says how old a signed delivery may be, where the forge signs a time.
    ///
    /// # Errors
    /// A sentence when there is no secret, or one that proves nothing.
    pub fn believing(self, secrets: Vec<SecretString>, age: gitlab::Age) -> Result<Arc<dyn Inbound>, String> {
        let Self { kind, name, label, myself } = self;
        Ok(match kind {
            ForgeKind::Github => Arc::new(github::Inbound::new(name, secrets, label, myself)?),
            ForgeKind::Gitlab => Arc::new(gitlab::Inbound::new(name, secrets, label, myself, age)?),
            ForgeKind::Gitea => Arc::new(gitea::Inbound::new(name, gitea::Kind::Gitea, secrets, label, myself)?),
            ForgeKind::Forgejo => Arc::new(gitea::Inbound::new(name, gitea::Kind::Forgejo, secrets, label, myself)?),
        })
    }

    /// Ears without a secret: they believe nothing and only read what a recorded delivery claims.
    #[must_use]
    pub fn reading(self) -> Arc<dyn Inbound> {
        let Self { kind, name, label, myself } = self;
        match kind {
            ForgeKind::Github => Arc::new(github::Inbound::reader(name, label, myself)),
            ForgeKind::Gitlab => Arc::new(gitlab::Inbound::reader(name, label, myself)),
            ForgeKind::Gitea => Arc::new(gitea::Inbound::reader(name, gitea::Kind::Gitea, label, myself)),
            ForgeKind::Forgejo => Arc::new(gitea::Inbound::reader(name, gitea::Kind::Forgejo, label, myself)),
        }
    }
}
