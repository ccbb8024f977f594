//! Several attempts at one issue: a red, refused or empty result is followed by a fresh one, and the best by evidence is proposed.
//!
//! What must hold: a fault of ours is no attempt; an attempt that has ended is never made again, whatever kills the service; all of them share
//! the run's time; what becomes a proposal went through the guard and the judge by itself, and is asked of the guard once more here.

use std::ops::ControlFlow;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::audit::Kind;
use crate::domain::{Outcome, TestRun};
use crate::leaf::{self, Preset};
use crate::publish::report::{AttemptTold, Report, Told};
use crate::store::Tried;
use crate::telemetry::traces;
use crate::verify::Proof;

use super::judge::{self, Rules};
use super::{Candidate, Start, Stop, Work, agent, changes, folder_of_attempt, task};

/// The trees that a run works on.
pub(super) struct Ground<'a> {
    /// What everything is measured against.
    pub(super) base: &'a Start,
    /// The tip of a branch that the agent works on top of; none for base itself.
    pub(super) head: Option<&'a Start>,
}

/// Makes attempts until one is accepted, all are made or the time is over; the best of them.
pub(super) async fn best(work: &mut Work<'_>, ground: &Ground<'_>, rules: &Rules) -> Result<Candidate, Stop> {
    task::tell_what_was_left_out(&mut work.report, &leaf::task_text(&work.text));
    forget_what_is_lost(work, ground).await;
    let mut broken_off = None;
    while another(work, rules) {
        if let ControlFlow::Break(why) = one(work, ground, rules).await? {
            broken_off = Some(why);
            break;
        }
    }
    traces::attempt(0);
    let candidate = choose(work, ground, rules).await;
    work.report.notes.extend(broken_off);
    candidate
}

/// An attempt that would be proposed and whose commit the mirror has lost is concluded once more from its journal, and so are those after it.
async fn forget_what_is_lost(work: &mut Work<'_>, ground: &Ground<'_>) {
    let Some(at) = best_of(&work.checkpoint.tried) else { return };
    if let Some(commit) = &work.checkpoint.tried[at].candidate
        && !ground.base.mirror.has(commit).await
    {
        work.checkpoint.tried.truncate(at);
    }
}

/// Whether one more attempt is made.
fn another(work: &Work<'_>, rules: &Rules) -> bool {
    let tried = &work.checkpoint.tried;
    let all = tried.len() >= usize::try_from(rules.attempts).unwrap_or(usize::MAX);
    let Some(last) = tried.last() else { return true };
    let accepted = is_accepted(last, work.parts.settings.attempts_for_proof && rules.has_tests());
    !all && !accepted && has_time(&rules.preset, spent_ms(tried))
}

/// A patch that no rule refuses is accepted; where a proof is looked for, one that no test speaks for is not.
fn is_accepted(tried: &Tried, for_proof: bool) -> bool {
    tried.ended.is_none() && (!for_proof || proof_rank(&report_of(tried)) <= rank(Proof::Fixed))
}

/// With less than a tenth of the time left an attempt would end in the middle.
fn has_time(preset: &Preset, spent_ms: u64) -> bool {
    let all = u64::try_from(preset.max_time.as_millis()).unwrap_or(u64::MAX);
    spent_ms < all - all / 10
}

fn spent_ms(tried: &[Tried]) -> u64 {
    tried.iter().map(|tried| tried.agent_ms).sum()
}

/// One attempt, kept when it has ended. It breaks off with a sentence where a fault of ours ended it for good and there are others to choose from.
async fn one(work: &mut Work<'_>, ground: &Ground<'_>, rules: &Rules) -> Result<ControlFlow<String>, Stop> {
    let number = work.attempt();
    work.record.attempt(number, rules.attempts);
    traces::attempt(number);
    if number > 1 {
        tracing::info!(number, of = rules.attempts, "a fresh attempt begins");
    }
    let common = work.report.clone();
    let ended = match made(work, ground, rules).await {
        Ok(()) => None,
        Err(Stop::Outcome(outcome @ (Outcome::NoPatch { .. } | Outcome::Refused { .. }))) => Some(outcome),
        Err(Stop::Outcome(Outcome::Abandoned { detail, .. })) if number > 1 => {
            work.report = common;
            forget_if_empty(work, number).await;
            return Ok(ControlFlow::Break(format!("A further attempt was broken off by a fault that is not the model's: {detail}")));
        }
        Err(stop) => return Err(stop),
    };
    work.finish_stage();
    let report = std::mem::replace(&mut work.report, common);
    let kept = &mut work.checkpoint;
    let tried = Tried {
        ended,
        candidate: kept.candidate.clone(),
        report: serde_json::to_value(&report).unwrap_or_default(),
        behaviour: kept.tests_after.as_ref().and_then(|after| behaviour(after.as_ref().ok()?)),
        agent_ms: kept.agent.as_ref().map_or(0, |agent| agent.elapsed_ms),
    };
    let facts = facts(number, tried.ended.as_ref(), &report, rules);
    kept.tried.push(tried);
    kept.forget_attempt();
    work.record.witness(Kind::Attempt, facts).await?;
    work.keep().await?;
    Ok(ControlFlow::Continue(()))
}

