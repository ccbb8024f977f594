//! The attack suite: every case of `tests/guard`, and those of a folder elsewhere where there is one. Both rates are printed.

use std::path::{Path, PathBuf};
use std::process::Command;

use frognano_bot::domain::{BlobMode, ChangedFile, Finding, Severity};
use frognano_bot::guard::{self, Base, Limits};

mod cases;

use cases::{Case, Files, cases};

fn findings(case: &Case) -> Vec<Finding> {
    let blob = |files: &Files, path: &str| files.get(path).map(|text| (BlobMode::File, text.clone().into_bytes()));
    let paths = case.base.keys().chain(case.after.keys().filter(|path| !case.base.contains_key(*path)));
    let changed = paths.filter(|path| case.base.get(*path) != case.after.get(*path));
    let changed =
        changed.map(|path| ChangedFile { path: path.clone().into_bytes(), before: blob(&case.base, path), after: blob(&case.after, path) });
    let wanted = case.base.iter().filter(|(path, _)| Base::wants(path.as_bytes()));
    let base = Base {
        paths: case.base.keys().map(|path| path.clone().into_bytes()).collect(),
        files: wanted.map(|(path, text)| (path.clone().into_bytes(), text.clone().into_bytes())).collect(),
    };
    match guard::check(changed.collect(), &Limits::default(), &base) {
        Ok(patch) => patch.flags().to_vec(),
        Err(findings) => findings,
    }
}

/// What is wrong with an answer; none where it is right.
fn complaint(case: &Case, findings: &[Finding]) -> Option<&'static str> {
    let refused = findings.iter().any(|finding| finding.severity == Severity::Refuse);
    match (case.is_attack(), case.expect.as_str()) {
        (true, "refuse") if !refused => Some("is not refused"),
        (true, "flag") if findings.is_empty() => Some("is not seen"),
        (false, _) if refused => Some("is refused"),
        (false, "flag") if findings.is_empty() => Some("is not shown"),
        _ => None,
    }
}

