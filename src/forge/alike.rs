//! What GitHub, Gitea and Forgejo are asked in the same words.

use reqwest::Method;
use serde_json::json;

use super::address::owner_and_name;
use super::http::{Call, Http, Paging, Rows};
use super::rows::{IssueRow, LineRow, PullRow, RepositoryRow, ReviewRow, StatusesRow};
use super::{CommitStatus, ForgeError, LineComment, PullRequestNow, Review};
use crate::domain::{Issue, RepoRef};

pub(super) async fn pull_request(http: &Http, repo: &RepoRef, number: i64) -> Result<PullRequestNow, ForgeError> {
    let (owner, name) = owner_and_name(repo)?;
    let what = format!("pull request {number} of {}", repo.path);
    Ok(http.get::<PullRow>(what, &["repos", owner, name, "pulls", &number.to_string()]).await?.now(repo))
}

pub(super) async fn edit_pull_request(http: &Http, repo: &RepoRef, number: i64, title: Option<&str>, body: &str) -> Result<(), ForgeError> {
    let (owner, name) = owner_and_name(repo)?;
    let what = format!("editing pull request {number} of {}", repo.path);
    let path = ["repos", owner, name, "pulls", &number.to_string()];
    let changes = title.map_or_else(|| json!({"body": body}), |title| json!({"title": title, "body": body}));
    http.send(&Call::new(what, Method::PATCH, &path).with(changes)).await.map(drop)
}

pub(super) async fn reviews(http: &Http, paging: Paging, repo: &RepoRef, number: i64) -> Result<Vec<Review>, ForgeError> {
    let (owner, name) = owner_and_name(repo)?;
    let what = format!("reviews of pull request {number} of {}", repo.path);
    let path = ["repos", owner, name, "pulls", &number.to_string(), "reviews"];
    let rows: Rows<ReviewRow> = http.list(what, &path, &[], paging).await?;
    Ok(rows.rows.into_iter().map(ReviewRow::review).collect())
}

/// `of_diff`: the rows' `position` counts within the diff, not within the file.
pub(super) async fn line_comments(
    http: &Http,
    paging: Paging,
    repo: &RepoRef,
    (number, review): (i64, &str),
    of_diff: bool,
) -> Result<Vec<LineComment>, ForgeError> {
    let (owner, name) = owner_and_name(repo)?;
    let what = format!("review {review} of pull request {number} of {}", repo.path);
    let path = ["repos", owner, name, "pulls", &number.to_string(), "reviews", review, "comments"];
    let rows: Rows<LineRow> = http.list(what, &path, &[], paging).await?;
    Ok(rows.rows.into_iter().map(|row| row.comment(of_diff)).collect())
}

/// The latest status of this context, of as many as stand on one page.
pub(super) async fn status(
    http: &Http,
    paging: Paging,
    repo: &RepoRef,
    commit: &str,
    context: &'static str,
) -> Result<Option<CommitStatus>, ForgeError> {
    let (owner, name) = owner_and_name(repo)?;
    let what = format!("the status {context} on {commit} of {}", repo.path);
    let path = ["repos", owner, name, "commits", commit, "status"];
    let call = Call::new(what, Method::GET, &path);
    let there: StatusesRow = http.ask(&call.asking(vec![(paging.size_name, paging.size.to_string())])).await?;
    let row = there.statuses.into_iter().find(|row| row.context == context);
    Ok(row.map(|row| CommitStatus { context, passed: row.state == "success", description: row.description.into() }))
}

/// `label` as the forge spells it.
pub(super) async fn labelled_issues(http: &Http, paging: Paging, repo: &RepoRef, label: &str) -> Result<Vec<Issue>, ForgeError> {
    let (owner, name) = owner_and_name(repo)?;
    let what = format!("issues of {} with the label `{label}`", repo.path);
    let query = [("state", "open".to_owned()), ("labels", label.to_owned()), ("type", "issues".to_owned())];
    let rows: Rows<IssueRow> = http.list(what, &["repos", owner, name, "issues"], &query, paging).await?;
    Ok(rows.rows.into_iter().filter(|row| !row.is_pull_request()).filter_map(|row| row.number().map(|number| row.issue(number))).collect())
}

pub(super) async fn repositories(http: &Http, paging: Paging, forge: &str) -> Result<Vec<RepoRef>, ForgeError> {
    let rows: Rows<RepositoryRow> = http.list("our repositories".to_owned(), &["user", "repos"], &[], paging).await?;
    Ok(rows.rows.into_iter().filter(|row| !row.is_archived()).map(|row| row.reference(forge)).collect())
}
