//! Runs the tests in a sandbox and brings back what they said.
//!
//! The code under test runs in the process that reports on it, so the channel is an attack surface. What must hold: a result for each test counts
//! only from a report that our runner sealed with the key of this very run (deleted before a test is imported, never in an argument or a variable),
//! that is whole, and that agrees with the exit status; everything else is "no result". So code that writes, prints, floods, exits early or changes
//! what was written gains nothing. Who replaces functions of the runner or of tests, however the code is spelled, is named by the report
//! (`runner_watch.py`), and a patch that alters more than base does is refused. Code that searches
//! the memory of its process for the key, or takes back before the end what it altered, leaves no trace here: against it the tests that speak for a
//! patch run again with their checks reversed ([`super::reversed`]), and must fail. What stays: code that reads its tests to tell the reversed ones
//! from the others, and code that answers a test's very question; the rules of the guard look for both, and a reviewer sees what they flag.
//!
//! One disagreement with the exit status is kept as a result, for who compares runs to weigh ([`super::believed`]): pytest that ends badly though no
//! test is red, as a limit on coverage or another plugin makes it.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::command::{FOLDER, OF_THIS_RUN, PYTEST_PLUGIN, REPORT, Report, Runner, TestCommand, UNITTEST_RUNNER};
use super::junit;
use crate::domain::{BlobMode, TestCase, TestResult, TestRun};
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
/// At most so many names of what is altered are read; the watch tells fewer.
const MOST_ALTERED: usize = 1000;
/// How long the preparation of [`FOLDER`] may take.
const PREPARATION: Duration = Duration::from_secs(30);

const SEALED_REPORT: &str = include_str!("sealed_report.py");
const UNITTEST_SOURCE: &str = include_str!("unittest_junit.py");
const RUNNER_WATCH: &str = include_str!("runner_watch.py");
const PYTEST_SOURCE: &str = include_str!("pytest_rows.py");

/// Runs the tests and takes their report, of which nothing is believed that can't be read, is not sealed or contradicts the exit status.
///
/// # Errors
/// When the sandbox fails. A report that is too large or broken is no error: the run then has no result for each test, and its output says why.
pub async fn run_tests(sandbox: &mut dyn Sandbox, command: &TestCommand, timeout: Duration) -> Result<TestOutcome, SandboxError> {
    run_tests_of(sandbox, command, None, timeout).await
}

/// The same with the tests of these files alone (paths from the workspace), where the command gives a result for each test; all for none.
///
/// # Errors
/// As [`run_tests`].
pub async fn run_tests_of(
    sandbox: &mut dyn Sandbox,
    command: &TestCommand,
    files: Option<&[String]>,
    timeout: Duration,
) -> Result<TestOutcome, SandboxError> {
    let channel = Channel::new();
    channel.prepare(sandbox, files).await?;
    let script = channel.named(&command.script);
    let ran = sandbox.run(&Command { script, timeout, output_limit: OUTPUT_LIMIT }).await?;
    let report = match command.report {
        Report::None => Err(None),
        Report::Sealed => channel.take_report(sandbox).await?.map_err(Some),
    };
    Ok(outcome(command.kind, &ran, report))
}

/// The way of one run's report: a folder that nobody knows beforehand, and a key. Both are random, since only that makes them of use.
struct Channel {
    run: String,
    key: String,
}

impl Channel {
    fn new() -> Self {
        let random = || uuid::Uuid::new_v4().simple().to_string();
        Self { run: random(), key: random() + &random() }
    }

    /// A text with what is of this run.
    fn named(&self, text: &str) -> String {
        text.replace(OF_THIS_RUN, &self.run)
    }

