//! Comments of ours: found again by a hidden marker before anything is written, and not more of them than are allowed.

use async_trait::async_trait;

use crate::domain::RepoRef;
use crate::forge::{Comment, Forge, ForgeError};

use super::text;

/// How many comments may be written: what would let two machines talk to each other for ever ends here.
#[async_trait]
pub trait Allowance: Send + Sync {
    /// Takes the right to write one more comment on this issue or pull request; false when there is none left for now.
    async fn take(&self, repo: &RepoRef, number: i64) -> Result<bool, ForgeError>;
}

/// No limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

#[async_trait]
impl Allowance for Unlimited {
    async fn take(&self, _: &RepoRef, _: i64) -> Result<bool, ForgeError> {
        Ok(true)
    }
}

/// Where comments are written: an issue, or a pull request.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The forge.
    pub forge: &'a dyn Forge,
    /// The repository.
    pub repo: &'a RepoRef,
    /// The number shown to people.
    pub number: i64,
    /// It is a pull request.
    pub on_pull_request: bool,
    /// How many there may be.
    pub allowance: &'a dyn Allowance,
}

impl Place<'_> {
    /// Says something once: what stands there under this key already is left as it is. False when no more may be said here for now.
    ///
    /// # Errors
    /// When the forge does not take it.
    pub async fn say_once(&self, key: &str, words: &str) -> Result<bool, ForgeError> {
        let marker = text::answer_marker(key);
        if self.find(&marker).await?.is_some() {
            return Ok(true);
        }
        Ok(self.write(&format!("{marker}\n{words}")).await?.is_some())
    }

    /// Whether any job of ours has spoken here.
    ///
    /// # Errors
    /// When the forge does not answer.
    pub async fn has_status(&self) -> Result<bool, ForgeError> {
        Ok(self.find(text::MARKER).await?.is_some())
    }

    /// Whether it is an issue that most people can't see (any more).
    ///
    /// # Errors
    /// When the forge does not answer.
    pub async fn is_hidden(&self) -> Result<bool, ForgeError> {
        Ok(!self.on_pull_request && self.forge.issue(self.repo, self.number).await?.confidential)
    }

    async fn find(&self, marker: &str) -> Result<Option<Comment>, ForgeError> {
        let myself = self.forge.myself().await?;
        let comments = if self.on_pull_request {
            self.forge.pull_request_comments(self.repo, self.number).await?
        } else {
            self.forge.comments(self.repo, self.number).await?
        };
        Ok(comments.into_iter().find(|comment| comment.author == myself.login && comment.body.contains(marker)))
    }

    async fn write(&self, body: &str) -> Result<Option<Comment>, ForgeError> {
        if !self.allowance.take(self.repo, self.number).await? {
            tracing::warn!(repo = self.repo.path, number = self.number, "no more comments here within this hour");
            return Ok(None);
        }
        if self.on_pull_request {
            self.forge.comment_on_pull_request(self.repo, self.number, body).await.map(Some)
        } else {
            self.forge.comment(self.repo, self.number, body).await.map(Some)
        }
    }
}

/// The one status comment of a job: found again by its marker, edited as the work goes on.
pub struct StatusComment<'a> {
    place: Place<'a>,
    job: &'a str,
    known: Option<Comment>,
}

impl<'a> StatusComment<'a> {
    /// The comment of a job; nothing is read or written yet.
    #[must_use]
    pub const fn new(place: Place<'a>, job: &'a str) -> Self {
        Self { place, job, known: None }
    }

    /// Where it is written.
    #[must_use]
    pub const fn place(&self) -> &Place<'a> {
        &self.place
    }

    /// The job.
    #[must_use]
    pub const fn job(&self) -> &str {
        self.job
    }

    /// Writes or replaces the comment; a text that stands there already is left alone, and on an issue that is confidential by now not a word
    /// is written or changed.
    ///
    /// # Errors
    /// When the forge does not take it.
    pub async fn write(&mut self, body: &str) -> Result<(), ForgeError> {
        if self.place.is_hidden().await? {
            return Ok(());
        }
        if self.known.is_none() {
            self.known = self.place.find(&text::marker(self.job)).await?;
        }
        match &mut self.known {
            Some(comment) if comment.body.trim() == body.trim() => {}
            Some(comment) => match self.place.forge.edit_comment(self.place.repo, &comment.id, body).await {
                Ok(()) => body.clone_into(&mut comment.body),
                // Somebody deleted it.
                Err(ForgeError::NotFound { .. }) => self.known = self.place.write(body).await?,
                Err(error) => return Err(error),
            },
            None => self.known = self.place.write(body).await?,
        }
        Ok(())
    }
}
