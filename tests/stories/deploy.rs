//! What is deployed fits the program: the manifests of a cluster against the configuration that stands beside them and the program's own ways.
//! (`deploy/check.sh` holds them against the schemas of Kubernetes.)

mod calls;
mod doctor;
mod parts;
mod rights;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use frognano_bot::config::{File, SandboxKind, SecretSource};
use frognano_bot::sandbox::kubernetes::RIGHTS;
use serde_json::Value;

use calls::Call;

const OVERLAYS: [&str; 2] = ["small", "large"];

/// The bytes of 1 Gi.
const GIB: u64 = 1 << 30;

/// Between the end of the grace time and the kill: runs are put back, sandboxes deleted, the database closed.
const TO_END: u64 = 30;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes")
}

fn objects(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn object(file: &str, kind: &str, name: &str) -> Value {
    let found = objects(file).into_iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name} in {file}"))
}

fn configuration(overlay: &str) -> File {
    File::load_without_secrets(&folder().join(format!("overlays/{overlay}/frognano.toml"))).unwrap()
}

/// The pod of a deployment.
fn pod(file: &str, name: &str) -> Value {
    object(file, "Deployment", name)["spec"]["template"]["spec"].clone()
}

fn mounted_at<'a>(pod: &'a Value, path: &str) -> &'a Value {
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["mountPath"] == path).unwrap_or_else(|| panic!("nothing is mounted at {path}"));
    pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == mount["name"]).unwrap()
}

/// So many replicas has a deployment in an overlay.
fn replicas(overlay: &str, name: &str) -> u64 {
    let kustomization = &objects(&format!("overlays/{overlay}/kustomization.yaml"))[0];
    let counts = kustomization["replicas"].as_array().unwrap();
    counts.iter().find(|count| count["name"] == name).unwrap()["count"].as_u64().unwrap()
}

/// A quantity of the cluster: processors, or bytes.
fn quantity(value: &Value) -> u64 {
    let text = value.as_str().unwrap();
    text.strip_suffix("Gi").map_or_else(|| text.parse().unwrap(), |number| number.parse::<u64>().unwrap() * GIB)
}

fn secrets(file: &File) -> Vec<PathBuf> {
    let of_forges = file.forges.iter().flat_map(|forge| forge.webhook_secrets.iter().chain(&forge.token).chain(&forge.app_key));
    let all = of_forges.chain(&file.service.database_password).chain(&file.service.operator_token).chain(&file.model.key);
    let path = |source: &SecretSource| match source {
        SecretSource::File(path) => path.clone(),
        SecretSource::Env(name) => panic!("{name}: a variable is seen by whoever may describe the pod"),
    };
    all.map(path).collect()
}

