//! Whole runs in a cluster: what is struck in the middle of one comes to one outcome, one pull request, and nothing is left; the kill switch ends the
//! pods.

use std::time::Duration;

use frognano_bot::demo::Kind;
use frognano_bot::domain::{Outcome, Stage};
use frognano_bot::store::Doer;
use frognano_bot::worker::{Ended, Progress};
use futures_util::{StreamExt as _, stream};
use kube::api::{DeleteParams, ListParams};
use tokio_util::sync::CancellationToken;

use super::proxy::Proxy;
use super::world::{World, bait, soon};
use crate::house::{House, Service};

/// The house of the main job, its sandboxes in the cluster; `more` stands in its section.
pub async fn house(world: &World, more: &str) -> House {
    let settings = format!(
        "[sandbox]\nkind = \"kubernetes\"\nmemory_bytes = 536870912\nworkspace_bytes = 268435456\ntmp_bytes = 67108864\ncpus = 0.5\n[sandbox.kubernetes]\nnamespace = {:?}\n\
         image = \"docker.io/frognano/python:test\"\ntools_image = \"docker.io/frognano/tools:test\"\nallow_tags = true\npull_policy = \"Never\"\n\
         walls_seconds = 5\nbait_address = \"{}\"\n{more}",
        world.namespace,
        bait()
    );
    House::new(Kind::Gitea).await.set(&settings)
}

/// Works on the one job until it has its outcome; `strike` is called once, when this stage has begun.
async fn struck(house: &House, service: &Service, stage: Stage, strike: impl AsyncFnOnce(&str)) -> Outcome {
    let mut progress = service.worker.watch();
    let whole = async {
        loop {
            match service.worker.run_next(&CancellationToken::new()).await.unwrap() {
                Some(Ended::Outcome(outcome)) => return outcome,
                _ => house.let_time_pass(),
            }
        }
    };
    let blow = async {
        loop {
            if let Progress::Stage { run, stage: now } = progress.recv().await.unwrap()
                && now == stage
            {
                break strike(&run).await;
            }
        }
    };
    tokio::join!(whole, blow).0
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kill_switch_ends_the_pods_of_a_run() {
    let Some(world) = World::enforced("kill").await else { return };
    let house = house(&world, "").await;
    house.model.set_delay(Some(Duration::from_secs(2)));
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let outcome = struck(&house, &service, Stage::Agent, async |run| {
        assert!(!world.left_of(run).await.is_empty(), "there is a pod");
        service.store.kill(&Doer::operator("a story"), "a drill", house.clock().as_ref()).await.unwrap();
    })
    .await;
    assert!(matches!(&outcome, Outcome::Cancelled { by } if by.contains("a drill")), "{outcome:?}");
    let run = service.jobs().await[0].run.clone().unwrap();
    soon("nothing is left", async || world.left_of(&run).await.is_empty()).await;
    assert_eq!(house.pull_requests().len(), 0);
    service.end().await;
}

/// The rows of the crash matrix that need a cluster: the pod is gone, or every stream to it is cut, when a stage has begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_or_a_stream_that_is_lost_at_any_stage_costs_nothing() {
    let Some(world) = World::enforced("struck").await else { return };
    let stages = [Stage::Proving, Stage::TestsBefore, Stage::Agent, Stage::TestsAfter];
    let fields = stages.into_iter().flat_map(|stage| [(stage, true), (stage, false)]);
    let rows = stream::iter(fields).map(|(stage, pod)| row(&world, stage, pod)).buffered(2).collect::<Vec<_>>().await;
    println!("| stage | struck | outcome | pull requests | left |\n|---|---|---|---|---|");
    for (line, _) in &rows {
        println!("{line}");
    }
    assert!(rows.iter().all(|(_, ok)| *ok), "a field is not ok");
}

async fn row(world: &World, stage: Stage, pod: bool) -> (String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path()).await;
    let house = house(world, &format!("kubeconfig = {:?}\n", proxy.kubeconfig)).await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    let outcome = struck(&house, &service, stage, async |run| {
        if pod {
            let of_run = ListParams::default().labels(&format!("frognano.dev/run={run}"));
            world.pods().delete_collection(&DeleteParams::default().grace_period(0), &of_run).await.unwrap();
        } else {
            proxy.cut();
        }
    })
    .await;
    let run = service.jobs().await[0].run.clone().unwrap();
    soon("nothing is left", async || world.left_of(&run).await.is_empty()).await;
    let (pull_requests, left) = (house.pull_requests().len(), house.branches().len());
    let ok = matches!(outcome, Outcome::Proposed { .. }) && pull_requests == 1 && left == 1;
    service.end().await;
    let victim = if pod { "pod, deleted" } else { "every stream, cut" };
    let said = if ok { "ok" } else { "NOT OK" };
    (format!("| {} | {victim} | {} | {pull_requests} | none | {said}", stage.name(), outcome.name()), ok)
}
