//! A patch that changes nothing fixes nothing.

use super::{Patch, of_patch};
use crate::domain::{Finding, Severity};

pub(super) const RULE: &str = "empty";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let is_empty = patch.changed.iter().all(|file| file.before == file.after);
    Ok(is_empty.then(|| of_patch(RULE, Severity::Refuse, "the patch changes nothing")).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::Refuse;
    use crate::guard::tests::{changed, severities};

    #[test]
    fn nothing_is_refused() {
        assert_eq!(severities(check, &[]), [Refuse]);
        assert_eq!(severities(check, &[changed("a", Some("x"), Some("x"))]), [Refuse]);
        assert!(severities(check, &[changed("a", Some("x=1"), Some("x=2"))]).is_empty());
        assert!(severities(check, &[changed("a", Some("x"), None)]).is_empty());
    }
}
