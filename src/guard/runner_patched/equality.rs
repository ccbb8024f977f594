//! What calls itself equal to everything turns every comparison green.

use ruff_python_ast::{AnyNodeRef, Expr, Stmt, StmtClassDef, StmtFunctionDef};

use super::super::python::{Module, Names, each, is_constant, statements};
use super::super::test_weakened::{always_true, is_loose};

/// The comparing methods of a class that give the same answer to everything, or do not look at both sides.
pub(super) fn blind<'a>(class: &'a StmtClassDef, module: &'a Module) -> Vec<&'a str> {
    let mut found = Vec::new();
    for stmt in &class.body {
        match stmt {
            Stmt::FunctionDef(method) if is_comparing(&method.name) && is_blind(method, &module.names) => found.push(method.name.as_str()),
            Stmt::Assign(of) => {
                let name = of.targets.iter().find_map(|target| match target {
                    Expr::Name(name) if is_comparing(&name.id) => Some(name.id.as_str()),
                    Expr::Subscript(part) => Some("__eq__").filter(|name| module.names.text(&part.slice).as_deref() == Some(name)),
                    _ => None,
                });
                found.extend(name.filter(|name| gives_blindly(name, &of.value, module)));
            }
            _ => {}
        }
    }
    found
}

/// Classes of ordinary values: to be one of them is no answer to whether two are equal.
const BUILT_IN: &[&str] = &["object", "int", "float", "str", "bytes", "bool", "list", "tuple", "dict", "set", "numbers.Number"];

fn is_comparing(name: &str) -> bool {
    matches!(name, "__eq__" | "__ne__")
}

/// `__eq__ = lambda self, other: True`, `__eq__ = always`.
fn gives_blindly(name: &str, value: &Expr, module: &Module) -> bool {
    match value {
        Expr::Lambda(of) => {
            let names: Vec<&str> =
                of.parameters.as_ref().map(|all| all.iter().map(|one| one.name().as_str()).collect()).unwrap_or_default();
            is_blind_answer(name, &of.body, &names, &module.names)
        }
        value => {
            let full = module.names.full(value);
            let last = full.rsplit('.').next().unwrap_or(&full).to_owned();
            let function = statements(&module.body).into_iter().find_map(|stmt| match stmt {
                Stmt::FunctionDef(function) if function.name.as_str() == last => Some(function),
                _ => None,
            });
            match function {
                Some(function) => is_blind(function, &module.names),
                None => full.starts_with("operator.") && !matches!(last.as_str(), "eq" | "ne" | "is_" | "is_not"),
            }
        }
    }
}

fn is_blind(method: &StmtFunctionDef, names: &Names) -> bool {
    let parameters: Vec<&str> = method.parameters.iter_non_variadic_params().map(|parameter| parameter.parameter.name.as_str()).collect();
    let body = statements(&method.body);
    let returned = body.iter().filter_map(|stmt| if let Stmt::Return(of) = stmt { of.value.as_deref() } else { None });
    let answers: Vec<&Expr> = returned.filter(|value| names.full(value) != "NotImplemented").collect();
    let known = |value: &Expr| match value {
        Expr::Name(name) => body.iter().rev().find_map(|stmt| match stmt {
            Stmt::Assign(of) if of.targets.iter().any(|target| matches!(target, Expr::Name(known) if known.id == name.id)) => {
                Some((*of.value).clone())
            }
            _ => None,
        }),
        _ => None,
    };
    let is_yes = |value: &&&Expr| always_true(value, names);
    if !answers.is_empty() && method.name.as_str() == "__eq__" && answers.iter().any(|value| is_yes(&value)) {
        let finally = |stmt: &&Stmt| matches!(stmt, Stmt::Try(of) if of.finalbody.iter().any(|stmt| matches!(stmt, Stmt::Return(of) if of.value.as_deref().is_some_and(|value| always_true(value, names)))));
        if !weighs_both_sides(method, &body) || body.iter().any(finally) {
            return true;
        }
    }
    let takes_apart = body
        .iter()
        .any(|stmt| matches!(stmt, Stmt::Match(of) if matches!(&*of.subject, Expr::Name(name) if parameters.contains(&name.id.as_str()))));
    if takes_apart {
        return !answers.is_empty() && answers.iter().all(|value| always_true(value, names));
    }
    !answers.is_empty()
        && answers.iter().all(|value| is_blind_answer(&method.name, &known(value).unwrap_or_else(|| (*value).clone()), &parameters, names))
}

