//! The pod of a sandbox and the policy that cuts it off, as pure text: what is asked of a cluster, word for word.
//!
//! What must hold: Pod Security level "restricted" and more: no token, no service links, no name server, no volume but sized empty ones, a root
//! that can't be written, a limit for everything that is requested. The policy selects the pod by its own name and allows nothing in or out.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use super::super::WORKSPACE;
use super::settings::Settings;
use crate::config::Medium;

/// The home folder inside.
const HOME: &str = "/home/agent";
/// Where the program for inside is brought.
const TOOLS: &str = "/frognano";
/// The container in which everything happens.
pub(super) const CONTAINER: &str = "sandbox";
/// The label of everything that sandboxes are made of.
pub(super) const PART: (&str, &str) = ("app.kubernetes.io/component", "frognano-sandbox");
/// The label that says whose run it is.
pub(super) const RUN: &str = "frognano.dev/run";
/// The label that tells one sandbox from the other: its name.
const SANDBOX: &str = "frognano.dev/sandbox";
/// The annotation that says what is worked on.
const ISSUE: &str = "frognano.dev/issue";
/// Where the program that waits in every pod listens, for the other pods to try.
pub(super) const DOOR: u16 = 61_457;

/// One sandbox to be made.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// The name of pod and policy.
    pub name: String,
    /// The run.
    pub run: String,
    /// The address of the issue or of whatever else is worked on; empty where there is none.
    pub issue: String,
    /// Whether the server gives pods users of their own.
    pub user_namespaces: bool,
    /// The user and group in the pod.
    pub user: i64,
}

/// What owns another object.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    kind: &'static str,
    version: &'static str,
    name: String,
    uid: String,
}

impl Owner {
    /// The installation.
    pub(super) fn installation(map: &ConfigMap) -> Self {
        let about = &map.metadata;
        Self { kind: "ConfigMap", version: "v1", name: about.name.clone().unwrap_or_default(), uid: about.uid.clone().unwrap_or_default() }
    }

    /// The policy of the pod.
    pub(super) fn policy(policy: &NetworkPolicy) -> Self {
        let about = &policy.metadata;
        Self {
            kind: "NetworkPolicy",
            version: "networking.k8s.io/v1",
            name: about.name.clone().unwrap_or_default(),
            uid: about.uid.clone().unwrap_or_default(),
        }
    }
}

/// A name that the cluster takes: lower case, digits and dashes, 63 characters at most, begun and ended by a letter or digit.
pub(super) fn plain_name(name: &str, number: u64) -> String {
    const ROOM: usize = 40;
    let plain: String = name.to_ascii_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(ROOM).collect();
    format!("frognano-{}-{number:08x}", plain.trim_matches('-')).replace("--", "-")
}

/// A value that a label may have.
pub(super) fn label_value(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).take(63).collect();
    plain.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

fn about(order: &Order, owner: &Owner) -> Value {
    json!({
        "name": order.name,
        "labels": {
            "app.kubernetes.io/managed-by": "frognano-bot",
            PART.0: PART.1,
            RUN: label_value(&order.run),
            SANDBOX: order.name,
        },
        "annotations": { ISSUE: order.issue },
        "ownerReferences": [{ "apiVersion": owner.version, "kind": owner.kind, "name": owner.name, "uid": owner.uid }],
    })
}

/// The policy that allows the pod of this order nothing at all.
///
/// # Errors
/// Never for what is written here.
pub(super) fn policy(order: &Order, owner: &Owner) -> Result<NetworkPolicy, serde_json::Error> {
    serde_json::from_value(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": about(order, owner),
        "spec": {
            "podSelector": { "matchLabels": { SANDBOX: order.name } },
            "policyTypes": ["Ingress", "Egress"],
        },
    }))
}

