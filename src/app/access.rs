//! Who may look: what tells it, as it is configured.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::forges::forge_settings;
use crate::config::{Config, WebAccess};
use crate::domain::Clock;
use crate::forge::Forge;
use crate::forge::oauth::{Application, SignIn};
use crate::store::{SessionTimes, Store};
use crate::web::{Access, FrontDoor, Gate, Proxied, Rights, Roles};

/// The gate of a configuration.
///
/// # Errors
/// What is wrong, and where.
pub(super) async fn gate(
    config: &Config,
    forges: HashMap<String, Arc<dyn Forge>>,
    store: &Store,
    clock: &Arc<dyn Clock>,
) -> Result<Gate, String> {
    let web = &config.file.web;
    let secret = store.web_secret().await.map_err(|error| format!("[service] database: {error}"))?;
    let access = match web.access {
        WebAccess::Loopback => Access::Loopback,
        WebAccess::Forge => Access::Forge(front_door(config, clock)?),
        WebAccess::Proxy => {
            let proxy = web.proxy.as_ref().ok_or("[web.proxy]: missing")?;
            Access::Proxy(Proxied { header: proxy.header.to_lowercase(), trusted: proxy.trusted.clone(), forge: proxy.forge.clone() })
        }
    };
    let roles = Roles { operators: by_forge(&web.roles.operators), auditors: by_forge(&web.roles.auditors) };
    let prefix = config.file.service.public_url.as_ref().map_or("", |url| url.path().trim_end_matches('/'));
    Ok(Gate::new(access, Rights::new(forges, roles), &secret, prefix))
}

fn front_door(config: &Config, clock: &Arc<dyn Clock>) -> Result<FrontDoor, String> {
    const MINUTE_MS: i64 = 60_000;
    let web = &config.file.web;
    let public_url = config.file.service.public_url.clone().ok_or("[service] public_url: missing")?;
    let mut ways = BTreeMap::new();
    for (entry, secret) in web.sign_in.iter().zip(&config.sign_in) {
        let place = |why: String| format!("[[web.sign_in]] {:?}: {why}", entry.forge);
        let named = config.file.forges.iter().zip(&config.forges).find(|(forge, _)| forge.name == entry.forge);
        let (forge, secrets) = named.ok_or_else(|| place("no [[forge]] has this name".to_owned()))?;
        let application = Application { client_id: entry.client_id.clone(), client_secret: secret.clone() };
        let way = forge_settings(forge, secrets, clock).and_then(|settings| SignIn::new(&settings, forge.kind, application));
        ways.insert(entry.forge.clone(), way.map_err(place)?);
    }
    let times = SessionTimes { most_ms: i64::from(web.session_hours) * 60 * MINUTE_MS, idle_ms: i64::from(web.idle_minutes) * MINUTE_MS };
    Ok(FrontDoor { public_url, ways, times })
}

fn by_forge(names: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut sorted = BTreeMap::<String, Vec<String>>::new();
    for (forge, who) in names.iter().filter_map(|name| name.split_once(':')) {
        sorted.entry(forge.to_owned()).or_default().push(who.trim().to_owned());
    }
    sorted
}
