//! A patch that leaves every program as it was fixes nothing that a test could notice: what was judged is base itself.

use ruff_python_ast::{ExceptHandler, Expr, Stmt, Suite};

use super::python::{Module, same_body};
use super::{Blob, Patch, of_file};
use crate::domain::{BlobMode, ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "no-effect";

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let is_a_change = |file: &&ChangedFile| file.before != file.after;
    let Some(first) = patch.changed.iter().find(is_a_change) else { return Ok(Vec::new()) };
    let is_laid_out_anew = |file: &ChangedFile| only_white_space_differs(file) || is_same_program(file, patch);
    if patch.changed.iter().all(is_laid_out_anew) {
        return Ok(vec![of_file(RULE, Severity::Flag, first, None, "the patch changes layout, comments and docstrings alone")]);
    }
    if patch.changed.iter().all(|file| is_laid_out_anew(file) || patch.is_of_tests(&file.path) || is_document(&file.path)) {
        let why = "the patch changes tests, their settings, documents and comments alone, no program";
        return Ok(vec![of_file(RULE, Severity::Flag, first, None, why)]);
    }
    Ok(Vec::new())
}

fn only_white_space_differs(file: &ChangedFile) -> bool {
    fn inked(content: &[u8]) -> impl Iterator<Item = &u8> {
        content.iter().filter(|byte| !byte.is_ascii_whitespace())
    }
    let python = file.path.ends_with(b".py");
    match (&file.before, &file.after) {
        (Some(before), Some(after)) => before.0 == after.0 && (!python || before.1 == after.1) && inked(&before.1).eq(inked(&after.1)),
        (None, Some((BlobMode::File, after))) => inked(after).next().is_none(),
        _ => false,
    }
}

/// Whether both sides are the same program of Python, whatever its comments and docstrings say.
fn is_same_program(file: &ChangedFile, patch: &Patch<'_>) -> bool {
    let Some(python) = patch.python.iter().find(|python| python.file.path == file.path) else { return false };
    let mode = |blob: &Option<Blob>| blob.as_ref().map(|(mode, _)| *mode);
    let same = |before: &Module, after: &Module| same_body(&program(&before.body), &program(&after.body));
    mode(&file.before) == mode(&file.after)
        && python.before.module().zip(python.after.module()).is_some_and(|(before, after)| same(before, after))
}

/// The statements that do something.
fn program(body: &Suite) -> Suite {
    let mut body = body.clone();
    keep_what_acts(&mut body);
    body
}

fn keep_what_acts(body: &mut Suite) {
    let is_word =
        |expr: &Expr| matches!(expr, Expr::StringLiteral(_) | Expr::EllipsisLiteral(_) | Expr::NumberLiteral(_) | Expr::NoneLiteral(_));
    body.retain(|stmt| !matches!(stmt, Stmt::Pass(_)) && !matches!(stmt, Stmt::Expr(of) if is_word(&of.value)));
    for stmt in body {
        match stmt {
            Stmt::FunctionDef(of) => keep_what_acts(&mut of.body),
            Stmt::ClassDef(of) => keep_what_acts(&mut of.body),
            Stmt::With(of) => keep_what_acts(&mut of.body),
            Stmt::For(of) => [&mut of.body, &mut of.orelse].into_iter().for_each(keep_what_acts),
            Stmt::While(of) => [&mut of.body, &mut of.orelse].into_iter().for_each(keep_what_acts),
            Stmt::If(of) => {
                keep_what_acts(&mut of.body);
                of.elif_else_clauses.iter_mut().for_each(|clause| keep_what_acts(&mut clause.body));
            }
            Stmt::Match(of) => of.cases.iter_mut().for_each(|case| keep_what_acts(&mut case.body)),
            Stmt::Try(of) => {
                [&mut of.body, &mut of.orelse, &mut of.finalbody].into_iter().for_each(keep_what_acts);
                for ExceptHandler::ExceptHandler(handler) in &mut of.handlers {
                    keep_what_acts(&mut handler.body);
                }
            }
            _ => {}
        }
    }
}

/// What people read and no program does.
fn is_document(path: &[u8]) -> bool {
    const ENDINGS: [&[u8]; 4] = [b".md", b".rst", b".adoc", b".markdown"];
    const NAMES: [&[u8]; 9] =
        [b"readme", b"changelog", b"changes", b"license", b"licence", b"authors", b"contributors", b"news", b"history"];
    let path = path.to_ascii_lowercase();
    let stem = super::file_name(&path).split(|byte| *byte == b'.').next().unwrap_or_default().to_vec();
    ENDINGS.iter().any(|ending| path.ends_with(ending))
        || NAMES.contains(&stem.as_slice()) && !path.ends_with(b".py")
        || path.starts_with(b"docs/") && path.ends_with(b".txt")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::Flag;
    use crate::guard::tests::{changed, severities};

    const BASE: &str = "\"\"\"Old.\"\"\"\n\n\ndef f(a):\n    \"\"\"Says.\"\"\"\n    if a:\n        return [1, 2]\n    return a . b\n";

    #[test]
    fn layout_comments_and_docstrings_are_no_change_of_a_program() {
        for after in [
            "def f( a ):\n    # New.\n    if a:\n\n        return [\n            1,\n            2,\n        ]\n    return (a.b)\n",
            "\"\"\"New.\"\"\"\ndef f(a):\n    \"\"\"Says\n    more.\"\"\"\n    pass\n    if a:\n        'why'\n        return [1, 2]\n    return a.b\n",
        ] {
            assert_eq!(severities(check, &[changed("a.py", Some(BASE), Some(after))]), [Flag], "{after}");
        }
        for (from, to) in [
            ("[1, 2]", "[1, 3]"),
            ("    return a . b", "    return a"),
            ("if a:\n        return [1, 2]\n    ", "if a:\n        pass\n    "),
        ] {
            assert!(severities(check, &[changed("a.py", Some(BASE), Some(&BASE.replace(from, to)))]).is_empty(), "{to}");
        }
    }

    #[test]
    fn what_the_judge_puts_back_and_documents_are_no_program_either() {
        let source = changed("a.py", Some("x = 1\n"), Some("x = 2\n"));
        let beside = [
            changed("README.md", Some("a"), Some("b")),
            changed("tests/test_a.py", None, Some("def test_a():\n    assert f() == 1\n")),
            changed("pyproject.toml", Some("a"), Some("b")),
            changed("b.py", Some("x = 1\n"), Some("x = 1  # one\n")),
        ];
        assert_eq!(severities(check, &beside), [Flag]);
        for file in &beside {
            assert!(severities(check, &[file.clone(), source.clone()]).is_empty());
        }
        for other in ["requirements.txt", "data/names.csv", "a.js"] {
            assert!(severities(check, &[changed(other, Some("a"), Some("b"))]).is_empty(), "{other}");
        }
        assert!(severities(check, &[changed("new.py", None, Some("x = 1\n"))]).is_empty());
    }
}
