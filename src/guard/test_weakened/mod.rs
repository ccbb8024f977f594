//! A test that is skipped, expected to fail, emptied, no longer collected or gone can't be red. What stood at base is watched; a new test may do as it
//! likes.
//!
//! What must hold: syntax trees are compared, not lines; an assertion that can't fail counts as none; a test may go where what it tests goes, or
//! where it went elsewhere with all that it asserts. A changed expectation is a flag, since only a person can tell.

mod assertions;
mod bent;
mod inventory;
mod locals;
mod moved;
mod narrower;
mod skips;
mod strength;
mod truths;

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{AnyNodeRef, Stmt};

use super::python::{Module, PythonFile, Role, each, fresh, statements};
use super::{Patch, dotted, of_file, test_configuration};
use crate::domain::{Finding, Severity};
use assertions::Assertion;
use inventory::{Block, Kind, blocks};
use moved::{Lost, explanation, gone_from_source};

pub(super) use locals::statement;
pub(super) use moved::is_collected_place;
pub(super) use strength::is_loose;
pub(super) use truths::{always as always_true, never as never_true};

pub(super) const RULE: &str = "test-weakened";

/// The name for a test that is elsewhere, or went with what it tested.
const MOVED: &str = "test-moved";

/// A file of tests, before and after.
struct Side<'p> {
    file: &'p PythonFile<'p>,
    before: Option<&'p Module>,
    after: Option<&'p Module>,
    blocks_before: Vec<Block<'p>>,
    blocks_after: Vec<Block<'p>>,
    /// New classes of the tests whose objects say themselves what they are equal to.
    equal: BTreeSet<String>,
    /// Functions of the file that assert for others.
    helpers_before: BTreeSet<String>,
    helpers_after: BTreeSet<String>,
}

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let sides = sides(patch);
    let gone = gone_from_source(patch);
    let deselecting = test_configuration::choosing_words(patch);
    let mut findings = fresh(patch, RULE, bent::facts);
    for side in sides.iter().filter(|side| side.after.is_some()) {
        findings.extend(weaker_blocks(side, &sides, &gone, &deselecting));
        findings.extend(lost_tests(side).into_iter().map(|lost| match explanation(&lost, &sides, &gone, patch) {
            Some(why) => of_file(MOVED, Severity::Flag, side.file.file, None, why),
            None => of_file(
                RULE,
                Severity::Refuse,
                side.file.file,
                None,
                format!("the test {} is gone, or no longer collected", lost.block.name),
            ),
        }));
    }
    Ok(findings)
}

/// The tests of base that are gone for a reason, dotted.
pub(super) fn gone(patch: &Patch<'_>) -> Vec<String> {
    let (sides, gone) = (sides(patch), gone_from_source(patch));
    let lost = sides.iter().flat_map(lost_tests);
    let explained = lost.filter(|lost| explanation(lost, &sides, &gone, patch).is_some());
    explained.map(|lost| dotted(&lost.side.file.file.path, &lost.block.name)).collect()
}

/// The first test of a deleted file that is nowhere else; none where all of them are explained. The sentence says which.
pub(super) fn unexplained(patch: &Patch<'_>, path: &[u8]) -> Option<String> {
    let (sides, gone) = (sides(patch), gone_from_source(patch));
    let side = sides.iter().find(|side| side.file.file.path == path)?;
    let lost = lost_tests(side).into_iter().find(|lost| explanation(lost, &sides, &gone, patch).is_none())?;
    Some(format!("the test {} is nowhere else", lost.block.name))
}

/// Whether a deleted file is Python with tests in it.
pub(super) fn has_tests(patch: &Patch<'_>, path: &[u8]) -> bool {
    let file = patch.python.iter().find(|file| file.file.path == path);
    file.and_then(|file| file.before.module()).is_some_and(|module| blocks(module, &patch.tests).iter().any(|block| block.is_test))
}

