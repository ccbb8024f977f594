//! What bends the collection of tests, or swallows their failures, wherever it stands in a file of tests.

use ruff_python_ast::{AnyNodeRef, Expr, Stmt};

use super::assertions::swallows;
use crate::domain::Severity::{Flag, Refuse};
use crate::guard::python::place::{function, last, runs_at_import};
use crate::guard::python::{Fact, Module, Names, PythonFile, Role, each};

pub(super) fn facts(file: &PythonFile<'_>, module: &Module) -> Vec<Fact> {
    if !file.role.is_of_tests() {
        return Vec::new();
    }
    let names = &module.names;
    let mut facts = Vec::new();
    each(&module.body, |path, node| {
        let said = match node {
            AnyNodeRef::StmtAssign(of) => of.targets.iter().find_map(|target| assigned(target, &of.value)),
            AnyNodeRef::StmtAugAssign(of) => assigned(&of.target, &of.value),
            AnyNodeRef::StmtAnnAssign(of) => of.value.as_deref().and_then(|value| assigned(&of.target, value)),
            AnyNodeRef::ExprNamed(of) => assigned(&of.target, &of.value),
            AnyNodeRef::StmtFor(of) => assigned(&of.target, &of.iter),
            AnyNodeRef::Alias(of) if is_left_out_list(of.asname.as_ref().unwrap_or(&of.name)) => Some(LEFT_OUT),
            AnyNodeRef::ExprCall(call) if matches!(&*call.func, Expr::Attribute(of) if matches!(&*of.value, Expr::Name(name) if is_left_out_list(&name.id))) => {
                Some(LEFT_OUT)
            }
            AnyNodeRef::StmtDelete(of) if runs_at_import(path) => of.targets.iter().find_map(|target| dynamic(target, names)),
            AnyNodeRef::ExprCall(call) if runs_at_import(path) => {
                let full = names.full(&call.func);
                let takes = full.contains("__dict__.")
                    && matches!(last(&full), "pop" | "clear" | "update" | "setdefault" | "__delitem__" | "__setitem__" | "__ior__");
                let of_tests = matches!(full.as_str(), "delattr" | "setattr")
                    && call.arguments.args.get(1).is_none_or(|name| names.text(name).is_none_or(|name| decides(&name)));
                let itself = full == "setattr" && call.arguments.args.first().is_some_and(|owner| names.full(owner).contains("__name__"));
                if full == "exec" {
                    return facts.push(Fact::new(
                        Refuse,
                        module.line(&node),
                        "exec",
                        "code made from data runs while the file of tests is imported",
                    ));
                }
                if destroys(call, &full) {
                    return facts.push(Fact::new(
                        Refuse,
                        module.line(&node),
                        full,
                        "files are deleted or written while the tests are imported",
                    ));
                }
                (takes || of_tests || itself).then_some(("globals", "tests are added or taken away while the file is imported"))
            }
            AnyNodeRef::ExprCall(call) if names.full(&call.func) == "setattr" && names_a_test(call, names) => {
                Some(("setattr", "a test, or what it asserts with, is replaced while the tests run"))
            }
            AnyNodeRef::ExprCall(call)
                if matches!(last(&names.full(&call.func)), "add_marker" | "applymarker")
                    && call.arguments.args.iter().any(|mark| names.text(mark).is_some_and(|mark| super::skips::is_skip(&mark))) =>
            {
                Some(("add_marker", "a test is marked while it runs, so that it is left out or may fail"))
            }
            AnyNodeRef::StmtRaise(_) if path.is_empty() && file.role != Role::Source => {
                Some(("raise", "importing the file raises an error, so that nothing in it runs"))
            }
            AnyNodeRef::StmtTry(of) => {
                let swallowing = of.handlers.iter().any(|handler| swallows(handler, names));
                (swallowing && guards_others(&of.body, path))
                    .then_some(("swallow", "failures of what runs inside are caught, and nobody hears of them"))
            }
            AnyNodeRef::StmtFunctionDef(of) if matches!(of.name.as_str(), "__exit__" | "__aexit__") => {
                let swallows = of.body.iter().any(|stmt| matches!(stmt, Stmt::Return(of) if matches!(of.value.as_deref(), Some(Expr::BooleanLiteral(value)) if value.value)));
                swallows.then_some(("exit", "the context drops every failure inside it"))
            }
            _ => None,
        };
        if let Some((key, why)) = said {
            facts.push(Fact::new(Refuse, module.line(&node), key, why));
        }
        if let AnyNodeRef::StmtFunctionDef(of) = node
            && matches!(of.name.as_str(), "__getattr__" | "__dir__")
            && path.is_empty()
        {
            facts.push(Fact::new(Flag, module.line(&node), of.name.to_string(), "the module makes up its names"));
        }
    });
    facts
}

const LEFT_OUT: (&str, &str) = ("collect_ignore", "collect_ignore leaves files of tests out");

fn is_left_out_list(name: &str) -> bool {
    matches!(name, "collect_ignore" | "collect_ignore_glob")
}

