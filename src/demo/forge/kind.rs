//! The forges that can be played, and the addresses in which they differ.

/// Which forge is played: its API, its webhooks, its words for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Gitea, under `/api/v1`.
    Gitea,
    /// Forgejo, under `/api/v1` as well.
    Forgejo,
    /// GitHub Enterprise Server, under `/api/v3`.
    GitHub,
    /// GitLab, under `/api/v4`.
    GitLab,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Gitea, Self::Forgejo, Self::GitHub, Self::GitLab];

    /// What its API's path begins with, below the forge's address.
    #[must_use]
    pub const fn api(self) -> &'static str {
        match self {
            Self::Gitea | Self::Forgejo => "api/v1",
            Self::GitHub => "api/v3",
            Self::GitLab => "api/v4",
        }
    }

    /// Its pages of issues, between the repository's path and the number.
    #[must_use]
    pub const fn issues_page(self) -> &'static str {
        match self {
            Self::GitLab => "-/issues",
            _ => "issues",
        }
    }

    /// Its pages of pull requests, between the repository's path and the number.
    #[must_use]
    pub const fn pulls_page(self) -> &'static str {
        match self {
            Self::Gitea | Self::Forgejo => "pulls",
            Self::GitHub => "pull",
            Self::GitLab => "-/merge_requests",
        }
    }

    /// Its name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gitea => "gitea",
            Self::Forgejo => "forgejo",
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
        }
    }

    /// Gitea, or its fork that kept its ways.
    #[must_use]
    pub const fn is_gitea_or_its_fork(self) -> bool {
        matches!(self, Self::Gitea | Self::Forgejo)
    }
}
