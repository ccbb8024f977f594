//! Where a test that is gone may have gone to.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{AnyNodeRef, Expr, Stmt};

use super::Side;
use super::assertions::{self, key};
use super::inventory::Block;
use crate::guard::python::{each, same_body};
use crate::guard::{Patch, folder, test_configuration};

/// A test that base had and the patched file has not, or no longer collects.
pub(super) struct Lost<'p> {
    pub(super) side: &'p Side<'p>,
    pub(super) block: &'p Block<'p>,
}

/// A sentence that explains why nothing is lost with a test; none where something is.
pub(super) fn explanation(lost: &Lost<'_>, sides: &[Side<'_>], gone: &BTreeSet<String>, patch: &Patch<'_>) -> Option<String> {
    let words = words(lost.block);
    if let Some(name) = words.intersection(gone).next() {
        return Some(format!("the test {} is gone together with {name} of the source", lost.block.name));
    }
    let (mine, literals) = (shape(lost.block), literals(lost.block));
    let asserted = assertions::live(lost.block, lost.side.before?, &BTreeSet::new(), &lost.side.helpers_before);
    let comparisons = |assertions: &[assertions::Assertion]| assertions.iter().filter(|assertion| assertion.compares).count();
    let needed = asserted.len();
    let twin = lost.side.blocks_after.iter().find(|block| {
        let stood = lost.side.blocks_before.iter().any(|known| known.name == block.name && known.is_test);
        block.is_test
            && stood
            && block.name != lost.block.name
            && block.condition == lost.block.condition
            && block.function().zip(lost.block.function()).is_some_and(|(one, other)| {
                same_body(&one.body, &other.body)
                    && one.decorator_list.len() == other.decorator_list.len()
                    && one.parameters.len() == other.parameters.len()
            })
    });
    if let Some(twin) = twin.filter(|_| lost.side.after.is_some() && needed > 0) {
        return Some(format!("the test {} is gone; {} asks the same", lost.block.name, twin.name));
    }
    for side in sides.iter().filter(|side| is_collected_place(&side.file.file.path, patch)) {
        let Some(after) = side.after else { continue };
        for block in side.blocks_after.iter().filter(|block| block.is_test && (is_new(block, side) || is_changed(block, side))) {
            let live = assertions::live(block, after, &side.equal, &side.helpers_after);
            let is_left_out = |path: &[u8], name: &str| test_configuration::deselects(patch, path, name);
            if is_left_out(&side.file.file.path, &block.name) && !is_left_out(&lost.side.file.file.path, &lost.block.name) {
                continue;
            }
            let compares = comparisons(&live) >= comparisons(&asserted);
            let live = live.len();
            let same = block.function().zip(lost.block.function()).is_some_and(|(one, other)| same_body(&one.body, &other.body));
            let alike = mine.intersection(&shape(block)).count() * 2 >= mine.len() && live >= needed && compares && is_new(block, side);
            let holds_rows =
                !literals.is_empty() && literals.is_subset(&self::literals(block)) && live > 0 && (compares || comparisons(&asserted) > 1);
            let replaces = is_new(block, side) && compares && live >= needed && is_wider(lost.block, block, &words);
            if live > 0 && (same || alike || holds_rows || replaces) || same && needed == 0 {
                return Some(format!(
                    "the test {} is now {} of {}",
                    lost.block.name,
                    block.name,
                    crate::guard::shown(&side.file.file.path)
                ));
            }
        }
    }
    None
}

/// Whether a test with parameters has the beginning of a lost test's name and most of its words: the same question, asked of more inputs.
fn is_wider(lost: &Block<'_>, new: &Block<'_>, lost_words: &BTreeSet<String>) -> bool {
    let parts = |block: &Block<'_>| block.name.split('_').take(3).map(str::to_owned).collect::<Vec<_>>();
    let has_rows = new.decorators().iter().any(|decorator| match &decorator.expression {
        Expr::Call(call) => {
            let name = if let Expr::Attribute(of) = &*call.func { of.attr.as_str() } else { "" };
            let rows = call.arguments.find_argument_value("argvalues", 1);
            let several = matches!(rows, Some(Expr::List(list)) if list.elts.len() > 1)
                || matches!(rows, Some(Expr::Tuple(list)) if list.elts.len() > 1);
            name == "parametrize" && several
        }
        _ => false,
    });
    let shared = lost_words.intersection(&words(new)).count();
    has_rows && parts(lost) == parts(new) && parts(lost).len() == 3 && shared * 10 >= lost_words.len() * 7
}

