//! Stories through the real parts.
//! The stories of the product, told through its public doors.
//! Stories through the public rooms of the crate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a story may stop at once and say why")]

mod demo_forge;
mod leaf_loop;
mod model_client;
mod sandbox;
mod webhooks;
