//! Bash that can't hang or flood, and leaves the next call working.

use std::time::{Duration, Instant};

use serde_json::json;

use super::program::{Program, is_alive};

fn bash(program: &mut Program, command: &str, timeout: f64) -> (String, Duration) {
    let before = Instant::now();
    let observation = program.call("Bash", json!({"command": command, "timeout": timeout}));
    (observation, before.elapsed())
}

/// The machine may be busy with other tests: the quickest of three tries counts.
fn best_of_three(mut attempt: impl FnMut() -> Duration) -> Duration {
    let first = attempt();
    if first < Duration::from_millis(500) { first } else { first.min(attempt()).min(attempt()) }
}

#[test]
fn a_timeout_ends_everything_within_a_tenth_of_a_second() {
    let mut program = Program::start();
    for command in ["sleep 1000", "sleep 1000 | cat", "trap '' TERM; sleep 1000", "exec >&- 2>&-; sleep 1000", "setsid sleep 1000; true"] {
        let took = best_of_three(|| {
            let (observation, took) = bash(&mut program, command, 0.4);
            assert_eq!(observation, "Timed out after 0.4s\nSTDOUT:\n\nSTDERR:\n", "{command}");
            took
        });
        assert!((400..500).contains(&took.as_millis()), "{command}: {took:?}");
    }
    assert_eq!(bash(&mut program, "kill -RTMIN+3 $$", 5.0).0, "Exit code: -37\nSTDOUT:\n\nSTDERR:\n");
    let (observation, _) = bash(&mut program, "echo still here", 5.0);
    assert_eq!(observation, "Exit code: 0\nSTDOUT:\nstill here\n\nSTDERR:\n");
}

#[test]
fn a_flood_is_cut_while_it_is_read_and_counted() {
    let mut program = Program::start_with(&[], &[("LEAF_BASH_OUTPUT_CHARS", "40")]);
    let (observation, _) = bash(&mut program, "yes é | head -c 30000000", 60.0);
    assert_eq!(observation, "Exit code: 0\nSTDOUT:\né\né\né\né\né\né\né\né\né\né\n[truncated 19999990 chars]");
    let (observation, took) = bash(&mut program, "yes", 0.5);
    assert!(observation.starts_with("Timed out after 0.5s\nSTDOUT:\ny\ny\n"), "{observation}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn background_processes_live_on_between_calls_and_may_go_on_writing() {
    let mut program = Program::start();
    let (observation, took) = bash(&mut program, "(while :; do echo tick; sleep 0.01; done) & echo $!", 20.0);
    assert!(took < Duration::from_secs(5), "{took:?}");
    let pid = observation.lines().find(|line| line.parse::<u32>().is_ok()).unwrap().to_owned();
    bash(&mut program, "sleep 0.3", 20.0);
    assert!(is_alive(&pid), "a closed pipe would have ended it");
    program.close_input();
    program.wait();
    assert!(!is_alive(&pid));
}

#[test]
fn odd_output_is_shown_with_replacement() {
    let mut program = Program::start();
    let (observation, _) = bash(&mut program, r"printf 'a\0b\xff\xe2\x82\r\nc\rd'; printf '\xf0\x9f' >&2", 5.0);
    assert_eq!(observation, "Exit code: 0\nSTDOUT:\na\0b\u{fffd}\u{fffd}\nc\nd\nSTDERR:\n\u{fffd}");
}

#[test]
fn commands_see_an_empty_stdin_and_no_blocked_signal() {
    let mut program = Program::start();
    let (observation, _) = bash(&mut program, "cat; read x; echo $?; grep SigBlk /proc/self/status; cd /; pwd", 5.0);
    assert_eq!(observation, "Exit code: 0\nSTDOUT:\n1\nSigBlk:\t0000000000000000\n/\n\nSTDERR:\n");
    let workdir = program.workdir();
    let (observation, _) = bash(&mut program, "pwd", 5.0);
    assert_eq!(observation, format!("Exit code: 0\nSTDOUT:\n{}\n\nSTDERR:\n", workdir.display()));
}

#[test]
fn two_thousand_sleepers_leave_the_next_call_working() {
    let mut program = Program::start();
    let (observation, _) = bash(&mut program, "for i in $(seq 2000); do sleep 1000 & done; echo $!", 60.0);
    assert!(observation.starts_with("Exit code: 0\n"), "{observation}");
    let (observation, _) = bash(&mut program, "echo fine", 20.0);
    assert_eq!(observation, "Exit code: 0\nSTDOUT:\nfine\n\nSTDERR:\n");
    assert_eq!(program.run("true", 20_000)["exit_code"], 0);
    let (observation, _) = bash(&mut program, "pgrep -c -P $PPID", 20.0);
    assert_eq!(observation, "Exit code: 1\nSTDOUT:\n0\n\nSTDERR:\n", "a run ends them all");
}
