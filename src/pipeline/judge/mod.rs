//! The judgement by code: what the rules say of the patch, and what the project's tests say before and after it.
//!
//! What must hold: each run of the tests is kept before the next begins, so that a judge who is killed goes on behind it; the verdict is made of what
//! is kept alone, and the same runs give the same verdict.

mod before;
mod counter;
mod proof;
mod room;

use std::time::Duration;

use serde_json::json;

use crate::audit::{Kind, canonical};
use crate::domain::{BlobMode, ChangedFile, Fault, Finding, Judging, Kept, ObjectId, Proof, Severity, Stage};
use crate::git::Tree;
use crate::guard::{self, Base, GuardedPatch, Limits};
use crate::leaf::Preset;
use crate::publish::report::Told;
use crate::verify::detect::{TreeFiles, detect};
use crate::verify::policy::{RepoPolicy, RunLimits};
use crate::verify::restore::{clean_room, with_own_tests};
use crate::verify::{self, Consensus, Judgement, TestCommand, TestOutcome};

use super::{Candidate, Start, Stop, Work};
use room::Room;

pub(super) use before::tests_before;

/// The repository's own settings, read from the default branch.
const POLICY: &[u8] = b".frognano.toml";

/// A run that looks broken is repeated so often, at most: luck is not held against a patch.
const AGAIN: usize = 2;

/// How much the judge tries, and which proofs are enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyRules {
    /// The proofs that may open a pull request.
    pub open_with: Vec<Proof>,
    /// Whether each part of a small patch is taken back alone.
    pub hunks: bool,
    /// For the runs of the patch's own tests and of its parts, together.
    pub time: Duration,
}

/// What holds for this run: the service's limits, tightened where the repository asks for less, and the command of its tests.
pub(super) struct Rules {
    pub(super) preset: Preset,
    pub(super) attempts: u32,
    command: Option<TestCommand>,
    limits: Limits,
    test_time: Duration,
    verify: VerifyRules,
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
        open_with: settings.verify.open_with.clone(),
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
        verify: VerifyRules { open_with: limits.open_with, ..settings.verify.clone() },
    })
}

