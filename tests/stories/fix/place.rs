//! A folder in which `frognano-bot fix` works, with a repository that one edit fixes.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

const CALC: &str = "def add(a, b):\n    return a - b\n";
pub const TESTS: &str = "import unittest\n\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n\n    def test_nothing(self):\n        self.assertEqual(add(0, 0), 0)\n";
pub const FIX: &str = r#"{"content": "", "tool_calls": [{"name": "Edit", "arguments": {"file_path": "/workspace/calc.py", "old_string": "a - b", "new_string": "a + b"}}]}"#;
pub const END: &str = r#"{"content": "done"}"#;

/// A folder with a repository, an issue, and a temporary folder of its own for the program.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
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

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn git(&self, args: &[&str]) {
        let who = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-C", "repo"];
        assert!(Command::new("git").args(who).args(args).current_dir(self.path()).status().unwrap().success());
    }

    pub fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "base"]);
    }

    pub fn start(&self, script: &[&str], args: &[&str]) -> Child {
        fs::write(self.path().join("script.jsonl"), script.join("\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        command.args(["fix", "--issue", "issue.md", "--out", "out", "--json"]).args(args);
        for (option, value) in [("--repo", "repo"), ("--script", "script.jsonl")] {
            let is_left_out = script.is_empty() && option == "--script";
            if !is_left_out && !args.contains(&option) {
                command.args([option, value]);
            }
        }
        self.spawn(&mut command)
    }

    /// The program with these arguments alone.
    pub fn say(&self, args: &[&str]) -> Output {
        self.spawn(Command::new(env!("CARGO_BIN_EXE_frognano-bot")).arg("fix").args(args)).wait_with_output().unwrap()
    }

    fn spawn(&self, command: &mut Command) -> Child {
        command.current_dir(self.path()).env("TMPDIR", self.path().join("tmp")).env("RUST_LOG", "frognano_bot=info");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The exit status and the report; the report is null where there is none.
    pub fn fix(&self, script: &[&str], args: &[&str]) -> (i32, Value) {
        self.ended(&self.start(script, args).wait_with_output().unwrap())
    }

    pub fn ended(&self, output: &Output) -> (i32, Value) {
        let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        assert_eq!(fs::read_dir(self.path().join("tmp")).unwrap().count(), 0, "something is left behind");
        (output.status.code().unwrap(), report)
    }

    /// A JSON file among the results.
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path().join("out").join(name)).unwrap()).unwrap()
    }

    pub fn written(&self) -> Vec<String> {
        let out = fs::read_dir(self.path().join("out")).unwrap();
        let mut names = out.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
        names.sort();
        names
    }
}
