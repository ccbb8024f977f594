//! Sandboxes as pods of a Kubernetes cluster: the only place that knows the kube crate.
//!
//! ```text
//! policy that denies everything -> pod -> it runs -> one exec, the only channel -> proof, repeated until the walls stand -> the repository
//! ```
//!
//! What must hold: the policy is there before the pod and goes after it; nothing enters before the proof; whatever the cluster does has a name and
//! is told in its own words; a sandbox leaves neither pod nor policy, and what a dead service left is removed by the next.

mod examine;
mod held;
mod pod;
mod reap;
mod restricted;
mod settings;
mod trouble;
mod walls;
mod wire;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, ListParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::OnceCell;

pub use examine::{RIGHTS, Right};
pub use settings::Settings;
pub use trouble::{Remedy, Trouble};

use crate::domain::Check;
use crate::telemetry::traces;

use super::{Command, Entry, Link, Listing, ProbeReport, Ran, Sandbox, SandboxError, Sandboxes, TakenFile, WORKSPACE};
use held::{Held, Kinds};
use pod::{DOOR, Order, Owner, PART};
use trouble::Told;
use walls::{Lure, Places};
use wire::Wire;

const OUT_OF_MEMORY: &str = "processes inside were killed because the memory limit of the sandbox was reached";
/// The first version of the server that gives pods users of their own unless it is told not to.
const USER_NAMESPACES: (u32, u32) = (1, 33);
/// The node's own server, which is there on every node.
const KUBELET: u16 = 10_250;
/// So many other pods are tried.
const PEERS: usize = 4;

/// Makes sandboxes in a cluster.
pub struct Kubernetes {
    settings: Settings,
    client: kube::Client,
    kinds: Kinds,
    api_server: (String, u16),
    knows_user_namespaces: OnceCell<bool>,
}

impl Kubernetes {
    /// Reads how to get into the cluster; nothing is asked of it yet.
    ///
    /// # Errors
    /// One sentence each.
    pub async fn new(settings: Settings) -> Result<Self, Vec<String>> {
        let config = access(&settings).await.map_err(|why| vec![format!("[sandbox.kubernetes] kubeconfig: {why}")])?;
        let uri = &config.cluster_url;
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
        let api_server = (uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(), port);
        let client = kube::Client::try_from(config).map_err(|error| vec![format!("[sandbox.kubernetes]: {error}")])?;
        let kinds = Kinds::new(&client, &settings.namespace);
        Ok(Self { settings, client, kinds, api_server, knows_user_namespaces: OnceCell::new() })
    }

    async fn make(&self, order: &Order, lure: Lure, began: Instant) -> Result<KubernetesSandbox, SandboxError> {
        let installation = self.installation().await.map_err(|told| told.at_the_start())?;
        let held = Held::new(self.kinds.clone(), order.name.clone());
        match self.run_and_prove(&held, order, &installation, lure, began).await {
            Ok((link, wire, report)) => {
                let kinds = self.kinds.clone();
                wire.end_with(kinds.clone().until_over(order.name.clone()));
                Ok(KubernetesSandbox { link, wire, held, kinds, name: order.name.clone(), report, lost: None })
            }
            Err(error) => {
                held.end().await;
                Err(error)
            }
        }
    }

    async fn run_and_prove(
        &self,
        held: &Held,
        order: &Order,
        installation: &Owner,
        lure: Lure,
        began: Instant,
    ) -> Result<(Link, Wire, ProbeReport), SandboxError> {
        let pod = self.run(held, order, installation).await.map_err(|told| told.at_the_start())?;
        let (spoken, places) = tokio::join!(self.speak(order), self.places(&pod, order));
        let (mut link, wire) = spoken.map_err(|told| told.at_the_start())?;
        let proved = async {
            let stood = walls::stand(&mut link, &lure, &places, self.settings.walls).await?;
            confined(&mut link).await?;
            Ok(stood)
        };
        let (attempts, waited) = match traces::span("probe").around(proved).await {
            Ok(stood) => stood,
            Err(SandboxError::Lost(why)) => {
                let told = self.kinds.why_lost(&order.name, &why, &[wire.said(), link.last_words().await]).await;
                return Err(told.at_the_start());
            }
            Err(error) => return Err(error),
        };
        let mut bounds = pod::bounds(&self.settings, order);
        bounds.push(format!("network policy: everything denied, in force within {} ms", waited.as_millis()));
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok((link, wire, ProbeReport { attempts, bounds, elapsed_ms }))
    }

