//! What bends the collection of tests, or swallows their failures, wherever it stands in a file of tests.

use ruff_python_ast::{AnyNodeRef, Expr, Stmt};

use super::assertions::swallows;
use crate::domain::Severity::{Flag, Refuse};
use crate::guard::python::place::{function, last, runs_at_import};
use crate::guard::python::{Fact, Module, Names, PythonFile, each};

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
            AnyNodeRef::StmtDelete(of) if runs_at_import(path) => of.targets.iter().find_map(|target| dynamic(target, names)),
            AnyNodeRef::ExprCall(call) if runs_at_import(path) => {
                let full = names.full(&call.func);
                let takes = full.starts_with("globals.__dict__.")
                    && matches!(last(&full), "pop" | "clear" | "update" | "__delitem__" | "__setitem__");
                let of_tests = matches!(full.as_str(), "delattr" | "setattr")
                    && call.arguments.args.get(1).is_none_or(|name| names.text(name).is_none_or(|name| name.starts_with("test")));
                let itself = full == "setattr" && call.arguments.args.first().is_some_and(|owner| names.full(owner).contains("__name__"));
                (takes || of_tests || itself).then_some(("globals", "tests are added or taken away while the file is imported"))
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

fn assigned(target: &Expr, value: &Expr) -> Option<(&'static str, &'static str)> {
    match target {
        Expr::Name(name) if matches!(name.id.as_str(), "collect_ignore" | "collect_ignore_glob") => {
            let is_nothing = matches!(value, Expr::List(list) if list.elts.is_empty());
            (!is_nothing).then_some(("collect_ignore", "collect_ignore leaves files of tests out"))
        }
        Expr::Subscript(of) if matches!(&*of.value, Expr::Call(call) if matches!(&*call.func, Expr::Name(name) if matches!(name.id.as_str(), "globals" | "vars" | "locals"))) => {
            Some(("globals", "tests are added or taken away while the file is imported"))
        }
        _ => None,
    }
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
