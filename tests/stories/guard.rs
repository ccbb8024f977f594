//! The attack suite: every case of `tests/guard`, and those of a folder elsewhere where there is one. Both rates are printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use frognano_bot::domain::{BlobMode, ChangedFile, Finding, Severity};
use frognano_bot::guard::{self, Base, Limits};

type Files = BTreeMap<String, String>;

/// One file of `tests/guard/cases`, read.
struct Case {
    name: String,
    expect: String,
    base: Files,
    after: Files,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guard")
}

/// The parts of a file: what stands after `--- `, and the text until the next.
fn parts(text: &str) -> Vec<(String, String)> {
    let mut parts: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        match (line.strip_prefix("--- "), parts.last_mut()) {
            (Some(head), _) => parts.push((head.trim_end().to_owned(), String::new())),
            (None, Some((_, body))) => body.push_str(line),
            (None, None) => {}
        }
    }
    parts
}

fn read(path: &Path) -> Case {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let field = |field: &str| {
        text.lines().take_while(|line| !line.starts_with("--- ")).find_map(|line| line.strip_prefix(field)?.strip_prefix(": "))
    };
    let mut base = Files::new();
    if let Some(project) = field("project") {
        let project = std::fs::read_to_string(folder().join(format!("projects/{}.txt", project.trim()))).unwrap();
        base.extend(parts(&project).into_iter().map(|(head, body)| (head.strip_prefix("base ").unwrap().to_owned(), body)));
    }
    let parts = parts(&text);
    base.extend(parts.iter().filter_map(|(head, body)| Some((head.strip_prefix("base ")?.to_owned(), body.clone()))));
    let mut after = base.clone();
    for (head, body) in &parts {
        let (verb, path) = head.split_once(' ').unwrap();
        let missing = format!("{name}: {path} is not in base");
        match verb {
            "base" => {}
            "new" => drop(after.insert(path.to_owned(), body.clone())),
            "append" => after.get_mut(path).expect(&missing).push_str(body),
            "delete" => drop(after.remove(path).expect(&missing)),
            "rename" => {
                let (from, to) = path.split_once(' ').unwrap();
                let content = after.remove(from).expect(&missing);
                after.insert(to.to_owned(), content);
            }
            "edit" => {
                let content = after.get_mut(path).expect(&missing);
                for edit in body.split("..\n") {
                    let (from, to) = edit.split_once("=>\n").unwrap_or_else(|| panic!("{name}: an edit without =>"));
                    assert_eq!(content.matches(from).count(), 1, "{name}: {path} has not once {from:?}");
                    *content = content.replacen(from, to, 1);
                }
            }
            _ => panic!("{name}: {verb} is no part of a case"),
        }
    }
    assert_ne!(base, after, "{name} changes nothing");
    let expect = field("expect").unwrap().to_owned();
    assert!(matches!(expect.as_str(), "refuse" | "flag" | "publish") && field("why").is_some(), "{name}");
    Case { name, expect, base, after }
}

fn cases() -> Vec<Case> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder().join("cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|path| read(path)).collect()
}

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
    match (case.name.starts_with("attack-"), case.expect.as_str()) {
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
    let count = |attacks: bool| cases.iter().filter(|case| case.name.starts_with("attack-") == attacks).count();
    for case in &cases {
        let findings = findings(case);
        if let Some(complaint) = complaint(case, &findings) {
            let said: Vec<_> = findings
                .iter()
                .map(|finding| format!("{:?} {} {}: {}", finding.severity, finding.rule, finding.path, finding.why))
                .collect();
            wrong.push((case.name.starts_with("attack-"), format!("{} {complaint}: {said:#?}", case.name)));
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
