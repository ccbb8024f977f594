//! What people do with a pull request until it is merged: approve it, take that back, push to its branch, press the button.
//!
//! A forge remembers which commit was at the head when; GitLab tells approvals by their time alone.

use std::collections::BTreeMap;

use super::state::{Spot, State};
use super::verdicts::{NewReview, Verdict};
use super::webhook::{Delivery, News};
use super::{Forge, Kind, Mistake};
use crate::demo::git_backend;
use crate::domain::Permission;

/// What the default branch demands of a merge.
#[derive(Debug, Clone)]
pub struct Protection {
    /// The statuses that must be green at the head.
    pub statuses: Vec<String>,
    /// How many approvals by people with write access.
    pub approvals: usize,
    /// Whether who may write may merge, once all else is there.
    pub writers_may_merge: bool,
    /// Whether administrators may merge without all that.
    pub administrators_pass: bool,
}

impl Default for Protection {
    fn default() -> Self {
        Self { statuses: vec!["frognano/human-review".to_owned()], approvals: 1, writers_may_merge: false, administrators_pass: false }
    }
}

/// The commits that were at the head of each pull request, by its id, with the time since when, oldest first.
pub(super) type Versions = BTreeMap<u64, Vec<(String, i64)>>;

impl Forge {
    /// Approves a pull request as it stands now.
    ///
    /// # Errors
    /// When the pull request or the account is not there.
    pub fn approve(&self, repository: &str, number: i64, by: &str) -> Result<Vec<Delivery>, Mistake> {
        let approval = NewReview { verdict: Verdict::Approved, body: "", lines: &[] };
        self.on_pull(repository, number, by, |state, spot, by| state.review(spot, by, &approval))
    }

    /// Takes the approvals of a reviewer back: on GitLab the reviewer does it, elsewhere `by` dismisses them. Gitea tells no hook of it.
    ///
    /// # Errors
    /// When the pull request or the account is not there.
    pub fn dismiss(&self, repository: &str, number: i64, reviewer: &str, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.on_pull(repository, number, by, |state, spot, by| state.dismiss(spot, reviewer, by))
    }

    /// Pushes a commit with this file to the branch of a pull request.
    ///
    /// # Errors
    /// When the pull request or the account is not there, or git refuses.
    pub fn push_to(&self, repository: &str, number: i64, by: &str, file: &str) -> Result<Vec<Delivery>, Mistake> {
        let mut failed = None;
        let told = self.on_pull(repository, number, by, |state, spot, by| {
            let (repository, issue) = state.at(spot);
            let Some(pull) = issue.pull.clone() else { return };
            let before = repository.head_sha(issue, &pull);
            match git_backend::commit_file(&repository.git_dir, &pull.head, file, by) {
                Ok(()) => {
                    state.observe(spot);
                    state.announce(spot, by, &News::Pushed { before });
                }
                Err(error) => failed = Some(Mistake(error.to_string())),
            }
        })?;
        failed.map_or(Ok(told), Err)
    }

    /// Presses the button that merges: the branch it is for has a merge commit then, and the pull request is over.
    ///
    /// # Errors
    /// What the forge says when the protection of the branch does not let it through, or nobody of that name may.
    pub fn merge(&self, repository: &str, number: i64, by: &str) -> Result<Vec<Delivery>, Mistake> {
        let mut refused = None;
        let told = self.on_pull(repository, number, by, |state, spot, by| match state.holds_back(spot, by) {
            Some(why) => refused = Some(Mistake(why)),
            None => match state.merge(spot, by) {
                Ok(()) => state.set_open(spot, by, false),
                Err(error) => refused = Some(Mistake(error.to_string())),
            },
        })?;
        refused.map_or(Ok(told), Err)
    }

