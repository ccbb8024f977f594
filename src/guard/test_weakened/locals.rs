//! Names that a test gives to values, put back into its assertions: `total = f(); assert total == 7` asks what `assert f() == 7` asks.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::visitor::transformer::{Transformer, walk_expr};
use ruff_python_ast::{AnyNodeRef, Expr, Stmt};

use crate::guard::python::each;

/// The values of local names at one place of a function.
#[derive(Default)]
pub(super) struct Locals {
    values: BTreeMap<String, Expr>,
    /// Those of them that call something.
    calling: BTreeSet<String>,
}

/// A larger value is not put back, in nodes.
const LARGEST: usize = 64;

impl Locals {
    /// Learns what a statement does to names; a statement that does something else may change what calls give.
    pub(super) fn learn(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign(of) => match &of.targets[..] {
                [Expr::Name(name)] => self.set(name.id.as_str(), &of.value),
                _ => self.forget(stmt),
            },
            Stmt::AnnAssign(of) => match (&*of.target, &of.value) {
                (Expr::Name(name), Some(value)) => self.set(name.id.as_str(), value),
                _ => self.forget(stmt),
            },
            Stmt::Assert(of) => self.learn_named(&of.test),
            Stmt::Expr(_) => self.forget_calls(),
            other => self.forget(other),
        }
    }

    /// An expression with the values in the places of their names.
    pub(super) fn filled(&self, expr: &Expr) -> Expr {
        let mut filled = expr.clone();
        if !self.values.is_empty() {
            Filling(self).visit_expr(&mut filled);
        }
        filled
    }

    fn learn_named(&mut self, test: &Expr) {
        let mut named = Vec::new();
        each(&[statement(test)], |_, node| {
            if let AnyNodeRef::ExprNamed(of) = node
                && let Expr::Name(name) = &*of.target
            {
                named.push((name.id.to_string(), (*of.value).clone()));
            }
        });
        for (name, value) in named {
            self.set(&name, &value);
        }
    }

    fn set(&mut self, name: &str, value: &Expr) {
        let expr = self.filled(value);
        let (mut size, mut calls) = (0, false);
        each(&[statement(&expr)], |_, node| {
            size += 1;
            calls |= matches!(node, AnyNodeRef::ExprCall(_) | AnyNodeRef::ExprAwait(_));
        });
        if size > LARGEST || matches!(expr, Expr::Lambda(_) | Expr::Yield(_)) {
            self.values.remove(name);
            return;
        }
        self.values.insert(name.to_owned(), expr);
        if calls {
            self.calling.insert(name.to_owned());
        } else {
            self.calling.remove(name);
        }
    }

    fn forget_calls(&mut self) {
        for name in std::mem::take(&mut self.calling) {
            self.values.remove(&name);
        }
    }

    /// Forgets every name that a statement may give another value, and what calls gave before it.
    fn forget(&mut self, stmt: &Stmt) {
        each(std::slice::from_ref(stmt), |_, node| {
            if let AnyNodeRef::ExprName(name) = node
                && !name.ctx.is_load()
            {
                self.values.remove(name.id.as_str());
            }
        });
        self.forget_calls();
    }
}

struct Filling<'a>(&'a Locals);

impl Transformer for Filling<'_> {
    fn visit_expr(&self, expr: &mut Expr) {
        match expr {
            Expr::Name(name) if name.ctx.is_load() => {
                if let Some(value) = self.0.values.get(name.id.as_str()) {
                    *expr = value.clone();
                }
            }
            Expr::Lambda(_) => {}
            other => walk_expr(self, other),
        }
    }
}

/// An expression as a statement, to be walked through.
pub(in crate::guard) fn statement(expr: &Expr) -> Stmt {
    Stmt::Expr(ruff_python_ast::StmtExpr { node_index: Default::default(), range: Default::default(), value: Box::new(expr.clone()) })
}
