//! GitLab, self-managed and gitlab.com (forges.md, section 3).

mod approvals;
mod client;
mod examine;
mod inbound;
mod payload;
mod proof;
mod protection;
mod reviews;
mod rows;

pub use client::Client;
pub use inbound::Inbound;
pub use proof::Age;
