//! One run of the tests in a fresh sandbox, whose tree is base with some changes.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::{ChangedFile, Kept, ObjectId, TestResult, TestRun};
use crate::sandbox::Sandbox;
use crate::telemetry::traces;
use crate::verify::{self, TestCommand, TestOutcome};

use super::super::{Start, Stop, Work, agent, sandboxed};

/// What is run, and on what.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    /// What the sandbox is for, as part of its name.
    pub(super) name: &'static str,
    /// The command.
    pub(super) command: &'a TestCommand,
    /// What is put on base.
    pub(super) changed: &'a [ChangedFile],
    /// The test files to run; all for none.
    pub(super) files: Option<&'a [String]>,
    /// How long it may take.
    pub(super) time: Duration,
}

impl Room<'_> {
    /// Runs the tests, until they end, their time is over or the run is cancelled.
    pub(super) async fn run(&self, work: &mut Work<'_>, start: &Start) -> Result<Kept, Stop> {
        self.run_at(work, start, None).await
    }

    /// The same with a commit that has the tree already.
    pub(super) async fn run_at(&self, work: &mut Work<'_>, start: &Start, commit: Option<&ObjectId>) -> Result<Kept, Stop> {
        let commit = match commit {
            Some(commit) => commit.clone(),
            None if self.changed.is_empty() => start.base.clone(),
            None => start.mirror.commit_for_judging(&work.run, &start.base, self.changed, &agent::message(work)).await?,
        };
        let tree = start.mirror.tree(&commit).await?;
        let sandbox = sandboxed::with_tree(work, &start.mirror, &commit, &start.branch, &tree, self.name).await?;
        run_and_close((self.name, sandbox), self.command, self.files, self.time, &work.cancel).await
    }
}

/// Runs the tests in a sandbox that has the tree, and ends it.
pub(super) async fn run_and_close(
    (name, mut sandbox): (&'static str, Box<dyn Sandbox>),
    command: &TestCommand,
    files: Option<&[String]>,
    time: Duration,
    cancel: &CancellationToken,
) -> Result<Kept, Stop> {
    let mut span = traces::span("test run").with("frognano.purpose", name);
    let ran = tokio::select! {
        ran = verify::run_tests_of(sandbox.as_mut(), command, files, time) => Some(ran),
        () = cancel.cancelled() => None,
    };
    sandbox.close().await;
    Ok(match ran.ok_or(Stop::Shutdown)?? {
        TestOutcome::Ran(run) => {
            tell_of(&run, &mut span);
            Ok(run)
        }
        TestOutcome::Unavailable(why) => {
            span.fail();
            Err(why)
        }
    })
}

fn tell_of(run: &TestRun, span: &mut traces::Span) {
    span.set("frognano.tests.per_test", run.per_test);
    span.set("frognano.tests.timed_out", run.timed_out);
    let counts = [
        ("frognano.tests.passed", TestResult::Passed),
        ("frognano.tests.failed", TestResult::Failed),
        ("frognano.tests.errors", TestResult::Error),
    ];
    for (key, result) in counts {
        span.set(key, run.count(result) as u64);
    }
}
