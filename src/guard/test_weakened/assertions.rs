//! The assertions of a function that can fail. One that nothing reaches, that holds whatever the program does, or whose failure is caught on its way
//! is none.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ruff_python_ast::comparable::ComparableExpr;
use ruff_python_ast::{AnyNodeRef, BoolOp, CmpOp, ExceptHandler, Expr, ExprCall, Stmt};

use super::inventory::{Block, leaves_out_others};
use super::locals::{Locals, statement};
use super::strength::is_loose;
use super::truths::{always, equals_all, is_empty, never};
use crate::guard::errors_swallowed::catches_all;
use crate::guard::python::place::last;
use crate::guard::python::{Module, Names, each, same};

/// One assertion that can fail.
pub(super) struct Assertion {
    /// Equal for assertions that are the same program.
    pub(super) key: u64,
    /// The calls with arguments in it.
    pub(super) calls: Vec<u64>,
    /// The names in it.
    pub(super) words: BTreeSet<String>,
    /// Whether it compares with something, and does not only ask whether there is anything.
    pub(super) compares: bool,
    /// Whether one answer alone satisfies it.
    pub(super) is_exact: bool,
    /// The names of what is called in it.
    pub(super) called: BTreeSet<String>,
    /// The conditions that it stands under.
    pub(super) under: Vec<u64>,
}

pub(super) fn key(expr: &Expr) -> u64 {
    let mut hasher = DefaultHasher::new();
    ComparableExpr::from(expr).hash(&mut hasher);
    hasher.finish()
}

/// Those of a block. `equal` names classes of the tests whose objects say themselves what they are equal to.
pub(super) fn live(block: &Block<'_>, module: &Module, equal: &BTreeSet<String>, helpers: &BTreeSet<String>) -> Vec<Assertion> {
    if block.never_awaited && block.is_test || never_parametrised(block, &module.names) || block.is_test && gives_way(block) {
        return Vec::new();
    }
    let mut search = Search {
        names: &module.names,
        equal,
        fakes: fakes(block, &module.names, equal),
        helpers,
        called: called(block),
        locals: Locals::default(),
        under: Vec::new(),
        found: Vec::new(),
    };
    search.body(block.body());
    search.found
}

/// The functions of a module that are no tests and assert something that can fail: who calls one asserts.
pub(super) fn helpers(blocks: &[Block<'_>], module: &Module, equal: &BTreeSet<String>) -> BTreeSet<String> {
    let nobody = BTreeSet::new();
    let functions =
        blocks.iter().filter(|block| !block.is_test && block.function().is_some_and(|function| !function.name.starts_with("test")));
    let asserting = functions.filter(|block| !live(block, module, equal, &nobody).is_empty());
    asserting.map(|block| last(&block.name).to_owned()).collect()
}

struct Search<'a> {
    names: &'a Names,
    equal: &'a BTreeSet<String>,
    /// Local names of objects that say themselves what they are equal to.
    fakes: BTreeSet<String>,
    /// Functions of the file that assert for others.
    helpers: &'a BTreeSet<String>,
    called: BTreeSet<String>,
    locals: Locals,
    /// The conditions around the place.
    under: Vec<u64>,
    found: Vec<Assertion>,
}

