//! The candidate: changed files on top of the base commit, written by us, without a work tree, index or hook.

use crate::domain::{Attribution, BlobMode, ChangedFile, ObjectId, RunId};

use super::GitError;
use super::mirror::{Mirror, attempt_reference, judged_reference, statement_reference};

/// What a commit of ours says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitMessage {
    /// The whole message, trailers included.
    pub text: String,
    /// Author and committer: the bot.
    pub by: Attribution,
    /// When, in seconds since the Unix epoch.
    pub at: i64,
}

impl Mirror {
    /// Puts changed files on `base` as one commit of the mirror, under a reference of the run's attempt (from 1): the commits of its other
    /// attempts stay.
    ///
    /// # Errors
    /// [`GitError::Unacceptable`] when git refuses a path.
    pub async fn commit(
        &self,
        (run, attempt): (&RunId, u32),
        base: &ObjectId,
        changed: &[ChangedFile],
        message: &CommitMessage,
    ) -> Result<ObjectId, GitError> {
        let reference = attempt_reference(run, attempt);
        self.git.run(&self.folder, &["update-ref", "-d", &reference]).await.ok();
        self.commit_at(&reference, Some(base), changed, message).await
    }

    /// A commit with these files alone and without a parent, kept for the run: the same call makes the same commit.
    ///
    /// # Errors
    /// As [`Mirror::commit`].
    pub async fn commit_alone(&self, run: &RunId, files: &[ChangedFile], message: &CommitMessage) -> Result<ObjectId, GitError> {
        self.commit_on(&statement_reference(run), None, files, message).await
    }

    /// Files on top of a commit, under a reference of the mirror that is made anew.
    ///
    /// # Errors
    /// As [`Mirror::commit`].
    pub async fn commit_on(
        &self,
        reference: &str,
        base: Option<&ObjectId>,
        files: &[ChangedFile],
        message: &CommitMessage,
    ) -> Result<ObjectId, GitError> {
        self.git.run(&self.folder, &["update-ref", "-d", reference]).await.ok();
        self.commit_at(reference, base, files, message).await
    }

    /// The same under a reference for the judge alone (the patched tree with the tests of base put back).
    ///
    /// # Errors
    /// As [`Mirror::commit`].
    pub async fn commit_for_judging(
        &self,
        run: &RunId,
        base: &ObjectId,
        changed: &[ChangedFile],
        message: &CommitMessage,
    ) -> Result<ObjectId, GitError> {
        let reference = judged_reference(run);
        self.git.run(&self.folder, &["update-ref", "-d", &reference]).await.ok();
        let commit = self.commit_at(&reference, Some(base), changed, message).await?;
        Ok(commit)
    }

    async fn commit_at(
        &self,
        reference: &str,
        base: Option<&ObjectId>,
        changed: &[ChangedFile],
        message: &CommitMessage,
    ) -> Result<ObjectId, GitError> {
        let stream = import_stream(reference, base, changed, message);
        match self.git.feed(&self.folder, &["fast-import", "--quiet", "--done", "--date-format=raw"], stream).await {
            Ok(_) => self.resolve(reference).await,
            Err(GitError::Failed(said)) if said.contains("Invalid path") || said.contains("invalid path") => {
                Err(GitError::Unacceptable(said))
            }
            Err(error) => Err(error),
        }
    }

    /// The patch between two commits in git's own binary form, as `git apply` takes it.
    ///
    /// # Errors
    /// When a commit is missing.
    pub async fn patch(&self, base: &ObjectId, commit: &ObjectId) -> Result<Vec<u8>, GitError> {
        let args =
            ["diff", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", base.as_str(), commit.as_str(), "--"];
        self.git.run(&self.folder, &args).await
    }

    /// The lines added and removed, path by path; 0 and 0 for binary files.
    ///
    /// # Errors
    /// When a commit is missing.
    pub async fn line_counts(&self, base: &ObjectId, commit: &ObjectId) -> Result<Vec<(String, u64, u64)>, GitError> {
        let args = ["diff", "--numstat", "-z", "--no-ext-diff", "--no-textconv", base.as_str(), commit.as_str(), "--"];
        let listed = self.git.run(&self.folder, &args).await?;
        let rows = listed.split(|byte| *byte == 0).filter(|row| !row.is_empty());
        Ok(rows.filter_map(|row| numstat(&String::from_utf8_lossy(row))).collect())
    }
}

fn numstat(row: &str) -> Option<(String, u64, u64)> {
    let mut parts = row.splitn(3, '\t');
    let (added, removed, path) = (parts.next()?, parts.next()?, parts.next()?);
    Some((path.to_owned(), added.parse().unwrap_or(0), removed.parse().unwrap_or(0)))
}

fn import_stream(reference: &str, base: Option<&ObjectId>, changed: &[ChangedFile], message: &CommitMessage) -> Vec<u8> {
    let who = format!("{} <{}> {} +0000", inert(&message.by.name), inert(&message.by.email), message.at);
    let mut stream = format!("feature done\ncommit {reference}\nauthor {who}\ncommitter {who}\n").into_bytes();
    data(&mut stream, message.text.as_bytes());
    if let Some(base) = base {
        stream.extend_from_slice(format!("from {base}\n").as_bytes());
    }
    for gone in changed.iter().filter(|file| file.after.is_none()) {
        line(&mut stream, "D ", &gone.path);
    }
    for file in changed {
        if let Some((mode, content)) = file.after.as_ref().filter(|(mode, _)| *mode != BlobMode::Submodule) {
            line(&mut stream, &format!("M {} inline ", mode.octal()), &file.path);
            data(&mut stream, content);
        }
    }
    stream.extend_from_slice(b"done\n");
    stream
}

fn line(stream: &mut Vec<u8>, command: &str, path: &[u8]) {
    stream.extend_from_slice(command.as_bytes());
    stream.extend_from_slice(&quoted(path));
    stream.push(b'\n');
}

fn data(stream: &mut Vec<u8>, bytes: &[u8]) {
    stream.extend_from_slice(format!("data {}\n", bytes.len()).as_bytes());
    stream.extend_from_slice(bytes);
    stream.push(b'\n');
}

/// A path in git's C-style quotes, every byte that is not plain as octal.
fn quoted(path: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            0x20..=0x7e => text.push(*byte),
            _ => text.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    text.push(b'"');
    text
}

fn inert(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '<' | '>' | '\n' | '\0')).collect()
}
