//! What an installed package brings into every later run: plugins of the runner, programs with its name, code that builds it.

use super::super::{file_name, of_file, text};
use super::RULE;
use crate::domain::{ChangedFile, Finding, Severity};

pub(super) fn findings(file: &ChangedFile) -> Vec<Finding> {
    if !matches!(file_name(&file.path), b"pyproject.toml" | b"setup.cfg" | b"entry_points.txt") || file.after.is_none() {
        return Vec::new();
    }
    let (before, after) = (text(file.before.as_ref()), text(file.after.as_ref()));
    let mut findings = Vec::new();
    let line = |word: &str| after.lines().position(|line| line.contains(word)).map(|at| at as u64 + 1);
    let mut say = |severity, word: &str, why: &str| findings.push(of_file(RULE, severity, file, line(word), why));
    let plugins = |text: &str| {
        text.lines().skip_while(|line| !line.contains("pytest11")).take(8).map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    if after.contains("pytest11") && plugins(&before) != plugins(&after) {
        let severity = if before.contains("pytest11") { Severity::Flag } else { Severity::Refuse };
        say(severity, "pytest11", "the package makes itself a plugin of every later test run");
    }
    if after.contains("backend-path") && !before.contains("backend-path") {
        say(Severity::Refuse, "backend-path", "code of the repository runs whenever it is built");
    }
    for program in ["pytest", "py.test", "python", "python3", "tox", "nox", "coverage", "pip", "git", "make"] {
        let has = |text: &str| text.lines().any(|line| is_script(line, program));
        if has(&after) && !has(&before) && (after.contains("scripts") || after.contains("console_scripts")) {
            say(Severity::Refuse, program, "the package installs a program with the name of another one");
        }
    }
    let backend = |text: &str| text.lines().find(|line| line.trim_start().starts_with("build-backend")).map(|line| line.replace(' ', ""));
    if file.before.is_some() && backend(&before) != backend(&after) {
        say(Severity::Flag, "build-backend", "another program builds the package");
    }
    findings
}

/// `pytest = "shop.cli:main"`: a name with a place in a module.
fn is_script(line: &str, program: &str) -> bool {
    let Some((name, place)) = line.split_once('=') else { return false };
    name.trim().trim_matches(['"', '\'']) == program && place.contains(':') && !place.contains("//")
}
