//! Stories through the public rooms of the crate.

mod demo_forge;
mod leaf_loop;
mod model_client;
