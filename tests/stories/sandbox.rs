//! What every sandbox promises, tried through the real thing.

pub mod suite;
pub mod tar_files;
pub mod walls;

mod local;
mod local_ends;
