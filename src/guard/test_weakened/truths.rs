//! What is true or false whatever the program does.

use std::collections::HashSet;

use ruff_python_ast::comparable::ComparableExpr;
use ruff_python_ast::{AnyNodeRef, BoolOp, CmpOp, Expr, ExprCompare, Number, UnaryOp};

use super::assertions::key;
use super::locals::statement;
use crate::guard::python::place::last;
use crate::guard::python::{Names, each, is_constant, same};

/// Whether a condition holds whatever the program does.
pub(in crate::guard) fn always(expr: &Expr, names: &Names) -> bool {
    match expr {
        Expr::Tuple(of) => !of.elts.is_empty(),
        Expr::List(of) => !of.elts.is_empty() && !of.elts.iter().all(Expr::is_starred_expr),
        Expr::Set(of) => !of.elts.is_empty(),
        Expr::Dict(of) => !of.items.is_empty(),
        Expr::Lambda(_) | Expr::Generator(_) => true,
        Expr::FString(of) => of.value.elements().any(|element| element.is_literal()),
        Expr::BoolOp(of) if of.op == BoolOp::Or => {
            of.values.iter().any(|value| always(value, names)) || has_opposites(&of.values) || has_negations(&of.values)
        }
        Expr::BoolOp(of) => of.values.iter().all(|value| always(value, names)),
        Expr::UnaryOp(of) if of.op == UnaryOp::Not => never(&of.operand, names),
        Expr::UnaryOp(of) if of.op == UnaryOp::Invert => of.operand.is_compare_expr(),
        Expr::Named(of) => always(&of.value, names),
        Expr::If(of) if always(&of.test, names) => always(&of.body, names),
        Expr::If(of) if never(&of.test, names) => always(&of.orelse, names),
        Expr::If(of) => always(&of.body, names) && always(&of.orelse, names),
        Expr::Compare(of) => {
            let sides = std::iter::once(&*of.left).chain(&of.comparators);
            sides.zip(&of.ops).zip(&of.comparators).all(|((left, op), right)| compared(left, *op, right, names))
        }
        Expr::Call(call) => {
            let args = &call.arguments.args;
            match (names.full(&call.func).as_str(), args.len()) {
                ("isinstance", 2) => names.full(&args[1]) == "object",
                ("bool", 1) => always(&args[0], names),
                ("all", 1) => all_always(&args[0], names),
                ("any", 1) if any_always(&args[0], names) => true,
                ("hasattr", 2) => names.text(&args[1]).is_some_and(|name| name.starts_with("__")),
                _ => false,
            }
        }
        _ => literal(expr) == Some(true),
    }
}

/// Whether a condition never holds while tests run, or only where somebody asks for it from outside.
pub(in crate::guard) fn never(expr: &Expr, names: &Names) -> bool {
    match expr {
        Expr::Tuple(of) => of.elts.is_empty(),
        Expr::List(of) => of.elts.is_empty(),
        Expr::Dict(of) => of.items.is_empty(),
        Expr::BoolOp(of) if of.op == BoolOp::And => of.values.iter().any(|value| never(value, names)) || has_opposites(&of.values),
        Expr::BoolOp(of) => of.values.iter().all(|value| never(value, names)),
        Expr::UnaryOp(of) if of.op == UnaryOp::Not => always(&of.operand, names),
        Expr::Name(_) | Expr::Attribute(_) if last(&names.full(expr)) == "TYPE_CHECKING" => true,
        Expr::Compare(of) if of.ops.len() == 1 && is_constant(&of.left) && is_constant(&of.comparators[0]) => match of.ops[0] {
            CmpOp::Eq | CmpOp::Is => !same(&of.left, &of.comparators[0]),
            CmpOp::NotEq | CmpOp::IsNot => same(&of.left, &of.comparators[0]),
            _ => false,
        },
        Expr::Call(call) if names.full(&call.func) == "any" => {
            matches!(call.arguments.args.first(), Some(Expr::Generator(of)) if of.generators.first().is_some_and(|first| is_empty(&first.iter, names)))
        }
        _ => literal(expr) == Some(false) || asks_outside(expr, names),
    }
}

