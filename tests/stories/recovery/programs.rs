//! `frognano-bot fix` as a process of its own: it is killed and gone on with.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command as Program, Output, Stdio};
use std::time::Duration;

use frognano_bot::demo::model_server::ModelServer;
use frognano_bot::demo::project;
use frognano_bot::leaf::Trajectory;
use frognano_bot::model::{RestartOn, Script, Scripted};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::world::status;

/// `frognano-bot fix` on the sample project, the model being a server that a story can hold.
fn fix(folder: &Path, args: &[&str]) -> Child {
    let mut command = Program::new(env!("CARGO_BIN_EXE_frognano-bot"));
    command.arg("fix").args(args).current_dir(folder).env("TMPDIR", folder.join("tmp"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn report(output: &std::process::Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("tmp")).unwrap();
    std::fs::write(place.path().join("issue.md"), format!("# {}\n\n{}", project::issue_title(), project::issue_body())).unwrap();
    project::make_bare(&place.path().join("repo")).unwrap();
    place
}

async fn model() -> ModelServer {
    ModelServer::start(Scripted::new(Script::parse(project::SCRIPT).unwrap(), RestartOn::Conversation)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fix_that_was_killed_at_any_turn_is_gone_on_with_and_repeated_without_a_model() {
    let whole = place();
    let server = model().await;
    let order = ["--repo", "repo", "--issue", "issue.md", "--model", "scripted", "--out", "out", "--json", "--model-url"];
    let run = |folder: &Path, url: &str| fix(folder, &[&order[..], &[url]].concat());
    let undisturbed = run(whole.path(), &server.base_url).wait_with_output().unwrap();
    assert_eq!(report(&undisturbed)["outcome"], "proposed");
    let patch = std::fs::read(whole.path().join("out/patch.diff")).unwrap();
    let turns = server.requests().len();

    for turn in 0..turns {
        let place = place();
        let server = model().await;
        let reached = server.hold(turn);
        let mut killed = run(place.path(), &server.base_url);
        reached.await.unwrap();
        killed.kill().unwrap();
        killed.wait().unwrap();
        let resumed = fix(place.path(), &["--resume", "out", "--json"]).wait_with_output().unwrap();
        assert_eq!(resumed.status.code(), Some(0), "turn {turn}: {}", String::from_utf8_lossy(&resumed.stderr));
        assert_eq!(std::fs::read(place.path().join("out/patch.diff")).unwrap(), patch, "turn {turn}");
        assert_eq!(server.requests().len(), turns + 1, "turn {turn}: the turn that was under way is asked again, no other");
    }

    let asked = server.requests().len();
    let replayed = fix(whole.path(), &["--replay", "out", "--json"]).wait_with_output().unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{}", String::from_utf8_lossy(&replayed.stderr));
    assert_eq!((report(&replayed)["same_patch"].as_bool(), report(&replayed)["steps"].as_u64()), (Some(true), Some(turns as u64)));
    assert_eq!(server.requests().len(), asked);

    std::fs::write(whole.path().join("out/patch.diff"), b"another").unwrap();
    let differs = fix(whole.path(), &["--replay", "out", "--json"]).wait_with_output().unwrap();
    assert_eq!((differs.status.code(), report(&differs)["same_patch"].as_bool()), (Some(1), Some(false)));
    for args in [["--resume", "nowhere"], ["--replay", "nowhere"]] {
        assert_eq!(fix(whole.path(), &args).wait_with_output().unwrap().status.code(), Some(2));
    }
}

fn turn(tool: &str, arguments: &serde_json::Value) -> String {
    json!({"content": "", "tool_calls": [{"name": tool, "arguments": arguments}]}).to_string()
}

fn bash(command: &str) -> String {
    turn("Bash", &json!({"command": command}))
}

/// The sample's fix as one line of a script.
fn edit() -> String {
    let (old, new) = (
        "    share = total // parts\n    return [share] * parts",
        "    share, rest = divmod(total, parts)\n    return [share + 1] * rest + [share] * (parts - rest)",
    );
    turn("Edit", &json!({"file_path": "tallybook/plan.py", "old_string": old, "new_string": new}))
}

fn ended(run: Child) -> Output {
    run.wait_with_output().unwrap()
}

/// What happens to what is kept.
type Harm<'a> = &'a dyn Fn(&Path);

#[test]
fn a_kept_run_that_is_refused_starts_over_with_the_first_line_of_its_script() {
    let order = ["--repo", "repo", "--issue", "issue.md", "--script", "script.jsonl", "--out", "out", "--json"];
    let broken_off = || {
        let place = place();
        std::fs::write(place.path().join("script.jsonl"), [edit(), bash("printf n > note.txt")].join("\n")).unwrap();
        assert_eq!(report(&ended(fix(place.path(), &order)))["reason"], "model_failed");
        let mut script = std::fs::File::options().append(true).open(place.path().join("script.jsonl")).unwrap();
        script.write_all(b"\n{\"content\": \"done\"}").unwrap();
        place
    };
    let damage_blobs = |kept: &Path| {
        for blob in std::fs::read_dir(kept.join("blobs")).unwrap().flatten() {
            std::fs::write(blob.path(), "x").unwrap();
        }
    };
    let damage_journal = |kept: &Path| std::fs::write(kept.join("journal.jsonl"), "{}\n").unwrap();
    let lose_checkpoint = |kept: &Path| std::fs::remove_file(kept.join("checkpoint.json")).unwrap();
    let harms: [(Harm, &str); 4] = [
        (&|_| {}, "the model failed"),
        (&damage_blobs, "starts over, since its kept files are damaged"),
        (&damage_journal, "starts over, since its journal is damaged"),
        (&lose_checkpoint, "the model failed"),
    ];
    let mut patches = Vec::new();
    for (harm, why) in harms {
        let place = broken_off();
        harm(&place.path().join("out/kept"));
        let resumed = ended(fix(place.path(), &["--resume", "out", "--json"]));
        assert_eq!(resumed.status.code(), Some(0), "{why}: {}", String::from_utf8_lossy(&resumed.stdout));
        let trajectory: Trajectory = serde_json::from_slice(&std::fs::read(place.path().join("out/trajectory.json")).unwrap()).unwrap();
        assert_eq!(trajectory.steps.len(), 3, "{why}");
        assert!(trajectory.frognano.recoveries[0].why.contains(why), "{:?}", trajectory.frognano.recoveries);
        assert_eq!(trajectory.frognano.recoveries[0].in_order, why == "the model failed");
        assert!(report(&resumed)["notes"].to_string().contains(why), "{}", report(&resumed)["notes"]);
        patches.push(std::fs::read_to_string(place.path().join("out/patch.diff")).unwrap());
    }
    assert!(patches[0].contains("note.txt") && patches.iter().all(|patch| *patch == patches[0]));
}

/// The processes below one that are called this.
fn below(pid: i32, name: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let children = all.filter(|child| status(*child, "PPid:") == [pid.to_string()]).collect::<Vec<_>>();
    let is_called = |child: &i32| status(*child, "Name:").concat().starts_with(name);
    children.iter().copied().filter(is_called).chain(children.iter().flat_map(|child| below(*child, name))).collect()
}

/// Hears what a tool writes into a pipe that it shares with the story.
async fn hears(pipe: &Path) {
    let mut receiver = pipe::OpenOptions::new().read_write(true).open_receiver(pipe).unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(60), receiver.read_exact(&mut [0])).await;
    heard.expect("the tool never ran").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_runs_when_its_helper_or_worker_is_killed_runs_again() {
    let mut patches = Vec::new();
    for victim in ["nobody", "frognano-tools", "frognano-bot"] {
        let place = place();
        let shared = place.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        for name in ["runs", "gate"] {
            nix::unistd::mkfifo(&shared.join(name), nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
            std::fs::set_permissions(shared.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        }
        let (runs, gate) = (shared.join("runs"), shared.join("gate"));
        let held = bash(&format!(
            "printf half > made.txt; printf r > {}; read -r word < {}; printf whole > made.txt",
            runs.display(),
            gate.display()
        ));
        // Its script goes on by itself with the next line, so one who is asked again needs the line twice.
        let times = if victim == "frognano-tools" { 2 } else { 1 };
        let lines = [vec![edit()], vec![held; times], vec![json!({"content": "done"}).to_string()]].concat();
        std::fs::write(place.path().join("script.jsonl"), lines.join("\n")).unwrap();
        let order = ["--repo", "repo", "--issue", "issue.md", "--script", "script.jsonl", "--out", "out", "--json", "--bind", "shared"];
        let mut run = fix(place.path(), &order);
        let pid = i32::try_from(run.id()).unwrap();
        hears(&runs).await;
        match victim {
            "nobody" => {}
            "frognano-bot" => {
                run.kill().unwrap();
                run.wait().unwrap();
                run = fix(place.path(), &["--resume", "out", "--json"]);
                hears(&runs).await;
            }
            helper => {
                let helpers = below(pid, "tools");
                let helpers = if helpers.is_empty() { below(pid, helper) } else { helpers };
                assert_eq!(helpers.len(), 1, "{helpers:?}");
                kill(Pid::from_raw(helpers[0]), Signal::SIGKILL).unwrap();
                hears(&runs).await;
            }
        }
        std::fs::write(&gate, "go\n").unwrap();
        let output = ended(run);
        assert_eq!(output.status.code(), Some(0), "{victim}: {}", String::from_utf8_lossy(&output.stdout));
        patches.push(std::fs::read_to_string(place.path().join("out/patch.diff")).unwrap());
    }
    assert!(patches[0].contains("+whole"));
    assert_eq!((&patches[1], &patches[2]), (&patches[0], &patches[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_mebibytes_of_new_files_need_little_memory_to_be_kept_and_put_back() {
    const MIB: u64 = 1024;
    let make =
        "for n in $(seq 40); do head -c 4M /dev/urandom > $n.bin; done; for n in 1 2 3; do head -c 15M /dev/urandom > large-$n.bin; done";
    let mut peaks = Vec::new();
    for command in ["true", make] {
        let place = place();
        let script = [edit(), bash(command), json!({"content": "done"}).to_string()].join("\n");
        let server = ModelServer::start(Scripted::new(Script::parse(&script).unwrap(), RestartOn::Conversation)).await.unwrap();
        let order =
            ["--repo", "repo", "--issue", "issue.md", "--model", "scripted", "--out", "out", "--json", "--model-url", &server.base_url];
        let mut peak = |mut run: Child| {
            let peak = status(i32::try_from(run.id()).unwrap(), "VmHWM:")[0].parse::<u64>().unwrap();
            run.kill().unwrap();
            run.wait().unwrap();
            peaks.push(peak);
        };
        let kept = server.hold(2);
        let run = fix(place.path(), &order);
        kept.await.unwrap();
        peak(run);
        let put_back = server.hold(0);
        let run = fix(place.path(), &["--resume", "out", "--json"]);
        put_back.await.unwrap();
        peak(run);
        let blobs = std::fs::read_dir(place.path().join("out/kept/blobs")).unwrap().flatten();
        let bytes = blobs.map(|blob| blob.metadata().unwrap().len()).sum::<u64>();
        assert_eq!(bytes > 200 * 1024 * 1024, command == make, "{bytes}");
    }
    let more = |at: usize| peaks[at + 2].saturating_sub(peaks[at]) / MIB;
    println!(
        "peak of the worker: {} MiB and {} MiB without; {} MiB more to keep, {} MiB more to put back",
        peaks[0] / MIB,
        peaks[1] / MIB,
        more(0),
        more(1)
    );
    assert!(more(0) < 50 && more(1) < 50, "{peaks:?} kB");
}
