//! The commands that run the tests, wherever they are written: Makefiles, scripts, tox, task runners. A line that ran them and no longer does, or
//! whose failure nobody sees, is refused.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;
use ruff_python_ast::AnyNodeRef;

use super::python::{Module, PythonFile, Role, each};
use super::{Patch, file_name, of_file, test_configuration, text};
use crate::domain::{ChangedFile, Finding, Severity, is_test_configuration, is_test_file};

pub(super) const RULE: &str = "runner-command";

static RUNS: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:pytest|py\.test|unittest|nosetests|nose2|tox|nox|stestr|trial|manage\.py test|hatch (?:run )?test|coverage (?:run|report)|python -m doctest)\b",
    )
});

static IGNORES: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)\|\|\s*(?:true|:|exit\s+0|echo|/bin/true)|;\s*(?:true|exit\s+0)\b|&&?\s*exit\s+0|\|\s*(?:cat|tee|tail|head|true)\b|\s&\s*$|^\s*@?-\s*\S|^\s*[@+-]*-[@+]*\s*\S|^\s*@?!\s|^\s*\.IGNORE|^\s*\.SHELLFLAGS|^\s*(?:export\s+)?(?:SHELL|MAKEFLAGS)\s*[:+?]?=\s*(?:\S*/)?(?:true|echo|:|-\w*i|--ignore)|^\s*exit\s+0|set\s+\+e
        |ignore_outcome|ignore_errors\s*=\s*true|success_codes|suppress_no_test|check\s*=\s*False
        |--(?:ignore|deselect|co\b|collect-only|continue-on-collection-errors|maxfail|exitfirst|lf|last-failed|sw|stepwise|noconftest|runxfail|reruns|override-ini|exit-zero|setup-only|setup-plan|fixtures|help|version|snapshot-update|force-regen|update-snapshots)
        |(?:^|\s|['\x22])-(?:k|m\s*['\x22]?not|x|p|o|O|OO)(?:\s|=|['\x22]|$)|PYTEST_|PYTHONOPTIMIZE",
    )
});

