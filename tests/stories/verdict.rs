//! The verdict, from the repository and the model's edits to the report: real sandbox, real Python, real runs of the tests.
//!
//! `FROGNANO_TEST_PYTEST` names a virtualenv with pytest; without it those stories are skipped and say so.

use std::fs;

use serde_json::{Value, json};

use super::fix::place::{END, Place};
use super::house::House;
use frognano_bot::demo::{Kind, project};
use frognano_bot::domain::Outcome;

/// A repository in the place of the usual one, and the model's edits as one call of Bash.
fn place(files: &[(&str, &str)]) -> Place {
    let place = Place::new();
    for name in ["calc.py", "test_calc.py"] {
        fs::remove_file(place.path().join("repo").join(name)).unwrap();
    }
    write(&place, files);
    place.commit();
    place
}

fn write(place: &Place, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = place.path().join("repo").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn edits(files: &[(&str, &str)]) -> String {
    let commands =
        files.iter().map(|(path, content)| format!("mkdir -p \"$(dirname {path})\"\ncat > {path} <<'END_OF_FILE'\n{content}END_OF_FILE\n"));
    json!({"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": commands.collect::<String>()}}]}).to_string()
}

/// The exit status and the report of a patch.
fn judged(place: &Place, patch: &[(&str, &str)], args: &[&str]) -> (i32, Value) {
    place.fix(&[&edits(patch), END], args)
}

fn rules(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["rule"].as_str().unwrap()).collect()
}

const WRONG: &str = "def add(a, b):\n    return a - b\n\n\ndef twice(a):\n    return a + a\n";
const RIGHT: &str = "def add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return a + a\n";
const OLD_TEST: &str = "import unittest\n\nimport calc\n\n\nclass Old(unittest.TestCase):\n    def test_twice(self):\n        self.assertEqual(calc.twice(2), 4)\n";
const NEW_TEST: &str = "import unittest\n\nimport calc\n\n\nclass New(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n";

#[test]
fn a_new_test_that_is_red_without_the_source_proves_the_patch() {
    let place = place(&[("calc.py", WRONG), ("test_old.py", OLD_TEST)]);
    let (status, report) = judged(&place, &[("calc.py", RIGHT), ("test_new.py", NEW_TEST)], &[]);
    assert_eq!((status, &report["proof"]), (0, &json!("proved")), "{report:#}");
    assert_eq!(report["evidence"]["proving"], json!(["test_new.New::test_add"]));
    assert_eq!(report["evidence"]["hunks"], json!([{"path": "calc.py", "line": 2, "lines": 1, "noticed": true}]));
}

#[test]
fn a_new_test_that_is_green_anyway_or_misses_a_name_proves_nothing() {
    let vacuous = NEW_TEST.replace("calc.add(2, 3), 5", "calc.twice(3), 6");
    let with_thrice = format!("{WRONG}\n\ndef thrice(a):\n    return a * 3\n");
    let missing_name = NEW_TEST.replace("calc.add(2, 3), 5", "calc.thrice(3), 9");
    let missing_import = NEW_TEST.replace("import calc", "from calc import thrice").replace("calc.add(2, 3), 5", "thrice(3), 9");
    for (source, test) in [(RIGHT, &vacuous), (&with_thrice, &missing_name), (&with_thrice, &missing_import)] {
        let place = place(&[("calc.py", WRONG), ("test_old.py", OLD_TEST)]);
        let (status, report) = judged(&place, &[("calc.py", source), ("test_new.py", test)], &[]);
        assert_eq!((status, &report["proof"], &report["evidence"]["proving"]), (0, &json!("consistent"), &json!([])), "{test}{report:#}");
        assert!(report["notes"].to_string().contains("no new or changed test of the patch fails without its source"), "{report:#}");
    }
}

#[test]
fn a_part_that_no_test_notices_is_told() {
    let wrong = format!("{WRONG}\n\ndef half(a):\n    return a / 2\n");
    let right = wrong.replace("a - b", "a + b").replace("a / 2", "a * 0.5");
    let place = place(&[("calc.py", &wrong), ("test_old.py", OLD_TEST)]);
    let (status, report) = judged(&place, &[("calc.py", &right), ("test_new.py", NEW_TEST)], &[]);
    let hunks = json!([
        {"path": "calc.py", "line": 2, "lines": 1, "noticed": true},
        {"path": "calc.py", "line": 10, "lines": 1, "noticed": false},
    ]);
    assert_eq!((status, &report["proof"], &report["evidence"]["hunks"]), (0, &json!("proved"), &hunks), "{report:#}");

    fs::write(place.path().join("config.toml"), "[model]\nurl = \"http://127.0.0.1:1/\"\nname = \"m\"\n[verify]\nhunks = false\n").unwrap();
    let (_, report) = judged(&place, &[("calc.py", &right), ("test_new.py", NEW_TEST)], &["--config", "config.toml"]);
    assert_eq!((&report["proof"], &report["evidence"]["hunks"]), (&json!("proved"), &json!([])), "{report:#}");
}

