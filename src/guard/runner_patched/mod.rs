//! The runner and what it trusts are not the patch's to replace: assertions, reports, built-in functions, the code under test.

mod classes;
mod equality;

use std::collections::BTreeSet;

use ruff_python_ast::{AnyNodeRef, Expr, ExprCall};

use super::Patch;
use super::python::place::{fixture, function, is_hook, last, runs_at_import};
use super::python::{Fact, Module, Names, Path, PythonFile, Role, each, fresh};
use crate::domain::Finding;
use crate::domain::Severity::{self, Flag, Refuse};

pub(super) const RULE: &str = "runner-patched";

const RUNNERS: &[&str] = &[
    "pytest",
    "_pytest",
    "pluggy",
    "unittest",
    "nose",
    "nose2",
    "doctest",
    "coverage",
    "xdist",
    "pytest_cov",
    "iniconfig",
    "trial",
    "testtools",
];

/// What a report or a run says of itself.
const VERDICTS: &[&str] = &[
    "outcome",
    "excinfo",
    "exitstatus",
    "longrepr",
    "testsfailed",
    "shouldstop",
    "shouldfail",
    "runtest",
    "obj",
    "wasxfail",
    "deselect",
    "keyword",
    "markexpr",
    "collectonly",
    "args",
    "failures",
    "errors",
    "skipped",
    "_outcome",
    "failureException",
    "xmlpath",
    "ignore",
    "ignore_glob",
    "maxfail",
];

const MACHINERY: &[&str] = &[
    "sys.settrace",
    "sys.setprofile",
    "sys.meta_path",
    "sys.path_hooks",
    "threading.settrace",
    "sys.monitoring",
    "ctypes.pythonapi",
    "gc.get_referrers",
    "gc.get_objects",
    "sys.modules.values",
    "sys.modules.items",
];

/// Settings of a test case that change what a failure looks like, not whether it is one.
const HARMLESS: &[&str] = &["maxDiff", "longMessage"];

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let packages = packages(patch);
    Ok(fresh(patch, RULE, |file, module| facts(file, module, &packages)))
}

/// The names by which the project's own code is imported.
fn packages(patch: &Patch<'_>) -> BTreeSet<String> {
    let tops = patch.base.paths.iter().filter(|path| path.ends_with(b".py")).map(|path| String::from_utf8_lossy(path).into_owned());
    tops.filter_map(|path| {
        let path = ["src/", "lib/", "python/"].iter().find_map(|top| path.strip_prefix(top)).unwrap_or(&path);
        path.split('/').next().map(|top| top.trim_end_matches(".py").to_owned())
    })
    .collect()
}

/// What tests replace for honest reasons, wherever it was imported to: clocks, networks, processes, chance.
const OUTSIDE: &[&str] = &[
    "sleep",
    "time",
    "now",
    "today",
    "utcnow",
    "monotonic",
    "perf_counter",
    "get",
    "post",
    "put",
    "delete",
    "request",
    "urlopen",
    "run",
    "call",
    "check_call",
    "check_output",
    "Popen",
    "system",
    "getenv",
    "input",
    "print",
    "uuid4",
    "random",
    "randint",
    "choice",
    "shuffle",
    "socket",
    "create_connection",
    "connect",
    "getpass",
    "which",
    "gethostname",
    "open",
    "home",
    "send",
    "sendmail",
    "fetch",
    "download",
    "upload",
    "mail",
    "email",
    "notify",
    "publish",
    "http",
    "url",
    "client",
    "session",
    "clock",
    "wait",
    "log",
    "logger",
];

fn facts(file: &PythonFile<'_>, module: &Module, packages: &BTreeSet<String>) -> Vec<Fact> {
    let look = Look { role: file.role, names: &module.names, module, packages };
    let mut facts = Vec::new();
    each(&module.body, |path, node| facts.extend(look.at(path, node)));
    facts
}

struct Look<'a> {
    role: Role,
    names: &'a Names,
    module: &'a Module,
    packages: &'a BTreeSet<String>,
}

