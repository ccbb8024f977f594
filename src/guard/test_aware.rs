//! Source that knows it is being tested can be right only then.

use ruff_python_ast::{AnyNodeRef, Expr};

use super::Patch;
use super::python::place::{function, last};
use super::python::{Fact, Module, Path, Role, each, fresh};
use super::shown;
use crate::domain::Finding;
use crate::domain::Severity::{Flag, Refuse};

pub(super) const RULE: &str = "test-aware";

const RUNNERS: &[&str] =
    &["pytest", "_pytest", "unittest", "nose", "nose2", "doctest", "py.test", "pluggy", "xdist", "unittest.mock", "conftest"];

/// A text that is part of a longer one is at most this many levels below it.
const NEAR: usize = 3;

/// How a program finds out who called it.
const FRAMES: &[&str] = &[
    "inspect.stack",
    "inspect.currentframe",
    "inspect.getouterframes",
    "sys._getframe",
    "traceback.extract_stack",
    "traceback.format_stack",
    "traceback.walk_stack",
    "sys._current_frames",
    "sys.gettrace",
];

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let test_names: Vec<String> = patch.base.paths.iter().filter(|path| patch.tests.is_test_file(path)).map(|path| shown(path)).collect();
    Ok(fresh(patch, RULE, |file, module| {
        let knew_runner =
            file.before.module().is_some_and(|before| before.names.is_imported("pytest") || before.names.is_imported("unittest"));
        match file.role {
            Role::Source => facts(module, &test_names, knew_runner),
            Role::Build => facts(module, &[], true),
            _ => Vec::new(),
        }
    }))
}

fn facts(module: &Module, test_names: &[String], knew_runner: bool) -> Vec<Fact> {
    let mut facts = Vec::new();
    each(&module.body, |path, node| {
        facts.extend(fact(module, path, node, test_names));
        facts.extend(use_of_runner(module, path, node, knew_runner));
    });
    facts
}

/// Words of the runner in the source, and an import of it that may fail: both work only while tests run.
fn use_of_runner(module: &Module, path: Path<'_, '_>, node: AnyNodeRef<'_>, knew_runner: bool) -> Option<Fact> {
    let severity = if knew_runner { Flag } else { Refuse };
    let said = |what: String| {
        Some(Fact::new(severity, module.line(&node), format!("runner:{what}"), format!("the source uses {what} of the runner")))
    };
    match node {
        AnyNodeRef::ExprAttribute(of) => {
            let full = module.names.full_ref(of.into());
            let known = [
                "pytest.skip",
                "pytest.xfail",
                "pytest.importorskip",
                "pytest.fail",
                "unittest.SkipTest",
                "unittest.skip",
                "unittest.case.SkipTest",
                "_pytest.outcomes",
            ];
            if known.contains(&full.as_str()) { said(full) } else { None }
        }
        AnyNodeRef::StmtImport(of) if path.iter().any(|node| matches!(node, AnyNodeRef::StmtTry(_))) => {
            let runner = of
                .names
                .iter()
                .find(|alias| matches!(alias.name.split('.').next(), Some("pytest" | "_pytest" | "nose" | "pluggy" | "coverage")))?;
            said(format!("{}, where it can be imported,", runner.name))
        }
        AnyNodeRef::StmtImportFrom(of) => {
            let module_name = of.module.as_deref().unwrap_or_default();
            let skips = matches!(module_name, "unittest" | "unittest.case" | "pytest")
                && of.names.iter().any(|alias| matches!(alias.name.as_str(), "SkipTest" | "skip" | "xfail" | "importorskip"));
            if skips { said(format!("a skip from {module_name}")) } else { None }
        }
        _ => None,
    }
}

fn fact(module: &Module, path: Path<'_, '_>, node: AnyNodeRef<'_>, test_names: &[String]) -> Option<Fact> {
    let names = &module.names;
    let said = |severity, key: String, why: String| Some(Fact::new(severity, module.line(&node), key, why));
    match node {
        AnyNodeRef::ExprStringLiteral(_)
        | AnyNodeRef::ExprBytesLiteral(_)
        | AnyNodeRef::ExprBinOp(_)
        | AnyNodeRef::ExprFString(_)
        | AnyNodeRef::ExprCall(_)
        | AnyNodeRef::ExprName(_)
        | AnyNodeRef::ExprSubscript(_) => {
            let expr = node.as_expr_ref()?;
            let text = names.text_ref(expr)?;
            let is_part = path
                .iter()
                .rev()
                .take(NEAR)
                .take_while(|node| node.is_expression())
                .any(|node| node.as_expr_ref().and_then(|expr| names.text_ref(expr)).is_some());
            if is_part || matches!(path.last(), Some(AnyNodeRef::StmtExpr(_))) {
                return None;
            }
            let (severity, why) = weigh(&text, names, path, test_names)?;
            said(severity, format!("text:{text}"), why)
        }
        AnyNodeRef::ExprAttribute(of) => {
            let full = names.full_ref(of.into());
            if !FRAMES.contains(&full.as_str()) {
                return None;
            }
            let around = function(path).map_or(&module.body[..], |function| &function.body);
            let severity = if mentions_tests(module, around) { Refuse } else { Flag };
            said(severity, format!("frames:{full}"), format!("{full} asks who called"))
        }
        AnyNodeRef::StmtImport(of) => {
            of.names.iter().find_map(|alias| said_of_import(alias.name.as_str())).and_then(|why| said(why.0, why.1.clone(), why.1))
        }
        AnyNodeRef::StmtImportFrom(of) => {
            said_of_import(of.module.as_deref().unwrap_or_default()).and_then(|why| said(why.0, why.1.clone(), why.1))
        }
        _ => None,
    }
}

