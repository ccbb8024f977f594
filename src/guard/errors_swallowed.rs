//! An error that nobody hears of is not mended. Whether silence was asked for only a person can tell.

use ruff_python_ast::{AnyNodeRef, ExceptHandlerExceptHandler, Expr, Stmt};

use super::Patch;
use super::python::place::last;
use super::python::{Fact, Module, Names, PythonFile, each, fresh};
use super::test_weakened::never_true;
use crate::domain::Finding;
use crate::domain::Severity::Flag;

pub(super) const RULE: &str = "errors-swallowed";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    Ok(fresh(patch, RULE, |file, module| if file.role.is_of_tests() { Vec::new() } else { facts(file, module) }))
}

fn facts(_: &PythonFile<'_>, module: &Module) -> Vec<Fact> {
    let mut facts = Vec::new();
    each(&module.body, |_, node| match node {
        AnyNodeRef::ExceptHandlerExceptHandler(handler)
            if (catches_all(handler.type_.as_deref(), &module.names)
                || catches_indirectly(handler, module)
                || catches_failures(handler, &module.names))
                && is_silent(handler, &module.names) =>
        {
            facts.push(Fact::new(Flag, module.line(handler), "except", "every error is caught, and none goes on"));
        }
        AnyNodeRef::ExprCall(call)
            if last(&module.names.full(&call.func)) == "suppress"
                && call
                    .arguments
                    .args
                    .iter()
                    .any(|arg| catches_all(Some(arg), &module.names) || names_all(arg, module) || is_starred(arg, module)) =>
        {
            facts.push(Fact::new(Flag, module.line(&node), "suppress", "every error is suppressed"));
        }
        AnyNodeRef::StmtFunctionDef(of) if matches!(of.name.as_str(), "__exit__" | "__aexit__") && drops_all(of) => {
            facts.push(Fact::new(Flag, module.line(of), "exit", "the context drops every error inside it"));
        }
        AnyNodeRef::StmtTry(of) if of.finalbody.iter().any(|stmt| matches!(stmt, Stmt::Return(_) | Stmt::Break(_) | Stmt::Continue(_))) => {
            facts.push(Fact::new(Flag, module.line(of), "finally", "leaving in `finally` drops the error on its way"));
        }
        _ => {}
    });
    facts
}

/// Whether leaving the context says that the error is dealt with, whichever it is.
fn drops_all(function: &ruff_python_ast::StmtFunctionDef) -> bool {
    let is_yes = |value: &Expr| match value {
        Expr::BooleanLiteral(of) => of.value,
        Expr::NumberLiteral(of) => of.value.as_int().is_none_or(|int| *int != 0),
        Expr::StringLiteral(of) => !of.value.to_str().is_empty(),
        Expr::UnaryOp(of) => matches!(&*of.operand, Expr::BooleanLiteral(value) if !value.value),
        Expr::Compare(of) => matches!(of.ops[..], [ruff_python_ast::CmpOp::IsNot]),
        _ => false,
    };
    function.body.iter().any(|stmt| matches!(stmt, Stmt::Return(of) if of.value.as_deref().is_some_and(is_yes)))
}

/// Whether a handler's type is a name for every error, or is made from one: `ANY = (Exception,)`, `type(Exception())`.
fn catches_indirectly(handler: &ExceptHandlerExceptHandler, module: &Module) -> bool {
    handler.type_.as_deref().is_some_and(|kind| names_all(kind, module))
}

/// `*ANY`.
fn is_starred(arg: &Expr, module: &Module) -> bool {
    matches!(arg, Expr::Starred(of) if names_all(&of.value, module))
}

fn names_all(kind: &Expr, module: &Module) -> bool {
    match kind {
        Expr::Name(name) => {
            let mut found = false;
            each(&module.body, |_, node| {
                if let AnyNodeRef::StmtAssign(of) = node {
                    let is_it = of.targets.iter().any(|target| matches!(target, Expr::Name(known) if known.id == name.id));
                    found |= is_it && !of.value.is_name_expr() && mentions_all(&of.value, &module.names);
                }
            });
            found
        }
        Expr::Attribute(_) => false,
        other => mentions_all(other, &module.names),
    }
}

fn mentions_all(expr: &Expr, names: &Names) -> bool {
    let mut found = false;
    each(&[super::test_weakened::statement(expr)], |_, node| {
        found |= matches!(node, AnyNodeRef::ExprName(name) if catches_all(Some(&Expr::Name(name.clone())), names));
    });
    found
}

/// Whether a handler's type stands for every error.
pub(super) fn catches_all(kind: Option<&Expr>, names: &Names) -> bool {
    match kind {
        None => true,
        Some(Expr::Tuple(of)) => of.elts.iter().any(|one| catches_all(Some(one), names)),
        Some(kind) => matches!(names.full(kind).as_str(), "Exception" | "BaseException" | "object" | "StandardError"),
    }
}

/// `except AssertionError`: in the source, only tests raise it.
fn catches_failures(handler: &ExceptHandlerExceptHandler, names: &Names) -> bool {
    handler.type_.as_deref().is_some_and(|kind| names.full(kind) == "AssertionError")
}

/// Whether a handler lets the program go on: it raises nothing, or only where nobody gets.
fn is_silent(handler: &ExceptHandlerExceptHandler, names: &Names) -> bool {
    let mut silent = true;
    each(&handler.body, |path, node| {
        let unreached = || path.iter().any(|node| matches!(node, AnyNodeRef::StmtIf(of) if never_true(&of.test, names)));
        silent &= !matches!(node, AnyNodeRef::StmtRaise(_)) || unreached();
    });
    silent
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::Flag;
    use crate::guard::tests::{changed, severities};

    #[test]
    fn silence_is_shown_and_handling_is_not() {
        for text in [
            "except Exception:\n    pass",
            "except:\n    x = None",
            "except (KeyError, BaseException):\n    pass",
            "except Exception:\n    log.exception('x')",
            "except ANY:\n    pass\nANY = (Exception,)",
            "except type(Exception()):\n    pass",
            "except Exception:\n    if False:\n        raise",
        ] {
            assert_eq!(severities(check, &[changed("a.py", None, Some(&format!("try:\n    f()\n{text}\n")))]), [Flag], "{text}");
        }
        for text in ["except ValueError:\n    pass", "except Exception as e:\n    raise Error from e"] {
            assert!(severities(check, &[changed("a.py", None, Some(&format!("try:\n    f()\n{text}\n")))]).is_empty(), "{text}");
        }
    }
}
