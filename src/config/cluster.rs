//! `[sandbox.kubernetes]`: the cluster in which sandboxes are pods.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;

/// `[sandbox.kubernetes]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// The file that names the cluster and how to get in; by default the service account of the pod that the service runs in, else `KUBECONFIG`.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the sandboxes, which nothing else uses.
    pub namespace: String,
    /// The ConfigMap in that namespace that stands for this installation: when it is deleted, the cluster collects all that is left of the sandboxes.
    pub owner: String,
    /// The image in which projects are worked on, by digest.
    pub image: String,
    /// The image that brings frognano-tools, by digest.
    pub tools_image: String,
    /// Where frognano-tools is in that image.
    pub tools_program: String,
    /// Whether images may be named by a tag, whose content can change.
    pub allow_tags: bool,
    /// When the nodes fetch images.
    pub pull_policy: PullPolicy,
    /// The names of the Secrets by which the nodes get into the registry; they never enter a pod.
    pub pull_secrets: Vec<String>,
    /// The RuntimeClass: gVisor or Kata.
    pub runtime_class: Option<String>,
    /// The labels of the nodes that may be used.
    pub node_selector: BTreeMap<String, String>,
    /// The taints of nodes that are accepted.
    pub tolerations: Vec<Toleration>,
    /// The PriorityClass.
    pub priority_class: Option<String>,
    /// Whether each pod has users of its own, where the server knows that (1.33 and newer).
    pub user_namespaces: bool,
    /// The user and group in every pod; by default each pod has another.
    pub user: Option<i64>,
    /// What workspace, /tmp and home are made of.
    pub medium: Medium,
    /// The disk of the whole pod, in bytes; by default 256 MiB, and with `medium = "disk"` the workspace and twice /tmp besides.
    pub disk_bytes: Option<u64>,
    /// How long a pod may take until it runs, in seconds.
    pub start_seconds: u64,
    /// How long the network's walls may take to stand after that, in seconds.
    pub walls_seconds: u64,
    /// The longest life of a pod, in seconds.
    pub life_seconds: u64,
    /// So old are pods that no run holds when they are removed, in seconds.
    pub reap_seconds: u64,
    /// The address of this service as pods would reach it; a sandbox must prove that it does not. By default the one that it reaches the cluster from.
    pub bait_address: Option<IpAddr>,
    /// The cluster's name servers, `address:port`; by default those of this machine.
    pub name_servers: Vec<SocketAddr>,
    /// What else no sandbox may reach, `address:port`: a proxy, a gateway, a registry.
    pub probe: Vec<SocketAddr>,
}

/// What the writable folders of a pod are made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// Memory of the pod: fast, never on a node's disk, and full at its size.
    #[default]
    Memory,
    /// The node's disk: the pod is evicted beyond its size.
    Disk,
}

/// When the nodes fetch images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum PullPolicy {
    /// Each time.
    Always,
    /// When it is not there.
    #[default]
    IfNotPresent,
    /// Never: it must be there.
    Never,
}

impl PullPolicy {
    /// As the cluster writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// A taint that is accepted; what is left out matches all.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toleration {
    /// Its key.
    pub key: Option<String>,
    /// Its value; without one, any.
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Option<String>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            namespace: "frognano-sandboxes".to_owned(),
            owner: "frognano-bot".to_owned(),
            image: String::new(),
            tools_image: String::new(),
            tools_program: "/frognano-tools".to_owned(),
            allow_tags: false,
            pull_policy: PullPolicy::default(),
            pull_secrets: Vec::new(),
            runtime_class: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            priority_class: None,
            user_namespaces: true,
            user: None,
            medium: Medium::default(),
            disk_bytes: None,
            start_seconds: 180,
            walls_seconds: 30,
            life_seconds: 14_400,
            reap_seconds: 120,
            bait_address: None,
            name_servers: Vec::new(),
            probe: Vec::new(),
        }
    }
}