#[test]
fn a_rightly_changed_expectation_is_told_loudly_and_neither_green_nor_refused() {
    let place = place(&[("calc.py", WRONG), ("test_old.py", &NEW_TEST.replace(", 5", ", -1"))]);
    let (status, report) = judged(&place, &[("calc.py", RIGHT), ("test_old.py", NEW_TEST)], &[]);
    assert_eq!((status, &report["proof"]), (0, &json!("unproved")), "{report:#}");
    assert_eq!(report["evidence"]["changed_expectations"], json!(["test_old.New::test_add"]));
    assert!(rules(&report).contains(&"tests-changed-expectation"), "{report:#}");

    let broken = RIGHT.replace("a + a", "a");
    let more = format!("{}\n    def test_twice(self):\n        self.assertEqual(calc.twice(2), 4)\n", NEW_TEST.replace(", 5", ", -1"));
    let place = super::verdict::place(&[("calc.py", WRONG), ("test_old.py", &more)]);
    let (status, report) = judged(&place, &[("calc.py", &broken), ("test_old.py", &more.replace(", -1", ", 5"))], &[]);
    assert_eq!((status, &report["reason"]), (4, &json!("tests-regressed")), "another broken test is not explained by it: {report:#}");
}

#[test]
fn a_flaky_test_at_base_counts_for_nothing_and_is_told() {
    // Sixteen coins, tossed only where the code is wrong: that all fall the same way twice happens once in 65,536 times.
    let coins =
        (0..16).map(|coin| format!("    def test_{coin}(self):\n        self.assertTrue(calc.add(2, 3) == 5 or random.random() < 0.5)\n"));
    let coins =
        format!("import random\nimport unittest\n\nimport calc\n\n\nclass Coins(unittest.TestCase):\n{}", coins.collect::<String>());
    let place = place(&[("calc.py", WRONG), ("test_old.py", OLD_TEST), ("test_coins.py", &coins)]);
    let (status, report) = judged(&place, &[("calc.py", RIGHT)], &[]);
    assert_eq!(status, 0, "{report:#}");
    let flaky = report["evidence"]["flaky"].as_array().unwrap();
    assert!(!flaky.is_empty() && flaky.iter().all(|test| test.as_str().unwrap().starts_with("test_coins.Coins::")), "{report:#}");
    for list in ["fixed", "broken", "added"] {
        assert!(report["comparison"][list].as_array().unwrap().iter().all(|test| !flaky.contains(test)), "{list}: {report:#}");
    }
}

#[test]
fn a_test_that_luck_breaks_is_told_and_one_that_never_passes_refuses() {
    // Each passes always at base, and with the patch nine times in ten: where the first run has a red one, others follow and it is told.
    let coins =
        (0..6).map(|coin| format!("    def test_{coin}(self):\n        self.assertTrue(calc.add(2, 3) == -1 or random.random() < 0.9)\n"));
    let coins =
        format!("import random\nimport unittest\n\nimport calc\n\n\nclass Coins(unittest.TestCase):\n{}", coins.collect::<String>());
    let place = place(&[("calc.py", WRONG), ("test_old.py", OLD_TEST), ("test_coins.py", &coins)]);
    let (status, report) = judged(&place, &[("calc.py", RIGHT)], &[]);
    let told = rules(&report).contains(&"tests-flaky-now");
    let red_once = report["tests"]["after"]["failed"] != json!(0);
    assert!(status == 4 && report["reason"] == "tests-regressed" || status == 0 && told == red_once, "{report:#}");

    let place = super::verdict::place(&[("calc.py", WRONG), ("test_old.py", OLD_TEST), ("test_coins.py", &coins.replace("0.9", "0"))]);
    let (status, report) = judged(&place, &[("calc.py", RIGHT)], &[]);
    assert_eq!((status, &report["reason"]), (4, &json!("tests-regressed")), "{report:#}");
}

#[test]
fn a_run_that_contradicts_itself_or_ends_early_is_never_green() {
    let quiet_exit = "import atexit\nimport os\n\n\ndef add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return 0\n\n\natexit.register(os._exit, 0)\n";
    let early = "import os\nimport sys\n\n\ndef add(a, b):\n    return a + b\n\n\ndef twice(a):\n    os._exit(0)\n";
    for source in [quiet_exit, early] {
        let place = place(&[("calc.py", WRONG), ("test_old.py", OLD_TEST)]);
        let (status, report) = judged(&place, &[("calc.py", source)], &[]);
        assert_eq!(status, 4, "{report:#}");
    }
}

