//! The command that runs a project's tests, and how it is made to say what each test said.

use serde::{Deserialize, Serialize};

/// Stands in a script for what only one run knows, so that nothing in a repository can know it beforehand.
pub(super) const OF_THIS_RUN: &str = "@frognano-run@";
/// The folder in the sandbox for the report and for our own runners; a new one for each run.
pub(super) const FOLDER: &str = "/tmp/frognano-@frognano-run@";
/// The name of the report in [`FOLDER`].
pub(super) const REPORT: &str = "report";
/// The name of our runner for unittest in [`FOLDER`].
pub(super) const UNITTEST_RUNNER: &str = "unittest_junit.py";
/// The module of our plugin of pytest in [`FOLDER`].
pub(super) const PYTEST_PLUGIN: &str = "frognano_rows_@frognano-run@";

/// What is in the workspace is imported, never a copy that is installed in a virtualenv of the host: the tests would judge that copy, and not the patch.
const OWN_CODE_FIRST: &str = "own=\"$PWD\"; [ ! -d src ] || [ -e src/__init__.py ] || own=\"$PWD/src:$PWD\"; export PYTHONPATH=\"$own${PYTHONPATH:+:$PYTHONPATH}\"\n";

/// What runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// pytest.
    Pytest,
    /// unittest of the standard library, run by our runner, which writes a report.
    Unittest,
    /// tox.
    Tox,
    /// nox.
    Nox,
    /// A Makefile's target.
    Make,
    /// A configured command that is none of these.
    Other,
}

/// Where the runner says what each test said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// In a report that our own runner or plugin writes and seals.
    Sealed,
    /// Nowhere: only the exit status speaks.
    None,
}

/// How to run a project's tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCommand {
    /// What runs the tests.
    pub kind: Runner,
    /// The command as a person would type it.
    pub shown: String,
    /// What bash is given: the same, and what makes it write a report.
    pub script: String,
    /// Why this one, and what is not known with it; sentences for people.
    pub why: String,
    /// Where the report is.
    pub report: Report,
}

impl TestCommand {
    /// Takes a configured command as it is. pytest and unittest are recognised where they are the whole command, or what follows `cd …&&` and the
    /// like; of anything else only the exit status counts, and `why` says so.
    #[must_use]
    pub fn configured(command: &str, why: &str) -> Self {
        let shown = command.trim().to_owned();
        let why = why.to_owned();
        match recognised(&shown) {
            Some(Recognised::Pytest) => {
                let script = format!(
                    "{OWN_CODE_FIRST}export PYTHONPATH=\"$PYTHONPATH:{FOLDER}\" PYTEST_ADDOPTS=\"${{PYTEST_ADDOPTS:+$PYTEST_ADDOPTS }}-p {PYTEST_PLUGIN}\"\n{shown}"
                );
                Self { kind: Runner::Pytest, shown, script, why, report: Report::Sealed }
            }
            Some(Recognised::Unittest { script }) => {
                Self { kind: Runner::Unittest, shown, script: format!("{OWN_CODE_FIRST}{script}"), why, report: Report::Sealed }
            }
            None => Self { kind: Runner::Other, script: shown.clone(), shown, why, report: Report::None }.by_exit_status(),
        }
    }

    /// A command of which only the exit status is known.
    pub(super) fn plain(kind: Runner, command: &str, why: &str) -> Self {
        Self { kind, shown: command.to_owned(), script: command.to_owned(), why: why.to_owned(), report: Report::None }.by_exit_status()
    }

    fn by_exit_status(mut self) -> Self {
        self.why.push_str(" It gives no result for each test: only its exit status counts.");
        self
    }
}

enum Recognised {
    Pytest,
    Unittest { script: String },
}