/// What the audit chain holds of an attempt that has ended, or of the run's verdict.
fn facts(number: u32, ended: Option<&Outcome>, report: &Report, rules: &Rules) -> Value {
    let findings = report.findings.iter().map(|finding| json!({"rule": finding.rule, "severity": finding.severity}));
    let counts = |told: &Option<Told>| told.as_ref().map(|told| json!([told.passed, told.failed, told.errors, told.skipped]));
    json!({
        "attempt": number, "of": rules.attempts, "outcome": ended.map_or("accepted", Outcome::name), "reason": ended.map(Outcome::reason),
        "proof": report.proof, "patch": report.patch_sha256, "steps": report.steps, "findings": findings.collect::<Vec<_>>(),
        "tests_before": counts(&report.tests.before), "tests_after": counts(&report.tests.after),
    })
}

/// An attempt in which the agent made no step leaves no record.
async fn forget_if_empty(work: &mut Work<'_>, number: u32) {
    let steps = work.checkpoint.agent.as_ref().map_or(0, |agent| agent.steps);
    work.checkpoint.forget_attempt();
    if steps == 0 {
        tokio::fs::remove_dir_all(folder_of_attempt(&work.folder, number)).await.ok();
    }
}

/// The agent's work, and what the rules and the tests say of it.
async fn made(work: &mut Work<'_>, ground: &Ground<'_>, rules: &Rules) -> Result<(), Stop> {
    let spent = std::time::Duration::from_millis(spent_ms(&work.checkpoint.tried));
    let preset = Preset { max_time: rules.preset.max_time.saturating_sub(spent), ..rules.preset.clone() };
    let base = ground.base;
    let changed = agent::changed_files(work, ground.head.unwrap_or(base), &preset).await?;
    let (whole, on_top) = match ground.head {
        None => (changed, None),
        Some(head) => {
            let commit = agent::commit_files(work, head, &changed).await?;
            (changes::between(&base.mirror, &base.tree, &base.mirror.tree(&commit).await?).await?, Some(commit))
        }
    };
    let patch = match judge::guard(base, rules, whole).await? {
        Ok(patch) => patch,
        Err(findings) => return Err(judge::refuse(work, findings)),
    };
    judge::weigh(work, patch.flags().to_vec())?;
    let candidate = match on_top {
        None => agent::commit(work, base, patch).await?,
        Some(commit) => {
            agent::keep_candidate(work, base, &commit).await?;
            Candidate { patch, commit }
        }
    };
    judge::tests_after(work, base, rules, &candidate).await?;
    judge::weigh_tests(work, judge::verdict(work))
}

/// Takes the best attempt as the run's own: its report, its patch in the run's folder, and its outcome or candidate.
async fn choose(work: &mut Work<'_>, ground: &Ground<'_>, rules: &Rules) -> Result<Candidate, Stop> {
    let Some(at) = best_of(&work.checkpoint.tried) else {
        return Err(Stop::TryAgain(crate::domain::Fault::Internal, "no attempt was kept".to_owned()));
    };
    let (number, tried) = (at + 1, work.checkpoint.tried[at].clone());
    work.report = Report { attempts: told(&work.checkpoint.tried, at), ..report_of(&tried) };
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    put_patch_into_folder(work, number).await?;
    let verdict = facts(number, tried.ended.as_ref(), &work.report, rules);
    work.record.witness(Kind::Verdict, verdict).await?;
    match (tried.ended, tried.candidate) {
        (Some(outcome), _) => Err(Stop::Outcome(outcome)),
        (None, None) => Err(Stop::TryAgain(crate::domain::Fault::Internal, "the accepted attempt has no commit".to_owned())),
        (None, Some(commit)) => {
            let base = ground.base;
            let whole = changes::between(&base.mirror, &base.tree, &base.mirror.tree(&commit).await?).await?;
            match judge::guard(base, rules, whole).await? {
                Ok(patch) => Ok(Candidate { patch, commit }),
                Err(findings) => Err(judge::refuse(work, findings)),
            }
        }
    }
}

