//! The facts of a run as they are told: the same for `report.json`, the pull request and the comment.

use serde::{Deserialize, Serialize};

use crate::domain::{Comparison, Evidence, Finding, Outcome, TestResult, TestRun};

/// What is known of a run when it ends. What was not done is null.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The outcome's stable name.
    pub outcome: String,
    /// The reason's stable name; empty for a proposal.
    pub reason: String,
    /// One sentence.
    pub detail: String,
    /// How the agent's loop ended.
    pub exit_reason: Option<String>,
    /// The number of the agent's steps.
    pub steps: u64,
    /// The commit that everything is measured against.
    pub base: Option<String>,
    /// The SHA-256 of `patch.diff`, lower-case hexadecimal.
    pub patch_sha256: Option<String>,
    /// The SHA-256 of the rules that held, lower-case hexadecimal; null where there is no audit chain.
    pub policy_sha256: Option<String>,
    /// The signed statement on the commit; null where there is no audit chain.
    pub statement: Option<StatementTold>,
    /// The project's tests.
    pub tests: Tests,
    /// What the rules say.
    pub findings: Vec<Finding>,
    /// proved, fixed, consistent or unproved.
    pub proof: Option<String>,
    /// What changed from test to test.
    pub comparison: Option<Comparison>,
    /// The facts behind the proof.
    pub evidence: Evidence,
    /// The attempts, of which this report is about the chosen one.
    pub attempts: Vec<AttemptTold>,
    /// The budgets of the agent, in one line.
    pub preset: String,
    /// What was tried against the sandbox's walls.
    pub sandbox: Option<serde_json::Value>,
    /// The paths that the patch touches: path, lines added, lines removed.
    pub files: Vec<(String, u64, u64)>,
    /// The model's name as configured.
    pub model: String,
    /// The run.
    pub run: String,
    /// The page of the run, where there is a site that shows runs.
    pub page: Option<String>,
    /// Who set the label.
    pub requested_by: Option<String>,
    /// The agent's closing words: a claim, not evidence.
    pub final_message: String,
    /// The images in the issue, none of which the model saw.
    pub images: usize,
    /// What was left aside or ignored, for people.
    pub notes: Vec<String>,
    /// The page of the pull request.
    pub pull_request: Option<String>,
    /// How long each stage took, in milliseconds.
    pub stage_ms: Vec<(String, u64)>,
}

/// The signed statement on a commit, and where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatementTold {
    /// The reference of the repository whose commit has it as `statement.json`.
    pub reference: String,
    /// The name of the key that signed it.
    pub key: String,
    /// Why the forge did not take the reference; null where it did.
    pub refused: Option<String>,
}

/// An attempt in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptTold {
    /// Counts from 1.
    pub number: u32,
    /// `accepted` for one that may be proposed, else the outcome's stable name.
    pub outcome: String,
    /// The reason's stable name; empty for one that may be proposed.
    pub reason: String,
    /// What the tests prove of it; null for one that may not be proposed.
    pub proof: Option<String>,
    /// The number of the agent's steps.
    pub steps: u64,
    /// The lines that it adds and removes, together.
    pub lines: u64,
    /// Its patch is the chosen one's, or every test says the same after it.
    pub agrees: bool,
    /// It is the one that is proposed, or that the outcome is about.
    pub chosen: bool,
}

/// The project's tests before and after.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tests {
    /// The command; null when none was found.
    pub command: Option<String>,
    /// Where the command is from.
    pub why: Option<String>,
    /// On base.
    pub before: Option<Told>,
    /// On base with the patch and the tests of base put back.
    pub after: Option<Told>,
    /// Existing tests that the patch changed and that were put back as they are at base for the judgement.
    pub restored: Vec<String>,
}

/// One run of the tests in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that could not run.
    pub errors: usize,
    /// Tests left out.
    pub skipped: usize,
    /// The exit status; null when stopped for time.
    pub exit_code: Option<i32>,
    /// Stopped for time.
    pub timed_out: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// False: the runner gives no report a test, only the exit status speaks.
    pub per_test: bool,
    /// Why the tests could not run at all.
    pub unavailable: Option<String>,
}

impl Told {
    /// The numbers of a run, or why there are none.
    #[must_use]
    pub fn of(outcome: &Result<TestRun, String>) -> Self {
        match outcome {
            Ok(run) => Self {
                passed: run.count(TestResult::Passed),
                failed: run.count(TestResult::Failed),
                errors: run.count(TestResult::Error),
                skipped: run.count(TestResult::Skipped),
                exit_code: run.exit_code,
                timed_out: run.timed_out,
                duration_ms: run.duration_ms,
                per_test: run.per_test,
                unavailable: None,
            },
            Err(why) => Self { unavailable: Some(why.clone()), ..Self::default() },
        }
    }
}

impl Report {
    /// Writes the outcome into the report.
    pub fn close(&mut self, outcome: &Outcome) {
        self.outcome = outcome.name().to_owned();
        self.reason = outcome.reason();
        match outcome {
            Outcome::Proposed { url } => self.pull_request = Some(url.clone()).filter(|url| !url.is_empty()),
            Outcome::NoPatch { detail, .. } | Outcome::Refused { detail, .. } | Outcome::Abandoned { detail, .. } => {
                self.detail.clone_from(detail)
            }
            Outcome::Cancelled { by } => self.detail = format!("stopped: {by}"),
        }
    }
}
