//! Hooks and plugins: code that the runner calls by itself, and that may leave tests out, pass them, or say that they passed.
//!
//! In the source of a project that is itself a plugin, hooks are honest work and are only shown; in what tests share, the hooks that decide
//! are refused, and the others where they do what only a decider does.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ruff_python_ast::comparable::ComparableStmt;
use ruff_python_ast::{AnyNodeRef, Expr, StmtFunctionDef};

use super::python::place::{fixture, is_hook, last};
use super::python::{Fact, Module, Names, PythonFile, Role, each, fresh};
use super::{Base, Patch};
use crate::domain::Finding;
use crate::domain::Severity::{Flag, Refuse};

pub(super) const RULE: &str = "runner-hook";

/// Hooks whose answer alone decides what runs and how it ends.
const DECISIVE: &[&str] = &[
    "pytest_runtest_makereport",
    "pytest_pyfunc_call",
    "pytest_runtest_call",
    "pytest_runtest_protocol",
    "pytest_runtestloop",
    "pytest_report_teststatus",
    "pytest_sessionfinish",
    "pytest_cmdline_main",
    "pytest_cmdline_parse",
    "pytest_cmdline_preparse",
    "pytest_load_initial_conftests",
    "pytest_collection",
    "pytest_collect_file",
    "pytest_collect_directory",
    "pytest_ignore_collect",
    "pytest_pycollect_makeitem",
    "pytest_pycollect_makemodule",
    "pytest_make_collect_report",
    "pytest_fixture_setup",
    "pytest_report_to_serializable",
    "pytest_report_from_serializable",
    "pytest_exception_interact",
    "pytest_runtest_logreport",
    "pytest_plugin_registered",
    "pytest_internalerror",
    "pytest_assertrepr_compare_all",
];

/// Words of those who leave tests out or overwrite what was found.
const DECIDING: &[&str] = &[
    "skip",
    "skipif",
    "skipIf",
    "SkipTest",
    "Skipped",
    "xfail",
    "importorskip",
    "exit",
    "Exit",
    "_exit",
    "SystemExit",
    "deselect",
    "pytest_deselected",
    "force_result",
    "force_exception",
    "exec",
    "eval",
    "fail_under",
    "set_blocked",
    "unregister",
    "deselected",
    "collect_ignore",
    "runtest",
    "testsfailed",
];

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let is_plugin = is_plugin(patch.base);
    Ok(fresh(patch, RULE, |file, module| facts(file, module, is_plugin)))
}

/// Whether the project is a plugin of the runner by its own packaging.
fn is_plugin(base: &Base) -> bool {
    base.files.values().any(|content| content.windows(8).any(|part| part == b"pytest11"))
}

fn facts(file: &PythonFile<'_>, module: &Module, is_plugin: bool) -> Vec<Fact> {
    let mut facts = Vec::new();
    let had_hooks = file.before.module().is_some_and(|before| functions(before).iter().any(|function| is_hook(function, &before.names)));
    for function in functions(module) {
        let line = module.line(&function.name);
        let decider = decider(function, &module.names);
        let name = &function.name;
        if is_hook(function, &module.names) {
            let named = specified(function, &module.names);
            let hook = named.as_deref().unwrap_or_else(|| name.strip_prefix("pytest_").map_or("", |_| name.as_str()));
            let was_there = file.before.module().is_some_and(|before| functions(before).iter().any(|known| known.name == *name));
            let is_honest_work = file.role == Role::Source && (is_plugin || had_hooks);
            let decides = DECISIVE.contains(&hook) && !was_there || decider.is_some();
            let is_blunt = decides_whatever_is_asked(function, DECISIVE.contains(&hook) && !was_there);
            let severity = if decides && !is_honest_work || is_blunt && !known_bluntly(file, name) { Refuse } else { Flag };
            let why = decider.map_or_else(
                || format!("{name} is called by the runner"),
                |word| format!("{name} is called by the runner and uses {word}"),
            );
            facts.push(Fact::new(severity, line, format!("hook:{name}:{}", fingerprint(function)), why));
        } else if fixture(function, &module.names) == Some(true) && file.role.is_of_tests() {
            let severity = if decider.is_some() { Refuse } else { Flag };
            let why = decider.map_or_else(
                || format!("every test uses {name} unasked"),
                |word| format!("every test uses {name} unasked, which uses {word}"),
            );
            facts.push(Fact::new(severity, line, format!("autouse:{name}:{}", fingerprint(function)), why));
        }
    }
    each(&module.body, |_, node| facts.extend(plugin(file, module, node, is_plugin)));
    facts
}

