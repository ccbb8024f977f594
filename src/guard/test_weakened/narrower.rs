//! What a test is asked of, and how: the rows of its parameters, the error that it awaits, the values that are drawn for it, the decorators around it.

use std::collections::BTreeSet;

use ruff_python_ast::{AnyNodeRef, Expr, ExprCall, Number, Stmt};

use super::assertions::key;
use super::inventory::Block;
use super::locals::statement;
use super::strength::is_wide_shape;
use crate::guard::python::place::last;
use crate::guard::python::{Module, Names, each};

/// A sentence on what is asked of fewer inputs, or less sharply; none where nothing is.
pub(super) fn narrower(old: &Block<'_>, before: &Module, new: &Block<'_>, after: &Module) -> Option<String> {
    let name = if new.name.is_empty() { "the module" } else { &new.name };
    let with_loops = loops(new) == loops(old);
    if cuts(new, after, with_loops) > cuts(old, before, with_loops) {
        return Some(format!("{name} goes through a part of its rows only"));
    }
    if let Some(why) = passes_rows_over(old, new) {
        return Some(format!("{name} {why}"));
    }
    if let Some(why) = awaits_less(&awaited(old, &before.names), &awaited(new, &after.names)) {
        return Some(format!("{name} {why}"));
    }
    draws_less(old, before, new, after).map(|why| format!("{name} {why}"))
}

/// How often the lists that a block goes through are cut: by a slice, a filter, a condition.
fn cuts(block: &Block<'_>, module: &Module, with_loops: bool) -> usize {
    let names = &module.names;
    let mut lists: Vec<&Expr> = Vec::new();
    for decorator in block.decorators() {
        if let Expr::Call(call) = &decorator.expression {
            let rows = match last(&names.full(&call.func)) {
                "parametrize" => call.arguments.find_argument_value("argvalues", 1),
                "fixture" => call.arguments.find_keyword("params").map(|keyword| &keyword.value),
                "data" | "expand" | "cases" => call.arguments.args.first(),
                _ => None,
            };
            lists.extend(rows);
        }
    }
    each(block.body(), |_, node| {
        if let AnyNodeRef::StmtFor(of) = node
            && with_loops
        {
            lists.push(&of.iter);
        }
    });
    let list_cuts: usize = lists.iter().map(|list| cuts_of(list, names)).sum();
    let used: BTreeSet<String> = lists.iter().flat_map(|list| names_in(list)).collect();
    list_cuts + if block.function().is_some() { changed_lists(module, &used) } else { 0 }
}

fn loops(block: &Block<'_>) -> usize {
    let mut loops = 0;
    each(block.body(), |_, node| loops += usize::from(matches!(node, AnyNodeRef::StmtFor(_))));
    loops
}

fn cuts_of(list: &Expr, names: &Names) -> usize {
    let mut cuts = 0;
    each(&[statement(list)], |_, node| {
        cuts += match node {
            AnyNodeRef::ExprSubscript(of) => usize::from(matches!(&*of.slice, Expr::Slice(_))),
            AnyNodeRef::Comprehension(of) => of.ifs.len(),
            AnyNodeRef::ExprBoolOp(_) => 1,
            AnyNodeRef::ExprCall(call) => usize::from(matches!(
                last(&names.full(&call.func)),
                "filter" | "islice" | "takewhile" | "dropwhile" | "filterfalse" | "compress" | "sample" | "next" | "nsmallest" | "nlargest"
            )),
            _ => 0,
        };
    });
    cuts
}

/// Whether the rows that a test still gets, or got, no longer reach what it asserts.
fn passes_rows_over(old: &Block<'_>, new: &Block<'_>) -> Option<&'static str> {
    let (was, is) = (parameter_names(old), parameter_names(new));
    if was.is_empty() {
        return None;
    }
    let function = new.function()?;
    let has_default =
        function.parameters.iter_non_variadic_params().any(|one| one.default.is_some() && was.contains(one.parameter.name.as_str()));
    if is.is_empty() && has_default {
        return Some("has one row where it had several");
    }
    let (mut used, mut set) = (BTreeSet::new(), false);
    each(new.body(), |_, node| {
        if let AnyNodeRef::ExprName(name) = node
            && is.contains(name.id.as_str())
        {
            if name.ctx.is_load() {
                used.insert(name.id.to_string());
            } else {
                set = true;
            }
        }
    });
    let mut used_before = BTreeSet::new();
    each(old.body(), |_, node| {
        if let AnyNodeRef::ExprName(name) = node
            && was.contains(name.id.as_str())
        {
            used_before.insert(name.id.to_string());
        }
    });
    let ignores = used_before.iter().any(|name| is.contains(name) && !used.contains(name));
    (ignores || set).then_some("does not use the rows that it gets")
}

/// The names that `parametrize` gives values to.
fn parameter_names(block: &Block<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for decorator in block.decorators() {
        if let Expr::Call(call) = &decorator.expression
            && matches!(&*call.func, Expr::Attribute(of) if of.attr.as_str() == "parametrize")
            && let Some(Expr::StringLiteral(text)) = call.arguments.find_argument_value("argnames", 0)
        {
            names.extend(text.value.to_str().split(',').map(|name| name.trim().to_owned()));
        }
    }
    names
}

