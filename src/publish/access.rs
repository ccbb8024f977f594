//! Git with the access that a forge gives: a token that was taken back meanwhile is made anew, once.

use futures_util::future::BoxFuture;

use crate::domain::RepoRef;
use crate::forge::{Forge, GitAccess};
use crate::git::{GitError, Remote};

use super::PublishError;

/// Does something with git on the forge's repository. Where git is not let in and the forge can give another token, it is done once more.
///
/// # Errors
/// When the forge gives no access, or as what is done.
pub async fn with_access<'a, T>(
    forge: &dyn Forge,
    repo: &RepoRef,
    act: &(dyn Fn(Remote) -> BoxFuture<'a, Result<T, GitError>> + Send + Sync),
) -> Result<T, PublishError> {
    let access = forge.git_access(repo).await?;
    match act(remote(access.clone())).await {
        Err(error) if error.was_not_let_in() && forge.git_refused(&access).await => {
            tracing::info!(%error, "git was not let in: it is tried with a new token");
            Ok(act(remote(forge.git_access(repo).await?)).await?)
        }
        done => Ok(done?),
    }
}

fn remote(access: GitAccess) -> Remote {
    Remote { url: access.url, credential: Some((access.username, access.token)), ca_file: access.ca_file }
}
