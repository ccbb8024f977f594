//! A cluster for the stories, and what they do in it as its administrator.

use std::sync::Once;
use std::time::{Duration, Instant};

use frognano_bot::config::{PullPolicy, Sandbox as Config};
use frognano_bot::sandbox::Sandboxes;
use frognano_bot::sandbox::kubernetes::{Kubernetes, Settings};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

/// Whether the cluster enforces its policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Open,
    Enforced,
}

/// A namespace of a cluster.
pub struct World {
    pub client: kube::Client,
    pub namespace: String,
}

impl World {
    /// The cluster that enforces policies; none where there is none.
    pub async fn enforced(namespace: &str) -> Option<Self> {
        Self::of(Mode::Enforced, namespace).await
    }

    /// The cluster that only stores them.
    pub async fn open(namespace: &str) -> Option<Self> {
        Self::of(Mode::Open, namespace).await
    }

    async fn of(mode: Mode, namespace: &str) -> Option<Self> {
        if found()? != mode {
            return None;
        }
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = kube::Client::try_default().await.expect("KUBECONFIG is a kubeconfig");
        let world = Self { client, namespace: format!("frognano-stories-{namespace}") };
        world.furnish().await;
        Some(world)
    }

    /// The namespace with the ConfigMap that owns all sandboxes.
    async fn furnish(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let made: Namespace = serde_json::from_value(json!({ "metadata": { "name": self.namespace } })).unwrap();
        there(namespaces.create(&PostParams::default(), &made).await);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let owner: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "frognano-bot" } })).unwrap();
        there(maps.create(&PostParams::default(), &owner).await);
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        soon("the namespace has its account", async || accounts.get_opt("default").await.unwrap().is_some()).await;
    }

    /// Sandboxes as small as the promises are made for.
    pub fn config(&self) -> Config {
        const MIB: u64 = 1 << 20;
        let mut config = Config {
            workspace_bytes: 64 * MIB,
            tmp_bytes: 16 * MIB,
            memory_bytes: 256 * MIB,
            max_processes: 96,
            cpus: 0.3,
            env: [("MARK".to_owned(), "frognano".to_owned())].into(),
            ..Config::default()
        };
        let cluster = &mut config.kubernetes;
        cluster.namespace.clone_from(&self.namespace);
        cluster.image = "docker.io/frognano/python:test".into();
        cluster.tools_image = "docker.io/frognano/tools:test".into();
        cluster.pull_policy = PullPolicy::Never;
        cluster.allow_tags = true;
        cluster.start_seconds = 90;
        cluster.walls_seconds = 20;
        cluster.bait_address = Some(bait());
        config
    }

    pub async fn sandboxes(&self) -> Kubernetes {
        self.sandboxes_of(self.config(), |_| ()).await
    }

    pub async fn sandboxes_of(&self, config: Config, change: impl FnOnce(&mut Settings)) -> Kubernetes {
        let mut settings = Settings::new(&config, Vec::new()).unwrap();
        change(&mut settings);
        Kubernetes::new(settings).await.unwrap()
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn policies(&self) -> Api<NetworkPolicy> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The names of pods and policies of a run.
    pub async fn left_of(&self, run: &str) -> Vec<String> {
        let of_run = ListParams::default().labels(&format!("frognano.dev/run={run}"));
        let pods = self.pods().list_metadata(&of_run).await.unwrap().items;
        let policies = self.policies().list_metadata(&of_run).await.unwrap().items;
        let pods = pods.into_iter().map(|pod| format!("pod {}", pod.metadata.name.unwrap()));
        pods.chain(policies.into_iter().map(|policy| format!("policy {}", policy.metadata.name.unwrap()))).collect()
    }

    pub async fn nothing_is_left_of(&self, run: &str) {
        assert_eq!(self.left_of(run).await, Vec::<String>::new(), "{run}");
    }

    /// The one pod of a run.
    pub async fn pod_of(&self, run: &str) -> Pod {
        let of_run = ListParams::default().labels(&format!("frognano.dev/run={run}"));
        self.pods().list(&of_run).await.unwrap().items.pop().unwrap()
    }

    /// Creates any object of the namespace, or of the cluster, unless it is there.
    pub async fn create<K>(&self, api: Api<K>, object: Value)
    where
        K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
    {
        there(api.create(&PostParams::default(), &serde_json::from_value::<K>(object).unwrap()).await);
    }
}

fn there<T>(created: kube::Result<T>) {
    match created {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => drop(other.unwrap()),
    }
}

/// The kind of cluster that is there.
fn found() -> Option<Mode> {
    let named = std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty());
    match std::env::var("FROGNANO_TEST_KUBE_MODE").as_deref() {
        _ if !named => {
            say_that_it_is_not_run();
            None
        }
        Ok("open") => Some(Mode::Open),
        Ok("enforced") | Err(_) => Some(Mode::Enforced),
        Ok(other) => panic!("FROGNANO_TEST_KUBE_MODE: {other:?} is neither open nor enforced"),
    }
}

fn say_that_it_is_not_run() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        println!(
            "NOT RUN here: the stories of sandboxes in Kubernetes. KUBECONFIG names no cluster; `tests/kube/up` starts one where it can."
        );
    });
}

pub fn bait() -> std::net::IpAddr {
    std::env::var("FROGNANO_TEST_KUBE_BAIT").unwrap_or_else(|_| "10.244.0.1".to_owned()).parse().unwrap()
}

/// Waits until something holds.
pub async fn soon(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(240);
    while !holds().await {
        assert!(Instant::now() < limit, "not within 240 s: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Starts a sandbox that must not come to be; what is said of it.
pub async fn refused(boxes: &dyn Sandboxes, run: &str) -> frognano_bot::sandbox::SandboxError {
    match boxes.start_for(&format!("{run}-agent"), run, "").await {
        Ok(_) => panic!("{run}: a sandbox was started"),
        Err(error) => error,
    }
}
