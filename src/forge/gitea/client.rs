//! The API of Gitea and Forgejo (forges.md, section 4.3).
//!
//! Two things have no direct answer here. Labels go on and off by numeric id, so that the id is looked up first. And only administrators
//! may ask for another person's permission; see [`Client::permission`] for what is done otherwise.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::is_draft_title;
use crate::domain::{Actor, Check, Issue, Permission, RepoRef, same_label};
use crate::forge::address::{for_people, git_access, owner_and_name};
use crate::forge::http::{Call, Http, Paging, Rows};
use crate::forge::rows::{CommentRow, IssueRow, Label, PullRow, User};
use crate::forge::{
    Comment, CommitStatus, Examination, Forge, ForgeError, GitAccess, LabelSet, LabelSpec, LineComment, NewDraft, PullRequest,
    PullRequestNow, Repository, Review, Settings,
};
use crate::forge::{alike, find};

/// Any name goes with a token.
const GIT_USER: &str = "frognano-bot";
/// An administrator may set the most rows of a page below the usual 50.
const PAGES: Paging = Paging { size_name: "limit", size: 50, short_is_last: false };
const MOST_REMEMBERED: usize = 10_000;

/// A client of one Gitea or Forgejo.
pub struct Client {
    pub(super) settings: Settings,
    pub(super) http: Http,
    /// The issue on which [`Forge::label_set`] last saw this person (repository id, login) put the label.
    labelled: Mutex<HashMap<(String, String), i64>>,
}

#[derive(Debug, Deserialize)]
struct TimelineRow {
    id: i64,
    #[serde(rename = "type", default)]
    kind: String,
    /// For labels `1` says that it was put on.
    #[serde(default)]
    body: String,
    #[serde(default)]
    label: Option<Label>,
    #[serde(default)]
    user: Option<User>,
}

#[derive(Debug, Deserialize)]
struct TeamsRow {
    #[serde(default)]
    data: Vec<TeamRow>,
}

#[derive(Debug, Deserialize)]
struct TeamRow {
    id: i64,
    name: String,
}

#[derive(Debug, Deserialize)]
struct PermissionRow {
    permission: String,
}

impl Client {
    /// # Errors
    /// A sentence when an address, the token or the certificates can't be used.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let http = Http::new(&settings, "token", &[("accept", "application/json")])?;
        Ok(Self { settings, http, labelled: Mutex::default() })
    }

    /// With the address that people have.
    fn told(&self, pull_request: PullRequest) -> PullRequest {
        PullRequest { url: for_people(&self.settings, &pull_request.url), ..pull_request }
    }

    async fn issue_row(&self, repo: &RepoRef, number: i64) -> Result<IssueRow, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        self.http.get(format!("issue {number} of {}", repo.path), &["repos", owner, name, "issues", &number.to_string()]).await
    }

    /// What is below an issue that was deleted answers 500, as if a later try might work; only the issue itself answers 404.
    async fn unless_gone<T>(&self, repo: &RepoRef, number: i64, answer: Result<T, ForgeError>) -> Result<T, ForgeError> {
        match answer {
            Err(error @ ForgeError::Unavailable { .. }) => match self.issue_row(repo, number).await {
                Err(gone @ ForgeError::NotFound { .. }) => Err(gone),
                _ => Err(error),
            },
            answer => answer,
        }
    }

    async fn label_id(&self, repo: &RepoRef, wanted: &str) -> Result<Option<i64>, ForgeError> {
        Ok(self.label_named(repo, wanted).await?.and_then(|label| label.id))
    }

    /// The label that the repository may use under this name, its own before its organisation's.
    async fn label_named(&self, repo: &RepoRef, wanted: &str) -> Result<Option<Label>, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let own: Rows<Label> = self.http.list(format!("labels of {}", repo.path), &["repos", owner, name, "labels"], &[], PAGES).await?;
        if let Some(label) = named(own.rows, wanted) {
            return Ok(Some(label));
        }
        // Owners that are persons have no such list, and a token may lack the scope for it.
        match self.http.list(format!("labels of {owner}"), &["orgs", owner, "labels"], &[], PAGES).await {
            Ok(Rows { rows, .. }) => Ok(named(rows, wanted)),
            Err(ForgeError::NotFound { .. } | ForgeError::Denied { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn make_label(&self, repo: &RepoRef, label: LabelSpec) -> Result<i64, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("making the label `{}` in {}", label.name, repo.path);
        let body = json!({"name": label.name, "color": format!("#{}", label.color), "description": label.description});
        let made: Label = self.http.ask(&Call::new(what.clone(), Method::POST, &["repos", owner, name, "labels"]).creating(body)).await?;
        made.id.ok_or_else(|| ForgeError::Unreadable { what, message: "the new label has no id".to_owned() })
    }

    fn remember_label(&self, repo: &RepoRef, login: &str, number: i64) {
        let mut labelled = self.labelled.lock().unwrap_or_else(PoisonError::into_inner);
        if labelled.len() >= MOST_REMEMBERED {
            labelled.clear();
        }
        labelled.insert((repo.id.clone(), login.to_lowercase()), number);
    }

    /// What the forge itself says that a person may do.
    async fn told_permission(&self, repo: &RepoRef, login: &str) -> Result<Permission, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("permission of {login} in {}", repo.path);
        match self.http.get::<PermissionRow>(what, &["repos", owner, name, "collaborators", login, "permission"]).await {
            Ok(row) => Ok(permission(&row.permission)),
            Err(ForgeError::NotFound { .. }) => Ok(Permission::None),
            Err(error) => Err(error),
        }
    }

    /// What a person may do, where the forge does not answer that to our token: somebody who put the label on an issue that somebody else
    /// opened had write access to issues, since the server demands it. All others count as having none.
    async fn permission_by_timeline(&self, repo: &RepoRef, login: &str) -> Result<Permission, ForgeError> {
        let key = (repo.id.clone(), login.to_lowercase());
        let seen = self.labelled.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        let Some(number) = seen else { return Ok(Permission::None) };
        let opened_by = self.issue_row(repo, number).await?.user;
        let by_somebody_else = opened_by.is_some_and(|opener| !opener.login.eq_ignore_ascii_case(login));
        Ok(if by_somebody_else { Permission::Write } else { Permission::None })
    }
}

