//! What is kept of a run after each step, so that a lost sandbox or worker costs at most the step that was under way.
//!
//! The journal gets one line a step; the files that differ from base are kept once each by the name that git gives their content.
//! What must hold: a step's line is written after everything that it names; what can't be kept is said, and such a run starts over.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha1::{Digest as _, Sha1};

use crate::domain::{BlobMode, ChangedFile, ObjectId};
use crate::git::{IgnoreRules, Tree};
use crate::leaf::{Kept, Line, Recovery, Trajectory};
use crate::sandbox::{Listing, Sandbox, SandboxError, WORKSPACE};

/// More bytes of new content than this in one step are not kept.
const LIMIT: u64 = 256 * 1024 * 1024;

/// The name of the journal in a run's folder.
const JOURNAL: &str = "journal.jsonl";

/// The paths that differ from base: their mode and blob, or none for a path of base that is gone.
pub(super) type Differences = BTreeMap<Vec<u8>, Option<(BlobMode, String)>>;

/// Writes a run down, step by step.
pub(super) struct Keeper {
    journal: File,
    blobs: PathBuf,
    known: HashSet<String>,
    by_products: IgnoreRules,
    messages: usize,
}

/// A run that can go on.
pub(super) struct Resumable {
    /// The run after its last finished step.
    pub trajectory: Trajectory,
    /// What the workspace had then.
    pub differences: Differences,
    /// It has ended already.
    pub has_ended: bool,
}

impl Keeper {
    /// Begins a journal, or goes on with one that is there.
    pub(super) fn open(folder: &Path, base: &ObjectId, trajectory: &Trajectory, goes_on: bool) -> std::io::Result<Self> {
        let blobs = folder.join("blobs");
        std::fs::create_dir_all(&blobs)?;
        let path = folder.join(JOURNAL);
        let mut options = OpenOptions::new();
        let journal = if goes_on { options.append(true) } else { options.write(true).create(true).truncate(true) }.open(path)?;
        let mut keeper =
            Self { journal, blobs, known: HashSet::new(), by_products: IgnoreRules::new(&[]), messages: trajectory.messages.len() };
        if !goes_on {
            keeper.write(&Line::Begin { base: base.to_string(), trajectory: Box::new(trajectory.clone()) })?;
        }
        Ok(keeper)
    }

    /// Keeps a finished step with what the workspace has that base has not.
    pub(super) async fn step(&mut self, trajectory: &Trajectory, base: &Tree, sandbox: &mut dyn Sandbox) -> Result<(), NotKept> {
        let workspace = if changes_files(trajectory) { self.workspace(base, sandbox).await? } else { Value::Null };
        if let Some(line) = Line::step(trajectory, self.messages, workspace) {
            self.write(&line)?;
        }
        self.messages = trajectory.messages.len();
        Ok(())
    }

    /// Notes that the run goes on in a new sandbox.
    pub(super) fn recovered(&mut self, recovery: &Recovery) -> std::io::Result<()> {
        self.write(&Line::Recovered(recovery.clone()))
    }

    /// Notes the ending.
    pub(super) fn end(&mut self, trajectory: &Trajectory) -> std::io::Result<()> {
        self.write(&Line::end(trajectory))
    }

    async fn workspace(&mut self, base: &Tree, sandbox: &mut dyn Sandbox) -> Result<Value, NotKept> {
        let there = sandbox.list(Listing::Quick).await.map_err(NotKept::Sandbox)?;
        let names = there.iter().map(|entry| entry.path.as_slice()).collect::<HashSet<_>>();
        let gone = base.entries.iter().filter(|(path, entry)| entry.mode != BlobMode::Submodule && !names.contains(path.as_slice()));
        let mut differences: Differences = gone.map(|(path, _)| (path.clone(), None)).collect();
        for entry in &there {
            let Some(mode) = entry.mode else { continue };
            let is_kept = match base.entries.get(&entry.path) {
                Some(before) => before.mode != mode || before.blob != entry.blob,
                None => !self.by_products.leave_out(&entry.path),
            };
            if is_kept {
                differences.insert(entry.path.clone(), Some((mode, entry.blob.clone())));
            }
        }
        let wanted = differences.iter().filter(|(_, now)| now.as_ref().is_some_and(|(_, blob)| !self.known.contains(blob)));
        let wanted = wanted.map(|(path, _)| path.clone()).collect::<Vec<_>>();
        let taken = match sandbox.take(WORKSPACE, &wanted, LIMIT).await {
            Ok(taken) => taken,
            Err(SandboxError::TooLarge { what, .. }) => {
                return Ok(json!({"unkept": format!("{what} is too much to keep after each step")}));
            }
            Err(error) => return Err(NotKept::Sandbox(error)),
        };
        for file in taken {
            let blob = self.store(&file.content)?;
            differences.insert(file.path, Some((file.mode, blob)));
        }
        let is_kept = |now: &Option<(BlobMode, String)>| now.as_ref().is_none_or(|(_, blob)| self.known.contains(blob));
        differences.retain(|_, now| is_kept(now));
        Ok(to_json(&differences))
    }

