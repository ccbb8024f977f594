//! A patch larger than a person reads is not proposed.

use super::{Limits, Patch, binary, lines, of_patch};
use crate::domain::{ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "size";

/// Whether no limit is passed; what is larger is refused, and no rule needs to read more of it.
pub(super) fn is_within(changed: &[ChangedFile], limits: &Limits) -> bool {
    complaints(changed, limits).is_empty()
}

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    Ok(complaints(patch.changed, patch.limits).into_iter().map(|why| of_patch(RULE, Severity::Refuse, why)).collect())
}

fn complaints(changed: &[ChangedFile], limits: &Limits) -> Vec<String> {
    let (mut changed_lines, mut bytes) = (0, 0);
    for file in changed {
        let (file_lines, file_bytes) = measure(file);
        changed_lines += file_lines;
        bytes += file_bytes;
    }
    let measured = [
        ("files", changed.len(), limits.max_files),
        ("added and removed lines", changed_lines, limits.max_lines),
        ("changed bytes", bytes, limits.max_bytes),
    ];
    let too_large = measured.into_iter().filter(|(_, size, limit)| u64::try_from(*size).map_or(true, |size| size > *limit));
    too_large.map(|(what, size, limit)| format!("{size} {what}; the limit is {limit}")).collect()
}

fn measure(file: &ChangedFile) -> (usize, usize) {
    if file.after.as_ref().is_some_and(|(_, content)| binary::is_binary(content)) {
        return (0, file.after.as_ref().map_or(0, |(_, content)| content.len()));
    }
    let changed = [lines::added(file), lines::removed(file)].concat();
    (changed.len(), changed.iter().map(|(_, line)| line.len() + 1).sum())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::guard::tests::{changed, findings};

    #[test]
    fn files_lines_and_bytes_have_limits() {
        let many: Vec<_> = (0..51).map(|n| changed(&format!("a{n}"), None, Some("x\n"))).collect();
        assert_eq!(findings(check, &many)[0].why, "51 files; the limit is 50");
        assert!(findings(check, &many[..50]).is_empty());
        assert_eq!(
            findings(check, &[changed("a", None, Some(&"x\n".repeat(3001)))])[0].why,
            "3001 added and removed lines; the limit is 3000"
        );
        let long = "x".repeat(1024 * 1024);
        assert_eq!(findings(check, &[changed("a", Some(""), Some(&long))])[0].why, "1048577 changed bytes; the limit is 1048576");
    }

    #[test]
    fn a_small_change_of_a_large_file_is_small() {
        let large = "some line\n".repeat(500_000);
        assert!(findings(check, &[changed("a", Some(&large), Some(&format!("{large}one more\n")))]).is_empty());
    }
}
