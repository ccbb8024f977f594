//! The base commit: fixed when the run starts, kept through every resumption.

use crate::domain::{Fault, NoPatch, ObjectId, RepoRef, Stage};
use crate::forge::Forge;
use crate::git::{GitError, Mirror, Mirrors, Remote};
use crate::publish::{PublishError, with_access};

use super::{Asked, Start, Stop, Work};

pub(super) async fn from_forge(work: &mut Work<'_>, asked: &Asked<'_>) -> Result<Start, Stop> {
    work.enter(Stage::Cloning).await?;
    let start = start(work, asked).await?;
    if let Some(pushed) = work.checkpoint.pushing.clone()
        && !start.mirror.has(&pushed).await
    {
        // A worker on another machine made it: what is on the forge already is not made once more.
        let ours = super::our_branch(work);
        if let Err(error) = fetch(work, asked.forge, asked.repo, &ours).await {
            tracing::info!(%error, "the commit of another worker did not come as far as the forge");
        }
    }
    Ok(start)
}

async fn start(work: &mut Work<'_>, asked: &Asked<'_>) -> Result<Start, Stop> {
    let mirror_name = Mirrors::name_of(&asked.repo.forge, &asked.repo.id);
    if let Some(start) = kept(work, &work.parts.mirrors.open(&mirror_name).await?).await? {
        return Ok(start);
    }
    let repository = asked.forge.repository(asked.repo).await?;
    let branch = repository.default_branch.ok_or_else(|| Stop::from(GitError::Empty))?;
    let (mirror, base) = fetch(work, asked.forge, &repository.repo, &branch).await?;
    // The branch may have moved on since another machine fixed its commit.
    if let Some(start) = kept(work, &mirror).await? {
        return Ok(start);
    }
    let start = from(work, &mirror, base, &branch).await?;
    let ours = super::our_branch(work);
    may_push(asked.forge, &repository.repo, (&mirror, &start.base), &ours).await?;
    Ok(start)
}

/// The commit at the tip of a branch of the forge's repository, now in its mirror.
pub(super) async fn fetch(work: &Work<'_>, forge: &dyn Forge, repo: &RepoRef, branch: &str) -> Result<(Mirror, ObjectId), PublishError> {
    let (mirrors, name) = (&work.parts.mirrors, &Mirrors::name_of(&repo.forge, &repo.id));
    let reference = &format!("refs/heads/{branch}");
    with_access(forge, repo, &|remote| Box::pin(async move { mirrors.fetch(name, &remote, reference, branch).await })).await
}

/// Asks whether a push to the branch would be let in at all.
pub(super) async fn may_push(
    forge: &dyn Forge,
    repo: &RepoRef,
    (mirror, commit): (&Mirror, &ObjectId),
    branch: &str,
) -> Result<(), PublishError> {
    with_access(forge, repo, &|remote| Box::pin(async move { mirror.may_push(&remote, commit, branch).await })).await
}

pub(super) async fn from_folder(work: &mut Work<'_>, remote: &Remote) -> Result<Start, Stop> {
    work.enter(Stage::Cloning).await?;
    let reference = work.checkpoint.base.as_ref().map_or_else(|| "HEAD".to_owned(), ToString::to_string);
    let (mirror, base) = work.parts.mirrors.fetch("local", remote, &reference, "main").await?;
    from(work, &mirror, base, "main").await
}

async fn kept(work: &mut Work<'_>, mirror: &Mirror) -> Result<Option<Start>, Stop> {
    let (Some(base), Some(branch)) = (work.checkpoint.base.clone(), work.checkpoint.default_branch.clone()) else { return Ok(None) };
    if !mirror.has(&base).await {
        return Ok(None);
    }
    let tree = mirror.tree(&base).await?;
    work.report.base = Some(base.to_string());
    Ok(Some(Start { mirror: mirror.clone(), base, branch, tree }))
}

async fn from(work: &mut Work<'_>, mirror: &Mirror, base: ObjectId, branch: &str) -> Result<Start, Stop> {
    let start = at(work, mirror, base.clone(), branch).await?;
    if work.checkpoint.base.as_ref() != Some(&base) {
        // What an earlier run finished is about another commit.
        work.checkpoint.tests_before = None;
        work.checkpoint.forget_attempts();
    }
    work.checkpoint.base = Some(base.clone());
    work.checkpoint.default_branch = Some(branch.to_owned());
    work.report.base = Some(base.to_string());
    work.keep().await?;
    Ok(start)
}

/// A commit of the mirror to start from, if a sandbox can take it.
pub(super) async fn at(work: &Work<'_>, mirror: &Mirror, base: ObjectId, branch: &str) -> Result<Start, Stop> {
    if base.as_str().len() != 40 {
        return Err(Stop::abandoned(Fault::Internal, "the repository uses SHA-256 object names, which are not supported"));
    }
    let tree = mirror.tree(&base).await?;
    if tree.entries.is_empty() {
        return Err(Stop::no_patch(NoPatch::EmptyRepository, "the branch has no file"));
    }
    let limit = work.parts.settings.workspace_bytes;
    if tree.bytes() > limit {
        let detail = format!(
            "the files at {base} take {} bytes, more than a sandbox has room for ({limit}); raise [sandbox] workspace_bytes",
            tree.bytes()
        );
        return Err(Stop::abandoned(Fault::RepositoryTooLarge, detail));
    }
    Ok(Start { mirror: mirror.clone(), base, branch: branch.to_owned(), tree })
}
