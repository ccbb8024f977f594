//! The judgement by code: what the rules say of the patch, and what the project's tests say before and after it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::{BlobMode, ChangedFile, Finding, Severity, Stage, TestRun};
use crate::git::Tree;
use crate::guard::{self, Base, GuardedPatch, Limits};
use crate::leaf::Preset;
use crate::publish::report::Told;
use crate::sandbox::Sandbox;
use crate::verify::detect::{TreeFiles, detect};
use crate::verify::policy::{RepoPolicy, RunLimits};
use crate::verify::restore::clean_room;
use crate::verify::{self, Judgement, TestCommand, TestOutcome};

use super::{Candidate, Start, Stop, Work, agent, sandboxed};

/// The repository's own settings, read from the default branch.
const POLICY: &[u8] = b".frognano.toml";

/// What holds for this run: the service's limits, tightened where the repository asks for less, and the command of its tests.
pub(super) struct Rules {
    pub(super) preset: Preset,
    pub(super) attempts: u32,
    command: Option<TestCommand>,
    limits: Limits,
    test_time: Duration,
}

impl Rules {
    /// Whether there is a command that runs the project's tests.
    pub(super) const fn has_tests(&self) -> bool {
        self.command.is_some()
    }
}

/// Reads the repository's policy and finds the command of its tests.
pub(super) async fn rules(work: &mut Work<'_>, start: &Start) -> Result<Rules, Stop> {
    let settings = &work.parts.settings;
    let unreadable = |why: &str| Stop::refused("policy-unreadable", format!(".frognano.toml: {why}"));
    let policy = match start.tree.entries.get(POLICY) {
        None => RepoPolicy::default(),
        Some(entry) if !matches!(entry.mode, BlobMode::File | BlobMode::Executable) => return Err(unreadable("it is no file")),
        Some(entry) if entry.size > RepoPolicy::MAX_BYTES => {
            return Err(unreadable(&format!("it is larger than {} bytes", RepoPolicy::MAX_BYTES)));
        }
        Some(entry) => {
            let content = start.mirror.blobs(&[&entry.blob]).await?.pop().unwrap_or_default();
            RepoPolicy::parse(&content).map_err(|complaints| unreadable(&complaints.join("; ")))?
        }
    };
    let floor = RunLimits {
        test_timeout: settings.test_time,
        agent_time: settings.preset.max_time,
        attempts: u64::from(settings.attempts),
        max_steps: settings.preset.max_steps,
        stuck_after: settings.preset.stuck_after,
        max_files: settings.limits.max_files,
        max_lines: settings.limits.max_lines,
        protected: settings.limits.protected.clone(),
    };
    let (limits, notes) = policy.tighten(&floor);
    work.report.notes.extend(notes);
    let command = match (&settings.test_override, &policy.test_command) {
        (Some(command), _) => Some(TestCommand::configured(command, "Given for this run.")),
        (None, Some(command)) => Some(TestCommand::configured(command, "From the repository's .frognano.toml.")),
        (None, None) => {
            let files = read_for_detection(start).await?;
            let fallback =
                || settings.test_fallback.as_ref().map(|command| TestCommand::configured(command, "From the service's configuration."));
            detect(&files).or_else(fallback)
        }
    };
    work.report.tests.command = command.as_ref().map(|command| command.shown.clone());
    work.report.tests.why = command.as_ref().map(|command| command.why.clone());
    let preset =
        Preset { max_time: limits.agent_time, max_steps: limits.max_steps, stuck_after: limits.stuck_after, ..settings.preset.clone() };
    work.report.preset = preset.in_words();
    Ok(Rules {
        preset,
        attempts: u32::try_from(limits.attempts).unwrap_or(u32::MAX),
        command,
        limits: Limits { max_files: limits.max_files, max_lines: limits.max_lines, protected: limits.protected, ..settings.limits.clone() },
        test_time: limits.test_timeout,
    })
}

/// Runs the tests on base, unless a run before this one has done so.
pub(super) async fn tests_before(work: &mut Work<'_>, start: &Start, rules: &Rules) -> Result<(), Stop> {
    if work.checkpoint.tests_before.is_none() && rules.command.is_some() {
        work.enter(Stage::Proving).await?;
        let sandbox = sandboxed::with_tree(work, &start.mirror, &start.base, &start.branch, &start.tree, "before").await?;
        work.enter(Stage::TestsBefore).await?;
        work.checkpoint.tests_before = Some(run_and_close(sandbox, rules, &work.cancel).await?);
        work.finish_stage();
        work.keep().await?;
    }
    work.report.tests.before = work.checkpoint.tests_before.as_ref().map(Told::of);
    Ok(())
}

/// Asks the rules: the patch with what they flag, or all that they found where they refuse it.
pub(super) async fn guard(start: &Start, rules: &Rules, changed: Vec<ChangedFile>) -> Result<Result<GuardedPatch, Vec<Finding>>, Stop> {
    let base = base_of(start).await?;
    Ok(guard::check(changed, &rules.limits, &base))
}

/// What the rules want to know of base beside the changed files.
async fn base_of(start: &Start) -> Result<Base, Stop> {
    let wanted = start.tree.entries.iter().filter(|(path, entry)| {
        matches!(entry.mode, BlobMode::File | BlobMode::Executable) && entry.size <= Base::LARGEST && Base::wants(path)
    });
    let wanted = wanted.take(Base::MOST).collect::<Vec<_>>();
    let contents = start.mirror.blobs(&wanted.iter().map(|(_, entry)| entry.blob.as_str()).collect::<Vec<_>>()).await?;
    let files = wanted.into_iter().map(|(path, _)| path.clone()).zip(contents).collect();
    Ok(Base { paths: start.tree.entries.keys().cloned().collect(), files })
}

