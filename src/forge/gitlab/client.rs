//! The API of GitLab (forges.md, section 3.3).
//!
//! A project is asked for by its number alone, so that groups within groups and renamed projects make no difference; its path is for git
//! and for people. Issues and merge requests are numbered apart here, so that what is done to the one never is done to the other.

use async_trait::async_trait;
use reqwest::Method;
use reqwest::header::HeaderName;
use serde_json::{Value, json};

use super::rows::{IssueRow, Label, LabelEventRow, MemberRow, MergeRequestRow, NoteRow, ProjectRow, ReviewersRow, User};
use crate::domain::{Actor, Check, Issue, Permission, RepoRef, same_label};
use crate::forge::address::{below, for_people};
use crate::forge::http::{Call, Http, Paging, Rows};
use crate::forge::{
    Comment, CommitStatus, Examination, Forge, ForgeError, GitAccess, LabelSet, LabelSpec, LineComment, NewDraft, PullRequest,
    PullRequestNow, Repository, Review, Settings,
};

/// Any name goes with a token; this one is customary.
const GIT_USER: &str = "oauth2";
pub(super) const PAGES: Paging = Paging { size_name: "per_page", size: 100, short_is_last: true };
const DRAFT: &str = "Draft: ";
/// The longest title, in characters.
const LONGEST_TITLE: usize = 255;
const ISSUES: &str = "issues";
pub(super) const MERGE_REQUESTS: &str = "merge_requests";

/// A client of one GitLab.
pub struct Client {
    pub(super) settings: Settings,
    pub(super) http: Http,
}

impl Client {
    /// # Errors
    /// A sentence when an address, the token or the certificates can't be used.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let header = HeaderName::from_static("private-token");
        let http = Http::with_token_in(&settings, header, "", &[("accept", "application/json")])?.conditional();
        Ok(Self { settings, http })
    }

    /// Makes the label where neither the project nor a group above it has one: merely adding it would give it no description.
    async fn ensure_label(&self, repo: &RepoRef, label: LabelSpec) -> Result<(), ForgeError> {
        let there = format!("label `{}` of {}", label.name, repo.path);
        match self.http.get::<Label>(there, &["projects", &repo.id, "labels", label.name]).await {
            Err(ForgeError::NotFound { .. }) => {}
            found => return found.map(drop),
        }
        let what = format!("making the label `{}` in {}", label.name, repo.path);
        let body = json!({"name": label.name, "color": format!("#{}", label.color), "description": label.description});
        match self.http.send(&Call::new(what, Method::POST, &["projects", &repo.id, "labels"]).creating(body)).await {
            Err(ForgeError::Rejected { message, .. }) if message.starts_with("status 409") => Ok(()),
            made => made.map(drop),
        }
    }

    /// Changes an issue or a merge request in a way that may be repeated.
    async fn change(&self, what: String, repo: &RepoRef, kind: &str, number: i64, body: Value) -> Result<(), ForgeError> {
        let path = ["projects", &repo.id, kind, &number.to_string()];
        self.unless_archived(repo, self.http.send(&Call::new(what, Method::PUT, &path).with(body)).await).await.map(drop)
    }

    /// What is forbidden in an archived project is forbidden without a word of why; the project itself says it.
    async fn unless_archived<T>(&self, repo: &RepoRef, done: Result<T, ForgeError>) -> Result<T, ForgeError> {
        match done {
            Err(ForgeError::Denied { what, message }) => {
                let is_archived = self.repository(repo).await.is_ok_and(|project| project.archived);
                let message = if is_archived { format!("the project is archived; {message}") } else { message };
                Err(ForgeError::Denied { what, message })
            }
            done => done,
        }
    }

    /// The labels that the project may use under this name, in every spelling: GitLab tells them apart by case.
    async fn spellings(&self, repo: &RepoRef, label: &str) -> Result<Vec<String>, ForgeError> {
        let query = [("search", label.to_owned())];
        let rows: Rows<Label> =
            self.http.list(format!("labels of {}", repo.path), &["projects", &repo.id, "labels"], &query, PAGES).await?;
        Ok(rows.rows.into_iter().map(|row| row.name).filter(|name| same_label(name, label)).collect())
    }

    async fn notes(&self, repo: &RepoRef, kind: &str, number: i64) -> Result<Vec<Comment>, ForgeError> {
        let what = format!("comments of {kind} {number} of {}", repo.path);
        let path = ["projects", &repo.id, kind, &number.to_string(), "notes"];
        let order = [("sort", "asc".to_owned()), ("order_by", "created_at".to_owned())];
        let rows: Rows<NoteRow> = self.http.list(what, &path, &order, PAGES).await?;
        Ok(rows.rows.into_iter().filter(NoteRow::is_public_comment).map(|row| row.comment(kind, number)).collect())
    }

    async fn write_note(&self, repo: &RepoRef, kind: &str, number: i64, body: &str) -> Result<Comment, ForgeError> {
        let what = format!("commenting on {kind} {number} of {}", repo.path);
        let path = ["projects", &repo.id, kind, &number.to_string(), "notes"];
        let call = Call::new(what, Method::POST, &path).creating(json!({"body": body}));
        Ok(self.unless_archived(repo, self.http.ask::<NoteRow>(&call).await).await?.comment(kind, number))
    }

    /// With the address that people have.
    fn told(&self, pull_request: PullRequest) -> PullRequest {
        PullRequest { url: for_people(&self.settings, &pull_request.url), ..pull_request }
    }

    async fn user_id(&self, login: &str) -> Result<Option<i64>, ForgeError> {
        let query = [("username", login.to_owned())];
        let found: Rows<User> = self.http.list(format!("account {login}"), &["users"], &query, PAGES).await?;
        Ok(found.rows.into_iter().find(|user| user.username.eq_ignore_ascii_case(login)).map(|user| user.id))
    }
}

