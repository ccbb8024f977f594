//! What leaves a test out, or lets it fail.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{AnyNodeRef, BoolOp, CmpOp, Expr, Stmt};

use super::assertions::key;
use super::inventory::{Block, Kind};
use crate::guard::python::place::last;
use crate::guard::python::{Module, Names, each};

/// Something in a block that skips.
pub(super) struct Skip {
    /// Equal for the same program.
    pub(super) key: u64,
    pub(super) word: String,
    /// Whether it skips only on systems where these tests are rarely judged.
    pub(super) is_of_platform: bool,
}

pub(super) fn is_skip(word: &str) -> bool {
    matches!(
        word,
        "skip"
            | "skipif"
            | "skipIf"
            | "skipUnless"
            | "skipTest"
            | "SkipTest"
            | "Skipped"
            | "xfail"
            | "expectedFailure"
            | "importorskip"
            | "skip_if"
            | "skip_unless"
            | "XFailed"
            | "expected_failure"
            | "skipped"
            | "flaky"
            | "nottest"
            | "knownfail"
    )
}

/// Names of the module that skip whoever uses them: marks, tables of parameters, helpers, fixtures.
pub(super) fn names_that_skip(module: &Module) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for stmt in crate::guard::python::statements(&module.body) {
        let (names, holder): (Vec<String>, &[Stmt]) = match stmt {
            Stmt::Assign(of) => (
                of.targets
                    .iter()
                    .filter_map(|target| if let Expr::Name(name) = target { Some(name.id.to_string()) } else { None })
                    .collect(),
                std::slice::from_ref(stmt),
            ),
            Stmt::FunctionDef(of) if !of.name.starts_with("test") => (vec![of.name.to_string()], &of.body),
            _ => continue,
        };
        if !skipping_words(holder, &module.names).is_empty() {
            found.extend(names);
        }
    }
    found.remove("pytestmark");
    found
}

fn skipping_words(body: &[Stmt], names: &Names) -> Vec<String> {
    let mut words = Vec::new();
    each(body, |_, node| words.extend(word(node, names)));
    words
}

/// The skipping word of a node, however it is spelled.
fn word(node: AnyNodeRef<'_>, names: &Names) -> Option<String> {
    let full = match node {
        AnyNodeRef::ExprName(of) => names.full_ref(of.into()),
        AnyNodeRef::ExprAttribute(of) => of.attr.to_string(),
        AnyNodeRef::ExprCall(of) if !of.arguments.is_empty() => {
            let full = names.full_ref(of.into());
            if full.ends_with("()") { return None } else { full }
        }
        _ => return None,
    };
    is_skip(last(&full)).then(|| last(&full).to_owned())
}

/// Those of a block, its decorators and its parameters.
pub(super) fn of(block: &Block<'_>, module: &Module, skipping: &BTreeSet<String>) -> Vec<Skip> {
    let names = &module.names;
    let mut found = BTreeMap::new();
    for decorator in block.decorators() {
        let expr = &decorator.expression;
        let stmt = [Stmt::Expr(ruff_python_ast::StmtExpr {
            node_index: Default::default(),
            range: Default::default(),
            value: Box::new(expr.clone()),
        })];
        let said = skipping_words(&stmt, names).into_iter().next().or_else(|| uses(&stmt, skipping));
        if let Some(word) = said {
            found.insert(key(expr), Skip { key: key(expr), word, is_of_platform: is_of_platform(expr, names) });
        }
    }
    if let Kind::Function(function) = block.kind {
        for parameter in function.parameters.iter().filter(|parameter| skipping.contains(parameter.name().as_str()) && block.is_test) {
            let name = parameter.name().to_string();
            let mark = name.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
            found.insert(mark, Skip { key: mark, word: name, is_of_platform: false });
        }
    }
    each(block.body(), |path, node| {
        let inside_another = !matches!(block.kind, Kind::Function(_))
            && path.iter().any(|node| matches!(node, AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::StmtClassDef(_)));
        let defines_a_name =
            !matches!(block.kind, Kind::Function(_)) && path.iter().any(|node| matches!(node, AnyNodeRef::StmtAssign(of) if !is_mark(of)));
        let imports = path.iter().any(|node| matches!(node, AnyNodeRef::StmtImportFrom(_) | AnyNodeRef::StmtImport(_)));
        let is_caught_type = path.iter().any(|node| matches!(node, AnyNodeRef::ExceptHandlerExceptHandler(_)))
            && !path.iter().any(|node| matches!(node, AnyNodeRef::StmtRaise(_) | AnyNodeRef::StmtExpr(_)));
        if inside_another || defines_a_name && !matches!(node, AnyNodeRef::ExprCall(_)) || imports || is_caught_type {
            return;
        }
        let used = if let AnyNodeRef::ExprName(name) = node {
            Some(name.id.to_string()).filter(|name| skipping.contains(name) && matches!(block.kind, Kind::Function(_)))
        } else {
            None
        };
        let assigns_importorskip = matches!(node, AnyNodeRef::ExprCall(_)) && defines_a_name;
        let said = if assigns_importorskip { importorskip(node, names) } else { word(node, names).or(used) };
        if let Some(word) = said {
            let around = path
                .iter()
                .rev()
                .find_map(|node| if let AnyNodeRef::ExprCall(call) = node { Some(Expr::Call((*call).clone())) } else { None });
            let mark = around.as_ref().map_or(word.len() as u64, key);
            let condition = path.iter().rev().find_map(|node| if let AnyNodeRef::StmtIf(of) = node { Some(&*of.test) } else { None });
            let is_of_platform =
                condition.is_some_and(|test| asks_for_platform(test, names)) || around.is_some_and(|call| is_of_platform(&call, names));
            found.insert(mark, Skip { key: mark, word, is_of_platform });
        }
    });
    found.into_values().collect()
}

