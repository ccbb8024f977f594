use std::path::Path;
use std::time::Duration;

use super::super::restricted;
use super::*;
use crate::config::{Sandbox, Toleration};

fn settings() -> Settings {
    let mut sandbox = Sandbox::default();
    sandbox.kubernetes.image = format!("registry.example.com/python@sha256:{}", "1".repeat(64));
    sandbox.kubernetes.tools_image = format!("registry.example.com/frognano@sha256:{}", "2".repeat(64));
    Settings::new(&sandbox, Vec::new()).unwrap()
}

fn everything() -> Settings {
    let mut settings = settings();
    settings.runtime_class = Some("gvisor".into());
    settings.priority_class = Some("batch".into());
    settings.pull_secrets = vec!["registry".into()];
    settings.node_selector = [("pool".to_owned(), "sandboxes".to_owned())].into();
    settings.tolerations = vec![
        Toleration { key: Some("sandboxes".into()), value: None, effect: Some("NoSchedule".into()) },
        Toleration { key: Some("team".into()), value: Some("fixers".into()), effect: None },
    ];
    settings.path = vec!["/opt/venv/bin".into()];
    settings.env = [("DJANGO_SETTINGS_MODULE".to_owned(), "settings.test".to_owned())].into();
    settings.life = Duration::from_secs(600);
    settings.cpus = 0.5;
    settings
}

fn order(user_namespaces: bool) -> Order {
    let issue = "https://git.example.com/payments/ledger/issues/7".to_owned();
    Order { name: "frognano-0190-agent-0000002a".into(), run: "0190".into(), issue, user_namespaces, user: 1000 }
}

fn owner() -> Owner {
    Owner { kind: "ConfigMap", version: "v1", name: "frognano-bot".into(), uid: "c0ffee".into() }
}

fn is_as_written(name: &str, made: &impl serde::Serialize) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kubernetes").join(name);
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let made = serde_json::to_string_pretty(made).unwrap() + "\n";
    if written != made {
        let beside = std::env::temp_dir().join(name);
        std::fs::write(&beside, &made).unwrap();
        panic!("{} is another one now, written to {}:\n{made}", file.display(), beside.display());
    }
}

#[test]
fn the_manifests_are_as_written() {
    is_as_written("policy.json", &policy(&order(false), &owner()).unwrap());
    is_as_written("pod.json", &pod(&order(false), &owner(), &settings()).unwrap());
    is_as_written("pod-with-everything.json", &pod(&order(true), &owner(), &everything()).unwrap());
}

#[test]
fn every_manifest_keeps_the_rules_of_restricted() {
    for (settings, user_namespaces) in [(settings(), false), (everything(), true)] {
        let pod = pod(&order(user_namespaces), &owner(), &settings).unwrap();
        assert_eq!(restricted::complaints(&pod), Vec::<String>::new());
    }
}

/// Whatever a cluster puts into a pod on its way in.
#[test]
fn a_pod_that_was_given_more_is_refused() {
    let additions: [(&str, &str, Value); 21] = [
        ("/spec/containers/-", "other containers", json!({ "name": "proxy", "image": "x" })),
        ("/spec/initContainers/-", "other init containers", json!({ "name": "proxy", "image": "x" })),
        ("/spec/volumes/-", "the volume host", json!({ "name": "host", "hostPath": { "path": "/" } })),
        ("/spec/volumes/-", "the volume token", json!({ "name": "token", "projected": { "sources": [] } })),
        ("/spec/volumes/-", "the volume secret", json!({ "name": "secret", "secret": { "secretName": "x" } })),
        ("/spec/volumes/-", "the volume endless", json!({ "name": "endless", "emptyDir": {} })),
        ("/spec/automountServiceAccountToken", "token", json!(true)),
        ("/spec/hostNetwork", "hostNetwork", json!(true)),
        ("/spec/hostPID", "hostPID", json!(true)),
        ("/spec/dnsPolicy", "name servers", json!("ClusterFirst")),
        ("/spec/enableServiceLinks", "services are named", json!(true)),
        ("/spec/securityContext/runAsUser", "root", json!(0)),
        ("/spec/securityContext/sysctls", "kernel settings", json!([{ "name": "kernel.shm_rmid_forced", "value": "1" }])),
        ("/spec/securityContext/seccompProfile/type", "seccomp", json!("Unconfined")),
        ("/spec/containers/0/securityContext/privileged", "privileged", json!(true)),
        ("/spec/containers/0/securityContext/allowPrivilegeEscalation", "gain rights", json!(true)),
        ("/spec/containers/0/securityContext/readOnlyRootFilesystem", "root can be written", json!(false)),
        ("/spec/containers/0/securityContext/capabilities/add", "given capabilities", json!(["NET_ADMIN"])),
        ("/spec/containers/0/envFrom", "environment", json!([{ "secretRef": { "name": "x" } }])),
        ("/spec/containers/0/resources/limits/memory", "memory", json!("64Gi")),
        ("/spec/containers/0/lifecycle", "hooks", json!({ "postStart": { "exec": { "command": ["x"] } } })),
    ];
    for (place, complaint, addition) in additions {
        let mut pod = serde_json::to_value(pod(&order(false), &owner(), &settings()).unwrap()).unwrap();
        match place.strip_suffix("/-") {
            Some(list) => pod.pointer_mut(list).unwrap().as_array_mut().unwrap().push(addition),
            None => {
                let (parent, key) = place.rsplit_once('/').unwrap();
                pod.pointer_mut(parent).unwrap()[key] = addition;
            }
        }
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let complaints = restricted::complaints(&pod);
        assert!(complaints.iter().any(|found| found.contains(complaint)), "{place}: {complaints:?}");
    }
}

#[test]
fn names_and_labels_are_what_a_cluster_takes() {
    let long = "x".repeat(300);
    for name in ["0190abc-agent", "Ünïcode/../x", "--", "", &long] {
        let made = plain_name(name, u64::MAX >> 32);
        let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(made.len() <= 63 && made.chars().all(inside) && made.starts_with("frognano-") && !made.ends_with('-'), "{made}");
        let value = label_value(name);
        assert!(value.len() <= 63 && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{value}");
        assert!(!value.starts_with('-') && !value.ends_with('-'), "{value}");
    }
    assert_eq!(label_value("01a22c9d252270cbb33a"), "01a22c9d252270cbb33a");
}

#[test]
fn an_image_is_known_by_its_digests_alone() {
    let mut settings = settings();
    let first = image(&settings);
    settings.max_processes += 1;
    assert!(first.is_some() && image(&settings) != first);
    settings.image = "python:3".into();
    assert_eq!(image(&settings), None);
}

#[test]
fn a_pods_own_user_is_none_of_the_systems_and_fits_a_user_namespace() {
    for salt in [0, 1, 49_999, 50_000, u64::MAX] {
        assert!((10_000..60_000).contains(&own_user(salt)), "{salt}");
    }
    assert_ne!(own_user(1), own_user(2));
}