    async fn prepare(&self, sandbox: &mut dyn Sandbox, files: Option<&[String]>) -> Result<(), SandboxError> {
        let folder = self.named(FOLDER);
        let script = format!("rm -rf {folder} && mkdir -p {folder}");
        let ran = sandbox.run(&Command { script, timeout: PREPARATION, output_limit: 4096 }).await?;
        if ran.exit_code != Some(0) {
            return Err(SandboxError::NoRoom(format!("{folder} could not be made for the report of the tests: {}", ran.stderr.trim())));
        }
        let plugin = self.named(PYTEST_PLUGIN) + ".py";
        let mut inside = vec![
            ("sealed_report.py", SEALED_REPORT.to_owned()),
            ("runner_watch.py", RUNNER_WATCH.to_owned()),
            (UNITTEST_RUNNER, UNITTEST_SOURCE.to_owned()),
            (plugin.as_str(), PYTEST_SOURCE.to_owned()),
            ("key", self.key.clone()),
        ];
        if let Some(files) = files {
            inside.push(("only", serde_json::json!(files).to_string()));
        }
        sandbox.put_into(&folder, archive(&inside)?).await
    }

    /// The report, or why there is none.
    async fn take_report(&self, sandbox: &mut dyn Sandbox) -> Result<Result<Told, String>, SandboxError> {
        let files = match sandbox.take(&self.named(FOLDER), &[REPORT.as_bytes().to_vec()], junit::MAX_BYTES).await {
            Ok(files) => files,
            Err(SandboxError::TooLarge { limit, .. }) => return Ok(Err(format!("the report is larger than {limit} bytes"))),
            Err(error) => return Err(error),
        };
        Ok(match files.first() {
            None => Err("the runner wrote no report".to_owned()),
            Some(file) if matches!(file.mode, BlobMode::File | BlobMode::Executable) => {
                unsealed(&file.content, &self.key).and_then(Told::parse)
            }
            Some(_) => Err("the report is no file".to_owned()),
        })
    }
}

/// What a sealed report tells.
#[derive(Debug, Default)]
struct Told {
    rows: Vec<TestCase>,
    altered: Vec<String>,
}

impl Told {
    /// The first line is a list of what is altered, the rest is JUnit's XML.
    fn parse(text: &[u8]) -> Result<Self, String> {
        const ODD: &str = "the report does not say what was altered of the runner";
        let end = text.iter().position(|byte| *byte == b'\n').ok_or(ODD)?;
        let altered = serde_json::from_slice::<Vec<String>>(&text[..end]).map_err(|_| ODD)?;
        if altered.len() > MOST_ALTERED || altered.iter().any(|name| name.len() > 16 * 1024) {
            return Err("the report names too much that was altered of the runner".to_owned());
        }
        Ok(Self { rows: junit::parse(&text[end + 1..])?, altered })
    }
}

/// What is under the seal, where the seal is ours.
fn unsealed<'a>(report: &'a [u8], key: &str) -> Result<&'a [u8], String> {
    const NOT_OURS: &str = "the report is not sealed by our runner: something else wrote or changed it";
    let (seal, text) = report.split_at_checked(65).ok_or(NOT_OURS)?;
    let seal = seal.strip_suffix(b"\n").and_then(|seal| hex::decode(seal).ok()).ok_or(NOT_OURS)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).map_err(|_| NOT_OURS)?;
    mac.update(text);
    mac.verify_slice(&seal).map_err(|_| NOT_OURS)?;
    Ok(text)
}

fn archive(files: &[(&str, String)]) -> Result<Vec<u8>, SandboxError> {
    let mut builder = tar::Builder::new(Vec::new());
    let written = files.iter().try_for_each(|(name, content)| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content.as_bytes())
    });
    let packed = written.and_then(|()| builder.into_inner());
    packed.map_err(|error| SandboxError::Lost(format!("the runners of the tests could not be packed: {error}")))
}

/// The statuses by which pytest says itself that it did not come to its end: interrupted, an error of its own, a wrong use.
const PYTEST_BROKE_OFF: [i32; 3] = [2, 3, 4];

