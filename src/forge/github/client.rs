//! The REST API of GitHub and GitHub Enterprise Server (forges.md, section 2.3).

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OnceCell;

use super::app::{App, Identity};
use super::installed;
use crate::domain::{Actor, Check, Issue, Permission, RepoRef, same_label};
use crate::forge::address::{for_people, git_access, owner_and_name};
use crate::forge::credentials::Credentials as _;
use crate::forge::http::{Call, Http, Paging, Rows};
use crate::forge::rows::{CommentRow, IssueRow, Label, PullRow, User};
use crate::forge::{
    Comment, CommitStatus, Examination, Forge, ForgeError, GitAccess, LabelSet, LabelSpec, LineComment, NewDraft, PullRequest,
    PullRequestNow, Repository, Review, Settings,
};
use crate::forge::{alike, find};

/// Good for tokens of persons and of apps.
const GIT_USER: &str = "x-access-token";
pub(super) const PAGES: Paging = Paging { size_name: "per_page", size: 100, short_is_last: true };

/// A client of one GitHub.
pub struct Client {
    pub(super) settings: Settings,
    pub(super) http: Http,
    pub(super) app: Option<Arc<App>>,
    myself: OnceCell<Actor>,
    /// Whether we may make check runs.
    pub(super) checks: OnceCell<bool>,
}

#[derive(Debug, Deserialize)]
struct EventRow {
    id: i64,
    #[serde(default)]
    event: String,
    #[serde(default)]
    label: Option<Label>,
    #[serde(default)]
    actor: Option<User>,
}

#[derive(Debug, Deserialize)]
struct MembershipRow {
    state: String,
}

#[derive(Debug, Deserialize)]
struct PermissionRow {
    permission: String,
}

pub(super) const HEADERS: [(&str, &str); 2] = [("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")];

impl Client {
    /// With the token of a person or of a machine account.
    ///
    /// # Errors
    /// A sentence when an address, the token or the certificates can't be used.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let http = Http::new(&settings, "Bearer", &HEADERS)?.conditional().one_write_at_a_time();
        Ok(Self { settings, http, app: None, myself: OnceCell::new(), checks: OnceCell::new() })
    }

    /// As a GitHub App, whose tokens are made when they are used.
    ///
    /// # Errors
    /// A sentence when an address, the key or the certificates can't be used.
    pub fn for_app(settings: Settings, identity: &Identity) -> Result<Self, String> {
        let app = Arc::new(App::new(&settings, identity, &HEADERS)?);
        let http = Http::with_credentials(&settings, &HEADERS, app.clone())?.conditional().one_write_at_a_time();
        Ok(Self { settings, http, app: Some(app), myself: OnceCell::new(), checks: OnceCell::new() })
    }

    /// With the address that people have.
    fn told(&self, pull_request: PullRequest) -> PullRequest {
        PullRequest { url: for_people(&self.settings, &pull_request.url), ..pull_request }
    }

    async fn open(&self, repo: &RepoRef, new: &NewDraft, draft: bool) -> Result<PullRequest, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("opening a pull request from {} in {}", new.head, repo.path);
        let body = json!({"head": new.head, "base": new.base, "title": new.title, "body": new.body, "draft": draft});
        let path = ["repos", owner, name, "pulls"];
        let call = Call::new(what, Method::POST, &path).creating(body);
        Ok(self.told(self.http.ask::<PullRow>(&call).await?.pull_request(|_| false)))
    }

    /// Makes the label where it is missing: merely adding it would make it grey and without a description.
    async fn ensure_label(&self, repo: &RepoRef, label: LabelSpec) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        match self
            .http
            .get::<Label>(format!("label `{}` of {}", label.name, repo.path), &["repos", owner, name, "labels", label.name])
            .await
        {
            Err(ForgeError::NotFound { .. }) => {}
            found => return found.map(drop),
        }
        let what = format!("making the label `{}` in {}", label.name, repo.path);
        let body = json!({"name": label.name, "color": label.color, "description": label.description});
        match self.http.send(&Call::new(what, Method::POST, &["repos", owner, name, "labels"]).creating(body)).await {
            Err(ForgeError::Rejected { message, .. }) if message.contains("already_exists") => Ok(()),
            made => made.map(drop),
        }
    }
}

