//! What is kept of a run after each step, so that a lost sandbox or worker costs at most the step that was under way.
//!
//! The journal gets one line a step, with what the step changed of the files that differ from base; their contents are kept once each by the name
//! that git gives them. What must hold: the step that is asked for next finds the line before it on the disk, and the line finds on the disk
//! whatever it names (both are synced, which costs a fraction of a millisecond where a disk is no slower than a model), so that also a loss of
//! power costs one step; memory holds a piece of the contents and never all; what can't be kept is said, and such a run starts over.

mod blobs;
mod differences;
mod find;
mod shared;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::domain::ObjectId;
use crate::git::{IgnoreRules, Packing, Tree};
use crate::leaf::{Line, Recovery, Trajectory};
use crate::sandbox::{Entry, Listing, Sandbox, SandboxError, WORKSPACE};
use crate::store::{RunFiles, StoreError};

use super::Stop;
use blobs::Blobs;
use differences::{Rules, Seen, change, fold};

pub(super) use differences::Differences;
pub(super) use find::{Found, Resumable, find};
use shared::Shared;
pub(super) use shared::fetch;

/// Where a run's folder has the kept contents.
const BLOBS: &str = "kept/blobs";

/// The name of the journal in a run's folder.
const JOURNAL: &str = "kept/journal.jsonl";

/// About so many bytes of contents are brought out of a sandbox, or into one, at once.
const PIECE: u64 = 8 * 1024 * 1024;

/// What is too much to be kept after a step.
#[derive(Debug, Clone)]
pub struct KeepLimits {
    /// The largest file, in bytes. A larger one is left out where git ignores it; else the step is not kept. One file is held in memory, twice.
    pub file_bytes: u64,
    /// New files that git ignores, together, in bytes; what is above is left out.
    pub ignored_bytes: u64,
    /// All contents that a run keeps, in bytes; a step that exceeds it is not kept.
    pub run_bytes: u64,
}

impl Default for KeepLimits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self { file_bytes: 16 * MIB, ignored_bytes: 64 * MIB, run_bytes: 1024 * MIB }
    }
}

impl KeepLimits {
    /// Where each step goes into a database besides.
    #[must_use]
    pub fn in_a_database() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self { ignored_bytes: 16 * MIB, run_bytes: 256 * MIB, ..Self::default() }
    }
}

/// Writes a run down, step by step.
pub(super) struct Keeper {
    folder: PathBuf,
    shared: Option<Shared>,
    journal: File,
    blobs: Blobs,
    rules: Rules,
    limits: KeepLimits,
    /// The differences of the last line that has some.
    last: Differences,
    messages: usize,
}

/// What a keeper begins with.
pub(super) struct Opening<'a> {
    /// The run's folder.
    pub folder: &'a Path,
    /// Where it is kept besides: the files of the run, and the folder's place among them.
    pub shared: Option<(RunFiles, String)>,
    /// The commit.
    pub base: &'a ObjectId,
    /// The run as it stands.
    pub trajectory: &'a Trajectory,
    /// What was kept of it; none begins a new journal.
    pub kept: Option<&'a Differences>,
    /// What git ignores at base.
    pub ignored: IgnoreRules,
    /// The list of a sandbox into which nothing kept was put yet.
    pub new: Vec<Entry>,
    /// What is too much.
    pub limits: KeepLimits,
}

impl Keeper {
    /// Begins a journal, or goes on with one that is there.
    pub(super) async fn open(opening: Opening<'_>) -> Result<Self, NotKept> {
        let Opening { folder, shared, base, trajectory, kept, ignored, new, limits } = opening;
        let blobs = Blobs::open(folder.join(BLOBS), kept)?;
        let mut options = OpenOptions::new();
        let options = if kept.is_some() { options.append(true) } else { options.write(true).create(true).truncate(true) };
        let journal = options.open(folder.join(JOURNAL))?;
        let last = kept.cloned().unwrap_or_default();
        let (rules, messages) = (Rules::new(ignored, new), trajectory.messages.len());
        let shared = shared.map(|(files, place)| Shared::new(files, place));
        let mut keeper = Self { folder: folder.to_path_buf(), shared, journal, blobs, rules, limits, last, messages };
        if kept.is_none() {
            keeper.write(&Line::Begin { base: base.to_string(), trajectory: Box::new(trajectory.clone()) }).await?;
            for folder in [folder.join("kept"), folder.to_path_buf()] {
                File::open(folder)?.sync_all()?;
            }
        }
        Ok(keeper)
    }

