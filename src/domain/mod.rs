//! The words of the product as plain data and pure rules.
//!
//! Nothing here does input or output, knows a clock, or imports another room: what is true here is true on every forge, database and sandbox.

mod check;
mod event;
mod evidence;
mod explanation;
mod hidden;
mod issue;
mod job;
mod origin;
mod patch;
mod policy;
mod redact;
mod test_paths;
mod test_run;

pub use check::{Check, Checks, Health};
pub use event::{Actor, Command, Event, Note, RepoRef, ReviewState, Trigger, Verb};
pub use evidence::{Evidence, Hunk, Judging, Kept, Proof, Reversal};
pub use explanation::Explanation;
pub use hidden::{hidden_escaped, hidden_shown, without_hidden};
pub use issue::{Issue, IssueText, same_label};
pub use job::{Attribution, ExitReason, Fault, JobId, NoPatch, Outcome, RunId, Stage};
pub use origin::{Cancel, Origin, Round, branch_of, issue_and_run_of};
pub use patch::{BlobMode, ChangedFile, Finding, ObjectId, Severity};
pub use policy::{Permission, Refusal};
pub use redact::{REDACTED, Redactor, SECRET_SHAPES};
pub use test_paths::{TestNames, is_collected_file, is_test_configuration, is_test_file};
pub use test_run::{Comparison, TestCase, TestResult, TestRun};

/// Where the time comes from: tests hand in a clock of their own, so that nothing has to wait.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;
    /// Whether it is the clock of this machine, which another machine's need not agree with.
    fn is_of_this_machine(&self) -> bool {
        false
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn is_of_this_machine(&self) -> bool {
        true
    }
}

/// Where identifiers come from: random in the service, counted in tests.
pub trait Ids: Send + Sync {
    /// A new identifier of letters and digits, unique for this installation and sorting by the time it was made.
    fn next(&self) -> String;
}
