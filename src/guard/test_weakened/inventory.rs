//! The functions of a file of tests, and which of them a runner collects.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{AnyNodeRef, CmpOp, Expr, Stmt, StmtClassDef, StmtFunctionDef, UnaryOp};

use super::assertions::key;
use super::skips::asks_for_platform;
use super::truths::{always, never};
use crate::domain::TestNames;
use crate::guard::python::place::last;
use crate::guard::python::{Module, Names, each, statements};

/// A function, a class without its methods, or the module without either (no name).
pub(super) struct Block<'a> {
    /// The names down to it joined by dots; empty for the module.
    pub(super) name: String,
    pub(super) line: u64,
    pub(super) kind: Kind<'a>,
    /// Whether a runner collects it as a test.
    pub(super) is_test: bool,
    /// Whether it is a coroutine that a runner would not wait for.
    pub(super) never_awaited: bool,
    /// The condition under which it is defined at all; none for what is always there, or everywhere but on other systems.
    pub(super) condition: Option<u64>,
}

#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    Module(&'a [Stmt]),
    Class(&'a StmtClassDef),
    Function(&'a StmtFunctionDef),
}

impl<'a> Block<'a> {
    pub(super) fn function(&self) -> Option<&'a StmtFunctionDef> {
        if let Kind::Function(function) = self.kind { Some(function) } else { None }
    }

    pub(super) fn decorators(&self) -> &'a [ruff_python_ast::Decorator] {
        match self.kind {
            Kind::Module(_) => &[],
            Kind::Class(class) => &class.decorator_list,
            Kind::Function(function) => &function.decorator_list,
        }
    }

    pub(super) fn body(&self) -> &'a [Stmt] {
        match self.kind {
            Kind::Module(body) => body,
            Kind::Class(class) => &class.body,
            Kind::Function(function) => &function.body,
        }
    }
}

/// The blocks of a module; of two with the same name the last one, which is the one that runs.
pub(super) fn blocks<'a>(module: &'a Module, tests: &TestNames) -> Vec<Block<'a>> {
    let mut reader =
        Reader { module, tests, blocks: Vec::new(), defined_at: BTreeMap::new(), async_is_run: runs_coroutines(module), in_case: false };
    reader.blocks.push(Block {
        name: String::new(),
        line: 1,
        kind: Kind::Module(&module.body),
        is_test: false,
        never_awaited: false,
        condition: None,
    });
    let module_is_off = is_off(&module.body);
    reader.read(&module.body, "", !module_is_off, false, None);
    let gone = taken_away(module);
    let mut seen = BTreeSet::new();
    let is_replaced = |at: usize, name: &str| {
        name.match_indices('.').any(|(end, _)| reader.defined_at.get(&name[..end]).is_some_and(|defined| *defined > at))
    };
    let kept = reader.blocks.into_iter().enumerate().filter(|(at, block)| !is_replaced(*at, &block.name)).map(|(_, block)| block);
    let mut last_of_each: Vec<Block<'_>> =
        kept.collect::<Vec<_>>().into_iter().rev().filter(|block| seen.insert(block.name.clone())).collect();
    last_of_each.reverse();
    for block in &mut last_of_each {
        let is_taken = |name: &str| gone.contains(name);
        block.is_test &= !is_taken(&block.name) && !block.name.match_indices('.').any(|(end, _)| is_taken(&block.name[..end]));
    }
    last_of_each
}

struct Reader<'a, 't> {
    module: &'a Module,
    tests: &'t TestNames,
    blocks: Vec<Block<'a>>,
    /// How many blocks were read before the last class of each name: those inside an earlier one are gone with it.
    defined_at: BTreeMap<String, usize>,
    async_is_run: bool,
    /// Whether the place is in a class that is derived from another one, as those of unittest are.
    in_case: bool,
}