fn recognised(command: &str) -> Option<Recognised> {
    let segments = segments(command)?;
    let (last, first) = segments.split_last()?;
    if !first.iter().all(|segment| matches!(segment.split_whitespace().next(), Some("cd" | "export" | "source" | "."))) {
        return None;
    }
    let mut words: Vec<&str> = last.split_whitespace().collect();
    let assignments = words.iter().take_while(|word| is_assignment(word)).count();
    words.drain(..assignments);
    if let ["uv" | "poetry" | "pdm" | "pipenv" | "hatch", "run", ..] = words[..] {
        words.drain(..2);
    }
    let program = words.first()?.rsplit('/').next()?;
    let module = words.windows(2).find(|pair| pair[0] == "-m").map(|pair| pair[1]);
    match (program, module) {
        ("pytest" | "py.test", _) => Some(Recognised::Pytest),
        (program, Some("pytest")) if is_python(program) || program == "coverage" => Some(Recognised::Pytest),
        (program, Some("unittest")) if is_python(program) => {
            let start = command.rfind(last.as_str())? + last.find("-m unittest")?;
            let (head, tail) = (&command[..start], &command[start + "-m unittest".len()..]);
            Some(Recognised::Unittest { script: format!("{head}{FOLDER}/{UNITTEST_RUNNER} {FOLDER}/{REPORT}{tail}") })
        }
        _ => None,
    }
}

fn is_python(program: &str) -> bool {
    program.strip_prefix("python").is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// The simple commands between `&&`; none where the shell does anything else with it.
fn segments(command: &str) -> Option<Vec<String>> {
    let mut segments = vec![String::new()];
    let mut quote = None;
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '&') if chars.next_if_eq(&'&').is_some() => {
                segments.push(String::new());
                continue;
            }
            (None, '&' | '|' | ';' | '<' | '>' | '(' | ')' | '\n' | '#' | '\\') | (None | Some('"'), '`') => return None,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        segments.last_mut()?.push(c);
    }
    (quote.is_none() && segments.iter().all(|segment| !segment.trim().is_empty())).then_some(segments)
}

#[cfg(test)]
mod tests {
    use super::{OWN_CODE_FIRST, Report, Runner, TestCommand};

    fn configured(command: &str) -> TestCommand {
        TestCommand::configured(command, "it is configured.")
    }

    #[test]
    fn pytest_is_given_our_plugin_through_its_environment() {
        for command in [
            "pytest",
            "python3 -m pytest -q tests",
            "cd sub && PYTHONPATH=src python3.12 -W error -m pytest -k 'a or b;c'",
            "uv run pytest -x",
            "coverage run -m pytest",
        ] {
            let taken = configured(command);
            assert_eq!((taken.kind, taken.shown.as_str()), (Runner::Pytest, command));
            assert!(taken.script.ends_with(&format!("-p frognano_rows_@frognano-run@\"\n{command}")), "{}", taken.script);
            assert_eq!(taken.report, Report::Sealed);
        }
    }

    #[test]
    fn unittest_is_run_by_our_runner_with_the_same_arguments() {
        let taken = configured("cd a && X=1 python3 -m unittest discover -s tests");
        assert_eq!(taken.kind, Runner::Unittest);
        let script = |command: &str| configured(command).script.strip_prefix(OWN_CODE_FIRST).unwrap().to_owned();
        assert_eq!(
            script("cd a && X=1 python3 -m unittest discover -s tests"),
            "cd a && X=1 python3 /tmp/frognano-@frognano-run@/unittest_junit.py /tmp/frognano-@frognano-run@/report discover -s tests"
        );
        assert_eq!(
            script("python -m unittest"),
            "python /tmp/frognano-@frognano-run@/unittest_junit.py /tmp/frognano-@frognano-run@/report"
        );
    }

    #[test]
    fn the_code_of_the_workspace_is_imported_before_any_installed_copy() {
        let path = |folder: &std::path::Path| {
            let script = format!("unset PYTHONPATH; {OWN_CODE_FIRST}printf %s \"$PYTHONPATH\"");
            let output = std::process::Command::new("bash").args(["-c", &script]).current_dir(folder).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        assert_eq!(path(&top), format!("{}", top.display()));
        std::fs::create_dir(top.join("src")).unwrap();
        assert_eq!(path(&top), format!("{0}/src:{0}", top.display()));
        std::fs::write(top.join("src/__init__.py"), "").unwrap();
        assert_eq!(path(&top), format!("{}", top.display()));
    }

    #[test]
    fn of_anything_else_only_the_exit_status_counts() {
        for command in [
            "make check",
            "pytest; true",
            "pytest || true",
            "pytest | tee log",
            "pytest && pytest other",
            "echo pytest",
            "python pytest.py",
            "python -m unittest2",
            "pytest 'a",
        ] {
            let taken = configured(command);
            assert_eq!((taken.kind, taken.report, taken.script.as_str()), (Runner::Other, Report::None, command));
            assert!(taken.why.ends_with("only its exit status counts."));
        }
    }
}
