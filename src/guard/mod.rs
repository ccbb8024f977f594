//! The guard: what a patch must not do, whatever the tests say.
//!
//! What must hold: every rule is a pure function of the base tree and the changed files, one rule a file; a rule that can't decide, or
//! that fails, refuses; a finding has the stable name of its rule; and a [`GuardedPatch`] exists only where no rule refused, so that publishing an unguarded patch does not compile.

mod binary;
mod conflict_markers;
mod confusable;
mod dependency;
mod doctest_lost;
mod early_exit;
mod empty;
mod errors_swallowed;
mod file_deleted;
mod foreign_test;
mod generated;
mod invisible_characters;
mod lines;
mod mode_changed;
mod no_effect;
mod odd_name;
mod protected_path;
mod python;
mod report_forged;
mod risky_call;
mod runner_command;
mod runner_hook;
mod runner_patched;
mod secret;
mod shadowed;
mod size;
mod special_case;
mod stand_in;
mod submodule;
mod symlink;
mod test_aware;
mod test_configuration;
mod test_deleted;
mod test_weakened;
mod tests_changed;
mod unreadable_python;

use std::collections::BTreeMap;

use crate::domain::{BlobMode, ChangedFile, Finding, Severity, TestNames, is_test_configuration};
use python::PythonFile;

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

/// What the rules know of the base tree beside the changed files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Base {
    /// Every path.
    pub paths: Vec<Vec<u8>>,
    /// The contents of the files that [`Base::wants`] names, as far as they were read.
    pub files: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Base {
    /// A larger file need not be read, in bytes.
    pub const LARGEST: u64 = 256 * 1024;

    /// More files need not be read.
    pub const MOST: usize = 500;

    fn text_of(&self, path: &[u8]) -> Option<String> {
        self.files.get(path).map(|content| String::from_utf8_lossy(content).into_owned())
    }

    /// Whether the rules look at the content of this file where it is not changed: what decides how tests run, and what tests share.
    #[must_use]
    pub fn wants(path: &[u8]) -> bool {
        is_test_configuration(path) && !path.contains(&b'\n')
    }
}

/// The proof that every rule has seen a patch and none refused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardedPatch {
    changed: Vec<ChangedFile>,
    flags: Vec<Finding>,
    gone: Vec<String>,
    tests: TestNames,
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

    /// What base calls a test.
    #[must_use]
    pub const fn test_names(&self) -> &TestNames {
        &self.tests
    }

    /// The tests of base that the patch takes away for a reason that the rules accept: they moved, or went with what they tested. Dotted, with the
    /// path in front: `tests.test_a.TestA.test_b`, `src.shop.price` for the examples in a docstring.
    #[must_use]
    pub fn gone(&self) -> &[String] {
        &self.gone
    }
}

/// What the rules look at.
struct Patch<'a> {
    changed: &'a [ChangedFile],
    limits: &'a Limits,
    base: &'a Base,
    /// Why it is too large for rules that read its text; empty where it is not.
    too_large: Vec<String>,
    python: Vec<PythonFile<'a>>,
    /// What base calls a test.
    tests: TestNames,
}

impl<'a> Patch<'a> {
    fn of(changed: &'a [ChangedFile], limits: &'a Limits, base: &'a Base) -> Self {
        let too_large = size::complaints(changed, limits);
        let tests = test_configuration::test_names(changed, base);
        let read = || changed.iter().filter_map(|file| PythonFile::read(file, &tests)).collect();
        let python = if too_large.is_empty() { read() } else { Vec::new() };
        Self { changed, limits, base, too_large, python, tests }
    }

    /// Whether a file belongs to the tests or decides how they run.
    fn is_of_tests(&self, path: &[u8]) -> bool {
        self.tests.is_test_file(path) || is_test_configuration(path)
    }

