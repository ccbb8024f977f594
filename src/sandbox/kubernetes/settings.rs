//! What a sandbox in a cluster is made of.
//!
//! What must hold: no key here gives a pod a network, a credential, a volume of the node or a right; there is none.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{Medium, PullPolicy, Sandbox, Toleration};

use super::super::local::complaint_about_variable;
use super::super::{Patience, Target};

/// How sandboxes in a cluster are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kubeconfig; without one the pod's own service account, else `KUBECONFIG`.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the sandboxes.
    pub namespace: String,
    /// The ConfigMap that owns them all.
    pub owner: String,
    /// The image in which projects are worked on.
    pub image: String,
    /// The image that brings frognano-tools.
    pub tools_image: String,
    /// Where frognano-tools is in that image.
    pub tools_program: String,
    /// When the nodes fetch images.
    pub pull_policy: PullPolicy,
    /// The Secrets by which the nodes get into the registry.
    pub pull_secrets: Vec<String>,
    /// The RuntimeClass.
    pub runtime_class: Option<String>,
    /// The labels of the nodes that may be used.
    pub node_selector: BTreeMap<String, String>,
    /// The taints that are accepted.
    pub tolerations: Vec<Toleration>,
    /// The PriorityClass.
    pub priority_class: Option<String>,
    /// Whether pods have users of their own where the server knows that.
    pub user_namespaces: bool,
    /// The user and group in every pod; none where each pod has another.
    pub user: Option<i64>,
    /// Folders that come first in `PATH`.
    pub path: Vec<PathBuf>,
    /// Further environment variables.
    pub env: BTreeMap<String, String>,
    /// What workspace, `/tmp` and home are made of.
    pub medium: Medium,
    /// The size of the workspace in bytes.
    pub workspace_bytes: u64,
    /// The size of `/tmp` and of the home folder, each, in bytes.
    pub tmp_bytes: u64,
    /// The disk of the whole pod in bytes.
    pub disk_bytes: u64,
    /// The memory of the pod in bytes.
    pub memory_bytes: u64,
    /// Processes and threads of the pod's user.
    pub max_processes: u64,
    /// Open files of each process.
    pub max_open_files: u64,
    /// The size of one file in bytes.
    pub max_file_bytes: u64,
    /// Processors' worth of time.
    pub cpus: f64,
    /// How long a pod may take until it runs.
    pub start: Duration,
    /// How long the walls may take to stand after that.
    pub walls: Duration,
    /// The longest life of a pod.
    pub life: Duration,
    /// So old are pods that no run holds when they are removed.
    pub reap_after: Duration,
    /// The address of this service as pods would reach it.
    pub bait_address: Option<IpAddr>,
    /// The cluster's name servers.
    pub name_servers: Vec<SocketAddr>,
    /// What no sandbox may reach besides what every probe tries.
    pub probe_targets: Vec<Target>,
    /// How long an answer from inside is waited for.
    pub patience: Patience,
}

impl Settings {
    /// From the configuration, with the addresses that the service itself reaches.
    ///
    /// # Errors
    /// All complaints at once, one sentence each.
    pub fn new(sandbox: &Sandbox, mut reachable: Vec<Target>) -> Result<Self, Vec<String>> {
        const SPARE: u64 = 256 << 20;
        let cluster = sandbox.kubernetes.clone();
        let complaints: Vec<String> = sandbox.env.keys().filter_map(|name| complaint_about_variable(name)).collect();
        if !complaints.is_empty() {
            return Err(complaints);
        }
        reachable.extend(cluster.probe.iter().map(|address| Target::new("tcp", address.to_string())));
        let disk = match cluster.medium {
            Medium::Memory => SPARE,
            Medium::Disk => sandbox.workspace_bytes.saturating_add(sandbox.tmp_bytes.saturating_mul(2)).saturating_add(SPARE),
        };
        Ok(Self {
            kubeconfig: cluster.kubeconfig,
            namespace: cluster.namespace,
            owner: cluster.owner,
            image: cluster.image,
            tools_image: cluster.tools_image,
            tools_program: cluster.tools_program,
            pull_policy: cluster.pull_policy,
            pull_secrets: cluster.pull_secrets,
            runtime_class: cluster.runtime_class,
            node_selector: cluster.node_selector,
            tolerations: cluster.tolerations,
            priority_class: cluster.priority_class,
            user_namespaces: cluster.user_namespaces,
            user: cluster.user,
            path: sandbox.path.clone(),
            env: sandbox.env.clone(),
            medium: cluster.medium,
            workspace_bytes: sandbox.workspace_bytes,
            tmp_bytes: sandbox.tmp_bytes,
            disk_bytes: cluster.disk_bytes.unwrap_or(disk),
            memory_bytes: sandbox.memory_bytes,
            max_processes: sandbox.max_processes,
            max_open_files: sandbox.max_open_files,
            max_file_bytes: sandbox.max_file_bytes.min(sandbox.workspace_bytes),
            cpus: sandbox.cpus,
            start: Duration::from_secs(cluster.start_seconds),
            walls: Duration::from_secs(cluster.walls_seconds),
            life: Duration::from_secs(cluster.life_seconds),
            reap_after: Duration::from_secs(cluster.reap_seconds),
            bait_address: cluster.bait_address,
            name_servers: cluster.name_servers,
            probe_targets: reachable,
            patience: Patience::default(),
        })
    }
}