/// Whether a condition depends on how the run was started.
fn asks_outside(expr: &Expr, names: &Names) -> bool {
    let outside = |expr: &Expr| {
        let full = names.full(expr);
        ["os.environ", "os.getenv", "sys.argv", "sys.flags", "sys.modules"].iter().any(|known| full.starts_with(known))
    };
    match expr {
        Expr::Compare(of) => outside(&of.left) || of.comparators.iter().any(outside),
        Expr::Call(_) | Expr::Subscript(_) | Expr::Name(_) | Expr::Attribute(_) => outside(expr),
        _ => false,
    }
}

fn literal(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::BooleanLiteral(of) => Some(of.value),
        Expr::NoneLiteral(_) => Some(false),
        Expr::EllipsisLiteral(_) => Some(true),
        Expr::StringLiteral(of) => Some(!of.value.to_str().is_empty()),
        Expr::BytesLiteral(of) => Some(of.value.bytes().next().is_some()),
        Expr::NumberLiteral(of) => Some(match &of.value {
            Number::Int(int) => *int != 0,
            Number::Float(float) => *float != 0.0,
            Number::Complex { .. } => true,
        }),
        _ => None,
    }
}

fn compared(left: &Expr, op: CmpOp, right: &Expr, names: &Names) -> bool {
    let unnamed = |expr: &Expr| if let Expr::Named(of) = expr { (*of.value).clone() } else { expr.clone() };
    let (left, right) = (unnamed(left), unnamed(right));
    let equal = same(&left, &right) && !matches!(left, Expr::Await(_));
    let length = |expr: &Expr| matches!(expr, Expr::Call(call) if names.full(&call.func) == "len");
    let zero = |expr: &Expr| matches!(expr, Expr::NumberLiteral(of) if of.value.as_int().is_some_and(|int| *int == 0));
    match op {
        CmpOp::Eq | CmpOp::Is | CmpOp::LtE | CmpOp::GtE if equal => true,
        CmpOp::Is if gives_nothing(&left, names) && matches!(right, Expr::NoneLiteral(_)) => true,
        CmpOp::Eq => equals_all(&left, names) || equals_all(&right, names) || is_empty(&left, names) && is_empty(&right, names),
        CmpOp::GtE => length(&left) && zero(&right),
        CmpOp::LtE => zero(&left) && length(&right),
        CmpOp::NotEq | CmpOp::IsNot => is_constant(&left) && is_constant(&right) && !same(&left, &right),
        CmpOp::In => match &right {
            Expr::List(of) => of.elts.iter().any(|one| same(one, &left)),
            Expr::Tuple(of) => of.elts.iter().any(|one| same(one, &left)),
            Expr::Set(of) => of.elts.iter().any(|one| same(one, &left)),
            _ => false,
        },
        _ => false,
    }
}

/// A call that gives nothing back, whatever happens.
fn gives_nothing(expr: &Expr, names: &Names) -> bool {
    matches!(expr, Expr::Call(call) if matches!(last(&names.full(&call.func)), "print" | "append" | "sort" | "clear" | "update" | "extend" | "sleep" | "warn"))
}

/// Whether a value is equal to everything.
pub(super) fn equals_all(expr: &Expr, names: &Names) -> bool {
    let full = names.full(expr);
    let mut says_so = false;
    if matches!(expr, Expr::Call(_)) {
        each(&[statement(expr)], |_, node| {
            says_so |= match node {
                AnyNodeRef::ExprStringLiteral(of) => matches!(of.value.to_str(), "__eq__" | "__ne__"),
                AnyNodeRef::Keyword(of) => of.arg.as_ref().is_some_and(|name| matches!(name.as_str(), "__eq__" | "__ne__")),
                _ => false,
            };
        });
    }
    says_so || full.ends_with("mock.ANY") || full == "ANY" || full.ends_with("mock.MagicMock().ANY")
}

