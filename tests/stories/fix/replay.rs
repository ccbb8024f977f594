//! `fix --replay` tells the truth: however a run ended and whatever it went through, the same answers make the same bytes, or it says why not.

use std::fs;
use std::process::Child;

use frognano_bot::demo::model_server::ModelServer;
use frognano_bot::model::{RestartOn, Script, Scripted};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::place::{END, FIX, Place};

const UNREAD: &str = r#"{"error": {"status": 500, "message": "Failed to parse input at pos 12: <tool_call>"}}"#;
const HALF: &str = r#"{"raw": true, "content": "<tool_call>\n<function=Write>\n<parameter=file_path>\na.py\n", "finish_reason": "stop"}"#;
const LOST: &str = r#"{"raw": true, "content": "So.\n<tool_call>\n<function=Write>\n<parameter=file_path>\na.txt\n</parameter>\n<parameter=content>\nü\n</parameter>\n</function>\n</tool_call>", "finish_reason": "stop"}"#;
const READ: &str = r#"{"content": "", "tool_calls": [{"name": "Read", "arguments": {"file_path": "calc.py"}}]}"#;
const FULL: &str =
    r#"{"error": {"status": 400, "type": "exceed_context_size_error", "message": "the request exceeds the available context size"}}"#;
const CUT: &str = r#"{"content": "and so on", "tool_calls": [{"name": "Bash", "arguments": {"command": "rm calc.py"}}], "finish_reason": "length", "usage": null}"#;
const CUT_EARLY: &str = r#"{"content": "and so", "finish_reason": "length"}"#;

fn bash(command: &str) -> String {
    json!({"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": command}}]}).to_string()
}

impl Place {
    /// A configuration with these budgets; its model is nowhere.
    fn budgets(&self, run: &str) {
        let text = format!("[model]\nurl = \"http://127.0.0.1:9/v1\"\nname = \"m\"\nrequest_seconds = 1\n[run]\n{run}\n");
        fs::write(self.path().join("frognano.toml"), text).unwrap();
    }

    /// The exit status and what is said of the run.
    fn replay(&self) -> (i32, Value) {
        self.ended(&self.say(&["--replay", "out", "--json"]))
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.json(name);
        change(&mut value);
        fs::write(self.path().join("out").join(name), value.to_string()).unwrap();
    }

    fn start_with(&self, server: &ModelServer) -> Child {
        self.start(&[], &["--config", "frognano.toml", "--model-url", &server.base_url, "--model", "scripted"])
    }
}

async fn server(lines: &[&str]) -> ModelServer {
    ModelServer::start(Scripted::new(Script::parse(&lines.join("\n")).unwrap(), RestartOn::Never)).await.unwrap()
}

/// A run that ended so is the same again, whatever the configuration says by then.
fn assert_same_again(place: &Place, ending: &str, repeated_ending: &str) {
    let trajectory = place.json("trajectory.json");
    assert_eq!(trajectory["exit_reason"], ending, "{trajectory}");
    place.budgets("max_steps = 1\nmax_seconds = 1\nmax_tokens_per_turn = 1\nstuck_after = 2");
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"], &told["same_answers"]), (0, &json!(true), &json!(true)), "{told}");
    assert_eq!((&told["recorded_ending"], &told["repeated_ending"]), (&json!(ending), &json!(repeated_ending)), "{told}");
    assert_eq!((&told["recorded_sha256"], &told["steps_with_other_observations"]), (&told["repeated_sha256"], &json!(0)), "{told}");
    assert!(told["recorded_sha256"].is_string(), "{told}");
}

