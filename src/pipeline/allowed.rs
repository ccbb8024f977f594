//! Who may ask for a run where the administrator made a list: asked of the forge at the time, in addition to write access.

use crate::forge::{Forge, ForgeError};

/// What the configuration says about one forge.
#[derive(Debug, Clone, Default)]
pub struct ForgeRules {
    /// The logins that may ask; with `allowed_teams` empty too, everybody with write access may.
    pub allowed_users: Vec<String>,
    /// The teams, `organization/team`, whose members may ask.
    pub allowed_teams: Vec<String>,
    /// Who is asked to review where no CODEOWNERS names anybody.
    pub reviewers: Vec<String>,
    /// When there are any, only an approval by a member of one of these teams, `organization/team`, is a human review.
    pub human_review_teams: Vec<String>,
    /// What is done where the forge makes no drafts.
    pub draft_fallback: crate::config::DraftFallback,
}

impl ForgeRules {
    /// Whether the lists let this person ask.
    ///
    /// # Errors
    /// When the forge does not say who is in a team.
    pub async fn allow(&self, forge: &dyn Forge, login: &str) -> Result<bool, ForgeError> {
        if self.allowed_users.is_empty() && self.allowed_teams.is_empty() {
            return Ok(true);
        }
        if self.allowed_users.iter().any(|user| user.eq_ignore_ascii_case(login)) {
            return Ok(true);
        }
        for team in &self.allowed_teams {
            if forge.is_in_team(team, login).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
