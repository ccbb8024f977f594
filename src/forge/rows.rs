//! The JSON objects that GitHub, Gitea and Forgejo share, in payloads as in answers: only the fields in use, everything else ignored.
//!
//! Gitea and Forgejo copied GitHub's shapes; where a forge leaves a field out, it is optional here.

use serde::{Deserialize, Deserializer};

use super::{Comment, ForgeError, LineComment, PullRequest, PullRequestNow, Repository, Review};
use crate::domain::{Actor, Issue, Note, RepoRef, ReviewState};

/// Reads null as the type's empty value.
fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Reads a whole number, which some proxies and templates send as text; null is none.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Whole {
        Number(i64),
        Text(String),
    }
    match Option::deserialize(from)? {
        None => Ok(None),
        Some(Whole::Number(number)) => Ok(Some(number)),
        Some(Whole::Text(text)) => text.parse().map(Some).map_err(|_| serde::de::Error::custom(format!("{text:?} is no whole number"))),
    }
}

/// As [`whole`], but it must be there.
fn some_whole<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    whole(from)?.ok_or_else(|| serde::de::Error::custom("null is no whole number"))
}

/// An account.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    #[serde(default, deserialize_with = "whole")]
    pub(super) id: Option<i64>,
    pub(super) login: String,
    /// `Bot` on GitHub; Gitea and Forgejo have no such field.
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
}

impl User {
    /// A bot says so by its type or by GitHub's login suffix; Gitea and Forgejo give their own system users negative ids.
    pub(super) fn is_bot(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("Bot"))
            || self.login.to_ascii_lowercase().ends_with("[bot]")
            || self.id.is_some_and(|id| id < 0)
    }

    pub(super) fn actor(&self) -> Actor {
        Actor { id: self.id.map(|id| id.to_string()).unwrap_or_default(), login: self.login.clone(), is_bot: self.is_bot() }
    }
}

/// A label.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Label {
    /// What Gitea wants for putting it on and taking it off.
    #[serde(default, deserialize_with = "whole")]
    pub(super) id: Option<i64>,
    #[serde(default, deserialize_with = "or_empty")]
    pub(super) name: String,
}

/// An issue, or a pull request seen as one.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct IssueRow {
    #[serde(default, deserialize_with = "whole")]
    number: Option<i64>,
    #[serde(default, deserialize_with = "or_empty")]
    title: String,
    #[serde(default, deserialize_with = "or_empty")]
    body: String,
    #[serde(default, deserialize_with = "or_empty")]
    state: String,
    #[serde(default, deserialize_with = "or_empty")]
    html_url: String,
    #[serde(default)]
    pub(super) user: Option<User>,
    #[serde(default, deserialize_with = "or_empty")]
    pub(super) labels: Vec<Label>,
    #[serde(default)]
    pull_request: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) draft: Option<bool>,
    #[serde(default, alias = "is_locked", deserialize_with = "or_empty")]
    locked: bool,
}

impl IssueRow {
    /// The number shown to people; old payloads have it at the top only.
    pub(super) const fn number(&self) -> Option<i64> {
        self.number
    }

    /// Whether it is a pull request seen as an issue.
    pub(super) const fn is_pull_request(&self) -> bool {
        self.pull_request.is_some()
    }

    /// The title.
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// The words and the page: title, body, address.
    pub(super) fn into_words(self) -> (String, String, String) {
        (self.title, self.body, self.html_url)
    }

    pub(super) fn issue(self, asked: i64) -> Issue {
        Issue {
            number: self.number.unwrap_or(asked),
            is_pull_request: self.is_pull_request(),
            open: self.state == "open",
            title: self.title,
            body: self.body,
            author: self.user.map(|user| user.login).unwrap_or_default(),
            locked: self.locked,
            confidential: false,
            labels: self.labels.into_iter().map(|label| label.name).collect(),
            url: self.html_url,
        }
    }
}

/// A review of a pull request. GitHub says `state` and `body`, Gitea and Forgejo say `type` and `content` and give it no id.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ReviewRow {
    #[serde(default, deserialize_with = "whole")]
    id: Option<i64>,
    #[serde(default, alias = "content", deserialize_with = "or_empty")]
    body: String,
    #[serde(default, alias = "type", deserialize_with = "or_empty")]
    state: String,
    #[serde(default)]
    user: Option<User>,
    #[serde(default)]
    commit_id: Option<String>,
    /// Gitea and Forgejo keep the state of a review that was dismissed.
    #[serde(default)]
    dismissed: Option<bool>,
}

/// A status of a commit: GitHub says `state`, Gitea and Forgejo say `status`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct StatusRow {
    #[serde(default, deserialize_with = "or_empty")]
    pub(super) context: String,
    #[serde(default, alias = "status", deserialize_with = "or_empty")]
    pub(super) state: String,
    #[serde(default, deserialize_with = "or_empty")]
    pub(super) description: String,
}

