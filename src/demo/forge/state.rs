//! What the demonstration forge knows, as plain data with look-ups. Who may do what, and who is told, is elsewhere.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Kind;
use super::accounts::{Token, User};
use super::knobs::Knobs;
use super::on::On;
use super::webhook::Delivery;
use crate::demo::git_backend;
use crate::domain::{Clock, Permission};

/// A label of a repository or organisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The forge's id of it.
    pub id: u64,
    /// The name.
    pub name: String,
    /// Six hexadecimal digits, without `#`.
    pub color: String,
    /// One sentence or nothing.
    pub description: String,
}

/// A comment.
#[derive(Debug, Clone)]
pub struct Comment {
    /// The forge's id of it.
    pub id: u64,
    /// The login of its author.
    pub author: String,
    /// The text.
    pub body: String,
    /// When it was written, in milliseconds since the epoch.
    pub created_ms: i64,
    /// When it was last changed, in milliseconds since the epoch.
    pub updated_ms: i64,
    /// The file and line that it is about (GitLab).
    pub on_line: Option<(String, i64)>,
}

/// What happened to an issue.
#[derive(Debug, Clone)]
pub enum Did {
    /// A label was put on.
    Labelled(Label),
    /// A label was taken off.
    Unlabelled(Label),
    /// It was closed.
    Closed,
    /// It was opened again.
    Reopened,
    /// The title changed.
    Renamed {
        /// The title before.
        from: String,
        /// The title after.
        to: String,
    },
    /// The comment with this id was written.
    Commented(u64),
}

/// An entry of an issue's history.
#[derive(Debug, Clone)]
pub struct Act {
    /// The forge's id of it.
    pub id: u64,
    /// The login of who did it.
    pub by: String,
    /// When, in milliseconds since the epoch.
    pub at_ms: i64,
    /// What.
    pub did: Did,
}

/// What makes an issue a pull request.
#[derive(Debug, Clone)]
pub struct Pull {
    /// The branch with the change.
    pub head: String,
    /// The branch it is for.
    pub base: String,
    /// Asked for as a draft (GitHub; on Gitea the title says it).
    pub draft: bool,
    /// The commit at the head when it was last seen.
    pub head_sha: String,
    /// The commit that it was merged as.
    pub merged_as: Option<String>,
}

/// An issue or a pull request; both share one numbering, but for GitLab.
#[derive(Debug, Clone)]
pub struct Issue {
    /// The forge's id of it.
    pub id: u64,
    /// The number shown to people.
    pub number: i64,
    /// The title.
    pub title: String,
    /// The text.
    pub body: String,
    /// The login of who opened it.
    pub author: String,
    /// Open, not closed.
    pub open: bool,
    /// Only people with write access may comment.
    pub locked: bool,
    /// It was deleted, or moved away: nobody finds it any more.
    pub gone: bool,
    /// The reviews of a pull request, oldest first.
    pub reviews: Vec<super::verdicts::Review>,
    /// Hidden from most people (GitLab).
    pub confidential: bool,
    /// Which type of work item it is (GitLab): `Issue`, `Task`, `Incident`.
    pub item: &'static str,
    /// Its labels.
    pub labels: Vec<Label>,
    /// Its comments, oldest first.
    pub comments: Vec<Comment>,
    /// Its history, oldest first.
    pub timeline: Vec<Act>,
    /// When it was opened, in milliseconds since the epoch.
    pub created_ms: i64,
    /// When it last changed, in milliseconds since the epoch.
    pub updated_ms: i64,
    /// Present for a pull request.
    pub pull: Option<Pull>,
    /// The number of the project that it was moved to (GitLab, which closes what is moved).
    pub moved_to: Option<u64>,
}

/// A webhook of a repository.
#[derive(Clone)]
pub struct Hook {
    /// The forge's id of it.
    pub id: u64,
    /// What deliveries are signed with.
    pub(crate) secret: String,
    /// Where the forge itself sends them; none where they are handed to whoever asks.
    pub(crate) url: Option<String>,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Hook").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A repository.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The forge's id of it.
    pub id: u64,
    /// `owner/name`, on GitLab with every group; found without regard to case.
    pub path: String,
    /// The bare repository on disk.
    pub git_dir: PathBuf,
    /// The branch that pull requests are for and nobody pushes to.
    pub default_branch: String,
    /// Read-only.
    pub archived: bool,
    /// Hidden from everybody without an entry in `permissions`.
    pub private: bool,
    /// What each login may do; the owner may do everything, others may read when it is not private.
    pub permissions: BTreeMap<String, Permission>,
    /// Its labels.
    pub labels: Vec<Label>,
    /// Its issues and pull requests by number.
    pub issues: Vec<Issue>,
    /// Its webhooks.
    pub hooks: Vec<Hook>,
}

