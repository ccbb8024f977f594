//! The pages in a real browser (tests/browser/look.cjs): live update, forms, buttons, dark, large, narrow, without a script, hostile texts.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;
use frognano_bot::worker::Ended;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::house::{House, PATIENCE};

use super::world::{HOSTILE, Site, hostile_script};

/// The program that looks; none where there is no browser or it is not installed, which is said.
fn looker() -> Option<(PathBuf, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from);
    let Some(chromium) = chromium.into_iter().find(|program| program.exists()) else {
        println!("there is no Chromium here: nothing was told of the pages in a real browser");
        return None;
    };
    if !folder.join("node_modules/playwright-core").exists() {
        println!("tests/browser is not installed (npm ci): nothing was told of the pages in a real browser");
        return None;
    }
    Some((folder.join("look.cjs"), chromium))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_browser_sees_the_pages_change_presses_their_buttons_and_is_not_fooled() {
    let Some((program, chromium)) = looker() else { return };
    let house = House::with_script_of_turns(Kind::Gitea, &format!("{}{}{}", project::SCRIPT, hostile_script(), project::SCRIPT)).await;
    let service = house.service().await;
    let good = house.open_issue();
    service.take(&house.label(good)).await;
    assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
    while service.worker.review_next().await.unwrap().is_some() {}
    let hostile = house.forge().open_issue(project::PATH, project::READER, HOSTILE, HOSTILE, &[]).unwrap().number;
    service.take(&house.label(hostile)).await;
    service.work_off().await;
    let held =
        house.forge().open_issue(project::PATH, project::READER, "Round the totals of a quarter", "They are cut.", &[]).unwrap().number;
    service.take(&house.label(held)).await;
    let reached = house.model.hold(3);
    let worker = service.worker.clone();
    let running = tokio::spawn(async move { worker.run_next(&CancellationToken::new()).await.unwrap() });
    reached.await.unwrap();
    service.store.seal().await.unwrap();
    let run_of = |issue: i64, jobs: &[frognano_bot::store::JobRow]| {
        jobs.iter().find(|job| job.issue == issue).and_then(|job| job.run.clone()).unwrap()
    };
    let jobs = service.jobs().await;
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/browser");
    let task = json!({
        "base": Site::of(&service.door).base, "chromium": chromium, "out": out, "repository": project::PATH,
        "good": run_of(good, &jobs), "hostile": run_of(hostile, &jobs), "running": run_of(held, &jobs),
    });
    let look = tokio::process::Command::new("node").arg(program).arg(task.to_string()).stdin(Stdio::null()).kill_on_drop(true).output();
    let looked = tokio::time::timeout(PATIENCE, look).await.expect("the browser ends").unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&looked.stdout), String::from_utf8_lossy(&looked.stderr));
    assert!(looked.status.success(), "{said}");
    let ended = tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    assert!(matches!(&ended, Some(Ended::Outcome(Outcome::Cancelled { by })) if by.contains("local")), "the button stopped it: {ended:?}");
    let jobs = service.jobs().await;
    assert_eq!(jobs.iter().filter(|job| job.issue == good).count(), 2, "the button made another run");
    assert_eq!(jobs.iter().filter(|job| job.issue == hostile).count(), 2, "so did the one without a script");
    service.end().await;
}
