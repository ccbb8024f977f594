//! What a replay says of the run that it repeated, and why.

use std::fmt;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::domain::{ExitReason, REDACTED};
use crate::leaf::Trajectory;
use crate::publish::report::Report;

/// A run as its folder has it.
pub(in crate::cli) struct Finished {
    /// Its record.
    pub(in crate::cli) trajectory: Trajectory,
    /// The patch, where it made one.
    pub(in crate::cli) patch: Option<Vec<u8>>,
    /// What was told of it.
    pub(in crate::cli) report: Option<Report>,
    /// The same record, as it was written step by step.
    pub(in crate::cli) journal: Option<Trajectory>,
}

/// The replay.
pub(super) struct Repeated {
    /// Its patch.
    pub(super) patch: Option<Vec<u8>>,
    /// Its record.
    pub(super) trajectory: Option<Trajectory>,
    /// It was given up or stopped.
    pub(super) was_stopped: bool,
    /// What would be told of it.
    pub(super) report: Report,
}

/// The comparison of the two.
pub(super) struct Verdict {
    patch: Patch,
    answers_are_kept: bool,
    sha256: [Option<String>; 2],
    endings: [Option<ExitReason>; 2],
    steps: usize,
    other_observations: usize,
    outcome: String,
    reason: String,
    why: Vec<String>,
}

/// How the patches compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patch {
    Same,
    /// Neither run has one: nothing was changed, or the same rule refused it.
    NoneEither,
    Different,
    /// The replay was stopped before it had one.
    NotRepeated,
}

impl Verdict {
    pub(super) fn of(finished: &Finished, repeated: &Repeated) -> Self {
        let differing = differing_steps(&finished.trajectory, repeated.trajectory.as_ref());
        let mut verdict = Self {
            patch: compare(finished, repeated),
            answers_are_kept: true,
            sha256: [digest(finished.patch.as_deref()), digest(repeated.patch.as_deref())],
            endings: [finished.trajectory.exit_reason, repeated.trajectory.as_ref().and_then(|trajectory| trajectory.exit_reason)],
            steps: finished.trajectory.steps.len(),
            other_observations: differing.len(),
            outcome: repeated.report.outcome.clone(),
            reason: repeated.report.reason.clone(),
            why: Vec::new(),
        };
        verdict.tell_of_changes_since(finished);
        verdict.tell_of_the_ending();
        if verdict.patch == Patch::NotRepeated {
            verdict.why.push(format!("the replay came to no end: {}", repeated.report.detail));
        } else if let Some(step) = differing.first() {
            verdict.why.push(format!("step {step} is the first in which a tool answered otherwise than in the run"));
        }
        if verdict.patch != Patch::Same && finished.trajectory.to_json().is_ok_and(|kept| kept.to_string().contains(REDACTED)) {
            verdict.why.push(format!("secrets were taken out of the record ({REDACTED}), so some answers are not the model's very words"));
        }
        if verdict.patch == Patch::Different {
            verdict.tell_of_lost_sandboxes(&finished.trajectory);
            if verdict.why.is_empty() {
                verdict.why.push("the same calls left other files: what they run depends on time, chance or the machine".to_owned());
            }
        }
        verdict
    }

    /// The same patch, or none either time, from answers that nobody changed.
    pub(super) fn is_same(&self) -> bool {
        matches!(self.patch, Patch::Same | Patch::NoneEither) && self.answers_are_kept
    }

    pub(super) fn json(&self) -> String {
        let [recorded, repeated] = &self.sha256;
        let [recorded_ending, repeated_ending] = self.endings.map(|ending| ending.map(ExitReason::name));
        let told = json!({
            "same_patch": matches!(self.patch, Patch::Same | Patch::NoneEither), "same_answers": self.answers_are_kept,
            "recorded_sha256": recorded, "repeated_sha256": repeated,
            "steps": self.steps, "steps_with_other_observations": self.other_observations,
            "recorded_ending": recorded_ending, "repeated_ending": repeated_ending,
            "outcome": self.outcome, "reason": self.reason, "why": self.why,
        });
        serde_json::to_string_pretty(&told).unwrap_or_default()
    }