impl<'a> Reader<'a, '_> {
    fn read(&mut self, body: &'a [Stmt], outer: &str, collected: bool, awaits: bool, condition: Option<u64>) {
        let names = &self.module.names;
        for stmt in body {
            match stmt {
                Stmt::FunctionDef(function) => self.function(function, outer, collected, awaits, condition),
                Stmt::ClassDef(class) => self.class(class, outer, collected, condition),
                Stmt::If(of) => {
                    let here = if always(&of.test, names) || leaves_out_others(&of.test, names) { condition } else { Some(key(&of.test)) };
                    self.read(&of.body, outer, collected && !never(&of.test, names), awaits, here);
                    for clause in &of.elif_else_clauses {
                        self.read(&clause.body, outer, collected && !always(&of.test, names), awaits, Some(key(&of.test)));
                    }
                }
                other => {
                    for stmt in statements(std::slice::from_ref(other)).into_iter().skip(1) {
                        if matches!(stmt, Stmt::FunctionDef(_) | Stmt::ClassDef(_)) {
                            self.read(std::slice::from_ref(stmt), outer, collected, awaits, condition);
                        }
                    }
                }
            }
        }
    }

    fn function(&mut self, function: &'a StmtFunctionDef, outer: &str, collected: bool, awaits: bool, condition: Option<u64>) {
        let names = &self.module.names;
        let hidden = function.decorator_list.iter().any(|decorator| {
            let full = names.full(&decorator.expression);
            matches!(
                last(full.trim_end_matches("()")),
                "fixture" | "yield_fixture" | "property" | "cached_property" | "contextmanager" | "overload" | "nottest"
            )
        });
        let marked = function.decorator_list.iter().any(|decorator| {
            let full = names.full(&decorator.expression);
            matches!(
                last(full.trim_end_matches("()")),
                "asyncio" | "anyio" | "trio" | "gen_test" | "inlineCallbacks" | "async_test" | "coroutine_test" | "given"
            )
        });
        self.blocks.push(Block {
            name: format!("{outer}{}", function.name),
            line: self.module.line(&function.name),
            kind: Kind::Function(function),
            is_test: collected && (self.tests.is_function(&function.name) || self.in_case && function.name.starts_with("test")) && !hidden,
            never_awaited: function.is_async && !marked && !awaits && !self.async_is_run,
            condition,
        });
    }

    fn class(&mut self, class: &'a StmtClassDef, outer: &str, collected: bool, condition: Option<u64>) {
        let names = &self.module.names;
        let bases: Vec<String> =
            class.arguments.as_ref().map(|arguments| arguments.args.iter().map(|base| names.full(base)).collect()).unwrap_or_default();
        let is_case = bases.iter().any(|base| base != "object");
        let made_by_itself = class
            .body
            .iter()
            .any(|stmt| matches!(stmt, Stmt::FunctionDef(method) if matches!(method.name.as_str(), "__init__" | "__new__")));
        let is_made_otherwise = bases.iter().any(|base| BUILT_IN.contains(&base.as_str()));
        let collects =
            collected && !is_made_otherwise && (is_case || self.tests.is_class(&class.name) && !made_by_itself) && !is_off(&class.body);
        let awaits = bases.iter().any(|base| base.to_lowercase().contains("async") || base.contains("AsyncHTTP") || base.contains("Aio"));
        let name = format!("{outer}{}", class.name);
        if !bases.contains(&name) {
            self.defined_at.insert(name.clone(), self.blocks.len());
        }
        self.blocks.push(Block {
            name: name.clone(),
            line: self.module.line(&class.name),
            kind: Kind::Class(class),
            is_test: false,
            never_awaited: false,
            condition,
        });
        let outside = std::mem::replace(&mut self.in_case, is_case);
        self.read(&class.body, &format!("{name}."), collects, awaits, condition);
        self.in_case = outside;
    }
}

/// Classes with a way of their own to be made: what is derived from them is not collected.
const BUILT_IN: &[&str] = &[
    "type",
    "dict",
    "list",
    "tuple",
    "set",
    "frozenset",
    "int",
    "float",
    "str",
    "bytes",
    "Exception",
    "BaseException",
    "enum.Enum",
    "typing.NamedTuple",
];

/// A condition that is false only on systems that tests rarely run on: `if sys.platform != "win32"`.
pub(super) fn leaves_out_others(test: &Expr, names: &Names) -> bool {
    match test {
        Expr::UnaryOp(of) => of.op == UnaryOp::Not && asks_for_platform(&of.operand, names),
        Expr::Compare(of) if of.ops[..] == [CmpOp::NotEq] => {
            let mut equal = of.clone();
            equal.ops = Box::new([CmpOp::Eq]);
            asks_for_platform(&Expr::Compare(equal), names)
        }
        Expr::Compare(of) if of.ops[..] == [CmpOp::GtE] => {
            let mut less = of.clone();
            less.ops = Box::new([CmpOp::Lt]);
            asks_for_platform(&Expr::Compare(less), names)
        }
        _ => false,
    }
}

/// Whether a body says `__test__ = False`.
fn is_off(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::Assign(of) if assigns(of, "__test__") && !matches!(&*of.value, Expr::BooleanLiteral(value) if value.value)))
}

fn assigns(of: &ruff_python_ast::StmtAssign, name: &str) -> bool {
    of.targets.iter().any(|target| matches!(target, Expr::Name(known) if known.id == name))
}

/// Whether coroutines of this file are run by themselves: it has tests that are coroutines and nothing that marks them one by one.
fn runs_coroutines(module: &Module) -> bool {
    module.text.contains("pytestmark")
        && (module.text.contains("mark.asyncio") || module.text.contains("mark.anyio") || module.text.contains("mark.trio"))
}

