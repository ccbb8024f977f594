//! GitLab, self-managed and .com (forges.md, section 3).

mod inbound;
mod payload;
mod proof;

pub use inbound::Inbound;
pub use proof::Age;
