//! GitHub and GitHub Enterprise Server, with a personal access token (forges.md, section 2).

mod client;
mod inbound;

pub use client::Client;
pub use inbound::Inbound;