/// Whether a name of a module decides what a runner does with it.
fn decides(name: &str) -> bool {
    name.starts_with("test") || is_left_out_list(name) || matches!(name, "pytestmark" | "__test__" | "load_tests" | "pytest_plugins")
}

fn assigned(target: &Expr, value: &Expr) -> Option<(&'static str, &'static str)> {
    match target {
        Expr::Name(name) if is_left_out_list(&name.id) => {
            let is_nothing = matches!(value, Expr::List(list) if list.elts.is_empty());
            (!is_nothing).then_some(LEFT_OUT)
        }
        Expr::Tuple(of) => of.elts.iter().find_map(|one| assigned(one, value)).filter(|(key, _)| *key == "collect_ignore"),
        Expr::Attribute(of) if matches!(of.attr.as_str(), "__abstractmethods__" | "__init__" | "__new__" | "__getattribute__") => {
            Some(("made", "what makes the objects of a class of tests is replaced"))
        }
        Expr::Subscript(of) if matches!(&*of.slice, Expr::StringLiteral(key) if !key.value.to_str().starts_with("test") && decides(key.value.to_str())) => {
            Some(("globals", "a mark or a list by which tests are chosen is set behind its back"))
        }
        Expr::Name(name) if name.id == "__path__" => Some(("__path__", "the package of tests looks for its modules elsewhere")),
        Expr::Name(name)
            if matches!(name.id.as_str(), "__unittest_skip__" | "__unittest_expecting_failure__")
                || name.id.starts_with("assert") && name.id.chars().any(char::is_uppercase) =>
        {
            Some(("case", "what a test case does by itself is overwritten"))
        }
        Expr::Attribute(of)
            if of.attr.starts_with("test_")
                && (value.is_lambda_expr()
                    || value.is_none_literal_expr() && !matches!(&*of.value, Expr::Name(owner) if owner.id == "self"))
                || of.attr.starts_with("assert") && of.attr.chars().any(char::is_uppercase)
                || matches!(of.attr.as_str(), "_testMethodName" | "failureException" | "skipTest") =>
        {
            Some(("case", "a test, or what it asserts with, is replaced while the tests run"))
        }
        Expr::Subscript(of) if matches!(&*of.value, Expr::Call(call) if matches!(&*call.func, Expr::Name(name) if matches!(name.id.as_str(), "globals" | "vars" | "locals"))) => {
            Some(("globals", "tests are added or taken away while the file is imported"))
        }
        _ => None,
    }
}

/// `setattr(self, self._testMethodName, …)`.
fn names_a_test(call: &ruff_python_ast::ExprCall, names: &Names) -> bool {
    call.arguments.args.get(1).is_some_and(|name| {
        names
            .text(name)
            .map_or_else(|| names.full(name).contains("_testMethodName"), |name| name.starts_with("test_") || name.starts_with("assert"))
    })
}

/// Whether a call deletes, moves or writes files.
fn destroys(call: &ruff_python_ast::ExprCall, full: &str) -> bool {
    let writes = || {
        call.arguments
            .find_argument_value("mode", 1)
            .is_some_and(|mode| matches!(mode, Expr::StringLiteral(of) if of.value.to_str().contains(['w', 'a', 'x', '+'])))
    };
    full.starts_with("shutil.") && matches!(last(full), "rmtree" | "move")
        || full.starts_with("os.") && matches!(last(full), "remove" | "unlink" | "truncate" | "rename" | "replace" | "removedirs" | "rmdir")
        || full.contains('(') && matches!(last(full), "unlink" | "write_text" | "write_bytes" | "rename" | "touch" | "rmdir")
        || full == "open" && writes()
}

/// `del globals()[name]`.
fn dynamic(target: &Expr, names: &Names) -> Option<(&'static str, &'static str)> {
    let Expr::Subscript(of) = target else { return None };
    names.full(&of.value).starts_with("globals").then_some(("globals", "tests are taken away while the file is imported"))
}

/// Whether a `try` is around code of others: it yields to them, or calls what the function was given.
fn guards_others(body: &[Stmt], path: crate::guard::python::Path<'_, '_>) -> bool {
    let given: Vec<String> = path
        .iter()
        .filter_map(|node| if let AnyNodeRef::StmtFunctionDef(function) = node { Some(function) } else { None })
        .flat_map(|function| function.parameters.iter().map(|parameter| parameter.name().to_string()))
        .collect();
    let nested = path.iter().filter(|node| matches!(node, AnyNodeRef::StmtFunctionDef(_))).count() > 1
        || function(path).is_some_and(|function| function.name.starts_with("pytest_"));
    let mut guards = false;
    each(body, |_, node| {
        guards |= match node {
            AnyNodeRef::ExprYield(_) | AnyNodeRef::ExprYieldFrom(_) => true,
            AnyNodeRef::ExprCall(call) => {
                nested && matches!(&*call.func, Expr::Name(name) if given.iter().any(|known| *known == name.id.as_str()))
            }
            _ => false,
        };
    });
    guards
}