#[test]
fn every_attack_is_caught_and_no_honest_fix_refused() {
    let cases = cases();
    let mut wrong = Vec::new();
    let count = |attacks: bool| cases.iter().filter(|case| case.is_attack() == attacks).count();
    for case in &cases {
        let findings = findings(case);
        if let Some(complaint) = complaint(case, &findings) {
            let said: Vec<_> = findings
                .iter()
                .map(|finding| format!("{:?} {} {}: {}", finding.severity, finding.rule, finding.path, finding.why))
                .collect();
            wrong.push((case.is_attack(), format!("{} {complaint}: {said:#?}", case.name)));
        }
    }
    let (missed, refused) = (wrong.iter().filter(|(attack, _)| *attack).count(), wrong.iter().filter(|(attack, _)| !attack).count());
    println!("attacks missed {missed}/{}, honest fixes refused or not shown {refused}/{}", count(true), count(false));
    assert!(count(true) >= 40 && count(false) >= 25);
    assert!(wrong.is_empty(), "{}", wrong.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>().join("\n"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    #[test]
    fn no_bytes_make_a_rule_fail(case in 0usize..100_000, cut in 0usize..4000, more: Vec<u8>, name in "[a-z./_]{0,9}(test_a.py|conftest.py|pyproject.toml|tox.ini|a.py|Makefile|.coveragerc)") {
        let cases = cases();
        let case = &cases[case % cases.len()];
        let text = case.after.values().map(String::as_str).collect::<String>();
        let broken = |text: &str| [&text.as_bytes()[..cut.min(text.len())], &more, &text.as_bytes()[cut.min(text.len())..]].concat();
        let before = Some((BlobMode::File, case.base.values().map(String::as_str).collect::<String>().into_bytes()));
        let after = Some((BlobMode::File, broken(&text)));
        let files = [(name.clone().into_bytes(), before.clone(), after.clone()), (more.clone(), None, after), (name.into_bytes(), before, None)];
        for (path, before, after) in files {
            let asked = guard::check(vec![ChangedFile { path, before, after }], &Limits::default(), &Base::default());
            let findings = asked.map_or_else(|findings| findings, |patch| patch.flags().to_vec());
            assert!(!findings.iter().any(|finding| finding.rule == "guard"), "{findings:?}");
        }
    }
}

/// Files that the rules read in ways of their own.
const PATHS: [&str; 10] = [
    "src/a.py",
    "tests/test_a.py",
    "conftest.py",
    "pyproject.toml",
    "tox.ini",
    "Makefile",
    "a.test.js",
    "a_test.go",
    ".gitignore",
    "notes.md",
];

/// What the rules say of a test file whose text becomes another one, whatever the limits of a configuration are.
fn said_of(path: &str, text: &str) -> Vec<Finding> {
    let wide = Limits { max_bytes: u64::MAX, max_lines: u64::MAX, ..Limits::default() };
    let file = ChangedFile {
        path: path.as_bytes().to_vec(),
        before: Some((BlobMode::File, b"def test_a():\n    assert f() == 1\n".to_vec())),
        after: Some((BlobMode::File, text.as_bytes().to_vec())),
    };
    guard::check(vec![file], &wide, &Base::default()).map_or_else(|findings| findings, |patch| patch.flags().to_vec())
}

fn refuses(findings: &[Finding], rule: &str) -> bool {
    findings.iter().any(|finding| finding.rule == rule && finding.severity == Severity::Refuse)
}

#[test]
fn what_is_too_large_to_be_read_is_refused() {
    let texts = ["a", "x = 1 ", "\"", "$\u{202e}", "some line\n"].map(|text| text.repeat(4_300_000 / text.len()));
    for (path, text) in PATHS.iter().zip(texts.iter().cycle()) {
        let findings = said_of(path, text);
        assert!(refuses(&findings, "size"), "{path}: {findings:?}");
        assert!(!findings.iter().any(|finding| finding.rule == "guard"), "{path}: {findings:?}");
    }
}

#[test]
fn what_is_too_deep_to_be_read_is_refused() {
    let deep = |text: &str| format!("x = {}1\n", text.repeat(20_000));
    let texts = [
        deep("("),
        deep("["),
        deep("lambda: "),
        deep("f(x)."),
        deep("x.y(1)("),
        deep("not "),
        deep("'a' + "),
        format!("x = a{}\n", ".b(1)".repeat(500)),
        format!("{}x = 1\n", (0..500).map(|n| format!("{}if x:\n", " ".repeat(n))).collect::<String>()),
    ];
    for (n, text) in texts.iter().enumerate() {
        for path in PATHS {
            let findings = said_of(path, text);
            assert!(!findings.iter().any(|finding| finding.rule == "guard"), "{path} {n}: {findings:?}");
            assert!(!path.ends_with(".py") || refuses(&findings, "unreadable-python"), "{path} {n}: {findings:?}");
        }
    }
}

#[test]
fn what_doubles_or_repeats_makes_no_rule_fail() {
    let each = |count: usize, line: fn(usize) -> String| (0..count).map(line).collect::<String>();
    let texts = [
        each(60, |n| format!("x{} = x{n} + x{n}\n", n + 1)) + "def test_a():\n    assert x60 == x60\n",
        format!("def test_a():\n{}    assert a60 == 1\n", each(60, |n| format!("    a{} = a{n} + a{n}\n", n + 1))),
        format!("x0 = 'a'\n{}", each(60, |n| format!("x{} = x{n} + x{n}\n", n + 1))),
        format!("x = {}f()\n", "'a' + ".repeat(400)),
        format!("assert {}x\n", each(500, |n| format!("x == {n} or "))),
        each(1000, |n| format!("def test_{n}():\n    assert f({n}) == {n}\n")),
        each(1000, |n| format!("class A:\n    def test_{n}(self):\n        self.assertEqual(f({n}), {n})\n")),
        each(1000, |n| format!("pytest tests/test_{n}.py\n")),
        format!("[pytest]\naddopts = {}\nnorecursedirs = {}\n", "-k x ".repeat(5000), "a* ".repeat(5000)),
        format!("[tool.pytest.ini_options]\nnorecursedirs = [{}]\n", "\"a*\", ".repeat(5000)),
    ];
    for (n, text) in texts.iter().enumerate() {
        for path in PATHS {
            let findings = said_of(path, text);
            assert!(!findings.iter().any(|finding| finding.rule == "guard"), "{path} {n}: {findings:?}");
        }
    }
}

#[test]
fn the_cases_of_another_folder_come_out_right_too() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/guard");
    let named = std::env::var_os("FROGNANO_GUARD_CASES").map(PathBuf::from);
    let folder = named.clone().unwrap_or(beside);
    if named.is_none() && !folder.join("measure.py").is_file() {
        println!("NOT RUN: there are no cases in {}; FROGNANO_GUARD_CASES names another folder", folder.display());
        return;
    }
    let mut measure = Command::new("python3");
    measure.arg("-B").arg(folder.join("measure.py")).args(["--bot", env!("CARGO_BIN_EXE_frognano-bot")]);
    let output = measure.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}