impl Search<'_> {
    /// Searches statement after statement, until none is reached any more.
    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
            self.locals.learn(stmt);
            let leaves = match stmt {
                Stmt::Return(_) | Stmt::Raise(_) | Stmt::Continue(_) | Stmt::Break(_) => true,
                Stmt::Expr(of) => is_skip_call(&of.value, self.names),
                Stmt::If(of) => always(&of.test, self.names) && of.body.iter().any(|stmt| matches!(stmt, Stmt::Return(_) | Stmt::Raise(_))),
                Stmt::While(of) => always(&of.test, self.names) && !has_break(&of.body),
                _ => false,
            };
            if leaves {
                return;
            }
        }
    }

    fn body_under(&mut self, body: &[Stmt], condition: Option<u64>) {
        let depth = self.under.len();
        self.under.extend(condition);
        self.body(body);
        self.under.truncate(depth);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assert(of) if !always(&of.test, self.names) && !self.is_fake(&of.test) && !or_skips(&of.test, self.names) => {
                self.locals.learn(stmt);
                let filled = self.locals.filled(&of.test);
                if !always(&filled, self.names) {
                    self.add(&filled);
                }
            }
            Stmt::If(of) => {
                let mut reached = true;
                let is_asked = !always(&of.test, self.names) && !leaves_out_others(&of.test, self.names);
                if !never(&of.test, self.names) {
                    self.body_under(&of.body, is_asked.then(|| key(&of.test)));
                }
                reached &= !always(&of.test, self.names);
                for clause in &of.elif_else_clauses {
                    let test = clause.test.as_ref();
                    if reached && !test.is_some_and(|test| never(test, self.names)) {
                        self.body_under(&clause.body, Some(key(&of.test)));
                    }
                    reached &= !test.is_some_and(|test| always(test, self.names));
                }
            }
            Stmt::For(of) if !is_empty(&of.iter, self.names) => {
                self.body(&of.body);
                self.body(&of.orelse);
            }
            Stmt::While(of) if !never(&of.test, self.names) => self.body(&of.body),
            Stmt::With(of) => self.with(of),
            Stmt::Try(of) => {
                let swallows = of.handlers.iter().any(|handler| swallows(handler, self.names))
                    || of.finalbody.iter().any(|stmt| matches!(stmt, Stmt::Return(_) | Stmt::Continue(_) | Stmt::Break(_)));
                if !swallows {
                    self.body(&of.body);
                }
                for ExceptHandler::ExceptHandler(handler) in &of.handlers {
                    self.body(&handler.body);
                }
                self.body(&of.orelse);
                self.body(&of.finalbody);
            }
            Stmt::Match(of) => of.cases.iter().for_each(|case| self.body_under(&case.body, Some(key(&of.subject)))),
            Stmt::FunctionDef(of) if self.called.contains(of.name.as_str()) => self.body(&of.body),
            Stmt::Expr(of) => self.expr(&of.value),
            Stmt::Assign(of) => self.expr(&of.value),
            Stmt::Return(of) => of.value.iter().for_each(|value| self.expr(value)),
            Stmt::AnnAssign(of) => of.value.iter().for_each(|value| self.expr(value)),
            _ => {}
        }
    }

    fn with(&mut self, with: &ruff_python_ast::StmtWith) {
        let calls = || with.items.iter().filter_map(|item| if let Expr::Call(call) = &item.context_expr { Some(call) } else { None });
        let catches = calls().any(|call| {
            let name = self.names.full(&call.func);
            let broad = call.arguments.args.iter().any(|arg| catches_failures(Some(arg), self.names));
            matches!(last(&name), "raises" | "assertRaises" | "suppress")
                && broad
                && (holds_assertion(&with.body, self.names) || is_assertion_error(call, self.names))
        });
        if catches {
            return;
        }
        for item in &with.items {
            self.expr(&item.context_expr);
        }
        self.body(&with.body);
    }

    /// Assertions that are calls: `self.assertEqual(…)`, `pytest.raises(…)`, `assert_called_with(…)`.
    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Await(of) => self.expr(&of.value),
            Expr::Call(call) if self.helpers.contains(last(&self.names.full(&call.func))) => self.add(expr),
            Expr::Call(call) if is_assertion(last(&self.names.full(&call.func))) && !self.is_trivial(call) => {
                let filled = self.locals.filled(expr);
                if !matches!(&filled, Expr::Call(call) if self.is_trivial(call)) {
                    self.add(&filled);
                }
            }
            Expr::Call(call) => {
                if let Expr::Attribute(of) = &*call.func {
                    self.expr(&of.value);
                }
            }
            Expr::BoolOp(of) => of.values.iter().for_each(|value| self.expr(value)),
            Expr::Named(of) => self.expr(&of.value),
            _ => {}
        }
    }

    fn is_trivial(&self, call: &ExprCall) -> bool {
        let (first, second) = (call.arguments.args.first(), call.arguments.args.get(1));
        let both = |wanted: fn(&Expr, &Names) -> bool| first.is_some_and(|arg| wanted(arg, self.names));
        let either_fake = [first, second].into_iter().flatten().any(|arg| equals_all(arg, self.names) || self.is_fake(arg));
        match last(&self.names.full(&call.func)) {
            "assertTrue" | "assert_" | "failUnless" => both(always) || first.is_some_and(|arg| self.is_fake(arg)),
            "assertFalse" => both(never),
            "assertIsNotNone" => first.is_some_and(crate::guard::python::is_constant),
            "assertIsNone" => matches!(first, Some(Expr::NoneLiteral(_))),
            "assertEqual"
            | "assertIs"
            | "assertEquals"
            | "assertAlmostEqual"
            | "assertCountEqual"
            | "assertListEqual"
            | "assertDictEqual"
            | "assertSequenceEqual"
            | "assertMultiLineEqual" => either_fake || matches!((first, second), (Some(one), Some(other)) if same(one, other)),
            "assertIsInstance" => second.is_some_and(|kind| self.names.full(kind) == "object"),
            "raises" | "assertRaises" => is_assertion_error(call, self.names),
            _ => false,
        }
    }

    /// Whether an expression compares with an object that says itself what it is equal to.
    fn is_fake(&self, expr: &Expr) -> bool {
        let mut fake = false;
        let parts: Vec<&Expr> = match expr {
            Expr::Compare(of) => std::iter::once(&*of.left).chain(&of.comparators).collect(),
            Expr::BoolOp(of) => return of.values.iter().any(|value| self.is_fake(value)),
            one => vec![one],
        };
        for part in parts {
            fake |= match part {
                Expr::Name(name) => self.fakes.contains(name.id.as_str()),
                Expr::Call(call) => self.equal.contains(last(&self.names.full(&call.func))),
                _ => false,
            };
        }
        fake
    }

    fn add(&mut self, expr: &Expr) {
        let (mut calls, mut words, mut called) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        each(&[statement(expr)], |_, node| match node {
            AnyNodeRef::ExprCall(call) if !call.arguments.is_empty() => {
                called.extend(method_of(call));
                calls.push(key(&Expr::Call(call.clone())));
            }
            AnyNodeRef::ExprCall(call) => called.extend(method_of(call)),
            AnyNodeRef::ExprName(name) => {
                words.insert(name.id.to_string());
            }
            AnyNodeRef::ExprAttribute(of) => {
                words.insert(of.attr.to_string());
            }
            _ => {}
        });
        let compares = compares(expr, self.names);
        let is_exact = compares && !is_loose(expr, self.names);
        self.found.push(Assertion { key: key(expr), calls, words, compares, is_exact, called, under: self.under.clone() });
    }
}

