//! Runs the tests in a sandbox and brings back what they said.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::{FOLDER, Report, Runner, TestCommand, UNITTEST_RUNNER};
use super::junit;
use crate::domain::{BlobMode, TestCase, TestRun};
use crate::sandbox::{Command, Ran, Sandbox, SandboxError};

/// What came of running a project's tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// They ran, or at least the command did.
    Ran(TestRun),
    /// They could not run here: what is missing, one sentence for people. Says nothing of the project.
    Unavailable(String),
}

impl TestOutcome {
    /// The run, where there was one.
    #[must_use]
    pub const fn run(&self) -> Option<&TestRun> {
        match self {
            Self::Ran(run) => Some(run),
            Self::Unavailable(_) => None,
        }
    }
}

/// At most so many bytes of each stream are kept while the tests run.
const OUTPUT_LIMIT: usize = 256 * 1024;
/// At most so many characters of the output are shown.
const TAIL: usize = 4000;
/// How long the preparation of [`FOLDER`] may take.
const PREPARATION: Duration = Duration::from_secs(30);

const RUNNER_SOURCE: &str = include_str!("unittest_junit.py");

/// Runs the tests and takes their report, of which nothing is believed that can't be read. The report of an earlier run is removed first.
///
/// # Errors
/// When the sandbox fails. A report that is too large or broken is no error: the run then has no result for each test, and its output says why.
pub async fn run_tests(sandbox: &mut dyn Sandbox, command: &TestCommand, timeout: Duration) -> Result<TestOutcome, SandboxError> {
    prepare(sandbox, command).await?;
    let ran = sandbox.run(&Command { script: command.script.clone(), timeout, output_limit: OUTPUT_LIMIT }).await?;
    let report = match &command.report {
        Report::None => Err(None),
        Report::JunitXml(path) => take_report(sandbox, path).await?.map_err(Some),
    };
    Ok(outcome(command.kind, &ran, report))
}

async fn prepare(sandbox: &mut dyn Sandbox, command: &TestCommand) -> Result<(), SandboxError> {
    let script = format!("rm -rf {FOLDER} && mkdir -p {FOLDER}");
    let ran = sandbox.run(&Command { script, timeout: PREPARATION, output_limit: 4096 }).await?;
    if ran.exit_code != Some(0) {
        return Err(SandboxError::NoRoom(format!("{FOLDER} could not be made for the report of the tests: {}", ran.stderr.trim())));
    }
    if command.kind == Runner::Unittest {
        sandbox.put_into(FOLDER, archive(UNITTEST_RUNNER, RUNNER_SOURCE.as_bytes())?).await?;
    }
    Ok(())
}

fn archive(name: &str, content: &[u8]) -> Result<Vec<u8>, SandboxError> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    let mut builder = tar::Builder::new(Vec::new());
    let written = builder.append_data(&mut header, name, content).and_then(|()| builder.into_inner());
    written.map_err(|error| SandboxError::Lost(format!("the runner for unittest could not be packed: {error}")))
}

/// The rows of the report, or why there are none.
async fn take_report(sandbox: &mut dyn Sandbox, path: &str) -> Result<Result<Vec<TestCase>, String>, SandboxError> {
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    let files = match sandbox.take(folder, &[name.as_bytes().to_vec()], junit::MAX_BYTES).await {
        Ok(files) => files,
        Err(SandboxError::TooLarge { limit, .. }) => return Ok(Err(format!("the report is larger than {limit} bytes"))),
        Err(error) => return Err(error),
    };
    Ok(match files.first() {
        None => Err("the runner wrote no report".to_owned()),
        Some(file) if matches!(file.mode, BlobMode::File | BlobMode::Executable) => junit::parse(&file.content),
        Some(_) => Err("the report is no file".to_owned()),
    })
}

fn outcome(kind: Runner, ran: &Ran, report: Result<Vec<TestCase>, Option<String>>) -> TestOutcome {
    if let Some(what) = report.is_err().then(|| missing(kind, ran)).flatten() {
        return TestOutcome::Unavailable(what);
    }
    let mut output_tail = tail(ran);
    if let Err(Some(why)) = &report {
        output_tail.push_str(&format!("\n[no result for each test: {why}]"));
    }
    TestOutcome::Ran(TestRun {
        exit_code: ran.exit_code,
        timed_out: ran.exit_code.is_none(),
        duration_ms: u64::try_from(ran.elapsed.as_millis()).unwrap_or(u64::MAX),
        per_test: report.is_ok(),
        cases: report.unwrap_or_default(),
        output_tail,
    })
}

