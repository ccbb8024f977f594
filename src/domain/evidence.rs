//! What the tests were seen to show of a patch, as it is stored and told: facts for a reviewer, beside the one word of the proof.

use serde::{Deserialize, Serialize};

use super::{Finding, TestRun};

/// What the tests show of a patch, from strong to weak. Nothing is claimed beyond what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// A new or changed test of the patch fails without its source changes and passes with them, every time, and none broke.
    Proved,
    /// A test that failed at base passes now, and none broke.
    Fixed,
    /// No test broke; none shows that anything is better.
    Consistent,
    /// The tests show nothing.
    Unproved,
}

impl Proof {
    /// All, from strong to weak.
    pub const ALL: [Self; 4] = [Self::Proved, Self::Fixed, Self::Consistent, Self::Unproved];

    /// The stable name, as stored and shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Fixed => "fixed",
            Self::Consistent => "consistent",
            Self::Unproved => "unproved",
        }
    }
}

/// One run of the tests, or why they could not run.
pub type Kept = Result<TestRun, String>;

/// What the judge has measured of one patch, kept after each run of the tests, so that a judge who was stopped goes on behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Judging {
    /// Further runs in the clean room, where the first looked broken.
    pub after_again: Vec<Kept>,
    /// The run with the patch's own form of the tests, where the clean room is red.
    pub own_tests: Option<Kept>,
    /// The patch's tests on base without its source changes.
    pub red: Vec<Kept>,
    /// The patch's tests with its source changes.
    pub green: Vec<Kept>,
    /// What tests said whose checks were reversed.
    pub reversed: Option<Reversal>,
    /// What was learned of its hunks.
    pub hunks: Vec<Hunk>,
    /// How long the runs for the proof and the hunks took, in milliseconds.
    pub spent_ms: u64,
    /// What was not tried and why, for people.
    pub notes: Vec<String>,
    /// The proofs that may open a pull request.
    pub open_with: Vec<Proof>,
    /// The tests of base that the patch takes away for a reason that the rules accept, dotted.
    pub gone: Vec<String>,
    /// What the rules flagged.
    pub flags: Vec<Finding>,
    /// Nothing more is to be measured.
    pub finished: bool,
}

/// Runs of tests whose checks were turned into their opposites: on an honest tree they fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reversal {
    /// The tests: the path of the file, and `Class::test` in it.
    pub tests: Vec<(String, String)>,
    /// What they said on the patch; more than once where one of them passes, since luck may make it pass.
    pub on_patch: Vec<Kept>,
    /// What they said without its source, where one of them passes on the patch.
    pub at_base: Option<Kept>,
}

/// The facts behind a judgement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The tests that speak for the patch: red without its source changes and green with them.
    pub proving: Vec<String>,
    /// Tests that passed at base and pass now only in the form that the patch gave them.
    pub changed_expectations: Vec<String>,
    /// Tests that were not the same in every run of the same tree; they count for nothing.
    pub flaky: Vec<String>,
    /// Tests that took long at base, with their time; for information.
    pub slow: Vec<String>,
    /// How many tests failed on the patch, as they must, with their checks reversed.
    pub reversed: u64,
    /// The parts of the patch that were reverted alone, each with what the proving tests said then; empty where it was not tried.
    pub hunks: Vec<Hunk>,
}

/// One part of a patch, reverted alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunk {
    /// Its file.
    pub path: String,
    /// Its first line in the patched file, counted from 1.
    pub line: u64,
    /// Its number of lines there.
    pub lines: u64,
    /// Whether a proving test failed without it; none where that could not be learned (no time, no result).
    pub noticed: Option<bool>,
}
