//! How much an assertion asks: a bound, a choice or a rounded value accepts more answers than the value itself.

use ruff_python_ast::{AnyNodeRef, BoolOp, CmpOp, Expr, ExprCall, Number, UnaryOp};

use super::locals::statement;
use crate::guard::python::place::last;
use crate::guard::python::{Names, each, is_constant, same};

/// A difference that floats may have by themselves.
const OF_FLOATS: f64 = 0.01;

/// Whether more than one answer satisfies an assertion, as far as its form says.
pub(in crate::guard) fn is_loose(expr: &Expr, names: &Names) -> bool {
    match expr {
        Expr::Compare(of) if of.ops.len() > 1 => !of.ops.iter().all(|op| *op == CmpOp::Eq),
        Expr::Compare(of) => compares_loosely(&of.left, of.ops[0], &of.comparators[0], names),
        Expr::BoolOp(of) if of.op == BoolOp::Or => true,
        Expr::BoolOp(of) => of.values.iter().all(|value| is_loose(value, names)),
        Expr::UnaryOp(of) if of.op == UnaryOp::Not => matches!(&*of.operand, Expr::Compare(inner) if inner.ops[..] != [CmpOp::NotEq]),
        Expr::Await(of) => is_loose(&of.value, names),
        Expr::Named(of) => is_loose(&of.value, names),
        Expr::If(of) => is_loose(&of.body, names) || is_loose(&of.orelse, names),
        Expr::Call(call) => asks_loosely(call, names),
        _ => false,
    }
}

fn compares_loosely(left: &Expr, op: CmpOp, right: &Expr, names: &Names) -> bool {
    match op {
        CmpOp::Eq | CmpOp::Is => [left, right].into_iter().any(|side| is_view(side, names)) || holds(left, right) || holds(right, left),
        CmpOp::In => is_choice(right, names),
        CmpOp::Lt | CmpOp::LtE if is_distance(left, names) => number(right).is_none_or(|most| most > OF_FLOATS),
        CmpOp::NotEq | CmpOp::IsNot | CmpOp::NotIn | CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE => true,
    }
}

/// `abs(a - b)`.
fn is_distance(expr: &Expr, names: &Names) -> bool {
    matches!(expr, Expr::Call(call) if matches!(last(&names.full(&call.func)), "abs" | "fabs"))
}

/// Several values of which one is enough.
fn is_choice(expr: &Expr, names: &Names) -> bool {
    match expr {
        Expr::Tuple(of) => of.elts.len() > 1,
        Expr::List(of) => of.elts.len() > 1,
        Expr::Set(of) => of.elts.len() > 1,
        Expr::Call(call) => matches!(last(&names.full(&call.func)), "range" | "count" | "frozenset"),
        _ => false,
    }
}

/// Whether the call that one side makes is a part of the other side: `total() == int(total())`.
fn holds(part: &Expr, whole: &Expr) -> bool {
    let Expr::Call(part) = part else { return false };
    let mut found = false;
    each(&[statement(whole)], |_, node| {
        found |= matches!(node, AnyNodeRef::ExprCall(call) if same(&Expr::Call(call.clone()), &Expr::Call(part.clone())));
    });
    found
}

