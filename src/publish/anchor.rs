//! Signed ends of the audit chain in a repository for auditors: one file each, on a branch that only grows.
//!
//! What must hold: nothing is forced and nothing is changed; a file that is there already is not written again; where others push at the same time,
//! it is tried on top of theirs.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{PublishError, with_access};
use crate::domain::{Attribution, BlobMode, ChangedFile, ObjectId, RepoRef};
use crate::forge::Forge;
use crate::git::{CommitMessage, GitError, Mirror, Mirrors, Remote};

/// The branch that has the signed ends.
pub const BRANCH: &str = "frognano-audit";

/// The local name of the commit that is to be pushed.
const REFERENCE: &str = "refs/frognano-anchor";

/// How often others may push in between.
const TRIES: usize = 5;

/// A repository for signed ends.
pub struct Anchorage {
    /// Its forge.
    pub forge: Arc<dyn Forge>,
    /// The forge's name in the configuration.
    pub forge_name: String,
    /// Its path.
    pub path: String,
    /// The mirrors of this machine.
    pub mirrors: Mirrors,
    /// Who is named in the commits.
    pub by: Attribution,
}

/// A signed end as it is put there.
pub struct SignedEnd<'a> {
    /// The number of its row.
    pub number: i64,
    /// When it was signed, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The name of the key.
    pub key: &'a str,
    /// The envelope, as JSON.
    pub envelope: &'a str,
}

impl Anchorage {
    /// Puts a signed end on the branch, unless it is there.
    ///
    /// # Errors
    /// When the forge or git refuses, or does not answer; doing it again is fine.
    pub async fn put(&self, end: &SignedEnd<'_>) -> Result<(), PublishError> {
        let named = RepoRef { forge: self.forge_name.clone(), id: String::new(), path: self.path.clone() };
        let repo = self.forge.repository(&named).await?.repo;
        for _ in 0..TRIES {
            let (mirror, tip) = self.tip(&repo).await?;
            let Some(path) = self.free_place(&mirror, tip.as_ref(), end).await? else { return Ok(()) };
            let file = ChangedFile { path: path.into_bytes(), before: None, after: Some((BlobMode::File, end.envelope.into())) };
            let text = format!("Row {} of the audit chain\n", end.number);
            let message = CommitMessage { text, by: self.by.clone(), at: end.at_ms / 1000 };
            let commit = mirror.commit_on(REFERENCE, tip.as_ref(), &[file], &message).await?;
            if self.push(&repo, &mirror, tip.as_ref(), &commit).await? {
                return Ok(());
            }
        }
        Err(GitError::Unavailable(format!("others pushed to {BRANCH} of {} in between, {TRIES} times", self.path)).into())
    }

    /// The tip of the branch; none while there is no such branch.
    async fn tip(&self, repo: &RepoRef) -> Result<(Mirror, Option<ObjectId>), PublishError> {
        let (mirrors, name) = (&self.mirrors, &Mirrors::name_of(&repo.forge, &repo.id));
        let fetch = |remote: Remote| -> BoxFuture<'_, _> {
            Box::pin(async move { mirrors.fetch(name, &remote, &format!("refs/heads/{BRANCH}"), BRANCH).await })
        };
        match with_access(self.forge.as_ref(), repo, &fetch).await {
            Ok((mirror, tip)) => Ok((mirror, Some(tip))),
            Err(PublishError::Git(GitError::Empty | GitError::BranchMissing(_))) => Ok((mirrors.open(name).await?, None)),
            Err(error) => Err(error),
        }
    }

    /// Where the file is to be; none when it is there. One of another key at the same row stands beside it.
    async fn free_place(&self, mirror: &Mirror, tip: Option<&ObjectId>, end: &SignedEnd<'_>) -> Result<Option<String>, PublishError> {
        let places = [format!("checkpoints/{}.json", end.number), format!("checkpoints/{}-{}.json", end.number, end.key)];
        let Some(tip) = tip else { return Ok(places.into_iter().next()) };
        let tree = mirror.tree(tip).await?;
        for place in places {
            let Some(entry) = tree.entries.get(place.as_bytes()) else { return Ok(Some(place)) };
            if mirror.blobs(&[&entry.blob]).await?.first().is_some_and(|there| there == end.envelope.as_bytes()) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Whether it is there now; it is not when somebody else was quicker.
    async fn push(&self, repo: &RepoRef, mirror: &Mirror, tip: Option<&ObjectId>, commit: &ObjectId) -> Result<bool, PublishError> {
        let push = |remote: Remote| -> BoxFuture<'_, _> {
            Box::pin(async move {
                match tip {
                    Some(tip) => mirror.push_on(&remote, tip, commit, BRANCH).await,
                    None => match mirror.push(&remote, commit, BRANCH).await {
                        Err(GitError::PushRefused(said)) if said.contains("there already") || said.contains("[rejected]") => Ok(false),
                        pushed => pushed.map(|()| true),
                    },
                }
            })
        };
        with_access(self.forge.as_ref(), repo, &push).await
    }
}

/// The files of the branch in a clone of the repository: where each is, and its content.
///
/// # Errors
/// When the clone has no such branch, or can't be read.
pub async fn anchored(mirrors: &Mirrors, clone: &str) -> Result<Vec<(String, Vec<u8>)>, GitError> {
    let remote = Remote { url: clone.to_owned(), credential: None, ca_file: None };
    let own = mirrors.fetch("anchor", &remote, &format!("refs/heads/{BRANCH}"), BRANCH).await;
    let (mirror, tip) = match own {
        Ok(found) => found,
        Err(_) => mirrors.fetch("anchor", &remote, &format!("refs/remotes/origin/{BRANCH}"), BRANCH).await?,
    };
    let tree = mirror.tree(&tip).await?;
    let files = tree.entries.iter().filter(|(path, _)| path.starts_with(b"checkpoints/")).collect::<Vec<_>>();
    let contents = mirror.blobs(&files.iter().map(|(_, entry)| entry.blob.as_str()).collect::<Vec<_>>()).await?;
    Ok(files.into_iter().map(|(path, _)| String::from_utf8_lossy(path).into_owned()).zip(contents).collect())
}
