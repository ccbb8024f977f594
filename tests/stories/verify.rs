//! The judge as the pipeline uses it: real Python and real reports, in the real sandbox and, to be quick, in a folder of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use frognano_bot::domain::{BlobMode, TestResult, TestRun};
use frognano_bot::sandbox::local::{Local, Settings};
use frognano_bot::sandbox::{Command, Entry, Listing, ProbeReport, Ran, Sandbox, SandboxError, Sandboxes, TakenFile};
use frognano_bot::verify::{Proof, Report, Runner, TestCommand, TestOutcome, believed, judge, junit, run_tests};

const PYTHON: &str = "/usr/bin/python3";
const RUNNER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/verify/unittest_junit.py");

/// No walls at all, only the channel: commands run in a folder of this machine, and the sandbox's `/tmp/frognano` is a folder beside it.
struct Folder {
    root: tempfile::TempDir,
}

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir(folder.workspace()).unwrap();
        folder.write(files);
        folder
    }

    fn write(&self, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = self.workspace().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    fn inside(&self, folder: &str) -> String {
        folder.replace("/tmp/frognano-", self.root.path().join("frognano-").to_str().unwrap())
    }
}

#[async_trait]
impl Sandbox for Folder {
    fn probe_report(&self) -> &ProbeReport {
        unreachable!("the judge does not ask")
    }
    async fn put(&mut self, _: Vec<u8>) -> Result<(), SandboxError> {
        unreachable!("the judge does not fill the workspace")
    }
    async fn put_into(&mut self, folder: &str, tar: Vec<u8>) -> Result<(), SandboxError> {
        tar::Archive::new(tar.as_slice()).unpack(self.inside(folder)).unwrap();
        Ok(())
    }
    async fn call(&mut self, _: &str, _: &serde_json::Value) -> Result<String, SandboxError> {
        unreachable!("the judge calls no tools")
    }
    async fn run(&mut self, command: &Command) -> Result<Ran, SandboxError> {
        let start = Instant::now();
        let mut bash = Process::new("/bin/bash");
        bash.arg("-c")
            .arg(self.inside(&command.script))
            .current_dir(self.workspace())
            .env_remove("PYTHONPATH")
            .env("PATH", "/usr/bin:/bin");
        let output = bash.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
        Ok(Ran {
            exit_code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            elapsed: start.elapsed(),
        })
    }
    async fn list(&mut self, _: Listing) -> Result<Vec<Entry>, SandboxError> {
        unreachable!("the judge lists nothing")
    }
    async fn take(&mut self, folder: &str, paths: &[Vec<u8>], limit: u64) -> Result<Vec<TakenFile>, SandboxError> {
        let path = Path::new(&self.inside(folder)).join(std::str::from_utf8(&paths[0]).unwrap());
        let Ok(content) = fs::read(path) else { return Ok(Vec::new()) };
        if content.len() as u64 > limit {
            return Err(SandboxError::TooLarge { what: "the files".to_owned(), limit });
        }
        Ok(vec![TakenFile { path: paths[0].clone(), mode: BlobMode::File, content }])
    }
    async fn close(self: Box<Self>) {}
}

async fn tested(folder: &mut Folder, command: &TestCommand) -> TestOutcome {
    run_tests(folder, command, Duration::from_secs(60)).await.unwrap()
}

fn ran(outcome: &TestOutcome) -> &TestRun {
    outcome.run().unwrap_or_else(|| panic!("{outcome:?}"))
}

const BROKEN: &str = "def double(x):\n    return x + x + 1\ndef half(x):\n    return x / 2\n";
const FIXED: &str = "def double(x):\n    return x + x\ndef half(x):\n    return x / 2\n";
const TESTS: &str = "import unittest\nfrom calc import double, half\nclass Calc(unittest.TestCase):\n    def test_double(self):\n        self.assertEqual(double(2), 4)\n    def test_half(self):\n        self.assertEqual(half(4), 2)\n";