#[test]
fn an_overlays_configuration_fits_its_pods() {
    for overlay in OVERLAYS {
        let file = configuration(overlay);
        assert_eq!(file.sandbox.kind, SandboxKind::Kubernetes);
        assert!(file.service.database.as_deref().is_some_and(|database| database.starts_with("postgres://")), "one queue for all");
        assert!(secrets(&file).iter().all(|path| path.starts_with("/etc/frognano/secrets")), "{:?}", secrets(&file));
        let (web, worker) = (pod("base/web.yaml", "frognano-web"), pod("base/worker.yaml", "frognano-worker"));
        for pod in [&web, &worker] {
            assert_eq!(mounted_at(pod, "/etc/frognano/config")["configMap"]["name"], "frognano-config");
            assert_eq!(mounted_at(pod, "/etc/frognano/secrets")["secret"]["secretName"], "frognano-secrets");
            assert!(mounted_at(pod, "/tmp")["emptyDir"].is_object());
            let port = &pod["containers"][0]["ports"][0]["containerPort"];
            assert_eq!(format!("0.0.0.0:{port}"), file.service.listen);
        }
        assert!(mounted_at(&worker, file.service.data.to_str().unwrap())["emptyDir"].is_object());
        let patience = worker["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(patience >= file.service.grace_seconds + TO_END, "{overlay}: {patience} s is too short");
        let model = object("model/model.yaml", "Service", "frognano-model");
        assert_eq!(file.model.url.host_str(), Some("frognano-model.frognano-model.svc"));
        assert_eq!(model["spec"]["ports"][0]["port"].as_u64(), file.model.url.port().map(u64::from));
    }
}

#[test]
fn the_sandboxes_of_all_runs_fit_into_their_quota_and_one_into_the_limit() {
    for (overlay, quota) in [("small", "base/sandboxes.yaml"), ("large", "overlays/large/sizes.yaml")] {
        let file = configuration(overlay);
        let (sandbox, cluster) = (&file.sandbox, &file.sandbox.kubernetes);
        let runs = replicas(overlay, "frognano-worker") * file.service.concurrency as u64;
        let pods = 2 * runs;
        let hard = &object(quota, "ResourceQuota", "sandboxes")["spec"]["hard"];
        let range = &object("base/sandboxes.yaml", "LimitRange", "sandboxes")["spec"]["limits"][0]["max"];
        let disk = cluster.disk_bytes.unwrap_or(sandbox.workspace_bytes + 2 * sandbox.tmp_bytes + (256 << 20));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a handful of processors")]
        let cpus = sandbox.cpus.ceil() as u64;
        assert!(quantity(&hard["pods"]) > pods, "{overlay}: {pods} pods and one that ends");
        for (name, one) in [("cpu", cpus), ("memory", sandbox.memory_bytes), ("ephemeral-storage", disk)] {
            for side in ["requests", "limits"] {
                assert!(quantity(&hard[format!("{side}.{name}")]) >= pods * one, "{overlay}: {pods} pods of {one} {name}");
            }
            assert!(quantity(&range[name]) >= one, "{overlay}: one pod of {one} {name}");
        }
    }
}

#[test]
fn the_services_own_pods_are_restricted_and_only_the_worker_has_a_token() {
    for (file, name, has_token) in [("base/web.yaml", "frognano-web", false), ("base/worker.yaml", "frognano-worker", true)] {
        let pod = pod(file, name);
        assert_eq!((&pod["serviceAccountName"], &pod["automountServiceAccountToken"]), (&name.into(), &has_token.into()));
        let (of_pod, container) = (&pod["securityContext"], &pod["containers"][0]);
        assert_eq!(of_pod["seccompProfile"]["type"], "RuntimeDefault");
        assert!(of_pod["runAsNonRoot"] == true && of_pod["runAsUser"].as_u64() > Some(0), "{of_pod}");
        let confined = &container["securityContext"];
        assert_eq!((&confined["allowPrivilegeEscalation"], &confined["readOnlyRootFilesystem"]), (&false.into(), &true.into()));
        assert_eq!(confined["capabilities"], serde_json::json!({"drop": ["ALL"]}));
        for (probe, path) in [("livenessProbe", "/healthz"), ("startupProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            assert_eq!(container[probe]["httpGet"]["path"], path, "{name}: {probe}");
        }
    }
}

#[test]
fn both_namespaces_deny_by_default_and_take_restricted_pods_alone() {
    for (file, namespace) in [("base/network.yaml", "frognano"), ("base/sandboxes.yaml", "frognano-sandboxes")] {
        let labels = &object("base/namespaces.yaml", "Namespace", namespace)["metadata"]["labels"];
        assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
        let policy = object(file, "NetworkPolicy", "deny-all");
        assert_eq!(policy["metadata"]["namespace"], namespace);
        assert_eq!(policy["spec"], serde_json::json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
    }
    let in_sandboxes = objects("base/sandboxes.yaml").iter().filter(|object| object["kind"] == "NetworkPolicy").count();
    assert_eq!(in_sandboxes, 1, "nothing opens what the one denies");
}

fn rights_that_are_needed() -> BTreeSet<Call> {
    RIGHTS.iter().map(|right| (right.group.to_owned(), right.resource.to_owned(), right.verb.to_owned())).collect()
}

/// A file by which somebody with this token gets into a cluster.
fn kubeconfig(server: &str, token: &str) -> String {
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "here", "user": {"token": token}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
    });
    config.to_string()
}

/// The rights that a Role of `base/rbac.yaml` gives.
fn rights_of_the_role() -> BTreeSet<Call> {
    let role = object("base/rbac.yaml", "Role", "frognano-worker");
    let texts = |value: &Value| value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for (group, resource) in
            texts(&rule["apiGroups"]).iter().flat_map(|group| texts(&rule["resources"]).into_iter().map(move |resource| (group, resource)))
        {
            rights.extend(texts(&rule["verbs"]).into_iter().map(|verb| (group.clone(), resource.clone(), verb)));
        }
    }
    rights
}

#[test]
fn the_role_gives_exactly_the_rights_that_are_needed() {
    assert_eq!(rights_of_the_role(), rights_that_are_needed());
    let binding = object("base/rbac.yaml", "RoleBinding", "frognano-worker");
    assert_eq!(binding["metadata"]["namespace"], "frognano-sandboxes");
    assert_eq!(binding["subjects"][0]["name"], pod("base/worker.yaml", "frognano-worker")["serviceAccountName"]);
    let kinds =
        objects("base/rbac.yaml").iter().filter(|object| object["kind"].as_str().is_some_and(|kind| kind.starts_with("Cluster"))).count();
    assert_eq!(kinds, 0, "no right beyond the namespace");
    for overlay in OVERLAYS {
        let cluster = configuration(overlay).sandbox.kubernetes;
        assert_eq!((cluster.namespace.as_str(), cluster.owner.as_str()), ("frognano-sandboxes", "frognano-bot"));
        object("base/sandboxes.yaml", "ConfigMap", &cluster.owner);
    }
}
