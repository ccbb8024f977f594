//! Python as the rules see it: syntax trees, the names in them followed to where they come from, and what is new in a patched file.
//!
//! What must hold: no bytes end the service. Text that nests deeper than any program does is not parsed, and what can't be parsed is told apart
//! from what is not there.

mod facts;
mod hidden;
mod module;
mod names;
pub(super) mod place;
mod role;
mod walk;

pub(super) use facts::{Fact, fresh};
pub(super) use module::{Module, Reading};
pub(super) use names::Names;
pub(super) use role::Role;
pub(super) use walk::{Path, each, is_constant, same, same_body, statements};

use crate::domain::{BlobMode, ChangedFile, TestNames};

/// A changed file that Python reads, on both sides.
pub(super) struct PythonFile<'a> {
    pub(super) file: &'a ChangedFile,
    pub(super) role: Role,
    pub(super) before: Reading,
    pub(super) after: Reading,
}

impl<'a> PythonFile<'a> {
    pub(super) fn read(file: &'a ChangedFile, tests: &TestNames) -> Option<Self> {
        is_python(file).then(|| PythonFile {
            file,
            role: Role::of(&file.path, tests),
            before: Reading::of(content(file.before.as_ref())),
            after: Reading::of(content(file.after.as_ref())),
        })
    }
}

fn content(blob: Option<&(BlobMode, Vec<u8>)>) -> Option<&[u8]> {
    blob.filter(|(mode, _)| matches!(mode, BlobMode::File | BlobMode::Executable)).map(|(_, content)| content.as_slice())
}

/// A file with one of Python's endings, or one whose first line calls Python.
fn is_python(file: &ChangedFile) -> bool {
    let ends = |ending: &[u8]| file.path.to_ascii_lowercase().ends_with(ending);
    let calls_python = |blob: Option<&(BlobMode, Vec<u8>)>| {
        content(blob).is_some_and(|text| {
            let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            first.starts_with(b"#!") && first.windows(6).any(|part| part == b"python")
        })
    };
    ends(b".py") || ends(b".pyw") || calls_python(file.after.as_ref()) || calls_python(file.before.as_ref())
}
