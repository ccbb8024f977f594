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
use crate::sandbox::{Entry, Listing, Sandbox, SandboxError, WORKSPACE};

/// More bytes of new content than this in one step are not kept.
const LIMIT: u64 = 256 * 1024 * 1024;

/// Where a run's folder has the kept contents.
const BLOBS: &str = "kept/blobs";

/// The name of the journal in a run's folder.
const JOURNAL: &str = "kept/journal.jsonl";

/// The paths that differ from base: their mode and blob, or none for a path of base that is gone. An empty folder is a submodule without a blob.
pub(super) type Differences = BTreeMap<Vec<u8>, Option<(BlobMode, String)>>;

/// Writes a run down, step by step.
pub(super) struct Keeper {
    journal: File,
    blobs: PathBuf,
    known: HashSet<String>,
    by_products: IgnoreRules,
    /// What `.git` had before the first step; the same in every new sandbox of the run.
    git: HashSet<(Vec<u8>, String)>,
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
    /// Begins a journal, or goes on with one that is there. `new` is the list of a sandbox into which nothing kept was put yet.
    pub(super) fn open(folder: &Path, base: &ObjectId, trajectory: &Trajectory, goes_on: bool, new: Vec<Entry>) -> std::io::Result<Self> {
        let blobs = folder.join(BLOBS);
        if !goes_on && blobs.exists() {
            std::fs::remove_dir_all(&blobs)?;
        }
        std::fs::create_dir_all(&blobs)?;
        let path = folder.join(JOURNAL);
        let mut options = OpenOptions::new();
        let journal = if goes_on { options.append(true) } else { options.write(true).create(true).truncate(true) }.open(path)?;
        let git = new.into_iter().filter(|entry| is_git(&entry.path)).map(|entry| (entry.path, entry.blob)).collect();
        let (known, by_products) = (HashSet::new(), IgnoreRules::new(&[]));
        let mut keeper = Self { journal, blobs, known, by_products, git, messages: trajectory.messages.len() };
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
        let mut folders = Vec::new();
        for entry in &there {
            let Some(mode) = entry.mode else { continue };
            let is_kept = match base.entries.get(&entry.path) {
                Some(before) => before.mode != mode || (before.blob != entry.blob && mode != BlobMode::Submodule),
                None if is_git(&entry.path) => !self.git.contains(&(entry.path.clone(), entry.blob.clone())),
                None if self.by_products.leave_out(&entry.path) => {
                    folders.extend(self.folder_that_stays(&entry.path));
                    false
                }
                None => true,
            };
            if is_kept {
                differences.insert(entry.path.clone(), Some((mode, entry.blob.clone())));
            }
        }
        for folder in folders {
            differences.entry(folder).or_insert(Some((BlobMode::Submodule, String::new())));
        }
        let wanted =
            differences.iter().filter(|(_, now)| now.as_ref().is_some_and(|(_, blob)| !blob.is_empty() && !self.known.contains(blob)));
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
        let is_kept = |now: &Option<(BlobMode, String)>| now.as_ref().is_none_or(|(_, blob)| blob.is_empty() || self.known.contains(blob));
        differences.retain(|_, now| is_kept(now));
        Ok(to_json(&differences))
    }

    /// The folder around a by-product that is not one itself.
    fn folder_that_stays(&self, path: &[u8]) -> Option<Vec<u8>> {
        let ends = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        ends.map(|(end, _)| path[..end].to_vec()).find(|folder| !self.by_products.leave_out(&[folder, &b"/x"[..]].concat()))
    }