/// The latest status of each context.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct StatusesRow {
    #[serde(default, deserialize_with = "or_empty")]
    pub(super) statuses: Vec<StatusRow>,
}

/// What a review says of a line. `original_line` is where the line was when the review was written.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct LineRow {
    #[serde(default, deserialize_with = "or_empty")]
    path: String,
    #[serde(default)]
    line: Option<i64>,
    #[serde(default)]
    original_line: Option<i64>,
    #[serde(default)]
    position: Option<i64>,
    #[serde(default, deserialize_with = "or_empty")]
    body: String,
}

impl LineRow {
    /// On GitHub `position` counts within the diff; `of_diff` says so.
    pub(super) fn comment(self, of_diff: bool) -> LineComment {
        let position = self.position.filter(|line| !of_diff && *line > 0);
        LineComment { path: self.path, line: self.line.or(self.original_line).or(position), body: self.body }
    }
}

impl ReviewRow {
    pub(super) fn note(self) -> Note {
        Note { id: self.id.map(|id| id.to_string()).unwrap_or_default(), review: Some(self.came_to()), text: self.body }
    }

    /// As the lists of reviews have it.
    pub(super) fn review(self) -> Review {
        let author = self.user.as_ref().map(|user| user.login.clone()).unwrap_or_default();
        let by_bot = self.user.as_ref().is_some_and(User::is_bot);
        let state = if by_bot { ReviewState::Commented } else { self.came_to() };
        let commit = self.commit_id.filter(|commit| !commit.is_empty());
        Review { id: self.id.map(|id| id.to_string()).unwrap_or_default(), author, state, body: self.body, commit }
    }

    fn came_to(&self) -> ReviewState {
        let state = self.state.to_ascii_lowercase();
        if state == "dismissed" || self.dismissed == Some(true) {
            ReviewState::Dismissed
        } else if state.ends_with("approved") {
            ReviewState::Approved
        } else if state.ends_with("rejected") || state == "changes_requested" || state == "request_changes" {
            ReviewState::ChangesRequested
        } else {
            ReviewState::Commented
        }
    }
}

/// A comment.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CommentRow {
    #[serde(default, deserialize_with = "whole")]
    id: Option<i64>,
    #[serde(default, deserialize_with = "or_empty")]
    pub(super) body: String,
    #[serde(default)]
    pub(super) user: Option<User>,
    /// Set by GitHub when an App wrote it, also when it wrote in a person's name.
    #[serde(default)]
    pub(super) performed_via_github_app: Option<serde::de::IgnoredAny>,
}

impl CommentRow {
    pub(super) fn note(self) -> Note {
        Note { id: self.id.map(|id| id.to_string()).unwrap_or_default(), text: self.body, review: None }
    }

    pub(super) fn comment(self) -> Comment {
        Comment {
            id: self.id.map(|id| id.to_string()).unwrap_or_default(),
            author: self.user.map(|user| user.login).unwrap_or_default(),
            body: self.body,
        }
    }
}

/// A repository.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RepositoryRow {
    #[serde(deserialize_with = "some_whole")]
    pub(super) id: i64,
    pub(super) full_name: String,
    #[serde(default)]
    default_branch: Option<String>,
    #[serde(default, deserialize_with = "or_empty")]
    archived: bool,
    #[serde(default, deserialize_with = "or_empty")]
    empty: bool,
    /// Those of the account that asks.
    #[serde(default)]
    permissions: Option<Permissions>,
}

#[derive(Debug, Clone, Deserialize)]
struct Permissions {
    #[serde(default)]
    push: Option<bool>,
}

impl RepositoryRow {
    pub(super) fn reference(&self, forge: &str) -> RepoRef {
        RepoRef { forge: forge.to_owned(), id: self.id.to_string(), path: self.full_name.clone() }
    }

    pub(super) const fn is_archived(&self) -> bool {
        self.archived
    }

    /// The repository that was asked for as `what`; any that has the path where it was asked for without an id.
    ///
    /// # Errors
    /// [`ForgeError::NotFound`] when another one has its path now.
    pub(super) fn same_as(self, asked: &RepoRef, what: String) -> Result<Repository, ForgeError> {
        let repo = self.reference(&asked.forge);
        if repo.id != asked.id && !asked.id.is_empty() {
            return Err(ForgeError::NotFound { what: format!("{what} (its path belongs to another repository now, id {})", repo.id) });
        }
        let default_branch = self.default_branch.filter(|branch| !self.empty && !branch.is_empty());
        let may_push = self.permissions.and_then(|of_ours| of_ours.push).unwrap_or(true);
        Ok(Repository { repo, default_branch, archived: self.archived, may_push })
    }
}

/// One end of a pull request.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct BranchEnd {
    #[serde(rename = "ref")]
    name: String,
    #[serde(default, deserialize_with = "or_empty")]
    sha: String,
    /// None where the fork is gone.
    #[serde(default)]
    repo: Option<RepositoryId>,
    /// Gitea and Forgejo say it here as well.
    #[serde(default)]
    repo_id: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
