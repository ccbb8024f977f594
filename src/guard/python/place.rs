//! Where in a file something stands.

use ruff_python_ast::{AnyNodeRef, CmpOp, Expr, StmtFunctionDef};

use super::{Names, Path};

/// The innermost function around a place.
pub(in crate::guard) fn function<'a>(path: Path<'_, 'a>) -> Option<&'a StmtFunctionDef> {
    path.iter().rev().find_map(|node| if let AnyNodeRef::StmtFunctionDef(function) = node { Some(*function) } else { None })
}

/// Whether the place runs when the file is imported: no function and no lambda is around it, and no `if __name__ == "__main__"`.
pub(in crate::guard) fn runs_at_import(path: Path<'_, '_>) -> bool {
    !path.iter().any(|node| match node {
        AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::ExprLambda(_) => true,
        AnyNodeRef::StmtIf(of) => asks_for_main(&of.test),
        _ => false,
    })
}

fn asks_for_main(test: &Expr) -> bool {
    let Expr::Compare(compare) = test else { return false };
    let is_name = |expr: &Expr| matches!(expr, Expr::Name(name) if name.id == "__name__");
    let is_main = |expr: &Expr| matches!(expr, Expr::StringLiteral(text) if text.value.to_str() == "__main__");
    compare.ops[..] == [CmpOp::Eq]
        && (is_name(&compare.left) && is_main(&compare.comparators[0]) || is_main(&compare.left) && is_name(&compare.comparators[0]))
}

/// Whether an exception is awaited around the place: `with pytest.raises(…)`, `with self.assertRaises(…)`.
pub(in crate::guard) fn is_awaited(path: Path<'_, '_>, names: &Names) -> bool {
    path.iter().any(|node| match node {
        AnyNodeRef::StmtWith(with) => with.items.iter().any(|item| awaits(names, &item.context_expr)),
        AnyNodeRef::ExprCall(call) => {
            names.full(&call.func).rsplit('.').next().is_some_and(|last| last == "raises" || last.starts_with("assertRaises"))
        }
        _ => false,
    })
}

fn awaits(names: &Names, expr: &Expr) -> bool {
    let full = names.full(expr);
    let last = full.trim_end_matches("()").rsplit('.').next().unwrap_or_default();
    last == "raises" || last.starts_with("assertRaises")
}

/// The last part of a dotted name.
pub(in crate::guard) fn last(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}

/// Whether a function is a fixture, and whether every test of its scope gets it unasked.
pub(in crate::guard) fn fixture(function: &StmtFunctionDef, names: &Names) -> Option<bool> {
    function.decorator_list.iter().find_map(|decorator| {
        let full = names.full(&decorator.expression);
        if !matches!(last(full.trim_end_matches("()")), "fixture" | "yield_fixture" | "fixture_union") {
            return None;
        }
        let Expr::Call(call) = &decorator.expression else { return Some(false) };
        let autouse = call.arguments.find_keyword("autouse");
        Some(autouse.is_some_and(|keyword| !matches!(&keyword.value, Expr::BooleanLiteral(value) if !value.value)))
    })
}

/// Whether a function is one that pytest calls by itself: a hook.
pub(in crate::guard) fn is_hook(function: &StmtFunctionDef, names: &Names) -> bool {
    function.name.starts_with("pytest_")
        || function.decorator_list.iter().any(|decorator| {
            let full = names.full(&decorator.expression);
            matches!(last(full.trim_end_matches("()")), "hookimpl" | "tryfirst" | "trylast" | "hookwrapper")
        })
}