    /// What owns all sandboxes.
    async fn installation(&self) -> Result<Owner, Told> {
        let (owner, namespace) = (&self.settings.owner, &self.settings.namespace);
        let found = self.kinds.maps.get_opt(owner).await.map_err(|error| trouble::of_answer(&error))?;
        found.as_ref().map(Owner::installation).ok_or_else(|| {
            Trouble::NotPermitted.told(format!(
                "the ConfigMap {owner} that owns all sandboxes is not in the namespace {namespace}: make it by `kubectl -n {namespace} create configmap {owner}`"
            ))
        })
    }

    /// The policy, then the pod, then waits until the pod runs.
    async fn run(&self, held: &Held, order: &Order, installation: &Owner) -> Result<Pod, Told> {
        let odd = |error: serde_json::Error| Trouble::AdmissionRefused.told(format!("what is configured makes no pod: {error}"));
        let policy = pod::policy(order, installation).map_err(odd)?;
        let policy = held.create(&self.kinds.policies, policy).await?;
        let pod = pod::pod(order, &Owner::policy(&policy), &self.settings).map_err(odd)?;
        let made = held.create(&self.kinds.pods, pod).await?;
        let more = restricted::complaints(&made);
        if !more.is_empty() {
            return Err(Trouble::Changed.told(format!("the cluster made another pod of the one that was asked for: {}", more.join("; "))));
        }
        self.until_it_runs(&order.name).await
    }