    /// The paths of the patched tree.
    fn paths_after(&self) -> impl Iterator<Item = &[u8]> {
        let gone = |path: &[u8]| self.changed.iter().any(|file| file.path == path && file.after.is_none());
        let new = self.changed.iter().filter(|file| file.before.is_none() && file.after.is_some()).map(|file| file.path.as_slice());
        self.base.paths.iter().map(Vec::as_slice).filter(move |path| !gone(path)).chain(new)
    }
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
    (unreadable_python::RULE, unreadable_python::check),
    (test_deleted::RULE, test_deleted::check),
    (test_weakened::RULE, test_weakened::check),
    (foreign_test::RULE, foreign_test::check),
    (test_configuration::RULE, test_configuration::check),
    (runner_command::RULE, runner_command::check),
    (runner_hook::RULE, runner_hook::check),
    (runner_patched::RULE, runner_patched::check),
    (early_exit::RULE, early_exit::check),
    (report_forged::RULE, report_forged::check),
    (test_aware::RULE, test_aware::check),
    (shadowed::RULE, shadowed::check),
    (secret::RULE, secret::check),
    (invisible_characters::RULE, invisible_characters::check),
    (confusable::RULE, confusable::check),
    (conflict_markers::RULE, conflict_markers::check),
    (dependency::RULE, dependency::check),
    (risky_call::RULE, risky_call::check),
    (errors_swallowed::RULE, errors_swallowed::check),
    (special_case::RULE, special_case::check),
    (stand_in::RULE, stand_in::check),
    (doctest_lost::RULE, doctest_lost::check),
    (generated::RULE, generated::check),
    (file_deleted::RULE, file_deleted::check),
    (mode_changed::RULE, mode_changed::check),
    (tests_changed::RULE, tests_changed::check),
    (no_effect::RULE, no_effect::check),
];

/// More findings of one rule than this are counted instead of listed.
const LISTED: usize = 20;

/// The rules run on a stack of this size, in bytes: a syntax tree may be as deep as its text is long.
const STACK: usize = 256 * 1024 * 1024;

/// Asks every rule about a patch.
///
/// # Errors
/// All findings, those that refuse first, where at least one rule refuses, fails or could not decide.
pub fn check(changed: Vec<ChangedFile>, limits: &Limits, base: &Base) -> Result<GuardedPatch, Vec<Finding>> {
    let asked = std::thread::scope(|scope| {
        let rules = || {
            let patch = Patch::of(&changed, limits, base);
            let gone = [test_weakened::gone(&patch), doctest_lost::gone(&patch)].concat();
            (ask_all(&patch), gone, patch.tests)
        };
        let thread = std::thread::Builder::new().name("guard".to_owned()).stack_size(STACK).spawn_scoped(scope, rules);
        thread.map_err(|error| error.to_string())?.join().map_err(|_| "a rule failed".to_owned())
    });
    let undecided = |why| vec![of_patch("guard", Severity::Refuse, format!("the rules could not decide: {why}"))];
    let (mut findings, gone, tests) = asked.unwrap_or_else(|why| (undecided(why), Vec::new(), TestNames::default()));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    if findings.iter().any(|finding| finding.severity == Severity::Refuse) {
        return Err(findings);
    }
    Ok(GuardedPatch { changed, flags: findings, gone, tests })
}

/// The rules that look at names, modes and sizes: those that a patch too large to be read is shown to.
const WITHOUT_READING: &[&str] = &[
    empty::RULE,
    odd_name::RULE,
    protected_path::RULE,
    submodule::RULE,
    symlink::RULE,
    size::RULE,
    binary::RULE,
    shadowed::RULE,
    file_deleted::RULE,
    mode_changed::RULE,
];

/// What is too large to be read is refused for that; what can be told of it without reading is told beside.
fn ask_all(patch: &Patch<'_>) -> Vec<Finding> {
    let rules = RULES.iter().filter(|(name, _)| patch.too_large.is_empty() || WITHOUT_READING.contains(name));
    rules.flat_map(|(name, rule)| ask(name, *rule, patch)).collect()
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
    Finding { rule: rule.to_owned(), severity, path: shown(&file.path), line, why: why.into() }
}

