//! Finds out how a project runs its tests, from the files of the base commit alone.

use super::command::{Runner, TestCommand};
use crate::domain::is_collected_file;

/// The files of a tree at a commit.
pub trait TreeFiles {
    /// The content of a file; none where there is no such file, or none that can be read.
    fn read(&self, path: &str) -> Option<Vec<u8>>;
    /// Every path, in whatever bytes it has.
    fn paths(&self) -> Vec<Vec<u8>>;
}

/// How many test files are looked into, at most.
const TEST_FILES_READ: usize = 300;

/// The project's test command, and why that one: pytest, unittest, tox, nox, the target `test` of a Makefile, in this order; none where there is no
/// sign of any. pytest and unittest go before tox and nox, since those install packages and a sandbox has no network, and before a Makefile, which
/// gives no result for each test; but a target `test` that is nothing but a command of unittest is taken for what it says.
#[must_use]
pub fn detect(files: &dyn TreeFiles) -> Option<TestCommand> {
    let tree = Tree::look_at(files);
    let by_make = || tree.make().filter(|command| command.kind != Runner::Make);
    tree.pytest().or_else(by_make).or_else(|| tree.unittest()).or_else(|| tree.tox()).or_else(|| tree.nox()).or_else(|| tree.make())
}

struct Tree<'a> {
    files: &'a dyn TreeFiles,
    paths: Vec<String>,
    tests: Vec<(String, String)>,
}

impl<'a> Tree<'a> {
    fn look_at(files: &'a dyn TreeFiles) -> Self {
        let mut paths: Vec<String> = files.paths().into_iter().filter_map(|path| String::from_utf8(path).ok()).collect();
        paths.sort_by_key(|path| (path.matches('/').count(), path.clone()));
        let test_files = paths.iter().filter(|path| is_collected_file(path.as_bytes())).take(TEST_FILES_READ);
        let tests = test_files.filter_map(|path| Some((path.clone(), text(files, path)?))).collect();
        Self { files, paths, tests }
    }

    fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|known| known == path)
    }

    fn section(&self, path: &str, header: &str) -> bool {
        text(self.files, path).is_some_and(|text| text.lines().any(|line| line.trim_start().starts_with(header)))
    }

    fn pytest(&self) -> Option<TestCommand> {
        let own = ["pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"]
            .into_iter()
            .find(|path| self.has(path))
            .map(|path| format!("there is a {path}"));
        let sections = [("pyproject.toml", "[tool.pytest"), ("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]")];
        let configured =
            || sections.into_iter().find(|(path, header)| self.section(path, header)).map(|(path, _)| format!("{path} configures it"));
        let conftest =
            || self.paths.iter().find(|path| path.rsplit('/').next() == Some("conftest.py")).map(|path| format!("there is {path}"));
        let imported = || self.tests.iter().find(|(_, text)| imports(text, "pytest")).map(|(path, _)| format!("{path} imports it"));
        let functions = || {
            self.tests
                .iter()
                .find(|(_, text)| has_test_function(text))
                .map(|(path, _)| format!("{path} has test functions outside of classes"))
        };
        let sign = own.or_else(configured).or_else(conftest).or_else(imported).or_else(functions)?;
        Some(self.directly("python3 -m pytest", format!("pytest, since {sign}.")))
    }

    /// Past tox and nox, and with the folder of the sources on the path, since nothing is installed.
    fn directly(&self, command: &str, mut why: String) -> TestCommand {
        if let Some(other) = ["tox.ini", "tox.toml", "noxfile.py"].into_iter().find(|path| self.has(path)) {
            why.push_str(&format!(" Not by way of {other}, which would install packages: the sandbox has no network."));
        }
        self.with_source_folder(command, why)
    }

    fn tox(&self) -> Option<TestCommand> {
        let signs = [self.has("tox.ini").then_some("tox.ini"), self.has("tox.toml").then_some("tox.toml")];
        let sections = [("setup.cfg", "[tox:tox]"), ("pyproject.toml", "[tool.tox")];
        let configured = || sections.into_iter().find(|(path, header)| self.section(path, header)).map(|(path, _)| path);
        let sign = signs.into_iter().flatten().next().or_else(configured)?;
        Some(TestCommand::plain(
            Runner::Tox,
            "python3 -m tox",
            &format!("tox, since {sign} configures it; it may want to install packages, and the sandbox has no network."),
        ))
    }

    fn nox(&self) -> Option<TestCommand> {
        let why = "nox, since there is a noxfile.py; it may want to install packages, and the sandbox has no network.";
        self.has("noxfile.py").then(|| TestCommand::plain(Runner::Nox, "python3 -m nox", why))
    }

    fn make(&self) -> Option<TestCommand> {
        let path = ["GNUmakefile", "makefile", "Makefile"].into_iter().find(|path| self.has(path))?;
        let recipe = recipe_of_test(&text(self.files, path)?)?;
        let why = format!("the target `test` of {path}.");
        if let [line] = &recipe[..] {
            let known = TestCommand::configured(&plain_command(line), &why);
            if known.kind != Runner::Other {
                return Some(known);
            }
        }
        Some(TestCommand::plain(Runner::Make, "make test", &why))
    }

    fn unittest(&self) -> Option<TestCommand> {
        let (path, _) = self.tests.iter().find(|(_, text)| imports(text, "unittest"))?;
        let folder = path.rsplit_once('/').map(|(folder, _)| folder);
        let command = match folder {
            Some(folder) if !self.has(&format!("{folder}/__init__.py")) => format!("python3 -m unittest discover -s {}", quoted(folder)),
            _ => "python3 -m unittest discover".to_owned(),
        };
        Some(self.directly(&command, format!("unittest, since {path} imports it.")))
    }

    /// Nothing is installed in a sandbox, so a package below `src/` has to be on the path.
    fn with_source_folder(&self, command: &str, mut why: String) -> TestCommand {
        let in_source =
            |path: &&String| path.strip_prefix("src/").is_some_and(|rest| rest.ends_with(".py") && rest.matches('/').count() <= 1);
        if self.paths.iter().any(|path| in_source(&path)) {
            why.push_str(" src/ is put on Python's path, since the package is not installed.");
            return TestCommand::configured(&format!("PYTHONPATH=\"src${{PYTHONPATH:+:$PYTHONPATH}}\" {command}"), &why);
        }
        TestCommand::configured(command, &why)
    }
}

fn text(files: &dyn TreeFiles, path: &str) -> Option<String> {
    files.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn imports(text: &str, module: &str) -> bool {
    let names =
        |rest: &str| rest.split(',').any(|name| name.split_whitespace().next().is_some_and(|name| name.split('.').next() == Some(module)));
    text.lines().map(str::trim_start).any(|line| match line.split_once(char::is_whitespace) {
        Some(("import", rest)) => names(rest),
        Some(("from", rest)) => rest.split_whitespace().next().is_some_and(|name| name.split('.').next() == Some(module)),
        _ => false,
    })
}

fn has_test_function(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("def test") || line.starts_with("async def test"))
}

/// The recipe of a Makefile's target `test`; none where there is no such target.
fn recipe_of_test(makefile: &str) -> Option<Vec<String>> {
    let is_target = |line: &str| {
        let targets = line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')).map(|(targets, _)| targets);
        !line.starts_with(['\t', '#']) && targets.is_some_and(|targets| targets.split_whitespace().any(|target| target == "test"))
    };
    let mut lines = makefile.lines().skip_while(|line| !is_target(line));
    lines.next()?;
    Some(lines.take_while(|line| line.starts_with('\t')).map(|line| line.trim().to_owned()).collect())
}

/// A line of a recipe as a command of a shell, with make's usual names of Python replaced.
fn plain_command(line: &str) -> String {
    let line = line.trim_start_matches(['@', '+']);
    ["$(PYTHON)", "$(PYTHON3)", "${PYTHON}", "${PYTHON3}", "$(PY)"]
        .into_iter()
        .fold(line.to_owned(), |line, name| line.replace(name, "python3"))
}

