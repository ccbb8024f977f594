use std::path::Path;
use std::process::Command;

use frognano_bot::demo::branch_tip;
use serde_json::Value;

use super::sample;

fn run_tests(folder: &Path) -> (bool, String) {
    let output = Command::new("python3").args(["-B", "-m", "unittest", "-v"]).current_dir(folder).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// Plays the edits of the recorded session, and so shows that they still fit the files.
#[test]
fn the_project_has_one_bug_and_the_script_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    sample::write_to(folder.path()).unwrap();
    let (green, said) = run_tests(folder.path());
    assert!(!green && said.contains("Ran 9 tests") && said.contains("FAILED (failures=1)"), "{said}");
    assert!(said.contains(&format!("FAIL: {}", sample::FAILING_TEST)), "{said}");

    let turns: Vec<Value> = sample::SCRIPT.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<&Value> = turns.iter().flat_map(|turn| turn["tool_calls"].as_array().into_iter().flatten()).collect();
    let names: Vec<_> = calls.iter().map(|call| call["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Glob", "Read", "Read", "Bash", "Edit", "Bash"]);
    assert!(turns.iter().all(|turn| !turn["reasoning_content"].as_str().unwrap().is_empty()));
    assert!(turns.last().unwrap().get("tool_calls").is_none(), "the last turn is the answer");
    for edit in calls.iter().filter(|call| call["name"] == "Edit").map(|call| &call["arguments"]) {
        let file = folder.path().join(edit["file_path"].as_str().unwrap());
        let (text, old) = (std::fs::read_to_string(&file).unwrap(), edit["old_string"].as_str().unwrap());
        assert_eq!(text.matches(old).count(), 1);
        std::fs::write(file, text.replace(old, edit["new_string"].as_str().unwrap())).unwrap();
    }
    let (green, said) = run_tests(folder.path());
    assert!(green, "{said}");
}

#[test]
fn the_repository_is_the_same_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let tips = ["one.git", "other.git"].map(|name| {
        sample::make_bare(&folder.path().join(name)).unwrap();
        branch_tip(&folder.path().join(name), sample::DEFAULT_BRANCH).unwrap()
    });
    assert_eq!(tips[0], tips[1]);
    assert!(sample::issue_title().starts_with("Instalments lose cents") && sample::issue_body().contains("```python"));
}
