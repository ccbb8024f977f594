//! Commands that hang, flood, multiply or fight, through the Bash tool of a real sandbox: each gives an observation, on time, and the next call works.

use std::time::{Duration, Instant};

use frognano_bot::sandbox::{Sandbox, Sandboxes as _, local};
use serde_json::json;

use crate::house::tools;

async fn bash(sandbox: &mut dyn Sandbox, command: &str, timeout: f64) -> (String, Duration) {
    let began = Instant::now();
    let observation = sandbox.call("Bash", &json!({"command": command, "timeout": timeout})).await.unwrap();
    (observation, began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_command_does_it_gives_an_observation_and_the_next_call_works() {
    let state = tempfile::tempdir().unwrap();
    let settings = local::Settings { max_processes: 300, ..local::Settings::new(tools(), state.path()) };
    let mut sandbox = local::Local::new(settings).unwrap().start("hostile").await.unwrap();
    let sandbox = sandbox.as_mut();
    let commands = [
        ("a flood", "yes", 1.0, "Timed out after 1.0s"),
        ("a flood of both", "yes & yes >&2", 1.0, "Timed out after 1.0s"),
        ("a fork bomb", "b() { b | b & }; b; sleep 1000", 1.0, "Timed out after 1.0s"),
        (
            "deaf daemons",
            "for n in 1 2 3; do setsid bash -c 'trap \"\" TERM HUP INT; while :; do sleep 1000; done' & done; echo up",
            5.0,
            "Exit code: 0\nSTDOUT:\nup",
        ),
        ("a deaf command", "trap '' TERM INT HUP; while :; do sleep 1000; done", 1.0, "Timed out after 1.0s"),
        ("closed output", "exec >&- 2>&-; sleep 1000", 1.0, "Timed out after 1.0s"),
        ("thousands in the background", "for n in $(seq 10000); do sleep 1000 & done 2>/dev/null; echo made", 20.0, "STDOUT:"),
        ("blows at the program", "kill -9 1; kill -STOP 1; kill -9 -1; echo alive", 5.0, ""),
        ("nothing to read", "cat; echo end", 5.0, "Exit code: 0\nSTDOUT:\nend"),
        ("its own death", "kill -SEGV $$", 5.0, "Exit code: -11"),
        ("much memory", "head -c 600M /dev/zero | tail -c 1 | od -An -tx1", 30.0, "Exit code: "),
    ];
    for (what, command, timeout, expected) in commands {
        let (observation, took) = bash(sandbox, command, timeout).await;
        assert!(observation.contains(expected), "{what}: {observation}");
        assert!(observation.chars().count() < 31_000, "{what}: {} characters", observation.chars().count());
        let limit = Duration::from_secs_f64(timeout) + Duration::from_secs(5);
        assert!(took < limit, "{what} took {took:?}");
        let (next, _) = bash(sandbox, "echo still here", 10.0).await;
        assert_eq!(next, "Exit code: 0\nSTDOUT:\nstill here\n\nSTDERR:\n", "after {what}");
        let written = sandbox.call("Write", &json!({"file_path": "w.txt", "content": what})).await.unwrap();
        assert!(written.starts_with("Wrote w.txt"), "after {what}: {written}");
    }
}