/// Runs the tests in a fresh sandbox on base with the patch, the tests of base put back over it.
pub(super) async fn tests_after(work: &mut Work<'_>, start: &Start, rules: &Rules, candidate: &Candidate) -> Result<(), Stop> {
    let room = clean_room(candidate.patch.changed());
    work.report.tests.restored =
        room.restored.iter().chain(&room.left_out).map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    if work.checkpoint.tests_after.is_none() && rules.command.is_some() {
        work.enter(Stage::TestsAfter).await?;
        let commit = if work.report.tests.restored.is_empty() {
            candidate.commit.clone()
        } else {
            start.mirror.commit_for_judging(&work.run, &start.base, &room.judged, &agent::message(work)).await?
        };
        let tree = start.mirror.tree(&commit).await?;
        let sandbox = sandboxed::with_tree(work, &start.mirror, &commit, &start.branch, &tree, "after").await?;
        work.checkpoint.tests_after = Some(run_and_close(sandbox, rules, &work.cancel).await?);
        work.finish_stage();
        work.keep().await?;
    }
    work.report.tests.after = work.checkpoint.tests_after.as_ref().map(Told::of);
    Ok(())
}

/// Compares what the tests said before and after.
pub(super) fn verdict(work: &Work<'_>) -> Judgement {
    let outcome = |kept: &Result<TestRun, String>| match kept {
        Ok(run) => TestOutcome::Ran(run.clone()),
        Err(why) => TestOutcome::Unavailable(why.clone()),
    };
    let before = work.checkpoint.tests_before.as_ref().map(outcome);
    let nothing = || TestOutcome::Unavailable("no command that runs the tests was found".to_owned());
    let after = work.checkpoint.tests_after.as_ref().map_or_else(nothing, outcome);
    verify::judge(before.as_ref(), &after)
}

/// Tells what the rules found; the run ends where one refuses.
pub(super) fn weigh(work: &mut Work<'_>, findings: Vec<Finding>) -> Result<(), Stop> {
    let refused = findings.iter().any(|finding| finding.severity == Severity::Refuse);
    if refused {
        return Err(refuse(work, findings));
    }
    work.report.findings.extend(findings);
    Ok(())
}

/// Tells why the patch is refused, by the first rule that does so.
pub(super) fn refuse(work: &mut Work<'_>, findings: Vec<Finding>) -> Stop {
    let first = findings.iter().find(|finding| finding.severity == Severity::Refuse);
    let (rule, why) = first.map_or(("unknown", "a rule refused the patch"), |finding| (finding.rule.as_str(), finding.why.as_str()));
    let stop = Stop::refused(rule, format!("the patch is not proposed: {why}"));
    work.report.findings.extend(findings);
    stop
}

/// Tells what the tests show; the run ends where they refuse the patch.
pub(super) fn weigh_tests(work: &mut Work<'_>, judgement: Judgement) -> Result<(), Stop> {
    work.report.proof = Some(judgement.proof.name().to_owned());
    work.report.comparison = judgement.comparison;
    work.report.evidence = judgement.evidence;
    weigh(work, judgement.findings)
}

/// Runs the tests, until they end, their time is over or the run is cancelled.
async fn run_and_close(mut sandbox: Box<dyn Sandbox>, rules: &Rules, cancel: &CancellationToken) -> Result<Result<TestRun, String>, Stop> {
    let Some(command) = &rules.command else {
        sandbox.close().await;
        return Ok(Err("no command that runs the tests was found".to_owned()));
    };
    let ran = tokio::select! {
        ran = verify::run_tests(sandbox.as_mut(), command, rules.test_time) => Some(ran),
        () = cancel.cancelled() => None,
    };
    sandbox.close().await;
    Ok(match ran.ok_or(Stop::Shutdown)?? {
        TestOutcome::Ran(run) => Ok(run),
        TestOutcome::Unavailable(why) => Err(why),
    })
}

/// The files that the search for a test command reads: small text files, read from the object store at once.
struct Read {
    tree: Tree,
    contents: std::collections::BTreeMap<Vec<u8>, Vec<u8>>,
}

impl TreeFiles for Read {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.contents.get(path.as_bytes()).cloned()
    }

    fn paths(&self) -> Vec<Vec<u8>> {
        self.tree.entries.keys().cloned().collect()
    }
}

async fn read_for_detection(start: &Start) -> Result<Read, Stop> {
    const LARGEST: u64 = 256 * 1024;
    const MOST: usize = 2000;
    const TOGETHER: u64 = 16 * 1024 * 1024;
    let wanted = |path: &[u8]| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let at_the_top = !path.contains(&b'/');
        (at_the_top && !name.ends_with(b".lock"))
            || name.ends_with(b".py") && name.windows(4).any(|part| part.eq_ignore_ascii_case(b"test"))
            || name == b"conftest.py"
    };
    let files = start.tree.entries.iter().filter(|(path, entry)| {
        entry.size <= LARGEST && entry.mode != BlobMode::Symlink && entry.mode != BlobMode::Submodule && wanted(path)
    });
    let mut together = 0;
    let files = files.take(MOST).take_while(|(_, entry)| {
        together += entry.size;
        together <= TOGETHER
    });
    let files = files.collect::<Vec<_>>();
    let contents = start.mirror.blobs(&files.iter().map(|(_, entry)| entry.blob.as_str()).collect::<Vec<_>>()).await?;
    let contents = files.into_iter().map(|(path, _)| path.clone()).zip(contents).collect();
    Ok(Read { tree: start.tree.clone(), contents })
}