fn quoted(path: &str) -> String {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte)) && !path.starts_with('-');
    if is_plain { path.to_owned() } else { format!("'./{}'", path.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{TreeFiles, detect};
    use crate::verify::{Runner, TestCommand};

    struct Files(BTreeMap<&'static str, &'static str>);

    impl TreeFiles for Files {
        fn read(&self, path: &str) -> Option<Vec<u8>> {
            self.0.get(path).map(|text| text.as_bytes().to_vec())
        }
        fn paths(&self) -> Vec<Vec<u8>> {
            self.0.keys().map(|path| path.as_bytes().to_vec()).collect()
        }
    }

    fn detected(files: &[(&'static str, &'static str)]) -> TestCommand {
        detect(&Files(files.iter().copied().collect())).unwrap()
    }

    #[test]
    fn pytest_has_many_signs() {
        for (sign, content) in [
            ("pytest.ini", ""),
            ("pyproject.toml", "[tool.pytest.ini_options]\n"),
            ("tox.ini", "[pytest]\n"),
            ("setup.cfg", "[tool:pytest]\n"),
            ("tests/conftest.py", ""),
            ("tests/test_a.py", "import os, pytest\n"),
            ("a_test.py", "from pytest import mark\n"),
            ("test_a.py", "def test_a():\n    pass\n"),
        ] {
            let found = detected(&[(sign, content), ("noxfile.py", "")]);
            assert_eq!((found.kind, found.shown.as_str()), (Runner::Pytest, "python3 -m pytest"), "{sign}");
            assert!(found.why.contains(sign), "{}", found.why);
            assert!(found.why.contains("has no network"), "{}", found.why);
        }
    }

    #[test]
    fn the_order_is_pytest_unittest_tox_nox_make() {
        let unittest = ("tests/test_a.py", "import unittest\n");
        let make = ("Makefile", "all:\n\ttrue\ntest: all\n\t./run-tests\n");
        let tox = ("tox.ini", "[tox]\n");
        let found = detected(&[tox, ("noxfile.py", ""), make, unittest]);
        assert_eq!((found.kind, found.why.contains("Not by way of tox.ini")), (Runner::Unittest, true));
        assert_eq!(detected(&[tox, ("noxfile.py", ""), make]).kind, Runner::Tox);
        assert_eq!(detected(&[("noxfile.py", ""), make]).kind, Runner::Nox);
        assert_eq!(detected(&[make]).shown, "make test");
        assert_eq!(detected(&[unittest, make]).kind, Runner::Unittest);
        assert_eq!(
            detected(&[unittest, ("Makefile", "test:\n\tpython3 -m unittest -v tests.all\n")]).shown,
            "python3 -m unittest -v tests.all"
        );
        assert_eq!(detected(&[unittest, ("Makefile", "test := 1\ntests:\n")]).kind, Runner::Unittest);
        assert!(detect(&Files(BTreeMap::from([("src/a.py", "import pytest\n")]))).is_none());
    }

    #[test]
    fn a_makefile_that_only_calls_a_known_runner_is_read() {
        let found = detected(&[("Makefile", ".PHONY: test\ntest:\n\t@$(PYTHON) -m unittest -v\n")]);
        assert_eq!((found.kind, found.shown.as_str()), (Runner::Unittest, "python3 -m unittest -v"));
        assert_eq!(detected(&[("Makefile", "test:\n\tpytest\n\tmypy .\n")]).kind, Runner::Make);
    }

    #[test]
    fn unittest_starts_where_discovery_finds_the_tests() {
        let test = ("pkg/tests/test_a.py", "from unittest import TestCase\n");
        assert_eq!(detected(&[test, ("pkg/tests/__init__.py", "")]).shown, "python3 -m unittest discover");
        assert_eq!(detected(&[test]).shown, "python3 -m unittest discover -s pkg/tests");
        assert_eq!(detected(&[("it's/test_a.py", "import unittest\n")]).shown, "python3 -m unittest discover -s './it'\\''s'");
    }

    #[test]
    fn a_source_folder_is_put_on_the_path() {
        let found = detected(&[("pytest.ini", ""), ("src/pkg/__init__.py", "")]);
        assert_eq!(found.shown, "PYTHONPATH=\"src${PYTHONPATH:+:$PYTHONPATH}\" python3 -m pytest");
        assert_eq!(found.kind, Runner::Pytest);
        assert!(found.why.contains("src/"));
    }
}