/// Names that the module defines and then deletes or gives to something else.
fn taken_away(module: &Module) -> BTreeSet<String> {
    let mut gone = BTreeSet::new();
    collect_taken(&module.body, "", module, &mut gone);
    gone.extend(bound_after(module));
    gone
}

/// Functions and classes of a module whose names something else is bound to after them: by `except … as`, `match`, `:=`, or in a function by `global`.
fn bound_after(module: &Module) -> BTreeSet<String> {
    let mut defined: BTreeMap<String, u64> = BTreeMap::new();
    for stmt in statements(&module.body) {
        match stmt {
            Stmt::FunctionDef(of) => drop(defined.insert(of.name.to_string(), module.line(&of.name))),
            Stmt::ClassDef(of) => drop(defined.insert(of.name.to_string(), module.line(&of.name))),
            _ => {}
        }
    }
    let mut bound = BTreeSet::new();
    each(&module.body, |path, node| {
        let is_local = path.iter().any(|node| {
            matches!(
                node,
                AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::StmtClassDef(_) | AnyNodeRef::ExprLambda(_) | AnyNodeRef::Comprehension(_)
            )
        });
        let name = match node {
            AnyNodeRef::ExprName(of) if !of.ctx.is_load() && !is_local => of.id.as_str(),
            AnyNodeRef::ExceptHandlerExceptHandler(of) if !is_local => of.name.as_ref().map_or("", |name| name.as_str()),
            AnyNodeRef::PatternMatchAs(of) if !is_local => of.name.as_ref().map_or("", |name| name.as_str()),
            AnyNodeRef::PatternMatchStar(of) if !is_local => of.name.as_ref().map_or("", |name| name.as_str()),
            AnyNodeRef::StmtGlobal(of) => return bound.extend(of.names.iter().map(|name| name.to_string())),
            _ => return,
        };
        if defined.get(name).is_some_and(|line| *line < module.line(&node)) {
            bound.insert(name.to_owned());
        }
    });
    bound
}

fn collect_taken(body: &[Stmt], outer: &str, module: &Module, gone: &mut BTreeSet<String>) {
    for stmt in statements(body) {
        let targets: Vec<&Expr> = match stmt {
            Stmt::Delete(of) => of.targets.iter().collect(),
            Stmt::Assign(of) => of.targets.iter().collect(),
            Stmt::AnnAssign(of) => vec![&of.target],
            Stmt::Expr(of) => {
                gone.extend(deleted_by_call(&of.value, &module.names).map(|name| format!("{outer}{name}")));
                continue;
            }
            Stmt::Import(of) => {
                gone.extend(of.names.iter().map(|alias| format!("{outer}{}", alias.asname.as_ref().unwrap_or(&alias.name))));
                continue;
            }
            Stmt::ImportFrom(of) => {
                gone.extend(of.names.iter().map(|alias| format!("{outer}{}", alias.asname.as_ref().unwrap_or(&alias.name))));
                continue;
            }
            Stmt::For(of) => vec![&of.target],
            Stmt::With(of) => of.items.iter().filter_map(|item| item.optional_vars.as_deref()).collect(),
            Stmt::FunctionDef(of) => {
                gone.remove(&format!("{outer}{}", of.name));
                continue;
            }
            Stmt::ClassDef(of) => {
                gone.remove(&format!("{outer}{}", of.name));
                collect_taken(&of.body, &format!("{outer}{}.", of.name), module, gone);
                continue;
            }
            _ => continue,
        };
        gone.extend(targets.into_iter().filter_map(|target| named(target, &module.names)).map(|name| format!("{outer}{name}")));
    }
}

/// `test_a`, `TestA.test_a`, `globals()["test_a"]`.
fn named(target: &Expr, names: &Names) -> Option<String> {
    match target {
        Expr::Name(name) => Some(name.id.to_string()),
        Expr::Attribute(of) if of.attr.as_str() == "__test__" => named(&of.value, names),
        Expr::Attribute(_) | Expr::Subscript(_) => Some(names.full(target)),
        Expr::Tuple(of) => of.elts.first().and_then(|first| named(first, names)),
        _ => None,
    }
}

/// `globals().pop("test_a")`, `delattr(TestA, "test_a")`.
fn deleted_by_call(expr: &Expr, names: &Names) -> Option<String> {
    if let Expr::Named(of) = expr {
        return named(&of.target, names);
    }
    let Expr::Call(call) = expr else { return None };
    let (first, second) = (call.arguments.args.first()?, call.arguments.args.get(1));
    match names.full(&call.func).as_str() {
        "globals.__dict__.pop" | "globals.__dict__.__delitem__" => names.text(first),
        "delattr" | "setattr" => Some(format!("{}.{}", names.full(first), names.text(second?)?)),
        _ => None,
    }
}