/// The hook that a decorator names: `hookimpl(specname="pytest_pyfunc_call")`.
fn specified(function: &StmtFunctionDef, names: &Names) -> Option<String> {
    let calls =
        function.decorator_list.iter().filter_map(|decorator| if let Expr::Call(call) = &decorator.expression { Some(call) } else { None });
    calls.filter_map(|call| call.arguments.find_keyword("specname")).find_map(|keyword| names.text(&keyword.value))
}

fn known_bluntly(file: &PythonFile<'_>, name: &str) -> bool {
    let before = file.before.module().map(functions).unwrap_or_default();
    before.iter().any(|known| known.name.as_str() == name && decides_whatever_is_asked(known, false))
}

/// Whether a hook empties the run, or says that all passed, under no condition: no plugin does that for its users.
fn decides_whatever_is_asked(function: &StmtFunctionDef, is_new_decider: bool) -> bool {
    let mut blunt = false;
    let mut calls = false;
    each(&function.body, |path, node| {
        calls |= matches!(node, AnyNodeRef::ExprCall(_) | AnyNodeRef::ExprYield(_));
        let is_conditional = path.iter().any(|node| {
            matches!(
                node,
                AnyNodeRef::StmtIf(_)
                    | AnyNodeRef::ExprIf(_)
                    | AnyNodeRef::StmtMatch(_)
                    | AnyNodeRef::ExceptHandlerExceptHandler(_)
                    | AnyNodeRef::StmtFunctionDef(_)
            )
        });
        let items = |expr: &Expr| matches!(expr, Expr::Name(name) if name.id == "items");
        let part = |target: &Expr| matches!(target, Expr::Subscript(of) if items(&of.value));
        blunt |= !is_conditional
            && match node {
                AnyNodeRef::StmtDelete(of) => of.targets.iter().any(part),
                AnyNodeRef::StmtAssign(of) => {
                    let empties = of.targets.iter().any(part) && matches!(&*of.value, Expr::List(list) if list.elts.is_empty());
                    let passes = of.targets.iter().any(|target| {
                        matches!(target, Expr::Attribute(set)
                        if matches!(set.attr.as_str(), "obj" | "outcome" | "excinfo" | "exitstatus" | "testsfailed" | "runtest"))
                    });
                    empties || passes
                }
                AnyNodeRef::ExprCall(call) => match &*call.func {
                    Expr::Attribute(method) => {
                        let marks = method.attr.as_str() == "add_marker"
                            && call.arguments.args.first().is_some_and(
                                |mark| matches!(mark, Expr::StringLiteral(of) if matches!(of.value.to_str(), "skip" | "xfail")),
                            );
                        marks || items(&method.value) && method.attr.as_str() == "clear"
                    }
                    _ => false,
                },
                _ => false,
            };
    });
    blunt || is_new_decider && !calls && !function.body.is_empty()
}

fn functions(module: &Module) -> Vec<&StmtFunctionDef> {
    let mut functions = Vec::new();
    each(&module.body, |_, node| {
        if let AnyNodeRef::StmtFunctionDef(function) = node {
            functions.push(function);
        }
    });
    functions
}

/// Equal for functions that are the same program.
fn fingerprint(function: &StmtFunctionDef) -> u64 {
    let mut hasher = DefaultHasher::new();
    for decorator in &function.decorator_list {
        ruff_python_ast::comparable::ComparableExpr::from(&decorator.expression).hash(&mut hasher);
    }
    for stmt in &function.body {
        ComparableStmt::from(stmt).hash(&mut hasher);
    }
    hasher.finish()
}

/// The first word in a function that only somebody uses who decides which tests count.
fn decider(function: &StmtFunctionDef, names: &Names) -> Option<String> {
    let mut found = None;
    let is_collection = function.parameters.iter().any(|parameter| parameter.name() == "items");
    each(&function.body, |_, node| {
        let said = match node {
            AnyNodeRef::ExprAttribute(of) => {
                word(of.attr.as_str()).or_else(|| changes_list(is_collection, names, &of.value, of.attr.as_str()))
            }
            AnyNodeRef::ExprName(of) => word(last(&names.full_ref(of.into()))),
            AnyNodeRef::ExprCall(call) => {
                let full = names.full_ref(call.into());
                let is_hidden = full.ends_with(".?") || full == "?" || full.starts_with("?.") && full.contains(".?");
                let hides = matches!(names.full(&call.func).as_str(), "getattr" | "setattr" | "__import__" | "importlib.import_module");
                word(last(&full)).or_else(|| (is_hidden && hides).then(|| "a name that is not written out".to_owned()))
            }
            AnyNodeRef::StmtAssign(of) => {
                of.targets.iter().find_map(|target| takes_from_list(is_collection, target).or_else(|| bends(function, target)))
            }
            AnyNodeRef::ExprStringLiteral(of) if matches!(of.value.to_str(), "skip" | "xfail" | "skipif" | "filterwarnings") => {
                Some(of.value.to_str().to_owned())
            }
            AnyNodeRef::StmtDelete(of) => of.targets.iter().find_map(|target| takes_from_list(is_collection, target)),
            _ => None,
        };
        found = found.take().or(said);
    });
    found
}