impl Look<'_> {
    fn at(&self, path: Path<'_, '_>, node: AnyNodeRef<'_>) -> Vec<Fact> {
        let line = self.module.line(&node);
        let weighed = match node {
            AnyNodeRef::StmtAssign(of) => of.targets.iter().filter_map(|target| self.assigned(path, target, Some(&of.value))).collect(),
            AnyNodeRef::StmtAnnAssign(of) => self.assigned(path, &of.target, of.value.as_deref()).into_iter().collect(),
            AnyNodeRef::StmtAugAssign(of) => self.assigned(path, &of.target, None).into_iter().collect(),
            AnyNodeRef::StmtFor(of) => self.assigned(path, &of.target, None).into_iter().collect(),
            AnyNodeRef::StmtDelete(of) => of.targets.iter().filter_map(|target| self.assigned(path, target, None)).collect(),
            AnyNodeRef::ExprCall(call) => self.called(path, call).into_iter().collect(),
            AnyNodeRef::ExprAttribute(of) => self.touched(&self.names.full_ref(of.into())).into_iter().collect(),
            AnyNodeRef::StmtClassDef(class) => classes::weigh(class, self.module, self.role),
            _ => Vec::new(),
        };
        weighed.into_iter().map(|(severity, key, why)| Fact::new(severity, line, key, why)).collect()
    }

    fn assigned(&self, path: Path<'_, '_>, target: &Expr, value: Option<&Expr>) -> Option<(Severity, String, String)> {
        match target {
            Expr::Attribute(of) => self.replaced(path, &self.names.full(&of.value), of.attr.as_str(), value),
            Expr::Subscript(of) if self.names.full(&of.value) == "sys.modules" => {
                let severe = self.role.is_of_tests() && runs_at_import(path);
                Some((if severe { Refuse } else { Flag }, "modules".to_owned(), "an imported module is replaced by another one".to_owned()))
            }
            Expr::Subscript(of) if matches!(self.names.full(&of.value).as_str(), "__builtins__" | "builtins" | "__dict__") => {
                Some((Refuse, "builtins".to_owned(), "a built-in function is replaced".to_owned()))
            }
            Expr::Subscript(of) if self.names.full(&of.value).ends_with("__dict__") => {
                let owner = self.names.full(&of.value);
                self.replaced(path, owner.trim_end_matches(".__dict__"), &self.names.text(&of.slice).unwrap_or_default(), value)
            }
            Expr::Name(name) if name.id == "__test__" && self.role == Role::Source => {
                Some((Refuse, "__test__".to_owned(), "__test__ decides which examples of the module are tested".to_owned()))
            }
            Expr::Tuple(of) => of.elts.iter().find_map(|target| self.assigned(path, target, None)),
            _ => None,
        }
    }

    /// Weighs that an attribute of something gets another value.
    fn replaced(&self, path: Path<'_, '_>, owner: &str, attribute: &str, value: Option<&Expr>) -> Option<(Severity, String, String)> {
        let shown = format!("{owner}.{attribute}");
        let said = |severity, why: &str| Some((severity, format!("set:{shown}"), format!("{shown} {why}")));
        let root = owner.split(['.', '(', '[']).next().unwrap_or_default();
        if (RUNNERS.contains(&root) || matches!(owner, "builtins" | "__builtins__")) && !HARMLESS.contains(&attribute) {
            return said(Refuse, "belongs to the runner or to Python itself and is replaced");
        }
        let in_hook = function(path).is_some_and(|function| is_hook(function, self.names));
        let of_run = matches!(root, "config" | "session" | "request" | "item" | "report" | "rep" | "call" | "pyfuncitem" | "result");
        if VERDICTS.contains(&attribute) && (in_hook || of_run && self.role == Role::Support) {
            let is_right_to = self.role == Role::Source && !sets_to_passed(value);
            return said(if is_right_to { Flag } else { Refuse }, "decides what the run says, and is overwritten");
        }
        if owner.contains(".option") && (of_run || in_hook) {
            return said(Refuse, "is an option of the run, and is overwritten");
        }
        if matches!(
            attribute,
            "__test__" | "__code__" | "__doc__" | "pytestmark" | "__unittest_skip__" | "__unittest_expecting_failure__" | "__wrapped__"
        ) && owner != "self"
        {
            return said(Refuse, "is overwritten, so that something else runs than what is written");
        }
        if matches!(attribute, "__eq__" | "__ne__") || attribute == "__bool__" && self.role.is_of_tests() {
            return said(Refuse, "decides whether values are equal, and is replaced");
        }
        let is_imported = owner.starts_with('.') || self.names.is_imported(root) || self.packages.contains(root);
        if !is_imported || matches!(root, "self" | "cls") {
            return None;
        }
        let replaces_code = value.is_none_or(|value| !super::python::is_constant(value));
        match self.role {
            Role::Tests | Role::Support if runs_at_import(path) && replaces_code => {
                said(Refuse, "is code that the tests are about or rely on, and is replaced")
            }
            Role::Tests | Role::Support => said(Flag, "is replaced for the tests"),
            _ => said(Flag, "belongs to another module and is replaced"),
        }
    }

    fn called(&self, path: Path<'_, '_>, call: &ExprCall) -> Option<(Severity, String, String)> {
        let full = self.names.full(&call.func);
        let args = &call.arguments.args;
        let text = |at: usize| args.get(at).and_then(|arg| self.names.text(arg));
        let names_equality = |name: String| matches!(name.as_str(), "__eq__" | "__ne__" | "__setattr__");
        let makes = matches!(last(&full), "curse" | "methodcaller" | "type" | "__setattr__") && full != "object.__setattr__";
        if makes
            && (call.arguments.args.iter().any(|arg| self.names.text(arg).is_some_and(names_equality))
                || full == "type" && has_key(call, "__eq__"))
        {
            return Some((Refuse, format!("makes:{full}"), format!("{full} gives something another way to be equal")));
        }
        if full.starts_with("__dict__.") && matches!(last(&full), "update" | "__setitem__" | "pop" | "clear") {
            return Some((Refuse, "builtins".to_owned(), "a built-in function is replaced".to_owned()));
        }
        match last(&full) {
            "force_result" | "force_exception" => Some((Refuse, "force".to_owned(), "the outcome of a hook is overwritten".to_owned())),
            "setattr" | "delattr" | "__setattr__" | "object"
                if args.len() >= 2 && (last(&full) != "object" || full.ends_with("patch.object")) =>
            {
                let through_fixture = full.contains('.') && !full.ends_with("__setattr__");
                let (owner, attribute) = match text(0) {
                    Some(target) => target.rsplit_once('.').map(|(owner, attribute)| (owner.to_owned(), attribute.to_owned()))?,
                    None => (self.names.full(&args[0]), text(1).unwrap_or_else(|| "?".to_owned())),
                };
                let value = if text(0).is_some() { args.get(1) } else { args.get(2) };
                self.replaced(path, &owner, &attribute, value).map(|weighed| self.undone_after(path, through_fixture, value, weighed))
            }
            "multiple" if full.ends_with("patch.multiple") && !args.is_empty() => {
                let owner = text(0).unwrap_or_else(|| self.names.full(&args[0]));
                let settings = ["spec", "create", "spec_set", "autospec", "new_callable"];
                let keyword =
                    call.arguments.keywords.iter().find(|one| one.arg.as_ref().is_some_and(|name| !settings.contains(&name.as_str())))?;
                let value = Some(&keyword.value);
                self.replaced(path, &owner, keyword.arg.as_ref()?, value).map(|weighed| self.undone_after(path, true, value, weighed))
            }
            "patch" if text(0).is_some() => {
                let target = text(0)?;
                let (owner, attribute) = target.rsplit_once('.')?;
                self.replaced(path, owner, attribute, args.get(1)).map(|weighed| self.undone_after(path, true, args.get(1), weighed))
            }
            _ => None,
        }
    }

    /// What a fixture replaces is put back after each test; where every test gets it, code that the tests are about is replaced all the same.
    fn undone_after(
        &self,
        path: Path<'_, '_>,
        through_fixture: bool,
        value: Option<&Expr>,
        weighed: (Severity, String, String),
    ) -> (Severity, String, String) {
        let (severity, key, why) = weighed;
        let for_all = function(path).and_then(|function| fixture(function, self.names)) == Some(true);
        let is_code = value.is_none_or(|value| matches!(value, Expr::Lambda(_) | Expr::Name(_)) || makes_code(value, self.names));
        let target = key.strip_prefix("set:").unwrap_or(&key);
        let root = target.split('.').next().unwrap_or_default();
        let is_outside = OUTSIDE.contains(&last(target)) || last(target).split('_').any(|word| OUTSIDE.contains(&word));
        let of_project = (root.is_empty() || self.packages.contains(root)) && !is_outside;
        if through_fixture && for_all && is_code && of_project && self.role.is_of_tests() {
            return (Refuse, key, why);
        }
        (severity, key, why)
    }

    fn touched(&self, full: &str) -> Option<(Severity, String, String)> {
        if self.role.is_of_tests() && matches!(last(full), "f_globals" | "f_locals" | "f_builtins" | "tb_frame" | "f_trace") {
            return Some((Refuse, "frame".to_owned(), format!("{} reaches into the program that called", last(full))));
        }
        let known = MACHINERY.iter().find(|known| full == **known)?;
        let severity = if self.role.is_of_tests() { Refuse } else { Flag };
        Some((severity, format!("machinery:{known}"), format!("{known} looks into the running program from outside")))
    }
}

