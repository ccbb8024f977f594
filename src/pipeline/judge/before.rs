//! The tests at base: measured twice, to know the flaky ones, or remembered from an earlier run at the same commit.

use crate::domain::{Kept, Stage, TestRun};
use crate::publish::report::Told;
use crate::store::BaselineOf;
use crate::verify::TestCommand;

use super::super::{Start, Stop, Work, sandboxed};
use super::Rules;
use super::room::Room;

/// How often the tests run at base.
const RUNS: usize = 2;
/// Stands before the command of what is remembered: another number where the tests are run or read in another way.
const MANNER: &str = "2";

/// Runs the tests on base, unless a run before this one has done so.
pub(in super::super) async fn tests_before(work: &mut Work<'_>, start: &Start, rules: &Rules) -> Result<(), Stop> {
    if work.checkpoint.tests_before.is_none() {
        work.checkpoint.base_again.clear();
    }
    if let Some(command) = &rules.command
        && is_unfinished(work)
    {
        let key = key(work, start, command, rules);
        match remembered(work, key.as_ref()).await {
            Some(runs) => take(work, runs).await?,
            None => {
                measure(work, start, command, rules).await?;
                remember(work, key.as_ref()).await;
            }
        }
    }
    work.report.tests.before = work.checkpoint.tests_before.as_ref().map(Told::of);
    Ok(())
}

/// A run that could not be, or did not end, is not repeated.
fn is_unfinished(work: &Work<'_>) -> bool {
    match &work.checkpoint.tests_before {
        None => true,
        Some(Ok(run)) if !run.timed_out => 1 + work.checkpoint.base_again.len() < RUNS,
        Some(_) => false,
    }
}

async fn measure(work: &mut Work<'_>, start: &Start, command: &TestCommand, rules: &Rules) -> Result<(), Stop> {
    if work.checkpoint.tests_before.is_none() {
        work.enter(Stage::Proving).await?;
        let sandbox = sandboxed::with_tree(work, &start.mirror, &start.base, &start.branch, &start.tree, "before").await?;
        work.enter(Stage::TestsBefore).await?;
        let first = super::room::run_and_close(("before", sandbox), command, None, rules.test_time, &work.cancel).await?;
        work.checkpoint.tests_before = Some(first);
        work.keep().await?;
    } else {
        work.enter(Stage::TestsBefore).await?;
    }
    while is_unfinished(work) {
        let room = Room { name: "before", command, changed: &[], files: None, time: rules.test_time };
        let again = room.run(work, start).await?;
        work.checkpoint.base_again.push(again);
        work.keep().await?;
    }
    work.finish_stage();
    work.keep().await
}

async fn take(work: &mut Work<'_>, mut runs: Vec<TestRun>) -> Result<(), Stop> {
    let first = runs.remove(0);
    work.checkpoint.tests_before = Some(Ok(first));
    work.checkpoint.base_again = runs.into_iter().map(Ok).collect();
    work.keep().await
}

/// Where what is measured is remembered; none where it is not.
fn key(work: &Work<'_>, start: &Start, command: &TestCommand, rules: &Rules) -> Option<BaselineOf> {
    work.parts.baselines.as_ref()?;
    Some(BaselineOf {
        repository: start.mirror.name(),
        base: start.base.to_string(),
        image: work.parts.sandboxes.image()?,
        command: format!("{MANNER} {}s {}", rules.test_time.as_secs_f64(), command.script),
    })
}

/// What is remembered; a database that fails costs only another measurement.
async fn remembered(work: &Work<'_>, key: Option<&BaselineOf>) -> Option<Vec<TestRun>> {
    let (Some(store), None) = (&work.parts.baselines, &work.checkpoint.tests_before) else { return None };
    let found = store.baseline(key?).await;
    let found = found.map_err(|error| tracing::warn!(%error, "what the tests said at base could not be looked up")).ok()??;
    (found.len() >= RUNS).then_some(found)
}

/// Remembers only what ended by itself, every time.
async fn remember(work: &Work<'_>, key: Option<&BaselineOf>) {
    let (Some(store), Some(key)) = (&work.parts.baselines, key) else { return };
    let kept = work.checkpoint.tests_before.iter().chain(&work.checkpoint.base_again).cloned().collect::<Vec<Kept>>();
    let runs = kept.into_iter().collect::<Result<Vec<_>, _>>().unwrap_or_default();
    if runs.len() >= RUNS
        && runs.iter().all(|run| !run.timed_out)
        && let Err(error) = store.keep_baseline(key, &runs, work.parts.clock.as_ref()).await
    {
        tracing::warn!(%error, "what the tests said at base could not be kept");
    }
}