fn names_in(list: &Expr) -> Vec<String> {
    let mut found = Vec::new();
    each(&[statement(list)], |_, node| {
        if let AnyNodeRef::ExprName(name) = node {
            found.push(name.id.to_string());
        }
    });
    found
}

/// How often a module takes something away from one of these lists: `ROWS.pop()`, `del ROWS[0]`, `ROWS = ROWS[1:]`.
fn changed_lists(module: &Module, lists: &BTreeSet<String>) -> usize {
    let is_list = |expr: &Expr| matches!(expr, Expr::Name(name) if lists.contains(name.id.as_str()));
    let is_part = |expr: &Expr| matches!(expr, Expr::Subscript(of) if is_list(&of.value));
    let takes = |stmt: &Stmt| match stmt {
        Stmt::Delete(of) => of.targets.iter().any(is_part),
        Stmt::Assign(of) => of.targets.iter().any(is_part) || of.targets.iter().any(is_list) && cuts_of(&of.value, &module.names) > 0,
        Stmt::Expr(of) => matches!(&*of.value, Expr::Call(call) if matches!(&*call.func, Expr::Attribute(method)
            if is_list(&method.value) && matches!(method.attr.as_str(), "pop" | "clear" | "remove" | "__delitem__"))),
        _ => false,
    };
    crate::guard::python::statements(&module.body).into_iter().filter(|stmt| takes(stmt)).count()
}

/// An awaited error: its types, the words that it must have, and what is done to get it.
struct Awaited {
    kinds: BTreeSet<String>,
    shape: Option<String>,
    statements: usize,
    raises_itself: bool,
}

fn awaited(block: &Block<'_>, names: &Names) -> Vec<Awaited> {
    let mut found = Vec::new();
    each(block.body(), |path, node| {
        let AnyNodeRef::ExprCall(call) = node else { return };
        let name = names.full(&call.func);
        if !matches!(last(&name), "raises" | "assertRaises" | "assertRaisesRegex" | "warns" | "assertWarns") {
            return;
        }
        let with = path.iter().rev().find_map(|node| if let AnyNodeRef::StmtWith(with) = node { Some(*with) } else { None });
        let with = with.filter(|_| matches!(path.last(), Some(AnyNodeRef::WithItem(_))));
        let shape = call.arguments.find_keyword("match").map(|keyword| &keyword.value);
        let shape = shape.or_else(|| call.arguments.args.get(1).filter(|_| last(&name) == "assertRaisesRegex"));
        let mut kinds = BTreeSet::new();
        if let Some(kind) = call.arguments.args.first() {
            collect_kinds(kind, names, &mut kinds);
        }
        found.push(Awaited {
            kinds,
            shape: shape.map(|shape| {
                names.text(shape).unwrap_or_else(|| if shape.is_none_literal_expr() { String::new() } else { "?..?".to_owned() })
            }),
            statements: with.map_or(1, |with| with.body.len()),
            raises_itself: with.is_some_and(|with| with.body.iter().any(|stmt| matches!(stmt, Stmt::Raise(_)))),
        });
    });
    found
}

fn collect_kinds(kind: &Expr, names: &Names, kinds: &mut BTreeSet<String>) {
    match kind {
        Expr::Tuple(of) => of.elts.iter().for_each(|one| collect_kinds(one, names, kinds)),
        one => {
            kinds.insert(names.full(one));
        }
    }
}

fn awaits_less(old: &[Awaited], new: &[Awaited]) -> Option<&'static str> {
    const ALL: [&str; 3] = ["Exception", "BaseException", "Warning"];
    if old.len() != new.len() {
        return None;
    }
    let has_all = |kinds: &BTreeSet<String>| ALL.iter().any(|all| kinds.contains(*all));
    for (old, new) in old.iter().zip(new) {
        let wider = new.kinds.len() > old.kinds.len() && old.kinds.is_subset(&new.kinds);
        if has_all(&new.kinds) && !has_all(&old.kinds) || wider {
            return Some("awaits any of more errors than before");
        }
        if new.raises_itself && !old.raises_itself {
            return Some("raises the error that it awaits by itself");
        }
        if new.statements > old.statements && new.kinds == old.kinds {
            return Some("does more where it awaits an error, so another line may be the one that raises it");
        }
        if let Some(shape) = &old.shape {
            let choices = |shape: &str| shape.matches('|').count();
            let is_wide = |shape: &str| is_wide_shape(shape) && shape != "?..?";
            let looser = new.shape.as_deref().is_none_or(|new| is_wide(new) && !is_wide(shape) || choices(new) > choices(shape));
            if looser && new.kinds.is_superset(&old.kinds) {
                return Some("accepts more messages of the error than before");
            }
        }
    }
    None
}