    /// Keeps a finished step with what the workspace has that base has not.
    pub(super) async fn step(&mut self, trajectory: &Trajectory, base: &Tree, sandbox: &mut dyn Sandbox) -> Result<(), NotKept> {
        let workspace = if changes_files(trajectory) { self.workspace(base, sandbox).await? } else { Value::Null };
        if let Some(line) = Line::step(trajectory, self.messages, workspace) {
            self.write(&line).await?;
        }
        self.messages = trajectory.messages.len();
        Ok(())
    }

    /// Notes that the run goes on in a new sandbox.
    pub(super) async fn recovered(&mut self, recovery: &Recovery) -> Result<(), NotKept> {
        self.write(&Line::Recovered(recovery.clone())).await
    }

    /// Notes that the run is stopped in order, to be gone on with.
    pub(super) async fn stopped(&mut self, why: &str) -> Result<(), NotKept> {
        self.write(&Line::Stopped(why.to_owned())).await
    }

    /// Notes the ending.
    pub(super) async fn end(&mut self, trajectory: &Trajectory) -> Result<(), NotKept> {
        self.write(&Line::end(trajectory)).await
    }

    async fn workspace(&mut self, base: &Tree, sandbox: &mut dyn Sandbox) -> Result<Value, NotKept> {
        let there = sandbox.list(Listing::Quick).await.map_err(NotKept::Sandbox)?;
        let kept = match self.rules.compare(base, &there, &self.limits, |blob| self.blobs.knows(blob)) {
            Ok(Seen { mut differences, wanted, left_out }) => {
                drop(there);
                self.bring_out(wanted, &mut differences, sandbox).await?.map(|()| (differences, left_out))
            }
            Err(why) => Err(why),
        };
        match kept {
            Ok((mut differences, left_out)) => {
                differences.retain(|_, now| now.as_ref().is_none_or(|(_, blob)| blob.is_empty() || self.blobs.knows(blob)));
                let change = change(&self.last, &differences, left_out);
                self.last = differences;
                Ok(change)
            }
            Err(why) => {
                tracing::warn!(why, "a step is not kept: if the sandbox or the worker is lost now, the agent starts over");
                Ok(json!({"unkept": why}))
            }
        }
    }

    /// Keeps the wanted contents, piece by piece; the inner error says what is too much.
    async fn bring_out(
        &mut self,
        wanted: Vec<(Vec<u8>, u64)>,
        differences: &mut Differences,
        sandbox: &mut dyn Sandbox,
    ) -> Result<Result<(), String>, NotKept> {
        for piece in pieces(wanted) {
            let taken = match sandbox.take(WORKSPACE, &piece, self.limits.file_bytes.max(PIECE)).await {
                Ok(taken) => taken,
                Err(SandboxError::TooLarge { what, .. }) => return Ok(Err(format!("{what} grew while it was kept"))),
                Err(error) => return Err(NotKept::Sandbox(error)),
            };
            let mut blobs = std::mem::take(&mut self.blobs);
            let store = move || {
                let names = taken.iter().map(|file| blobs.store(&file.content)).collect::<Result<Vec<_>, _>>();
                let files = taken.into_iter().map(|file| (file.path, file.mode)).collect::<Vec<_>>();
                (blobs, names.map(|names| files.into_iter().zip(names).collect::<Vec<_>>()))
            };
            let (blobs, stored) = tokio::task::spawn_blocking(store).await.map_err(std::io::Error::other)?;
            self.blobs = blobs;
            for ((path, mode), blob) in stored? {
                differences.insert(path, Some((mode, blob)));
            }
            if self.blobs.bytes() > self.limits.run_bytes {
                return Ok(Err(format!("the contents that the run keeps are more than {} bytes", self.limits.run_bytes)));
            }
        }
        Ok(Ok(()))
    }