/// Whether what decides about the answer asks both sides for something: not only what they are, or whether they are there.
fn weighs_both_sides(method: &StmtFunctionDef, body: &[&Stmt]) -> bool {
    let mut parameters = method.parameters.iter().map(|one| one.name().to_string());
    let (Some(one), Some(other)) = (parameters.next(), parameters.next()) else { return false };
    let mut deciding: Vec<&Expr> = Vec::new();
    for stmt in body {
        match stmt {
            Stmt::If(of) => {
                deciding.push(&of.test);
                deciding.extend(of.elif_else_clauses.iter().filter_map(|clause| clause.test.as_ref()));
            }
            Stmt::While(of) => deciding.push(&of.test),
            Stmt::For(of) => deciding.push(&of.iter),
            Stmt::Match(of) => deciding.push(&of.subject),
            Stmt::Assert(of) => deciding.push(&of.test),
            Stmt::Return(of) => deciding.extend(of.value.as_deref()),
            _ => {}
        }
    }
    let mut asked = asked_of(&deciding);
    for stmt in body {
        if let Stmt::Assign(of) = stmt
            && of.targets.iter().any(|target| !asked_of(&[target]).is_disjoint(&asked))
        {
            asked.extend(asked_of(&[&of.value]));
        }
    }
    asked.contains(&one) && asked.contains(&other)
}

/// The names that expressions ask for something, but for what they are.
fn asked_of(deciding: &[&Expr]) -> std::collections::BTreeSet<String> {
    let mut asked = std::collections::BTreeSet::new();
    for expr in deciding {
        each(&[super::super::test_weakened::statement(expr)], |path, node| {
            let AnyNodeRef::ExprName(name) = node else { return };
            let about_kind = path.iter().any(|node| match node {
                AnyNodeRef::ExprCall(call) => {
                    matches!(&*call.func, Expr::Name(func) if matches!(func.id.as_str(), "isinstance" | "type" | "callable" | "hasattr"))
                }
                AnyNodeRef::ExprCompare(of) => of.comparators.iter().any(Expr::is_none_literal_expr),
                _ => false,
            });
            if !about_kind {
                asked.insert(name.id.to_string());
            }
        });
    }
    asked
}

fn is_blind_answer(name: &str, answer: &Expr, parameters: &[&str], names: &Names) -> bool {
    if name == "__ne__" {
        return matches!(answer, Expr::BooleanLiteral(of) if !of.value);
    }
    if is_constant(answer) {
        return always_true(answer, names);
    }
    if let Expr::BoolOp(of) = answer
        && of.op == ruff_python_ast::BoolOp::Or
    {
        return of.values.iter().any(|value| is_blind_answer(name, value, parameters, names));
    }
    let mut seen: Vec<String> = Vec::new();
    let mut by_another = false;
    each(&[super::super::test_weakened::statement(answer)], |_, node| match node {
        AnyNodeRef::ExprName(of) => seen.push(of.id.to_string()),
        AnyNodeRef::ExprCall(call) => by_another |= matches!(names.full(&call.func).as_str(), "super" | "NotImplemented"),
        _ => {}
    });
    if let Expr::Call(call) = answer
        && names.full(&call.func) == "isinstance"
        && call.arguments.args.get(1).is_some_and(|kind| !BUILT_IN.contains(&names.full(kind).as_str()))
    {
        return false;
    }
    let looks_at = |at: usize| parameters.get(at).is_some_and(|name| seen.iter().any(|known| known == name));
    let is_ordering = matches!(answer, Expr::Compare(_))
        && is_loose(answer, names)
        && !matches!(answer, Expr::Compare(of) if of.ops.iter().any(|op| matches!(op, ruff_python_ast::CmpOp::Eq | ruff_python_ast::CmpOp::In | ruff_python_ast::CmpOp::Is)));
    let looks_at_both = looks_at(0) && looks_at(1);
    let is_about_either = parameters.len() < 3 && seen.iter().any(|name| parameters.contains(&name.as_str()));
    let misses_a_side = is_about_either && !by_another && !looks_at_both;
    always_true(answer, names) || is_ordering || misses_a_side
}
