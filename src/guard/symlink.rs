//! A symbolic link leads a program, or the next patch, to a place that nobody looked at.

use super::{Patch, odd_name, of_file};
use crate::domain::{BlobMode, Finding, Severity};

pub(super) const RULE: &str = "symlink";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for file in patch.changed {
        if let Some((BlobMode::Symlink, target)) = &file.after {
            let (severity, why) = weigh(&file.path, target);
            findings.push(of_file(RULE, severity, file, None, why));
            let below = patch.changed.iter().filter(|other| other.after.is_some() && is_below(&other.path, &file.path));
            findings.extend(
                below.map(|other| of_file(RULE, Severity::Refuse, other, None, "the path goes through a symbolic link of the patch")),
            );
        }
    }
    Ok(findings)
}

fn weigh(path: &[u8], target: &[u8]) -> (Severity, &'static str) {
    if target.starts_with(b"/") {
        return (Severity::Refuse, "the symbolic link is absolute");
    }
    let parts = |path: &'_ [u8]| path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
    if parts(target).iter().any(|part| odd_name::is_dot_git(part)) {
        return (Severity::Refuse, "the symbolic link points into .git");
    }
    let mut depth = parts(path).len() - 1;
    let mut went_down = false;
    for part in parts(target).iter().filter(|part| !part.is_empty() && *part != b".") {
        if part != b".." {
            went_down = true;
        } else if went_down {
            return (Severity::Refuse, "the symbolic link goes down and up again, so its end depends on other links");
        } else if depth == 0 {
            return (Severity::Refuse, "the symbolic link leaves the repository");
        } else {
            depth -= 1;
        }
    }
    (Severity::Flag, "the patch makes or changes a symbolic link")
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::BlobMode;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, of_mode, severities};

    #[test]
    fn links_that_leave_the_tree_are_refused_and_others_flagged() {
        let weight = |path, target| severities(check, &[of_mode(path, BlobMode::Symlink, target)]);
        for (path, target) in
            [("a", "/etc"), ("a", ".."), ("a/b", "../../x"), ("a/b", "../.git/config"), ("a", ".GIT/hooks"), ("a/b", "c/../../..")]
        {
            assert_eq!(weight(path, target), [Refuse], "{path} -> {target}");
        }
        for (path, target) in [("a", "b"), ("a/b", "../c"), ("a/b/c", "./../../d")] {
            assert_eq!(weight(path, target), [Flag], "{path} -> {target}");
        }
        assert!(severities(check, &[changed("a", None, Some("/etc"))]).is_empty());
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        assert_eq!(severities(check, &[of_mode("a", BlobMode::Symlink, "b"), changed("a/x", None, Some("x"))]), [Flag, Refuse]);
    }
}
