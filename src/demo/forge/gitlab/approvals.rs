//! Approvals of a merge request, its versions, and the statuses of commits, as GitLab tells them.

use serde_json::{Value, json};

use super::{not_found, paged, shape};
use crate::demo::forge::state::{Issue, Spot, State, exact_timestamp};
use crate::demo::forge::verdicts::{Review, Verdict};
use crate::demo::forge::wire::{Answer, Ask};
use crate::demo::git_backend;

/// Who approves now, each once.
pub(super) fn approvals(state: &State, spot: Spot) -> Answer {
    let (_, issue) = state.at(spot);
    let rows = standing(issue).into_iter().map(|review| {
        let mut row = json!({ "user": shape::user(state, &review.author) });
        if !state.old_approvals {
            row["approved_at"] = exact_timestamp(review.at_ms).into();
        }
        row
    });
    Answer::json(200, &json!({ "iid": issue.number, "approved_by": rows.collect::<Vec<_>>() }))
}

/// What GitLab writes down of approvals among the comments.
pub(super) fn notes(state: &State, issue: &Issue) -> Vec<Value> {
    let approvals = issue.reviews.iter().filter(|review| review.verdict == Verdict::Approved);
    let note = |review: &Review| {
        json!({
            "id": review.id, "type": null, "body": "approved this merge request", "author": shape::user(state, &review.author),
            "created_at": exact_timestamp(review.at_ms), "updated_at": exact_timestamp(review.at_ms), "system": true,
            "noteable_type": "MergeRequest", "noteable_iid": issue.number, "confidential": false, "internal": false,
        })
    };
    approvals.map(note).collect()
}

/// The last approval of each who has not taken it back.
pub(super) fn standing(issue: &Issue) -> Vec<&Review> {
    let approvals = issue.reviews.iter().filter(|review| review.verdict == Verdict::Approved && !review.dismissed);
    let mut standing: Vec<&Review> = Vec::new();
    for review in approvals {
        standing.retain(|there| there.author != review.author);
        standing.push(review);
    }
    standing
}

/// What was pushed at once, the newest first.
pub(super) fn versions(state: &mut State, ask: &Ask, spot: Spot) -> Answer {
    state.observe(spot);
    let known = state.versions.get(&state.at(spot).1.id).map_or(&[][..], Vec::as_slice);
    let rows = known.iter().enumerate().map(
        |(at, (head, since))| json!({ "id": at + 1, "head_commit_sha": head, "created_at": exact_timestamp(*since), "state": "collected" }),
    );
    let newest_first = rows.rev().collect();
    paged(state, ask, newest_first)
}

/// The latest status of each name.
pub(super) fn statuses(state: &State, ask: &Ask, here: usize, commit: &str) -> Result<Answer, Answer> {
    let repository = &state.repositories[here];
    git_backend::commits_ahead(&repository.git_dir, commit, commit).ok_or_else(not_found)?;
    let latest = state.latest_statuses(repository.id, commit).into_iter();
    let named = latest.filter(|status| ask.query("name").is_none_or(|name| name == status.context));
    let rows =
        named.map(|status| json!({ "name": status.context, "status": status.state, "description": status.description, "sha": commit }));
    Ok(paged(state, ask, rows.collect()))
}