fn sides<'p>(patch: &'p Patch<'_>) -> Vec<Side<'p>> {
    let of_tests = || patch.python.iter().filter(|file| file.role.is_of_tests());
    let mut equal = BTreeSet::new();
    for file in of_tests() {
        let known = file.before.module().map(classes_with_equality).unwrap_or_default();
        equal.extend(file.after.module().map(classes_with_equality).unwrap_or_default().difference(&known).cloned());
    }
    let side = |file: &'p PythonFile<'p>| {
        let (before, after) = (file.before.module(), file.after.module());
        let blocks_of = |module: Option<&'p Module>| module.map(|module| blocks(module, &patch.tests)).unwrap_or_default();
        let (blocks_before, blocks_after) = (blocks_of(before), blocks_of(after));
        let helpers_before = before.map(|module| assertions::helpers(&blocks_before, module, &BTreeSet::new())).unwrap_or_default();
        let helpers_after = after.map(|module| assertions::helpers(&blocks_after, module, &equal)).unwrap_or_default();
        Side { file, before, after, blocks_before, blocks_after, equal: equal.clone(), helpers_before, helpers_after }
    };
    of_tests().map(side).collect()
}

fn classes_with_equality(module: &Module) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    each(&module.body, |_, node| {
        if let AnyNodeRef::StmtClassDef(class) = node {
            let has = |name: &str| class.body.iter().any(|stmt| matches!(stmt, Stmt::FunctionDef(method) if method.name.as_str() == name));
            if has("__eq__") || has("__ne__") || has("__contains__") {
                found.insert(class.name.to_string());
            }
        }
    });
    found
}

fn lost_tests<'p>(side: &'p Side<'p>) -> Vec<Lost<'p>> {
    let is_there = |old: &Block<'_>| {
        side.blocks_after
            .iter()
            .any(|block| block.is_test && block.name == old.name && (block.condition.is_none() || block.condition == old.condition))
    };
    side.blocks_before.iter().filter(|block| block.is_test && !is_there(block)).map(|block| Lost { side, block }).collect()
}

/// A mark that one side has and the other has not, of those by which the settings choose tests.
fn marked_otherwise(old: &Block<'_>, new: &Block<'_>, deselecting: &[String]) -> Option<String> {
    let words = |block: &Block<'_>| {
        let mut words = BTreeSet::new();
        for decorator in block.decorators() {
            let mut expr = &decorator.expression;
            if let ruff_python_ast::Expr::Call(call) = expr {
                expr = &call.func;
            }
            if let ruff_python_ast::Expr::Attribute(of) = expr {
                words.insert(of.attr.to_string());
            }
        }
        words
    };
    words(old).symmetric_difference(&words(new)).find(|word| deselecting.contains(word)).cloned()
}

fn weaker_blocks(side: &Side<'_>, sides: &[Side<'_>], gone: &BTreeSet<String>, deselecting: &[String]) -> Vec<Finding> {
    let Some(after) = side.after else { return Vec::new() };
    let was: BTreeMap<&str, &Block<'_>> = side.blocks_before.iter().map(|block| (block.name.as_str(), block)).collect();
    let skipping_before = side.before.map(skips::names_that_skip).unwrap_or_default();
    let mut skipping_after = skips::names_that_skip(after);
    let others: Vec<&Module> =
        sides.iter().filter(|other| other.file.file.path != side.file.file.path).filter_map(|other| other.after).collect();
    for other in &others {
        let skipping = skips::names_that_skip(other);
        skipping_after.extend(skipping.into_iter().filter(|name| after.names.is_alias_of(name)));
    }
    let mut findings = Vec::new();
    for block in &side.blocks_after {
        let old = was.get(block.name.as_str()).copied();
        let say = |severity, why: String| of_file(RULE, severity, side.file.file, Some(block.line), why);
        let old_skips: Vec<u64> = old
            .zip(side.before)
            .map(|(old, before)| skips::of(old, before, &skipping_before).iter().map(|skip| skip.key).collect())
            .unwrap_or_default();
        let is_free = old.is_none() && (block.is_test || !runs_unasked(block, side));
        let new_skip = skips::of(block, after, &skipping_after)
            .into_iter()
            .filter(|skip| !is_free && !old_skips.contains(&skip.key))
            .min_by_key(|skip| skip.is_of_platform);
        if let Some(skip) = new_skip {
            let severity = if skip.is_of_platform { Severity::Flag } else { Severity::Refuse };
            findings.push(say(severity, format!("{} uses {}, so it is left out or may fail", shown(block), skip.word)));
        }
        if let Some(mark) = old.filter(|_| !deselecting.is_empty()).and_then(|old| marked_otherwise(old, block, deselecting)) {
            findings.push(say(
                Severity::Refuse,
                format!("{} is marked otherwise than before with {mark}, by which the settings leave tests out", shown(block)),
            ));
        }
        if let Some((old, before)) = old.zip(side.before) {
            let narrower = (old.is_test || matches!(old.kind, Kind::Class(_)))
                .then(|| narrower::hiding_decorator(old, block, after, &others))
                .flatten();
            findings
                .extend(narrower.map(|name| say(Severity::Refuse, format!("{} is now inside {name}, which may not run it", shown(block)))));
            findings.extend(narrower::narrower(old, before, block, after).map(|why| say(Severity::Refuse, why)));
            findings.extend(weaker(old, before, block, after, side, gone).map(|(severity, why)| say(severity, why)));
        }
    }
    findings
}

