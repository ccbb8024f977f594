//! The JSON objects of GitLab's API: only the fields in use, everything else ignored.

use serde::Deserialize;

use super::payload::is_bot;
use crate::domain::{Actor, Issue, Permission, RepoRef};
use crate::forge::{Comment, PullRequest, PullRequestNow, Repository};

/// The least access level that may push to a branch of its own: Developer.
const DEVELOPER: i64 = 30;
const MAINTAINER: i64 = 40;
const GUEST: i64 = 10;

/// What lets somebody do what in a project or group.
pub(super) fn permission(access_level: i64) -> Permission {
    match access_level {
        MAINTAINER.. => Permission::Admin,
        DEVELOPER.. => Permission::Write,
        GUEST.. => Permission::Read,
        _ => Permission::None,
    }
}

/// An account.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    pub(super) id: i64,
    pub(super) username: String,
    /// Only where an account is asked for by itself.
    #[serde(default)]
    bot: Option<bool>,
}

impl User {
    pub(super) fn actor(self) -> Actor {
        let is_bot = self.bot == Some(true) || is_bot(&self.username);
        Actor { id: self.id.to_string(), login: self.username, is_bot }
    }
}

/// A project.
#[derive(Debug, Deserialize)]
pub(super) struct ProjectRow {
    id: i64,
    path_with_namespace: String,
    #[serde(default)]
    default_branch: Option<String>,
    #[serde(default)]
    empty_repo: Option<bool>,
    #[serde(default)]
    archived: Option<bool>,
    /// Those of the account that asks; both are null for who has access by another group's invitation.
    #[serde(default)]
    permissions: Option<Permissions>,
}

#[derive(Debug, Deserialize)]
struct Permissions {
    #[serde(default)]
    project_access: Option<Access>,
    #[serde(default)]
    group_access: Option<Access>,
}

#[derive(Debug, Deserialize)]
struct Access {
    access_level: i64,
}

impl ProjectRow {
    pub(super) fn reference(self, forge: &str) -> RepoRef {
        RepoRef { forge: forge.to_owned(), id: self.id.to_string(), path: self.path_with_namespace }
    }

    pub(super) fn repository(self, forge: &str) -> Repository {
        let levels = self.permissions.into_iter().flat_map(|ours| [ours.project_access, ours.group_access]).flatten();
        let highest = levels.map(|access| access.access_level).max();
        Repository {
            repo: RepoRef { forge: forge.to_owned(), id: self.id.to_string(), path: self.path_with_namespace },
            default_branch: self.default_branch.filter(|branch| !branch.is_empty() && self.empty_repo != Some(true)),
            archived: self.archived.unwrap_or(false),
            may_push: highest.is_none_or(|level| permission(level) >= Permission::Write),
        }
    }
}

/// A member of a project, by itself or by a group.
#[derive(Debug, Deserialize)]
pub(super) struct MemberRow {
    access_level: i64,
    /// Of the account: `active`, `blocked`; also `awaiting` for somebody who was not let in yet.
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    membership_state: Option<String>,
}

impl MemberRow {
    pub(super) fn permission(&self) -> Permission {
        let counts = [&self.state, &self.membership_state].into_iter().flatten().all(|state| state == "active");
        if counts { permission(self.access_level) } else { Permission::None }
    }
}

/// An issue.
#[derive(Debug, Deserialize)]
pub(super) struct IssueRow {
    iid: i64,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    state: String,
    #[serde(default)]
    author: Option<User>,
    #[serde(default)]
    labels: Vec<String>,
    /// Anything but a clear no hides it.
    #[serde(default)]
    confidential: Option<bool>,
    #[serde(default)]
    discussion_locked: Option<bool>,
    #[serde(default)]
    issue_type: Option<String>,
    #[serde(default)]
    web_url: Option<String>,
}

impl IssueRow {
    /// What it is instead of an issue, such as `task`: GitLab lists every work item among the issues.
    pub(super) fn other_type(&self) -> Option<&str> {
        self.issue_type.as_deref().filter(|its_type| !its_type.is_empty() && !its_type.eq_ignore_ascii_case("issue"))
    }

    pub(super) fn issue(self) -> Issue {
        Issue {
            number: self.iid,
            title: self.title.unwrap_or_default(),
            body: self.description.unwrap_or_default(),
            author: self.author.map(|author| author.username).unwrap_or_default(),
            open: self.state == "opened",
            locked: self.discussion_locked == Some(true),
            is_pull_request: false,
            confidential: self.confidential != Some(false),
            labels: self.labels,
            url: self.web_url.unwrap_or_default(),
        }
    }
}