#[async_trait]
impl Forge for Client {
    async fn myself(&self) -> Result<Actor, ForgeError> {
        Ok(self.http.get::<User>("our own account".to_owned(), &["user"]).await?.actor())
    }

    async fn repository(&self, repo: &RepoRef) -> Result<Repository, ForgeError> {
        let named = if repo.id.is_empty() { &repo.path } else { &repo.id };
        let row: ProjectRow = self.http.get(format!("project {}", repo.path), &["projects", named]).await?;
        Ok(row.repository(&repo.forge))
    }

    async fn issue(&self, repo: &RepoRef, number: i64) -> Result<Issue, ForgeError> {
        let what = format!("issue {number} of {}", repo.path);
        let row: IssueRow = self.http.get(what.clone(), &["projects", &repo.id, ISSUES, &number.to_string()]).await?;
        match row.other_type() {
            Some(other) => Err(ForgeError::NotFound { what: format!("{what} (it is a work item of type `{other}`)") }),
            None => Ok(row.issue()),
        }
    }

    async fn label_set(&self, repo: &RepoRef, number: i64, label: &str) -> Result<Option<LabelSet>, ForgeError> {
        let what = format!("label history of issue {number} of {}", repo.path);
        let path = ["projects", &repo.id, ISSUES, &number.to_string(), "resource_label_events"];
        Ok(latest_label_set(self.http.list(what, &path, &[], PAGES).await?, label))
    }

    /// By every way into the project: its own members, those of its groups, and of groups that were invited.
    async fn permission(&self, repo: &RepoRef, login: &str) -> Result<Permission, ForgeError> {
        let Some(id) = self.user_id(login).await? else { return Ok(Permission::None) };
        let what = format!("permission of {login} in {}", repo.path);
        match self.http.get::<MemberRow>(what, &["projects", &repo.id, "members", "all", &id.to_string()]).await {
            Ok(row) => Ok(row.permission()),
            Err(ForgeError::NotFound { .. }) => Ok(Permission::None),
            Err(error) => Err(error),
        }
    }

    async fn comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>, ForgeError> {
        self.notes(repo, ISSUES, number).await
    }

    async fn comment(&self, repo: &RepoRef, number: i64, body: &str) -> Result<Comment, ForgeError> {
        self.write_note(repo, ISSUES, number, body).await
    }

    async fn edit_comment(&self, repo: &RepoRef, id: &str, body: &str) -> Result<(), ForgeError> {
        let what = format!("editing comment {id} in {}", repo.path);
        let [kind @ (ISSUES | MERGE_REQUESTS), number, "notes", note] = id.split('/').collect::<Vec<_>>()[..] else {
            return Err(ForgeError::NotFound { what });
        };
        let path = ["projects", &repo.id, kind, number, "notes", note];
        self.unless_archived(repo, self.http.send(&Call::new(what, Method::PUT, &path).with(json!({"body": body}))).await).await.map(drop)
    }

    async fn add_label(&self, repo: &RepoRef, number: i64, label: LabelSpec) -> Result<(), ForgeError> {
        self.ensure_label(repo, label).await?;
        let what = format!("putting the label `{}` on issue {number} of {}", label.name, repo.path);
        self.change(what, repo, ISSUES, number, json!({"add_labels": label.name})).await
    }

    async fn remove_label(&self, repo: &RepoRef, number: i64, label: &str) -> Result<(), ForgeError> {
        let labels = self.issue(repo, number).await?.labels;
        let Some(there) = labels.into_iter().find(|there| same_label(there, label)) else { return Ok(()) };
        let what = format!("taking the label `{there}` off issue {number} of {}", repo.path);
        self.change(what, repo, ISSUES, number, json!({"remove_labels": there})).await
    }

