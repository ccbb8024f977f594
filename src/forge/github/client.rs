//! The REST API of GitHub and GitHub Enterprise Server (forges.md, section 2.3).

use async_trait::async_trait;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use crate::domain::{Actor, Issue, Permission, RepoRef, same_label};
use crate::forge::address::{git_access, owner_and_name};
use crate::forge::http::{Call, Http, Paging, Rows};
use crate::forge::rows::{CommentRow, IssueRow, Label, PullRow, User};
use crate::forge::{
    Comment, Forge, ForgeError, GitAccess, LabelSet, LabelSpec, LineComment, NewDraft, PullRequest, PullRequestNow, Repository, Review,
    Settings,
};
use crate::forge::{alike, find};

/// Good for tokens of persons and of apps.
const GIT_USER: &str = "x-access-token";
const PAGES: Paging = Paging { size_name: "per_page", size: 100, short_is_last: true };

/// A client of one GitHub.
pub struct Client {
    settings: Settings,
    http: Http,
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
struct PermissionRow {
    permission: String,
}

impl Client {
    /// # Errors
    /// A sentence when an address, the token or the certificates can't be used.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let more = [("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")];
        let http = Http::new(&settings, "Bearer", &more)?;
        Ok(Self { settings, http })
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
    async fn myself(&self) -> Result<Actor, ForgeError> {
        Ok(self.http.get::<User>("our own account".to_owned(), &["user"]).await?.actor())
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
        Ok(open.rows.into_iter().find(|row| row.is_from(repo, head)).map(|row| row.pull_request(|_| false)))
    }

    async fn open_draft(&self, repo: &RepoRef, draft: &NewDraft) -> Result<PullRequest, ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let what = format!("opening a pull request from {} in {}", draft.head, repo.path);
        let body = json!({"head": draft.head, "base": draft.base, "title": draft.title, "body": draft.body, "draft": true});
        let path = ["repos", owner, name, "pulls"];
        let call = Call::new(what, Method::POST, &path).creating(body);
        Ok(self.http.ask::<PullRow>(&call).await?.pull_request(|_| false))
    }

    async fn close_pull_request(&self, repo: &RepoRef, number: i64) -> Result<(), ForgeError> {
        let (owner, name) = owner_and_name(repo)?;
        let number = number.to_string();
        let what = format!("closing pull request {number} of {}", repo.path);
        let path = ["repos", owner, name, "pulls", &number];
        self.http.send(&Call::new(what, Method::PATCH, &path).with(json!({"state": "closed"}))).await.map(drop)
    }

    fn git_access(&self, repo: &RepoRef) -> GitAccess {
        git_access(&self.settings, repo, GIT_USER)
    }

    async fn pull_request(&self, repo: &RepoRef, number: i64) -> Result<PullRequestNow, ForgeError> {
        alike::pull_request(&self.http, repo, number).await
    }

    async fn edit_pull_request(&self, repo: &RepoRef, number: i64, body: &str) -> Result<(), ForgeError> {
        alike::edit_pull_request(&self.http, repo, number, body).await
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

    async fn repositories(&self) -> Result<Vec<RepoRef>, ForgeError> {
        alike::repositories(&self.http, PAGES, &self.settings.name).await
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
