//! A patch larger than a person reads is not proposed. What is larger than the rules read is refused whatever the limits allow: no rule passes
//! what it did not see.

use super::{Limits, Patch, binary, file_name, lines, of_patch, runner_command, shown};
use crate::domain::{ChangedFile, Finding, Severity, is_test_configuration};

pub(super) const RULE: &str = "size";

/// The added and removed bytes that the rules read at most.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The longest added line that the rules read, in bytes.
const LONGEST_LINE: usize = 256 * 1024;

/// The largest file of settings or commands that the rules read, in bytes: they read it whole, however little of it changes.
const LARGEST_SETTINGS: usize = 1024 * 1024;

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    Ok(patch.too_large.iter().map(|why| of_patch(RULE, Severity::Refuse, why.clone())).collect())
}

/// The limits that are passed; what is larger is refused, and no rule needs to read more of it.
pub(super) fn complaints(changed: &[ChangedFile], limits: &Limits) -> Vec<String> {
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
    let mut complaints: Vec<String> = too_large.map(|(what, size, limit)| format!("{size} {what}; the limit is {limit}")).collect();
    if complaints.is_empty() && bytes > MOST_BYTES {
        complaints.push(format!("{bytes} changed bytes; the rules read {MOST_BYTES}"));
    }
    if complaints.is_empty() {
        complaints.extend(changed.iter().filter_map(unreadable));
    }
    complaints
}

/// What the rules would have to read of a file and don't.
fn unreadable(file: &ChangedFile) -> Option<String> {
    let is_text = file.after.as_ref().is_none_or(|(_, content)| !binary::is_binary(content));
    let longest = if is_text { lines::added(file).iter().map(|(_, line)| line.len()).max().unwrap_or_default() } else { 0 };
    if longest > LONGEST_LINE {
        return Some(format!("a line of {} has {longest} bytes; the rules read {LONGEST_LINE}", shown(&file.path)));
    }
    let name = file_name(&file.path);
    let is_read_whole =
        !name.ends_with(b".py") && (is_test_configuration(&file.path) || name.contains(&b'.') && runner_command::may_run_tests(&file.path));
    let largest = [&file.before, &file.after].into_iter().flatten().map(|(_, content)| content.len()).max().unwrap_or_default();
    (is_read_whole && largest > LARGEST_SETTINGS)
        .then(|| format!("{} has {largest} bytes; the rules read {LARGEST_SETTINGS} of settings and commands", shown(&file.path)))
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
    use crate::guard::tests::{changed, findings, findings_with};
    use crate::guard::{Base, Limits};

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
    fn what_the_rules_do_not_read_is_refused_whatever_the_limits_say() {
        let wide = Limits { max_bytes: u64::MAX, max_lines: u64::MAX, ..Limits::default() };
        let said = |path: &str, before: Option<&str>, after: &str| {
            let found = findings_with(check, &[changed(path, before, Some(after))], &wide, &Base::default());
            found.into_iter().map(|finding| finding.why).collect::<Vec<_>>()
        };
        let (large, long) = ("x = 1\n".repeat(1_000_000), "x".repeat(300_000));
        assert_eq!(said("a", None, &large), ["6000000 changed bytes; the rules read 4194304"]);
        assert_eq!(said("a.js", None, &long), ["a line of a.js has 300000 bytes; the rules read 262144"]);
        for path in ["Makefile", "tests/pytest.ini", "pyproject.toml"] {
            let why = format!("{path} has 6000007 bytes; the rules read 1048576 of settings and commands");
            assert_eq!(said(path, Some(&large), &format!("{large}y = 1\n\n")), [why]);
        }
        assert!(said("a.js", Some(&long), &format!("{long}\nx\n")).is_empty());
    }

    #[test]
    fn a_small_change_of_a_large_file_is_small() {
        let large = "some line\n".repeat(500_000);
        assert!(findings(check, &[changed("a", Some(&large), Some(&format!("{large}one more\n")))]).is_empty());
    }
}
