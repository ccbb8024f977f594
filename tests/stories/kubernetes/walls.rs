//! The proof before the repository enters: on a cluster that enforces policies and on one that only stores them.

use std::net::IpAddr;
use std::time::Duration;

use frognano_bot::domain::{Fault, Outcome};
use frognano_bot::sandbox::{SandboxError, Sandboxes as _};

use super::runs::house;
use super::world::{World, bait, refused};

#[tokio::test(flavor = "multi_thread")]
async fn where_policies_are_only_stored_the_run_is_refused_and_the_admin_is_told() {
    let Some(world) = World::open("open").await else { return };
    let boxes = world.sandboxes_of(world.config(), |settings| settings.walls = Duration::from_secs(2)).await;
    let error = refused(&boxes, "open").await;
    let SandboxError::NetworkOpen(why) = &error else { panic!("{error}") };
    assert!(why.contains(&bait().to_string()), "{why}");
    assert!(why.ends_with("NetworkPolicies are not enforced on this cluster: install a network plugin that does"), "{why}");
    world.nothing_is_left_of("open").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_on_an_open_cluster_ends_without_a_byte_of_the_repository_in_a_pod() {
    let Some(world) = World::open("open").await else { return };
    let house = house(&world, "").await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let outcome = service.outcome().await;
    assert!(matches!(&outcome, Outcome::Abandoned { detail, .. } if detail.contains("NetworkPolicies are not enforced")), "{outcome:?}");
    assert!(matches!(&outcome, Outcome::Abandoned { fault: Fault::NetworkOpen, .. }), "{outcome:?}");
    service.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_policies_are_enforced_everything_near_was_tried_and_nothing_reached() {
    let Some(world) = World::enforced("walls").await else { return };
    let boxes = world.sandboxes().await;
    let first = boxes.start("first").await.unwrap();
    let peer: IpAddr = world.pod_of("first").await.status.unwrap().pod_ip.unwrap().parse().unwrap();
    let node = world.pod_of("first").await.status.unwrap().host_ip.unwrap();
    let second = boxes.start("second").await.unwrap();
    let report = second.probe_report();
    let tried = |kind: &str, address: &str| report.attempts.iter().any(|attempt| attempt.kind == kind && attempt.address.contains(address));
    for (kind, address) in [
        ("tcp", bait().to_string()),
        ("answer", bait().to_string()),
        ("tcp", format!("{peer}:61457")),
        ("tcp", format!("{node}:10250")),
        ("tcp", "169.254.169.254:80".into()),
        ("tcp", "192.0.2.1".into()),
        ("dns", "kubernetes.default".into()),
        ("vsock", "2:1024".into()),
        ("variables", "KUBERNETES_".into()),
        ("file", "/var/run/secrets/kubernetes.io".into()),
    ] {
        assert!(tried(kind, &address), "{kind} {address} in {report:#?}");
    }
    assert!(report.attempts.iter().all(|attempt| !attempt.reached && !attempt.why.is_empty()), "{report:#?}");
    assert!(report.bounds.iter().any(|bound| bound.starts_with("network policy: everything denied")), "{report:#?}");
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_becomes_a_draft_pull_request_by_way_of_the_cluster() {
    let Some(world) = World::enforced("job").await else { return };
    let house = house(&world, "").await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let outcome = service.outcome().await;
    assert!(matches!(outcome, Outcome::Proposed { .. }), "{outcome:?}; {:?}", house.said(issue));
    let run = service.jobs().await[0].run.clone().unwrap();
    world.nothing_is_left_of(&run).await;
    let report: serde_json::Value = serde_json::from_str(service.jobs().await[0].report.as_deref().unwrap()).unwrap();
    assert!(report["sandbox"]["attempts"].as_array().is_some_and(|attempts| attempts.len() > 10), "{report:#}");
    service.end().await;
}
