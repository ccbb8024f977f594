//! What every sandbox promises, tried through the real thing.

mod suite;
mod tar_files;
mod walls;

mod local;
mod local_ends;