impl Repository {
    /// The part of the path before the last slash.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(owner, _)| owner)
    }

    /// The part of the path after the last slash.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(self.path.as_str(), |(_, name)| name)
    }

    /// What this login may do; the empty login is a visitor.
    #[must_use]
    pub fn permission(&self, login: &str) -> Permission {
        self.membership(login).max(if self.private { Permission::None } else { Permission::Read })
    }

    /// What this login may do beyond what everybody may.
    #[must_use]
    pub fn membership(&self, login: &str) -> Permission {
        if !login.is_empty() && self.owner().eq_ignore_ascii_case(login) {
            return Permission::Admin;
        }
        let given = self.permissions.iter().find(|(who, _)| who.eq_ignore_ascii_case(login)).map(|(_, permission)| *permission);
        given.unwrap_or(Permission::None)
    }

    /// Whether it has no branch at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        git_backend::is_empty(&self.git_dir)
    }

    /// The commit at the tip of a branch now.
    #[must_use]
    pub fn branch_tip(&self, branch: &str) -> Option<String> {
        git_backend::branch_tip(&self.git_dir, branch)
    }

    /// The commit at the head of a pull request: the branch's tip while it is open and the branch is there, else the last one seen.
    #[must_use]
    pub fn head_sha(&self, issue: &Issue, pull: &Pull) -> String {
        issue.open.then(|| self.branch_tip(&pull.head)).flatten().unwrap_or_else(|| pull.head_sha.clone())
    }

    /// The issue with this number, or where there is none the pull request.
    #[must_use]
    pub fn issue(&self, on: impl Into<On>) -> Option<&Issue> {
        self.position(on).map(|position| &self.issues[position])
    }

    fn position(&self, on: impl Into<On>) -> Option<usize> {
        let (number, only_pulls) = match on.into() {
            On::Any(number) => (number, false),
            On::PullRequest(number) => (number, true),
        };
        let fits = |issue: &Issue| issue.number == number && (!only_pulls || issue.pull.is_some());
        let with_number = self.issues.iter().enumerate().filter(|(_, issue)| fits(issue));
        with_number.min_by_key(|(_, issue)| issue.pull.is_some()).map(|(position, _)| position)
    }
}

/// Where an issue is kept: positions in the lists, valid as long as nothing is ever removed from them, and nothing is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub repository: usize,
    pub issue: usize,
}

/// Everything that the forge knows.
pub struct State {
    /// Which forge is played.
    pub kind: Kind,
    /// `http://host:port` without a slash at the end, as it stands in addresses that the forge hands out.
    pub base_url: String,
    /// All accounts.
    pub users: Vec<User>,
    /// All repositories.
    pub repositories: Vec<Repository>,
    /// The labels that an organisation offers to all its repositories.
    pub organization_labels: BTreeMap<String, Vec<Label>>,
    /// Where repositories are made that people ask for through the API; none refuses that.
    pub new_repositories: Option<PathBuf>,
    /// Who was invited and has not accepted yet (GitHub): id, repository, login, what they will be able to do.
    pub(super) invitations: Vec<(u64, usize, String, Permission)>,
    /// What GitLab took out of texts and carried out, as `login: /line`.
    pub quick_actions: Vec<String>,
    /// Deliveries that nobody took yet.
    pub(super) outbox: Vec<Delivery>,
    /// Deliveries that the forge itself sends, with their addresses.
    pub(super) post: Vec<(String, Delivery)>,
    pub(super) tokens: BTreeMap<String, Token>,
    pub(super) knobs: Knobs,
    pub(super) oauth: super::oauth::OAuth,
    pub(super) app: Option<super::github::App>,
    /// Webhooks of groups and of the whole instance (GitLab).
    pub(super) hooks_above: Vec<super::gitlab::Above>,
    /// The members of each `organization/team`.
    pub teams: BTreeMap<String, Vec<String>>,
    /// Who was asked to review: repository id, number, login or team.
    pub review_requests: Vec<(u64, i64, String)>,
    /// A merge request keeps one reviewer, as without a licence (GitLab).
    pub one_reviewer: bool,
    /// What the receiver of every webhook answered lately.
    pub hook_tries: Vec<u16>,
    /// Whether default branches show as protected from whoever is no administrator.
    pub protected: bool,
    /// The rules of rulesets for each branch, as GitHub lists them; where there are none, those of `protection`.
    pub rules: BTreeMap<String, serde_json::Value>,
    /// What it takes to merge into them.
    pub protection: super::approvals::Protection,
    pub(super) versions: super::approvals::Versions,
    /// Every check run of GitHub Apps, oldest first.
    pub check_runs: Vec<super::requests::Status>,
    /// GitLab does not say when somebody approved, as older versions do not.
    pub old_approvals: bool,
    /// Every status that was put on a commit, oldest first.
    pub statuses: Vec<super::requests::Status>,
    clock: Arc<dyn Clock>,
    last_id: u64,
}

