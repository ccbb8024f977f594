//! The issue's own example, written into the source, mends nothing but the example. Which literal is the rule and which the example only a person
//! can tell, so new branches that compare with literals and give literals back are shown.

use ruff_python_ast::{AnyNodeRef, Expr, Pattern, Stmt};

use super::python::{Fact, Module, each, fresh, is_constant};
use super::{Patch, of_file};
use crate::domain::Finding;
use crate::domain::Severity::Flag;

pub(super) const RULE: &str = "special-case";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let mut findings = fresh(patch, RULE, |file, module| if file.role.is_of_tests() { Vec::new() } else { facts(module) });
    for file in patch.python.iter().filter(|file| !file.role.is_of_tests()) {
        if let (Some(before), Some(after)) = (file.before.module(), file.after.module()) {
            let constant = constant_now(before, after);
            findings.extend(constant.into_iter().map(|fact| of_file(RULE, fact.severity, file.file, Some(fact.line), fact.why)));
        }
    }
    Ok(findings)
}

fn facts(module: &Module) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut say = |line, key: String| {
        facts.push(Fact::new(Flag, line, key, "a special case: an input is compared with a literal, and a literal is the answer"))
    };
    each(&module.body, |_, node| match node {
        AnyNodeRef::StmtIf(of) if compares_literal(&of.test) && gives_literal(&of.body) => say(module.line(of), key(module, &of.test)),
        AnyNodeRef::ElifElseClause(of) if of.test.as_ref().is_some_and(compares_literal) && gives_literal(&of.body) => {
            say(module.line(of), of.test.as_ref().map(|test| key(module, test)).unwrap_or_default());
        }
        AnyNodeRef::ExprIf(of) if compares_literal(&of.test) && is_literal_answer(&of.body) => say(module.line(of), key(module, &of.test)),
        AnyNodeRef::MatchCase(of) if !matches!(of.pattern, Pattern::MatchAs(_)) && gives_literal(&of.body) => {
            say(module.line(of), "case".to_owned())
        }
        AnyNodeRef::StmtFor(of) if is_constant(&of.iter) && is_telling(&of.iter) && returns_inside(&of.body) => {
            say(module.line(of), key(module, &of.iter))
        }
        AnyNodeRef::StmtAssign(of) if is_table(&of.value) => say(module.line(of), key(module, &of.value)),
        AnyNodeRef::ExprSubscript(of) if is_table(&of.value) => say(module.line(of), key(module, &of.value)),
        AnyNodeRef::ExprAttribute(of) if of.attr.as_str() == "get" && is_table(&of.value) => say(module.line(of), key(module, &of.value)),
        _ => {}
    });
    facts
}

fn key(module: &Module, expr: &Expr) -> String {
    use ruff_text_size::Ranged as _;
    module.text.get(expr.start().to_usize()..expr.end().to_usize()).unwrap_or_default().to_owned()
}

fn compares_literal(test: &Expr) -> bool {
    match test {
        Expr::Compare(of) => std::iter::once(&*of.left).chain(&of.comparators).any(is_telling),
        Expr::BoolOp(of) => of.values.iter().any(compares_literal),
        Expr::Call(of) => of.arguments.args.iter().any(is_telling),
        _ => false,
    }
}

/// A literal that could be somebody's example: not nothing, zero, one, or empty.
fn is_telling(expr: &Expr) -> bool {
    match expr {
        Expr::StringLiteral(of) => !of.value.to_str().is_empty(),
        Expr::NumberLiteral(of) => of.value.as_int().is_none_or(|int| int.as_u8().is_none_or(|n| n >= 2)),
        Expr::Tuple(of) => of.elts.iter().any(is_telling),
        Expr::List(of) => of.elts.iter().any(is_telling),
        Expr::Set(of) => of.elts.iter().any(is_telling),
        Expr::Call(of) => of.arguments.args.iter().any(|arg| is_constant(arg) && is_telling(arg)),
        _ => false,
    }
}

fn gives_literal(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::Return(of) => of.value.as_deref().is_some_and(is_literal_answer),
        Stmt::Assign(of) => is_literal_answer(&of.value),
        Stmt::AugAssign(of) => is_literal_answer(&of.value),
        _ => false,
    })
}

fn is_literal_answer(expr: &Expr) -> bool {
    match expr {
        Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) => false,
        Expr::Call(of) => of.arguments.args.iter().any(|arg| is_constant(arg) && is_telling(arg)),
        Expr::BinOp(of) if is_constant(&of.left) || is_constant(&of.right) => true,
        _ => is_constant(expr) || matches!(expr, Expr::BinOp(_)) && !matches!(expr, Expr::Name(_)) && is_constant(expr),
    }
}

fn returns_inside(body: &[Stmt]) -> bool {
    crate::guard::python::statements(body).into_iter().any(|stmt| matches!(stmt, Stmt::Return(_)))
}

/// The functions that computed their answer and now give a literal.
fn constant_now(before: &Module, after: &Module) -> Vec<Fact> {
    let answers = |module: &Module| {
        let mut found = std::collections::BTreeMap::new();
        each(&module.body, |_, node| {
            if let AnyNodeRef::StmtFunctionDef(of) = node {
                let literal = matches!(of.body.last(), Some(Stmt::Return(last)) if last.value.as_deref().is_some_and(|value| is_constant(value) && is_telling(value)));
                found.insert(of.name.to_string(), (literal, module.line(&of.name)));
            }
        });
        found
    };
    let was = answers(before);
    let now = answers(after).into_iter().filter(|(name, (literal, _))| *literal && was.get(name).is_some_and(|(literal, _)| !literal));
    now.map(|(name, (_, line))| {
        Fact::new(Flag, line, format!("constant:{name}"), format!("{name} computed its answer, and now gives a literal"))
    })
    .collect()
}

fn is_table(expr: &Expr) -> bool {
    matches!(expr, Expr::Dict(of) if !of.items.is_empty()) && is_constant(expr)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::Flag;
    use crate::guard::tests::{changed, severities};

    #[test]
    fn examples_in_the_source_are_shown() {
        for text in [
            "if a == 10 and b == 20:\n        return Money('108.00')",
            "if name in ('x', 'y'):\n        return 'z'",
            "return 108 if a == 10 else a",
            "return {10: '108'}.get(a, b)",
            "if a == Decimal('10.5'):\n        b -= 2",
            "table = {(10, 20): 108}",
            "match a:\n        case 10:\n            return 108",
        ] {
            assert_eq!(severities(check, &[changed("a.py", None, Some(&format!("def f(a, b):\n    {text}\n")))]), [Flag], "{text}");
        }
        for text in ["if not a:\n        return None", "if a == 0:\n        raise ValueError('x')", "return a * 2"] {
            assert!(severities(check, &[changed("a.py", None, Some(&format!("def f(a, b):\n    {text}\n")))]).is_empty(), "{text}");
        }
    }
}
