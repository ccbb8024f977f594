//! Stories through the real parts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a story may stop at once and say why")]

mod leaf_loop;
mod model_client;
mod sandbox;
