//! What tests put in the place of something answers to every question as it is asked. In the source it makes any test green, and no program right.

use ruff_python_ast::{AnyNodeRef, Stmt, StmtClassDef, StmtFunctionDef};

use super::Patch;
use super::python::place::last;
use super::python::{Fact, Module, Names, PythonFile, Role, each, fresh, statements};
use super::test_weakened::always_true;
use crate::domain::Finding;
use crate::domain::Severity::{Flag, Refuse};

pub(super) const RULE: &str = "stand-in";

/// Libraries of objects that stand in for others.
const LIBRARIES: &[&str] = &["unittest.mock", "mock", "asynctest.mock", "flexmock", "dirty_equals", "callee", "hamcrest", "testfixtures"];

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let findings = fresh(patch, RULE, |file, module| if file.role == Role::Source { facts(file, module) } else { Vec::new() });
    Ok(findings)
}

fn facts(file: &PythonFile<'_>, module: &Module) -> Vec<Fact> {
    let mut facts = Vec::new();
    let is_for_tests = is_for_tests(&file.file.path);
    each(&module.body, |path, node| {
        let full = match node {
            AnyNodeRef::ExprName(name) if name.ctx.is_load() && !matches!(path.last(), Some(AnyNodeRef::ExprAttribute(_))) => {
                module.names.full_ref(name.into())
            }
            AnyNodeRef::ExprAttribute(of) if !matches!(path.last(), Some(AnyNodeRef::ExprAttribute(_))) => module.names.full_ref(of.into()),
            AnyNodeRef::StmtClassDef(class) => return facts.extend(methods_that_agree(class, module)),
            _ => return,
        };
        let of_library = |library: &&&str| full.strip_prefix(**library).is_some_and(|rest| rest.starts_with('.'));
        if LIBRARIES.iter().any(|library| of_library(&library)) {
            let severity = if is_for_tests { Flag } else { Refuse };
            facts.push(Fact::new(
                severity,
                module.line(&node),
                full.clone(),
                format!("{full} stands in for values, and answers as it is asked"),
            ));
        }
    });
    facts
}

/// A module of the source that says by its name that it is for tests.
fn is_for_tests(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path).to_lowercase();
    let words = path.split(|c: char| !c.is_alphanumeric());
    words.into_iter().any(|word| {
        matches!(word, "testing" | "test" | "tests" | "testutils" | "mock" | "mocks" | "fake" | "fakes" | "fixtures" | "testkit")
    })
}

/// Methods beside `==` by which an object says yes to everything.
fn methods_that_agree(class: &StmtClassDef, module: &Module) -> Vec<Fact> {
    let methods = class.body.iter().filter_map(|stmt| if let Stmt::FunctionDef(method) = stmt { Some(method) } else { None });
    let agreeing = methods.filter(|method| {
        matches!(
            method.name.as_str(),
            "__contains__"
                | "__lt__"
                | "__le__"
                | "__gt__"
                | "__ge__"
                | "__bool__"
                | "__instancecheck__"
                | "__subclasscheck__"
                | "__getattr__"
        ) && agrees(method, &module.names)
    });
    agreeing
        .map(|method| {
            let name = format!("{}.{}", class.name, method.name);
            Fact::new(Flag, module.line(&method.name), format!("agrees:{name}"), format!("{name} gives the same answer to everything"))
        })
        .collect()
}

/// Whether every way out of a method is something that is true whatever the program does, or the object itself.
fn agrees(method: &StmtFunctionDef, names: &Names) -> bool {
    let returned: Vec<_> = statements(&method.body)
        .into_iter()
        .filter_map(|stmt| if let Stmt::Return(of) = stmt { of.value.as_deref() } else { None })
        .collect();
    let itself = |value| method.name.as_str() == "__getattr__" && last(&names.full(value)) == "self";
    !returned.is_empty()
        && returned.iter().all(|value| (method.name.as_str() != "__getattr__" && always_true(value, names)) || itself(value))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn stand_ins_have_no_place_in_the_source() {
        let weigh = |path: &str, text: &str| severities(check, &[changed(path, Some("x = 1\n"), Some(text))]);
        for text in [
            "from unittest.mock import ANY\ndef f():\n    return ANY\n",
            "from unittest import mock\ndef f():\n    return mock.ANY\n",
            "import unittest.mock as m\nx = m.MagicMock()\n",
            "from mock import Mock\nx = Mock(return_value=1)\n",
            "import importlib\nx = importlib.import_module('unittest.mock').ANY\n",
            "from dirty_equals import IsPositive\nx = IsPositive()\n",
        ] {
            assert_eq!(weigh("src/a.py", text), [Refuse], "{text}");
            assert!(weigh("tests/test_a.py", text).is_empty(), "{text}");
        }
        assert_eq!(weigh("src/shop/fakes.py", "from unittest import mock\nx = mock.Mock()\n"), [Flag]);
        for text in [
            "class A:\n    def __contains__(self, x):\n        return True\n",
            "class A:\n    def __bool__(self):\n        return 1\n",
            "class A:\n    def __getattr__(self, name):\n        return self\n",
        ] {
            assert_eq!(weigh("src/a.py", text), [Flag], "{text}");
        }
        for text in [
            "class A:\n    def __contains__(self, x):\n        return x in self.all\n",
            "class A:\n    def __bool__(self):\n        return bool(self.all)\n",
            "class A:\n    def __bool__(self):\n        return False\n",
            "mock = 1\nx = mock\n",
            "import mocking\nx = mocking.y\n",
        ] {
            assert!(weigh("src/a.py", text).is_empty(), "{text}");
        }
    }
}