    /// Writes a line behind everything that it names.
    async fn write(&mut self, line: &Line) -> Result<(), NotKept> {
        use std::io::Write as _;
        let mut text = serde_json::to_vec(line).map_err(std::io::Error::from)?;
        text.push(b'\n');
        let (mut journal, unsynced) = (self.journal.try_clone()?, self.blobs.unsynced());
        let write = move || {
            unsynced.sync()?;
            journal.write_all(&text)?;
            journal.sync_data()?;
            Ok::<_, std::io::Error>((unsynced.names, text))
        };
        let (blobs, text) = tokio::task::spawn_blocking(write).await.map_err(std::io::Error::other)??;
        match &mut self.shared {
            Some(shared) => Ok(shared.add(&self.folder, matches!(line, Line::Begin { .. }), blobs, text).await?),
            None => Ok(()),
        }
    }
}

/// Why a step could not be kept.
#[derive(Debug)]
pub(super) enum NotKept {
    /// The sandbox failed.
    Sandbox(SandboxError),
    /// The disk failed.
    Disk(std::io::Error),
    /// The lease was lost, or the database's disk is full.
    Store(StoreError),
}

impl NotKept {
    /// Why the run stops for it; the folder is the run's.
    pub(super) fn stop(self, folder: &Path) -> Stop {
        match self {
            Self::Sandbox(error) => error.into(),
            Self::Disk(error) => Stop::disk(folder, &error),
            Self::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for NotKept {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<std::io::Error> for NotKept {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Puts the kept files over base in a new sandbox, piece by piece.
pub(super) async fn put_back(folder: &Path, differences: &Differences, sandbox: &mut dyn Sandbox) -> Result<(), Stop> {
    let blobs = folder.join(BLOBS);
    let disk = |error: std::io::Error| Stop::disk(&blobs, &error);
    let mut there = Vec::new();
    for (path, now) in differences {
        let Some((mode, blob)) = now else { continue };
        let bytes = if blob.is_empty() { 0 } else { std::fs::metadata(blobs.join(blob)).map_err(disk)?.len() };
        there.push(((path, *mode, blob, bytes), bytes));
    }
    for piece in pieces(there) {
        let mut archive = Packing::with_room(piece.iter().map(|(.., bytes)| 2 * ENVELOPE + *bytes as usize).sum());
        for (path, mode, blob, bytes) in piece {
            match blob.as_str() {
                "" => archive.add(path, mode, 0, std::io::empty())?,
                blob => archive.add(path, mode, bytes, File::open(blobs.join(blob)).map_err(disk)?)?,
            }
        }
        sandbox.put(archive.finish()?).await?;
    }
    Ok(())
}

/// What a file needs in an archive besides its content, in bytes, about.
const ENVELOPE: usize = 1024;

/// Things with their sizes in groups of at most a piece, a larger one alone.
fn pieces<T>(sized: Vec<(T, u64)>) -> Vec<Vec<T>> {
    let (mut pieces, mut sum) = (Vec::<Vec<T>>::new(), u64::MAX);
    for (thing, bytes) in sized {
        let bytes = bytes.saturating_add(ENVELOPE as u64);
        sum = sum.saturating_add(bytes);
        match pieces.last_mut() {
            Some(piece) if sum <= PIECE => piece.push(thing),
            _ => {
                pieces.push(vec![thing]);
                sum = bytes;
            }
        }
    }
    pieces
}

fn changes_files(trajectory: &Trajectory) -> bool {
    let reads = |tool: &str| matches!(tool, "Read" | "Glob" | "note" | "");
    trajectory.steps.last().is_some_and(|step| step.observations.iter().any(|done| !reads(&done.tool)))
}
