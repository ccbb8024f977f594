//! The stories: what the product promises, told from outside through its real parts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a story may stop at once and say why")]

mod demo_forge;
mod fix;
mod leaf_loop;
mod model_client;
mod sandbox;
mod webhooks;
