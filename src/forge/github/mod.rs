//! GitHub and GitHub Enterprise Server, with a token or as a GitHub App (forges.md, section 2).

mod app;
mod check_run;
mod client;
mod examine;
mod inbound;
mod installed;
mod protection;
mod redeliver;
mod rs256;

pub use app::Identity;
pub use client::Client;
pub use inbound::Inbound;
