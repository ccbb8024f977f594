//! The stories: what the product promises, told from outside through its real parts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a story may stop at once and say why")]

mod attempts;
mod bad_input;
mod by_address;
mod commands;
mod crashes;
mod databases;
mod demo_forge;
mod doctor;
mod doctor_walls;
mod faces;
mod faults;
mod fix;
mod forged;
mod github_app;
mod guard;
mod guard_cli;
mod half_published;
mod hostile_bash;
mod house;
mod human_review;
mod leaf_loop;
mod leaf_recovery;
mod leaf_vectors;
mod llama;
mod main_job;
mod model_client;
mod nothing_missed;
mod nothing_twice;
mod operator;
mod queue;
mod recovery;
mod refusals;
mod review_calls;
mod revise;
mod rules;
mod sandbox;
mod stopping;
mod toolcalls;
mod tools;
mod verdict;
mod verify;
mod webhooks;