fn word(name: &str) -> Option<String> {
    DECIDING.contains(&name).then(|| name.to_owned())
}

fn changes_list(is_collection: bool, names: &Names, owner: &Expr, method: &str) -> Option<String> {
    let shrinks = matches!(method, "remove" | "pop" | "clear" | "__delitem__" | "__setitem__");
    (is_collection && shrinks && names.full(owner) == "items").then(|| format!("items.{method}"))
}

/// `session.items = …`, `config.args[:] = …`: what a hook was given, and what decides which tests count, gets another value.
fn bends(function: &StmtFunctionDef, target: &Expr) -> Option<String> {
    const DECIDE: &[&str] =
        &["items", "args", "stats", "_inicache", "category", "nodeid", "_nodeid", "keywords", "own_markers", "obj", "outcome"];
    let attribute = match target {
        Expr::Attribute(of) => of,
        Expr::Subscript(of) => of.value.as_attribute_expr()?,
        _ => return None,
    };
    let mut root = &*attribute.value;
    while let Expr::Attribute(of) = root {
        root = &of.value;
    }
    let is_given = matches!(root, Expr::Name(name) if function.parameters.iter().any(|parameter| parameter.name() == name.id.as_str()) || name.id == "item");
    (is_given && DECIDE.contains(&attribute.attr.as_str())).then(|| attribute.attr.to_string())
}

/// `items[:] = …`, but for a new order of the same list.
fn takes_from_list(is_collection: bool, target: &Expr) -> Option<String> {
    let Expr::Subscript(of) = target else { return None };
    (is_collection && matches!(&*of.value, Expr::Name(name) if name.id == "items")).then(|| "an assignment to items".to_owned())
}

/// What loads a plugin or puts one out.
fn plugin(file: &PythonFile<'_>, module: &Module, node: AnyNodeRef<'_>, is_plugin: bool) -> Option<Fact> {
    let line = module.line(&node);
    match node {
        AnyNodeRef::StmtAssign(of) if file.role.is_of_tests() && names_one(&of.targets, "pytest_plugins") => {
            let known = ["pytester", "_pytest.pytester", "pytest_asyncio", "pytest_mock", "anyio", "pytest_django"];
            let named: Vec<_> = match &*of.value {
                Expr::List(list) => list.elts.iter().map(|one| module.names.text(one)).collect(),
                Expr::Tuple(list) => list.elts.iter().map(|one| module.names.text(one)).collect(),
                one => vec![module.names.text(one)],
            };
            let harmless = named.iter().all(|name| name.as_deref().is_some_and(|name| known.contains(&name)));
            let shown = named.into_iter().map(|name| name.unwrap_or_else(|| "?".to_owned())).collect::<Vec<_>>().join(", ");
            Some(Fact::new(
                if harmless { Flag } else { Refuse },
                line,
                format!("plugins:{shown}"),
                format!("plugins are loaded into the run: {shown}"),
            ))
        }
        AnyNodeRef::StmtAssign(of)
            if file.role.is_of_tests()
                && of.targets.iter().any(|target| matches!(target, Expr::Name(name) if name.id.starts_with("pytest_"))) =>
        {
            Some(Fact::new(Refuse, line, "hook by name", "a hook of the runner is made from something else"))
        }
        AnyNodeRef::StmtImportFrom(of) if file.role.is_of_tests() => {
            let hook = of.names.iter().find(|alias| alias.asname.as_ref().unwrap_or(&alias.name).starts_with("pytest_"))?;
            Some(Fact::new(Refuse, line, format!("import:{}", hook.name), "a hook of the runner is imported from elsewhere"))
        }
        AnyNodeRef::ExprCall(of)
            if last(&module.names.full(&of.func)) == "parametrize"
                && of
                    .arguments
                    .find_argument_value("argvalues", 1)
                    .is_some_and(|rows| matches!(rows, Expr::List(list) if list.elts.is_empty()))
                && file.role == Role::Support =>
        {
            Some(Fact::new(Refuse, line, "no rows", "tests get no rows, so none of them runs"))
        }
        AnyNodeRef::ExprCall(call) => {
            let full = module.names.full(&call.func);
            let loads = full.contains("pluginmanager.")
                && matches!(last(&full), "register" | "import_plugin" | "set_blocked" | "unregister" | "consider_module");
            let severity = if file.role == Role::Source && is_plugin { Flag } else { Refuse };
            loads.then(|| Fact::new(severity, line, format!("plugin:{full}"), format!("{full} changes which plugins are in the run")))
        }
        AnyNodeRef::Keyword(of) if of.arg.as_ref().is_some_and(|name| name.as_str() == "pytest11") => Some(Fact::new(
            if is_plugin { Flag } else { Refuse },
            line,
            "pytest11",
            "the package makes itself a plugin of every later test run",
        )),
        AnyNodeRef::ExprBinOp(of) if module.names.text_ref(of.into()).is_some_and(|text| text.contains("pytest11")) => Some(Fact::new(
            if is_plugin { Flag } else { Refuse },
            line,
            "pytest11",
            "the package makes itself a plugin of every later test run",
        )),
        AnyNodeRef::ExprStringLiteral(of) if of.value.to_str().contains("pytest11") => {
            let severity = if is_plugin { Flag } else { Refuse };
            Some(Fact::new(severity, line, "pytest11", "the package makes itself a plugin of every later test run"))
        }
        AnyNodeRef::StmtFunctionDef(of) if of.name.as_str() == "load_tests" && file.role.is_of_tests() => {
            Some(Fact::new(Refuse, line, "load_tests", "load_tests decides which tests of the module run"))
        }
        _ => None,
    }
}