/// What the command lacked to run at all, where it said so in the words of bash, Python, make, pytest or pip.
fn missing(kind: Runner, ran: &Ran) -> Option<String> {
    let line_with = |words: &[&str]| {
        let found = ran.stderr.lines().chain(ran.stdout.lines()).find(|line| words.iter().any(|word| line.contains(word)));
        found.map(|line| line.trim().chars().take(300).collect::<String>())
    };
    let module = |name: &str| line_with(&[&format!(": No module named {name}")]).filter(|line| line.ends_with(name));
    match (kind, ran.exit_code?) {
        (_, 126 | 127) => line_with(&["not found", "Permission denied", "No such file"])
            .map(|line| format!("the command of the tests is not in the sandbox: {line}")),
        (Runner::Pytest, 1) => module("pytest").or_else(|| module("coverage")).map(|_| "pytest is not installed in the sandbox".to_owned()),
        (Runner::Pytest, 4) => line_with(&["rror: ", "ERROR: ", "Error: "]).map(|line| format!("pytest could not start: {line}")),
        (Runner::Tox, 1) if module("tox").is_some() => Some("tox is not installed in the sandbox".to_owned()),
        (Runner::Nox, 1) if module("nox").is_some() => Some("nox is not installed in the sandbox".to_owned()),
        (Runner::Tox | Runner::Nox, 1..) => {
            line_with(&["No matching distribution found", "Temporary failure in name resolution", "Failed to establish a new connection"])
                .map(|line| format!("the tests want to install packages and the sandbox has no network: {line}"))
        }
        (Runner::Make, 2) => line_with(&["Error 127"]).map(|line| format!("a command of the Makefile is not in the sandbox: {line}")),
        _ => None,
    }
}

fn tail(ran: &Ran) -> String {
    let output = format!("{}\n{}", ran.stdout.trim_end(), ran.stderr.trim_end());
    let output = output.trim();
    let skipped = output.chars().count().saturating_sub(TAIL);
    if skipped == 0 {
        output.to_owned()
    } else {
        format!("[… {skipped} characters before]\n{}", output.chars().skip(skipped).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{TAIL, TestOutcome, outcome};
    use crate::domain::{TestCase, TestResult};
    use crate::sandbox::Ran;
    use crate::verify::Runner;

    fn ran(exit_code: i32, stdout: &str, stderr: &str) -> Ran {
        Ran { exit_code: Some(exit_code), stdout: stdout.to_owned(), stderr: stderr.to_owned(), elapsed: Duration::from_millis(7) }
    }

    fn unavailable(kind: Runner, exit_code: i32, stderr: &str) -> Option<String> {
        match outcome(kind, &ran(exit_code, "", stderr), Err(None)) {
            TestOutcome::Unavailable(what) => Some(what),
            TestOutcome::Ran(_) => None,
        }
    }

    #[test]
    fn a_missing_runner_is_not_red() {
        let missing = |kind, status, stderr| unavailable(kind, status, stderr).unwrap();
        assert_eq!(missing(Runner::Pytest, 1, "/usr/bin/python3: No module named pytest\n"), "pytest is not installed in the sandbox");
        assert!(missing(Runner::Pytest, 127, "/bin/bash: line 2: pytest: command not found").ends_with("pytest: command not found"));
        assert!(
            missing(Runner::Pytest, 4, "ERROR: usage: x\n__main__.py: error: unrecognized arguments: --cov\n")
                .starts_with("pytest could not start")
        );
        assert_eq!(missing(Runner::Tox, 1, "/usr/bin/python3: No module named tox"), "tox is not installed in the sandbox");
        assert!(missing(Runner::Tox, 1, "ERROR: No matching distribution found for x").contains("no network"));
        assert!(missing(Runner::Make, 2, "make: *** [Makefile:2: test] Error 127").contains("Makefile"));
    }

    #[test]
    fn a_red_run_is_not_missing() {
        assert_eq!(unavailable(Runner::Pytest, 1, "ModuleNotFoundError: No module named 'pkg'"), None);
        assert_eq!(unavailable(Runner::Pytest, 1, "x.py: No module named pytest_mock"), None);
        assert_eq!(unavailable(Runner::Make, 2, "make: *** [Makefile:2: test] Error 1"), None);
        assert_eq!(unavailable(Runner::Other, 1, "/usr/bin/python3: No module named pytest"), None);
        let rows = vec![TestCase { name: "a".to_owned(), result: TestResult::Passed }];
        let with_report = outcome(Runner::Pytest, &ran(127, "", "x: not found"), Ok(rows));
        assert!(with_report.run().unwrap().per_test);
    }

    #[test]
    fn a_broken_report_is_no_result_and_the_output_says_why() {
        let run = outcome(Runner::Pytest, &ran(0, "fine", ""), Err(Some("the report is empty".to_owned())));
        let run = run.run().unwrap();
        assert!(!run.per_test && run.cases.is_empty() && run.duration_ms == 7);
        assert_eq!(run.output_tail, "fine\n[no result for each test: the report is empty]");
    }

    #[test]
    fn only_the_end_of_the_output_is_kept() {
        let run = outcome(Runner::Other, &ran(1, &"é".repeat(TAIL), "the end"), Err(None));
        let tail = &run.run().unwrap().output_tail;
        assert!(tail.starts_with("[… 8 characters before]\né") && tail.ends_with("é\nthe end"));
    }

    #[test]
    fn a_command_stopped_for_time_timed_out() {
        let stopped = Ran { exit_code: None, ..ran(0, "", ": not found") };
        assert!(outcome(Runner::Pytest, &stopped, Err(None)).run().unwrap().timed_out);
    }
}
