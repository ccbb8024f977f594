//! A run that ends early has no red test: the process leaves, with status 0, before the runner has spoken.

use ruff_python_ast::{AnyNodeRef, Expr, ExprCall};

use super::Patch;
use super::python::place::{function, is_awaited, runs_at_import};
use super::python::{Fact, Module, Names, Path, PythonFile, Role, each, fresh};
use crate::domain::Finding;
use crate::domain::Severity::{Flag, Refuse};

pub(super) const RULE: &str = "early-exit";

/// What ends the process without asking anybody.
const AT_ONCE: &[&str] =
    &["os._exit", "_exit", "posix._exit", "os.abort", "posix.abort", "signal.raise_signal", "faulthandler._sigsegv", "ctypes.string_at"];
const OTHER_PROGRAM: &[&str] = &["os.execv", "os.execve", "os.execvp", "os.execvpe", "os.execl", "os.execle", "os.execlp", "os.execlpe"];
const OF_RUNNER: &[&str] = &["pytest.exit", "_pytest.outcomes.exit", "_pytest.outcomes.Exit", "pytest.exit.Exception"];
const POLITE: &[&str] = &["sys.exit", "exit", "quit", "SystemExit"];

/// What takes something from the whole process, the runner included.
const LIMITS: &[&str] = &["resource.setrlimit", "signal.alarm", "signal.setitimer", "os.close", "os.closerange", "os.dup2", "os.killpg"];

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    Ok(fresh(patch, RULE, facts))
}

fn facts(file: &PythonFile<'_>, module: &Module) -> Vec<Fact> {
    let mut facts = Vec::new();
    each(&module.body, |path, node| {
        if let AnyNodeRef::ExprStringLiteral(of) = node
            && of.value.to_str() == "_exit"
            && path.iter().any(|node| matches!(node, AnyNodeRef::ExprCall(call) if !is_replacing(call, &module.names)))
        {
            facts.push(Fact::new(Refuse, module.line(&node), "exit:_exit", "_exit is asked for by its name, and ends the process at once"));
        }
        if let AnyNodeRef::ExprCall(call) = node
            && matches!(module.names.full(&call.func).as_str(), "exec" | "eval")
            && call
                .arguments
                .args
                .first()
                .and_then(|code| module.names.text(code))
                .is_some_and(|code| code.contains("exit") || code.contains("SystemExit"))
        {
            facts.push(Fact::new(Refuse, module.line(&node), "exit:exec", "code in a text ends the process"));
        }
        let expr = match node {
            AnyNodeRef::ExprName(of) => module.names.full_ref(of.into()),
            AnyNodeRef::ExprAttribute(of) => module.names.full_ref(of.into()),
            AnyNodeRef::ExprSubscript(of) => module.names.full_ref(of.into()),
            AnyNodeRef::ExprCall(of) => module.names.full_ref(of.into()),
            _ => return,
        };
        let expr = ["os._exit", "sys.exit"].into_iter().find(|known| expr.ends_with(&format!(".{known}"))).map_or(expr, str::to_owned);
        let is_part_of_a_name = matches!(path.last(), Some(AnyNodeRef::ExprAttribute(_)));
        if !is_part_of_a_name && let Some(fact) = fact(&expr, path, file.role, module, module.line(&node)) {
            facts.push(fact);
        }
    });
    facts
}

fn fact(full: &str, path: Path<'_, '_>, role: Role, module: &Module, line: u64) -> Option<Fact> {
    let said = |severity, why: &str| Some(Fact::new(severity, line, format!("exit:{full}"), format!("{full} {why}")));
    let call = path.iter().rev().find_map(|node| if let AnyNodeRef::ExprCall(call) = node { Some(*call) } else { None });
    let at_import = runs_at_import(path);
    if AT_ONCE.contains(&full) {
        let is_for_a_child = function(path).is_some_and(|function| forks(function, &module.names));
        let gives_failure = call.is_some_and(|call| status(call) == Some(Status::Failure));
        let severe = role.is_of_tests() || at_import || !(is_for_a_child || gives_failure);
        return said(if severe { Refuse } else { Flag }, "ends the process at once, before a runner can say what failed");
    }
    if OF_RUNNER.contains(&full) {
        return said(Refuse, "ends the run of the tests");
    }
    if OTHER_PROGRAM.contains(&full) {
        return said(if role.is_of_tests() || at_import { Refuse } else { Flag }, "replaces the process by another program");
    }
    if full.starts_with("ctypes.") && matches!(full.rsplit('.').next(), Some("exit" | "_exit" | "abort" | "kill")) {
        return said(Refuse, "ends the process at once, before a runner can say what failed");
    }
    if matches!(full, "os.kill" | "os.killpg") && at_import && role != Role::Tests {
        return said(Refuse, "ends this process itself");
    }
    if LIMITS.contains(&full) {
        if !at_import && full == "os.close" {
            return None;
        }
        let severity = if at_import { Refuse } else { Flag };
        return said(severity, "takes time, files or what is said from the whole process");
    }
    if full == "atexit.register" || full == "os.kill" || full == "os.killpg" {
        return said(if role.is_of_tests() && full == "atexit.register" { Refuse } else { Flag }, "reaches beyond the end of the run");
    }
    if !POLITE.contains(&full) || is_class_name_only(path) {
        return None;
    }
    let status = call.filter(|call| module.names.full(&call.func) == full).and_then(status);
    match role {
        Role::Source | Role::Build if at_import => said(Refuse, "ends the program as soon as the file is imported"),
        Role::Source | Role::Build => None,
        _ if is_awaited(path, &module.names) => None,
        Role::Support if status != Some(Status::Failure) => said(Refuse, "ends the run of the tests as if nothing had failed"),
        _ if at_import => said(Refuse, "ends the run of the tests as soon as the file is imported"),
        _ => said(Flag, "ends the run of the tests where it is reached"),
    }
}