    async fn find_pull_request(&self, repo: &RepoRef, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        let what = format!("open merge requests from {head} of {}", repo.path);
        let query = [("state", "opened".to_owned()), ("source_branch", head.to_owned())];
        let open: Rows<MergeRequestRow> = self.http.list(what, &["projects", &repo.id, MERGE_REQUESTS], &query, PAGES).await?;
        Ok(open.rows.into_iter().find(|row| row.is_from(repo, head)).map(|row| self.told(row.pull_request())))
    }

    async fn open_draft(&self, repo: &RepoRef, draft: &NewDraft) -> Result<PullRequest, ForgeError> {
        let what = format!("opening a merge request from {} in {}", draft.head, repo.path);
        let title: String = DRAFT.chars().chain(draft.title.chars()).take(LONGEST_TITLE).collect();
        let body = json!({"source_branch": draft.head, "target_branch": draft.base, "title": title, "description": draft.body});
        let path = ["projects", &repo.id, MERGE_REQUESTS];
        let call = Call::new(what, Method::POST, &path).creating(body);
        Ok(self.told(self.http.ask::<MergeRequestRow>(&call).await?.pull_request()))
    }

    async fn close_pull_request(&self, repo: &RepoRef, number: i64) -> Result<(), ForgeError> {
        let what = format!("closing merge request {number} of {}", repo.path);
        self.change(what, repo, MERGE_REQUESTS, number, json!({"state_event": "close"})).await
    }

    /// For a path that is none, the address is the base alone, where git finds no repository.
    async fn git_access(&self, repo: &RepoRef) -> Result<GitAccess, ForgeError> {
        let project = format!("{}.git", repo.path);
        let url = Some(project.split('/')).filter(|_| repo.path.contains('/')).and_then(|parts| below(&self.settings.git_base, parts));
        Ok(GitAccess {
            url: url.unwrap_or_else(|| self.settings.git_base.clone()).to_string(),
            username: GIT_USER.to_owned(),
            token: self.settings.token.clone(),
            ca_file: self.settings.ca_file.clone(),
        })
    }

    async fn label_pull_request(&self, repo: &RepoRef, number: i64, label: LabelSpec) -> Result<(), ForgeError> {
        self.ensure_label(repo, label).await?;
        let what = format!("putting the label `{}` on merge request {number} of {}", label.name, repo.path);
        self.change(what, repo, MERGE_REQUESTS, number, json!({"add_labels": label.name})).await
    }

    async fn unlabel_pull_request(&self, repo: &RepoRef, number: i64, label: &str) -> Result<(), ForgeError> {
        let what = format!("taking the label `{label}` off merge request {number} of {}", repo.path);
        self.change(what, repo, MERGE_REQUESTS, number, json!({"remove_labels": label})).await
    }

    async fn comment_on_pull_request(&self, repo: &RepoRef, number: i64, body: &str) -> Result<Comment, ForgeError> {
        self.write_note(repo, MERGE_REQUESTS, number, body).await
    }

    async fn pull_request_comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>, ForgeError> {
        self.notes(repo, MERGE_REQUESTS, number).await
    }

