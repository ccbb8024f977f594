//! frognano-bot: a label on an issue becomes a draft pull request that code has judged and a human must review.
//!
//! ```text
//! webhook bytes -> VerifiedDelivery -> Event -> job, in its repository's turn -> Lease -> policy (issue and actor read again)
//!   -> mirror at a fixed commit -> sandbox (proved to reach nothing) -> tests before, twice, remembered for the commit
//!   -> attempts, until one is accepted:
//!        agent loop (trajectory kept each step) -> changed files -> guard -> candidate commit
//!        -> tests after, in a fresh sandbox -> red-green and single hunks -> Verdict
//!   -> push -> failing status of the human review -> draft pull request + label + status comment
//! ```
//!
//! [`pipeline::solve`] reads like that line from top to bottom.
//!
//! ```text
//! Event -> ask: a command, a review, a reason to stop -> a hand of the worker (the forge read again) -> job, cancellation or one answer
//! labels of the forges, every few minutes -> the job that a lost delivery would have made
//! word about a repository, and every few minutes -> reviews of our pull requests' heads -> the status of the human review
//! ```
//!
//! Rooms, and who may import whom (a test in `tests/stories` reads the `use crate::` lines and fails on an arrow the wrong way):
//!
//! ```text
//! domain <- config <- audit <- {forge, store, git, sandbox, model, tools} (never each other) <- {leaf, verify, guard, demo} <- publish
//!        <- pipeline <- worker <- web <- app <- cli
//! ```
//!
//! sqlx is named only in `store`, reqwest in `forge`, `model`, `telemetry`, `demo` and `client` (the other side of our API, which `cli` asks by), axum in `web` and `demo`, kube in `sandbox::kubernetes`, the git program in
//! `git` and, as the forge that it plays, in `demo`.
//! `tools` is what runs inside the sandbox; the program `frognano-tools` compiles it alone. `telemetry` (logs, counts, traces) knows `domain` alone, and rooms behind
//! `config` tell it what happens.

pub mod tools;

#[cfg(feature = "service")]
pub mod app;
#[cfg(feature = "service")]
pub mod audit;
#[cfg(feature = "service")]
pub mod cli;
#[cfg(feature = "service")]
pub mod client;
#[cfg(feature = "service")]
pub mod config;
#[cfg(feature = "service")]
pub mod demo;
#[cfg(feature = "service")]
pub mod domain;
#[cfg(feature = "service")]
pub mod forge;
#[cfg(feature = "service")]
pub mod git;
#[cfg(feature = "service")]
pub mod guard;
#[cfg(feature = "service")]
pub mod leaf;
#[cfg(feature = "service")]
pub mod model;
#[cfg(feature = "service")]
pub mod pipeline;
#[cfg(feature = "service")]
pub mod publish;
#[cfg(feature = "service")]
pub mod sandbox;
#[cfg(feature = "service")]
pub mod store;
#[cfg(feature = "service")]
pub mod telemetry;
#[cfg(feature = "service")]
pub mod verify;
#[cfg(feature = "service")]
pub mod web;
#[cfg(feature = "service")]
pub mod worker;
