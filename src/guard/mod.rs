//! The guard: what a patch must not do, whatever the tests say.
//!
//! What must hold: every rule is a pure function of the base tree's names and the changed files, one rule a file; a rule that can't decide
//! refuses; and a [`GuardedPatch`] exists only where no rule refused, so that publishing an unguarded patch does not compile.

mod binary;
mod conflict_markers;
mod empty;
mod invisible_characters;
mod lines;
mod mode_changed;
mod odd_name;
mod protected_path;
mod python;
mod secret;
mod size;
mod submodule;
mod symlink;
mod test_deleted;
mod test_weakened;
mod tests_changed;

use crate::domain::{ChangedFile, Finding, Severity};

/// How much a patch may do. The defaults are the service's floor; a repository's own file can only make them smaller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The number of changed paths; default 50.
    pub max_files: u64,
    /// The number of added and removed lines together; default 3000.
    pub max_lines: u64,
    /// The bytes of the added and removed lines together, binary files counted whole; default 1 MiB.
    pub max_bytes: u64,
    /// Whether binary files may change; default no.
    pub allow_binary: bool,
    /// Further protected paths, written as in a `.gitignore`; default none.
    pub protected: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_files: 50, max_lines: 3000, max_bytes: 1024 * 1024, allow_binary: false, protected: Vec::new() }
    }
}

/// The proof that every rule has seen a patch and none refused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardedPatch {
    changed: Vec<ChangedFile>,
    flags: Vec<Finding>,
}

impl GuardedPatch {
    /// The changed files.
    #[must_use]
    pub fn changed(&self) -> &[ChangedFile] {
        &self.changed
    }

    /// What the reviewer must be shown; all of severity flag.
    #[must_use]
    pub fn flags(&self) -> &[Finding] {
        &self.flags
    }
}

/// What the rules look at.
struct Patch<'a> {
    changed: &'a [ChangedFile],
    limits: &'a Limits,
    base: &'a [Vec<u8>],
}

type Rule = fn(&Patch<'_>) -> Result<Vec<Finding>, String>;

const RULES: &[(&str, Rule)] = &[
    (empty::RULE, empty::check),
    (odd_name::RULE, odd_name::check),
    (protected_path::RULE, protected_path::check),
    (submodule::RULE, submodule::check),
    (symlink::RULE, symlink::check),
    (size::RULE, size::check),
    (binary::RULE, binary::check),
    (test_deleted::RULE, test_deleted::check),
    (test_weakened::RULE, test_weakened::check),
    (secret::RULE, secret::check),
    (invisible_characters::RULE, invisible_characters::check),
    (conflict_markers::RULE, conflict_markers::check),
    (mode_changed::RULE, mode_changed::check),
    (tests_changed::RULE, tests_changed::check),
];

/// More findings of one rule than this are counted instead of listed.
const LISTED: usize = 20;

/// Asks every rule about a patch. `base` holds every path of the base tree.
///
/// # Errors
/// All findings, those that refuse first, where at least one rule refuses or could not decide.
pub fn check(changed: Vec<ChangedFile>, limits: &Limits, base: &[Vec<u8>]) -> Result<GuardedPatch, Vec<Finding>> {
    let patch = Patch { changed: &changed, limits, base };
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|(name, rule)| ask(name, *rule, &patch)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    if findings.iter().any(|finding| finding.severity == Severity::Refuse) {
        return Err(findings);
    }
    Ok(GuardedPatch { changed, flags: findings })
}

fn ask(name: &str, rule: Rule, patch: &Patch<'_>) -> Vec<Finding> {
    let mut findings =
        rule(patch).unwrap_or_else(|why| vec![of_patch(name, Severity::Refuse, format!("the rule could not decide: {why}"))]);
    if findings.len() > LISTED {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let (rest, severity) = (findings.len() - LISTED, findings[LISTED].severity);
        findings.truncate(LISTED);
        findings.push(of_patch(name, severity, format!("and {rest} more")));
    }
    findings
}

fn of_patch(rule: &str, severity: Severity, why: impl Into<String>) -> Finding {
    Finding { rule: rule.to_owned(), severity, path: String::new(), line: None, why: why.into() }
}

fn of_file(rule: &str, severity: Severity, file: &ChangedFile, line: Option<u64>, why: impl Into<String>) -> Finding {
    Finding { rule: rule.to_owned(), severity, path: file.shown_path(), line, why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::{LISTED, Limits, Patch, Rule, ask, check};
    use crate::domain::{BlobMode, ChangedFile, Finding, Severity};

    pub(super) fn changed(path: &str, before: Option<&str>, after: Option<&str>) -> ChangedFile {
        let blob = |text: &str| (BlobMode::File, text.as_bytes().to_vec());
        ChangedFile { path: path.as_bytes().to_vec(), before: before.map(blob), after: after.map(blob) }
    }

    pub(super) fn of_mode(path: &str, mode: BlobMode, content: &str) -> ChangedFile {
        ChangedFile { path: path.as_bytes().to_vec(), before: None, after: Some((mode, content.as_bytes().to_vec())) }
    }

    pub(super) fn findings(rule: Rule, changed: &[ChangedFile]) -> Vec<Finding> {
        rule(&Patch { changed, limits: &Limits::default(), base: &[] }).unwrap()
    }

    pub(super) fn severities(rule: Rule, changed: &[ChangedFile]) -> Vec<Severity> {
        findings(rule, changed).iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn an_honest_fix_is_guarded_and_keeps_its_flags() {
        let patch = vec![
            changed("src/a.py", Some("x = 1\n"), Some("x = 2\n")),
            changed("tests/test_a.py", Some("def test_a():\n    assert 1\n"), Some("def test_a():\n    assert 1\n    assert 2\n")),
        ];
        let guarded = check(patch.clone(), &Limits::default(), &[]).unwrap();
        assert_eq!(guarded.changed(), patch);
        assert_eq!(guarded.flags().iter().map(|flag| flag.rule.as_str()).collect::<Vec<_>>(), ["tests-changed"]);
    }

    #[test]
    fn a_rule_that_cannot_decide_refuses() {
        fn broken(_: &Patch<'_>) -> Result<Vec<Finding>, String> {
            Err("no idea".to_owned())
        }
        let findings = ask("broken", broken, &Patch { changed: &[], limits: &Limits::default(), base: &[] });
        assert_eq!(findings[0].severity, Severity::Refuse);
        assert_eq!(findings[0].why, "the rule could not decide: no idea");
        let limits = Limits { protected: vec!["{a".to_owned()], ..Limits::default() };
        assert!(check(vec![changed("a.py", None, Some("x = 1\n"))], &limits, &[]).is_err());
    }

    #[test]
    fn refusals_come_first_and_long_lists_are_cut() {
        let mut patch: Vec<_> = (0..60).map(|n| changed(&format!("w{n}/x.pth"), None, Some("x\n"))).collect();
        patch.push(of_mode("run.sh", BlobMode::Executable, "true\n"));
        let refused = check(patch, &Limits::default(), &[]).unwrap_err();
        assert_eq!(refused.iter().filter(|finding| finding.rule == "protected-path").count(), LISTED + 1);
        assert_eq!(refused.last().unwrap().rule, "mode-changed");
    }
}