/// Something that many values share: a length, a type, a rest, a rounded number, one side of a choice.
fn is_view(expr: &Expr, names: &Names) -> bool {
    match expr {
        Expr::Compare(_) | Expr::If(_) => true,
        Expr::Attribute(of) => matches!(of.attr.as_str(), "__class__" | "__len__"),
        Expr::BinOp(of) => {
            use ruff_python_ast::Operator::{BitAnd, FloorDiv, Mod, Mult, Pow, Sub};
            let is_rest =
                matches!(of.op, FloorDiv | Mod | BitAnd) && is_constant(&of.right) && !matches!(&*of.left, Expr::StringLiteral(_));
            let is_nothing = of.op == Sub && same(&of.left, &of.right) || of.op == Pow && number(&of.right) == Some(0.0);
            is_rest || is_nothing || of.op == Mult && [&of.left, &of.right].into_iter().any(|side| number(side) == Some(0.0))
        }
        Expr::BoolOp(of) => of.op == BoolOp::And,
        Expr::Subscript(of) => matches!(&*of.value, Expr::Dict(_) | Expr::Tuple(_) | Expr::List(_)),
        Expr::Call(call) if call.func.is_lambda_expr() => true,
        Expr::Call(call) => match last(&names.full(&call.func)) {
            "len" | "type" | "bool" | "min" | "max" | "round" | "hash" | "id" | "isinstance" | "any" | "callable" | "hasattr" | "trunc"
            | "floor" | "ceil" | "next" => true,
            "getattr" => call.arguments.args.len() > 2,
            "approx" => is_wide(call, &["abs", "rel"], 1),
            _ => false,
        },
        _ => false,
    }
}

fn asks_loosely(call: &ExprCall, names: &Names) -> bool {
    let args = &call.arguments.args;
    let (first, second) = (args.first(), args.get(1));
    match last(&names.full(&call.func)) {
        "assertTrue" | "assert_" | "failUnless" | "bool" => first.is_some_and(|arg| is_loose(arg, names)),
        "assertFalse" => first.is_some_and(|arg| matches!(arg, Expr::Compare(of) if of.ops[..] != [CmpOp::NotEq])),
        "assertGreater"
        | "assertGreaterEqual"
        | "assertLess"
        | "assertLessEqual"
        | "assertNotEqual"
        | "assertNotIn"
        | "assertIsNot"
        | "assertNotAlmostEqual"
        | "assertIsNotNone"
        | "assertNotIsInstance"
        | "any" => true,
        "assertIn" => second.is_some_and(|arg| is_choice(arg, names)),
        "assertRegex" | "assertRegexpMatches" => second.and_then(|arg| names.text(arg)).is_some_and(|shape| is_wide_shape(&shape)),
        "assertEqual" | "assertEquals" | "assertIs" | "assertCountEqual" => {
            [first, second].into_iter().flatten().any(|side| is_view(side, names))
        }
        "assertAlmostEqual" | "assertAlmostEquals" => {
            let places = call.arguments.find_argument_value("places", 2).map(|places| number(places).is_none_or(|places| places < 2.0));
            places.unwrap_or(false) || is_wide(call, &["delta"], 9)
        }
        "isclose" | "allclose" | "assert_allclose" | "assert_almost_equal" => is_wide(call, &["rel_tol", "abs_tol", "rtol", "atol"], 2),
        "all" => match first {
            Some(Expr::Generator(of)) => is_loose(&of.elt, names),
            Some(Expr::ListComp(of)) => is_loose(&of.elt, names),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a tolerance is more than floats need.
fn is_wide(call: &ExprCall, keywords: &[&str], position: usize) -> bool {
    let named = keywords.iter().filter_map(|name| call.arguments.find_keyword(name)).map(|keyword| &keyword.value);
    named.chain(call.arguments.args.get(position)).any(|tolerance| number(tolerance).is_some_and(|most| most > OF_FLOATS))
}

/// Whether a pattern has no three letters or digits in a row that must be there.
pub(super) fn is_wide_shape(shape: &str) -> bool {
    let plain = shape.replace("\\d", " ").replace("\\w", " ").replace("\\s", " ").replace("\\S", " ").replace("\\D", " ");
    !plain.split(|c: char| !c.is_alphanumeric()).any(|run| run.chars().count() >= 2)
}

fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::NumberLiteral(of) => match &of.value {
            Number::Int(int) => int.as_i64().map(|int| int as f64),
            Number::Float(float) => Some(*float),
            Number::Complex { .. } => None,
        },
        Expr::UnaryOp(of) if of.op == UnaryOp::USub => number(&of.operand).map(|value| -value),
        _ => None,
    }
}
