//! What git tells of a pull request of ours after people had it.

use crate::domain::{ObjectId, RepoRef};
use crate::forge::Forge;
use crate::git::Mirrors;
use crate::publish::{PublishError, with_access};

use super::Parts;

/// The branch of the mirror as which a pull request's head is fetched.
const FETCHED: &str = "frognano-afterwards";

impl Parts {
    /// How many lines people added and removed between our commit and the head of the pull request; none when either can't be had.
    ///
    /// # Errors
    /// When the forge or git does not answer.
    pub async fn lines_on_top(
        &self,
        forge: &dyn Forge,
        repo: &RepoRef,
        number: i64,
        (ours, head): (&ObjectId, &ObjectId),
    ) -> Result<Option<u64>, PublishError> {
        let (mirrors, name) = (&self.mirrors, &Mirrors::name_of(&repo.forge, &repo.id));
        let reference = &forge.pull_request_reference(number);
        let (mirror, tip) =
            with_access(forge, repo, &|remote| Box::pin(async move { mirrors.fetch(name, &remote, reference, FETCHED).await })).await?;
        if tip != *head || !mirror.has(ours).await {
            return Ok(None);
        }
        let counted = mirror.line_counts(ours, head).await?;
        Ok(Some(counted.iter().map(|(_, added, removed)| added + removed).sum()))
    }

    /// The commit of the default branch that says that it reverts this one, if there is one.
    ///
    /// # Errors
    /// When the forge or git does not answer.
    pub async fn reverted_by(&self, forge: &dyn Forge, repo: &RepoRef, commit: &ObjectId) -> Result<Option<ObjectId>, PublishError> {
        let repository = forge.repository(repo).await?;
        let Some(branch) = &repository.default_branch else { return Ok(None) };
        let (mirrors, name) = (&self.mirrors, &Mirrors::name_of(&repo.forge, &repo.id));
        let reference = &format!("refs/heads/{branch}");
        let (mirror, tip) =
            with_access(forge, &repository.repo, &|remote| Box::pin(async move { mirrors.fetch(name, &remote, reference, branch).await }))
                .await?;
        if mirror.has(commit).await { Ok(mirror.reverted_by(commit, &tip).await?) } else { Ok(None) }
    }
}