/// A label, as its own list and as an issue's history have it.
#[derive(Debug, Deserialize)]
pub(super) struct Label {
    pub(super) name: String,
}

/// An entry of the history of an issue's labels.
#[derive(Debug, Deserialize)]
pub(super) struct LabelEventRow {
    pub(super) id: i64,
    pub(super) action: String,
    /// None once the label is deleted.
    #[serde(default)]
    pub(super) label: Option<Label>,
    /// None once the account is deleted.
    #[serde(default)]
    pub(super) user: Option<User>,
}

/// A note: a comment, or what GitLab itself writes down.
#[derive(Debug, Deserialize)]
pub(super) struct NoteRow {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) author: Option<User>,
    #[serde(default)]
    system: Option<bool>,
    #[serde(default)]
    internal: Option<bool>,
    /// What `internal` was called before.
    #[serde(default)]
    confidential: Option<bool>,
}

impl NoteRow {
    /// Written by somebody, for everybody.
    pub(super) fn is_public_comment(&self) -> bool {
        [self.system, self.internal, self.confidential].iter().all(|is| *is != Some(true))
    }

    pub(super) fn comment(self, on: &str, iid: i64) -> Comment {
        Comment {
            id: format!("{on}/{iid}/notes/{}", self.id),
            author: self.author.map(|author| author.username).unwrap_or_default(),
            body: self.body.unwrap_or_default(),
        }
    }
}

/// A merge request.
#[derive(Debug, Deserialize)]
pub(super) struct MergeRequestRow {
    iid: i64,
    #[serde(default)]
    title: String,
    #[serde(default)]
    web_url: Option<String>,
    #[serde(default)]
    draft: Option<bool>,
    /// What `draft` was called before GitLab 14.8.
    #[serde(default)]
    work_in_progress: Option<bool>,
    #[serde(default)]
    sha: Option<String>,
    source_branch: String,
    #[serde(default)]
    target_branch: String,
    #[serde(default)]
    state: String,
    /// None where the fork is gone.
    #[serde(default)]
    source_project_id: Option<i64>,
    /// None where it was merged without a commit of its own (squashed, or fast-forward).
    #[serde(default)]
    merge_commit_sha: Option<String>,
    #[serde(default)]
    squash_commit_sha: Option<String>,
}

impl MergeRequestRow {
    /// Whether it comes from this branch of the project itself: a fork may have a branch of the same name.
    pub(super) fn is_from(&self, repo: &RepoRef, branch: &str) -> bool {
        self.source_branch == branch && self.source_project_id.is_some_and(|id| id.to_string() == repo.id)
    }

    /// As it stands now; a branch of another project is none of ours.
    pub(super) fn now(self, repo: &RepoRef) -> PullRequestNow {
        let is_here = self.source_project_id.is_some_and(|id| id.to_string() == repo.id);
        PullRequestNow {
            number: self.iid,
            url: self.web_url.unwrap_or_default(),
            open: self.state == "opened",
            title: self.title,
            head: Some(self.source_branch).filter(|_| is_here),
            base: self.target_branch,
            merged: self.state == "merged",
            merged_as: (self.merge_commit_sha.or(self.squash_commit_sha).or_else(|| self.sha.clone())).filter(|_| self.state == "merged"),
            head_sha: self.sha.unwrap_or_default(),
        }
    }

    pub(super) fn pull_request(self) -> PullRequest {
        PullRequest {
            number: self.iid,
            url: self.web_url.unwrap_or_default(),
            draft: self.draft.or(self.work_in_progress).unwrap_or(false),
            head_sha: self.sha.unwrap_or_default(),
        }
    }
}

/// Whom a merge request asks.
#[derive(Debug, Deserialize)]
pub(super) struct ReviewersRow {
    #[serde(default)]
    reviewers: Vec<User>,
}

impl ReviewersRow {
    pub(super) fn ids(&self) -> Vec<i64> {
        self.reviewers.iter().map(|user| user.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::permission;
    use crate::domain::Permission;

    #[test]
    fn developers_write_and_maintainers_administer() {
        let table = [(0, Permission::None), (5, Permission::None), (10, Permission::Read), (15, Permission::Read), (20, Permission::Read)];
        let higher = [(30, Permission::Write), (40, Permission::Admin), (50, Permission::Admin), (60, Permission::Admin)];
        for (level, means) in table.into_iter().chain(higher) {
            assert_eq!(permission(level), means, "{level}");
        }
    }
}
