//! The issue's own example, written into the source, mends nothing but the example. Which literal is the rule and which the example only a person
//! can tell, so new branches that compare with literals and give literals back are shown.

use std::collections::BTreeSet;

use ruff_python_ast::{AnyNodeRef, BoolOp, CmpOp, Expr, ExprCall, Pattern, Stmt, StmtIf, UnaryOp};

use super::python::place::last;
use super::python::{Fact, Module, each, fresh, is_constant};
use super::test_weakened::statement;
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
    let known = Known::of(module);
    let mut facts = Vec::new();
    let mut say = |line, key: String| {
        facts.push(Fact::new(Flag, line, key, "a special case: an input is compared with a literal, and a literal is the answer"))
    };
    each(&module.body, |_, node| match node {
        AnyNodeRef::StmtIf(of)
            if known.compares(&of.test) && (known.gives(&of.body) || known.denies(&of.test) && known.gives_otherwise(of)) =>
        {
            say(module.line(of), key(module, &of.test))
        }
        AnyNodeRef::StmtWhile(of) if known.compares(&of.test) && known.gives(&of.body) => say(module.line(of), key(module, &of.test)),
        AnyNodeRef::ElifElseClause(of) if of.test.as_ref().is_some_and(|test| known.compares(test)) && known.gives(&of.body) => {
            say(module.line(of), of.test.as_ref().map(|test| key(module, test)).unwrap_or_default());
        }
        AnyNodeRef::ExprIf(of) if known.compares(&of.test) && known.is_answer(&of.body) => say(module.line(of), key(module, &of.test)),
        AnyNodeRef::ExprBoolOp(of)
            if of.op == BoolOp::And && of.values.iter().any(|one| known.compares(one)) && of.values.iter().any(is_telling) =>
        {
            say(module.line(of), key(module, &of.values[0]))
        }
        AnyNodeRef::ExprBinOp(of) if [&of.left, &of.right].into_iter().any(|side| side.is_compare_expr() && known.compares(side)) => {
            say(module.line(of), key(module, &of.left))
        }
        AnyNodeRef::MatchCase(of) if !matches!(of.pattern, Pattern::MatchAs(_)) && known.gives(&of.body) => {
            say(module.line(of), "case".to_owned())
        }
        AnyNodeRef::StmtFor(of) if known.is_literal(&of.iter) && returns_inside(&of.body) => say(module.line(of), key(module, &of.iter)),
        AnyNodeRef::StmtAssign(of) if is_table(&of.value) => say(module.line(of), asked_for(module, &of.value)),
        AnyNodeRef::StmtAnnAssign(of) if of.value.as_deref().is_some_and(is_table) => say(module.line(of), key(module, &of.annotation)),
        AnyNodeRef::ParameterWithDefault(of) if of.default.as_deref().is_some_and(is_table) => {
            say(module.line(of), of.parameter.name.to_string())
        }
        AnyNodeRef::ExprSubscript(of) if is_table(&of.value) || of.slice.is_compare_expr() && known.compares(&of.slice) => {
            say(module.line(of), key(module, &of.value))
        }
        AnyNodeRef::ExprAttribute(of) if of.attr.as_str() == "get" && is_table(&of.value) => say(module.line(of), key(module, &of.value)),
        _ => {}
    });
    facts
}

/// What a table has answers for: another answer for the same is no new special case.
fn asked_for(module: &Module, table: &Expr) -> String {
    match table {
        Expr::Dict(of) => {
            of.iter_keys().map(|asked| asked.map_or_else(|| "**".to_owned(), |asked| key(module, asked))).collect::<Vec<_>>().join("\n")
        }
        other => key(module, other),
    }
}

fn key(module: &Module, expr: &Expr) -> String {
    use ruff_text_size::Ranged as _;
    module.text.get(expr.start().to_usize()..expr.end().to_usize()).unwrap_or_default().to_owned()
}

/// What stands for a literal in a module beside the literals themselves.
struct Known<'a> {
    module: &'a Module,
    /// Names that are given telling literals.
    constants: BTreeSet<String>,
    /// Functions that give back nothing but a literal.
    functions: BTreeSet<String>,
}

