//! `frognano-bot check-patch`: a patch file is read as git reads it, nothing of the repository is run or written, and the answer is for programs too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

struct Bench {
    room: TempDir,
}

impl Bench {
    fn new(files: &[(&str, &str)]) -> Self {
        let bench = Self { room: tempfile::tempdir().unwrap() };
        bench.git(&["init", "--quiet", "."]);
        for (path, text) in files {
            let path = bench.repo().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        bench.git(&["add", "-A"]);
        bench.git(&["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "-m", "base"]);
        bench
    }

    fn repo(&self) -> PathBuf {
        let repo = self.room.path().join("repo");
        std::fs::create_dir_all(&repo).unwrap();
        repo
    }

    fn git(&self, args: &[&str]) {
        assert!(Command::new("git").arg("-C").arg(self.repo()).args(args).status().unwrap().success(), "{args:?}");
    }

    fn check(&self, patch: &[u8], more: &[&str]) -> Output {
        let file = self.room.path().join("patch.diff");
        std::fs::write(&file, patch).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        command.args(["check-patch", "--repo"]).arg(self.repo()).arg("--patch").arg(&file).args(more).output().unwrap()
    }

    /// The verdict, the status, and each finding as `severity rule path`.
    fn judged(&self, patch: &[u8], more: &[&str]) -> (String, i32, Vec<String>) {
        let output = self.check(patch, &[&["--json"], more].concat());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let findings = answer["findings"].as_array().unwrap().iter();
        let shown = findings
            .map(|finding| format!("{} {} {}", text(&finding["severity"]), text(&finding["rule"]), text(&finding["path"])))
            .collect();
        (text(&answer["verdict"]), output.status.code().unwrap(), shown)
    }
}

fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

const FIX: &[u8] = b"diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n";

#[test]
fn a_fix_may_be_published_and_the_answer_says_so() {
    let bench = Bench::new(&[("src/a.py", "x = 1\n")]);
    assert_eq!(bench.judged(FIX, &[]), ("publish".to_owned(), 0, vec![]));
    let output = bench.check(FIX, &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "no rule has anything to say\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "verdict: publish\n");
}

#[test]
fn what_git_does_not_apply_is_refused_with_its_words() {
    let bench = Bench::new(&[("src/a.py", "x = 3\n")]);
    for patch in [FIX, b"nonsense", b"", b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n"]
    {
        assert_eq!(bench.judged(patch, &[]), ("refuse".to_owned(), 4, vec!["refuse patch-unreadable ".to_owned()]), "{patch:?}");
    }
    let output = bench.check(FIX, &[]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("patch does not apply"), "{output:?}");
}

#[test]
fn odd_forms_are_read_as_git_reads_them() {
    let bench = Bench::new(&[("src/a.py", "x = 1\n"), ("tests/test_a.py", "def test_a():\n    assert f() == 1\n")]);
    let without_header = b"--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n";
    assert_eq!(bench.judged(without_header, &[]).0, "publish");
    let twice = [FIX, b"diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x = 2\n+x = 1\n"].concat();
    assert_eq!(bench.judged(&twice, &[]).2, ["refuse empty "], "two sections that undo each other");
    let quoted = b"diff --git \"a/\\056github/x.yml\" \"b/\\056github/x.yml\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\056github/x.yml\"\n@@ -0,0 +1 @@\n+x\n";
    assert_eq!(bench.judged(quoted, &[]).2, ["refuse protected-path .github/x.yml"]);
    let odd = b"diff --git \"a/a\\nb\\377.txt\" \"b/a\\nb\\377.txt\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/a\\nb\\377.txt\"\n@@ -0,0 +1 @@\n+x\n";
    let (verdict, _, findings) = bench.judged(odd, &[]);
    assert_eq!((verdict.as_str(), findings), ("refuse", vec!["refuse odd-name a\nb\\xff.txt".to_owned()]));
    let shown = String::from_utf8_lossy(&bench.check(odd, &[]).stdout).into_owned();
    assert!(shown.contains("a\\u{a}b") && shown.lines().count() == 1, "{shown:?}");
    let link = b"diff --git a/src/a.py b/src/a.py\ndeleted file mode 100644\n--- a/src/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\ndiff --git a/tests/test_a.py b/tests/test_a.py\ndeleted file mode 100644\n--- a/tests/test_a.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-def test_a():\n-    assert f() == 1\ndiff --git a/tests/test_a.py b/tests/test_a.py\nnew file mode 120000\n--- /dev/null\n+++ b/tests/test_a.py\n@@ -0,0 +1 @@\n+../x.py\n\\ No newline at end of file\n";
    assert!(bench.judged(link, &[]).2.contains(&"refuse test-deleted tests/test_a.py".to_owned()), "a link in a test's place");
}

#[test]
fn nothing_of_the_repository_is_run_or_written() {
    let bench = Bench::new(&[("src/a.py", "x = 1\n"), (".gitattributes", "*.py filter=evil\n")]);
    let mark = bench.room.path().join("ran");
    let evil = format!("touch {}", mark.display());
    for key in ["filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "core.sshCommand", "diff.external", "core.pager"] {
        bench.git(&["config", key, &evil]);
    }
    std::fs::write(bench.repo().join("src/a.py"), "x = 'dirty'\n").unwrap();
    let before = files_below(&bench.repo());
    assert_eq!(bench.judged(FIX, &[]).0, "publish", "HEAD counts, not the work tree");
    assert!(!mark.exists());
    assert_eq!(files_below(&bench.repo()), before);
}

#[test]
fn a_repository_can_ask_for_less_but_not_for_more() {
    let policy = "[guard]\nprotected = [\"src/a.py\"]\nmax_files = 5000\n";
    let bench = Bench::new(&[("src/a.py", "x = 1\n"), (".frognano.toml", policy)]);
    assert_eq!(bench.judged(FIX, &[]).2, ["refuse protected-path src/a.py"]);
    let floor = bench.room.path().join("floor.toml");
    let write =
        |guard: &str| std::fs::write(&floor, format!("[model]\nurl = \"http://localhost/\"\nname = \"x\"\n[guard]\n{guard}\n")).unwrap();
    let bench = Bench::new(&[("src/a.py", "x = 1\n"), (".frognano.toml", "[guard]\nmax_lines = 5000\n")]);
    write("max_lines = 1");
    assert_eq!(bench.judged(FIX, &["--config", floor.to_str().unwrap()]).2, ["refuse size "]);
    write("protected = [\"/src/\"]");
    assert_eq!(bench.judged(FIX, &["--config", floor.to_str().unwrap()]).2, ["refuse protected-path src/a.py"]);
    let broken = Bench::new(&[("src/a.py", "x = 1\n"), (".frognano.toml", "[guard]\nprotect = 1\n")]);
    assert_eq!(broken.judged(FIX, &[]).2, ["refuse policy-unreadable "]);
}

#[test]
fn errors_of_use_are_no_verdict() {
    let bench = Bench::new(&[("src/a.py", "x = 1\n")]);
    let nowhere = tempfile::tempdir().unwrap();
    let run = |repo: &Path, patch: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
        command.args(["check-patch", "--json", "--repo"]).arg(repo).arg("--patch").arg(patch).output().unwrap()
    };
    let patch = bench.room.path().join("p.diff");
    std::fs::write(&patch, FIX).unwrap();
    for output in
        [run(nowhere.path(), &patch), run(&bench.repo(), Path::new("/nowhere.diff")), bench.check(FIX, &["--config", "/nowhere.toml"])]
    {
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{output:?}");
        assert!(!output.stderr.is_empty());
    }
}
