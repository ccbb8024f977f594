//! Stories through the public rooms of the crate.

mod leaf_loop;
mod model_client;
