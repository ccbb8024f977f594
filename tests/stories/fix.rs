//! `frognano-bot fix`: every way it can end has its exit status and its report, and nothing is left behind.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const CALC: &str = "def add(a, b):\n    return a - b\n";
const TESTS: &str = "import unittest\n\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n\n    def test_nothing(self):\n        self.assertEqual(add(0, 0), 0)\n";
const FIX: &str = r#"{"content": "", "tool_calls": [{"name": "Edit", "arguments": {"file_path": "/workspace/calc.py", "old_string": "a - b", "new_string": "a + b"}}]}"#;
const END: &str = r#"{"content": "done"}"#;

/// A folder with a repository, an issue, and a temporary folder of its own for the program.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.path().join("repo")).unwrap();
        fs::create_dir(place.path().join("tmp")).unwrap();
        fs::write(place.path().join("issue.md"), "# add subtracts\n\nadd(2, 3) is -1.\n").unwrap();
        fs::write(place.path().join("repo/calc.py"), CALC).unwrap();
        fs::write(place.path().join("repo/test_calc.py"), TESTS).unwrap();
        place.git(&["init", "--quiet"]);
        place.commit();
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, args: &[&str]) {
        let who = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-C", "repo"];
        assert!(Command::new("git").args(who).args(args).current_dir(self.path()).status().unwrap().success());
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "base"]);
    }

    fn start(&self, script: &[&str], args: &[&str]) -> Child {
        fs::write(self.path().join("script.jsonl"), script.join("\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        command.args(["fix", "--issue", "issue.md", "--script", "script.jsonl", "--out", "out", "--json"]).args(args);
        if !args.contains(&"--repo") {
            command.args(["--repo", "repo"]);
        }
        command.current_dir(self.path()).env("TMPDIR", self.path().join("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The exit status and the report; the report is null where there is none.
    fn fix(&self, script: &[&str], args: &[&str]) -> (i32, Value) {
        self.ended(&self.start(script, args).wait_with_output().unwrap())
    }

    fn ended(&self, output: &Output) -> (i32, Value) {
        let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        assert_eq!(fs::read_dir(self.path().join("tmp")).unwrap().count(), 0, "something is left behind");
        (output.status.code().unwrap(), report)
    }

    fn written(&self) -> Vec<String> {
        let out = fs::read_dir(self.path().join("out")).unwrap();
        let mut names = out.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
        names.sort();
        names
    }
}

#[test]
fn a_proposal_and_then_no_patch_in_the_same_folder() {
    let place = Place::new();
    let (status, report) = place.fix(&[r#"{"error": {"status": 500, "message": "busy"}}"#, FIX, END], &[]);
    assert_eq!((status, &report["outcome"], &report["proof"]), (0, &"proposed".into(), &"fixed".into()), "{report}");
    assert_eq!(place.written(), ["kept", "patch.diff", "pull-request.md", "report.json", "trajectory.json"]);
    assert!(!fs::read_to_string(place.path().join("out/pull-request.md")).unwrap().contains("#0"));
    place.git(&["apply", "--check", "../out/patch.diff"]);

    let (status, report) = place.fix(&[END], &[]);
    assert_eq!((status, &report["outcome"], &report["reason"]), (3, &"no_patch".into(), &"nothing_changed".into()), "{report}");
    assert_eq!(place.written(), ["kept", "report.json", "trajectory.json"]);
}

#[test]
fn a_refusal_names_its_rule() {
    let place = Place::new();
    let delete = r#"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "rm test_calc.py"}}]}"#;
    let (status, report) = place.fix(&[FIX, delete, END], &[]);
    assert_eq!((status, &report["outcome"], &report["reason"]), (4, &"refused".into(), &"test-deleted".into()), "{report}");
    assert!(!place.written().contains(&"pull-request.md".to_owned()));
}

#[test]
fn a_script_that_runs_out_is_no_verdict() {
    let (status, report) = Place::new().fix(&[FIX], &[]);
    assert_eq!((status, &report["outcome"], &report["reason"]), (1, &"abandoned".into(), &"model_failed".into()), "{report}");
}

#[test]
fn an_empty_repository_is_no_patch_and_what_is_no_repository_is_a_mistake_of_use() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("plain")).unwrap();
    fs::create_dir_all(place.path().join("repo/below")).unwrap();
    for wrong in [["--repo", "plain"], ["--repo", "repo/below"], ["--repo", "nowhere"], ["--test", " "]] {
        assert_eq!(place.fix(&[END], &wrong), (2, Value::Null), "{wrong:?}");
        assert!(!place.path().join("out").exists(), "{wrong:?}");
    }
    assert!(Command::new("git").args(["init", "--quiet", "plain"]).current_dir(place.path()).status().unwrap().success());
    let (status, report) = place.fix(&[END], &["--repo", "plain"]);
    assert_eq!((status, &report["reason"]), (3, &"empty_repository".into()), "{report}");
}

#[test]
fn tests_without_end_are_stopped_for_time_and_at_once_by_a_signal() {
    let place = Place::new();
    fs::write(place.path().join("repo/test_calc.py"), format!("{TESTS}\n\nimport time\nprint('x' * 1000000)\ntime.sleep(1000)\n")).unwrap();
    place.commit();
    let child = place.start(&[FIX, END], &[]);
    std::thread::sleep(Duration::from_secs(2));
    let asked = Instant::now();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), nix::sys::signal::Signal::SIGTERM).unwrap();
    let (status, report) = place.ended(&child.wait_with_output().unwrap());
    assert_eq!((status, &report["outcome"]), (1, &"cancelled".into()), "{report}");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());

    fs::write(place.path().join("repo/.frognano.toml"), "[tests]\ntimeout_seconds = 1\n").unwrap();
    place.commit();
    let (status, report) = place.fix(&[FIX, END], &[]);
    assert_eq!((status, &report["proof"], &report["tests"]["after"]["timed_out"]), (0, &"unproved".into(), &true.into()), "{report}");
}