/// The patch that the report is about, or none.
async fn put_patch_into_folder(work: &Work<'_>, number: u32) -> Result<(), Stop> {
    const PATCH: &str = "patch.diff";
    if number == 1 {
        return Ok(());
    }
    let (from, to) = (folder_of_attempt(&work.folder, number).join(PATCH), work.folder.join(PATCH));
    let done = match tokio::fs::copy(&from, &to).await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => tokio::fs::remove_file(&to).await,
        copied => copied.map(drop),
    };
    match done {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Stop::disk(&to, &error)),
        _ => Ok(()),
    }
}

fn report_of(tried: &Tried) -> Report {
    serde_json::from_value(tried.report.clone()).unwrap_or_default()
}

/// The best by evidence: one that may be proposed before one that may not, then by what the tests prove, by the tests that it breaks, by what the
/// rules found, by its size; of equals the first.
fn best_of(tried: &[Tried]) -> Option<usize> {
    let weight = |tried: &Tried| {
        let report = report_of(tried);
        let has_no_patch = matches!(tried.ended, Some(Outcome::NoPatch { .. }));
        let broken = report.comparison.as_ref().map_or(0, |comparison| comparison.broken.len());
        let size = report.files.iter().map(|(_, added, removed)| added + removed).sum::<u64>();
        (tried.ended.is_some(), has_no_patch, proof_rank(&report), broken, report.findings.len(), size)
    };
    tried.iter().enumerate().min_by_key(|(_, tried)| weight(tried)).map(|(at, _)| at)
}

const fn rank(proof: Proof) -> u8 {
    match proof {
        Proof::Proved => 0,
        Proof::Fixed => 1,
        Proof::Consistent => 2,
        Proof::Unproved => 3,
    }
}

fn proof_rank(report: &Report) -> u8 {
    let all = [Proof::Proved, Proof::Fixed, Proof::Consistent];
    all.into_iter().find(|proof| report.proof.as_deref() == Some(proof.name())).map_or(rank(Proof::Unproved), rank)
}

/// What is told of the attempts, of which the one at this place was chosen.
fn told(tried: &[Tried], chosen: usize) -> Vec<AttemptTold> {
    let reports = tried.iter().map(report_of).collect::<Vec<_>>();
    let agrees = |at: usize| {
        let same_patch = reports[at].patch_sha256.is_some() && reports[at].patch_sha256 == reports[chosen].patch_sha256;
        same_patch || (tried[at].behaviour.is_some() && tried[at].behaviour == tried[chosen].behaviour)
    };
    let told = |(at, tried): (usize, &Tried)| AttemptTold {
        number: u32::try_from(at + 1).unwrap_or(u32::MAX),
        outcome: tried.ended.as_ref().map_or("accepted", Outcome::name).to_owned(),
        reason: tried.ended.as_ref().map(Outcome::reason).unwrap_or_default(),
        proof: reports[at].proof.clone().filter(|_| tried.ended.is_none()),
        steps: reports[at].steps,
        lines: reports[at].files.iter().map(|(_, added, removed)| added + removed).sum(),
        agrees: at == chosen || agrees(at),
        chosen: at == chosen,
    };
    tried.iter().enumerate().map(told).collect()
}

