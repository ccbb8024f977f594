//! Reads a kept run back.
//!
//! What must hold: a run goes on only from a state that is whole; whoever asks (the agent, the command that resumes a run) gets one answer.

use std::fs::OpenOptions;
use std::path::Path;

use serde_json::Value;

use super::blobs::is_whole;
use super::{BLOBS, Differences, JOURNAL, fold};
use crate::domain::ObjectId;
use crate::leaf::{Kept, Recovery, Trajectory};

/// What a run's folder has of an earlier life.
pub(in crate::pipeline) enum Found {
    /// Nothing of this commit.
    Nothing,
    /// A run that can go on.
    Run(Box<Resumable>),
    /// A run that can't: it starts over.
    Refused {
        /// The reason.
        why: String,
        /// Its recoveries, which count on.
        recoveries: Vec<Recovery>,
    },
}

/// A run that can go on.
pub(in crate::pipeline) struct Resumable {
    /// The commit.
    pub base: String,
    /// The run after its last finished step.
    pub trajectory: Trajectory,
    /// What the workspace had then.
    pub differences: Differences,
    /// So many large files that git ignores it had besides.
    pub left_out: u64,
    /// It has ended already.
    pub has_ended: bool,
    /// Why it was stopped in order, if it was.
    pub stopped: Option<String>,
}

/// Looks for a run of a commit (none: of any). What a crash left behind the journal's last whole line is cut off, since it would hide the lines
/// to come.
pub(in crate::pipeline) fn find(folder: &Path, base: Option<&ObjectId>) -> Found {
    let path = folder.join(JOURNAL);
    let Some(journal) = std::fs::read(&path).ok().filter(|journal| !journal.is_empty()) else { return Found::Nothing };
    let refused = |why: &str, recoveries| Found::Refused { why: why.to_owned(), recoveries };
    let Some(kept) = Kept::read(&journal) else {
        return refused("its journal is damaged or of another version", Vec::new());
    };
    if base.is_some_and(|base| kept.base != base.as_str()) {
        return Found::Nothing;
    }
    let recoveries = kept.trajectory.frognano.recoveries.clone();
    let (differences, left_out) = match workspace(&kept.workspaces) {
        Ok(found) => found,
        Err(why) => return refused(&why, recoveries),
    };
    let blobs = folder.join(BLOBS);
    if !differences.values().flatten().all(|(_, blob)| blob.is_empty() || is_whole(&blobs, blob)) {
        return refused("its kept files are damaged", recoveries);
    }
    if kept.bytes < journal.len()
        && let Err(error) = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(kept.bytes as u64))
    {
        return refused(&format!("its journal can't be mended: {error}"), recoveries);
    }
    let Kept { base, trajectory, has_ended, stopped, .. } = kept;
    Found::Run(Box::new(Resumable { base, trajectory, differences, left_out, has_ended, stopped }))
}

/// The workspace after the last of these lines; the error says why it is not kept.
fn workspace(lines: &[Value]) -> Result<(Differences, u64), String> {
    let mut differences = Differences::new();
    let (mut left_out, mut unkept) = (0, None);
    for line in lines.iter().filter(|line| !line.is_null()) {
        unkept = line.get("unkept").map(|why| why.as_str().unwrap_or_default().to_owned());
        if unkept.is_none() {
            fold(&mut differences, line).ok_or("its journal is of another version")?;
            left_out = line.get("left_out").and_then(Value::as_u64).unwrap_or(0);
        }
    }
    unkept.map_or(Ok((differences, left_out)), |why| Err(format!("its last step could not be kept: {why}")))
}
