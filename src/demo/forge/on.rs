//! What people mean by a number.

/// An issue or a pull request by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// The issue of this number, or where there is none the pull request.
    Any(i64),
    /// The pull request of this number: GitLab numbers issues and pull requests apart.
    PullRequest(i64),
}

impl From<i64> for On {
    fn from(number: i64) -> Self {
        Self::Any(number)
    }
}

impl std::fmt::Display for On {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Any(number) | Self::PullRequest(number)) = self;
        number.fmt(out)
    }
}