fn is_mark(of: &ruff_python_ast::StmtAssign) -> bool {
    of.targets.iter().any(|target| {
        !matches!(target, Expr::Name(_))
            || matches!(target, Expr::Name(name) if matches!(name.id.as_str(), "pytestmark" | "collect_ignore" | "collect_ignore_glob"))
    })
}

/// `yaml = pytest.importorskip("yaml")` skips the whole file, though it defines a name.
fn importorskip(node: AnyNodeRef<'_>, names: &Names) -> Option<String> {
    let AnyNodeRef::ExprCall(call) = node else { return None };
    (last(&names.full(&call.func)) == "importorskip").then(|| "importorskip".to_owned())
}

fn uses(stmt: &[Stmt], skipping: &BTreeSet<String>) -> Option<String> {
    let mut found = None;
    each(stmt, |_, node| {
        let name = match node {
            AnyNodeRef::ExprName(of) => of.id.to_string(),
            AnyNodeRef::ExprStringLiteral(of) => of.value.to_str().to_owned(),
            _ => return,
        };
        if skipping.contains(&name) {
            found = Some(name);
        }
    });
    found
}

/// `skipif(sys.platform == "win32", …)`.
fn is_of_platform(expr: &Expr, names: &Names) -> bool {
    let Expr::Call(call) = expr else { return false };
    matches!(last(&names.full(&call.func)), "skipif" | "skipIf")
        && call.arguments.args.first().is_some_and(|test| asks_for_platform(test, names))
}

/// Whether a condition holds only on a system that is not the one of most servers, or with a Python that is no longer supported.
pub(super) fn asks_for_platform(test: &Expr, names: &Names) -> bool {
    const OTHERS: &[&str] =
        &["win32", "nt", "cygwin", "darwin", "windows", "java", "emscripten", "wasi", "win", "pypy", "aix", "ios", "android"];
    let named = |expr: &Expr| {
        matches!(
            names.full(expr).as_str(),
            "sys.platform" | "os.name" | "platform.system()" | "sys.implementation.name" | "platform.python_implementation()"
        )
    };
    match test {
        Expr::BoolOp(of) if of.op == BoolOp::Or => of.values.iter().all(|value| asks_for_platform(value, names)),
        Expr::BoolOp(of) => of.values.iter().any(|value| asks_for_platform(value, names)),
        Expr::Compare(of) if of.ops.len() == 1 => match of.ops[0] {
            CmpOp::Eq => {
                named(&of.left) && names.text(&of.comparators[0]).is_some_and(|text| OTHERS.contains(&text.to_lowercase().as_str()))
            }
            CmpOp::Lt => names.full(&of.left) == "sys.version_info" && is_old_version(&of.comparators[0]),
            _ => false,
        },
        Expr::Call(call) => {
            let full = names.full(&call.func);
            full == "sys.platform.startswith"
                && call.arguments.args.first().and_then(|arg| names.text(arg)).is_some_and(|text| OTHERS.contains(&text.as_str()))
        }
        Expr::StringLiteral(of) => OTHERS.iter().any(|name| {
            [format!("sys.platform == '{name}'"), format!("sys.platform == \"{name}\"")].contains(&of.value.to_str().to_owned())
        }),
        _ => false,
    }
}

fn is_old_version(expr: &Expr) -> bool {
    let Expr::Tuple(of) = expr else { return false };
    let number = |at: usize| {
        of.elts
            .get(at)
            .and_then(|part| if let Expr::NumberLiteral(of) = part { of.value.as_int().and_then(|int| int.as_u64()) } else { None })
    };
    number(0) == Some(3) && number(1).is_some_and(|minor| minor <= 9)
}