impl State {
    pub(super) fn new(kind: Kind, clock: Arc<dyn Clock>) -> Self {
        Self {
            kind,
            base_url: "http://127.0.0.1".to_owned(),
            users: Vec::new(),
            repositories: Vec::new(),
            organization_labels: BTreeMap::new(),
            new_repositories: None,
            invitations: Vec::new(),
            quick_actions: Vec::new(),
            outbox: Vec::new(),
            post: Vec::new(),
            tokens: BTreeMap::new(),
            knobs: Knobs::default(),
            oauth: super::oauth::OAuth::default(),
            app: None,
            hooks_above: Vec::new(),
            teams: BTreeMap::new(),
            review_requests: Vec::new(),
            one_reviewer: false,
            hook_tries: vec![202, 202],
            protected: true,
            rules: BTreeMap::new(),
            protection: super::approvals::Protection::default(),
            versions: super::approvals::Versions::new(),
            check_runs: Vec::new(),
            old_approvals: false,
            statuses: Vec::new(),
            clock,
            last_id: 100,
        }
    }

    /// A number that nothing else has.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A UUID that nothing else has: the time in front, so that it is new in every run of the program.
    pub(super) fn next_uuid(&mut self) -> String {
        let (time, id) = (self.now_ms(), self.next_id());
        format!("{:08x}-{:04x}-4000-8000-{id:012x}", (time >> 16) & 0xffff_ffff, time & 0xffff)
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// What this token is, unless it has ended.
    pub(super) fn live_token(&self, token: &str) -> Option<&Token> {
        self.tokens.get(token).filter(|token| token.ends_ms.is_none_or(|ends| self.now_ms() < ends))
    }

    /// The webhooks of a repository, as GitHub and Gitea write them: both lead to the entry `here` of a service.
    pub(super) fn hooks_of(&self, here: usize) -> serde_json::Value {
        let hooks = self.repositories[here].hooks.iter().map(|hook| {
            let config = serde_json::json!({"url": "https://bot.example.com/webhooks/here", "content_type": "json", "insecure_ssl": "0"});
            let events = ["issues", "issue_label", "issue_comment", "label", "pull_request", "pull_request_review", "repository"];
            serde_json::json!({"id": hook.id, "active": true, "events": events, "config": config})
        });
        hooks.collect()
    }

    /// The account with this login.
    #[must_use]
    pub fn user(&self, login: &str) -> Option<&User> {
        self.users.iter().find(|user| user.login.eq_ignore_ascii_case(login))
    }

    /// The repository with this path.
    #[must_use]
    pub fn repository(&self, path: &str) -> Option<&Repository> {
        self.repositories.iter().find(|repository| repository.path.eq_ignore_ascii_case(path))
    }

    pub(super) fn repository_position(&self, path: &str) -> Option<usize> {
        self.repositories.iter().position(|repository| repository.path.eq_ignore_ascii_case(path))
    }

    pub(super) fn spot(&self, repository: usize, on: impl Into<On>) -> Option<Spot> {
        let issue = self.repositories[repository].position(on)?;
        (!self.repositories[repository].issues[issue].gone).then_some(Spot { repository, issue })
    }

    pub(super) fn at(&self, spot: Spot) -> (&Repository, &Issue) {
        let repository = &self.repositories[spot.repository];
        (repository, &repository.issues[spot.issue])
    }

    pub(super) fn issue_mut(&mut self, spot: Spot) -> &mut Issue {
        &mut self.repositories[spot.repository].issues[spot.issue]
    }

    /// Whether the forge takes this pull request for a draft.
    #[must_use]
    pub fn is_draft(&self, issue: &Issue, pull: &Pull) -> bool {
        let title = issue.title.to_ascii_uppercase();
        let begins = |prefixes: &[&str]| self.knobs.drafts_supported && prefixes.iter().any(|prefix| title.starts_with(prefix));
        match self.kind {
            Kind::GitHub => pull.draft,
            Kind::Gitea | Kind::Forgejo => begins(&["WIP:", "[WIP]"]),
            Kind::GitLab => begins(&["DRAFT:", "[DRAFT]", "(DRAFT)"]),
        }
    }
}

/// A time as all forges write it.
pub(super) fn timestamp(ms: i64) -> String {
    OffsetDateTime::from_unix_timestamp(ms.div_euclid(1000)).ok().and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// The same to the millisecond.
pub(super) fn exact_timestamp(ms: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    time.ok().and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
