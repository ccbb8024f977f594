//! What `frognano-tools` promises, tried through the real program over its line protocol.

mod bad_input;
mod commands;
mod program;
mod protocol;

pub use program::Program;