/// What every test said, as one value; none where not every test has a result.
fn behaviour(after: &TestRun) -> Option<String> {
    if !after.per_test || after.timed_out || after.cases.is_empty() {
        return None;
    }
    let mut cases = after.cases.iter().map(|case| (case.name.as_str(), case.result)).collect::<Vec<_>>();
    cases.sort_unstable();
    Some(hex::encode(Sha256::digest(serde_json::to_vec(&cases).ok()?)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{behaviour, best_of, has_time, is_accepted, told};
    use crate::domain::{Comparison, Finding, NoPatch, Outcome, Severity, TestCase, TestResult, TestRun};
    use crate::leaf::Preset;
    use crate::publish::report::Report;
    use crate::store::Tried;

    fn proposable(proof: &str, flags: usize, lines: u64) -> Tried {
        let flag = Finding { rule: "r".into(), severity: Severity::Flag, path: String::new(), line: None, why: String::new() };
        let report = Report {
            proof: Some(proof.to_owned()),
            findings: vec![flag; flags],
            files: vec![("a.py".to_owned(), lines, 0)],
            patch_sha256: Some(format!("{proof} {flags} {lines}")),
            ..Report::default()
        };
        Tried { report: serde_json::to_value(report).unwrap(), ..Tried::default() }
    }

    fn refused(broken: usize) -> Tried {
        let comparison = Comparison { broken: vec!["t".to_owned(); broken], ..Comparison::default() };
        let report = Report { proof: Some("unproved".to_owned()), comparison: Some(comparison), ..Report::default() };
        let ended = Some(Outcome::Refused { reason: "tests-regressed".to_owned(), detail: String::new() });
        Tried { ended, report: serde_json::to_value(report).unwrap(), ..Tried::default() }
    }

    fn empty() -> Tried {
        Tried { ended: Some(Outcome::NoPatch { reason: NoPatch::NothingChanged, detail: String::new() }), ..Tried::default() }
    }

    #[test]
    fn the_best_is_chosen_by_what_is_proved_then_by_what_speaks_against_it() {
        for (tried, best) in [
            (vec![empty(), refused(9), proposable("unproved", 9, 9)], 2),
            (vec![empty(), refused(1)], 1),
            (vec![refused(2), refused(1), empty()], 1),
            (vec![proposable("consistent", 0, 1), proposable("fixed", 5, 900), proposable("proved", 9, 900)], 2),
            (vec![proposable("fixed", 1, 1), proposable("fixed", 0, 900)], 1),
            (vec![proposable("fixed", 1, 10), proposable("fixed", 1, 9)], 1),
            (vec![proposable("fixed", 1, 9), proposable("fixed", 1, 9)], 0),
        ] {
            assert_eq!(best_of(&tried), Some(best), "{tried:#?}");
        }
        assert_eq!(best_of(&[]), None);
    }

    #[test]
    fn what_is_refused_or_empty_is_never_accepted_and_what_proves_nothing_only_where_no_proof_is_asked_for() {
        for (tried, accepted, accepted_for_proof) in [
            (proposable("proved", 3, 1), true, true),
            (proposable("fixed", 0, 1), true, true),
            (proposable("consistent", 0, 1), true, false),
            (proposable("unproved", 0, 1), true, false),
            (refused(1), false, false),
            (empty(), false, false),
        ] {
            assert_eq!((is_accepted(&tried, false), is_accepted(&tried, true)), (accepted, accepted_for_proof), "{tried:?}");
        }
    }

    #[test]
    fn no_attempt_begins_with_less_than_a_tenth_of_the_time() {
        let preset = Preset { max_time: Duration::from_secs(100), ..Preset::default() };
        assert!(has_time(&preset, 0) && has_time(&preset, 89_999));
        assert!(!has_time(&preset, 90_000) && !has_time(&preset, u64::MAX));
    }

    #[test]
    fn attempts_agree_by_the_same_patch_or_by_the_same_result_of_every_test() {
        let with = |tried: Tried, behaviour: &str| Tried { behaviour: Some(behaviour.to_owned()), ..tried };
        let tried = [
            with(refused(1), "red"),
            with(proposable("fixed", 0, 2), "green"),
            with(proposable("fixed", 0, 9), "green"),
            proposable("fixed", 0, 2),
            empty(),
            empty(),
        ];
        let agreeing = told(&tried, 1).iter().map(|told| told.agrees).collect::<Vec<_>>();
        assert_eq!(agreeing, [false, true, true, true, false, false]);
        let none = told(&[empty(), empty()], 0).iter().map(|told| told.agrees).collect::<Vec<_>>();
        assert_eq!(none, [true, false], "two that changed nothing show no behaviour");
    }

    #[test]
    fn behaviour_is_of_every_test_whatever_their_order() {
        let case = |name: &str, result| TestCase::new(name, result);
        let run = |cases: Vec<TestCase>, per_test| TestRun { exit_code: Some(0), per_test, cases, ..TestRun::default() };
        let (a, b) = (case("a", TestResult::Passed), case("b", TestResult::Failed));
        let one = behaviour(&run(vec![a.clone(), b.clone()], true));
        assert!(one.is_some() && one == behaviour(&run(vec![b, a.clone()], true)));
        assert_ne!(one, behaviour(&run(vec![a.clone(), case("b", TestResult::Passed)], true)));
        assert_eq!((behaviour(&run(vec![a], false)), behaviour(&run(vec![], true))), (None, None));
    }
}
