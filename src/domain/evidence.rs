//! What the tests were seen to show of a patch, as it is stored and told: facts for a reviewer, beside the one word of the proof.

use serde::{Deserialize, Serialize};

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