#[tokio::test]
async fn a_fix_is_proved_and_a_regression_refused_test_by_test() {
    let command = TestCommand::configured("/usr/bin/python3 -m unittest -q", "it is configured.");
    let mut folder = Folder::with(&[("calc.py", BROKEN), ("test_calc.py", TESTS)]);
    let before = tested(&mut folder, &command).await;
    assert_eq!((ran(&before).exit_code, ran(&before).count(TestResult::Failed), ran(&before).count(TestResult::Passed)), (Some(1), 1, 1));

    folder.write(&[("calc.py", FIXED)]);
    let fixed = judge(Some(&before), &tested(&mut folder, &command).await);
    assert_eq!((fixed.proof, fixed.comparison.unwrap().fixed), (Proof::Fixed, vec!["test_calc.Calc::test_double".to_owned()]));

    folder.write(&[("calc.py", "def double(x):\n    return x + x\ndef half(x):\n    return x\n")]);
    let broken = judge(Some(&before), &tested(&mut folder, &command).await);
    assert!(broken.refuses());
    assert_eq!(broken.findings[0].rule, "tests-regressed");
    assert!(broken.findings[0].why.ends_with(": test_calc.Calc::test_half"), "{}", broken.findings[0].why);
}

#[tokio::test]
async fn code_that_ends_the_run_early_leaves_no_result() {
    let command = TestCommand::configured("/usr/bin/python3 -m unittest", "it is configured.");
    let mut folder = Folder::with(&[("calc.py", BROKEN), ("test_calc.py", TESTS)]);
    let before = tested(&mut folder, &command).await;
    folder.write(&[("calc.py", "import os\nos._exit(0)\n")]);
    let after = tested(&mut folder, &command).await;
    assert_eq!((ran(&after).exit_code, ran(&after).per_test), (Some(0), false), "the old report must not be read again");
    assert!(ran(&after).output_tail.contains("wrote no report"));
    assert_eq!(judge(Some(&before), &after).findings[0].rule, "tests-no-result");
}

/// A runner that seals whatever it is given, as ours does.
const SEALER: &str = "import hashlib, hmac, sys; text = sys.stdin.buffer.read(); key = open(sys.argv[1] + '/key', 'rb').read(); open(sys.argv[1] + '/report', 'wb').write(hmac.new(key, text, 'sha256').hexdigest().encode() + b'\\n' + text)";

#[tokio::test]
async fn a_report_that_explodes_is_no_result_even_under_our_seal() {
    let run = |script: String| TestCommand {
        kind: Runner::Pytest,
        shown: "pytest".to_owned(),
        script,
        why: String::new(),
        report: Report::Sealed,
    };
    let raw = |content: &str| run(format!("{content} | {PYTHON} -c \"{SEALER}\" /tmp/frognano-@frognano-run@"));
    let sealed = |content: &str| raw(&format!("{{ echo '[]'; {content}; }}"));
    let mut folder = Folder::with(&[]);
    let good = "echo '<testsuite tests=\"1\"><testcase name=\"a\"/></testsuite>'";
    let outcome = tested(&mut folder, &sealed(good)).await;
    assert_eq!(ran(&outcome).cases.len(), 1, "{outcome:?}");
    for command in [
        raw(good),
        raw(&format!("{{ echo '[1]'; {good}; }}")),
        raw(&format!("{{ printf '['; yes '\"\",' | head -2000; echo '\"\"]'; {good}; }}").replace("head -2000", "head -2000 | tr -d '\\n'")),
        sealed("head -c 17000000 /dev/zero"),
        sealed("echo '<!DOCTYPE x><testsuite/>'"),
        sealed("printf '\\377\\376<\\0t\\0'"),
        sealed("echo '<testsuite tests=\"9\"/>'"),
        sealed("echo '<testsuite><testcase name=\"a\"><failure/></testcase></testsuite>'"),
        run(format!("{good} > /tmp/frognano-@frognano-run@/report")),
        run(sealed(good).script + "; echo ' ' >> /tmp/frognano-@frognano-run@/report"),
        run("truncate -s 1G /tmp/frognano-@frognano-run@/report".to_owned()),
        run(sealed(good).script + "; exit 3"),
    ] {
        let outcome = tested(&mut folder, &command).await;
        assert_eq!((ran(&outcome).per_test, ran(&outcome).cases.len()), (false, 0), "{}", command.script);
        assert!(ran(&outcome).output_tail.contains("[no result for each test: "), "{}", command.script);
    }
    let bad_end = tested(&mut folder, &run(sealed(good).script + "; exit 1")).await;
    let on_the_patch = |before: &TestOutcome| believed(std::slice::from_ref(before), ran(&bad_end).clone());
    assert_eq!(on_the_patch(&bad_end), *ran(&bad_end), "base ends so, too");
    assert!(!on_the_patch(&outcome).per_test && on_the_patch(&outcome).cases.is_empty(), "only the patch ends so");
}