/// Whether a new block acts on tests that do not ask for it: the module, a class of old, a method that runs before each test.
fn runs_unasked(block: &Block<'_>, side: &Side<'_>) -> bool {
    match block.kind {
        Kind::Module(_) => side.before.is_some() || side.file.role == Role::Support,
        Kind::Class(_) => false,
        Kind::Function(function) => {
            let name = function.name.as_str();
            let is_setup = name.starts_with("setUp")
                || name.starts_with("setup_")
                || name == "setup"
                || name.starts_with("asyncSetUp")
                || name.starts_with("teardown_")
                || name.starts_with("tearDown");
            let of_new_class =
                block.name.rsplit_once('.').is_some_and(|(class, _)| !side.blocks_before.iter().any(|known| known.name == class));
            is_setup && side.before.is_some() && !of_new_class
        }
    }
}

fn weaker(
    old: &Block<'_>,
    before: &Module,
    new: &Block<'_>,
    after: &Module,
    side: &Side<'_>,
    gone: &BTreeSet<String>,
) -> Option<(Severity, String)> {
    if !matches!(new.kind, Kind::Function(_)) {
        return None;
    }
    let had = assertions::live(old, before, &BTreeSet::new(), &side.helpers_before);
    let has = assertions::live(new, after, &side.equal, &side.helpers_after);
    let removed: Vec<&Assertion> = surplus(&had, &has);
    let added: Vec<&Assertion> = surplus(&has, &had);
    let returns = |block: &Block<'_>| statements(block.body()).into_iter().filter(|stmt| matches!(stmt, Stmt::Return(_))).count();
    if let Some(why) = asked_less_often(&had, &has) {
        return Some((Severity::Refuse, format!("{} {why}", shown(new))));
    }
    let passes_on =
        |block: &Block<'_>| statements(block.body()).into_iter().filter(|stmt| matches!(stmt, Stmt::Continue(_) | Stmt::Break(_))).count();
    if new.is_test && passes_on(new) > passes_on(old) && !had.is_empty() && added.is_empty() {
        return Some((Severity::Refuse, format!("{} passes over some of what it asserted before", shown(new))));
    }
    if let Some(name) = replaced(old, new, &has) {
        return Some((Severity::Refuse, format!("{} replaces {name}, which it asks", shown(new))));
    }
    if new.is_test && returns(new) > returns(old) && !had.is_empty() {
        return Some((Severity::Refuse, format!("{} may return before it has asserted anything", shown(new))));
    }
    let comparisons = |assertions: &[&Assertion]| {
        assertions.iter().filter(|assertion| assertion.compares && assertion.words.intersection(gone).next().is_none()).count()
    };
    if comparisons(&removed) > comparisons(&added) && removed.len() == added.len() {
        return Some((Severity::Refuse, format!("{} only asks whether there is something, where it compared before", shown(new))));
    }
    let exact = |assertions: &[&Assertion]| {
        assertions.iter().filter(|assertion| assertion.is_exact && assertion.words.intersection(gone).next().is_none()).count()
    };
    if exact(&removed) > exact(&added) && removed.len() <= added.len() {
        return Some((Severity::Refuse, format!("{} accepts more answers than before", shown(new))));
    }
    if removed.len() > added.len() {
        let missing = removed.iter().filter(|assertion| !is_explained(assertion, &added, &has, gone)).count();
        if !has.is_empty() && moved::became_rows(old, new) {
            return Some((Severity::Flag, format!("{} asks in rows what it asked one after the other", shown(new))));
        }
        let severity = if missing > added.len() || missing > 0 && added.is_empty() { Severity::Refuse } else { Severity::Flag };
        return Some((severity, format!("{} asserts {} things that can fail; before it was {}", shown(new), has.len(), had.len())));
    }
    (!removed.is_empty()).then(|| (Severity::Flag, format!("{} expects something else than before", shown(new))))
}

