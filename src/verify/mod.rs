//! The judge: finds the project's tests, runs them, and compares what they said before and after. Code decides, never the model.
//!
//! What must hold: everything that comes out of a sandbox is untrusted bytes; what can't be read is "no result", never green; the patch is judged
//! with the tests of the base commit, whatever the patch did to them.

mod command;
mod consensus;
mod counter;
pub mod detect;
mod doubt;
mod gone;
pub mod hunks;
mod judge;
pub mod junit;
pub mod policy;
pub mod proving;
pub mod restore;
pub mod reversed;
mod run;

pub use crate::domain::Proof;
pub use command::{Report, Runner, TestCommand};
pub use consensus::{Consensus, believed};
pub use counter::passes_reversed;
pub use doubt::{doubt, is_doubt};
pub use judge::{Judgement, demand, judge, judge_all, judge_changed_tests};
pub use run::{TestOutcome, run_tests, run_tests_of};
