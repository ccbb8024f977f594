//! What a real cluster does to a sandbox: by its name, in its own words, and with nothing left behind.

use std::time::Duration;

use frognano_bot::config::Sandbox as Config;
use frognano_bot::sandbox::{Command, SandboxError, Sandboxes as _};
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::Api;
use serde_json::json;

use super::world::{World, refused, soon};
use crate::sandbox::tar_files::one_file;

#[derive(Debug, PartialEq)]
enum Kind {
    Wait,
    TryAgain,
    Report,
}

fn kind(error: &SandboxError) -> Kind {
    match error {
        SandboxError::NoPlaceYet(_) => Kind::Wait,
        SandboxError::NotStarted(_) => Kind::TryAgain,
        SandboxError::Unfit(_) => Kind::Report,
        other => panic!("{other}"),
    }
}

/// Tries to start a sandbox of this configuration; it must end so, with this name and these words, and leave nothing.
async fn ends(world: &World, run: &str, mut config: Config, expected: Kind, words: [&str; 2]) {
    // Other stories want the node's processors too.
    config.cpus = 0.01;
    let boxes = world.sandboxes_of(config, |settings| settings.start = Duration::from_secs(12)).await;
    let error = refused(&boxes, run).await;
    let told = error.to_string();
    assert!(kind(&error) == expected && words.iter().all(|part| told.contains(part)), "{run}: {error:?}");
    world.nothing_is_left_of(run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_or_not_to_be_had() {
    let Some(world) = World::enforced("troubles").await else { return };
    let mut config = world.config();
    config.kubernetes.image = "docker.io/frognano/nowhere:test".into();
    ends(&world, "no-image", config.clone(), Kind::Report, ["image-missing: ", "not present with pull policy of Never"]).await;
    config.kubernetes.image = "127.0.0.1:9/frognano/python:test".into();
    config.kubernetes.pull_policy = frognano_bot::config::PullPolicy::IfNotPresent;
    ends(&world, "no-registry", config, Kind::TryAgain, ["image-pull: ", "127.0.0.1:9/frognano/python:test"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_has_room_for_it() {
    let Some(world) = World::enforced("troubles").await else { return };
    let mut config = world.config();
    config.kubernetes.node_selector = [("pool".to_owned(), "nowhere".to_owned())].into();
    ends(&world, "no-node", config, Kind::Wait, ["unschedulable: ", "0/1 nodes are available"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_is_used_up_or_a_limit_refuses_it() {
    let Some(world) = World::enforced("quota").await else { return };
    let quotas: Api<ResourceQuota> = Api::namespaced(world.client.clone(), &world.namespace);
    world.create(quotas.clone(), json!({ "metadata": { "name": "none" }, "spec": { "hard": { "pods": "0" } } })).await;
    soon("the quota counts", async || quotas.get("none").await.unwrap().status.is_some_and(|status| status.used.is_some())).await;
    ends(&world, "quota", world.config(), Kind::Wait, ["quota-exceeded: ", "exceeded quota: none"]).await;
    let Some(world) = World::enforced("limits").await else { return };
    let limits: Api<LimitRange> = Api::namespaced(world.client.clone(), &world.namespace);
    let small = json!({ "metadata": { "name": "small" }, "spec": { "limits": [{ "type": "Container", "max": { "memory": "1Mi" } }] } });
    world.create(limits, small).await;
    ends(&world, "limits", world.config(), Kind::Report, ["admission-refused: ", "maximum memory usage per Container is 1Mi"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_such_runtime_class_or_no_node_has_its_runtime() {
    let Some(world) = World::enforced("troubles").await else { return };
    let mut config = world.config();
    config.kubernetes.runtime_class = Some("nowhere".into());
    ends(&world, "no-class", config.clone(), Kind::Report, ["runtime-class-missing: ", "RuntimeClass \"nowhere\" not found"]).await;
    let classes: Api<RuntimeClass> = Api::all(world.client.clone());
    world.create(classes, json!({ "metadata": { "name": "frognano-stories" }, "handler": "nonesuch" })).await;
    config.kubernetes.runtime_class = Some("frognano-stories".into());
    ends(&world, "no-handler", config, Kind::Report, ["runtime-class-missing: FailedCreatePodSandBox", "no runtime for"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_does_not_start_or_the_owner_is_not_there() {
    let Some(world) = World::enforced("troubles").await else { return };
    let mut config = world.config();
    config.kubernetes.tools_program = "/nowhere".into();
    ends(&world, "no-program", config, Kind::TryAgain, ["container-failed: ", "/nowhere"]).await;
    let mut config = world.config();
    config.kubernetes.owner = "somebody".into();
    ends(&world, "no-owner", config, Kind::Report, ["not-permitted: ", "create configmap somebody"]).await;
    let mut config = world.config();
    config.kubernetes.namespace = "frognano-stories-nowhere".into();
    ends(&world, "no-namespace", config, Kind::Report, ["not-permitted: ", "frognano-stories-nowhere"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_uses_up_its_memory_or_its_time() {
    let Some(world) = World::enforced("troubles").await else { return };
    let mut config = world.config();
    config.memory_bytes = 24 << 20;
    let mut sandbox = world.sandboxes_of(config, |_| ()).await.start("hungry").await.unwrap();
    // Memory that is no process's own: the disk of the pod is kept in it until it is written.
    let hog = "exec perl -e '$x = q(x) x 1_500_000_000; sleep 1'";
    let ran = sandbox.run(&Command { script: hog.into(), timeout: Duration::from_secs(30), output_limit: 100 }).await;
    assert!(matches!(&ran, Err(SandboxError::NoRoom(why)) if why.contains("memory")), "{ran:?}");
    sandbox.close().await;
    soon("nothing is left", async || world.left_of("hungry").await.is_empty()).await;

    let mut sandbox =
        world.sandboxes_of(world.config(), |settings| settings.life = Duration::from_secs(12)).await.start("old").await.unwrap();
    sandbox.put(one_file("a", b"x")).await.unwrap();
    let ran = sandbox.run(&Command { script: "sleep 60".into(), timeout: Duration::from_secs(60), output_limit: 100 }).await;
    assert!(matches!(&ran, Err(SandboxError::Lost(why)) if why.starts_with("too-old: DeadlineExceeded")), "{ran:?}");
    sandbox.close().await;
    soon("nothing is left", async || world.left_of("old").await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_inside_is_killed() {
    let Some(world) = World::enforced("troubles").await else { return };
    // Files that lie in memory leave none for the program that takes them.
    let mut config = world.config();
    (config.memory_bytes, config.workspace_bytes) = (48 << 20, 256 << 20);
    let mut sandbox = world.sandboxes_of(config, |_| ()).await.start("full").await.unwrap();
    let put = sandbox.put(one_file("big", &vec![1; 150 << 20])).await;
    assert!(matches!(&put, Err(SandboxError::NoRoom(why)) if why.starts_with("out-of-memory: the program inside was killed")), "{put:?}");
    sandbox.close().await;
    world.nothing_is_left_of("full").await;

    // By what the model runs, which has the same rights.
    let mut sandbox = world.sandboxes().await.start("killed").await.unwrap();
    let script = "for p in /proc/[0-9]*; do grep -qa -- --work[d]ir $p/cmdline && kill -9 ${p#/proc/}; done; sleep 30".into();
    let ran = sandbox.run(&Command { script, timeout: Duration::from_secs(30), output_limit: 100 }).await;
    assert!(matches!(&ran, Err(SandboxError::Lost(why)) if why.starts_with("exec-cut: ")), "{ran:?}");
    sandbox.close().await;
    world.nothing_is_left_of("killed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_uses_up_its_processes_takes_none_from_another() {
    let Some(world) = World::enforced("troubles").await else { return };
    let boxes = world.sandboxes().await;
    let (mut greedy, mut other) = (boxes.start("greedy").await.unwrap(), boxes.start("modest").await.unwrap());
    let run = |script: &str| Command { script: script.into(), timeout: Duration::from_secs(60), output_limit: 1000 };
    let took = greedy.run(&run("n=0; while [ $n -lt 200 ] && sleep 100 & do n=$((n+1)); done; jobs -p | wc -l")).await.unwrap();
    let ran = other
        .run(&run("for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.1 & done; wait && echo all"))
        .await
        .unwrap();
    assert_eq!(ran.stdout, "all\n", "{ran:?} beside {took:?}");
    greedy.close().await;
    other.close().await;
    world.nothing_is_left_of("greedy").await;
}