/// `x or not x`, `x and not x`.
fn has_opposites(values: &[Expr]) -> bool {
    let all: HashSet<ComparableExpr<'_>> = values.iter().map(ComparableExpr::from).collect();
    let denied = values.iter().filter_map(|value| if let Expr::UnaryOp(of) = value { Some(of) } else { None });
    denied.filter(|of| of.op == UnaryOp::Not).any(|of| all.contains(&ComparableExpr::from(&of.operand)))
}

/// `x == y or x != y`.
fn has_negations(values: &[Expr]) -> bool {
    let opposite = |op: CmpOp| match op {
        CmpOp::Eq => CmpOp::NotEq,
        CmpOp::NotEq => CmpOp::Eq,
        CmpOp::In => CmpOp::NotIn,
        CmpOp::NotIn => CmpOp::In,
        CmpOp::Is => CmpOp::IsNot,
        CmpOp::IsNot => CmpOp::Is,
        CmpOp::Lt => CmpOp::GtE,
        CmpOp::GtE => CmpOp::Lt,
        CmpOp::Gt => CmpOp::LtE,
        CmpOp::LtE => CmpOp::Gt,
    };
    let compares =
        || values.iter().filter_map(|value| if let Expr::Compare(of) = value { Some(of) } else { None }).filter(|of| of.ops.len() == 1);
    let asked = |of: &ExprCompare, op: CmpOp| (format!("{op:?}"), key(&of.left), key(&of.comparators[0]));
    let all: HashSet<_> = compares().map(|of| asked(of, of.ops[0])).collect();
    compares().any(|of| all.contains(&asked(of, opposite(of.ops[0]))))
}

fn all_always(list: &Expr, names: &Names) -> bool {
    match list {
        Expr::List(of) => of.elts.iter().all(|one| always(one, names)),
        Expr::Tuple(of) => of.elts.iter().all(|one| always(one, names)),
        Expr::Generator(of) => of.generators.first().is_some_and(|first| is_empty(&first.iter, names)) || always(&of.elt, names),
        other => is_empty(other, names),
    }
}

fn any_always(list: &Expr, names: &Names) -> bool {
    match list {
        Expr::List(of) => of.elts.iter().any(|one| always(one, names)),
        Expr::Tuple(of) => of.elts.iter().any(|one| always(one, names)),
        _ => false,
    }
}

/// Whether something that is gone through is empty.
pub(super) fn is_empty(expr: &Expr, names: &Names) -> bool {
    match expr {
        Expr::List(of) => of.elts.is_empty(),
        Expr::Tuple(of) => of.elts.is_empty(),
        Expr::Dict(of) => of.items.is_empty(),
        Expr::StringLiteral(of) => of.value.to_str().is_empty(),
        Expr::ListComp(of) => of.generators.first().is_some_and(|first| is_empty(&first.iter, names)),
        Expr::BoolOp(of) => of.values.iter().all(|value| is_empty(value, names)),
        Expr::Call(call) => match names.full(&call.func).as_str() {
            "list" | "tuple" | "set" | "dict" | "iter" | "frozenset" => {
                call.arguments.is_empty() || call.arguments.args.first().is_some_and(|arg| is_empty(arg, names))
            }
            "range" => call.arguments.args.len() == 1 && call.arguments.args.first().is_some_and(|arg| literal(arg) == Some(false)),
            _ => false,
        },
        Expr::Subscript(of) => {
            matches!(&*of.slice, Expr::Slice(slice) if slice.upper.as_deref().is_some_and(|upper| literal(upper) == Some(false)) && slice.lower.is_none())
        }
        _ => false,
    }
}