#[test]
fn a_repository_may_demand_a_proof() {
    let policy = ("[verify]\nopen_with = [\"proved\", \"fixed\"]\n", ".frognano.toml");
    let place = place(&[("calc.py", WRONG), ("test_old.py", OLD_TEST), (policy.1, policy.0)]);
    let (status, report) = judged(&place, &[("calc.py", RIGHT)], &[]);
    assert_eq!((status, &report["reason"], &report["proof"]), (4, &json!("proof-not-enough"), &json!("consistent")), "{report:#}");
    let (status, report) = judged(&place, &[("calc.py", RIGHT), ("test_new.py", NEW_TEST)], &[]);
    assert_eq!((status, &report["proof"]), (0, &json!("proved")), "{report:#}");

    let place = super::verdict::place(&[("calc.py", WRONG), (policy.1, policy.0)]);
    let (status, report) = judged(&place, &[("calc.py", RIGHT)], &[]);
    assert_eq!((status, &report["reason"], &report["proof"]), (4, &json!("proof-not-enough"), &json!("unproved")), "no tests: {report:#}");
}

#[test]
fn a_judge_that_was_killed_goes_on_behind_its_last_run() {
    let place = place(&[("calc.py", WRONG), ("test_old.py", OLD_TEST)]);
    let mut killed = place.start(&[&edits(&[("calc.py", RIGHT), ("test_new.py", NEW_TEST)]), END], &[]);
    // Of one reading, since the file may be replaced between two.
    let kept = || {
        let text = fs::read(place.path().join("out/kept/checkpoint.json")).unwrap_or_default();
        let judging = serde_json::from_slice::<Value>(&text).unwrap_or_default()["judging"].take();
        let runs = |key: &str| judging[key].as_array().map(Vec::len).unwrap_or_default();
        (runs("red"), runs("green"))
    };
    while kept().0 < 1 {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let done = kept();
    assert!(done < (3, 3), "{done:?}");
    let mut seen = vec![done];
    let resumed = std::thread::scope(|scope| {
        let resumed = scope.spawn(|| place.say(&["--resume", "out"]));
        while !resumed.is_finished() {
            seen.push(kept());
            std::thread::yield_now();
        }
        resumed.join().unwrap()
    });
    assert_eq!(resumed.status.code(), Some(0));
    seen.dedup();
    let report = place.json("report.json");
    assert_eq!((&report["proof"], &report["evidence"]["proving"]), (&json!("proved"), &json!(["test_new.New::test_add"])), "{report:#}");
    let ended = seen.iter().position(|runs| *runs == (0, 0)).unwrap_or(seen.len());
    assert!(
        seen[..ended].is_sorted() && seen[ended..].len() <= 1,
        "an attempt that has ended keeps no runs, and none is made again: {seen:?}"
    );
    let checkpoint = place.json("kept/checkpoint.json");
    let stages = checkpoint["stage_ms"].as_array().unwrap().iter().filter(|stage| stage[0] == "tests_before").count();
    assert_eq!(stages, 1, "{checkpoint:#}");
}

#[test]
fn a_command_without_a_result_for_each_test_says_what_was_not_tried() {
    let place = place(&[("calc.py", WRONG), ("test_old.py", OLD_TEST)]);
    let (status, report) = judged(&place, &[("calc.py", RIGHT), ("test_new.py", NEW_TEST)], &["--test", "python3 -m unittest -q; true"]);
    assert_eq!((status, &report["proof"]), (0, &json!("consistent")), "{report:#}");
    assert!(report["notes"].to_string().contains("no result for each test"), "{report:#}");
}

/// A virtualenv with pytest; none is said.
fn pytest() -> Option<String> {
    let named = std::env::var("FROGNANO_TEST_PYTEST").ok();
    if named.is_none() {
        println!("NOT RUN: FROGNANO_TEST_PYTEST names no virtualenv with pytest");
    }
    named
}

/// As a limit on coverage does it: the suite ends badly, whatever the tests say, where the source has more lines than this.
fn with_a_limit_of(lines: usize) -> String {
    format!(
        "def pytest_sessionfinish(session):\n    if len(open('calc.py').readlines()) > {lines}:\n        session.exitstatus = 1\n        print('the limit is not kept')\n"
    )
}

#[test]
fn tests_of_a_project_that_ends_badly_at_base_are_judged_one_by_one() {
    let Some(pytest) = pytest() else { return };
    let command = format!("{pytest}/bin/python -m pytest -q");
    let args = ["--test", command.as_str(), "--bind", pytest.as_str()];
    let old = "import calc\n\n\ndef test_twice():\n    assert calc.twice(2) == 4\n";
    let new = "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n";
    let place = place(&[("calc.py", WRONG), ("test_old.py", old), ("conftest.py", &with_a_limit_of(0))]);
    let (status, report) = judged(&place, &[("calc.py", RIGHT), ("test_new.py", new)], &args);
    assert_eq!((status, &report["proof"], &report["tests"]["after"]["passed"]), (0, &json!("proved"), &json!(2)), "{report:#}");
    assert_eq!((&report["tests"]["before"]["exit_code"], &report["tests"]["after"]["exit_code"]), (&json!(1), &json!(1)), "{report:#}");
    assert!(report["notes"].to_string().contains("no test is red at base and the command of the tests ends with status 1"), "{report:#}");
    let (status, report) = judged(&place, &[("calc.py", &RIGHT.replace("a + a", "a"))], &args);
    assert_eq!((status, &report["reason"]), (4, &json!("tests-regressed")), "{report:#}");
}

#[test]
fn a_bad_end_that_a_patch_brings_is_no_result() {
    let Some(pytest) = pytest() else { return };
    let command = format!("{pytest}/bin/python -m pytest -q");
    let args = ["--test", command.as_str(), "--bind", pytest.as_str()];
    let old = "import calc\n\n\ndef test_twice():\n    assert calc.twice(2) == 4\n";
    let limit = with_a_limit_of(WRONG.lines().count());
    for red_at_base in ["", "\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n"] {
        let tests = format!("{old}{red_at_base}");
        let place = super::verdict::place(&[("calc.py", WRONG), ("test_old.py", &tests), ("conftest.py", &limit)]);
        let (status, report) = judged(&place, &[("calc.py", &format!("{RIGHT}\n\ndef more():\n    return 1\n"))], &args);
        assert_eq!((status, &report["reason"]), (4, &json!("tests-no-result")), "{report:#}");
        assert_eq!(report["tests"]["after"]["per_test"], json!(false), "{report:#}");
        assert!(!report["notes"].to_string().contains("no test is red at base"), "{report:#}");
    }
}

#[test]
fn pytest_tells_each_test_and_why_it_is_red() {
    let Some(pytest) = pytest() else { return };
    let old = "import pytest\n\nimport calc\n\n\n@pytest.mark.parametrize('a', [1, 2])\ndef test_twice(a):\n    assert calc.twice(a) == 2 * a\n\n\n@pytest.mark.skip\ndef test_off():\n    pass\n";
    let new = "import pytest\n\nimport calc\n\n\nclass TestNew:\n    def test_add(self):\n        assert calc.add(2, 3) == 5\n\n    def test_raises(self):\n        with pytest.raises(ValueError):\n            calc.add(None, 1)\n\n    def test_twice(self):\n        assert calc.twice(1) == 2\n";
    let right = RIGHT.replace("    return a + b", "    if a is None:\n        raise ValueError(a)\n    return a + b");
    let place = place(&[("calc.py", &WRONG.replace("a - b", "a and a - b")), ("tests/test_old.py", old), ("conftest.py", "")]);
    let command = format!("{pytest}/bin/python -m pytest -q");
    let args = ["--test", command.as_str(), "--bind", pytest.as_str()];
    let (status, report) = judged(&place, &[("calc.py", &right), ("tests/test_new.py", new)], &args);
    assert_eq!((status, &report["proof"]), (0, &json!("proved")), "{report:#}");
    assert_eq!(report["evidence"]["proving"], json!(["tests.test_new.TestNew::test_add", "tests.test_new.TestNew::test_raises"]));
    assert_eq!((&report["tests"]["before"]["passed"], &report["tests"]["before"]["skipped"]), (&json!(2), &json!(1)), "{report:#}");
    assert_eq!(report["tests"]["after"]["passed"], json!(5));
}

#[tokio::test]
async fn an_unchanged_base_is_measured_once() {
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let stages = async || {
        let jobs = service.jobs().await;
        let of = |job: &frognano_bot::store::JobRow| serde_json::from_str::<Value>(&job.checkpoint).unwrap()["stage_ms"].to_string();
        jobs.iter().map(of).filter(|stages| stages.contains("tests_before")).count()
    };
    for _ in 0..2 {
        let issue = house.open_issue();
        service.take(&house.label(issue)).await;
        assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
    }
    assert_eq!((service.jobs().await.len(), stages().await), (2, 1));
    assert_eq!(house.pull_requests().len(), 2);
    assert!(house.pull_requests().iter().all(|pull| pull.body.contains(project::FAILING_TEST) || pull.body.contains("fixed")));

    house.commit(|folder| fs::write(folder.join("news.txt"), "another base\n").unwrap());
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    assert!(matches!(service.outcome().await, Outcome::Proposed { .. }));
    assert_eq!(stages().await, 2, "another commit is measured again");
    service.end().await;
}