fn method_of(call: &ExprCall) -> Option<String> {
    if let Expr::Attribute(of) = &*call.func { Some(of.attr.to_string()) } else { None }
}

/// Whether an assertion compares with something, and does not only ask whether there is anything.
fn compares(expr: &Expr, names: &Names) -> bool {
    match expr {
        Expr::Compare(of) => {
            let says_little = |side: &Expr| matches!(side, Expr::BooleanLiteral(_));
            let is_anything = |op: &CmpOp, side: &Expr| matches!(op, CmpOp::IsNot | CmpOp::NotEq) && matches!(side, Expr::NoneLiteral(_));
            !of.comparators.iter().any(says_little) && !of.ops.iter().zip(&of.comparators).all(|(op, side)| is_anything(op, side))
        }
        Expr::BoolOp(of) if of.op == BoolOp::Or => of.values.iter().all(|value| compares(value, names)),
        Expr::BoolOp(of) => of.values.iter().any(|value| compares(value, names)),
        Expr::UnaryOp(of) => compares(&of.operand, names),
        Expr::Await(of) => compares(&of.value, names),
        Expr::Call(call) => {
            let first = || call.arguments.args.first();
            match last(&names.full(&call.func)) {
                "assertTrue" | "assertFalse" | "assert_" | "bool" | "failUnless" => first().is_some_and(|arg| compares(arg, names)),
                "assertIsNotNone" | "assertIsInstance" | "isinstance" | "hasattr" | "callable" | "len" => false,
                "all" | "any" => match first() {
                    Some(Expr::Generator(of)) => compares(&of.elt, names),
                    Some(Expr::ListComp(of)) => compares(&of.elt, names),
                    _ => true,
                },
                name if is_assertion(name) || ["check", "verify", "ensure", "expect"].iter().any(|verb| name.starts_with(verb)) => true,
                name => {
                    let lower = name.to_lowercase();
                    ["startswith", "endswith", "match", "search", "close", "equal", "subset", "superset", "disjoint", "same", "contains"]
                        .iter()
                        .any(|word| lower.contains(word))
                }
            }
        }
        _ => false,
    }
}

pub(super) fn is_assertion(name: &str) -> bool {
    name.starts_with("assert")
        || matches!(name, "raises" | "warns" | "fail" | "deprecated_call" | "fnmatch_lines" | "re_match_lines" | "failUnless" | "expect")
}