struct RepositoryId {
    id: i64,
}

/// A pull request.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct PullRow {
    number: i64,
    #[serde(default, deserialize_with = "or_empty")]
    html_url: String,
    #[serde(default, deserialize_with = "or_empty")]
    title: String,
    #[serde(default)]
    draft: Option<bool>,
    #[serde(default, deserialize_with = "or_empty")]
    state: String,
    head: BranchEnd,
    #[serde(default)]
    base: Option<BranchEnd>,
    #[serde(default)]
    merged: Option<bool>,
    /// Of an open one GitHub's trial merge.
    #[serde(default)]
    merge_commit_sha: Option<String>,
}

impl PullRow {
    /// Whether it comes from this branch of this repository: a fork may have a branch of the same name.
    pub(super) fn is_from(&self, repo: &RepoRef, branch: &str) -> bool {
        let head_repo = self.head.repo.as_ref().map(|repo| repo.id).or(self.head.repo_id);
        self.head.name == branch && head_repo.is_some_and(|id| id.to_string() == repo.id)
    }

    /// As it stands, with its branch where that is one of this repository.
    pub(super) fn now(self, repo: &RepoRef) -> PullRequestNow {
        let is_own = self.is_from(repo, &self.head.name);
        PullRequestNow {
            number: self.number,
            open: self.state == "open",
            url: self.html_url,
            title: self.title,
            head: is_own.then_some(self.head.name),
            base: self.base.map(|base| base.name).unwrap_or_default(),
            head_sha: self.head.sha,
            merged: self.merged == Some(true),
            merged_as: self.merge_commit_sha.filter(|_| self.merged == Some(true)),
        }
    }

    /// `by_title` answers for forges too old to say whether it is a draft.
    pub(super) fn pull_request(self, by_title: impl FnOnce(&str) -> bool) -> PullRequest {
        PullRequest {
            number: self.number,
            draft: self.draft.unwrap_or_else(|| by_title(&self.title)),
            url: self.html_url,
            head_sha: self.head.sha,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::{LineRow, PullRow, ReviewRow};
    use crate::domain::{RepoRef, ReviewState};

    #[test]
    fn a_branch_of_another_repository_is_not_ours_whatever_its_name() {
        let repo = RepoRef { forge: "f".to_owned(), id: "7".to_owned(), path: "o/n".to_owned() };
        let head_of = |head: Value| {
            let row: PullRow = from_value(json!({"number": 1, "state": "open", "head": head, "base": {"ref": "main"}})).unwrap();
            row.now(&repo).head
        };
        let name = "frognano/issue-1-a";
        assert_eq!(head_of(json!({"ref": name, "repo": {"id": 7}})).as_deref(), Some(name));
        assert_eq!(head_of(json!({"ref": name, "repo": {"id": 8}})), None);
        assert_eq!(head_of(json!({"ref": name, "repo": null})), None);
    }

    #[test]
    fn reviews_in_the_words_of_each_forge() {
        let came_to = |review: Value| from_value::<ReviewRow>(review).unwrap().review().state;
        for words in
            [json!({"state": "CHANGES_REQUESTED"}), json!({"state": "REQUEST_CHANGES"}), json!({"type": "pull_request_review_rejected"})]
        {
            assert_eq!(came_to(words.clone()), ReviewState::ChangesRequested, "{words}");
        }
        assert_eq!(came_to(json!({"state": "APPROVED"})), ReviewState::Approved);
        assert_eq!(came_to(json!({"state": "COMMENT", "body": null})), ReviewState::Commented);
        let commit = |review: Value| from_value::<ReviewRow>(review).unwrap().review().commit;
        assert_eq!(commit(json!({"commit_id": "abc"})).as_deref(), Some("abc"));
        assert_eq!((commit(json!({"commit_id": ""})), commit(json!({"commit_id": null})), commit(json!({}))), (None, None, None));
        for dismissed in [json!({"state": "DISMISSED"}), json!({"state": "APPROVED", "dismissed": true})] {
            assert_eq!(came_to(dismissed.clone()), ReviewState::Dismissed, "{dismissed}");
        }
        let by_bot = json!({"state": "APPROVED", "user": {"login": "helper[bot]", "type": "Bot"}});
        assert_eq!(came_to(by_bot), ReviewState::Commented, "only a person approves");
    }

    #[test]
    fn a_remark_names_its_line_and_a_place_in_a_diff_is_none() {
        let line = |row: Value, of_diff| from_value::<LineRow>(row).unwrap().comment(of_diff).line;
        assert_eq!(line(json!({"path": "a", "line": 12, "position": 3}), true), Some(12));
        assert_eq!(line(json!({"path": "a", "line": null, "original_line": 9, "position": 3}), true), Some(9));
        assert_eq!(line(json!({"path": "a", "position": 3}), true), None);
        assert_eq!(line(json!({"path": "a", "position": 3}), false), Some(3));
        assert_eq!(line(json!({"path": "a", "position": 0}), false), None);
    }
}