/// `SystemExit` named to be caught, awaited or compared.
fn is_class_name_only(path: Path<'_, '_>) -> bool {
    let around = path.iter().rev().find(|node| !matches!(node, AnyNodeRef::ExprCall(_) | AnyNodeRef::Arguments(_)));
    let is_caught = path.iter().any(|node| matches!(node, AnyNodeRef::ExceptHandlerExceptHandler(_)))
        && !path.iter().any(|node| matches!(node, AnyNodeRef::StmtRaise(_) | AnyNodeRef::StmtExpr(_)));
    is_caught || matches!(around, Some(AnyNodeRef::ExprTuple(_) | AnyNodeRef::Parameter(_) | AnyNodeRef::StmtClassDef(_)))
}

#[derive(PartialEq, Eq)]
enum Status {
    Success,
    Failure,
}

/// The status that a call leaves with, where it is written there.
fn status(call: &ExprCall) -> Option<Status> {
    match call.arguments.args.first() {
        None => Some(Status::Success),
        Some(Expr::NoneLiteral(_)) => Some(Status::Success),
        Some(Expr::BooleanLiteral(value)) => Some(if value.value { Status::Failure } else { Status::Success }),
        Some(Expr::NumberLiteral(number)) if number.value.as_int().is_some_and(|int| *int == 0) => Some(Status::Success),
        Some(Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::FString(_)) => Some(Status::Failure),
        Some(_) => None,
    }
}

/// `monkeypatch.setattr(os, "_exit", …)`: a test of what ends by itself.
fn is_replacing(call: &ExprCall, names: &Names) -> bool {
    matches!(names.full(&call.func).rsplit('.').next(), Some("setattr" | "object" | "hasattr" | "delattr" | "patch"))
}

fn forks(function: &ruff_python_ast::StmtFunctionDef, names: &Names) -> bool {
    let mut forks = false;
    each(&function.body, |_, node| {
        if let AnyNodeRef::ExprCall(call) = node {
            forks |= matches!(names.full(&call.func).as_str(), "os.fork" | "os.forkpty" | "pty.fork");
        }
    });
    forks
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    fn weigh(path: &str, text: &str) -> Vec<Severity> {
        severities(check, &[changed(path, Some("x = 1\n"), Some(&format!("import os, sys, atexit, pytest\n{text}\n")))])
    }

    #[test]
    fn a_run_may_not_be_ended() {
        for (path, text) in [
            ("src/a.py", "getattr(os, '_ex' + 'it')(0)"),
            ("src/a.py", "def f():\n    os._exit(0)"),
            ("src/a.py", "sys.exit(0)"),
            ("src/a.py", "raise SystemExit"),
            ("tests/conftest.py", "def pytest_sessionfinish():\n    sys.exit(0)"),
            ("tests/conftest.py", "atexit.register(print)"),
            ("tests/test_a.py", "def test_a():\n    pytest.exit('x', returncode=0)"),
            ("tests/test_a.py", "quit()"),
        ] {
            assert_eq!(weigh(path, text), [Refuse], "{text}");
        }
        assert_eq!(weigh("src/a.py", "def f():\n    if os.fork() == 0:\n        os._exit(0)"), [Flag]);
        assert_eq!(weigh("src/a.py", "atexit.register(print)"), [Flag]);
    }

    #[test]
    fn programs_may_end() {
        for (path, text) in [
            ("src/a.py", "if __name__ == '__main__':\n    sys.exit(main())"),
            ("src/a.py", "def main():\n    sys.exit(2)"),
            ("src/a.py", "try:\n    f()\nexcept SystemExit as e:\n    pass"),
            ("tests/test_a.py", "def test_a():\n    with pytest.raises(SystemExit):\n        sys.exit(0)"),
            ("tests/test_a.py", "def test_a():\n    pytest.raises(SystemExit, main)"),
        ] {
            assert!(weigh(path, text).is_empty(), "{text}");
        }
    }
}