impl Cluster {
    /// Everything that is wrong, one sentence each.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut demand = |holds: bool, complaint: &str| {
            if !holds {
                complaints.push(format!("[sandbox.kubernetes] {complaint}"));
            }
        };
        if let Some(kubeconfig) = &self.kubeconfig {
            demand(kubeconfig.is_file(), &format!("kubeconfig: {} is not there", kubeconfig.display()));
        }
        demand(!self.namespace.is_empty(), "namespace: empty");
        demand(!self.owner.is_empty(), "owner: empty; it names a ConfigMap in the namespace");
        for (key, image) in [("image", &self.image), ("tools_image", &self.tools_image)] {
            demand(!image.is_empty(), &format!("{key}: missing"));
            demand(
                image.is_empty() || self.allow_tags || image.contains("@sha256:"),
                &format!("{key}: {image} has no digest, so it may change at any time; write NAME@sha256:…, or set allow_tags = true"),
            );
        }
        demand(self.tools_program.starts_with('/'), "tools_program: the full path in the tools image");
        demand(self.user.is_none_or(|user| user > 0), "user: never 0");
        demand(self.start_seconds > 0, "start_seconds: at least 1");
        demand(self.life_seconds >= 60, "life_seconds: at least 60");
        demand(self.reap_seconds > self.start_seconds.min(60), "reap_seconds: more than a pod needs to start");
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        for effect in self.tolerations.iter().filter_map(|toleration| toleration.effect.as_deref()) {
            demand(effects.contains(&effect), &format!("tolerations: the effect {effect:?} is none of {}", effects.join(", ")));
        }
        demand(
            self.bait_address.is_none_or(|address| !address.is_loopback() && !address.is_unspecified()),
            "bait_address: an address at which a pod would reach this service, so neither loopback nor 0.0.0.0",
        );
        complaints
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sandbox;
    use super::*;

    fn read(text: &str) -> Result<Cluster, toml::de::Error> {
        toml::from_str::<Sandbox>(&format!("kind = \"kubernetes\"\n[kubernetes]\n{text}")).map(|sandbox| sandbox.kubernetes)
    }

    #[test]
    fn every_complaint_about_a_cluster_comes_at_once() {
        let text = "kubeconfig = \"/nowhere\"\nnamespace = \"\"\nowner = \"\"\nimage = \"python:3\"\ntools_program = \"x\"\nuser = 0\nstart_seconds = 0\n\
            life_seconds = 1\nreap_seconds = 0\nbait_address = \"127.0.0.1\"\n[[kubernetes.tolerations]]\neffect = \"Never\"";
        let complaints = read(text).unwrap().complaints();
        for words in [
            "kubeconfig: /nowhere",
            "namespace: empty",
            "owner: empty",
            "image: python:3 has no digest",
            "tools_image: missing",
            "tools_program: the full path",
            "user: never 0",
            "start_seconds",
            "life_seconds",
            "reap_seconds",
            "bait_address",
            "the effect \"Never\"",
        ] {
            assert!(complaints.iter().any(|complaint| complaint.contains(words)), "{words} is not in {complaints:#?}");
        }
        let digest = format!("a@sha256:{}", "0".repeat(64));
        assert_eq!(read(&format!("image = \"{digest}\"\ntools_image = \"{digest}\"")).unwrap().complaints(), Vec::<String>::new());
        assert_eq!(read("image = \"a\"\ntools_image = \"b\"\nallow_tags = true").unwrap().complaints(), Vec::<String>::new());
    }

    #[test]
    fn no_key_opens_a_network_or_mounts_anything() {
        for key in
            ["network = true", "host_network = true", "volumes = []", "service_account = \"x\"", "privileged = true", "dns = \"10.0.0.1\""]
        {
            assert!(read(key).unwrap_err().message().contains("unknown field"), "{key}");
        }
        assert!(read("probe = [\"proxy:3128\"]").is_err(), "a name may mean another address in a pod");
    }
}