#[async_trait]
impl Forge for Client {
    async fn myself(&self) -> Result<Actor, ForgeError> {
        Ok(self.http.get::<User>("our own account".to_owned(), &["user"]).await?.actor())
    }

    async fn repository(&self, repo: &RepoRef) -> Result<Repository, ForgeError> {
        find::repository(&self.http, repo).await
    }

    async fn issue(&self, repo: &RepoRef, number: i64) -> Result<Issue, ForgeError> {
        Ok(self.issue_row(repo, number).await?.issue(number))
    }

    async fn label_set(&self, repo: &RepoRef, number: i64, label: &str) -> Result<Option<LabelSet>, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("timeline of issue {number} of {}", repo.path);
        let path = ["repos", owner, name, "issues", &number.to_string(), "timeline"];
        let timeline: Rows<TimelineRow> = self.unless_gone(repo, number, self.http.list(what, &path, &[], PAGES).await).await?;
        let set = latest_label_set(timeline, label);
        if let Some(set) = &set {
            self.remember_label(repo, &set.by.login, number);
        }
        Ok(set)
    }

    /// Asked of the forge. Where it refuses to say (403: our account is no administrator of the repository, or on Forgejo the token is
    /// limited to some repositories), the timeline of the issue that [`Self::label_set`] read last for this person decides.
    async fn permission(&self, repo: &RepoRef, login: &str) -> Result<Permission, ForgeError> {
        match self.told_permission(repo, login).await {
            Err(ForgeError::Denied { what, message }) if !is_bad_token(&message) => {
                tracing::warn!(what, "the forge does not tell our account: permission is taken from the issue's timeline");
                self.permission_by_timeline(repo, login).await
            }
            told => told,
        }
    }

    /// Where the forge does not tell our account of others' permissions, it still tells every reader of a repository who may be asked to review there:
    /// of a private one everybody who may read it, of a public one who has a part in it, watches it or belongs to the organisation
    /// (Gitea and Forgejo, `routers/api/v1/repo/collaborators.go`, `GetReviewers`).
    async fn may_read(&self, repo: &RepoRef, login: &str) -> Result<bool, ForgeError> {
        match self.told_permission(repo, login).await {
            Err(ForgeError::Denied { message, .. }) if !is_bad_token(&message) => {
                let (owner, name) = owner_and_name(repo)?;
                let what = format!("who may be asked to review in {}", repo.path);
                let may_be_asked: Vec<User> = self.http.get(what, &["repos", owner, name, "reviewers"]).await?;
                Ok(may_be_asked.iter().any(|user| user.login.eq_ignore_ascii_case(login)))
            }
            told => Ok(told? >= Permission::Read),
        }
    }

    async fn comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("comments of issue {number} of {}", repo.path);
        let rows = self.http.get(what, &["repos", owner, name, "issues", &number.to_string(), "comments"]).await;
        let rows: Option<Vec<CommentRow>> = self.unless_gone(repo, number, rows).await?;
        Ok(rows.unwrap_or_default().into_iter().map(CommentRow::comment).collect())
    }

    async fn comment(&self, repo: &RepoRef, number: i64, body: &str) -> Result<Comment, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("commenting on issue {number} of {}", repo.path);
        let path = ["repos", owner, name, "issues", &number.to_string(), "comments"];
        let call = Call::new(what, Method::POST, &path).creating(json!({"body": body}));
        let made = self.http.ask::<CommentRow>(&call).await;
        Ok(self.unless_gone(repo, number, made).await?.comment())
    }

    async fn edit_comment(&self, repo: &RepoRef, id: &str, body: &str) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("editing comment {id} in {}", repo.path);
        let path = ["repos", owner, name, "issues", "comments", id];
        self.http.send(&Call::new(what, Method::PATCH, &path).with(json!({"body": body}))).await.map(drop)
    }

    async fn add_label(&self, repo: &RepoRef, number: i64, label: LabelSpec) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let id = match self.label_id(repo, label.name).await? {
            Some(id) => id,
            None => self.make_label(repo, label).await?,
        };
        let number = number.to_string();
        let what = format!("putting the label `{}` on issue {number} of {}", label.name, repo.path);
        let path = ["repos", owner, name, "issues", &number, "labels"];
        self.http.send(&Call::new(what, Method::POST, &path).with(json!({"labels": [id]}))).await.map(drop)
    }

    async fn remove_label(&self, repo: &RepoRef, number: i64, label: &str) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let Some(id) = id_of(&self.issue_row(repo, number).await?.labels, label) else { return Ok(()) };
        let (number, id) = (number.to_string(), id.to_string());
        let what = format!("taking the label `{label}` off issue {number} of {}", repo.path);
        let path = ["repos", owner, name, "issues", &number, "labels", &id];
        match self.http.send(&Call::new(what, Method::DELETE, &path)).await {
            Ok(_) | Err(ForgeError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn find_pull_request(&self, repo: &RepoRef, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("open pull requests of {}", repo.path);
        let open: Rows<PullRow> =
            self.http.list(what.clone(), &["repos", owner, name, "pulls"], &[("state", "open".to_owned())], PAGES).await?;
        let complete = open.complete;
        match open.rows.into_iter().find(|row| row.is_from(repo, head)) {
            Some(row) => Ok(Some(self.told(row.pull_request(is_draft_title)))),
            None if complete => Ok(None),
            None => Err(ForgeError::Unreadable { what, message: "there are more than can be searched".to_owned() }),
        }
    }

    async fn open_draft(&self, repo: &RepoRef, draft: &NewDraft) -> Result<PullRequest, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("opening a pull request from {} in {}", draft.head, repo.path);
        let title = format!("WIP: {}", draft.title);
        let body = json!({"head": draft.head, "base": draft.base, "title": title, "body": draft.body});
        let path = ["repos", owner, name, "pulls"];
        let call = Call::new(what, Method::POST, &path).creating(body);
        Ok(self.told(self.http.ask::<PullRow>(&call).await?.pull_request(is_draft_title)))
    }

    async fn close_pull_request(&self, repo: &RepoRef, number: i64) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let number = number.to_string();
        let what = format!("closing pull request {number} of {}", repo.path);
        let path = ["repos", owner, name, "pulls", &number];
        self.http.send(&Call::new(what, Method::PATCH, &path).with(json!({"state": "closed"}))).await.map(drop)
    }

    async fn git_access(&self, repo: &RepoRef) -> Result<GitAccess, ForgeError> {
        Ok(git_access(&self.settings, repo, GIT_USER, self.settings.token.clone()))
    }

    /// A team has a number here, which is looked for by its name.
    async fn is_in_team(&self, team: &str, login: &str) -> Result<bool, ForgeError> {
        let what = format!("whether {login} is in {team}");
        let Some((organization, name)) = team.rsplit_once('/') else { return Err(ForgeError::NotFound { what }) };
        let search = ["orgs", organization, "teams", "search"];
        let call = Call::new(what.clone(), Method::GET, &search).asking(vec![("q", name.to_owned()), ("limit", "50".to_owned())]);
        let found: TeamsRow = match self.http.ask(&call).await {
            Err(ForgeError::NotFound { .. }) => return Ok(false),
            found => found?,
        };
        let Some(id) = found.data.iter().find(|row| row.name.eq_ignore_ascii_case(name)).map(|row| row.id.to_string()) else {
            return Ok(false);
        };
        match self.http.send(&Call::new(what, Method::GET, &["teams", &id, "members", login])).await {
            Ok(_) => Ok(true),
            Err(ForgeError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn examine(&self, examination: &Examination<'_>) -> Vec<Check> {
        self.examined(examination).await
    }

    async fn request_review(&self, repo: &RepoRef, number: i64, reviewer: &str) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let number = number.to_string();
        let what = format!("asking {reviewer} to review pull request {number} of {}", repo.path);
        let body = match reviewer.rsplit_once('/') {
            Some((_, team)) => json!({"team_reviewers": [team]}),
            None => json!({"reviewers": [reviewer]}),
        };
        let path = ["repos", owner, name, "pulls", &number, "requested_reviewers"];
        self.http.send(&Call::new(what, Method::POST, &path).with(body)).await.map(drop)
    }

    async fn set_status(&self, repo: &RepoRef, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("the status {} on {commit} of {}", status.context, repo.path);
        let state = if status.passed { "success" } else { "failure" };
        let body = json!({"state": state, "context": status.context, "description": status.description});
        self.http.send(&Call::new(what, Method::POST, &["repos", owner, name, "statuses", commit]).with(body)).await.map(drop)
    }

    async fn status(&self, repo: &RepoRef, commit: &str, context: &'static str) -> Result<Option<CommitStatus>, ForgeError> {
        alike::status(&self.http, PAGES, repo, commit, context).await
    }

    async fn pull_request(&self, repo: &RepoRef, number: i64) -> Result<PullRequestNow, ForgeError> {
        alike::pull_request(&self.http, repo, number).await
    }

    async fn edit_pull_request(&self, repo: &RepoRef, number: i64, title: Option<&str>, body: &str) -> Result<(), ForgeError> {
        alike::edit_pull_request(&self.http, repo, number, title, body).await
    }

    async fn reviews(&self, repo: &RepoRef, number: i64) -> Result<Vec<Review>, ForgeError> {
        alike::reviews(&self.http, PAGES, repo, number).await
    }

    async fn line_comments(&self, repo: &RepoRef, number: i64, review: &str) -> Result<Vec<LineComment>, ForgeError> {
        alike::line_comments(&self.http, PAGES, repo, (number, review), false).await
    }

    async fn labelled_issues(&self, repo: &RepoRef, label: &str) -> Result<Vec<Issue>, ForgeError> {
        // The filter compares letter by letter.
        match self.label_named(repo, label).await? {
            Some(Label { name, .. }) => alike::labelled_issues(&self.http, PAGES, repo, &name).await,
            None => Ok(Vec::new()),
        }
    }

    async fn repositories(&self) -> Result<Vec<RepoRef>, ForgeError> {
        alike::repositories(&self.http, PAGES, &self.settings.name).await
    }
}

fn named(labels: Vec<Label>, wanted: &str) -> Option<Label> {
    labels.into_iter().find(|label| same_label(&label.name, wanted))
}

fn id_of(labels: &[Label], wanted: &str) -> Option<i64> {
    labels.iter().find(|label| same_label(&label.name, wanted))?.id
}

/// The latest entry that put the label on. Where its author is gone, or the timeline is longer than was read, nobody is known to have done it.
fn latest_label_set(timeline: Rows<TimelineRow>, label: &str) -> Option<LabelSet> {
    if !timeline.complete {
        return None;
    }
    let is_it =
        |row: &TimelineRow| row.kind == "label" && row.body == "1" && row.label.as_ref().is_some_and(|of| same_label(&of.name, label));
    let row = timeline.rows.into_iter().filter(is_it).max_by_key(|row| row.id)?;
    Some(LabelSet { by: row.user?.actor(), episode: row.id.to_string() })
}

fn permission(word: &str) -> Permission {
    match word {
        "owner" | "admin" => Permission::Admin,
        "write" => Permission::Write,
        "read" => Permission::Read,
        _ => Permission::None,
    }
}

/// A refusal that has nothing to do with who asks about whom: the token is wrong, or lacks a scope.
fn is_bad_token(message: &str) -> bool {
    message.starts_with("status 401") || message.contains("required scope")
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