fn weigh(text: &str, names: &super::python::Names, path: Path<'_, '_>, test_names: &[String]) -> Option<(crate::domain::Severity, String)> {
    let lower = text.to_lowercase();
    let is_asked = is_asked(path);
    if lower.contains("pytest_") && !lower.contains(' ') || text.contains("PYTEST") {
        return Some((Refuse, format!("the source looks at {text}, which is there only while tests run")));
    }
    if is_asked
        && !text.contains(' ')
        && ["TOX_", "NOX_", "COVERAGE_", "COV_CORE", "HYPOTHESIS_", "UNITTEST"].iter().any(|prefix| text.starts_with(prefix))
    {
        return Some((Refuse, format!("the source looks at {text}, which is there only while tests run")));
    }
    let is_variable = text.len() > 3 && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    if is_asked && is_variable && text.split('_').any(|part| part.starts_with("TEST")) {
        return Some((Flag, format!("the source looks at {text}, which may say that tests run")));
    }
    if RUNNERS.contains(&lower.as_str()) || lower.contains("pytest") {
        let why = format!("the source names {text}");
        return Some((
            if is_asked && !lower.contains(' ') { Refuse } else { Flag },
            if is_asked { format!("{why} to find out whether tests run") } else { why },
        ));
    }
    if text.contains("/proc/self/") || text.contains("/proc/1/") {
        return Some((Refuse, format!("the source looks at {text}, which says how the program was started")));
    }
    let imports = path.iter().rev().take(6).any(|node| match node {
        AnyNodeRef::ExprCall(call) => {
            matches!(
                names.full(&call.func).as_str(),
                "importlib.import_module"
                    | "__import__"
                    | "runpy.run_module"
                    | "sys.modules.get"
                    | "importlib.resources.files"
                    | "pkgutil.get_data"
            )
        }
        AnyNodeRef::ExprSubscript(of) => names.full(&of.value) == "sys.modules",
        _ => false,
    });
    if let Some(said) = said_of_import(text).filter(|_| imports) {
        return Some(said);
    }
    let of_program = path.iter().any(|node| {
        expression_of(*node, names)
            .is_some_and(|full| full.starts_with("sys.argv") || full.starts_with("sys.modules") || full.contains("__main__"))
    });
    if of_program && lower.contains("test") {
        return Some((Refuse, format!("the source looks for {text} in how the program was started")));
    }
    let opens = path.iter().any(|node| match node {
        AnyNodeRef::ExprBinOp(of) => of.op == ruff_python_ast::Operator::Div,
        AnyNodeRef::ExprCall(call) => matches!(
            last(&names.full(&call.func)),
            "open"
                | "Path"
                | "join"
                | "joinpath"
                | "read_text"
                | "PurePath"
                | "exists"
                | "isfile"
                | "isdir"
                | "glob"
                | "rglob"
                | "iglob"
                | "run_path"
        ),
        _ => false,
    });
    let bare = text.trim_start_matches("**/").trim_start_matches("*/");
    let found_anywhere = bare.len() < text.len() && test_names.iter().any(|name| name.ends_with(&format!("/{bare}")));
    if opens && found_anywhere {
        return Some((Refuse, format!("the source reads {text}, which belongs to the tests")));
    }
    let is_of_tests = test_names.iter().any(|name| {
        name == text || text.len() > 4 && name.ends_with(&format!("/{text}")) || name.starts_with(&format!("{}/", text.trim_matches('/')))
    });
    if opens && is_of_tests && (lower.contains("test") || lower.contains("expected") || lower.contains("snapshot")) {
        return Some((Refuse, format!("the source reads {text}, which belongs to the tests")));
    }
    None
}

