//! What can happen on the forge. Each act changes the state, writes the history and tells the hooks, whoever does it and by which way.

use super::Kind;
use super::state::{Act, Comment, Did, Issue, Label, Pull, Repository, Spot, State};
use super::webhook::News;

impl State {
    fn record(&mut self, spot: Spot, by: &str, did: Did) {
        let (id, at_ms) = (self.next_id(), self.now_ms());
        let issue = self.issue_mut(spot);
        issue.timeline.push(Act { id, by: by.to_owned(), at_ms, did });
        issue.updated_ms = at_ms;
    }

    /// Opens an issue, or a pull request when `pull` is given; the labels must be the repository's.
    pub(super) fn open(&mut self, repository: usize, by: &str, title: &str, body: &str, pull: Option<Pull>) -> Spot {
        let spot = self.enter(repository, by, title, body, pull);
        self.announce(spot, by, &News::Opened);
        spot
    }

    /// Opens an issue that carries labels from the start, of which the hooks are told at once (GitLab).
    pub(super) fn open_labelled(&mut self, repository: usize, by: &str, title: &str, body: &str, labels: Vec<Label>) -> Spot {
        let spot = self.enter(repository, by, title, body, None);
        for label in labels {
            self.issue_mut(spot).labels.push(label.clone());
            self.record(spot, by, Did::Labelled(label));
        }
        self.announce(spot, by, &News::Opened);
        spot
    }

    fn enter(&mut self, repository: usize, by: &str, title: &str, body: &str, pull: Option<Pull>) -> Spot {
        let (id, now) = (self.next_id(), self.now_ms());
        let numbered_apart = self.kind == Kind::GitLab;
        let issues = &mut self.repositories[repository].issues;
        let same = issues.iter().filter(|issue| !numbered_apart || issue.pull.is_some() == pull.is_some());
        let number = same.map(|issue| issue.number).max().unwrap_or(0) + 1;
        issues.push(Issue {
            id,
            number,
            title: title.to_owned(),
            body: body.to_owned(),
            author: by.to_owned(),
            open: true,
            locked: false,
            gone: false,
            reviews: Vec::new(),
            confidential: false,
            item: "Issue",
            labels: Vec::new(),
            comments: Vec::new(),
            timeline: Vec::new(),
            created_ms: now,
            updated_ms: now,
            pull,
            moved_to: None,
        });
        Spot { repository, issue: issues.len() - 1 }
    }

    /// Makes a label in the repository.
    pub(super) fn make_label(&mut self, repository: usize, name: &str, color: &str, description: &str) -> Label {
        let id = self.next_id();
        let label = Label {
            id,
            name: name.to_owned(),
            color: color.trim_start_matches('#').to_ascii_lowercase(),
            description: description.to_owned(),
        };
        self.repositories[repository].labels.push(label.clone());
        label
    }

    /// The label of this name that the repository may use, its own before its organisation's; GitLab alone tells names apart by case.
    pub(super) fn label_named<'a>(&'a self, repository: &'a Repository, name: &str) -> Option<&'a Label> {
        let is_it = |label: &&Label| label.name == name || (self.kind != Kind::GitLab && label.name.eq_ignore_ascii_case(name));
        self.labels_of(repository).find(is_it)
    }

    /// All labels that a repository may use.
    pub(super) fn labels_of<'a>(&'a self, repository: &'a Repository) -> impl Iterator<Item = &'a Label> {
        repository.labels.iter().chain(self.organization_labels.get(repository.owner()).into_iter().flatten())
    }

    /// Puts a label on. One that is there already leaves no trace in the history; Gitea and Forgejo tell their hooks all the same.
    pub(super) fn put_label(&mut self, spot: Spot, by: &str, label: Label) {
        let is_new = !self.at(spot).1.labels.iter().any(|there| there.id == label.id);
        if is_new {
            self.issue_mut(spot).labels.push(label.clone());
            self.record(spot, by, Did::Labelled(label.clone()));
        }
        if is_new || self.kind.is_gitea_or_its_fork() {
            self.announce(spot, by, &News::Labelled(label));
        }
    }

