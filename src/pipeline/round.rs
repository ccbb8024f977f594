//! Another round at a pull request that is open: the agent works on top of its branch, whoever wrote what is there, and the rules and the
//! tests judge all of it against what the pull request is for.
//!
//! What must hold: the branch only grows, nothing that a person pushed is lost; the pull request is left as it is when the judgement is not good.

use crate::domain::{Fault, ObjectId, Outcome, Round, Stage};
use crate::git::{GitError, Mirrors};
use crate::publish::{self, Added, Destination, PublishError, text};
use crate::telemetry::traces;

use super::attempts::{self, Ground};
use super::{Asked, Candidate, Start, Stop, Work, admit, clone, judge, statement};

/// The way of such a round, from its admission on.
pub(super) async fn solve(work: &mut Work<'_>, asked: &Asked<'_>, round: &Round) -> Result<Outcome, Stop> {
    let (base, head) = start(work, asked, round).await?;
    let candidate = propose(work, &base, &head).await?;
    admit::still_wanted(work, asked).await?;
    publish(work, asked, round, (&base, &head), &candidate).await
}

async fn propose(work: &mut Work<'_>, base: &Start, head: &Start) -> Result<Candidate, Stop> {
    let rules = judge::rules(work, base).await?;
    rules.write_down(work, base).await?;
    judge::tests_before(work, base, &rules).await?;
    attempts::best(work, &Ground { base, head: Some(head) }, &rules).await
}

async fn publish(
    work: &mut Work<'_>,
    asked: &Asked<'_>,
    round: &Round,
    (base, head): (&Start, &Start),
    candidate: &Candidate,
) -> Result<Outcome, Stop> {
    work.enter(Stage::Publishing).await?;
    let fallback = work.parts.settings.rules_of(asked.repo).draft_fallback;
    let to = Destination {
        forge: asked.forge,
        repo: asked.repo,
        base_branch: &base.branch,
        branch: &round.branch,
        reviewers: &[],
        asked_by: None,
        fallback,
        changes_tests: text::changes_expectations(&work.report),
    };
    statement::make(work, asked.repo, &candidate.commit).await?;
    statement::put(work, asked, &base.mirror).await?;
    let body = text::pull_request(&work.proposal(asked));
    admit::goes_on(work, asked).await?;
    let commits = (&head.base, &candidate.commit);
    let adding = publish::add(&to, &candidate.patch, &base.mirror, commits, round.pull_request, &work.report, &body);
    if traces::span("push").around(adding).await? == Added::Moved {
        forget_work_on_head(work);
        work.keep().await?;
        return Err(Stop::later("somebody pushed to the branch meanwhile; the work begins again on top of that"));
    }
    let url = asked.forge.pull_request(asked.repo, round.pull_request).await?.url;
    work.checkpoint.proposed = Some((url.clone(), serde_json::to_value(&work.report).unwrap_or_default()));
    work.keep().await?;
    work.finish_stage();
    Ok(Outcome::Proposed { url })
}

/// What the pull request is for, where it branched off, and the tip of its branch.
async fn start(work: &mut Work<'_>, asked: &Asked<'_>, round: &Round) -> Result<(Start, Start), Stop> {
    work.enter(Stage::Cloning).await?;
    let name = Mirrors::name_of(&asked.repo.forge, &asked.repo.id);
    let kept = (work.checkpoint.base.clone(), work.checkpoint.head.clone(), work.checkpoint.default_branch.clone());
    if let (Some(base), Some(head), Some(branch)) = kept {
        let mirror = work.parts.mirrors.open(&name).await?;
        if mirror.has(&base).await && mirror.has(&head).await {
            work.report.base = Some(base.to_string());
            let base = clone::at(work, &mirror, base, &branch).await?;
            let head = clone::at(work, &mirror, head, &round.branch).await?;
            return Ok((base, head));
        }
    }
    let pull_request = asked.forge.pull_request(asked.repo, round.pull_request).await?;
    let (_, target) = clone::fetch(work, asked.forge, asked.repo, &pull_request.base).await?;
    let (mirror, tip) = clone::fetch(work, asked.forge, asked.repo, &round.branch).await.map_err(|error| match error {
        PublishError::Git(GitError::BranchMissing(branch)) => {
            Stop::abandoned(Fault::ForgeFailed, format!("the branch {branch}, which was to be revised, is gone"))
        }
        error => error.into(),
    })?;
    let base = mirror.merge_base(&target, &tip).await?;
    clone::may_push(asked.forge, asked.repo, (&mirror, &tip), &round.branch).await?;
    fix(work, base.clone(), tip.clone(), &pull_request.base).await?;
    Ok((clone::at(work, &mirror, base, &pull_request.base).await?, clone::at(work, &mirror, tip, &round.branch).await?))
}

async fn fix(work: &mut Work<'_>, base: ObjectId, head: ObjectId, branch: &str) -> Result<(), Stop> {
    if work.checkpoint.base.as_ref() != Some(&base) {
        work.checkpoint.tests_before = None;
    }
    if work.checkpoint.head.as_ref() != Some(&head) {
        forget_work_on_head(work);
    }
    work.report.base = Some(base.to_string());
    work.checkpoint.base = Some(base);
    work.checkpoint.head = Some(head);
    work.checkpoint.default_branch = Some(branch.to_owned());
    work.keep().await
}

fn forget_work_on_head(work: &mut Work<'_>) {
    work.checkpoint.head = None;
    work.checkpoint.forget_attempts();
}
