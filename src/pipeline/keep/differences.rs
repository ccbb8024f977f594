//! How a workspace differs from base, and how that is written down: each line has what changed since the line before.
//!
//! What must hold: what the next step could need is among the differences, ignored or not; caches that are rebuilt are not.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use super::KeepLimits;
use crate::domain::BlobMode;
use crate::git::{IgnoreRules, Tree};
use crate::sandbox::Entry;

/// The paths that differ from base: their mode and blob, or none for a path of base that is gone. An empty folder is a submodule without a blob.
pub(in crate::pipeline) type Differences = BTreeMap<Vec<u8>, Option<(BlobMode, String)>>;

/// What interpreters and test runners make again by themselves.
const CACHES: [&[u8]; 5] = [b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".hypothesis"];

/// What is compared with what.
pub(super) struct Rules {
    ignored: IgnoreRules,
    /// What `.git` had before the first step; the same in every new sandbox of the run.
    git: HashSet<(Vec<u8>, String)>,
}

/// A workspace beside base.
pub(super) struct Seen {
    /// What differs.
    pub differences: Differences,
    /// What of it is not kept yet, with the sizes that were listed, in bytes.
    pub wanted: Vec<(Vec<u8>, u64)>,
    /// So many new files that git ignores are too large to be among the differences.
    pub left_out: u64,
}

impl Rules {
    pub(super) fn new(ignored: IgnoreRules, new: Vec<Entry>) -> Self {
        let git = new.into_iter().filter(|entry| is_git(&entry.path)).map(|entry| (entry.path, entry.blob)).collect();
        Self { ignored, git }
    }

    /// Compares a list with base. The error says what is too large.
    pub(super) fn compare(&self, base: &Tree, there: &[Entry], limits: &KeepLimits, knows: impl Fn(&str) -> bool) -> Result<Seen, String> {
        let names = there.iter().map(|entry| entry.path.as_slice()).collect::<HashSet<_>>();
        let gone = base.entries.iter().filter(|(path, entry)| entry.mode != BlobMode::Submodule && !names.contains(path.as_slice()));
        let mut seen = Seen { differences: gone.map(|(path, _)| (path.clone(), None)).collect(), wanted: Vec::new(), left_out: 0 };
        let is_new = |entry: &&Entry| !base.entries.contains_key(&entry.path) && !is_git(&entry.path);
        let new_bytes = there.iter().filter(is_new).fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
        let (mut folders, mut ignored_bytes) = (Vec::new(), 0_u64);
        for entry in there {
            let Some(mode) = entry.mode else { continue };
            if !self.differs(base, entry, mode) {
                continue;
            }
            if is_new(&entry) && is_cache(&entry.path) {
                folders.extend(folder_of_cache(&entry.path));
                continue;
            }
            let may_be_too_large = entry.size > limits.file_bytes || new_bytes > limits.ignored_bytes;
            if may_be_too_large && is_new(&entry) && self.ignored.leave_out(&entry.path) {
                ignored_bytes = ignored_bytes.saturating_add(entry.size);
                if entry.size > limits.file_bytes || ignored_bytes > limits.ignored_bytes {
                    seen.left_out += 1;
                    folders.extend(folder_of(&entry.path));
                    continue;
                }
            }
            if !entry.blob.is_empty() && !knows(&entry.blob) {
                if entry.size > limits.file_bytes {
                    let name = String::from_utf8_lossy(&entry.path);
                    return Err(format!("{name} has {} bytes, the largest file that is kept {}", entry.size, limits.file_bytes));
                }
                seen.wanted.push((entry.path.clone(), entry.size));
            }
            seen.differences.insert(entry.path.clone(), Some((mode, entry.blob.clone())));
        }
        for folder in folders {
            seen.differences.entry(folder).or_insert(Some((BlobMode::Submodule, String::new())));
        }
        Ok(seen)
    }

    fn differs(&self, base: &Tree, entry: &Entry, mode: BlobMode) -> bool {
        match base.entries.get(&entry.path) {
            Some(before) => before.mode != mode || (before.blob != entry.blob && mode != BlobMode::Submodule),
            None if is_git(&entry.path) => !self.git.contains(&(entry.path.clone(), entry.blob.clone())),
            None => true,
        }
    }
}

fn is_git(path: &[u8]) -> bool {
    path == b".git" || path.starts_with(b".git/")
}

fn is_cache(path: &[u8]) -> bool {
    path.ends_with(b".pyc") || path.ends_with(b".pyo") || path.split(|byte| *byte == b'/').any(|part| CACHES.contains(&part))
}

fn folder_of(path: &[u8]) -> Option<Vec<u8>> {
    path.iter().rposition(|byte| *byte == b'/').map(|end| path[..end].to_vec())
}

/// The folder around a cache that is not one itself.
fn folder_of_cache(path: &[u8]) -> Option<Vec<u8>> {
    let folder = folder_of(path)?;
    if is_cache(&folder) { folder_of_cache(&folder) } else { Some(folder) }
}

/// What a line says of the workspace: what is other than in the line before, and which paths are again as they are in base.
pub(super) fn change(before: &Differences, now: &Differences, left_out: u64) -> Value {
    let changed = now.iter().filter(|(path, state)| before.get(*path) != Some(state)).map(|(path, state)| match state {
        Some((mode, blob)) => json!([hex::encode(path), mode.octal(), blob]),
        None => json!([hex::encode(path)]),
    });
    let as_base = before.keys().filter(|path| !now.contains_key(*path)).map(|path| json!(hex::encode(path)));
    let (changed, as_base) = (changed.collect::<Vec<_>>(), as_base.collect::<Vec<_>>());
    let mut line = Map::new();
    line.insert("changed".to_owned(), Value::Array(changed));
    if !as_base.is_empty() {
        line.insert("as_base".to_owned(), Value::Array(as_base));
    }
    if left_out > 0 {
        line.insert("left_out".to_owned(), json!(left_out));
    }
    Value::Object(line)
}

/// Takes a line's change into the differences; none for what no line says.
pub(super) fn fold(differences: &mut Differences, line: &Value) -> Option<()> {
    for row in line.get("changed")?.as_array()? {
        let (path, state) = row_of(row)?;
        differences.insert(path, state);
    }
    for path in line.get("as_base").and_then(Value::as_array).into_iter().flatten() {
        differences.remove(&hex::decode(path.as_str()?).ok()?)?;
    }
    Some(())
}

type Row = (Vec<u8>, Option<(BlobMode, String)>);

fn row_of(row: &Value) -> Option<Row> {
    let path = hex::decode(row.get(0)?.as_str()?).ok()?;
    let state = match (row.get(1), row.get(2)) {
        (Some(mode), Some(blob)) => Some((BlobMode::parse(mode.as_str()?)?, blob.as_str()?.to_owned())),
        _ => None,
    };
    let is_hex = |blob: &str| blob.len() == 40 && blob.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_name = state.as_ref().is_none_or(|(mode, blob)| if *mode == BlobMode::Submodule { blob.is_empty() } else { is_hex(blob) });
    is_name.then_some((path, state))
}