/// What Hypothesis is told for a test.
fn draws_less(old: &Block<'_>, before: &Module, new: &Block<'_>, after: &Module) -> Option<&'static str> {
    let (was, is) = (drawn(old, &before.names), drawn(new, &after.names));
    if !was.given {
        return None;
    }
    if !is.given {
        return Some("no longer draws its values");
    }
    if is.examples < was.examples {
        return Some("has fewer examples of its own");
    }
    if is.most < was.most {
        return Some("tries fewer values than before");
    }
    if is.bounds > was.bounds {
        return Some("draws from fewer values than before");
    }
    (is.assumes > was.assumes).then_some("passes over more of the values that are drawn")
}

struct Drawn {
    given: bool,
    examples: usize,
    most: u64,
    bounds: usize,
    assumes: usize,
}

fn drawn(block: &Block<'_>, names: &Names) -> Drawn {
    let mut drawn = Drawn { given: false, examples: 0, most: 100, bounds: 0, assumes: 0 };
    for decorator in block.decorators() {
        let Expr::Call(call) = &decorator.expression else { continue };
        match last(&names.full(&call.func)) {
            "given" => {
                drawn.given = true;
                drawn.bounds += bounds(call, names);
            }
            "example" => drawn.examples += 1,
            "settings" => {
                drawn.bounds += ["phases", "stateful_step_count"].iter().filter(|key| call.arguments.find_keyword(key).is_some()).count();
                let most = call.arguments.find_keyword("max_examples").and_then(|keyword| int(&keyword.value));
                drawn.most = most.unwrap_or(drawn.most);
            }
            _ => {}
        }
    }
    each(block.body(), |_, node| {
        if let AnyNodeRef::ExprCall(call) = node {
            drawn.assumes +=
                usize::from(matches!(names.full(&call.func).as_str(), "hypothesis.assume" | "hypothesis.reject" | "assume" | "reject"));
        }
    });
    drawn
}

fn int(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::NumberLiteral(of) => match &of.value {
            Number::Int(int) => int.as_u64(),
            _ => None,
        },
        _ => None,
    }
}

fn bounds(call: &ExprCall, names: &Names) -> usize {
    let mut bounds = 0;
    each(&[statement(&Expr::Call(call.clone()))], |_, node| {
        if let AnyNodeRef::ExprCall(inner) = node {
            let full = names.full(&inner.func);
            bounds += usize::from(matches!(last(&full), "just" | "nothing" | "filter" | "none"));
            bounds += ["min_value", "max_value", "max_size", "allow_nan", "alphabet"]
                .iter()
                .filter(|key| inner.arguments.find_keyword(key).is_some())
                .count();
        }
    });
    bounds
}

/// A decorator that is new around a test and does not call it, as far as the patch shows; its name.
pub(super) fn hiding_decorator(old: &Block<'_>, new: &Block<'_>, module: &Module, others: &[&Module]) -> Option<String> {
    const HARMLESS: [&str; 3] = ["property", "staticmethod", "classmethod"];
    const BUILT_IN: [&str; 12] = ["print", "id", "len", "repr", "str", "bool", "list", "type", "hash", "callable", "dir", "vars"];
    let known: BTreeSet<u64> = old.decorators().iter().map(|decorator| key(&decorator.expression)).collect();
    for decorator in new.decorators().iter().filter(|decorator| !known.contains(&key(&decorator.expression))) {
        let expr = if let Expr::Call(call) = &decorator.expression { &call.func } else { &decorator.expression };
        let full = module.names.full(expr);
        if full.contains('?')
            || full.starts_with("type")
            || full.contains("__getattr")
            || matches!(expr, Expr::Lambda(_) | Expr::Subscript(_))
        {
            return Some("something without a name".to_owned());
        }
        let name = last(&full);
        if HARMLESS.contains(&name) {
            continue;
        }
        let definition = std::iter::once(module).chain(others.iter().copied()).find_map(|module| function_of(module, name));
        if BUILT_IN.contains(&full.as_str()) || definition.is_some_and(|function| !calls_what_it_is_given(function)) {
            return Some(name.to_owned());
        }
    }
    None
}

fn function_of<'a>(module: &'a Module, name: &str) -> Option<&'a ruff_python_ast::StmtFunctionDef> {
    crate::guard::python::statements(&module.body).into_iter().find_map(|stmt| match stmt {
        Stmt::FunctionDef(function) if function.name.as_str() == name => Some(function),
        _ => None,
    })
}

fn calls_what_it_is_given(function: &ruff_python_ast::StmtFunctionDef) -> bool {
    let mut given: BTreeSet<String> = function.parameters.iter().map(|parameter| parameter.name().to_string()).collect();
    let mut calls = false;
    each(&function.body, |_, node| match node {
        AnyNodeRef::StmtFunctionDef(inner) => given.extend(inner.parameters.iter().map(|parameter| parameter.name().to_string())),
        AnyNodeRef::ExprCall(call) => {
            let is_given = |expr: &Expr| matches!(expr, Expr::Name(name) if given.contains(name.id.as_str()));
            calls |= is_given(&call.func) || call.arguments.args.iter().any(|arg| matches!(arg, Expr::Starred(_)) || is_given(arg));
        }
        _ => {}
    });
    calls
}
