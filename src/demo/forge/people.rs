//! What people do on the forge's pages. Real forges check rights there too, but a story must be able to begin with anything: here nobody is refused.

use super::Kind;
use super::state::{Label, Spot};
use super::verdicts::NewReview;
use super::webhook::Delivery;
use super::{Forge, Mistake, On, State};

/// An issue that was opened.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its number.
    pub number: i64,
    /// What the forge sends.
    pub deliveries: Vec<Delivery>,
}

impl Forge {
    /// Opens an issue with these labels, which are made when missing (a form may label in the name of a reader).
    ///
    /// # Errors
    /// When the repository or the account is not there.
    pub fn open_issue(&self, repository: &str, by: &str, title: &str, body: &str, labels: &[&str]) -> Result<Opened, Mistake> {
        let mut state = self.state();
        let (position, by) = (state.need_repository(repository)?, state.login(by)?);
        let before = state.outbox.len();
        let labels: Vec<_> = labels.iter().map(|name| state.label_or_make(position, name)).collect();
        let spot = if state.kind == Kind::GitLab {
            state.open_labelled(position, &by, title, body, labels)
        } else {
            let spot = state.open(position, &by, title, body, None);
            labels.into_iter().for_each(|label| state.put_label(spot, &by, label));
            spot
        };
        Ok(Opened { number: state.at(spot).1.number, deliveries: state.outbox.split_off(before) })
    }

    /// Puts a label on an issue or pull request; the label is made when missing.
    ///
    /// # Errors
    /// When the issue or the account is not there.
    pub fn set_label(&self, repository: &str, on: impl Into<On>, label: &str, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| state.label_by_name(spot, by, label))
    }

    /// Takes a label off; without it, nothing happens and nothing is sent.
    ///
    /// # Errors
    /// When the issue or the account is not there.
    pub fn remove_label(&self, repository: &str, on: impl Into<On>, label: &str, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| {
            let found = state.at(spot).1.labels.iter().find(|there| there.name.eq_ignore_ascii_case(label)).map(|label| label.id);
            if let Some(id) = found {
                state.take_label(spot, by, id);
            }
        })
    }

    /// Closes an issue or pull request.
    ///
    /// # Errors
    /// When the issue or the account is not there.
    pub fn close_issue(&self, repository: &str, on: impl Into<On>, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| state.set_open(spot, by, false))
    }

    /// Opens an issue or pull request again.
    ///
    /// # Errors
    /// When the issue or the account is not there.
    pub fn reopen_issue(&self, repository: &str, on: impl Into<On>, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| state.set_open(spot, by, true))
    }

    /// Locks an issue or pull request.
    ///
    /// # Errors
    /// When the issue or the account is not there.
    pub fn lock_issue(&self, repository: &str, on: impl Into<On>, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| state.lock(spot, by))
    }

    /// Deletes an issue.
    ///
    /// # Errors
    /// When the issue or the account is not there.
    pub fn delete_issue(&self, repository: &str, on: impl Into<On>, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| state.take_away(spot, by, "deleted"))
    }

    /// Moves an issue to another repository that nobody here sees: on GitHub it is gone, on GitLab it is closed. The others can't.
    ///
    /// # Errors
    /// When the issue or the account is not there.
    pub fn transfer_issue(&self, repository: &str, on: impl Into<On>, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| match state.kind {
            Kind::GitLab => {
                let to = state.next_id();
                state.move_away(spot, by, to);
            }
            _ => state.take_away(spot, by, "transferred"),
        })
    }

    /// Reviews a pull request, with remarks on lines.
    ///
    /// # Errors
    /// When the pull request or the account is not there.
    pub fn review(&self, repository: &str, on: impl Into<On>, by: &str, review: NewReview<'_>) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| state.review(spot, by, &review))
    }

    /// Replaces title and text.
    ///
    /// # Errors
    /// When the issue or the account is not there.
    pub fn edit_issue(&self, repository: &str, on: impl Into<On>, title: &str, body: &str, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| state.edit(spot, by, Some(title), Some(body)))
    }

    /// Writes a comment.
    ///
    /// # Errors
    /// When the issue or the account is not there.
    pub fn write_comment(&self, repository: &str, on: impl Into<On>, body: &str, by: &str) -> Result<Vec<Delivery>, Mistake> {
        self.act(repository, on, by, |state, spot, by| {
            state.comment(spot, by, body);
        })
    }

    fn act(
        &self,
        repository: &str,
        on: impl Into<On>,
        by: &str,
        act: impl FnOnce(&mut State, Spot, &str),
    ) -> Result<Vec<Delivery>, Mistake> {
        let mut state = self.state();
        let (position, by) = (state.need_repository(repository)?, state.login(by)?);
        let on = on.into();
        let spot = state.spot(position, on).ok_or_else(|| Mistake(format!("there is no issue {on} in `{repository}`")))?;
        let before = state.outbox.len();
        act(&mut state, spot, &by);
        Ok(state.outbox.split_off(before))
    }
}

impl State {
    fn label_by_name(&mut self, spot: Spot, by: &str, name: &str) {
        let label = self.label_or_make(spot.repository, name);
        self.put_label(spot, by, label);
    }

    /// The label of this name, made when it is missing.
    pub(super) fn label_or_make(&mut self, repository: usize, name: &str) -> Label {
        let label = self.label_named(&self.repositories[repository], name).cloned();
        label.unwrap_or_else(|| self.make_label(repository, name, "1f883d", ""))
    }
}
