//! The configured forges, each with its ears for deliveries and its hands for everything else.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::{Access, Config, Forge as ForgeEntry, ForgeKind, ForgeSecrets};
use crate::domain::Clock;
use crate::forge::{Ears, Forge, Inbound, OwnAccounts, gitea, github, gitlab};

/// The configured forges, made.
pub(super) struct Forges {
    pub(super) inbound: HashMap<String, Arc<dyn Inbound>>,
    pub(super) hands: HashMap<String, Arc<dyn Forge>>,
    pub(super) accounts: Vec<(String, Arc<dyn Forge>, OwnAccounts)>,
    pub(super) complaints: Vec<String>,
}

pub(super) fn all_forges(config: &Config, clock: &Arc<dyn Clock>) -> Forges {
    let mut made = Forges { inbound: HashMap::new(), hands: HashMap::new(), accounts: Vec::new(), complaints: Vec::new() };
    for (entry, secrets) in config.file.forges.iter().zip(&config.forges) {
        let myself = OwnAccounts::default();
        match forge(entry, secrets, &config.file.service.label, &myself, clock) {
            Ok((ears, hands)) => {
                made.inbound.insert(entry.name.clone(), ears);
                made.accounts.push((entry.name.clone(), hands.clone(), myself));
                made.hands.insert(entry.name.clone(), hands);
            }
            Err(why) => made.complaints.push(format!("[[forge]] {:?}: {why}", entry.name)),
        }
    }
    made
}

pub(super) fn learn_accounts(accounts: Vec<(String, Arc<dyn Forge>, OwnAccounts)>, stop: &CancellationToken) {
    for (name, forge, myself) in accounts {
        tokio::spawn(stop.clone().run_until_cancelled_owned(learn_account(name, forge, myself)));
    }
}

type EarsAndHands = (Arc<dyn Inbound>, Arc<dyn Forge>);

pub(super) fn forge(
    entry: &ForgeEntry,
    secrets: &ForgeSecrets,
    label: &str,
    myself: &OwnAccounts,
    clock: &Arc<dyn Clock>,
) -> Result<EarsAndHands, String> {
    let settings = forge_settings(entry, secrets, clock)?;
    let ears = Ears { kind: entry.kind, name: entry.name.clone(), label: label.to_owned(), myself: myself.clone() };
    let ears = ears.believing(secrets.webhook.clone(), gitlab::Age::Fresh(clock.clone()))?;
    let hands: Arc<dyn Forge> = match entry.kind {
        ForgeKind::Github => Arc::new(match &secrets.access {
            Access::Token(_) => github::Client::new(settings)?,
            Access::App { id, key } => github::Client::for_app(settings, &github::Identity { id: id.clone(), key: key.clone() })?,
        }),
        ForgeKind::Gitea | ForgeKind::Forgejo => Arc::new(gitea::Client::new(settings)?),
        ForgeKind::Gitlab => Arc::new(gitlab::Client::new(settings)?),
    };
    Ok((ears, hands))
}

/// How a configured forge is reached.
pub(super) fn forge_settings(entry: &ForgeEntry, secrets: &ForgeSecrets, clock: &Arc<dyn Clock>) -> Result<crate::forge::Settings, String> {
    Ok(crate::forge::Settings {
        name: entry.name.clone(),
        api_base: entry.api_base(),
        git_base: entry.service_url().clone(),
        web_base: entry.internal_url.as_ref().map(|_| entry.url.clone()),
        token: match &secrets.access {
            Access::Token(token) => token.clone(),
            Access::App { .. } => secrecy::SecretString::default(),
        },
        ca_bundle: read_ca(entry.ca_file.as_deref())?,
        ca_file: entry.ca_file.as_deref().map(std::path::absolute).transpose().map_err(|error| error.to_string())?,
        write_spacing: entry.write_spacing(),
        pause: Arc::new(crate::forge::Sleep),
        clock: clock.clone(),
    })
}

/// Asks a forge until it answers which account our token belongs to: what that account does is not heard.
async fn learn_account(name: String, forge: Arc<dyn Forge>, myself: OwnAccounts) {
    const BETWEEN_TRIES: Duration = Duration::from_secs(60);
    loop {
        match forge.myself().await {
            Ok(account) => return myself.learn(account),
            Err(error) => tracing::warn!(forge = name, %error, "our own account is not known yet"),
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

pub(super) fn read_ca(file: Option<&Path>) -> Result<Option<Vec<u8>>, String> {
    file.map(|file| std::fs::read(file).map_err(|error| format!("{}: can't be read: {error}", file.display()))).transpose()
}
