//! A submodule is somebody else's repository: its commit can't be read here, so it may not move.

use super::{Patch, of_file};
use crate::domain::{BlobMode, Finding, Severity};

pub(super) const RULE: &str = "submodule";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let is_submodule = |blob: &Option<(BlobMode, Vec<u8>)>| blob.as_ref().is_some_and(|(mode, _)| *mode == BlobMode::Submodule);
    let touched = patch.changed.iter().filter(|file| is_submodule(&file.before) || is_submodule(&file.after));
    Ok(touched.map(|file| of_file(RULE, Severity::Refuse, file, None, "the patch adds, moves or removes a submodule")).collect())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::{BlobMode, Severity};
    use crate::guard::tests::{changed, of_mode, severities};

    #[test]
    fn submodules_may_not_move() {
        assert_eq!(severities(check, &[of_mode("dep", BlobMode::Submodule, "1234")]), [Severity::Refuse]);
        assert!(severities(check, &[changed("dep", None, Some("1234"))]).is_empty());
    }
}