/// Why a report can't be of a command that ended so; none where they agree, or where a plugin of pytest may have the last word.
fn contradiction(kind: Runner, ran: &Ran, rows: &[TestCase]) -> Option<String> {
    let red = rows.iter().filter(|row| matches!(row.result, TestResult::Failed | TestResult::Error)).count();
    match ran.exit_code {
        Some(0) if red > 0 => Some(format!("the report has {red} red tests and the command ended with status 0")),
        Some(status) if kind == Runner::Pytest && status > 0 && !PYTEST_BROKE_OFF.contains(&status) => None,
        Some(status) if status != 0 && red == 0 && !rows.is_empty() => {
            Some(format!("the report has no red test and the command ended with status {status}"))
        }
        None => Some("the command was stopped for time".to_owned()),
        Some(_) => None,
    }
}

fn outcome(kind: Runner, ran: &Ran, report: Result<Told, Option<String>>) -> TestOutcome {
    if let Some(what) = report.is_err().then(|| missing(kind, ran)).flatten() {
        return TestOutcome::Unavailable(what);
    }
    let report = report.and_then(|told| contradiction(kind, ran, &told.rows).map_or(Ok(told), |why| Err(Some(why))));
    let mut output_tail = tail(ran);
    if let Err(Some(why)) = &report {
        output_tail.push_str(&format!("\n[no result for each test: {why}]"));
    }
    let per_test = report.is_ok();
    let Told { rows, altered } = report.unwrap_or_default();
    TestOutcome::Ran(TestRun {
        exit_code: ran.exit_code,
        timed_out: ran.exit_code.is_none(),
        duration_ms: u64::try_from(ran.elapsed.as_millis()).unwrap_or(u64::MAX),
        per_test,
        cases: rows,
        altered,
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

    use super::{TAIL, TestOutcome, Told, outcome, unsealed};
    use crate::domain::{TestCase, TestResult};
    use crate::sandbox::Ran;
    use crate::verify::Runner;

    fn ran(exit_code: i32, stdout: &str, stderr: &str) -> Ran {
        Ran { exit_code: Some(exit_code), stdout: stdout.to_owned(), stderr: stderr.to_owned(), elapsed: Duration::from_millis(7) }
    }

    fn told(rows: Vec<TestCase>) -> Told {
        Told { rows, altered: Vec::new() }
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
        let rows = vec![TestCase::new("a", TestResult::Failed)];
        let with_report = outcome(Runner::Pytest, &ran(127, "", "x: not found"), Ok(told(rows)));
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
    fn a_report_that_contradicts_the_exit_status_is_no_result() {
        let row = |result| vec![TestCase::new("a", result)];
        let per_test = |status, result| outcome(Runner::Pytest, &ran(status, "", ""), Ok(told(row(result)))).run().unwrap().per_test;
        assert!(per_test(0, TestResult::Passed) && per_test(0, TestResult::Skipped) && per_test(1, TestResult::Failed));
        for (status, result) in
            [(0, TestResult::Failed), (0, TestResult::Error), (-9, TestResult::Passed), (2, TestResult::Skipped), (3, TestResult::Passed)]
        {
            assert!(!per_test(status, result), "{status} {result:?}");
        }
        assert!(per_test(1, TestResult::Passed), "a plugin of pytest may have the last word");
        let by_unittest = outcome(Runner::Unittest, &ran(1, "", ""), Ok(told(row(TestResult::Passed))));
        assert!(!by_unittest.run().unwrap().per_test, "unittest has no such plugins");
        let stopped = Ran { exit_code: None, ..ran(0, "", "") };
        assert!(!outcome(Runner::Pytest, &stopped, Ok(told(row(TestResult::Passed)))).run().unwrap().per_test);
        assert!(outcome(Runner::Pytest, &ran(5, "", ""), Ok(told(vec![]))).run().unwrap().per_test, "no test at all is a result");
    }

    #[test]
    fn only_our_seal_opens_a_report() {
        const SEALED: &str =
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8\nThe quick brown fox jumps over the lazy dog";
        assert!(unsealed(SEALED.as_bytes(), "key").is_ok_and(|text| text.starts_with(b"The quick")));
        for (report, key) in [(SEALED, "kez"), (&SEALED[..SEALED.len() - 1], "key"), (&SEALED[65..], "key"), ("", "key")] {
            assert!(unsealed(report.as_bytes(), key).is_err(), "{report}");
        }
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