    async fn until_it_runs(&self, name: &str) -> Result<Pod, Told> {
        let deadline = Instant::now() + self.settings.start;
        let mut last = None;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.why_slow(name, last).await);
            }
            // Not longer than this, so that what only events tell is heard.
            let watched = tokio::time::timeout(left.min(Duration::from_secs(5)), self.watch(name, &mut last)).await;
            match watched {
                Ok(Ok(pod)) => return Ok(pod),
                Ok(Err(told)) if told.may_pass() || told.trouble.remedy() == Remedy::Wait => {
                    last = Some(told);
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Ok(Err(told)) => return Err(told),
                Err(_) => {
                    if let Some(told) = trouble::of_events(&self.kinds.warnings(name).await)
                        && told.trouble.remedy() == Remedy::Report
                    {
                        return Err(told);
                    }
                }
            }
        }
    }

    /// Waits until the pod runs or can't; what may still pass is noted in `last`.
    async fn watch(&self, name: &str, last: &mut Option<Told>) -> Result<Pod, Told> {
        let only = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(60);
        let of = |error: kube::Error| trouble::of_answer(&error);
        let mut changes = self.kinds.pods.watch(&only, "0").await.map_err(of)?.boxed();
        while let Some(change) = changes.next().await {
            let pod = match change.map_err(of)? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => pod,
                WatchEvent::Deleted(_) => return Err(Trouble::Deleted.told("somebody deleted the pod")),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => return Err(of(kube::Error::Api(status))),
            };
            match trouble::of_pod(&pod) {
                Some(told) if told.may_pass() => *last = Some(told),
                Some(told) => return Err(told),
                None if runs(&pod) => return Ok(pod),
                None => {}
            }
        }
        Err(Trouble::ServerDown.told("the API server ended the watch on the pod"))
    }

    async fn why_slow(&self, name: &str, last: Option<Told>) -> Told {
        if let Some(told) = last {
            return told;
        }
        let seconds = self.settings.start.as_secs();
        trouble::of_events(&self.kinds.warnings(name).await)
            .unwrap_or_else(|| Trouble::Slow.told(format!("the pod did not run within {seconds} s, and no event says why")))
    }

    /// The one stream to the program inside.
    async fn speak(&self, order: &Order) -> Result<(Link, Wire), Told> {
        const ROOM: usize = 256 << 10;
        let params = AttachParams {
            container: Some(pod::CONTAINER.to_owned()),
            stdin: true,
            max_stdin_buf_size: Some(ROOM),
            max_stdout_buf_size: Some(ROOM),
            ..AttachParams::default()
        };
        let opened = self.kinds.pods.exec(&order.name, pod::command(&self.settings), &params).await;
        let process = opened.map_err(|error| trouble::of_answer(&error))?;
        let (wire, link) =
            Wire::new(process, self.settings.patience).ok_or_else(|| Trouble::ExecCut.told("the exec came without its streams"))?;
        Ok((link, wire))
    }

    /// What there is near a pod: the API server, its node, other sandboxes, name servers.
    async fn places(&self, pod: &Pod, order: &Order) -> Places {
        let status = pod.status.clone().unwrap_or_default();
        let node: Option<IpAddr> = status.host_ip.and_then(|address| address.parse().ok());
        let ours = ListParams::default().labels(&format!("{}={}", PART.0, PART.1));
        let others = self.kinds.pods.list(&ours).await.map(|list| list.items).unwrap_or_default();
        let others = others.iter().filter(|pod| pod.metadata.name.as_deref() != Some(&order.name));
        let peers = others.filter_map(|pod| pod.status.as_ref()?.pod_ip.as_deref()?.parse::<IpAddr>().ok()).take(PEERS);
        let api_server = tokio::net::lookup_host((self.api_server.0.as_str(), self.api_server.1)).await;
        let mut near: Vec<SocketAddr> = api_server.into_iter().flatten().collect();
        near.extend(node.map(|node| SocketAddr::new(node, KUBELET)));
        near.extend(peers.map(|peer| SocketAddr::new(peer, DOOR)));
        let name_servers = if self.settings.name_servers.is_empty() { own_name_servers() } else { self.settings.name_servers.clone() };
        Places { near, name_servers, further: self.settings.probe_targets.clone() }
    }

    async fn user_namespaces(&self) -> bool {
        let asked = self.knows_user_namespaces.get_or_try_init(|| async {
            let version = self.client.apiserver_version().await?;
            let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
            Ok::<bool, kube::Error>((number(&version.major), number(&version.minor)) >= USER_NAMESPACES)
        });
        self.settings.user_namespaces && asked.await.copied().unwrap_or(false)
    }

    /// Where pods would reach this service.
    fn bait_address(&self) -> Result<IpAddr, SandboxError> {
        let own = || {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
            socket.connect((self.api_server.0.as_str(), self.api_server.1)).ok()?;
            Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
        };
        self.settings.bait_address.or_else(own).ok_or_else(|| {
            SandboxError::Unfit(
                "the API server is reached over loopback, so it can't be told at which address pods would reach this service: set [sandbox.kubernetes] bait_address".to_owned(),
            )
        })
    }
}

#[async_trait]
impl Sandboxes for Kubernetes {
    fn image(&self) -> Option<String> {
        pod::image(&self.settings)
    }

    async fn start(&self, name: &str) -> Result<Box<dyn Sandbox>, SandboxError> {
        self.start_for(name, name, "").await
    }

    async fn start_for(&self, name: &str, run: &str, works_on: &str) -> Result<Box<dyn Sandbox>, SandboxError> {
        static STARTS: AtomicU64 = AtomicU64::new(0);
        let began = Instant::now();
        let number = u64::from(std::process::id()) << 32 | STARTS.fetch_add(1, Ordering::Relaxed);
        let salt = u64::from(uuid::Uuid::new_v4().as_fields().0);
        let order = Order {
            name: pod::plain_name(name, salt ^ number & 0xffff_ffff),
            run: run.to_owned(),
            issue: works_on.to_owned(),
            user_namespaces: self.user_namespaces().await,
            user: self.settings.user.unwrap_or_else(|| pod::own_user(salt)),
        };
        let lure = Lure::lay(self.bait_address()?).await.map_err(SandboxError::NotStarted)?;
        Ok(Box::new(self.make(&order, lure, began).await?))
    }

    async fn examine(&self) -> Vec<Check> {
        self.look().await
    }