    fn store(&mut self, content: &[u8]) -> std::io::Result<String> {
        let blob = blob_name(content);
        let path = self.blobs.join(&blob);
        if self.known.insert(blob.clone()) {
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
    let Kept { base: kept_base, trajectory, workspaces, has_ended, bytes, .. } = Kept::read(&journal)?;
    if kept_base != base.as_str() {
        return None;
    }
    let last = workspaces.iter().rev().find(|workspace| !workspace.is_null());
    let differences = last.map_or_else(|| Some(Differences::new()), from_json)?;
    let blobs = folder.join(BLOBS);
    let is_whole = |blob: &String| blob.is_empty() || std::fs::read(blobs.join(blob)).is_ok_and(|content| blob_name(&content) == *blob);
    let whole = differences.values().flatten().all(|(_, blob)| is_whole(blob));
    if bytes < journal.len() {
        cut(&folder.join(JOURNAL), bytes).ok()?;
    }
    whole.then_some(Resumable { trajectory, differences, has_ended })
}

/// What a crash left behind the last whole line would else hide the lines to come.
fn cut(path: &Path, bytes: usize) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(path)?.set_len(bytes as u64)
}

/// The kept files as changes, to be put over base in a new sandbox.
pub(super) fn kept_files(folder: &Path, differences: &Differences) -> std::io::Result<Vec<ChangedFile>> {
    let read = |blob: &String| if blob.is_empty() { Ok(Vec::new()) } else { std::fs::read(folder.join(BLOBS).join(blob)) };
    let files = differences.iter().map(|(path, now)| {
        let after = now.as_ref().map(|(mode, blob)| Ok::<_, std::io::Error>((*mode, read(blob)?))).transpose()?;
        Ok(ChangedFile { path: path.clone(), before: None, after })
    });
    files.collect()
}

fn is_git(path: &[u8]) -> bool {
    path == b".git" || path.starts_with(b".git/")
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
        let is_hex = |blob: &str| blob.len() == 40 && blob.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_name = now.as_ref().is_none_or(|(mode, blob)| if *mode == BlobMode::Submodule { blob.is_empty() } else { is_hex(blob) });
        is_name.then_some((path, now))
    };
    workspace.as_array()?.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::leaf::{Observation, Step, Task, TurnRecord};

    fn begun() -> Trajectory {
        Trajectory::begin(Task { trajectory_id: "t".to_owned(), instance_id: "i".to_owned(), seed: None, text: "task".to_owned() })
    }

    fn take_step(trajectory: &mut Trajectory) {
        let step = trajectory.steps.len() as u64;
        trajectory.messages.extend([json!({"role": "assistant", "content": ""}), json!({"role": "tool", "content": "ok"})]);
        let observations = vec![Observation { tool: "Bash".to_owned(), observation: "ok".to_owned() }];
        trajectory.steps.push(Step { step, assistant: json!({}), observations });
        let turn = json!({"step": step, "max_completion_tokens": 1, "finish_reason": "", "usage": null, "context_tokens": 7, "model_ms": 0, "tools_ms": 0});
        trajectory.frognano.turns.push(serde_json::from_value::<TurnRecord>(turn).unwrap());
    }

    /// A kept run of two steps, the second of which made one file; the base, the journal and the file's blob.
    fn kept(folder: &Path) -> (ObjectId, Vec<u8>, PathBuf) {
        let base = ObjectId::parse(&"a".repeat(40)).unwrap();
        let mut trajectory = begun();
        let mut keeper = Keeper::open(folder, &base, &trajectory, false, Vec::new()).unwrap();
        for step in 0..2 {
            let before = trajectory.messages.len();
            take_step(&mut trajectory);
            let blob = keeper.store(format!("content {step}").as_bytes()).unwrap();
            let differences = Differences::from([(b"a.txt".to_vec(), Some((BlobMode::File, blob)))]);
            keeper.write(&Line::step(&trajectory, before, to_json(&differences)).unwrap()).unwrap();
        }
        let blob = folder.join(BLOBS).join(blob_name(b"content 1"));
        (base, std::fs::read(folder.join(JOURNAL)).unwrap(), blob)
    }

    #[test]
    fn a_run_cut_at_any_byte_goes_on_twice() {
        let folder = tempfile::tempdir().unwrap();
        let (base, journal, _) = kept(folder.path());
        let first = journal.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in first..=journal.len() {
            std::fs::write(folder.path().join(JOURNAL), &journal[..cut]).unwrap();
            let mut trajectory = load(folder.path(), &base).unwrap().trajectory;
            let mut keeper = Keeper::open(folder.path(), &base, &trajectory, true, Vec::new()).unwrap();
            let before = trajectory.messages.len();
            take_step(&mut trajectory);
            keeper.write(&Line::step(&trajectory, before, Value::Null).unwrap()).unwrap();
            let again = load(folder.path(), &base).unwrap_or_else(|| panic!("cut at {cut}"));
            assert_eq!(again.trajectory.steps, trajectory.steps, "cut at {cut}");
        }
    }

    #[test]
    fn a_blob_that_is_not_what_its_name_says_is_not_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let (base, _, blob) = kept(folder.path());
        assert!(load(folder.path(), &base).is_some());
        std::fs::write(&blob, b"").unwrap();
        assert!(load(folder.path(), &base).is_none());
        Keeper::open(folder.path(), &base, &begun(), false, Vec::new()).unwrap();
        assert!(!blob.exists(), "a run that starts over keeps nothing of the one before");
    }
}
