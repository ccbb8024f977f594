//! Issues and labels.

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;

/// An issue as the forge answers it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The number shown to people.
    pub number: i64,
    /// The present title.
    pub title: String,
    /// The present body, empty for null.
    pub body: String,
    /// The login of who opened it.
    pub author: String,
    /// Open on the forge.
    pub open: bool,
    /// It is a pull request (GitHub and Gitea answer those here too).
    pub is_pull_request: bool,
    /// Only people with write access may comment.
    pub locked: bool,
    /// Hidden from most people (GitLab): never worked on, never answered in public.
    pub confidential: bool,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// Its page for people.
    pub url: String,
}

impl Issue {
    /// Whether the issue carries this label, compared as [`same_label`] does.
    #[must_use]
    pub fn has_label(&self, name: &str) -> bool {
        self.labels.iter().any(|label| same_label(label, name))
    }
}

/// The words of the issue that the model is given, frozen when the label was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueText {
    /// The title.
    pub title: String,
    /// The body.
    pub body: String,
}

/// Whether two label names are one to a person: compared after trimming, Unicode NFC and case folding (peers.md, row 10).
#[must_use]
pub fn same_label(one: &str, other: &str) -> bool {
    folded(one) == folded(other)
}

fn folded(name: &str) -> String {
    caseless::default_case_fold_str(&name.trim().nfc().collect::<String>()).nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::same_label;

    #[test]
    fn labels_compare_as_people_read_them() {
        assert!(same_label("frognano-fix", "  FrogNano-Fix "));
        assert!(same_label("Caf\u{e9}", "cafe\u{301}"));
        assert!(same_label("STRASSE", "straße"));
        assert!(!same_label("frognano-fix", "frognano-no-fix"));
        assert!(!same_label("", "frognano-fix"));
    }
}
