//! Whether a job may start, and whether it is still wanted: the issue, the label and the actor's rights, read from the forge now.

use serde_json::json;

use crate::audit::Kind;
use crate::domain::{Actor, Fault, Permission, Refusal, Round, Stage};
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
    let labelled = issue.has_label(&label);
    if !labelled && round_of(work).is_none() {
        return Err(Stop::Quiet("label_absent"));
    }
    let set = if labelled { asked.forge.label_set(asked.repo, work.issue, &label).await? } else { None };
    let episode = set.as_ref().map_or_else(|| UNKNOWN.to_owned(), |set| set.episode.clone());
    let asker = work.origin.as_ref().map(|origin| origin.by.clone()).or_else(|| set.map(|set| set.by));
    let by = asker.as_ref().map_or_else(String::new, |by| by.login.clone());
    asked.episodes.name(work.origin.as_ref().map_or(&episode, |origin| &origin.key), &by).await?;
    work.checkpoint.label_episode = labelled.then_some(episode);
    work.checkpoint.requested_by = Some(by.clone()).filter(|by| !by.is_empty());
    work.report.requested_by.clone_from(&work.checkpoint.requested_by);
    work.keep().await?;
    let refusal = if repository.archived {
        Some(Refusal::RepositoryArchived)
    } else if issue.is_pull_request {
        Some(Refusal::IsPullRequest)
    } else if !issue.open {
        Some(Refusal::IssueClosed)
    } else if issue.locked {
        Some(Refusal::IssueLocked)
    } else {
        match may_not(work, asked, asker.as_ref()).await? {
            None if is_disputed(work, asked).await? => Some(Refusal::TextDisputed),
            refusal => refusal,
        }
    };
    work.record.witness(Kind::Policy, json!({"admission": refusal.map_or("admitted", Refusal::name)})).await?;
    match refusal {
        Some(refusal) => Err(Stop::refused(refusal.name(), text::refusal(refusal, &by, &label))),
        None if repository.may_push => Ok(()),
        None => Err(Stop::abandoned(Fault::ForgeFailed, "our account may only read this repository; give it write access")),
    }
}

/// The episode of a label of which the forge does not know who set it.
pub const UNKNOWN: &str = "unknown";

fn round_of<'a>(work: &'a Work<'_>) -> Option<&'a Round> {
    work.origin.as_ref().and_then(|origin| origin.round.as_ref())
}

/// Whether it is not known which words the label was set for. Who wrote a command or a review saw what is frozen with it.
async fn is_disputed(work: &Work<'_>, asked: &Asked<'_>) -> Result<bool, Stop> {
    Ok(work.origin.is_none() && work.checkpoint.base.is_none() && asked.episodes.text_is_disputed(&work.text).await?)
}

async fn may_not(work: &Work<'_>, asked: &Asked<'_>, by: Option<&Actor>) -> Result<Option<Refusal>, Stop> {
    let Some(by) = by else { return Ok(Some(Refusal::ActorUnknown)) };
    let myself = asked.forge.myself().await?;
    if by.is_bot || by.id == myself.id {
        return Ok(Some(Refusal::ActorIsBot));
    }
    let permission = asked.forge.permission(asked.repo, &by.login).await?;
    if permission < Permission::Write {
        return Ok(Some(Refusal::NoWriteAccess));
    }
    let allowed = work.parts.settings.rules_of(asked.repo).allow(asked.forge, &by.login).await?;
    Ok((!allowed).then_some(Refusal::NotAllowed))
}

fn cancelled(by: &str) -> Result<(), Stop> {
    Err(Stop::Outcome(crate::domain::Outcome::Cancelled { by: by.to_owned() }))
}

/// Between the steps of publishing: nobody told the run to stop, and the issue is as it must be.
pub(super) async fn goes_on(work: &Work<'_>, asked: &Asked<'_>) -> Result<(), Stop> {
    if work.cancel.is_cancelled() || work.record.is_to_stop().await? {
        return Err(Stop::Shutdown);
    }
    let issue = asked.forge.issue(asked.repo, work.issue).await?;
    let label = work.parts.settings.label.as_str();
    if issue.confidential {
        return Err(Stop::Hidden);
    }
    if !issue.open {
        return cancelled("the issue was closed meanwhile");
    }
    if issue.locked {
        return cancelled("the issue was locked meanwhile");
    }
    if work.checkpoint.label_episode.is_some() && !issue.has_label(label) {
        return cancelled("the label was taken off meanwhile");
    }
    Ok(())
}

/// The question of the admission once more before anything is pushed.
pub(super) async fn still_wanted(work: &mut Work<'_>, asked: &Asked<'_>) -> Result<(), Stop> {
    goes_on(work, asked).await?;
    if asked.forge.repository(asked.repo).await?.archived {
        return cancelled("the repository was archived meanwhile");
    }
    if let Some(round) = round_of(work)
        && !asked.forge.pull_request(asked.repo, round.pull_request).await?.open
    {
        return cancelled(&format!("the {} was closed meanwhile", asked.forge.pull_request_word()));
    }
    if let Some(by) = &work.checkpoint.requested_by
        && asked.forge.permission(asked.repo, by).await? < Permission::Write
    {
        return cancelled("who asked for it has no write access any more");
    }
    if let Some(by) = &work.checkpoint.requested_by
        && !work.parts.settings.rules_of(asked.repo).allow(asked.forge, by).await?
    {
        return cancelled("who set the label is not on the administrator's list any more");
    }
    Ok(())
}