/// A call that gives something to be called: `Mock(return_value=7)`, `partial(…)`.
fn makes_code(value: &Expr, names: &Names) -> bool {
    let full = names.full(value);
    let name = last(full.trim_end_matches("()"));
    name.ends_with("Mock") || matches!(name, "DEFAULT" | "create_autospec" | "partial" | "property" | "staticmethod" | "classmethod")
}

fn has_key(call: &ExprCall, wanted: &str) -> bool {
    call.arguments.args.iter().any(|arg| {
        matches!(arg, Expr::Dict(of) if of.items.iter().any(|item| matches!(&item.key, Some(Expr::StringLiteral(key)) if key.value.to_str() == wanted)))
    })
}

fn sets_to_passed(value: Option<&Expr>) -> bool {
    match value {
        Some(Expr::StringLiteral(of)) => of.value.to_str() == "passed",
        Some(Expr::NumberLiteral(of)) => of.value.as_int().is_some_and(|int| *int == 0),
        Some(Expr::NoneLiteral(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::Limits;
    use crate::guard::tests::{base_with, changed, findings_with};

    fn weigh(path: &str, text: &str) -> Vec<Severity> {
        let base = base_with(&["src/shop/__init__.py"], &[]);
        let imports =
            "import time, sys, unittest, builtins, pytest\nfrom shop import Invoice, settings\nfrom _pytest.python import Function as F\n";
        let patch = [changed(path, Some("x = 1\n"), Some(&format!("{imports}{text}\n")))];
        findings_with(check, &patch, &Limits::default(), &base).iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn the_runner_may_not_be_replaced() {
        for (path, text) in [
            ("src/shop/__init__.py", "F.runtest = lambda self: None"),
            ("tests/__init__.py", "unittest.TestCase.assertEqual = print"),
            ("tests/__init__.py", "setattr(unittest.TestCase, 'assert' + 'Equal', print)"),
            ("src/a.py", "builtins.AssertionError = KeyError"),
            ("tests/conftest.py", "Invoice.total = lambda self: 1"),
            ("tests/conftest.py", "time.time = lambda: 0"),
            ("tests/conftest.py", "def pytest_configure(config):\n    config.option.deselect = ['x']"),
            ("tests/conftest.py", "def pytest_runtest_makereport(item, call):\n    call.excinfo = None"),
            (
                "tests/conftest.py",
                "@pytest.fixture(autouse=True)\ndef f(monkeypatch):\n    monkeypatch.setattr(Invoice, 'total', lambda self: 1)",
            ),
            ("tests/test_a.py", "class T(unittest.TestCase):\n    def assertEqual(self, a, b):\n        pass"),
            ("tests/test_a.py", "class Any:\n    def __eq__(self, other):\n        return True"),
            ("src/a.py", "class M:\n    def __eq__(self, other):\n        return True"),
            ("tests/conftest.py", "sys.settrace(None)"),
            ("tests/test_a.py", "test_a.__test__ = False"),
        ] {
            assert_eq!(weigh(path, text), [Refuse], "{text}");
        }
    }

    #[test]
    fn ordinary_replacements_are_shown_at_most() {
        for (path, text) in [
            ("tests/test_a.py", "def test_a(monkeypatch):\n    monkeypatch.setattr(Invoice, 'total', lambda self: 1)"),
            ("tests/conftest.py", "@pytest.fixture(autouse=True)\ndef f(monkeypatch):\n    monkeypatch.setattr(settings, 'CACHE', {})"),
            ("tests/conftest.py", "settings.DEBUG = True"),
            ("src/a.py", "Invoice.total = lambda self: 1"),
            ("src/plugin.py", "def pytest_runtest_makereport(item, call):\n    report.outcome = 'failed'"),
        ] {
            assert_eq!(weigh(path, text), [Flag], "{text}");
        }
        for (path, text) in [
            (
                "tests/test_a.py",
                "class T(unittest.TestCase):\n    maxDiff = None\n    def assertSlug(self, a):\n        self.assertTrue(a)",
            ),
            ("src/a.py", "class M:\n    def __eq__(self, other):\n        return self.x == other.x"),
            ("src/a.py", "def f(job):\n    job.outcome = 'passed'"),
            ("tests/test_a.py", "def test_a():\n    thing = Thing()\n    thing.name = 'x'"),
        ] {
            assert!(weigh(path, text).is_empty(), "{text}");
        }
    }
}
