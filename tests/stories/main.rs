//! The stories: what the product promises, told from outside through its real parts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a story may stop at once and say why")]

mod crashes;
mod demo_forge;
mod faults;
mod fix;
mod guard;
mod guard_cli;
mod hostile_bash;
mod house;
mod leaf_loop;
mod leaf_vectors;
mod llama;
mod main_job;
mod model_client;
mod recovery;
mod refusals;
mod rules;
mod sandbox;
mod toolcalls;
mod tools;
mod verify;
mod webhooks;
