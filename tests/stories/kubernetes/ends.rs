//! However a sandbox in a cluster ends, neither pod nor policy is left; and what a dead service left is found.

use std::collections::HashSet;
use std::time::Duration;

use frognano_bot::domain::{Clock as _, SystemClock};
use frognano_bot::sandbox::{Command, Listing, SandboxError, Sandboxes as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};

use super::proxy::Proxy;
use super::world::{World, soon};

#[tokio::test(flavor = "multi_thread")]
async fn closed_dropped_or_given_up_while_it_starts_nothing_is_left() {
    let Some(world) = World::enforced("ends").await else { return };
    let boxes = world.sandboxes().await;
    let closed = boxes.start_for("closed-agent", "closed", "https://git.example.com/a/b/issues/1").await.unwrap();
    let pod = world.pod_of("closed").await;
    assert_eq!(pod.metadata.annotations.unwrap()["frognano.dev/issue"], "https://git.example.com/a/b/issues/1");
    assert_eq!(pod.metadata.owner_references.unwrap()[0].kind, "NetworkPolicy");
    closed.close().await;
    world.nothing_is_left_of("closed").await;

    drop(boxes.start("dropped").await.unwrap());
    soon("the dropped one is gone", async || world.left_of("dropped").await.is_empty()).await;

    let starting = tokio::time::timeout(Duration::from_millis(700), boxes.start("halfway")).await;
    assert!(starting.is_err(), "it was faster than any cluster");
    soon("the one given up is gone", async || world.left_of("halfway").await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_somebody_deletes_is_a_lost_sandbox_with_that_reason() {
    let Some(world) = World::enforced("ends").await else { return };
    let mut sandbox = world.sandboxes().await.start("deleted").await.unwrap();
    let name = world.pod_of("deleted").await.metadata.name.unwrap();
    world.pods().delete(&name, &DeleteParams::default().grace_period(0)).await.unwrap();
    let mut lost = sandbox.list(Listing::Exact).await;
    while lost.is_ok() {
        lost = sandbox.list(Listing::Exact).await;
    }
    assert!(matches!(&lost, Err(SandboxError::Lost(why)) if why.starts_with("deleted: ")), "{lost:?}");
    assert!(matches!(sandbox.list(Listing::Exact).await, Err(SandboxError::Lost(_))));
    sandbox.close().await;
    soon("nothing is left", async || world.left_of("deleted").await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reaper_removes_what_no_run_holds_and_nothing_else() {
    let Some(world) = World::enforced("reaper").await else { return };
    let boxes = world.sandboxes_of(world.config(), |settings| settings.reap_after = Duration::ZERO).await;
    let dead = boxes.start_for("dead-agent", "dead", "").await.unwrap();
    let living = boxes.start_for("living-agent", "living", "").await.unwrap();
    // As after a kill: nothing of the service's own is left to end it.
    std::mem::forget(dead);
    let held = HashSet::from(["living".to_owned()]);
    let now = SystemClock.now_ms();
    let long_ago = boxes.reap(&held, now - 3_600_000).await.unwrap();
    assert_eq!(long_ago, Vec::<String>::new(), "what was just made is spared");
    let removed = boxes.reap(&held, now + 5_000).await.unwrap();
    assert!(removed.len() == 1 && removed[0].contains("dead"), "{removed:?}");
    world.nothing_is_left_of("dead").await;
    assert_eq!(world.left_of("living").await.len(), 2);
    assert_eq!(boxes.reap(&held, now + 5_000).await.unwrap(), Vec::<String>::new());
    living.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_even_the_reaper_forgets_goes_with_the_installation() {
    let Some(world) = World::enforced("collected").await else { return };
    let sandbox = world.sandboxes().await.start("collected").await.unwrap();
    std::mem::forget(sandbox);
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    maps.delete("frognano-bot", &DeleteParams::default()).await.unwrap();
    soon("the cluster has collected it", async || world.left_of("collected").await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_stream_and_a_server_that_goes_away_are_told_apart_and_leave_nothing() {
    let Some(world) = World::enforced("cut").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path()).await;
    let mut config = world.config();
    config.kubernetes.kubeconfig = Some(proxy.kubeconfig.clone());
    let boxes = world.sandboxes_of(config, |_| ()).await;
    for (run, is_down, words) in [("cut", false, "exec-cut: "), ("away", true, "api-server-down: ")] {
        let mut sandbox = boxes.start(run).await.unwrap();
        let command = Command { script: "sleep 1234".into(), timeout: Duration::from_secs(600), output_limit: 100 };
        let (lost, ()) = tokio::join!(sandbox.run(&command), async {
            proxy.set_down(is_down);
            proxy.cut();
        });
        assert!(matches!(&lost, Err(SandboxError::Lost(why)) if why.starts_with(words)), "{lost:?}");
        proxy.set_down(false);
        sandbox.close().await;
        soon("nothing is left", async || world.left_of(run).await.is_empty()).await;
    }
}