#[tokio::test]
async fn a_missing_runner_is_said_and_is_not_red() {
    let mut folder = Folder::with(&[]);
    let outcome = tested(&mut folder, &TestCommand::configured("pytest-of-nobody -q", "it is configured.")).await;
    let TestOutcome::Unavailable(what) = &outcome else { panic!("{outcome:?}") };
    assert!(what.contains("pytest-of-nobody: command not found"), "{what}");
    let judged = judge(Some(&outcome), &outcome);
    assert_eq!((judged.proof, judged.refuses()), (Proof::Unproved, false));
}

#[tokio::test]
async fn the_real_sandbox_runs_the_tests_and_gives_their_report() {
    let sandboxes = Local::new(Settings::new(env!("CARGO_BIN_EXE_frognano-tools"), "/nowhere/frognano-state")).unwrap();
    let mut sandbox = sandboxes.start("judge").await.unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in [("calc.py", BROKEN), ("test_calc.py", TESTS)] {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
    sandbox.put(tar.into_inner().unwrap()).await.unwrap();
    let by_unittest = TestCommand::configured("python3 -m unittest", "it is configured.");
    for _ in 0..2 {
        let outcome = run_tests(sandbox.as_mut(), &by_unittest, Duration::from_secs(60)).await.unwrap();
        assert_eq!((ran(&outcome).count(TestResult::Failed), ran(&outcome).count(TestResult::Passed)), (1, 1), "{outcome:?}");
    }
    let endless = TestCommand::configured("python3 -c 'while True: pass'", "it is configured.");
    let outcome = run_tests(sandbox.as_mut(), &endless, Duration::from_millis(300)).await.unwrap();
    assert!(ran(&outcome).timed_out && !ran(&outcome).per_test);
    sandbox.close().await;
}

/// Runs our runner in a folder with these files; its report and what it printed.
fn run_unittest(files: &[(&str, &str)], arguments: &[&str]) -> (Vec<(String, TestResult)>, Output) {
    let folder = Folder::with(files);
    let report = folder.root.path().join("junit.xml");
    let mut python = Process::new(PYTHON);
    python
        .arg(RUNNER)
        .arg(&report)
        .args(arguments)
        .current_dir(folder.workspace())
        .env_remove("PYTHONPATH")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = python.output().unwrap();
    let cases = fs::read_to_string(report)
        .map(|text| {
            junit::parse(
                text.split_once("\n")
                    .map(|(first, rest)| {
                        assert_eq!(first, "[]");
                        rest
                    })
                    .unwrap()
                    .as_bytes(),
            )
            .unwrap()
        })
        .unwrap_or_default();
    (cases.into_iter().map(|case| (case.name, case.result)).collect(), output)
}

fn plain_unittest(files: &[(&str, &str)], arguments: &[&str]) -> Output {
    let folder = Folder::with(files);
    let mut python = Process::new(PYTHON);
    python.args(["-m", "unittest"]).args(arguments).current_dir(folder.workspace()).env_remove("PYTHONPATH");
    python.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap()
}

const KINDS: &str = r#"
import unittest

class Kinds(unittest.TestCase):
    def test_passes(self): pass
    def test_fails(self): self.fail("<&\x00\"\ud800é>")
    def test_errs(self): raise KeyError(1)
    def test_exits(self): raise SystemExit(0)
    @unittest.skip("later")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass
    def test_sub_fails(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
    def test_sub_errs(self):
        with self.subTest("a"): raise KeyError
    def test_sub_passes(self):
        with self.subTest("a"): pass
    def test_sub_some_skipped(self):
        with self.subTest("a"): self.skipTest("not here")
        with self.subTest("b"): pass
    def test_sub_all_skipped(self):
        with self.subTest("a"): self.skipTest("not here")

class NoSetUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError
    def test_never(self): pass

class Cleanup(unittest.TestCase):
    def tearDown(self): raise OSError
    def test_fails_twice(self): self.fail()
"#;

#[test]
fn our_runner_of_unittest_tells_all_kinds_apart() {
    let files = [("tests/__init__.py", ""), ("tests/test_kinds.py", KINDS), ("tests/test_gone.py", "import nothing_here\n")];
    let (cases, output) = run_unittest(&files, &["discover", "-s", "tests", "-t", "."]);
    let of = |name: &str| {
        let name = name.replace("Kinds::", "tests.test_kinds.Kinds::");
        cases.iter().find(|(known, _)| *known == name).map(|(_, result)| *result).unwrap_or_else(|| panic!("{name} in {cases:#?}"))
    };
    use TestResult::{Error, Failed, Passed, Skipped};
    for (name, result) in [
        ("Kinds::test_passes", Passed),
        ("Kinds::test_fails", Failed),
        ("Kinds::test_errs", Error),
        ("Kinds::test_exits", Error),
        ("Kinds::test_skipped", Skipped),
        ("Kinds::test_expected", Skipped),
        ("Kinds::test_unexpected", Failed),
        ("Kinds::test_sub_fails", Failed),
        ("Kinds::test_sub_errs", Error),
        ("Kinds::test_sub_passes", Passed),
        ("Kinds::test_sub_some_skipped", Passed),
        ("Kinds::test_sub_all_skipped", Skipped),
        ("tests.test_kinds.NoSetUp::setUpClass", Error),
        ("tests.test_kinds.Cleanup::test_fails_twice", Error),
        ("unittest.loader._FailedTest::tests.test_gone", Error),
    ] {
        assert_eq!(of(name), result, "{name}");
    }
    assert_eq!(cases.len(), 15, "{cases:#?}");
    assert_eq!(output.status.code(), Some(1));
}

/// What unittest prints, without the times, which differ from run to run.
fn without_times(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .map(|line| line.split(" in ").next().unwrap_or(line))
        .filter(|line| !line.contains("workspace"))
        .collect()
}

#[test]
fn our_runner_of_unittest_behaves_as_the_original() {
    let files = [("tests/__init__.py", ""), ("tests/test_kinds.py", KINDS), ("test_calc.py", TESTS), ("calc.py", FIXED)];
    for arguments in [
        &[][..],
        &["test_calc"],
        &["-v", "test_calc.Calc.test_half"],
        &["discover", "-p", "nothing*"],
        &["-f", "tests.test_kinds"],
        &["no.such.module"],
        &["--no-such"],
    ] {
        let (ours, original) = (run_unittest(&files, arguments).1, plain_unittest(&files, arguments));
        assert_eq!(ours.status.code(), original.status.code(), "{arguments:?}");
        assert_eq!(without_times(&ours), without_times(&original), "{arguments:?}");
        assert_eq!(ours.stdout, original.stdout, "{arguments:?}");
    }
}

#[test]
fn the_project_can_not_stand_in_for_what_our_runner_needs() {
    let trap = "raise SystemExit('the project was imported')\n";
    let files = [("time.py", trap), ("os.py", trap), ("argparse.py", trap), ("test_calc.py", TESTS), ("calc.py", FIXED)];
    let (cases, output) = run_unittest(&files, &["test_calc"]);
    assert_eq!(cases.len(), 2, "{}", String::from_utf8_lossy(&output.stderr));
    let path = "import os, sys, unittest\nclass Path(unittest.TestCase):\n    def test_path(self):\n        self.assertEqual(sys.path[0], os.getcwd())\n        self.assertFalse([p for p in sys.path if p.endswith('verify')])\n";
    assert_eq!(run_unittest(&[("test_path.py", path)], &[]).0, [("test_path.Path::test_path".to_owned(), TestResult::Passed)]);
}
