//! A report that the project's own code writes is no report: JUnit files, lines that look like a runner's summary, floods that hide one.

use std::sync::LazyLock;

use regex::Regex;
use ruff_python_ast::{AnyNodeRef, Expr, Operator};

use super::Patch;
use super::python::place::runs_at_import;
use super::python::{Fact, Module, PythonFile, Role, each, fresh};
use crate::domain::Finding;
use crate::domain::Severity::{Flag, Refuse};

pub(super) const RULE: &str = "report-forged";

static SUMMARY: LazyLock<Result<Regex, regex::Error>> =
    LazyLock::new(|| Regex::new(r"(?i)\b\d+ passed\b|=+ .*\bpassed\b|\bRan \d+ tests?\b|\b(?:ok|passed) in [\d.]+ ?s"));

static JUNIT: LazyLock<Result<Regex, regex::Error>> =
    LazyLock::new(|| Regex::new(r"(?i)</?testsuites?\b|<testcase\b|junit[\w.-]*\.xml|\bxmlpath\b|\bjunit_?xml\b|lastfailed"));

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let (summary, junit) = (SUMMARY.as_ref().map_err(ToString::to_string)?, JUNIT.as_ref().map_err(ToString::to_string)?);
    Ok(fresh(patch, RULE, |file, module| facts(file, module, summary, junit)))
}

fn facts(file: &PythonFile<'_>, module: &Module, summary: &Regex, junit: &Regex) -> Vec<Fact> {
    let is_about_reports = file.before.module().is_some_and(|before| junit.is_match(&before.text));
    let mut facts = Vec::new();
    each(&module.body, |path, node| {
        let line = module.line(&node);
        let is_prose = matches!(path.last(), Some(AnyNodeRef::StmtExpr(_)));
        let text = match node {
            AnyNodeRef::ExprStringLiteral(of) if !is_prose => of.value.to_str().to_owned(),
            AnyNodeRef::InterpolatedStringLiteralElement(of) => of.value.to_string(),
            AnyNodeRef::ExprAttribute(of) if of.attr.as_str() == "xmlpath" => "xmlpath".to_owned(),
            AnyNodeRef::ExprBinOp(of) if of.op == Operator::Mult => {
                let huge = |side: &Expr| matches!(side, Expr::NumberLiteral(number) if number.value.as_int().is_some_and(|int| int.as_u64().is_none_or(|n| n >= 1_000_000)));
                let is_text = |side: &Expr| module.names.text(side).is_some();
                if huge(&of.left) && is_text(&of.right) || huge(&of.right) && is_text(&of.left) {
                    let severity = if runs_at_import(path) && file.role != Role::Tests { Refuse } else { Flag };
                    facts.push(Fact::new(severity, line, "flood", "a text of more than a million letters is made"));
                }
                return;
            }
            _ => return,
        };
        if junit.is_match(&text) && file.role != Role::Tests {
            let severity = if is_about_reports { Flag } else { Refuse };
            facts.push(Fact::new(severity, line, format!("junit:{text}"), "the code knows the file in which a runner reports"));
        }
        if summary.is_match(&text) && file.role != Role::Tests {
            facts.push(Fact::new(Refuse, line, format!("summary:{text}"), "the text looks like what a runner says at its end"));
        }
    });
    facts
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn reports_come_from_the_runner_alone() {
        for text in
            ["print('12 passed in 0.01s')", "open(config.option.xmlpath)", "double = '<testcase name=\"a\"/>'", "print('x' * 10000000)"]
        {
            assert_eq!(severities(check, &[changed("tests/conftest.py", None, Some(text))]), [Refuse], "{text}");
        }
        assert_eq!(severities(check, &[changed("tests/test_a.py", None, Some("x = 'x' * 10000000"))]), [Flag]);
        for text in ["assert lines == ['*1 passed*']", "x = 'y' * 10"] {
            assert!(severities(check, &[changed("tests/test_a.py", None, Some(text))]).is_empty(), "{text}");
        }
        let about = |more: &str| format!("def suite():\n    return '<testsuite>'\n{more}");
        assert_eq!(severities(check, &[changed("src/a.py", Some(&about("")), Some(&about("x = '<testcase>'\n")))]), [Flag]);
    }
}