fn names_one(targets: &[Expr], name: &str) -> bool {
    targets.iter().any(|target| matches!(target, Expr::Name(known) if known.id == name))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::Limits;
    use crate::guard::tests::{base_with, changed, findings_with, severities};

    fn weigh(path: &str, text: &str) -> Vec<Severity> {
        severities(check, &[changed(path, Some("x = 1\n"), Some(&format!("import pytest\n{text}\n")))])
    }

    #[test]
    fn hooks_that_decide_are_refused() {
        for (path, text) in [
            ("conftest.py", "def pytest_pyfunc_call(pyfuncitem):\n    return True"),
            ("tests/conftest.py", "def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'x' not in i.name]"),
            ("tests/conftest.py", "def pytest_collection_modifyitems(items):\n    items.clear()"),
            (
                "tests/conftest.py",
                "def pytest_collection_modifyitems(items):\n    for i in items:\n        i.add_marker(getattr(pytest.mark, 'sk' + 'ip'))",
            ),
            ("tests/conftest.py", "def pytest_runtest_setup(item):\n    pytest.skip('x')"),
            ("src/a.py", "@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item, call):\n    yield"),
            ("tests/conftest.py", "@pytest.fixture(autouse=True)\ndef f(request):\n    pytest.skip('x')"),
            ("tests/conftest.py", "pytest_plugins = ['shop._report']"),
            ("setup.py", "setup(entry_points={'pytest11': ['a = b']})"),
            ("tests/test_a.py", "def load_tests(loader, tests, pattern):\n    return None"),
        ] {
            assert_eq!(weigh(path, text), [Refuse], "{text}");
        }
    }

    #[test]
    fn hooks_that_only_tell_are_shown() {
        for text in [
            "def pytest_configure(config):\n    config.addinivalue_line('markers', 'slow: slow')",
            "def pytest_report_header():\n    return 'x'",
            "def pytest_addoption(parser):\n    parser.addoption('--all')",
            "def pytest_collection_modifyitems(items):\n    items.sort(key=str)",
            "@pytest.fixture(autouse=True)\ndef f(tmp_path):\n    return 1",
        ] {
            assert_eq!(weigh("tests/conftest.py", text), [Flag], "{text}");
        }
        assert!(weigh("tests/conftest.py", "@pytest.fixture\ndef f():\n    return 1").is_empty());
    }

    #[test]
    fn a_plugin_may_have_hooks() {
        let base = base_with(&[], &[("pyproject.toml", "[project.entry-points.pytest11]\na = 'b'\n")]);
        let patch = [changed("src/plugin.py", None, Some("def pytest_runtest_makereport(item, call):\n    yield\n"))];
        let found = findings_with(check, &patch, &Limits::default(), &base);
        assert_eq!(found.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Flag]);
    }
}