    /// Takes a label off; false when it was not there.
    pub(super) fn take_label(&mut self, spot: Spot, by: &str, id: u64) -> bool {
        let Some(position) = self.at(spot).1.labels.iter().position(|label| label.id == id) else { return false };
        let label = self.issue_mut(spot).labels.remove(position);
        self.record(spot, by, Did::Unlabelled(label.clone()));
        self.announce(spot, by, &News::Unlabelled(label));
        true
    }

    /// Opens or closes; nothing happens when it is so already.
    pub(super) fn set_open(&mut self, spot: Spot, by: &str, open: bool) {
        let (repository, issue) = self.at(spot);
        if issue.open == open {
            return;
        }
        let last_seen = issue.pull.as_ref().map(|pull| repository.head_sha(issue, pull));
        let issue = self.issue_mut(spot);
        issue.open = open;
        if let (Some(pull), Some(sha)) = (&mut issue.pull, last_seen) {
            pull.head_sha = sha;
        }
        let (did, news) = if open { (Did::Reopened, News::Reopened) } else { (Did::Closed, News::Closed) };
        self.record(spot, by, did);
        self.announce(spot, by, &news);
    }

    /// Locks it.
    pub(super) fn lock(&mut self, spot: Spot, by: &str) {
        self.issue_mut(spot).locked = true;
        self.announce(spot, by, &News::Locked);
    }

    /// Moves it to another project, where the issue with this id takes its place: this one is closed (GitLab).
    pub(super) fn move_away(&mut self, spot: Spot, by: &str, to: u64) {
        self.issue_mut(spot).moved_to = Some(to);
        self.set_open(spot, by, false);
    }

    /// Takes it away for good; `how` is the forge's word for it.
    pub(super) fn take_away(&mut self, spot: Spot, by: &str, how: &'static str) {
        self.announce(spot, by, &News::Gone(how));
        self.issue_mut(spot).gone = true;
    }

    /// Changes title, text or both; nothing happens when neither changes.
    pub(super) fn edit(&mut self, spot: Spot, by: &str, title: Option<&str>, body: Option<&str>) {
        let now = self.now_ms();
        let issue = self.issue_mut(spot);
        let replaced = |old: &mut String, new: Option<&str>| {
            let new = new.filter(|new| new != old)?;
            Some(std::mem::replace(old, new.to_owned()))
        };
        let title_from = replaced(&mut issue.title, title);
        let body_from = replaced(&mut issue.body, body);
        issue.updated_ms = now;
        if let Some(from) = title_from.clone() {
            let to = issue.title.clone();
            self.record(spot, by, Did::Renamed { from, to });
        }
        if title_from.is_some() || body_from.is_some() {
            self.announce(spot, by, &News::Edited { title_from, body_from });
        }
    }

    /// Writes a comment and answers its id.
    pub(super) fn comment(&mut self, spot: Spot, by: &str, body: &str) -> Comment {
        self.comment_on(spot, by, body, None)
    }

    /// The same on a line of a file.
    pub(super) fn comment_on(&mut self, spot: Spot, by: &str, body: &str, on_line: Option<(String, i64)>) -> Comment {
        let (id, now) = (self.next_id(), self.now_ms());
        let comment = Comment { id, author: by.to_owned(), body: body.to_owned(), created_ms: now, updated_ms: now, on_line };
        self.issue_mut(spot).comments.push(comment.clone());
        self.record(spot, by, Did::Commented(id));
        self.announce(spot, by, &News::Commented(id));
        comment
    }

    /// Where a comment of the repository is.
    pub(super) fn comment_spot(&self, repository: usize, id: u64) -> Option<Spot> {
        let has = |issue: &Issue| issue.comments.iter().any(|comment| comment.id == id);
        let issue = self.repositories[repository].issues.iter().position(has)?;
        Some(Spot { repository, issue })
    }

    /// Replaces the text of a comment.
    pub(super) fn edit_comment(&mut self, spot: Spot, by: &str, id: u64, body: &str) -> Option<Comment> {
        let now = self.now_ms();
        let comment = self.issue_mut(spot).comments.iter_mut().find(|comment| comment.id == id)?;
        let from = std::mem::replace(&mut comment.body, body.to_owned());
        comment.updated_ms = now;
        let comment = comment.clone();
        self.announce(spot, by, &News::CommentEdited { id, from });
        Some(comment)
    }
}
