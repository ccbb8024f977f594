//! What reviewers come to: the state of each, approvals, the threads on lines, and the commits that a merge request had.
//!
//! GitLab has no reviews: what a reviewer writes are notes, and the verdict is the reviewer's state beside them.

use serde_json::{Value, json};

use super::{DEVELOPER, at_least, paged, refuse, shape, wrong_method};
use crate::demo::forge::state::{Issue, Spot, State};
use crate::demo::forge::verdicts::Review;
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::demo::forge::{NewReview, Verdict};

pub(super) fn answer(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot, path: &[&str]) -> Option<Result<Answer, Answer>> {
    state.see_head(spot);
    Some(match (ask.method.as_str(), path) {
        ("GET", ["reviewers"]) => Ok(Answer::json(200, &reviewers(state, spot))),
        ("GET", ["approvals"]) => Ok(Answer::json(200, &approvals(state, spot))),
        ("GET", ["versions"]) => Ok(paged(state, ask, versions(state, spot))),
        ("GET", ["discussions"]) => Ok(paged(state, ask, discussions(state, spot))),
        ("POST", ["approve"]) => approve(state, caller, spot),
        ("POST", ["unapprove"]) => unapprove(state, caller, spot),
        (_, ["reviewers" | "approvals" | "versions" | "discussions" | "approve" | "unapprove"]) => Err(wrong_method(state, ask)),
        _ => return None,
    })
}

/// The last review of each reviewer, of those that fit, oldest first.
fn last_of_each(issue: &Issue, fits: impl Fn(&Review) -> bool) -> Vec<&Review> {
    let mut last: Vec<&Review> = Vec::new();
    for review in issue.reviews.iter().filter(|review| fits(review)) {
        last.retain(|before| before.author != review.author);
        last.push(review);
    }
    last
}

/// Those whose approval stands: a remark does not take it back, a wish for changes does.
fn approving(issue: &Issue) -> Vec<&Review> {
    let verdicts = last_of_each(issue, |review| review.verdict != Verdict::Commented);
    verdicts.into_iter().filter(|review| review.verdict == Verdict::Approved).collect()
}

/// Everybody who was asked or reviewed, with what it came to.
fn reviewers(state: &State, spot: Spot) -> Value {
    let (repository, issue) = state.at(spot);
    let asked = state.review_requests.iter().filter(|(there, of, _)| (*there, *of) == (repository.id, issue.number));
    let last = last_of_each(issue, |_| true);
    let row = |login: &String| {
        let review = last.iter().find(|review| review.author == *login);
        let word = review.map_or("unreviewed", |review| match review.verdict {
            Verdict::Approved => "approved",
            Verdict::ChangesRequested => "requested_changes",
            Verdict::Commented => "reviewed",
        });
        json!({ "user": shape::user(state, login), "state": word, "created_at": shape::moment(issue.created_ms) })
    };
    asked.map(|(_, _, login)| row(login)).collect()
}

/// The reviewers as deliveries name them.
pub(super) fn told(state: &State, spot: Spot) -> Value {
    let told = |row: &Value| {
        let user = &row["user"];
        json!({ "id": user["id"], "name": user["name"], "username": user["username"], "state": row["state"], "re_requested": false })
    };
    reviewers(state, spot).as_array().into_iter().flatten().map(told).collect()
}

/// No commit is named: an approval is one of the merge request, with the time it was given.
fn approvals(state: &State, spot: Spot) -> Value {
    let (_, issue) = state.at(spot);
    let approved = approving(issue)
        .into_iter()
        .map(|review| json!({ "user": shape::user(state, &review.author), "approved_at": shape::moment(review.at_ms) }));
    let approved = approved.collect::<Vec<_>>();
    json!({ "id": issue.id, "iid": issue.number, "approved": !approved.is_empty(), "approvals_required": 0, "approved_by": approved })
}

/// Newest first.
fn versions(state: &State, spot: Spot) -> Vec<Value> {
    let (_, issue) = state.at(spot);
    let row = |(index, (commit, at_ms)): (usize, &(String, i64))| {
        json!({
            "id": issue.id * 1000 + index as u64, "head_commit_sha": commit, "base_commit_sha": "", "start_commit_sha": "",
            "created_at": shape::moment(*at_ms), "merge_request_id": issue.id, "state": "collected", "real_size": "1",
        })
    };
    issue.heads.iter().enumerate().rev().map(row).collect()
}

/// A thread for each note that people wrote: those on lines can be resolved, and nobody did.
fn discussions(state: &State, spot: Spot) -> Vec<Value> {
    let (_, issue) = state.at(spot);
    let thread = |comment| {
        let note = shape::note(state, issue, comment);
        json!({ "id": format!("{:040x}", comment.id), "individual_note": comment.on_line.is_none(), "notes": [note] })
    };
    issue.comments.iter().map(thread).collect()
}

/// Who opened a merge request may not approve it, nor who may not push.
fn approve(state: &mut State, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    let (repository, issue) = state.at(spot);
    at_least(repository, caller, DEVELOPER)?;
    let has_approved = approving(issue).iter().any(|review| review.author == caller.login);
    if issue.author == caller.login || has_approved {
        return Err(refuse(401, "401 Unauthorized"));
    }
    review(state, spot, &caller.login, &NewReview { verdict: Verdict::Approved, body: "", lines: &[] });
    Ok(Answer::json(201, &approvals(state, spot)))
}

fn unapprove(state: &mut State, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    at_least(state.at(spot).0, caller, DEVELOPER)?;
    let reviews = &mut state.issue_mut(spot).reviews;
    let before = reviews.len();
    reviews.retain(|review| review.author != caller.login || review.verdict != Verdict::Approved);
    if reviews.len() == before { Err(refuse(404, "404 Not found")) } else { Ok(Answer::json(201, &approvals(state, spot))) }
}

/// Notes for the words, and the state of the reviewer, whom it makes one of the reviewers.
pub(in crate::demo::forge) fn review(state: &mut State, spot: Spot, by: &str, new: &NewReview<'_>) {
    state.see_head(spot);
    if !new.body.is_empty() {
        state.comment(spot, by, new.body);
    }
    for (path, line, text) in new.lines {
        state.comment_on(spot, by, text, Some(((*path).to_owned(), *line)));
    }
    let before = told(state, spot);
    let (repository, issue) = state.at(spot);
    let asked = (repository.id, issue.number, by.to_owned());
    if !state.review_requests.contains(&asked) {
        state.review_requests.push(asked);
    }
    state.keep_review(spot, by, new);
    state.announce(spot, by, &crate::demo::forge::webhook::News::Reviewed { verdict: new.verdict, before });
}
