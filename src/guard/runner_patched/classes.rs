//! Classes of tests that answer for themselves: what is equal to everything, and what replaces a test case's own methods.

use ruff_python_ast::{Expr, Stmt, StmtClassDef, StmtFunctionDef};

use super::super::python::{Module, Role, statements};
use super::equality;
use crate::domain::Severity::{self, Refuse};

pub(super) fn weigh(class: &StmtClassDef, module: &Module, role: Role) -> Vec<(Severity, String, String)> {
    let names = &module.names;
    let mut found = Vec::new();
    found.extend(equality::blind(class, module).into_iter().map(|name| {
        (
            Refuse,
            format!("always:{}.{name}", class.name),
            format!("{}.{name} gives the same answer to everything, or does not look at both sides", class.name),
        )
    }));
    let methods = || class.body.iter().filter_map(|stmt| if let Stmt::FunctionDef(method) = stmt { Some(method) } else { None });
    let holds_tests = methods().any(|method| method.name.starts_with("test"));
    let is_case =
        class.arguments.as_ref().is_some_and(|arguments| arguments.args.iter().any(|base| names.full(base).ends_with("TestCase")));
    for method in methods() {
        let name = method.name.as_str();
        if matches!(name, "__eq__" | "__ne__" | "__bool__" | "__contains__")
            && answers_always(method)
            && role.is_of_tests()
            && !matches!(name, "__eq__" | "__ne__")
        {
            found.push((
                Refuse,
                format!("always:{}.{name}", class.name),
                format!("{}.{name} gives the same answer to everything", class.name),
            ));
        }
        if (holds_tests || is_case) && role.is_of_tests() && is_of_test_case(name) {
            found.push((
                Refuse,
                format!("case:{}.{name}", class.name),
                format!("{}.{name} replaces what a test case does by itself", class.name),
            ));
        }
    }
    let sets = |name: &str| {
        class.body.iter().any(|stmt| matches!(stmt, Stmt::Assign(of) if of.targets.iter().any(|target| matches!(target, Expr::Name(known) if known.id == name))))
    };
    if (holds_tests || is_case) && sets("failureException") {
        found.push((Refuse, "failureException".to_owned(), "failureException decides what counts as a failure".to_owned()));
    }
    let metaclass = class.arguments.as_ref().and_then(|arguments| arguments.find_keyword("metaclass"));
    if holds_tests && metaclass.is_some() {
        found.push((Refuse, format!("metaclass:{}", class.name), format!("a metaclass decides what {} holds", class.name)));
    }
    found
}

fn is_of_test_case(name: &str) -> bool {
    const ASSERTIONS: &[&str] = &[
        "assertEqual",
        "assertNotEqual",
        "assertTrue",
        "assertFalse",
        "assertIs",
        "assertIsNot",
        "assertIsNone",
        "assertIsNotNone",
        "assertIn",
        "assertNotIn",
        "assertIsInstance",
        "assertNotIsInstance",
        "assertRaises",
        "assertRaisesRegex",
        "assertWarns",
        "assertWarnsRegex",
        "assertLogs",
        "assertNoLogs",
        "assertAlmostEqual",
        "assertNotAlmostEqual",
        "assertGreater",
        "assertGreaterEqual",
        "assertLess",
        "assertLessEqual",
        "assertRegex",
        "assertNotRegex",
        "assertCountEqual",
        "assertMultiLineEqual",
        "assertSequenceEqual",
        "assertListEqual",
        "assertTupleEqual",
        "assertSetEqual",
        "assertDictEqual",
    ];
    const MACHINERY: &[&str] = &[
        "run",
        "debug",
        "__call__",
        "_callTestMethod",
        "_callSetUp",
        "_callTearDown",
        "fail",
        "skipTest",
        "_baseAssertEqual",
        "_getAssertEqualityFunc",
        "__getattribute__",
        "defaultTestResult",
        "countTestCases",
    ];
    ASSERTIONS.contains(&name) || MACHINERY.contains(&name)
}

/// Whether every way out of a function is the literal `True`.
fn answers_always(function: &StmtFunctionDef) -> bool {
    let returns: Vec<_> =
        statements(&function.body).into_iter().filter_map(|stmt| if let Stmt::Return(of) = stmt { Some(of) } else { None }).collect();
    let is_true = |value: &Expr| matches!(value, Expr::BooleanLiteral(of) if of.value);
    !returns.is_empty() && returns.iter().all(|of| of.value.as_deref().is_some_and(is_true))
}
