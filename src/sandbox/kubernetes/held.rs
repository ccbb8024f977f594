//! A pod and its policy for as long as they are held, and their end.
//!
//! What must hold: the policy outlives the pod, or what still runs in it would have a network for a moment; nothing is left when the end returns; a
//! value that is dropped ends them too, after the creation that was on its way, since the server would do it later than the removal; what even that
//! misses falls to the reaper and to the cluster's own collector.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::trouble::{Told, Trouble, of_answer, of_pod};

/// What a sandbox is made of in the cluster, by kind.
#[derive(Clone)]
pub(super) struct Kinds {
    pub(super) pods: Api<Pod>,
    pub(super) policies: Api<NetworkPolicy>,
    pub(super) maps: Api<ConfigMap>,
    pub(super) events: Api<Event>,
}

impl Kinds {
    pub(super) fn new(client: &kube::Client, namespace: &str) -> Self {
        Self {
            pods: Api::namespaced(client.clone(), namespace),
            policies: Api::namespaced(client.clone(), namespace),
            maps: Api::namespaced(client.clone(), namespace),
            events: Api::namespaced(client.clone(), namespace),
        }
    }

    /// Deletes a pod, waits until its processes are gone, and deletes its policy.
    ///
    /// # Errors
    /// What kept it from being deleted, after many tries.
    pub(super) async fn remove(&self, name: &str) -> Result<(), Told> {
        const PAUSES: [u64; 9] = [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600];
        let mut pauses = PAUSES.into_iter();
        loop {
            match (self.remove_once(name).await, pauses.next()) {
                (Ok(()), _) => return Ok(()),
                (Err(told), None) => return Err(told),
                (Err(_), Some(pause)) => tokio::time::sleep(Duration::from_millis(pause)).await,
            }
        }
    }

    async fn remove_once(&self, name: &str) -> Result<(), Told> {
        const LONGEST: Duration = Duration::from_secs(90);
        // A second of grace makes the server wait until the node has ended every process; none would forget the pod at once.
        gone(self.pods.delete(name, &DeleteParams::default().grace_period(1)).await)?;
        let away = async {
            let mut pause = Duration::from_millis(50);
            while self.pods.get_metadata_opt(name).await.map_err(|error| of_answer(&error))?.is_some() {
                tokio::time::sleep(pause).await;
                pause = (pause * 3 / 2).min(Duration::from_secs(1));
            }
            Ok::<(), Told>(())
        };
        match tokio::time::timeout(LONGEST, away).await {
            Ok(away) => away?,
            // The node does not answer any more: the server is told to forget the pod, which nothing runs any longer that could be reached.
            Err(_) => gone(self.pods.delete(name, &DeleteParams::default().grace_period(0)).await)?,
        }
        gone(self.policies.delete(name, &DeleteParams::background()).await)
    }

    /// Waits until a pod that runs is over: it failed, or somebody deletes it.
    pub(super) async fn until_over(self, name: String) {
        const PAUSE: Duration = Duration::from_secs(2);
        while !self.is_seen_to_be_over(&name).await.unwrap_or(false) {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Watches a pod for as long as the server likes.
    async fn is_seen_to_be_over(&self, name: &str) -> kube::Result<bool> {
        if self.pods.get_metadata_opt(name).await?.is_none() {
            return Ok(true);
        }
        let only = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(290);
        let mut changes = self.pods.watch(&only, "0").await?.boxed();
        while let Some(change) = changes.next().await {
            match change? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) if of_pod(&pod).is_some_and(|told| !told.may_pass()) => return Ok(true),
                WatchEvent::Deleted(_) => return Ok(true),
                WatchEvent::Error(_) => return Ok(false),
                WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Bookmark(_) => {}
            }
        }
        Ok(false)
    }

    /// Why the stream to the program inside ended, as the cluster tells it.
    pub(super) async fn why_lost(&self, name: &str, why: &str, last_words: &[String]) -> Told {
        // A node that ends a pod, for its disk for instance, tells the server of it only then.
        const LATE: [u64; 6] = [0, 200, 500, 1_000, 2_000, 4_000];
        let words = [why].into_iter().chain(last_words.iter().map(String::as_str)).filter(|words| !words.is_empty());
        let said = words.collect::<Vec<_>>().join("; ");
        let mut down = None;
        for pause in LATE {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            match self.pods.get_opt(name).await {
                Ok(Some(pod)) => {
                    down = None;
                    if let Some(told) = of_pod(&pod) {
                        return told;
                    }
                }
                Ok(None) => return Trouble::Deleted.told(format!("the pod is not there any more; {said}")),
                Err(error) => down = Some(of_answer(&error)),
            }
        }
        if let Some(told) = down {
            return told.trouble.told(format!("{}; {said}", told.words));
        }
        Trouble::ExecCut.told(said)
    }

    /// The warnings about a pod, oldest first.
    pub(super) async fn warnings(&self, name: &str) -> Vec<Event> {
        let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let mut events = self.events.list(&about).await.map(|list| list.items).unwrap_or_default();
        events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
        events
    }
}

fn gone<T>(deleted: kube::Result<T>) -> Result<(), Told> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(of_answer(&error)),
        Ok(_) => Ok(()),
    }
}

/// A name under which pod and policy are held.
pub(super) struct Held {
    kinds: Kinds,
    name: String,
    /// Whoever creates or removes has it.
    turn: Arc<Mutex<()>>,
    ending: Option<JoinHandle<()>>,
    is_over: bool,
}

impl Held {
    pub(super) fn new(kinds: Kinds, name: String) -> Self {
        Self { kinds, name, turn: Arc::default(), ending: None, is_over: false }
    }

    /// Creates an object, to the end even when nobody waits for it any longer.
    ///
    /// # Errors
    /// What the server answered.
    pub(super) async fn create<K>(&self, api: &Api<K>, object: K) -> Result<K, Told>
    where
        K: Clone + DeserializeOwned + Serialize + std::fmt::Debug + Send + Sync + 'static,
    {
        let (api, turn) = (api.clone(), Arc::clone(&self.turn).lock_owned().await);
        let creation = tokio::spawn(async move {
            let _turn = turn;
            api.create(&PostParams::default(), &object).await
        });
        let created = creation.await.map_err(|error| Trouble::ServerDown.told(format!("the creation was given up: {error}")))?;
        created.map_err(|error| of_answer(&error))
    }

    /// Begins to end both, by a task that nothing stops.
    pub(super) fn begin_to_end(&mut self) {
        if !self.is_over
            && let Ok(runtime) = Handle::try_current()
        {
            self.is_over = true;
            self.ending = Some(runtime.spawn(remove(self.kinds.clone(), self.name.clone(), Arc::clone(&self.turn))));
        }
    }

    /// Ends both, and waits until nothing is left.
    pub(super) async fn end(mut self) {
        self.begin_to_end();
        if let Some(ending) = self.ending.take() {
            let _ = ending.await;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.begin_to_end();
    }
}

async fn remove(kinds: Kinds, name: String, turn: Arc<Mutex<()>>) {
    let _turn = turn.lock().await;
    if let Err(told) = kinds.remove(&name).await {
        tracing::warn!(name, words = told.words, "a sandbox could not be removed from the cluster; it is looked for again later");
    }
}
