//! Where a job comes from when no label asks for it: a person's command, or a review of a pull request of ours.

use serde::{Deserialize, Serialize};

use super::Actor;

/// The act of a person that made a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The act, the same however often it is told: `command:ID` or `review:ID`.
    pub key: String,
    /// Who did it.
    pub by: Actor,
    /// Which pull request is worked on once more; none for a job that opens one of its own.
    pub round: Option<Round>,
}

/// Another attempt at a pull request that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Counts from 1.
    pub number: i64,
    /// The pull request's number.
    pub pull_request: i64,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
}

impl Round {
    /// After so many rounds a person must take over.
    pub const MOST: i64 = 3;
}

/// Why a job is to be stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// Half a sentence for people: `the issue was closed`.
    pub why: String,
    /// Nobody is told: the issue is gone.
    pub quiet: bool,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// The name of the branch of an issue's run.
#[must_use]
pub fn branch_of(issue: i64, run: &str) -> String {
    format!("frognano/issue-{issue}-{run}")
}

/// The issue and the run that a branch of ours is named after.
#[must_use]
pub fn issue_and_run_of(branch: &str) -> Option<(i64, &str)> {
    let (issue, run) = branch.strip_prefix("frognano/issue-")?.split_once('-')?;
    let number = issue.parse().ok().filter(|number| *number > 0)?;
    (!run.is_empty() && run.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some((number, run))
}

#[cfg(test)]
mod tests {
    use super::{branch_of, issue_and_run_of};

    #[test]
    fn a_branch_of_ours_names_its_issue_and_run() {
        assert_eq!(issue_and_run_of(&branch_of(7, "0a1b")), Some((7, "0a1b")));
        for other in ["main", "frognano/issue-7", "frognano/issue-7-", "frognano/issue-x-1", "frognano/issue-7-a/b", "x/frognano/issue-7-a"]
        {
            assert_eq!(issue_and_run_of(other), None, "{other}");
        }
    }
}