fn expression_of(node: AnyNodeRef<'_>, names: &super::python::Names) -> Option<String> {
    match node {
        AnyNodeRef::ExprCompare(of) => {
            let sides = std::iter::once(&*of.left).chain(&of.comparators);
            sides.map(|side| names.full(side)).find(|full| full.starts_with("sys.argv") || full.contains("__main__"))
        }
        AnyNodeRef::ExprCall(of) => Some(names.full(&of.func)),
        AnyNodeRef::ExprGenerator(of) => of.generators.first().map(|generator| names.full(&generator.iter)),
        _ => None,
    }
}

/// Whether a text is compared, looked up, or imported.
fn is_asked(path: Path<'_, '_>) -> bool {
    let near = path
        .iter()
        .rev()
        .take_while(|node| node.is_expression() || matches!(node, AnyNodeRef::Arguments(_) | AnyNodeRef::Comprehension(_)));
    near.into_iter().any(|node| match node {
        AnyNodeRef::ExprCompare(_) | AnyNodeRef::ExprSubscript(_) => true,
        AnyNodeRef::ExprCall(call) => match &*call.func {
            Expr::Attribute(method) => matches!(
                method.attr.as_str(),
                "get"
                    | "getenv"
                    | "startswith"
                    | "endswith"
                    | "find_spec"
                    | "version"
                    | "distribution"
                    | "import_module"
                    | "find"
                    | "match"
                    | "search"
                    | "issubset"
                    | "intersection"
                    | "pop"
                    | "__contains__"
                    | "isdisjoint"
            ),
            Expr::Name(name) => {
                matches!(name.id.as_str(), "__import__" | "getenv" | "find_spec" | "import_module" | "getattr" | "hasattr" | "environ")
            }
            _ => false,
        },
        _ => false,
    })
}

fn said_of_import(module: &str) -> Option<(crate::domain::Severity, String)> {
    let root = module.split('.').next().unwrap_or_default();
    if matches!(root, "_pytest" | "conftest")
        || root == "tests"
        || root == "test" && module.contains('.')
        || module.rsplit('.').next().is_some_and(|name| name.starts_with("test_"))
    {
        return Some((Refuse, format!("the source imports {module}, which belongs to the tests or to their runner")));
    }
    matches!(root, "pytest" | "unittest" | "pluggy" | "nose").then(|| (Flag, format!("the source imports {module}")))
}

fn mentions_tests(module: &Module, body: &[ruff_python_ast::Stmt]) -> bool {
    let mut mentions = false;
    each(body, |_, node| {
        if let AnyNodeRef::ExprStringLiteral(of) = node {
            let text = module.names.text_ref(of.into()).unwrap_or_default().to_lowercase();
            mentions |= text.contains("test") || text.contains("runpy");
        }
    });
    mentions
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::Limits;
    use crate::guard::tests::{base_with, changed, findings_with};

    fn weigh(text: &str) -> Vec<Severity> {
        let base = base_with(&["tests/test_a.py", "tests/expected/a.txt"], &[]);
        let patch = [changed("src/a.py", Some("x = 1\n"), Some(&format!("import os, sys, inspect\n{text}\n")))];
        findings_with(check, &patch, &Limits::default(), &base).iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn source_may_not_know_that_it_is_tested() {
        for text in [
            "if os.environ.get('PYTEST_CURRENT_TEST'): x = 2",
            "if 'PYTEST_' + 'CURRENT_TEST' in os.environ: x = 2",
            "if any(k.startswith('PYTEST') for k in os.environ): x = 2",
            "if 'pytest' in sys.modules: x = 2",
            "if '_pytest' in sys.modules: x = 2",
            "if sys.modules.get('unittest'): x = 2",
            "if 'test' in sys.argv[0]: x = 2",
            "def f():\n    return any('test_' in frame.function for frame in inspect.stack())",
            "from tests.test_a import EXPECTED",
            "from _pytest.python import Function",
            "x = open('tests/expected/a.txt')",
            "x = ROOT / 'tests' / name",
        ] {
            assert_eq!(weigh(text), [Refuse], "{text}");
        }
    }

    #[test]
    fn ordinary_source_is_left_alone() {
        for text in [
            "module = sys.modules.get('shop.tax')",
            "x = os.environ.get('CI')",
            "if sys.argv[1:] == ['list']: x = 2",
            "def f():\n    'Says what pytest says.'",
            "x = open('data/a.txt')",
            "x = 'latest' in names",
        ] {
            assert!(weigh(text).is_empty(), "{text}");
        }
        assert_eq!(weigh("import unittest"), [Flag]);
        assert_eq!(weigh("extras = ['pytest>=7']"), [Flag]);
        assert_eq!(weigh("frame = inspect.currentframe()"), [Flag]);
    }
}