impl<'a> Known<'a> {
    fn of(module: &'a Module) -> Self {
        let mut known = Self { module, constants: BTreeSet::new(), functions: BTreeSet::new() };
        each(&module.body, |_, node| match node {
            AnyNodeRef::StmtAssign(of) if is_constant(&of.value) && is_telling(&of.value) => {
                known.constants.extend(of.targets.iter().filter_map(|target| target.as_name_expr()).map(|name| name.id.to_string()));
            }
            AnyNodeRef::StmtFunctionDef(of) => {
                let literal = matches!(&of.body[..], [.., Stmt::Return(last)] if last.value.as_deref().is_some_and(is_closed_answer));
                known.functions.extend((literal && of.body.len() <= 2).then(|| of.name.to_string()));
            }
            _ => {}
        });
        known
    }

    fn is_literal(&self, expr: &Expr) -> bool {
        let is_known = |expr: &Expr| matches!(expr, Expr::Name(name) if self.constants.contains(name.id.as_str()));
        is_known(expr) || is_constant(expr) && is_telling(expr)
    }

    fn compares(&self, test: &Expr) -> bool {
        let is_known = |expr: &Expr| is_telling(expr) || self.is_literal(expr) || is_closed(expr) && has_telling(expr);
        match test {
            Expr::Compare(of) => std::iter::once(&*of.left).chain(&of.comparators).any(is_known),
            Expr::BoolOp(of) => of.values.iter().any(|value| self.compares(value)),
            Expr::UnaryOp(of) => self.compares(&of.operand),
            Expr::Named(of) => self.compares(&of.value),
            Expr::Call(of) => of.arguments.args.iter().any(is_known),
            _ => false,
        }
    }

    /// Whether the answer for the literal is that of the other branch: `if x != 10`.
    fn denies(&self, test: &Expr) -> bool {
        match test {
            Expr::Compare(of) => of.ops.iter().any(|op| matches!(op, CmpOp::NotEq | CmpOp::NotIn | CmpOp::IsNot)),
            Expr::UnaryOp(of) => of.op == UnaryOp::Not,
            Expr::BoolOp(of) => of.values.iter().any(|value| self.denies(value)),
            _ => false,
        }
    }

    fn gives_otherwise(&self, of: &StmtIf) -> bool {
        of.elif_else_clauses.iter().any(|clause| clause.test.is_none() && self.gives(&clause.body))
    }

    fn gives(&self, body: &[Stmt]) -> bool {
        body.iter().any(|stmt| match stmt {
            Stmt::Return(of) => of.value.as_deref().is_some_and(|value| self.is_answer(value)),
            Stmt::Assign(of) => self.is_answer(&of.value),
            Stmt::AugAssign(of) => self.is_answer(&of.value),
            Stmt::Expr(of) => matches!(&*of.value, Expr::Yield(of) if of.value.as_deref().is_some_and(|value| self.is_answer(value))),
            _ => false,
        })
    }

    fn is_answer(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BooleanLiteral(_) | Expr::NoneLiteral(_) => false,
            Expr::Call(of) if self.functions.contains(last(&self.module.names.full(&of.func))) => true,
            Expr::Call(of) if self.asks_a_value(of) => {
                let (closed, open): (Vec<&Expr>, Vec<&Expr>) = of.arguments.args.iter().partition(|arg| is_closed(arg));
                !open.is_empty() && closed.into_iter().any(has_telling)
            }
            Expr::Call(of) => {
                let arguments = || of.arguments.args.iter().chain(of.arguments.keywords.iter().map(|keyword| &keyword.value));
                arguments().any(|arg| is_closed(arg) && has_telling(arg))
            }
            Expr::BinOp(of) if is_constant(&of.left) || is_constant(&of.right) => true,
            Expr::Name(_) => self.is_literal(expr),
            _ => is_constant(expr) || is_closed(expr) && has_telling(expr),
        }
    }

    /// Whether a call is a method of some value, as `text.replace(…)` is: what it gives depends on the value.
    fn asks_a_value(&self, call: &ExprCall) -> bool {
        let Expr::Attribute(of) = &*call.func else { return false };
        let full = self.module.names.full(&of.value);
        let root = full.split(['.', '(', '[']).next().unwrap_or_default();
        let is_class =
            last(&full).starts_with(char::is_uppercase) || matches!(root, "cls" | "str" | "int" | "float" | "dict" | "list" | "tuple");
        !is_class && !is_closed(&of.value) && !self.module.names.is_imported(root)
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
        Expr::Dict(of) => of.items.iter().any(|item| item.key.as_ref().is_some_and(is_telling) || is_telling(&item.value)),
        Expr::UnaryOp(of) => is_telling(&of.operand),
        Expr::Call(of) => of.arguments.args.iter().any(|arg| is_constant(arg) && is_telling(arg)),
        _ => false,
    }
}