    fn store(&mut self, content: &[u8]) -> std::io::Result<String> {
        let blob = blob_name(content);
        let path = self.blobs.join(&blob);
        if self.known.insert(blob.clone()) && !path.exists() {
            let half_written = self.blobs.join(format!("{blob}.new"));
            std::fs::write(&half_written, content)?;
            std::fs::rename(&half_written, &path)?;
        }
        Ok(blob)
    }

    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.journal.write_all(&text)
    }
}

/// Why a step could not be kept.
pub(super) enum NotKept {
    /// The sandbox failed.
    Sandbox(SandboxError),
    /// The disk failed.
    Disk(std::io::Error),
}

impl From<std::io::Error> for NotKept {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Reads a kept run back; none when there is none, when it is of another base, or when what it names is not whole: then it starts over.
pub(super) fn load(folder: &Path, base: &ObjectId) -> Option<Resumable> {
    let journal = std::fs::read(folder.join(JOURNAL)).ok()?;
    let Kept { base: kept_base, trajectory, workspaces, has_ended } = Kept::read(&journal)?;
    if kept_base != base.as_str() {
        return None;
    }
    let last = workspaces.iter().rev().find(|workspace| !workspace.is_null());
    let differences = last.map_or_else(|| Some(Differences::new()), from_json)?;
    let blobs = folder.join("blobs");
    let whole = differences.values().flatten().all(|(_, blob)| blobs.join(blob).is_file());
    cut_torn_line(&folder.join(JOURNAL), &journal).ok()?;
    whole.then_some(Resumable { trajectory, differences, has_ended })
}

/// A line that a crash cut in two would else swallow the next one.
fn cut_torn_line(path: &Path, journal: &[u8]) -> std::io::Result<()> {
    let whole = journal.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole < journal.len() { OpenOptions::new().write(true).open(path)?.set_len(whole as u64) } else { Ok(()) }
}

/// The kept files as changes, to be put over base in a new sandbox.
pub(super) fn kept_files(folder: &Path, differences: &Differences) -> std::io::Result<Vec<ChangedFile>> {
    let read = |blob: &String| std::fs::read(folder.join("blobs").join(blob));
    let files = differences.iter().map(|(path, now)| {
        let after = now.as_ref().map(|(mode, blob)| Ok::<_, std::io::Error>((*mode, read(blob)?))).transpose()?;
        Ok(ChangedFile { path: path.clone(), before: None, after })
    });
    files.collect()
}

fn changes_files(trajectory: &Trajectory) -> bool {
    trajectory
        .steps
        .last()
        .is_some_and(|step| step.observations.iter().any(|done| !matches!(done.tool.as_str(), "Read" | "Glob" | "note" | "")))
}

fn blob_name(content: &[u8]) -> String {
    let mut sha1 = Sha1::new_with_prefix(format!("blob {}\0", content.len()));
    sha1.update(content);
    hex::encode(sha1.finalize())
}

fn to_json(differences: &Differences) -> Value {
    let rows = differences.iter().map(|(path, now)| match now {
        Some((mode, blob)) => json!([hex::encode(path), mode.octal(), blob]),
        None => json!([hex::encode(path)]),
    });
    Value::Array(rows.collect())
}

fn from_json(workspace: &Value) -> Option<Differences> {
    let row = |row: &Value| {
        let path = hex::decode(row.get(0)?.as_str()?).ok()?;
        let now = match (row.get(1), row.get(2)) {
            (Some(mode), Some(blob)) => Some((BlobMode::parse(mode.as_str()?)?, blob.as_str()?.to_owned())),
            _ => None,
        };
        let is_name = now.as_ref().is_none_or(|(_, blob)| blob.len() == 40 && blob.bytes().all(|byte| byte.is_ascii_hexdigit()));
        is_name.then_some((path, now))
    };
    workspace.as_array()?.iter().map(row).collect()
}