/// Whether an assertion that always ran is now made under a condition only.
fn asked_less_often(had: &[Assertion], has: &[Assertion]) -> Option<&'static str> {
    let free = |assertions: &[Assertion], key: u64| {
        assertions.iter().filter(|assertion| assertion.key == key && assertion.under.is_empty()).count()
    };
    let is_conditional = |new: &Assertion| !new.under.is_empty() && free(had, new.key) > free(has, new.key);
    has.iter().any(is_conditional).then_some("asserts under a condition what it always asserted before")
}

/// What a test calls in its assertions and gives another value to, where it did not before.
fn replaced(old: &Block<'_>, new: &Block<'_>, has: &[Assertion]) -> Option<String> {
    let set = |block: &Block<'_>| {
        let mut names = BTreeSet::new();
        for stmt in statements(block.body()) {
            let Stmt::Assign(of) = stmt else {
                names.extend(set_by_call(stmt));
                continue;
            };
            names.extend(
                of.targets
                    .iter()
                    .filter_map(|target| if let ruff_python_ast::Expr::Attribute(of) = target { Some(of.attr.to_string()) } else { None }),
            );
        }
        names
    };
    let new_names: Vec<String> = set(new).difference(&set(old)).cloned().collect();
    new_names.into_iter().find(|name| has.iter().any(|assertion| assertion.called.contains(name)))
}

/// `patch.setattr(Cart, "total", …)`.
fn set_by_call(stmt: &Stmt) -> Option<String> {
    let Stmt::Expr(of) = stmt else { return None };
    let ruff_python_ast::Expr::Call(call) = &*of.value else { return None };
    let is_set = match &*call.func {
        ruff_python_ast::Expr::Name(name) => name.id == "setattr",
        ruff_python_ast::Expr::Attribute(of) => of.attr.as_str() == "setattr",
        _ => false,
    };
    match call.arguments.args.get(1) {
        Some(ruff_python_ast::Expr::StringLiteral(name)) if is_set => Some(name.value.to_str().to_owned()),
        _ => None,
    }
}

/// Whether what an assertion looked at is gone from the source, or still looked at by another one.
fn is_explained(assertion: &Assertion, added: &[&Assertion], has: &[Assertion], gone: &BTreeSet<String>) -> bool {
    let still = |call: &u64| {
        added.iter().any(|other| other.calls.contains(call))
            || has.iter().any(|other| other.calls.contains(call) && added.iter().any(|new| new.key == other.key))
    };
    assertion.words.intersection(gone).next().is_some() || !assertion.calls.is_empty() && assertion.calls.iter().all(still)
}

fn surplus<'a>(of: &'a [Assertion], over: &[Assertion]) -> Vec<&'a Assertion> {
    let mut known: BTreeMap<u64, usize> = BTreeMap::new();
    for assertion in over {
        *known.entry(assertion.key).or_default() += 1;
    }
    of.iter()
        .filter(|assertion| match known.get_mut(&assertion.key) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        })
        .collect()
}

fn shown<'a>(block: &'a Block<'_>) -> &'a str {
    if block.name.is_empty() { "the module" } else { &block.name }
}
