//! A process that only takes webhooks in.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Forges, KEY_FILE, TimeIds, access, all_forges, door, learn_accounts, listen, open_store, priorities, signing_key};
use crate::audit::SigningKey;
use crate::config::Config;
use crate::domain::{Clock, SystemClock};
use crate::forge::{Forge, OwnAccounts};
use crate::store::Store;
use crate::web::{self, Routes};

/// The door alone, for a process that works on nothing.
pub struct DoorOnly {
    /// The address that it listens on.
    pub address: SocketAddr,
    store: Store,
    routes: Routes,
    accounts: Vec<(String, Arc<dyn Forge>, OwnAccounts)>,
    listener: TcpListener,
}

/// Builds the door alone: webhooks are taken in, and worked on by other processes of the same PostgreSQL database.
///
/// # Errors
/// Every complaint at once.
pub async fn build_door(config: &Config) -> Result<DoorOnly, Vec<String>> {
    let one = |complaint: String| vec![complaint];
    let file = &config.file;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let Forges { inbound, hands, accounts, complaints } = all_forges(config, &clock);
    if !complaints.is_empty() {
        return Err(complaints);
    }
    let store = open_store(config).await.map_err(one)?.with_priorities(priorities(file));
    let (listener, address) = listen(file).await.map_err(one)?;
    let gate = access::gate(config, hands, &store, &clock).await.map_err(one)?;
    let key = key_that_is_there(config).map_err(one)?;
    let door = door(config, inbound, (gate, key), &store, clock, Arc::new(TimeIds), Arc::new(Notify::new()));
    Ok(DoorOnly { address, store, routes: web::routes(door), accounts, listener })
}

impl DoorOnly {
    /// Takes webhooks in until `stop`.
    ///
    /// # Errors
    /// When the listener breaks.
    pub async fn run(self, stop: CancellationToken) -> std::io::Result<()> {
        learn_accounts(self.accounts, &stop);
        let result = web::serve(self.listener, self.routes, stop).await;
        self.store.close().await;
        result
    }
}

/// The key of the audit chain where this machine has it. A process that signs nothing makes none of its own.
fn key_that_is_there(config: &Config) -> Result<Option<Arc<SigningKey>>, String> {
    let has_one = config.audit_key.is_some() || config.file.service.data.join(KEY_FILE).exists();
    if has_one { signing_key(config).map(|key| Some(Arc::new(key))) } else { Ok(None) }
}