fn is_assertion_error(call: &ExprCall, names: &Names) -> bool {
    call.arguments.args.iter().any(|arg| names.full(arg) == "AssertionError" || last(&names.full(arg)) == "failureException")
}

/// Whether a type stands for failed assertions too.
pub(super) fn catches_failures(kind: Option<&Expr>, names: &Names) -> bool {
    catches_all(kind, names)
        || match kind {
            Some(Expr::Tuple(of)) => of.elts.iter().any(|one| catches_failures(Some(one), names)),
            Some(kind) => {
                let full = names.full(kind);
                full == "AssertionError"
                    || full.contains("fail.Exception")
                    || full.ends_with("outcomes.Failed")
                    || full.ends_with("failureException")
                    || full == "?"
            }
            None => true,
        }
}

/// Whether a handler catches failed assertions and lets the test pass.
pub(super) fn swallows(handler: &ExceptHandler, names: &Names) -> bool {
    let ExceptHandler::ExceptHandler(handler) = handler;
    let mut speaks = false;
    each(&handler.body, |_, node| {
        speaks |= match node {
            AnyNodeRef::StmtRaise(_) | AnyNodeRef::StmtAssert(_) => true,
            AnyNodeRef::ExprCall(call) => is_assertion(last(&names.full(&call.func))),
            _ => false,
        };
    });
    !speaks && catches_failures(handler.type_.as_deref(), names)
}

fn holds_assertion(body: &[Stmt], names: &Names) -> bool {
    let mut holds = false;
    each(body, |_, node| {
        holds |= match node {
            AnyNodeRef::StmtAssert(_) => true,
            AnyNodeRef::ExprCall(call) => last(&names.full(&call.func)).starts_with("assert"),
            _ => false,
        };
    });
    holds
}

fn is_skip_call(expr: &Expr, names: &Names) -> bool {
    matches!(expr, Expr::Call(call) if super::skips::is_skip(last(&names.full(&call.func))) || matches!(names.full(&call.func).as_str(), "pytest.exit" | "os._exit" | "sys.exit" | "exit" | "quit"))
}

/// `assert x or pytest.skip()`.
fn or_skips(test: &Expr, names: &Names) -> bool {
    matches!(test, Expr::BoolOp(of) if of.values.iter().any(|value| is_skip_call(value, names)))
}

/// Local names that are given objects which say themselves what they are equal to.
fn fakes(block: &Block<'_>, names: &Names, equal: &BTreeSet<String>) -> BTreeSet<String> {
    let mut fakes = BTreeSet::new();
    each(block.body(), |_, node| {
        if let AnyNodeRef::StmtAssign(of) = node {
            let is_fake = match &*of.value {
                Expr::Call(call) => equal.contains(last(&names.full(&call.func))),
                value => equals_all(value, names),
            };
            let targets =
                of.targets.iter().filter_map(|target| if let Expr::Name(name) = target { Some(name.id.to_string()) } else { None });
            fakes.extend(targets.filter(|_| is_fake));
        }
    });
    fakes
}

/// Names that a block uses: an inner function that it never names never runs.
fn called(block: &Block<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    each(block.body(), |path, node| {
        if let AnyNodeRef::ExprName(name) = node
            && !matches!(path.last(), Some(AnyNodeRef::StmtExpr(_)))
        {
            names.insert(name.id.to_string());
        }
    });
    names
}

fn has_break(body: &[Stmt]) -> bool {
    crate::guard::python::statements(body).into_iter().any(|stmt| matches!(stmt, Stmt::Break(_) | Stmt::Return(_)))
}

/// Whether a test function is a generator: nobody goes through it.
fn gives_way(block: &Block<'_>) -> bool {
    let mut yields = false;
    each(block.body(), |path, node| {
        let inner = path.iter().any(|node| matches!(node, AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::ExprLambda(_)));
        yields |= !inner && matches!(node, AnyNodeRef::ExprYield(_) | AnyNodeRef::ExprYieldFrom(_));
    });
    yields && block.function().is_some_and(|function| !function.is_async)
}

/// Whether a test runs for no parameter at all.
fn never_parametrised(block: &Block<'_>, names: &Names) -> bool {
    block.decorators().iter().any(|decorator| {
        let Expr::Call(call) = &decorator.expression else { return false };
        let rows = call.arguments.find_argument_value("argvalues", 1);
        last(&names.full(&call.func)) == "parametrize" && rows.is_some_and(|rows| is_empty(rows, names))
    })
}
