//! Gitea and Forgejo: one wire contract with two sets of header names (forges.md, sections 4 and 5).

mod client;
mod examine;
mod inbound;
mod protection;

pub use client::Client;
pub use inbound::Inbound;

/// Which of the two forges it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Gitea.
    Gitea,
    /// Forgejo.
    Forgejo,
}

/// What makes a title that of a draft, on every installation that did not configure other prefixes.
const DRAFT_PREFIXES: [&str; 2] = ["WIP:", "[WIP]"];

fn is_draft_title(title: &str) -> bool {
    DRAFT_PREFIXES.iter().any(|prefix| title.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)))
}

#[cfg(test)]
mod tests {
    use super::is_draft_title;

    #[test]
    fn a_draft_says_so_first() {
        for title in ["WIP: x", "wip:x", "[wip] x"] {
            assert!(is_draft_title(title), "{title}");
        }
        for title in ["", "x WIP: y", "WI", "WIPE", "Draft: x", "ü"] {
            assert!(!is_draft_title(title), "{title}");
        }
    }
}
