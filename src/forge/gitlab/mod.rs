//! GitLab, self-managed and gitlab.com (forges.md, section 3).

mod client;
mod rows;

pub use client::Client;
