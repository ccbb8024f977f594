//! Whether a job may start, and whether it is still wanted: the issue, the label and the actor's rights, read from the forge now.

use crate::domain::{Fault, Permission, Refusal, Stage, same_label};
use crate::forge::LabelSet;
use crate::publish::text;

use super::{Asked, Stop, Work};

/// Reads the issue and refuses what may not start, with the rule; a label that is gone or was answered before ends the job quietly, and
/// of a confidential issue not a word is said.
pub(super) async fn admit(work: &mut Work<'_>, asked: &Asked<'_>) -> Result<(), Stop> {
    work.enter(Stage::Admitting).await?;
    let repository = asked.forge.repository(asked.repo).await?;
    let issue = asked.forge.issue(asked.repo, work.issue).await?;
    if issue.confidential {
        return Err(Stop::Hidden);
    }
    let label = work.parts.settings.label.clone();
    if !issue.has_label(&label) {
        return Err(Stop::Quiet("label_absent"));
    }
    let set = asked.forge.label_set(asked.repo, work.issue, &label).await?;
    let episode = set.as_ref().map_or_else(|| "unknown".to_owned(), |set| set.episode.clone());
    let by = set.as_ref().map_or_else(String::new, |set| set.by.login.clone());
    asked.episodes.name(&episode, &by).await?;
    work.checkpoint.requested_by = Some(by.clone()).filter(|by| !by.is_empty());
    work.report.requested_by.clone_from(&work.checkpoint.requested_by);
    let refusal = if repository.archived {
        Some(Refusal::RepositoryArchived)
    } else if issue.is_pull_request {
        Some(Refusal::IsPullRequest)
    } else if !issue.open {
        Some(Refusal::IssueClosed)
    } else {
        match may_not(work, asked, set.as_ref()).await? {
            None if work.checkpoint.base.is_none() && asked.episodes.text_is_disputed(&work.text).await? => Some(Refusal::TextDisputed),
            refusal => refusal,
        }
    };
    match refusal {
        Some(refusal) => Err(Stop::refused(refusal.name(), text::refusal(refusal, &by, &label))),
        None if repository.may_push => Ok(()),
        None => Err(Stop::abandoned(Fault::ForgeFailed, "our account may only read this repository; give it write access")),
    }
}

async fn may_not(work: &Work<'_>, asked: &Asked<'_>, set: Option<&LabelSet>) -> Result<Option<Refusal>, Stop> {
    let Some(set) = set else { return Ok(Some(Refusal::ActorUnknown)) };
    let myself = asked.forge.myself().await?;
    if set.by.is_bot || set.by.id == myself.id {
        return Ok(Some(Refusal::ActorIsBot));
    }
    let permission = asked.forge.permission(asked.repo, &set.by.login).await?;
    if permission < Permission::Write {
        return Ok(Some(Refusal::NoWriteAccess));
    }
    let allowed = work.parts.settings.rules_of(asked.repo).allow(asked.forge, &set.by.login).await?;
    Ok((!allowed).then_some(Refusal::NotAllowed))
}

/// The same question once more before anything is pushed.
pub(super) async fn still_wanted(work: &mut Work<'_>, asked: &Asked<'_>) -> Result<(), Stop> {
    let issue = asked.forge.issue(asked.repo, work.issue).await?;
    let label = work.parts.settings.label.as_str();
    if issue.confidential {
        return Err(Stop::Hidden);
    }
    let cancelled = |by: &str| Err(Stop::Outcome(crate::domain::Outcome::Cancelled { by: by.to_owned() }));
    if !issue.open {
        return cancelled("the issue was closed meanwhile");
    }
    if !issue.labels.iter().any(|name| same_label(name, label)) {
        return cancelled("the label was taken off meanwhile");
    }
    if let Some(by) = &work.checkpoint.requested_by
        && asked.forge.permission(asked.repo, by).await? < Permission::Write
    {
        return cancelled("who set the label has no write access any more");
    }
    if let Some(by) = &work.checkpoint.requested_by
        && !work.parts.settings.rules_of(asked.repo).allow(asked.forge, by).await?
    {
        return cancelled("who set the label is not on the administrator's list any more");
    }
    Ok(())
}
