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

impl Bench {
    /// The patch that git itself writes of a change, the work tree put back behind it.
    fn patch_of(&self, change: impl FnOnce(&Path), options: &[&str]) -> Vec<u8> {
        change(&self.repo());
        self.git(&["add", "--all", "--force"]);
        let mut diff = Command::new("git");
        diff.arg("-C").arg(self.repo()).args(["diff", "--cached", "--no-ext-diff"]).args(options).arg("HEAD");
        let patch = diff.output().unwrap().stdout;
        self.git(&["reset", "--quiet", "--hard"]);
        self.git(&["clean", "--quiet", "-ffdx"]);
        assert!(!patch.is_empty());
        patch
    }
}

fn put(path: &Path, content: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

#[test]
fn what_no_text_can_say_is_refused_or_shown_as_git_writes_it() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let test = "def test_a():\n    assert f() == 1\n";
    let bench = Bench::new(&[("src/a.py", "x = 1\n"), ("src/run.sh", "true\n"), ("tests/test_a.py", test), ("tests/card.txt", "x\n")]);
    let linked = |from: &'static str, to: &'static str| {
        move |repo: &Path| {
            std::fs::remove_file(repo.join(from)).ok();
            symlink(to, repo.join(from)).unwrap();
        }
    };
    for (from, to) in [("src/b.py", "/etc/passwd"), ("src/b.py", "../../outside"), ("src/c", "../.git/config")] {
        let said = bench.judged(&bench.patch_of(linked(from, to), &[]), &[]);
        assert!(said.0 == "refuse" && said.2.contains(&format!("refuse symlink {from}")), "{from} {to}: {said:?}");
    }
    let said = bench.judged(&bench.patch_of(linked("data", "src"), &[]), &[]);
    assert_eq!((said.0.as_str(), said.2), ("publish", vec!["flag symlink data".to_owned()]), "a link that stays inside");
    let said = bench.judged(&bench.patch_of(linked("tests/test_a.py", "../src/a.py"), &[]), &[]);
    assert!(said.2.contains(&"refuse test-deleted tests/test_a.py".to_owned()), "a link in a test's place: {said:?}");

    let submodule = |repo: &Path| {
        let index = format!("160000,{},vendored", "1".repeat(40));
        assert!(Command::new("git").arg("-C").arg(repo).args(["update-index", "--add", "--cacheinfo", &index]).status().unwrap().success());
    };
    submodule(&bench.repo());
    let diff = Command::new("git").arg("-C").arg(bench.repo()).args(["diff", "--cached", "HEAD"]).output().unwrap().stdout;
    bench.git(&["reset", "--quiet", "--hard"]);
    let said = bench.judged(&diff, &[]);
    assert!(said.0 == "refuse" && said.2.iter().any(|finding| finding.ends_with(" vendored")), "{said:?}");

    let executable =
        |path: &'static str| move |repo: &Path| std::fs::set_permissions(repo.join(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = bench.judged(&bench.patch_of(executable("src/run.sh"), &[]), &[]);
    assert_eq!((said.0.as_str(), said.2), ("publish", vec!["flag mode-changed src/run.sh".to_owned()]));

    for path in ["src/logo.png", "src/a.pyc", "tests/card.txt"] {
        let patch = bench.patch_of(|repo| put(&repo.join(path), b"\x89PNG\0\x01\x02"), &["--binary"]);
        assert!(patch.windows(16).any(|part| part == b"GIT binary patch"), "{path}");
        let said = bench.judged(&patch, &[]);
        assert!(said.0 == "refuse" && said.2.contains(&format!("refuse binary {path}")), "{path}: {said:?}");
    }
    let without_bytes = bench.patch_of(|repo| put(&repo.join("src/logo.png"), b"\x89PNG\0\x01"), &[]);
    assert_eq!(bench.judged(&without_bytes, &[]).2, ["refuse patch-unreadable "]);

    // Git writes a text as bytes where an attribute says so.
    let bent = |repo: &Path| put(&repo.join("tests/test_a.py"), b"def test_a():\n    assert f() == 1 or True\n");
    put(&bench.repo().join(".git/info/attributes"), b"*.py binary\n");
    let patch = bench.patch_of(bent, &["--binary"]);
    assert!(patch.windows(16).any(|part| part == b"GIT binary patch"));
    let said = bench.judged(&patch, &[]);
    assert!(said.2.contains(&"refuse test-weakened tests/test_a.py".to_owned()), "a text in a binary patch: {said:?}");
}

#[test]
fn names_are_what_git_says_they_are() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let bench = Bench::new(&[("src/Cart.py", "x = 1\n"), ("tests/test_a.py", "def test_a():\n    assert f() == 1\n")]);
    for name in [&b"src/cart.py"[..], b"SRC/more.py", b"src/a\nb.py", b"src/a\xff.py", b"src/\x1b[2Jx.py", b"src/a\tb.py"] {
        let patch = bench.patch_of(|repo| put(&repo.join(OsStr::from_bytes(name)), b"y = 1\n"), &[]);
        let said = bench.judged(&patch, &[]);
        assert!(said.0 == "refuse" && said.2.iter().any(|finding| finding.starts_with("refuse odd-name ")), "{name:?}: {said:?}");
    }
    let patch = bench.patch_of(|repo| put(&repo.join(".github/workflows/ü.yml"), b"on: push\n"), &[]);
    assert!(patch.windows(8).any(|part| part == b"\\303\\274"), "{}", String::from_utf8_lossy(&patch));
    assert!(bench.judged(&patch, &[]).2.contains(&"refuse protected-path .github/workflows/ü.yml".to_owned()));

    // The test leaves under one name and comes back under another, in one section and in two.
    let renamed = |repo: &Path| std::fs::rename(repo.join("tests/test_a.py"), repo.join("tests/a.py")).unwrap();
    for options in [&["--find-renames"][..], &["--no-renames"]] {
        let said = bench.judged(&bench.patch_of(renamed, options), &[]);
        assert!(said.2.contains(&"refuse test-deleted tests/test_a.py".to_owned()), "{options:?}: {said:?}");
    }
    let first = bench.patch_of(|repo| put(&repo.join("src/Cart.py"), b"x = 2\n"), &[]);
    let second = String::from_utf8(first.clone()).unwrap().replace("+x = 2", "+import os; os._exit(0)").replace("-x = 1", "-x = 2");
    let said = bench.judged(&[first.as_slice(), second.as_bytes()].concat(), &[]);
    assert!(said.2.contains(&"refuse early-exit src/Cart.py".to_owned()), "the last of two sections counts: {said:?}");
    let bare: String = String::from_utf8(first)
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with("diff ") && !line.starts_with("index "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(bench.judged(bare.as_bytes(), &[]).0, "publish", "a section without a header is one");
    let bare = bare.replace("src/Cart.py", "tests/test_a.py");
    assert_eq!(bench.judged(bare.as_bytes(), &[]).2, ["refuse patch-unreadable "]);
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