/// Whether a test now has as rows of parameters what it had as values in its assertions.
pub(super) fn became_rows(old: &Block<'_>, new: &Block<'_>) -> bool {
    let has_rows = |block: &Block<'_>| {
        block.decorators().iter().any(|decorator| {
            matches!(&decorator.expression, Expr::Call(call) if matches!(&*call.func, Expr::Attribute(of) if of.attr.as_str() == "parametrize"))
        })
    };
    let asked = literals(old);
    has_rows(new) && !has_rows(old) && !asked.is_empty() && asked.is_subset(&literals(new))
}

fn is_new(block: &Block<'_>, side: &Side<'_>) -> bool {
    !side.blocks_before.iter().any(|known| known.name == block.name && known.is_test)
}

fn is_changed(block: &Block<'_>, side: &Side<'_>) -> bool {
    let before = side.blocks_before.iter().find(|known| known.name == block.name);
    before
        .and_then(Block::function)
        .zip(block.function())
        .is_some_and(|(one, other)| !same_body(&one.body, &other.body) || one.decorator_list.len() != other.decorator_list.len())
}

/// Whether a runner that collected the tests of base finds a file at this place too.
pub(in crate::guard) fn is_collected_place(path: &[u8], patch: &Patch<'_>) -> bool {
    const PASSED_OVER: &[&[u8]] = &[b"build", b"dist", b"venv", b"node_modules", b"_darcs", b"CVS", b"attic", b"disabled"];
    let here = folder(path);
    let hidden =
        here.split(|byte| *byte == b'/').any(|part| part.starts_with(b".") || PASSED_OVER.contains(&part) || part.ends_with(b".egg"));
    let is_above = |top: &[u8]| top == here || here.strip_prefix(top).is_some_and(|rest| rest.starts_with(b"/") || top.is_empty());
    let beside = || patch.base.paths.iter().filter(|known| patch.tests.would_collect(known)).any(|known| is_above(top_of_tests(known)));
    patch.tests.would_collect(path) && !hidden && beside() && test_configuration::reaches(patch, path)
}

/// The highest folder that is one of tests, or the file's own.
fn top_of_tests(path: &[u8]) -> &[u8] {
    let mut at = 0;
    for part in folder(path).split(|byte| *byte == b'/') {
        at += part.len();
        if matches!(part, b"test" | b"tests" | b"testing") {
            return &path[..at];
        }
        at += 1;
    }
    folder(path)
}

/// The calls and comparisons of a block.
fn shape(block: &Block<'_>) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    each(block.body(), |_, node| match node {
        AnyNodeRef::ExprCall(call) if !call.arguments.is_empty() => {
            found.insert(key(&Expr::Call(call.clone())));
        }
        AnyNodeRef::StmtAssert(of) => {
            found.insert(key(&of.test));
        }
        _ => {}
    });
    found
}

/// The literals that a test is about, its rows of parameters included.
fn literals(block: &Block<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut look = |body: &[Stmt]| {
        each(body, |path, node| match node {
            AnyNodeRef::ExprStringLiteral(of) if !matches!(path.last(), Some(AnyNodeRef::StmtExpr(_))) => {
                found.insert(of.value.to_str().to_owned());
            }
            AnyNodeRef::ExprNumberLiteral(of) => {
                found.insert(format!("{:?}", of.value));
            }
            _ => {}
        });
    };
    look(block.body());
    for decorator in block.decorators() {
        let value = Box::new(decorator.expression.clone());
        look(&[Stmt::Expr(ruff_python_ast::StmtExpr { node_index: Default::default(), range: Default::default(), value })]);
    }
    found
}

fn words(block: &Block<'_>) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    each(block.body(), |_, node| {
        if let AnyNodeRef::ExprName(name) = node {
            words.insert(name.id.to_string());
        } else if let AnyNodeRef::ExprAttribute(of) = node {
            words.insert(of.attr.to_string());
        }
    });
    words
}

/// Names of functions and classes that the source had before and has nowhere in the changed files now.
pub(super) fn gone_from_source(patch: &Patch<'_>) -> BTreeSet<String> {
    let mut defined: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for file in patch.python.iter().filter(|file| !file.role.is_of_tests()) {
        for (module, is_before) in [(file.before.module(), true), (file.after.module(), false)] {
            let Some(module) = module else { continue };
            each(&module.body, |_, node| {
                let name = match node {
                    AnyNodeRef::StmtFunctionDef(of) => of.name.to_string(),
                    AnyNodeRef::StmtClassDef(of) => of.name.to_string(),
                    _ => return,
                };
                let seen = defined.entry(name).or_default();
                if is_before { seen.0 = true } else { seen.1 = true }
            });
        }
    }
    defined.into_iter().filter(|(name, (before, after))| *before && !*after && !name.starts_with("__")).map(|(name, _)| name).collect()
}