#[async_trait]
impl Forge for Client {
    /// An App's account is `slug[bot]`; its id is not told to the App itself.
    async fn myself(&self) -> Result<Actor, ForgeError> {
        let ask = async || match &self.app {
            Some(app) => app.account().await,
            None => Ok(self.http.get::<User>("our own account".to_owned(), &["user"]).await?.actor()),
        };
        self.myself.get_or_try_init(ask).await.cloned()
    }

    /// GitHub names a default branch for an empty repository too: that it is missing shows when git fetches it. And what it says about
    /// pushing is about a person's role, which an app has none of: whether we may shows when git asks.
    async fn repository(&self, repo: &RepoRef) -> Result<Repository, ForgeError> {
        Ok(Repository { may_push: true, ..find::repository(&self.http, repo).await? })
    }

    async fn issue(&self, repo: &RepoRef, number: i64) -> Result<Issue, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("issue {number} of {}", repo.path);
        Ok(self.http.get::<IssueRow>(what, &["repos", owner, name, "issues", &number.to_string()]).await?.issue(number))
    }

    async fn label_set(&self, repo: &RepoRef, number: i64, label: &str) -> Result<Option<LabelSet>, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("events of issue {number} of {}", repo.path);
        let path = ["repos", owner, name, "issues", &number.to_string(), "events"];
        Ok(latest_label_set(self.http.list(what, &path, &[], PAGES).await?, label))
    }

    async fn permission(&self, repo: &RepoRef, login: &str) -> Result<Permission, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("permission of {login} in {}", repo.path);
        match self.http.get::<PermissionRow>(what, &["repos", owner, name, "collaborators", login, "permission"]).await {
            Ok(row) => Ok(permission(&row.permission)),
            Err(ForgeError::NotFound { .. }) => Ok(Permission::None),
            Err(error) => Err(error),
        }
    }

    async fn comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("comments of issue {number} of {}", repo.path);
        let path = ["repos", owner, name, "issues", &number.to_string(), "comments"];
        let rows: Rows<CommentRow> = self.http.list(what, &path, &[], PAGES).await?;
        Ok(rows.rows.into_iter().map(CommentRow::comment).collect())
    }

    async fn comment(&self, repo: &RepoRef, number: i64, body: &str) -> Result<Comment, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let number = number.to_string();
        let what = format!("commenting on issue {number} of {}", repo.path);
        let path = ["repos", owner, name, "issues", &number, "comments"];
        let call = Call::new(what, Method::POST, &path).creating(json!({"body": body}));
        Ok(self.http.ask::<CommentRow>(&call).await?.comment())
    }

    async fn edit_comment(&self, repo: &RepoRef, id: &str, body: &str) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("editing comment {id} in {}", repo.path);
        let path = ["repos", owner, name, "issues", "comments", id];
        self.http.send(&Call::new(what, Method::PATCH, &path).with(json!({"body": body}))).await.map(drop)
    }

    async fn add_label(&self, repo: &RepoRef, number: i64, label: LabelSpec) -> Result<(), ForgeError> {
        self.ensure_label(repo, label).await?;
        let (owner, name) = owner_and_name(repo)?;
        let number = number.to_string();
        let what = format!("putting the label `{}` on issue {number} of {}", label.name, repo.path);
        let path = ["repos", owner, name, "issues", &number, "labels"];
        self.http.send(&Call::new(what, Method::POST, &path).with(json!({"labels": [label.name]}))).await.map(drop)
    }

    async fn remove_label(&self, repo: &RepoRef, number: i64, label: &str) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let number = number.to_string();
        let what = format!("taking the label `{label}` off issue {number} of {}", repo.path);
        let path = ["repos", owner, name, "issues", &number, "labels", label];
        match self.http.send(&Call::new(what, Method::DELETE, &path)).await {
            Ok(_) | Err(ForgeError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn find_pull_request(&self, repo: &RepoRef, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("open pull requests from {head} of {}", repo.path);
        let query = [("state", "open".to_owned()), ("head", format!("{owner}:{head}"))];
        let open: Rows<PullRow> = self.http.list(what, &["repos", owner, name, "pulls"], &query, PAGES).await?;
        Ok(open.rows.into_iter().find(|row| row.is_from(repo, head)).map(|row| self.told(row.pull_request(|_| false))))
    }

    async fn open_draft(&self, repo: &RepoRef, draft: &NewDraft) -> Result<PullRequest, ForgeError> {
        self.open(repo, draft, true).await
    }

    async fn close_pull_request(&self, repo: &RepoRef, number: i64) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let number = number.to_string();
        let what = format!("closing pull request {number} of {}", repo.path);
        let path = ["repos", owner, name, "pulls", &number];
        self.http.send(&Call::new(what, Method::PATCH, &path).with(json!({"state": "closed"}))).await.map(drop)
    }

    async fn git_access(&self, repo: &RepoRef) -> Result<GitAccess, ForgeError> {
        let token = match &self.app {
            Some(app) => {
                let (owner, name) = owner_and_name(repo)?;
                app.git_token(owner, name).await?
            }
            None => self.settings.token.clone(),
        };
        Ok(git_access(&self.settings, repo, GIT_USER, token))
    }

    async fn is_in_team(&self, team: &str, login: &str) -> Result<bool, ForgeError> {
        let what = format!("whether {login} is in {team}");
        let Some((organization, slug)) = team.rsplit_once('/') else { return Err(ForgeError::NotFound { what }) };
        match self.http.get::<MembershipRow>(what, &["orgs", organization, "teams", slug, "memberships", login]).await {
            Ok(row) => Ok(row.state == "active"),
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
        self.http.send(&Call::new(what, Method::POST, &["repos", owner, name, "statuses", commit]).with(body)).await?;
        self.run_check(repo, commit, status).await
    }

    async fn open_ready(&self, repo: &RepoRef, pull_request: &NewDraft) -> Result<PullRequest, ForgeError> {
        self.open(repo, pull_request, false).await
    }

    /// None also where our check run of this name says something else.
    async fn status(&self, repo: &RepoRef, commit: &str, context: &'static str) -> Result<Option<CommitStatus>, ForgeError> {
        let Some(status) = alike::status(&self.http, PAGES, repo, commit, context).await? else { return Ok(None) };
        Ok(self.check_agrees(repo, commit, &status).await?.then_some(status))
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
        alike::line_comments(&self.http, PAGES, repo, (number, review), true).await
    }

    async fn labelled_issues(&self, repo: &RepoRef, label: &str) -> Result<Vec<Issue>, ForgeError> {
        alike::labelled_issues(&self.http, PAGES, repo, label).await
    }

    /// Of an App's hook alone: of other hooks GitHub keeps no list for the whole account. Each delivery is asked for three times at most.
    async fn redeliver_failed(&self, since_ms: i64) -> Result<u64, ForgeError> {
        match &self.app {
            Some(app) => app.redeliver_failed(since_ms).await,
            None => Ok(0),
        }
    }

    async fn repositories(&self) -> Result<Vec<RepoRef>, ForgeError> {
        match &self.app {
            Some(app) => installed::repositories(app, &self.settings).await,
            None => alike::repositories(&self.http, PAGES, &self.settings.name).await,
        }
    }

    async fn git_refused(&self, access: &GitAccess) -> bool {
        match &self.app {
            Some(app) => app.refused(&access.token, None).await,
            None => false,
        }
    }
}

/// The latest event that put the label on. Where its actor is gone, or there are more events than were read, nobody is known to have done it.
fn latest_label_set(events: Rows<EventRow>, label: &str) -> Option<LabelSet> {
    if !events.complete {
        return None;
    }
    let is_it = |row: &EventRow| row.event == "labeled" && row.label.as_ref().is_some_and(|of| same_label(&of.name, label));
    let row = events.rows.into_iter().filter(is_it).max_by_key(|row| row.id)?;
    Some(LabelSet { by: row.actor?.actor(), episode: row.id.to_string() })
}

fn permission(word: &str) -> Permission {
    match word {
        "admin" => Permission::Admin,
        "write" => Permission::Write,
        "read" => Permission::Read,
        _ => Permission::None,
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
