//! Taking back what a stopped run had begun to publish: nobody finds half of a proposal.

use futures_util::future::BoxFuture;

use crate::domain::ObjectId;
use crate::git::Mirror;

use super::{Place, PublishError, replies, with_access};

/// Closes the open pull request from our branch, with one comment where there is a word to say, and removes the branch while it still has
/// exactly our commit. `place` says where; its number is not used.
///
/// # Errors
/// When the forge or git refuses, or does not answer; doing it again is fine.
pub async fn take_back(place: Place<'_>, mirror: &Mirror, commit: &ObjectId, branch: &str, why: Option<&str>) -> Result<(), PublishError> {
    if let Some(open) = place.forge.find_pull_request(place.repo, branch).await? {
        if let Some(why) = why {
            let place = Place { number: open.number, on_pull_request: true, ..place };
            place.say_once("taken back", &replies::taken_back(why)).await?;
        }
        place.forge.close_pull_request(place.repo, open.number).await?;
    }
    take_back_reference(place, mirror, commit, &format!("refs/heads/{branch}")).await
}

/// Removes a reference of the forge's repository while it still has exactly our commit.
///
/// # Errors
/// As [`take_back`].
pub async fn take_back_reference(place: Place<'_>, mirror: &Mirror, commit: &ObjectId, reference: &str) -> Result<(), PublishError> {
    let remove = |remote| -> BoxFuture<'_, _> { Box::pin(async move { mirror.remove_reference(&remote, commit, reference).await }) };
    let removed = with_access(place.forge, place.repo, &remove).await?;
    tracing::info!(reference, removed, "took back what was published");
    Ok(())
}