/// The share of the code that must be covered, in an option.
static BAR: LazyLock<Result<Regex, regex::Error>> =
    LazyLock::new(|| Regex::new(r#"(?m)^[^#\n]*?--(?:cov-)?fail-under["']?[=,\s]+["']?(-?[0-9]+(?:\.[0-9]+)?)|^[^#\n]*?(--no-cov)\b"#));

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let (runs, ignores) = (RUNS.as_ref().map_err(ToString::to_string)?, IGNORES.as_ref().map_err(ToString::to_string)?);
    let bar_of = BAR.as_ref().map_err(ToString::to_string)?;
    let mut findings = Vec::new();
    for file in patch.changed {
        if may_run_tests(&file.path) {
            findings.extend(lower_bar(file, bar_of, test_configuration::bar(patch)).or_else(|| finding(file, runs, ignores)));
        }
        findings.extend(environment(file));
    }
    let shielded: Vec<Finding> = patch.python.iter().filter_map(|file| shielded(file, runs)).collect();
    let is_told = |new: &Finding| findings.iter().any(|known| known.path == new.path && known.severity == Severity::Refuse);
    let new: Vec<Finding> = shielded.into_iter().filter(|finding| !is_told(finding)).collect();
    findings.extend(new);
    Ok(findings)
}

/// Files with commands in them; documents and lists of packages only name the runner.
pub(super) fn may_run_tests(path: &[u8]) -> bool {
    let name = String::from_utf8_lossy(file_name(path)).to_lowercase();
    let is_known = matches!(
        name.as_str(),
        "makefile"
            | "gnumakefile"
            | "justfile"
            | "taskfile.yml"
            | "taskfile.yaml"
            | "tox.ini"
            | "tox.toml"
            | "noxfile.py"
            | "tasks.py"
            | "dodo.py"
            | "setup.cfg"
            | "pyproject.toml"
            | "package.json"
            | "procfile"
            | "dockerfile"
            | "earthfile"
            | "rakefile"
            | "build.xml"
            | "hatch.toml"
            | "runtests.py"
            | "run_tests.py"
            | "manage.py"
            | "docker-compose.yml"
            | "compose.yml"
    );
    is_known
        || [".sh", ".bash", ".bat", ".cmd", ".ps1", ".mk", ".zsh", ".fish"].iter().any(|ending| name.ends_with(ending))
        || !name.contains('.') && !is_test_file(path) && !is_test_configuration(path)
}

/// An option that asks for less coverage than an option of this file, or the settings, asked for before.
fn lower_bar(file: &ChangedFile, bar_of: &Regex, of_settings: f64) -> Option<Finding> {
    let (before, after) = (text(file.before.as_ref()), text(file.after.as_ref()));
    let value = |found: &regex::Captures<'_>| found.get(1).and_then(|bar| bar.as_str().parse::<f64>().ok()).unwrap_or(0.0);
    let had: Vec<f64> = bar_of.captures_iter(&before).map(|found| value(&found)).collect();
    let bar = had.iter().copied().fold(of_settings, f64::max);
    let lower = bar_of.captures_iter(&after).find(|found| value(found) < bar && !had.contains(&value(found)))?;
    let line = after[..lower.get(0)?.end()].matches('\n').count() as u64 + 1;
    Some(of_file(RULE, Severity::Refuse, file, Some(line), "the command asks for less coverage than before"))
}

fn finding(file: &ChangedFile, runs: &Regex, ignores: &Regex) -> Option<Finding> {
    let (before, after) = (text(file.before.as_ref()), text(file.after.as_ref()));
    file.before.as_ref()?;
    let only_names_it = |line: &str| {
        let line = line.trim().trim_start_matches(['@', '-', '+', ' ']);
        line.starts_with("echo ")
            || line.contains("\"echo\"")
            || line.contains("python -c")
            || line.contains("python3 -c")
            || line.starts_with("printf ")
    };
    let is_command = |line: &&str| runs.is_match(line) && !is_requirement(line) && !only_names_it(line);
    let had: Vec<&str> = before.lines().filter(is_command).collect();
    let has: Vec<&str> = after.lines().filter(is_command).collect();
    let trimmed = |lines: &[&'_ str]| lines.iter().map(|line| line.trim().to_owned()).collect::<HashSet<_>>();
    let (known_before, known_after) = (trimmed(&had), trimmed(&has));
    let gone: Vec<&&str> = had.iter().filter(|line| !known_after.contains(line.trim())).collect();
    let new: Vec<&&str> = has.iter().filter(|line| !known_before.contains(line.trim())).collect();
    let lost = gone.len();
    let number = |line: &str| after.lines().position(|known| known == line).map(|at| at as u64 + 1);
    let ignored_before = had.iter().any(|known| ignores.is_match(known));
    if let Some(line) = new.iter().find(|line| !ignored_before && ignores.is_match(line)) {
        return Some(of_file(RULE, Severity::Refuse, file, number(line), "the command runs fewer tests, or nobody sees that they fail"));
    }
    let ignores_more = |text: &str| text.lines().filter(|line| ignores.is_match(line) && !line.trim_start().starts_with('#')).count();
    if !had.is_empty() && ignores_more(&after) > ignores_more(&before) && !is_toml_or_ini(&file.path) {
        let old: HashSet<&str> = before.lines().collect();
        let line = after.lines().find(|line| !old.contains(line) && ignores.is_match(line)).and_then(number);
        return Some(of_file(RULE, Severity::Refuse, file, line, "a line beside the command for the tests hides that they fail"));
    }
    let outcome_ignored = ["ignore_outcome", "ignore_errors", "platform = none", "platform=none"]
        .iter()
        .any(|key| after.contains(key) && !before.contains(key));
    if outcome_ignored {
        return Some(of_file(RULE, Severity::Refuse, file, None, "the outcome of the tests is ignored"));
    }
    if let Some(line) = gone.iter().zip(&new).find(|(old, new)| narrows(old, new)).map(|(_, new)| new) {
        return Some(of_file(RULE, Severity::Refuse, file, number(line), "the command names some of the tests, where it ran all of them"));
    }
    if lost > new.len() {
        return Some(of_file(RULE, Severity::Refuse, file, None, "a command that ran the tests is gone"));
    }
    (lost > 0 || !new.is_empty()).then(|| {
        of_file(RULE, Severity::Flag, file, new.first().and_then(|line| number(line)), "the command that runs the tests is another")
    })
}

/// A call in a program that runs the tests (a session of nox), now under a condition or with its failure caught.
fn shielded(file: &PythonFile<'_>, runs: &Regex) -> Option<Finding> {
    let (before, after) = (file.before.module()?, file.after.module()?);
    let plain = |module: &Module| {
        let mut calls = 0;
        each(&module.body, |path, node| {
            let AnyNodeRef::ExprCall(call) = node else { return };
            let is_shielded = path.iter().any(|node| matches!(node, AnyNodeRef::StmtIf(_) | AnyNodeRef::StmtTry(_)))
                || path.iter().any(|node| matches!(node, AnyNodeRef::StmtWith(with) if with.items.iter().any(|item| module.names.full(&item.context_expr).contains("suppress"))));
            let runs_tests = call.arguments.args.iter().any(|arg| module.names.text(arg).is_some_and(|text| runs.is_match(&text)));
            calls += usize::from(runs_tests && !is_shielded && module.names.full(&call.func).ends_with("run"));
        });
        calls
    };
    let why = "the call that runs the tests is under a condition, or nobody hears that it fails";
    (file.role == Role::Build && plain(after) < plain(before)).then(|| of_file(RULE, Severity::Refuse, file.file, None, why))
}

/// Whether a command has places of tests in it that it had not, and had none before.
fn narrows(old: &str, new: &str) -> bool {
    let places = |line: &str| {
        let words = line.split([' ', '\t', '"', '\'', ',', '(', ')', '[', ']']).filter(|word| !word.starts_with('-'));
        words
            .filter(|word| {
                word.contains('/')
                    || word.ends_with(".py")
                    || word.contains("::")
                    || word.contains(".test")
                    || word.starts_with("test_")
                    || word.contains("tests.")
            })
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (had, has) = (places(old), places(new));
    let only_more = !had.is_empty() && had.iter().all(|place| has.contains(place));
    let names_some = has.iter().any(|place| !had.contains(place)) && !only_more;
    names_some
        || old.contains("discover") && new.contains("unittest") && !new.contains("discover")
        || [" -p ", " -s ", " --pattern"].iter().any(|option| new.contains(option) && !old.contains(option) && new.contains("unittest"))
}

/// A line that asks for the runner to be installed, or configures it.
fn is_requirement(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['"', '\'', '-', ' ']);
    let names_only = line.chars().all(|c| c.is_ascii_alphanumeric() || "_-.[]<>=!~,;\"' ".contains(c))
        && !line.contains(" -")
        && !line.contains("run")
        && line.split_whitespace().count() <= 2;
    line.starts_with('#')
        || line.starts_with('[')
        || line.contains("session.install")
        || line.starts_with("deps")
        || line.starts_with("requires")
        || names_only && !line.starts_with("py.test ") && line.contains(['=', '<', '>', '"', '\''])
}

fn is_toml_or_ini(path: &[u8]) -> bool {
    [&b".toml"[..], b".ini", b".cfg"].iter().any(|ending| path.ends_with(ending))
}

/// Variables that bend the runner from outside, set in any file but a document.
fn environment(file: &ChangedFile) -> Option<Finding> {
    let name = String::from_utf8_lossy(file_name(&file.path)).to_lowercase();
    if [".md", ".rst", ".txt", ".py"].iter().any(|ending| name.ends_with(ending)) && !may_run_tests(&file.path) {
        return None;
    }
    let (before, after) = (text(file.before.as_ref()), text(file.after.as_ref()));
    let names = [
        "PYTEST_ADDOPTS",
        "PYTEST_PLUGINS",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
        "PYTHONOPTIMIZE",
        "PYTHONSTARTUP",
        "PYTHONBREAKPOINT",
        "PYTHONUSERBASE",
        "PYTHONWARNINGS",
        "COVERAGE_PROCESS_START",
        "PYTHONINSPECT",
    ];
    let is_new = |name: &&str| after.contains(*name) && !before.contains(*name);
    if let Some(new) = names.into_iter().find(is_new) {
        return Some(of_file(RULE, Severity::Refuse, file, None, format!("{new} changes from outside how the tests run")));
    }
    let insecure = ["PYTHONHTTPSVERIFY", "NODE_TLS_REJECT_UNAUTHORIZED", "GIT_SSL_NO_VERIFY"].into_iter().find(is_new)?;
    Some(of_file(RULE, Severity::Flag, file, None, format!("{insecure} weakens secure connections of the whole process")))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    fn weigh(path: &str, from: &str, to: &str) -> Vec<Severity> {
        severities(check, &[changed(path, Some(from), Some(to))])
    }

    #[test]
    fn the_tests_must_run_and_be_heard() {
        for (path, from, to) in [
            ("tox.ini", "commands =\n    pytest\n", "commands =\n    - pytest\n"),
            ("tox.ini", "commands =\n    pytest\n", "commands =\n    pytest\nignore_outcome = true\n"),
            ("Makefile", "test:\n\tpytest\n", "test:\n\tpytest || true\n"),
            ("Makefile", "test:\n\tpython -m pytest\n", "test:\n\t@echo 12 passed\n"),
            ("run.sh", "set -e\npytest tests\n", "set +e\npytest tests\nexit 0\n"),
            ("run.sh", "pytest tests\n", "pytest tests -k 'not slow'\n"),
            (
                "noxfile.py",
                "def t(session):\n    session.run('pytest')\n",
                "def t(session):\n    session.run('pytest', success_codes=[0, 1])\n",
            ),
            ("noxfile.py", "def t(session):\n    session.run('pytest')\n", "def t(session):\n    pass\n"),
            (".env", "", "PYTEST_ADDOPTS=-x\n"),
            ("Makefile", "test:\n\tpytest\n", "test:\n\tpytest tests/test_a.py\n"),
            ("Makefile", "test:\n\tpython -m unittest discover\n", "test:\n\tpython -m unittest shop.tests.test_a\n"),
        ] {
            assert_eq!(weigh(path, from, to), [Refuse], "{to}");
        }
    }

    #[test]
    fn other_changes_are_shown_at_most() {
        assert_eq!(weigh("Makefile", "test:\n\tpytest\n", "test:\n\tpytest -v\n"), [Flag]);
        assert!(
            weigh("tox.ini", "deps =\n    pytest\ncommands =\n    pytest\n", "deps =\n    pytest>=8\ncommands =\n    pytest\n").is_empty()
        );
        assert!(weigh("README.md", "Run pytest.\n", "Run it.\n").is_empty());
        assert!(weigh("noxfile.py", "x = 1\nsession.run('pytest')\n", "x = 2\nsession.run('pytest')\n").is_empty());
    }
}