    async fn reap(&self, held: &HashSet<String>, now_ms: i64) -> Result<Vec<String>, SandboxError> {
        reap::reap(&self.kinds, held, now_ms, self.settings.reap_after).await
    }
}

async fn access(settings: &Settings) -> Result<kube::Config, String> {
    if let Some(path) = &settings.kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        return config.map_err(|error| format!("{}: {error}", path.display()));
    }
    kube::Config::infer()
        .await
        .map_err(|error| format!("neither a kubeconfig nor a pod's service account is there ({error}): name a file by kubeconfig"))
}

fn runs(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    status.is_some_and(|status| status.phase.as_deref() == Some("Running"))
        && containers.filter_map(|container| container.state.as_ref()).any(|state| state.running.is_some())
}

/// The name servers of this machine, which are the cluster's where the service is a pod itself.
fn own_name_servers() -> Vec<SocketAddr> {
    const DNS: u16 = 53;
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let addresses = text.lines().filter_map(|line| line.strip_prefix("nameserver")?.trim().parse::<IpAddr>().ok());
    addresses.filter(|address| !address.is_loopback()).map(|address| SocketAddr::new(address, DNS)).collect()
}

/// Refuses a program inside that has rights.
async fn confined(link: &mut Link) -> Result<(), SandboxError> {
    let rights = link.rights().await?;
    let none = "0000000000000000";
    let expected = [("NoNewPrivs", "1"), ("Seccomp", "2"), ("CapEff", none), ("CapPrm", none), ("CapBnd", none)];
    match expected.into_iter().find(|(name, value)| rights.get(*name).is_none_or(|found| found != value)) {
        Some((name, value)) => Err(SandboxError::Unfit(format!("a process inside is not confined: {name} {value} was expected"))),
        None => Ok(()),
    }
}

/// One pod with its policy and the stream to the program inside.
struct KubernetesSandbox {
    link: Link,
    wire: Wire,
    held: Held,
    kinds: Kinds,
    name: String,
    report: ProbeReport,
    lost: Option<Told>,
}

impl KubernetesSandbox {
    /// Ends the sandbox when its link is lost, and says what the cluster knows of the reason.
    async fn settle<T>(&mut self, outcome: Result<T, SandboxError>) -> Result<T, SandboxError> {
        let Err(SandboxError::Lost(why)) = outcome else { return outcome };
        if let Some(told) = &self.lost {
            return Err(told.later());
        }
        let words = [self.wire.said(), self.link.last_words().await];
        let told = self.kinds.why_lost(&self.name, &why, &words).await;
        self.held.begin_to_end();
        Err(self.lost.insert(told).later())
    }
}

#[async_trait]
impl Sandbox for KubernetesSandbox {
    fn probe_report(&self) -> &ProbeReport {
        &self.report
    }

    async fn put(&mut self, tar: Vec<u8>) -> Result<(), SandboxError> {
        self.put_into(WORKSPACE, tar).await
    }

    async fn put_into(&mut self, folder: &str, tar: Vec<u8>) -> Result<(), SandboxError> {
        let put = self.link.put(folder, &tar).await;
        self.settle(put).await.map(|_| ())
    }

    async fn call(&mut self, tool: &str, args: &serde_json::Value) -> Result<String, SandboxError> {
        let called = self.link.call(tool, args).await;
        self.settle(called).await
    }

    async fn run(&mut self, command: &Command) -> Result<Ran, SandboxError> {
        let ran = self.link.run(command).await;
        let ran = self.settle(ran).await?;
        if ran.exit_code != Some(0) && self.link.memory_kills() > 0 {
            return Err(SandboxError::NoRoom(OUT_OF_MEMORY.to_owned()));
        }
        Ok(ran)
    }

    async fn list(&mut self, how: Listing) -> Result<Vec<Entry>, SandboxError> {
        let listed = self.link.list(WORKSPACE, how).await;
        self.settle(listed).await
    }

    async fn take(&mut self, folder: &str, paths: &[Vec<u8>], limit: u64) -> Result<Vec<TakenFile>, SandboxError> {
        let taken = self.link.take(folder, paths, limit).await;
        self.settle(taken).await
    }

    async fn close(mut self: Box<Self>) {
        self.link.close();
        self.held.end().await;
    }
}
