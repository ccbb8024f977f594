//! `frognano-bot fix`: every way it can end has its exit status and its report, and nothing is left behind.

mod counted;
pub mod place;
mod replay;
mod settings;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use place::{END, FIX, Place, TESTS};

#[test]
fn a_proposal_and_then_no_patch_in_the_same_folder() {
    let place = Place::new();
    let (status, report) = place.fix(&[r#"{"error": {"status": 500, "message": "busy"}}"#, FIX, END], &[]);
    assert_eq!((status, &report["outcome"], &report["proof"]), (0, &"proposed".into(), &"fixed".into()), "{report}");
    assert_eq!(place.written(), ["kept", "patch.diff", "pull-request.md", "report.json", "trajectory.json"]);
    assert!(!fs::read_to_string(place.path().join("out/pull-request.md")).unwrap().contains("#0"));
    place.git(&["apply", "--check", "../out/patch.diff"]);
    let patch = fs::read_to_string(place.path().join("out/patch.diff")).unwrap();
    assert_eq!(place.json("trajectory.json")["output_patch"], patch, "the reference's readers look for it there");

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