    fn tell_of_changes_since(&mut self, finished: &Finished) {
        let told = finished.report.as_ref().and_then(|report| report.patch_sha256.clone());
        if told.is_some() && told != self.sha256[0] {
            self.why.push(format!("patch.diff is not what the run wrote: report.json has the SHA-256 {}", told.unwrap_or_default()));
        }
        if let Some(step) = finished.journal.as_ref().and_then(|journal| first_changed_answer(&finished.trajectory, journal)) {
            self.answers_are_kept = false;
            self.why.push(format!("the kept answers were changed: step {step} of trajectory.json is not that of kept/journal.jsonl"));
        }
    }

    fn tell_of_the_ending(&mut self) {
        let [Some(recorded), Some(repeated)] = self.endings else { return };
        if recorded == repeated {
            return;
        }
        self.why.push(match recorded {
            ExitReason::MaxTime => {
                "the time that ended the run can't be repeated: the replay was ended behind the last kept answer".to_owned()
            }
            _ => format!("the run ended as {}, the replay as {}", recorded.name(), repeated.name()),
        });
    }

    /// A new sandbox has the kept workspace and nothing else.
    fn tell_of_lost_sandboxes(&mut self, trajectory: &Trajectory) {
        self.why.extend(trajectory.frognano.recoveries.iter().map(|recovery| {
            let (step, why) = (recovery.before_step, &recovery.why);
            format!("the run went on in a new sandbox before step {step} ({why}); what it had outside of the workspace was gone then, and is not in a replay")
        }));
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.patch {
            Patch::Same => "the same patch, byte for byte",
            Patch::NoneEither => "no patch, as before",
            Patch::Different => "NOT the same patch",
            Patch::NotRepeated => "NOT repeated",
        };
        let changed = if self.answers_are_kept { "" } else { ", but NOT from the answers of the run" };
        write!(out, "{verdict}{changed}; {} steps, {} with other observations; {}", self.steps, self.other_observations, self.outcome)?;
        if !self.reason.is_empty() {
            write!(out, " ({})", self.reason)?;
        }
        self.why.iter().try_for_each(|why| write!(out, "\n{why}"))
    }
}

fn compare(finished: &Finished, repeated: &Repeated) -> Patch {
    match (&finished.patch, &repeated.patch) {
        (_, None) if repeated.was_stopped => Patch::NotRepeated,
        (Some(recorded), Some(repeated)) if recorded == repeated => Patch::Same,
        (None, None) if ended_alike(finished.report.as_ref(), &repeated.report) => Patch::NoneEither,
        _ => Patch::Different,
    }
}

fn ended_alike(recorded: Option<&Report>, repeated: &Report) -> bool {
    recorded.is_none_or(|recorded| {
        let is_known = matches!(recorded.outcome.as_str(), "no_patch" | "refused");
        is_known && recorded.outcome == repeated.outcome && (recorded.reason == repeated.reason || recorded.outcome == "no_patch")
    })
}

fn digest(patch: Option<&[u8]>) -> Option<String> {
    patch.map(|patch| hex::encode(Sha256::digest(patch)))
}

/// The steps whose tools answered otherwise, those that only one of the two has included.
fn differing_steps(kept: &Trajectory, again: Option<&Trajectory>) -> Vec<usize> {
    let again = again.map_or(&[][..], |again| &again.steps);
    let is_other = |at: &usize| kept.steps.get(*at).map(|step| &step.observations) != again.get(*at).map(|step| &step.observations);
    (0..kept.steps.len().max(again.len())).filter(is_other).collect()
}

/// The first step whose answer, with all that goes beside it, is not the journal's.
fn first_changed_answer(trajectory: &Trajectory, journal: &Trajectory) -> Option<usize> {
    let answers = |of: &Trajectory, at: usize| Some((of.steps.get(at)?.assistant.clone(), of.frognano.turns.get(at)?.clone()));
    (0..trajectory.steps.len().max(journal.steps.len())).find(|at| answers(trajectory, *at) != answers(journal, *at))
}