    fn on_pull(&self, repository: &str, number: i64, by: &str, act: impl FnOnce(&mut State, Spot, &str)) -> Result<Vec<Delivery>, Mistake> {
        let mut state = self.state();
        let (position, by) = (state.need_repository(repository)?, state.login(by)?);
        let is_it = |issue: &super::Issue| issue.number == number && issue.pull.is_some();
        let found = state.repositories[position].issues.iter().position(is_it);
        let issue = found.ok_or_else(|| Mistake(format!("there is no pull request {number} in `{repository}`")))?;
        let before = state.outbox.len();
        act(&mut state, Spot { repository: position, issue }, &by);
        Ok(state.outbox.split_off(before))
    }
}

impl State {
    /// Notes which commit is at the head of a pull request now, and answers a time that is after that.
    pub(super) fn observe(&mut self, spot: Spot) -> i64 {
        let (repository, issue) = self.at(spot);
        let (id, now) = (issue.id, self.now_ms());
        let Some(pull) = &issue.pull else { return now };
        let head = repository.head_sha(issue, pull);
        let versions = self.versions.entry(id).or_default();
        let since = versions.last().map_or(now, |(_, since)| now.max(since + 1));
        if versions.last().is_none_or(|(last, _)| *last != head) {
            versions.push((head, since));
        }
        since + 1
    }

    fn merge(&mut self, spot: Spot, by: &str) -> std::io::Result<()> {
        let (repository, issue) = self.at(spot);
        let Some(pull) = &issue.pull else { return Ok(()) };
        let place = if self.kind == Kind::GitLab { "merge-requests" } else { "pull" };
        let kept = format!("refs/{place}/{}/head", issue.number);
        let merged = git_backend::merge(&repository.git_dir, (&pull.base, &pull.head), &kept, by)?;
        if let Some(pull) = &mut self.issue_mut(spot).pull {
            pull.merged_as = Some(merged);
        }
        Ok(())
    }

    fn dismiss(&mut self, spot: Spot, reviewer: &str, by: &str) {
        let is_it = |review: &&mut super::Review| review.verdict == Verdict::Approved && review.author.eq_ignore_ascii_case(reviewer);
        let reviews = self.issue_mut(spot).reviews.iter_mut().filter(is_it);
        let dismissed = reviews.map(|review| {
            review.dismissed = true;
            review.clone()
        });
        let Some(last) = dismissed.last() else { return };
        match self.kind {
            Kind::GitHub => self.tell_of_review(spot, by, &last, "dismissed"),
            Kind::GitLab => self.announce(spot, by, &News::Unapproved),
            Kind::Gitea | Kind::Forgejo => {}
        }
    }

    /// What the protection of the branch says against a merge by this person; none when nothing does.
    fn holds_back(&self, spot: Spot, by: &str) -> Option<String> {
        let (repository, issue) = self.at(spot);
        let pull = issue.pull.as_ref()?;
        let may = repository.permission(by);
        if may < Permission::Write {
            return Some(format!("{by} may not merge here"));
        }
        if self.is_draft(issue, pull) {
            return Some("the pull request is a draft".to_owned());
        }
        let rules = &self.protection;
        if !self.protected || (rules.administrators_pass && may == Permission::Admin) {
            return None;
        }
        if may < Permission::Admin && !rules.writers_may_merge {
            return Some(format!("{by} is not on the list of who may merge"));
        }
        let head = repository.head_sha(issue, pull);
        let is_green =
            |context: &&String| self.latest_status(repository.id, &head, context).is_some_and(|status| status.state == "success");
        if let Some(missing) = rules.statuses.iter().find(|context| !is_green(context)) {
            return Some(format!("required status check {missing} is not green at {head}"));
        }
        let is_red = |run: &&super::Status| run.repository == repository.id && run.commit == head && rules.statuses.contains(&run.context);
        if let Some(run) = self.check_runs.iter().rfind(is_red).filter(|run| run.state != "success") {
            return Some(format!("required check run {} is not green at {head}", run.context));
        }
        let approves = |review: &&super::Review| {
            review.verdict == Verdict::Approved
                && !review.dismissed
                && review.author != issue.author
                && repository.permission(&review.author) >= Permission::Write
        };
        let approvals = issue.reviews.iter().filter(approves).count();
        (approvals < rules.approvals).then(|| format!("{} approvals are required, there are {approvals}", rules.approvals))
    }
}
