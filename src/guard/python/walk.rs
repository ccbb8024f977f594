//! Ways through a syntax tree.

use ruff_python_ast::comparable::{ComparableExpr, ComparableStmt};
use ruff_python_ast::visitor::source_order::{SourceOrderVisitor, TraversalSignal};
use ruff_python_ast::{AnyNodeRef, Expr, Stmt, UnaryOp};

/// The nodes around one, outermost first.
pub(in crate::guard) type Path<'p, 'a> = &'p [AnyNodeRef<'a>];

struct Walker<'a, F> {
    path: Vec<AnyNodeRef<'a>>,
    seen: F,
}

impl<'a, F: FnMut(Path<'_, 'a>, AnyNodeRef<'a>)> SourceOrderVisitor<'a> for Walker<'a, F> {
    fn enter_node(&mut self, node: AnyNodeRef<'a>) -> TraversalSignal {
        (self.seen)(&self.path, node);
        self.path.push(node);
        TraversalSignal::Traverse
    }

    fn leave_node(&mut self, _node: AnyNodeRef<'a>) {
        self.path.pop();
    }
}

/// Shows every node with the nodes around it, in the order of the text.
pub(in crate::guard) fn each<'a>(body: &'a [Stmt], seen: impl FnMut(Path<'_, 'a>, AnyNodeRef<'a>)) {
    Walker { path: Vec::new(), seen }.visit_body(body);
}

/// The statements of a body and of the blocks in them, but not of the functions and classes in it.
pub(in crate::guard) fn statements(body: &[Stmt]) -> Vec<&Stmt> {
    let mut all = Vec::new();
    for stmt in body {
        all.push(stmt);
        for block in blocks(stmt) {
            all.extend(statements(block));
        }
    }
    all
}

fn blocks(stmt: &Stmt) -> Vec<&[Stmt]> {
    match stmt {
        Stmt::For(of) => vec![&of.body, &of.orelse],
        Stmt::While(of) => vec![&of.body, &of.orelse],
        Stmt::With(of) => vec![&of.body],
        Stmt::If(of) => std::iter::once(&of.body[..]).chain(of.elif_else_clauses.iter().map(|clause| &clause.body[..])).collect(),
        Stmt::Match(of) => of.cases.iter().map(|case| &case.body[..]).collect(),
        Stmt::Try(of) => {
            let handlers = of.handlers.iter().map(|handler| {
                let ruff_python_ast::ExceptHandler::ExceptHandler(handler) = handler;
                &handler.body[..]
            });
            [&of.body[..], &of.orelse, &of.finalbody].into_iter().chain(handlers).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether two expressions are the same program, however they are written.
pub(in crate::guard) fn same(one: &Expr, other: &Expr) -> bool {
    ComparableExpr::from(one) == ComparableExpr::from(other)
}

/// Whether two bodies are the same program, however they are written.
pub(in crate::guard) fn same_body(one: &[Stmt], other: &[Stmt]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| ComparableStmt::from(one) == ComparableStmt::from(other))
}

/// Whether an expression is made of literals alone.
pub(in crate::guard) fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::StringLiteral(_)
        | Expr::BytesLiteral(_)
        | Expr::NumberLiteral(_)
        | Expr::BooleanLiteral(_)
        | Expr::NoneLiteral(_)
        | Expr::EllipsisLiteral(_) => true,
        Expr::UnaryOp(of) => of.op != UnaryOp::Not && is_constant(&of.operand),
        Expr::Tuple(of) => of.elts.iter().all(is_constant),
        Expr::List(of) => of.elts.iter().all(is_constant),
        Expr::Set(of) => of.elts.iter().all(is_constant),
        Expr::Dict(of) => of.items.iter().all(|item| item.key.as_ref().is_none_or(is_constant) && is_constant(&item.value)),
        _ => false,
    }
}
