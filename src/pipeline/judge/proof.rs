//! The runs behind a proof: the patch's own tests without and with its source, and then with each part of it taken back.
//!
//! What must hold: nothing here can make a verdict worse; what is not tried, for want of time or of a result for each test, is said.

use std::time::Duration;

use crate::domain::{ChangedFile, Hunk, Kept, TestNames, TestRun};
use crate::guard::GuardedPatch;
use crate::verify::restore::with_own_tests;
use crate::verify::{Judgement, Report, TestCommand, hunks, is_doubt, proving as rules_of_proof};

use super::super::{Start, Stop, Work};
use super::room::Room;
use super::{Rules, judged};

/// Runs whatever the patch and the time allow.
pub(super) async fn measure(
    work: &mut Work<'_>,
    start: &Start,
    rules: &Rules,
    command: &TestCommand,
    patch: &GuardedPatch,
) -> Result<(), Stop> {
    let changed = patch.changed();
    let so_far = judged(work);
    if so_far.refuses() || !so_far.evidence.changed_expectations.is_empty() || so_far.comparison.is_none() {
        if command.report == Report::None {
            note(
                work,
                "the command of the tests gives no result for each test, so the patch's own tests were not tried without its source",
            );
        }
        return Ok(());
    }
    let may_count = !patch.flags().iter().any(is_doubt);
    let bench = Bench { rules, start, command, own: with_own_tests(changed), tests: patch.test_names() };
    if may_count {
        bench.red_green(work, changed).await?;
    }
    bench.counter(work, changed).await?;
    if may_count && rules.verify.hunks {
        bench.parts(work, changed).await?;
    }
    Ok(())
}

/// The tests that prove the patch by what is kept.
pub(super) fn proving(work: &Work<'_>, judgement: &Judgement) -> Vec<String> {
    let judging = &work.checkpoint.judging;
    let enough = judging.red.len() >= rules_of_proof::RUNS && judging.green.len() >= rules_of_proof::RUNS;
    if enough && judgement.comparison.is_some() { still_proving(work, judgement) } else { Vec::new() }
}

/// The tests that prove the patch as far as they have been run.
fn still_proving(work: &Work<'_>, judgement: &Judgement) -> Vec<String> {
    let runs = |kept: &[Kept]| kept.iter().map(|kept| kept.clone().unwrap_or_default()).collect::<Vec<TestRun>>();
    let (red, green) = (runs(&work.checkpoint.judging.red), runs(&work.checkpoint.judging.green));
    let fixed = judgement.comparison.as_ref().map_or(&[][..], |comparison| &comparison.fixed);
    rules_of_proof::proving(&red, &green, fixed, &format!("{}\n{}", work.text.title, work.text.body))
}

pub(super) fn note(work: &mut Work<'_>, what: &str) {
    let notes = &mut work.checkpoint.judging.notes;
    if !notes.iter().any(|known| known == what) {
        notes.push(what.to_owned());
    }
}

/// What all these runs have in common; `own` is the patch with its own tests and without its configuration.
pub(super) struct Bench<'a> {
    rules: &'a Rules,
    pub(super) start: &'a Start,
    command: &'a TestCommand,
    own: Vec<ChangedFile>,
    pub(super) tests: &'a TestNames,
}

impl Bench<'_> {
    async fn red_green(&self, work: &mut Work<'_>, changed: &[ChangedFile]) -> Result<(), Stop> {
        let files = rules_of_proof::test_files(changed, self.tests);
        let without_source = rules_of_proof::tests_alone(changed, self.tests);
        if files.is_empty() || without_source.len() == self.own.len() {
            return Ok(());
        }
        loop {
            let (red, green) = (work.checkpoint.judging.red.len(), work.checkpoint.judging.green.len());
            if red > 0 && still_proving(work, &judged(work)).is_empty() {
                note(
                    work,
                    "no new or changed test of the patch fails without its source by an assertion or an exception of the issue, and passes with it",
                );
                return Ok(());
            }
            if red >= rules_of_proof::RUNS && green >= rules_of_proof::RUNS {
                return Ok(());
            }
            let is_red = red <= green;
            let tree = if is_red { &without_source } else { &self.own };
            let Some(kept) = self.run(work, if is_red { "red" } else { "green" }, tree, Some(&files)).await? else {
                note(work, "the time for the proof was over before the patch's own tests had run often enough");
                return Ok(());
            };
            let judging = &mut work.checkpoint.judging;
            if is_red {
                judging.red.push(kept)
            } else {
                judging.green.push(kept)
            }
            work.keep().await?;
        }
    }

    async fn parts(&self, work: &mut Work<'_>, changed: &[ChangedFile]) -> Result<(), Stop> {
        let judgement = judged(work);
        let fixed = judgement.comparison.as_ref().map(|comparison| comparison.fixed.clone()).unwrap_or_default();
        let noticing = [judgement.evidence.proving.clone(), fixed.clone()].concat();
        let parts = hunks::parts(changed, self.tests);
        if noticing.is_empty() || parts.is_empty() {
            return Ok(());
        }
        if parts.len() > hunks::MOST {
            let why = format!("the patch has {} parts, more than {}; they were not taken back one by one", parts.len(), hunks::MOST);
            note(work, &why);
            return Ok(());
        }
        if parts.len() == 1 && changed.iter().filter(|file| hunks::is_source(&file.path, self.tests)).count() == 1 {
            // Without it the source is as at base, where these tests are red.
            work.checkpoint.judging.hunks = vec![Hunk { noticed: Some(true), ..parts[0].hunk.clone() }];
            return Ok(());
        }
        let paths = self.start.tree.entries.keys().chain(changed.iter().map(|file| &file.path));
        let files = rules_of_proof::files_of(&noticing, paths, self.tests);
        for part in &parts[work.checkpoint.judging.hunks.len().min(parts.len())..] {
            let without = |file: &ChangedFile| if file.path == part.reverted.path { part.reverted.clone() } else { file.clone() };
            let tree = self.own.iter().map(without).collect::<Vec<_>>();
            let ran = self.run(work, "part", &tree, files.as_deref()).await?;
            if ran.is_none() {
                note(work, "the time for the proof was over before every part of the patch had been taken back alone");
            }
            let noticed = ran.and_then(Result::ok).and_then(|run| hunks::noticed(&run, &noticing));
            work.checkpoint.judging.hunks.push(Hunk { noticed, ..part.hunk.clone() });
            work.keep().await?;
        }
        Ok(())
    }

    /// One run; none where the time is over.
    pub(super) async fn run(
        &self,
        work: &mut Work<'_>,
        name: &'static str,
        changed: &[ChangedFile],
        files: Option<&[String]>,
    ) -> Result<Option<Kept>, Stop> {
        let left = self.rules.verify.time.saturating_sub(Duration::from_millis(work.checkpoint.judging.spent_ms));
        if left.is_zero() {
            return Ok(None);
        }
        let room = Room { name, command: self.command, changed, files, time: left.min(self.rules.test_time) };
        let kept = room.run(work, self.start).await?;
        work.checkpoint.judging.spent_ms += kept.as_ref().map_or(0, |run| run.duration_ms);
        Ok(Some(kept))
    }
}
