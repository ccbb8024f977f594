//! A file that became a program is shown to the reviewer.

use super::{Patch, of_file};
use crate::domain::{BlobMode, ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "mode-changed";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let gained = patch.changed.iter().filter(|file| became_executable(file));
    Ok(gained.map(|file| of_file(RULE, Severity::Flag, file, None, "the file may be executed now")).collect())
}

fn became_executable(file: &ChangedFile) -> bool {
    let is_executable = |blob: &Option<(BlobMode, Vec<u8>)>| blob.as_ref().is_some_and(|(mode, _)| *mode == BlobMode::Executable);
    is_executable(&file.after) && !is_executable(&file.before)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::{BlobMode, Severity};
    use crate::guard::tests::{changed, of_mode, severities};

    #[test]
    fn a_gained_executable_bit_is_flagged() {
        let mut file = of_mode("run.sh", BlobMode::Executable, "true\n");
        assert_eq!(severities(check, std::slice::from_ref(&file)), [Severity::Flag]);
        file.before = Some((BlobMode::Executable, b"false\n".to_vec()));
        assert!(severities(check, &[file, changed("a.py", None, Some("x"))]).is_empty());
    }
}