impl Rules {
    /// Writes down what holds for this run, so that it can be told later by which policy it was judged.
    pub(super) async fn write_down(&self, work: &mut Work<'_>, start: &Start) -> Result<(), Stop> {
        let settings = &work.parts.settings;
        let policy = json!({
            "version": env!("CARGO_PKG_VERSION"), "label": settings.label, "model": work.parts.model.name(), "preset": self.preset.in_words(),
            "attempts": self.attempts, "attempts_for_proof": settings.attempts_for_proof, "seed": settings.seed,
            "tests": work.report.tests.command, "test_seconds": self.test_time.as_secs(),
            "guard": {"max_files": self.limits.max_files, "max_lines": self.limits.max_lines, "protected": self.limits.protected},
            "open_with": self.verify.open_with.iter().map(|proof| proof.name()).collect::<Vec<_>>(), "hunks": self.verify.hunks,
        });
        let bytes = canonical(&policy).map_err(|error| Stop::TryAgain(Fault::Internal, error.to_string()))?;
        let kept = work.record.keep_record("policy", &bytes).await?;
        work.report.policy_sha256 = Some(kept.to_string());
        let facts = json!({"rules": {"record": kept, "kind": "policy"}, "base": start.base, "head": work.checkpoint.head});
        work.record.witness(Kind::Policy, facts).await
    }
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

/// Runs the tests in fresh sandboxes on base with the patch, the tests of base put back over it, and what else the verdict needs.
pub(super) async fn tests_after(work: &mut Work<'_>, start: &Start, rules: &Rules, candidate: &Candidate) -> Result<(), Stop> {
    let changed = candidate.patch.changed();
    let tests = candidate.patch.test_names();
    let clean = clean_room(changed, tests);
    work.report.tests.restored =
        clean.restored.iter().chain(&clean.left_out).map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    if work.checkpoint.tests_after.is_none() {
        work.checkpoint.judging = Judging::default();
    }
    work.checkpoint.judging.open_with.clone_from(&rules.verify.open_with);
    work.checkpoint.judging.gone = candidate.patch.gone().to_vec();
    work.checkpoint.judging.flags = candidate.patch.flags().to_vec();
    if let Some(command) = rules.command.as_ref().filter(|_| !work.checkpoint.judging.finished) {
        work.enter(Stage::TestsAfter).await?;
        tell_of_bad_ends(work);
        let everything = Room { name: "after", command, changed: &clean.judged, files: None, time: rules.test_time };
        let commit = work.report.tests.restored.is_empty().then_some(&candidate.commit);
        in_clean_room(work, start, &everything, commit).await?;
        with_changed_tests(work, start, &everything, changed).await?;
        proof::measure(work, start, rules, command, &candidate.patch).await?;
        work.checkpoint.judging.finished = true;
        work.finish_stage();
        work.keep().await?;
    }
    work.report.tests.after = work.checkpoint.tests_after.as_ref().map(Told::of);
    work.report.notes.extend(work.checkpoint.judging.notes.clone());
    Ok(())
}

/// Runs the tests once, and again while a test looks broken that luck may have broken.
async fn in_clean_room(work: &mut Work<'_>, start: &Start, room: &Room<'_>, commit: Option<&ObjectId>) -> Result<(), Stop> {
    if work.checkpoint.tests_after.is_none() {
        let first = room.run_at(work, start, commit).await?;
        work.checkpoint.tests_after = Some(believed(work, first));
        work.keep().await?;
    }
    while work.checkpoint.judging.after_again.len() < AGAIN && Consensus::of(&at_base(work), &on_the_patch(work)).is_suspicious() {
        let again = room.run_at(work, start, commit).await?;
        let again = believed(work, again);
        work.checkpoint.judging.after_again.push(again);
        work.keep().await?;
    }
    Ok(())
}

fn believed(work: &Work<'_>, kept: Kept) -> Kept {
    kept.map(|run| verify::believed(&at_base(work), run))
}

/// Says why tests are judged one by one whose command ends badly, with and without the patch.
fn tell_of_bad_ends(work: &mut Work<'_>) {
    let at_base = at_base(work);
    let Some(bad) = at_base.iter().filter_map(TestOutcome::run).find(|run| run.is_bad_without_a_red_test()) else { return };
    let status = bad.exit_code.unwrap_or_default();
    let what = format!(
        "no test is red at base and the command of the tests ends with status {status}, as a limit on coverage may make it: the tests were judged one \
         by one, and that status was left aside"
    );
    proof::note(work, &what);
}

/// Where tests are red and the patch changed tests: runs them once more as the patch has them.
async fn with_changed_tests(work: &mut Work<'_>, start: &Start, room: &Room<'_>, changed: &[ChangedFile]) -> Result<(), Stop> {
    let clean = verify::judge_all(&at_base(work), &on_the_patch(work));
    let is_red = clean.is_a_regression() || clean.comparison.is_some_and(|comparison| !comparison.still_failing.is_empty());
    let changes_tests = !work.report.tests.restored.is_empty() || !work.checkpoint.judging.gone.is_empty();
    let may_explain = changes_tests && is_red;
    if may_explain && work.checkpoint.judging.own_tests.is_none() {
        let own = with_own_tests(changed);
        let room = Room { name: "own-tests", changed: &own, ..*room };
        let own = room.run(work, start).await?;
        work.checkpoint.judging.own_tests = Some(believed(work, own));
        work.keep().await?;
    }
    Ok(())
}

/// Compares what the tests said before and after.
pub(super) fn verdict(work: &Work<'_>) -> Judgement {
    let judging = &work.checkpoint.judging;
    let judgement = judged(work);
    let countered = match &judging.reversed {
        Some(reversal) => judgement.countered(reversal),
        None => judgement,
    };
    verify::demand(verify::doubt(countered, &judging.flags), &judging.open_with)
}

/// The judgement by the tests alone.
fn judged(work: &Work<'_>) -> Judgement {
    let (before, after) = (at_base(work), on_the_patch(work));
    if after.is_empty() {
        return verify::judge(before.first(), &TestOutcome::Unavailable("no command that runs the tests was found".to_owned()));
    }
    let judging = &work.checkpoint.judging;
    let judgement = verify::judge_all(&before, &after);
    let judgement = match (&judging.own_tests, Consensus::of(&before, &after).before) {
        (Some(own), Some(was)) => verify::judge_changed_tests(judgement, &was, &outcome(own), &judging.gone),
        _ => judgement,
    };
    let proving = proof::proving(work, &judgement);
    judgement.proved_by(proving, judging.hunks.clone())
}

fn outcome(kept: &Kept) -> TestOutcome {
    match kept {
        Ok(run) => TestOutcome::Ran(run.clone()),
        Err(why) => TestOutcome::Unavailable(why.clone()),
    }
}

fn at_base(work: &Work<'_>) -> Vec<TestOutcome> {
    work.checkpoint.tests_before.iter().chain(&work.checkpoint.base_again).map(outcome).collect()
}

fn on_the_patch(work: &Work<'_>) -> Vec<TestOutcome> {
    work.checkpoint.tests_after.iter().chain(&work.checkpoint.judging.after_again).map(outcome).collect()
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