/// The pod of this order, owned by its policy.
///
/// # Errors
/// Never for what is written here.
pub(super) fn pod(order: &Order, owner: &Owner, settings: &Settings) -> Result<Pod, serde_json::Error> {
    let confined = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "privileged": false,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    let amounts = json!({
        "cpu": format!("{}m", (settings.cpus * 1000.0).round()),
        "memory": settings.memory_bytes.to_string(),
        "ephemeral-storage": settings.disk_bytes.to_string(),
    });
    let small = json!({ "cpu": "100m", "memory": "67108864", "ephemeral-storage": "67108864" });
    let medium = match settings.medium {
        Medium::Memory => "Memory",
        Medium::Disk => "",
    };
    let room =
        |name: &str, medium: &str, bytes: u64| json!({ "name": name, "emptyDir": { "medium": medium, "sizeLimit": bytes.to_string() } });
    let mut spec = json!({
        "activeDeadlineSeconds": settings.life.as_secs(),
        "automountServiceAccountToken": false,
        "containers": [{
            "name": CONTAINER,
            "image": settings.image,
            "imagePullPolicy": settings.pull_policy.name(),
            "command": [format!("{TOOLS}/frognano-tools"), "wait", DOOR.to_string()],
            "env": environment(settings),
            "workingDir": WORKSPACE,
            "resources": { "requests": amounts, "limits": amounts },
            "securityContext": confined,
            "volumeMounts": [
                { "name": "workspace", "mountPath": WORKSPACE },
                { "name": "tmp", "mountPath": "/tmp" },
                { "name": "home", "mountPath": HOME },
                { "name": "tools", "mountPath": TOOLS, "readOnly": true },
            ],
        }],
        "dnsConfig": { "nameservers": ["127.0.0.1"] },
        "dnsPolicy": "None",
        "enableServiceLinks": false,
        "hostIPC": false,
        "hostNetwork": false,
        "hostPID": false,
        "imagePullSecrets": settings.pull_secrets.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
        "initContainers": [{
            "name": "tools",
            "image": settings.tools_image,
            "imagePullPolicy": settings.pull_policy.name(),
            "command": [settings.tools_program, "install", TOOLS],
            "resources": { "requests": small, "limits": small },
            "securityContext": confined,
            "volumeMounts": [{ "name": "tools", "mountPath": TOOLS }],
        }],
        "nodeSelector": settings.node_selector,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsGroup": order.user,
            "runAsNonRoot": true,
            "runAsUser": order.user,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "shareProcessNamespace": false,
        "terminationGracePeriodSeconds": 1,
        "tolerations": tolerations(settings),
        "volumes": [
            room("workspace", medium, settings.workspace_bytes),
            room("tmp", medium, settings.tmp_bytes),
            room("home", medium, settings.tmp_bytes),
            room("tools", "", 64 << 20),
        ],
    });
    if order.user_namespaces {
        spec["hostUsers"] = false.into();
    }
    if let Some(class) = &settings.runtime_class {
        spec["runtimeClassName"] = class.as_str().into();
    }
    if let Some(class) = &settings.priority_class {
        spec["priorityClassName"] = class.as_str().into();
    }
    serde_json::from_value(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": about(order, owner), "spec": spec }))
}

/// git believes a folder that another user made only when it is told to: the cluster makes the workspace as root.
fn environment(settings: &Settings) -> Vec<Value> {
    let fixed = [("HOME", HOME), ("USER", "agent"), ("LANG", "C.UTF-8"), ("TMPDIR", "/tmp")];
    let git = [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", WORKSPACE)];
    let mut variables: Vec<Value> = fixed.iter().chain(&git).map(|(name, value)| json!({ "name": name, "value": value })).collect();
    if !settings.path.is_empty() {
        let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(str::to_owned);
        let own = settings.path.iter().map(|folder| folder.display().to_string());
        variables.push(json!({ "name": "PATH", "value": own.chain(usual).collect::<Vec<_>>().join(":") }));
    }
    variables.extend(settings.env.iter().map(|(name, value)| json!({ "name": name, "value": value })));
    variables
}

fn tolerations(settings: &Settings) -> Vec<Value> {
    let written = settings.tolerations.iter().map(|toleration| {
        let operator = if toleration.value.is_some() { "Equal" } else { "Exists" };
        json!({ "key": toleration.key, "operator": operator, "value": toleration.value, "effect": toleration.effect })
    });
    written.collect()
}

/// A user for a pod where none is configured. The kernel counts the processes of a user on the whole node, so that pods with one user would take
/// them from each other; with user namespaces no number above 65,535 is allowed.
pub(super) fn own_user(salt: u64) -> i64 {
    const FIRST: i64 = 10_000;
    const ALL: u64 = 50_000;
    FIRST + i64::try_from(salt % ALL).unwrap_or_default()
}

/// The command by which the program inside speaks, for the one exec of a sandbox.
pub(super) fn command(settings: &Settings) -> Vec<String> {
    let program = format!("{TOOLS}/frognano-tools");
    let limits = [
        ("--max-processes", settings.max_processes),
        ("--max-file-bytes", settings.max_file_bytes),
        ("--max-open-files", settings.max_open_files),
    ];
    let mut words = vec![program, "--workdir".into(), WORKSPACE.into(), "--confine".into()];
    words.extend(["--without-env", "KUBERNETES_", "--without-env", "HOSTNAME"].map(str::to_owned));
    words.extend(limits.into_iter().flat_map(|(name, limit)| [name.to_owned(), limit.to_string()]));
    words
}

/// The bounds of such a pod, for the record.
pub(super) fn bounds(settings: &Settings, order: &Order) -> Vec<String> {
    let mut bounds = vec![
        format!("cgroup of the pod: memory {} bytes", settings.memory_bytes),
        format!("cgroup of the pod: cpus {}", settings.cpus),
        format!("pod: disk {} bytes", settings.disk_bytes),
        format!(
            "pod: workspace {} bytes, tmp and home {} bytes each, of {:?}",
            settings.workspace_bytes, settings.tmp_bytes, settings.medium
        ),
        format!("pod: ends after {} s", settings.life.as_secs()),
        format!("rlimit: processes {}", settings.max_processes),
        format!("rlimit: open files {}", settings.max_open_files),
        format!("rlimit: file size {} bytes", settings.max_file_bytes),
    ];
    bounds.push(format!("runtime class: {}", settings.runtime_class.as_deref().unwrap_or("the cluster's default")));
    bounds.push(format!("user namespace: {}", if order.user_namespaces { "its own" } else { "the node's" }));
    bounds
}

/// What makes the sandboxes of these settings: the same text for the same images and limits.
pub(super) fn image(settings: &Settings) -> Option<String> {
    let pinned = |image: &str| image.contains("@sha256:");
    (pinned(&settings.image) && pinned(&settings.tools_image)).then(|| {
        format!(
            "{} tools={} runtime={} path={:?} env={:?} cpus={} memory={} disk={} processes={}",
            settings.image,
            settings.tools_image,
            settings.runtime_class.as_deref().unwrap_or("default"),
            settings.path,
            settings.env,
            settings.cpus,
            settings.memory_bytes,
            settings.disk_bytes,
            settings.max_processes,
        )
    })
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