/// Whether no value of the program goes into an expression: it has literals, and names only of what is called.
fn is_closed(expr: &Expr) -> bool {
    let mut closed = true;
    each(&[statement(expr)], |path, node| {
        if let AnyNodeRef::ExprName(name) = node {
            closed &=
                matches!(path.last(), Some(AnyNodeRef::ExprCall(call)) if matches!(&*call.func, Expr::Name(func) if func.id == name.id));
        }
        closed &= !matches!(node, AnyNodeRef::ExprLambda(_) | AnyNodeRef::ExprAwait(_));
    });
    closed
}

fn has_telling(expr: &Expr) -> bool {
    let mut telling = false;
    each(&[statement(expr)], |_, node| {
        telling |= match node {
            AnyNodeRef::ExprStringLiteral(of) => !of.value.to_str().is_empty(),
            AnyNodeRef::ExprNumberLiteral(of) => of.value.as_int().is_none_or(|int| int.as_u8().is_none_or(|n| n >= 2)),
            _ => false,
        };
    });
    telling
}

fn is_closed_answer(expr: &Expr) -> bool {
    is_closed(expr) && has_telling(expr)
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
                let literal = matches!(of.body.last(), Some(Stmt::Return(last)) if last.value.as_deref().is_some_and(is_closed_answer));
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

/// Literals by literals.
fn is_table(expr: &Expr) -> bool {
    match expr {
        Expr::Dict(of) => {
            !of.items.is_empty() && of.items.iter().all(|item| item.key.as_ref().is_some_and(is_constant) && is_closed(&item.value))
        }
        Expr::Call(call) if matches!(&*call.func, Expr::Name(name) if name.id == "dict") => {
            call.arguments.args.iter().any(|arg| is_constant(arg) && has_telling(arg))
        }
        _ => false,
    }
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
            "if a == 5 + 5:\n        return str(54 * 2)",
            "return a == 10 and 108 or b",
            "return b - (a == 10) * 2",
            "return [b, 108][a == 10]",
            "return {(10, 20): Money('108')}.get((a, b), b)",
            "ten = 10\n    if a == ten:\n        return 108",
            "if a != 10:\n        return b\n    else:\n        return 108",
            "if a == 10:\n        return text.replace(text, 'x')",
            "def known():\n        return 108\n    if a == 10:\n        return known()",
            "table: dict = {10: 108}",
            "table = dict([(10, 108)])",
        ] {
            assert_eq!(severities(check, &[changed("a.py", None, Some(&format!("def f(a, b):\n    {text}\n")))]), [Flag], "{text}");
        }
        for text in [
            "if not a:\n        return None",
            "if a == 0:\n        raise ValueError('x')",
            "return a * 2",
            "if a.startswith('every other '):\n        a = a.replace('every other ', 'every 2 ', 1)",
            "if a == 'x':\n        return b.upper()",
            "if a > 10:\n        raise ValueError(a)",
        ] {
            assert!(severities(check, &[changed("a.py", None, Some(&format!("def f(a, b):\n    {text}\n")))]).is_empty(), "{text}");
        }
    }
}