/// A path for people; bytes that are no UTF-8 as `\xNN`.
fn shown(path: &[u8]) -> String {
    let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    path.utf8_chunks().map(|chunk| format!("{}{}", chunk.valid(), bytes(chunk.invalid()))).collect()
}

/// Whether a character hides itself or others on a screen.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    invisible_characters::in_text(&c.to_string()).next().is_some()
}

type Blob = (BlobMode, Vec<u8>);

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn folder(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |end| &path[..end])
}

/// The name that Python gives to something in a file: `src.shop.price` for `price` in `src/shop.py`.
fn dotted(path: &[u8], name: &str) -> String {
    let path = String::from_utf8_lossy(path);
    let module = path.strip_suffix(".py").unwrap_or(&path).replace('/', ".");
    format!("{}.{name}", module.strip_suffix(".__init__").unwrap_or(&module))
}

/// The text of one side of a file, undecodable bytes replaced; empty where it is not there.
fn text(blob: Option<&Blob>) -> String {
    blob.map(|(_, content)| String::from_utf8_lossy(content).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Base, LISTED, Limits, Patch, Rule, ask, check};
    use crate::domain::{BlobMode, ChangedFile, Finding, Severity};

    pub(super) fn changed(path: &str, before: Option<&str>, after: Option<&str>) -> ChangedFile {
        let blob = |text: &str| (BlobMode::File, text.as_bytes().to_vec());
        ChangedFile { path: path.as_bytes().to_vec(), before: before.map(blob), after: after.map(blob) }
    }

    pub(super) fn of_mode(path: &str, mode: BlobMode, content: &str) -> ChangedFile {
        ChangedFile { path: path.as_bytes().to_vec(), before: None, after: Some((mode, content.as_bytes().to_vec())) }
    }

    pub(super) fn findings(rule: Rule, changed: &[ChangedFile]) -> Vec<Finding> {
        findings_with(rule, changed, &Limits::default(), &Base::default())
    }

    pub(super) fn findings_with(rule: Rule, changed: &[ChangedFile], limits: &Limits, base: &Base) -> Vec<Finding> {
        rule(&Patch::of(changed, limits, base)).unwrap()
    }

    pub(super) fn base_with(paths: &[&str], files: &[(&str, &str)]) -> Base {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let all = paths.iter().copied().chain(files.iter().map(|(path, _)| *path));
        Base { paths: all.map(bytes).collect(), files: files.iter().map(|(path, text)| (bytes(path), bytes(text))).collect() }
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
        let guarded = check(patch.clone(), &Limits::default(), &Base::default()).unwrap();
        assert_eq!(guarded.changed(), patch);
        assert_eq!(guarded.flags().iter().map(|flag| flag.rule.as_str()).collect::<Vec<_>>(), ["tests-changed"]);
    }

    #[test]
    fn a_rule_that_cannot_decide_refuses() {
        fn broken(_: &Patch<'_>) -> Result<Vec<Finding>, String> {
            Err("no idea".to_owned())
        }
        let findings = ask("broken", broken, &Patch::of(&[], &Limits::default(), &Base::default()));
        assert_eq!(findings[0].severity, Severity::Refuse);
        assert_eq!(findings[0].why, "the rule could not decide: no idea");
        let limits = Limits { protected: vec!["{a".to_owned()], ..Limits::default() };
        assert!(check(vec![changed("a.py", None, Some("x = 1\n"))], &limits, &Base::default()).is_err());
    }

    #[test]
    fn refusals_come_first_and_long_lists_are_cut() {
        let mut patch: Vec<_> = (0..60).map(|n| changed(&format!("w{n}/x.pth"), None, Some("x\n"))).collect();
        patch.push(of_mode("run.sh", BlobMode::Executable, "true\n"));
        let refused = check(patch, &Limits::default(), &Base::default()).unwrap_err();
        assert_eq!(refused.iter().filter(|finding| finding.rule == "protected-path").count(), LISTED + 1);
        assert_eq!(refused.last().unwrap().rule, "mode-changed");
    }
}
