//! What the sandbox holds that differs from base: taken out as untrusted bytes.

use std::collections::BTreeMap;
use std::path::Path;

use crate::domain::{BlobMode, ChangedFile};
use crate::git::{IgnoreRules, Mirror, Tree, TreeEntry};
use crate::leaf::Trajectory;
use crate::sandbox::{Entry, Listing, Sandbox, WORKSPACE};

use super::Stop;

/// More bytes than this are not taken out of a sandbox.
const LIMIT: u64 = 64 * 1024 * 1024;

/// More changed paths than this are no fix.
const MOST: usize = 5000;

/// Writes the patch into the record of the run, where the reference's readers look for it. What can't be read as one stays as it is.
pub(super) async fn put_into_trajectory(folder: &Path, diff: &[u8]) -> Result<(), Stop> {
    let (file, half_written) = (folder.join("trajectory.json"), folder.join("trajectory.json.new"));
    let Some(mut trajectory) = tokio::fs::read(&file).await.ok().and_then(|text| serde_json::from_slice::<Trajectory>(&text).ok()) else {
        return Ok(());
    };
    trajectory.output_patch = String::from_utf8_lossy(diff).into_owned();
    let text = trajectory.to_json().map(|json| json.to_string()).unwrap_or_default();
    tokio::fs::write(&half_written, text).await.map_err(|error| Stop::disk(&half_written, &error))?;
    tokio::fs::rename(&half_written, &file).await.map_err(|error| Stop::disk(&file, &error))
}

/// Lists the workspace, compares it with base by git's own names of contents, and brings out what differs.
pub(super) async fn collect(sandbox: &mut dyn Sandbox, mirror: &Mirror, base: &Tree) -> Result<Vec<ChangedFile>, Stop> {
    let ignored = ignore_rules(mirror, base).await?;
    let there: BTreeMap<Vec<u8>, Entry> =
        sandbox.list(Listing::Exact).await?.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    let new = there.values().filter(|entry| entry.mode.is_some() && differs(base.entries.get(&entry.path), entry));
    let wanted =
        new.filter(|entry| base.entries.contains_key(&entry.path) || !ignored.leave_out(&entry.path)).map(|entry| entry.path.clone());
    let wanted = wanted.collect::<Vec<_>>();
    let gone = base.entries.iter().filter(|(path, entry)| entry.mode != BlobMode::Submodule && !there.contains_key(*path));
    let gone = gone.map(|(path, _)| path.clone()).collect::<Vec<_>>();
    if wanted.len() + gone.len() > MOST {
        return Err(Stop::refused("size", format!("{} paths changed, far more than a fix touches", wanted.len() + gone.len())));
    }
    let at_base = wanted.iter().chain(&gone).filter_map(|path| base.entries.get(path)).map(|entry| entry.size).sum::<u64>();
    if at_base > LIMIT {
        return Err(Stop::refused(
            "size",
            format!("files of {at_base} bytes together were changed or deleted, far more than a fix touches"),
        ));
    }
    let taken = sandbox.take(WORKSPACE, &wanted, LIMIT).await?;
    let mut changed = Vec::with_capacity(taken.len() + gone.len());
    for file in taken {
        changed.push(ChangedFile { path: file.path, before: None, after: Some((file.mode, file.content)) });
    }
    let submodules = base.entries.iter().filter(|(_, entry)| entry.mode == BlobMode::Submodule).map(|(path, _)| path);
    let filled = submodules.filter(|path| wanted.iter().any(|new| is_below(new, path))).cloned();
    changed.extend(gone.into_iter().chain(filled).map(|path| ChangedFile { path, before: None, after: None }));
    fill_before(mirror, base, &mut changed).await?;
    changed.retain(|file| file.before != file.after);
    changed.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(changed)
}

/// What differs between two trees of the mirror, in the same form.
pub(super) async fn between(mirror: &Mirror, base: &Tree, after: &Tree) -> Result<Vec<ChangedFile>, Stop> {
    let mut changed = Vec::new();
    let differing = after.entries.iter().filter(|(path, entry)| base.entries.get(*path) != Some(entry)).collect::<Vec<_>>();
    let blobs = mirror.blobs(&differing.iter().map(|(_, entry)| entry.blob.as_str()).collect::<Vec<_>>()).await?;
    for ((path, entry), content) in differing.into_iter().zip(blobs) {
        changed.push(ChangedFile { path: path.clone(), before: None, after: Some((entry.mode, content)) });
    }
    let gone = base.entries.keys().filter(|path| !after.entries.contains_key(*path));
    changed.extend(gone.map(|path| ChangedFile { path: path.clone(), before: None, after: None }));
    fill_before(mirror, base, &mut changed).await?;
    changed.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(changed)
}

fn differs(before: Option<&TreeEntry>, now: &Entry) -> bool {
    before.is_none_or(|before| Some(before.mode) != now.mode || before.blob != now.blob)
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"))
}

async fn fill_before(mirror: &Mirror, base: &Tree, changed: &mut [ChangedFile]) -> Result<(), Stop> {
    let known = changed.iter().enumerate().filter_map(|(at, file)| base.entries.get(&file.path).map(|entry| (at, entry)));
    let (submodules, known): (Vec<_>, Vec<_>) = known.partition(|(_, entry)| entry.mode == BlobMode::Submodule);
    for (at, entry) in submodules {
        if let Some(file) = changed.get_mut(at) {
            file.before = Some((entry.mode, entry.blob.clone().into_bytes()));
        }
    }
    let blobs = mirror.blobs(&known.iter().map(|(_, entry)| entry.blob.as_str()).collect::<Vec<_>>()).await?;
    for ((at, entry), content) in known.into_iter().zip(blobs) {
        if let Some(file) = changed.get_mut(at) {
            file.before = Some((entry.mode, content));
        }
    }
    Ok(())
}

/// What git ignores at base, besides what is never part of a patch.
pub(super) async fn ignore_rules(mirror: &Mirror, base: &Tree) -> Result<IgnoreRules, Stop> {
    let files = base.entries.iter().filter(|(path, entry)| {
        matches!(entry.mode, BlobMode::File | BlobMode::Executable) && (path.as_slice() == b".gitignore" || path.ends_with(b"/.gitignore"))
    });
    let (paths, blobs): (Vec<_>, Vec<_>) = files.map(|(path, entry)| (path.clone(), entry.blob.as_str())).unzip();
    let contents = mirror.blobs(&blobs).await?;
    Ok(IgnoreRules::new(&paths.into_iter().zip(contents).collect::<Vec<_>>()))
}
