//! What reviewers come to: the state of each, and the threads on lines.
//!
//! GitLab has no reviews: what a reviewer writes are notes, and the verdict is the reviewer's state beside them.

use serde_json::{Value, json};

use super::{DEVELOPER, approvals, at_least, not_found, paged, refuse, shape, wrong_method};
use crate::demo::forge::state::{Issue, Spot, State, exact_timestamp};
use crate::demo::forge::verdicts::Review;
use crate::demo::forge::webhook::News;
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::demo::forge::{NewReview, Verdict};

pub(super) fn answer(state: &mut State, ask: &Ask, caller: &Caller, spot: Spot, path: &[&str]) -> Option<Result<Answer, Answer>> {
    Some(match (ask.method.as_str(), path) {
        ("GET", ["reviewers"]) => Ok(Answer::json(200, &reviewers(state, spot))),
        ("GET", ["discussions"]) => Ok(paged(state, ask, discussions(state, spot))),
        ("POST", ["approve"]) => approve(state, caller, spot),
        ("POST", ["unapprove"]) => unapprove(state, caller, spot),
        (_, ["reviewers" | "discussions" | "approve" | "unapprove"]) => Err(wrong_method(state, ask)),
        _ => return None,
    })
}

/// The last review of each reviewer, oldest first.
fn last_of_each(issue: &Issue) -> Vec<&Review> {
    let mut last: Vec<&Review> = Vec::new();
    for review in issue.reviews.iter().filter(|review| !review.dismissed) {
        last.retain(|before| before.author != review.author);
        last.push(review);
    }
    last
}

/// Everybody who was asked or reviewed, with what it came to.
fn reviewers(state: &State, spot: Spot) -> Value {
    let (repository, issue) = state.at(spot);
    let asked = state.review_requests.iter().filter(|(there, of, _)| (*there, *of) == (repository.id, issue.number));
    let last = last_of_each(issue);
    let row = |login: &String| {
        let review = last.iter().find(|review| review.author == *login);
        let word = review.map_or("unreviewed", |review| match review.verdict {
            Verdict::Approved => "approved",
            Verdict::ChangesRequested => "requested_changes",
            Verdict::Commented => "reviewed",
        });
        json!({ "user": shape::user(state, login), "state": word, "created_at": exact_timestamp(issue.created_ms) })
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
    if issue.author == caller.login || approvals::standing(issue).iter().any(|review| review.author == caller.login) {
        return Err(refuse(401, "401 Unauthorized"));
    }
    review(state, spot, &caller.login, &NewReview { verdict: Verdict::Approved, body: "", lines: &[] });
    Ok(Answer { status: 201, ..approvals::approvals(state, spot) })
}

fn unapprove(state: &mut State, caller: &Caller, spot: Spot) -> Result<Answer, Answer> {
    at_least(state.at(spot).0, caller, DEVELOPER)?;
    if !approvals::standing(state.at(spot).1).iter().any(|review| review.author == caller.login) {
        return Err(not_found());
    }
    take_approvals_back(state, spot, &caller.login);
    state.announce(spot, &caller.login, &News::Unapproved);
    Ok(Answer { status: 201, ..approvals::approvals(state, spot) })
}

fn take_approvals_back(state: &mut State, spot: Spot, of: &str) {
    let own = state.issue_mut(spot).reviews.iter_mut().filter(|review| review.author == of && review.verdict == Verdict::Approved);
    own.for_each(|review| review.dismissed = true);
}

/// Notes for the words, and the state of the reviewer, whom it makes one of the reviewers. A wish for changes takes an approval back.
pub(in crate::demo::forge) fn review(state: &mut State, spot: Spot, by: &str, new: &NewReview<'_>) {
    state.observe(spot);
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
    if new.verdict == Verdict::ChangesRequested {
        take_approvals_back(state, spot, by);
    }
    state.keep_review(spot, by, new);
    let news = if new.verdict == Verdict::Approved { News::Approved } else { News::Reviewed { before } };
    state.announce(spot, by, &news);
}
