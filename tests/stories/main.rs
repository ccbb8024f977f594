//! Stories through the real parts.
//! The stories of the product, told through its public doors.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a story may stop at once and say why")]

mod sandbox;
mod webhooks;
