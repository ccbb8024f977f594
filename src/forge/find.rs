//! Finding a repository on GitHub, Gitea and Forgejo, also after it was renamed.

use super::address::owner_and_name;
use super::http::Http;
use super::rows::RepositoryRow;
use super::{ForgeError, Repository};
use crate::domain::RepoRef;

/// The repository by its path. Where that leads nowhere, or to another repository, it is looked for by its id: renaming or transferring
/// it leaves a pointer at the old path, which is not followed.
pub(super) async fn repository(http: &Http, repo: &RepoRef) -> Result<Repository, ForgeError> {
    let (owner, name) = owner_and_name(repo)?;
    let what = format!("repository {}", repo.path);
    let by_path = match http.get::<RepositoryRow>(what.clone(), &["repos", owner, name]).await {
        Ok(row) => row.same_as(repo, what.clone()),
        Err(error) => Err(error),
    };
    let gone = match by_path {
        Err(gone @ ForgeError::NotFound { .. }) => gone,
        found => return found,
    };
    match http.get::<RepositoryRow>(what.clone(), &["repositories", &repo.id]).await {
        Ok(row) => row.same_as(repo, what),
        Err(ForgeError::NotFound { .. } | ForgeError::Denied { .. }) => Err(gone),
        Err(error) => Err(error),
    }
}