#[test]
fn each_ending_that_the_answers_decide_is_the_same_again() {
    let cases: [(&str, &[&str], &str); 8] = [
        ("agent", &[UNREAD, UNREAD, HALF, LOST, FIX, UNREAD, UNREAD, END], ""),
        ("agent", &[r#"{"error": {"status": 503, "message": "busy"}}"#, FIX, END], ""),
        ("max_context_len", &[FIX, FULL], ""),
        ("max_context_len", &[FIX, CUT_EARLY], ""),
        ("max_turns", &[FIX, READ, END], "max_steps = 2"),
        ("stuck", &[FIX, READ, READ, READ, END], "stuck_after = 3"),
        ("max_tokens_per_turn", &[FIX, CUT, END], ""),
        ("max_tokens_per_turn", &[FIX, CUT, READ, CUT, CUT], "retry_cut_turns = true"),
    ];
    for (ending, script, budgets) in cases {
        let place = Place::new();
        place.budgets(budgets);
        let (status, report) = place.fix(script, &["--config", "frognano.toml"]);
        assert_eq!((status, &report["outcome"]), (0, &json!("proposed")), "{ending}: {report}");
        assert_same_again(&place, ending, ending);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_given_up_for_time_is_said_to_be_no_part_of_the_replay() {
    let (place, server) = (Place::new(), server(&[FIX, END]).await);
    place.budgets("max_seconds = 3");
    let config = fs::read_to_string(place.path().join("frognano.toml")).unwrap().replace("request_seconds = 1", "request_seconds = 100");
    fs::write(place.path().join("frognano.toml"), config).unwrap();
    let _held = server.hold(1);
    let (status, report) = place.ended(&place.start_with(&server).wait_with_output().unwrap());
    assert_eq!((status, &report["exit_reason"]), (0, &json!("max_time")), "{report}");
    assert_same_again(&place, "max_time", "max_context_len");
    let why = place.replay().1["why"].to_string();
    assert!(why.contains("can't be repeated"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_killed_and_gone_on_with_is_the_same_again() {
    let (place, server) = (Place::new(), server(&[UNREAD, UNREAD, FIX, HALF, LOST, END]).await);
    place.budgets("");
    let reached = server.hold(3);
    let mut killed = place.start_with(&server);
    reached.await.unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(String::from_utf8(place.say(&["--replay", "out"]).stderr).unwrap().contains("--resume goes on with it"));
    assert_eq!(place.say(&["--resume", "out"]).status.code(), Some(0));
    let trajectory = place.json("trajectory.json");
    assert_eq!((&trajectory["n_steps"], trajectory["frognano"]["recoveries"].as_array().map(Vec::len)), (&json!(5), Some(1)));
    fs::remove_dir_all(place.path().join("tmp")).unwrap();
    fs::create_dir(place.path().join("tmp")).unwrap();
    assert_same_again(&place, "agent", "agent");
}

/// Breaks the test that passes.
fn red() -> String {
    bash("printf 'def add(a, b):\\n    return 7\\n' > calc.py")
}

#[test]
fn of_several_attempts_the_best_is_written_on_top_and_repeated() {
    let place = Place::new();
    let (status, report) = place.fix(&[&red(), END, FIX, END], &[]);
    assert_eq!((status, &report["attempts"][1]["chosen"]), (0, &json!(true)), "{report}");
    let patch = |name: &str| fs::read_to_string(place.path().join("out").join(name)).unwrap();
    assert_eq!(patch("patch.diff"), patch("attempt-2/patch.diff"));
    assert!(patch("pull-request.md").contains("2 attempts were made"));
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"], &told["same_answers"], &told["steps"]), (0, &json!(true), &json!(true), &json!(2)), "{told}");

    let (status, report) = place.fix(&[&red(), END, END], &[]);
    assert_eq!((status, report["attempts"].as_array().map(Vec::len)), (4, Some(2)), "{report}");
    assert!(place.written().contains(&"patch.diff".to_owned()), "the red patch is there to be looked at");
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"]), (0, &json!(true)), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_killed_in_a_further_attempt_goes_on_with_that_one() {
    let (place, server) = (Place::new(), server(&[&red(), END, FIX, END]).await);
    place.budgets("");
    let reached = server.hold(3);
    let mut killed = place.start_with(&server);
    reached.await.unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(place.say(&["--resume", "out"]).status.code(), Some(0));
    assert_eq!(server.requests().len(), 5, "only the turn that was under way is asked for again");
    let report = place.json("report.json");
    assert_eq!((&report["proof"], report["attempts"].as_array().map(Vec::len)), (&json!("fixed"), Some(2)), "{report}");
    fs::remove_dir_all(place.path().join("tmp")).unwrap();
    fs::create_dir(place.path().join("tmp")).unwrap();
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"]), (0, &json!(true)), "{told}");
}

/// Ends the sandbox that a run is in from outside.
fn end_sandbox_of(run: &Child) {
    let stat = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    let parent_and_name = |stat: &str| {
        let (pid, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        Some((pid.parse::<i32>().ok()?, name.to_owned(), rest.split(' ').nth(1)?.parse::<u32>().ok()?))
    };
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| parent_and_name(&stat(entry.ok()?)?));
    let found: Vec<_> = all.filter(|(_, name, parent)| *parent == run.id() && name == "bwrap").collect();
    assert_eq!(found.len(), 1, "{found:?}");
    kill(Pid::from_raw(found[0].0), Signal::SIGKILL).unwrap();
}

/// A run whose sandbox is ended after the first step, in the middle of a turn that is asked again when its request was given up.
async fn run_with_a_lost_sandbox(place: &Place, lines: &[&str]) {
    let server = server(lines).await;
    place.budgets("");
    let reached = server.hold(1);
    let run = place.start_with(&server);
    reached.await.unwrap();
    end_sandbox_of(&run);
    let (status, report) = place.ended(&run.wait_with_output().unwrap());
    assert_eq!((status, &report["outcome"]), (0, &json!("proposed")), "{report}");
    assert_eq!(place.json("trajectory.json")["frognano"]["recoveries"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_lost_its_sandbox_is_the_same_again_unless_the_loss_showed() {
    let place = Place::new();
    run_with_a_lost_sandbox(&place, &[FIX, READ, READ, END]).await;
    assert_same_again(&place, "agent", "agent");

    let place = Place::new();
    let (before, after) = (bash("echo kept > /tmp/note"), bash("cat /tmp/note > note.txt 2>&1; sed -i 's/a - b/a + b/' calc.py"));
    run_with_a_lost_sandbox(&place, &[&before, READ, &after, END]).await;
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"]), (1, &json!(false)), "{told}");
    assert!(told["why"].to_string().contains("a new sandbox before step 1"), "{told}");
}

#[test]
fn what_was_changed_since_is_told_as_different() {
    let place = Place::new();
    place.fix(&[LOST, FIX, END], &[]);
    let patch = fs::read(place.path().join("out/patch.diff")).unwrap();
    let trajectory = place.json("trajectory.json");

    fs::write(place.path().join("out/patch.diff"), [&patch[..], b"\n"].concat()).unwrap();
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"], &told["same_answers"]), (1, &json!(false), &json!(true)), "{told}");
    assert!(told["why"][0].as_str().unwrap().contains("patch.diff is not what the run wrote"), "{told}");
    fs::remove_file(place.path().join("out/patch.diff")).unwrap();
    assert_eq!((place.replay().0, &place.replay().1["same_patch"]), (1, &json!(false)));
    fs::write(place.path().join("out/patch.diff"), &patch).unwrap();

    let recovered = trajectory["frognano"]["turns"][0]["raw"]["content"].as_str().unwrap().replace('ü', "u");
    place.change("trajectory.json", |kept| kept["frognano"]["turns"][0]["raw"]["content"] = json!(recovered));
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"], &told["same_answers"]), (1, &json!(false), &json!(false)), "{told}");
    assert!(told["why"].to_string().contains("step 0 of trajectory.json"), "{told}");

    fs::write(place.path().join("out/trajectory.json"), trajectory.to_string()).unwrap();
    place.change("trajectory.json", |kept| kept["steps"][2]["assistant"]["content"] = json!("done."));
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"], &told["same_answers"]), (1, &json!(true), &json!(false)), "the patch is: {told}");
    let said = String::from_utf8(place.say(&["--replay", "out"]).stdout).unwrap();
    assert!(said.starts_with("the same patch, byte for byte, but NOT from the answers of the run; 3 steps"), "{said}");

    fs::write(place.path().join("out/trajectory.json"), trajectory.to_string()).unwrap();
    assert_eq!(place.replay().0, 0);
}

#[test]
fn chance_is_no_replay() {
    let place = Place::new();
    place.fix(&[FIX, &bash("cat /proc/sys/kernel/random/uuid > chance.txt"), END], &[]);
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"]), (1, &json!(false)), "{told}");
    assert!(told["why"][0].as_str().unwrap().contains("chance"), "{told}");

    place.fix(&[FIX, &bash("cat /proc/sys/kernel/random/uuid"), END], &[]);
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"], &told["steps_with_other_observations"]), (0, &json!(true), &json!(1)), "{told}");
    assert!(told["why"][0].as_str().unwrap().contains("step 1"), "{told}");
}

#[test]
fn a_run_without_a_patch_has_none_again() {
    let place = Place::new();
    for (script, verdict) in [
        (&[READ, END][..], "no patch, as before; 2 steps, 0 with other observations; no_patch (nothing_changed)"),
        (&[FIX, &bash("rm test_calc.py"), END][..], "no patch, as before; 3 steps, 0 with other observations; refused (test-deleted)"),
    ] {
        place.fix(script, &[]);
        let replayed = place.say(&["--replay", "out"]);
        assert_eq!((replayed.status.code(), String::from_utf8(replayed.stdout).unwrap().trim_end()), (Some(0), verdict));
    }
    place.change("trajectory.json", |kept| kept["steps"][1]["assistant"]["tool_calls"][0]["function"]["arguments"] = json!("{}"));
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"], &told["recorded_sha256"]), (1, &json!(false), &json!(null)), "{told}");
}

#[test]
fn a_circle_without_a_change_is_called_one() {
    let place = Place::new();
    place.budgets("stuck_after = 2");
    let (status, report) = place.fix(&[READ, READ, END], &["--config", "frognano.toml"]);
    assert_eq!((status, &report["outcome"], &report["reason"]), (3, &json!("no_patch"), &json!("stuck")), "{report}");
    assert!(report["detail"].as_str().unwrap().contains("round in circles"), "{report}");
    let (status, told) = place.replay();
    assert_eq!((status, &told["reason"], &told["repeated_ending"]), (0, &json!("stuck"), &json!("stuck")), "{told}");
}

#[test]
fn a_run_with_nothing_to_repeat_says_so() {
    let place = Place::new();
    let said = || {
        let output = place.say(&["--replay", "out"]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(place.fix(&[FIX, r#"{"error": {"status": 400, "message": "no such adapter"}}"#], &[]).1["reason"], "model_failed");
    let broken = said();
    assert!(broken.contains("llm_query_error") && broken.contains("no such adapter") && broken.contains("--resume"), "{broken}");

    fs::create_dir(place.path().join("empty")).unwrap();
    place.git(&["init", "--quiet", "../empty"]);
    assert_eq!(place.fix(&[END], &["--repo", "empty"]).1["reason"], "empty_repository");
    let nothing = said();
    assert!(nothing.contains("no_patch empty_repository") && nothing.contains("nothing to repeat"), "{nothing}");
}

#[test]
fn a_replay_that_can_t_be_made_is_not_called_another_patch() {
    let place = Place::new();
    place.fix(&[FIX, END], &[]);
    fs::rename(place.path().join("repo/.git"), place.path().join("elsewhere")).unwrap();
    let (status, told) = place.replay();
    assert_eq!((status, &told["same_patch"], &told["recorded_sha256"].is_string()), (1, &json!(false), &true), "{told}");
    assert!(told["why"].to_string().contains("the replay came to no end: "), "{told}");
    let said = String::from_utf8(place.say(&["--replay", "out"]).stdout).unwrap();
    assert!(said.starts_with("NOT repeated; "), "{said}");
}