    /// A group with its path, by whatever way somebody belongs to it.
    async fn is_in_team(&self, team: &str, login: &str) -> Result<bool, ForgeError> {
        let Some(id) = self.user_id(login).await? else { return Ok(false) };
        let what = format!("whether {login} is in {team}");
        match self.http.get::<MemberRow>(what, &["groups", team, "members", "all", &id.to_string()]).await {
            Ok(row) => Ok(row.permission() > Permission::None),
            Err(ForgeError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// One person beside those who are asked already. GitLab asks no groups, drops whom it does not take without a word, and without a
    /// licence keeps one reviewer alone: only its answer says whether somebody was asked.
    async fn request_review(&self, repo: &RepoRef, number: i64, reviewer: &str) -> Result<(), ForgeError> {
        let what = format!("asking {reviewer} to review merge request {number} of {}", repo.path);
        let rejected = |message: &str| ForgeError::Rejected { what: what.clone(), message: message.to_owned() };
        if reviewer.contains('/') {
            return Err(rejected("groups are not asked here, only persons"));
        }
        let Some(id) = self.user_id(reviewer).await? else { return Err(rejected("there is no such account")) };
        let path = ["projects", &repo.id, MERGE_REQUESTS, &number.to_string()];
        let before = self.http.get::<ReviewersRow>(what.clone(), &path).await?.ids();
        if before.contains(&id) {
            return Ok(());
        }
        let body = json!({"reviewer_ids": before.iter().copied().chain([id]).collect::<Vec<_>>()});
        let after = self.http.ask::<ReviewersRow>(&Call::new(what.clone(), Method::PUT, &path).with(body)).await?.ids();
        if after.contains(&id) { Ok(()) } else { Err(rejected("it was not taken: no member, or more than one reviewer needs a licence")) }
    }

    /// A status that is what it shall be already can't be set again.
    async fn set_status(&self, repo: &RepoRef, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let what = format!("the status {} on {commit} of {}", status.context, repo.path);
        let state = if status.passed { "success" } else { "failed" };
        let body = json!({"state": state, "name": status.context, "description": status.description});
        match self.http.send(&Call::new(what, Method::POST, &["projects", &repo.id, "statuses", commit]).with(body)).await {
            Err(ForgeError::Rejected { message, .. }) if message.contains("Cannot transition status") => Ok(()),
            set => set.map(drop),
        }
    }

    async fn examine(&self, examination: &Examination<'_>) -> Vec<Check> {
        self.examined(examination).await
    }

    async fn status(&self, repo: &RepoRef, commit: &str, context: &'static str) -> Result<Option<CommitStatus>, ForgeError> {
        self.status_now(repo, commit, context).await
    }

    async fn pull_request(&self, repo: &RepoRef, number: i64) -> Result<PullRequestNow, ForgeError> {
        let what = format!("merge request {number} of {}", repo.path);
        let row: MergeRequestRow = self.http.get(what, &["projects", &repo.id, MERGE_REQUESTS, &number.to_string()]).await?;
        let now = row.now(repo);
        Ok(PullRequestNow { url: for_people(&self.settings, &now.url), ..now })
    }

    fn pull_request_reference(&self, number: i64) -> String {
        format!("refs/merge-requests/{number}/head")
    }

    fn pull_request_word(&self) -> &'static str {
        "merge request"
    }

    fn longest_body(&self) -> usize {
        1_048_576
    }

    async fn edit_pull_request(&self, repo: &RepoRef, number: i64, title: Option<&str>, body: &str) -> Result<(), ForgeError> {
        let what = format!("editing merge request {number} of {}", repo.path);
        let changes = title.map_or_else(|| json!({"description": body}), |title| json!({"title": title, "description": body}));
        self.change(what, repo, MERGE_REQUESTS, number, changes).await
    }

    async fn reviews(&self, repo: &RepoRef, number: i64) -> Result<Vec<Review>, ForgeError> {
        let mut reviews = self.approvals(repo, number).await?;
        reviews.extend(self.requested_changes(repo, number).await?);
        Ok(reviews)
    }

    async fn line_comments(&self, repo: &RepoRef, number: i64, review: &str) -> Result<Vec<LineComment>, ForgeError> {
        self.open_threads(repo, number, review).await
    }

    async fn labelled_issues(&self, repo: &RepoRef, label: &str) -> Result<Vec<Issue>, ForgeError> {
        let what = format!("issues of {} with the label `{label}`", repo.path);
        let mut found = Vec::new();
        for spelling in self.spellings(repo, label).await? {
            let query = [("state", "opened".to_owned()), ("labels", spelling)];
            let rows: Rows<IssueRow> = self.http.list(what.clone(), &["projects", &repo.id, ISSUES], &query, PAGES).await?;
            let issues = rows.rows.into_iter().filter(|row| row.other_type().is_none());
            found.extend(issues.map(IssueRow::issue).filter(|issue| !issue.confidential));
        }
        found.sort_by_key(|issue| std::cmp::Reverse(issue.number));
        found.dedup_by_key(|issue| issue.number);
        Ok(found)
    }

    async fn repositories(&self) -> Result<Vec<RepoRef>, ForgeError> {
        let query = [("membership", "true".to_owned()), ("archived", "false".to_owned()), ("min_access_level", "30".to_owned())];
        let rows: Rows<ProjectRow> = self.http.list("our projects".to_owned(), &["projects"], &query, PAGES).await?;
        Ok(rows.rows.into_iter().map(|row| row.reference(&self.settings.name)).collect())
    }
}

/// The latest time that the label was put on. Where whoever did it is gone, or there is more history than was read, nobody is known to
/// have done it.
fn latest_label_set(events: Rows<LabelEventRow>, label: &str) -> Option<LabelSet> {
    if !events.complete {
        return None;
    }
    let is_it = |row: &LabelEventRow| row.action == "add" && row.label.as_ref().is_some_and(|of| same_label(&of.name, label));
    let row = events.rows.into_iter().filter(is_it).max_by_key(|row| row.id)?;
    Some(LabelSet { by: row.user?.actor(), episode: row.id.to_string() })
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
