//! SIGTERM in the first moments of a program: it ends in order, and leaves nothing behind.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fix::place::{END, FIX, Place};

/// A moment that a watcher can tell from outside; none: as soon as the program is started.
type Moment<'a> = Option<&'a dyn Fn(&Child) -> bool>;

fn asked_to_end_at(mut child: Child, moment: Moment<'_>) -> Output {
    while let Some(has_come) = moment {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the moment came");
        if has_come(&child) {
            break;
        }
        std::thread::yield_now();
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    child.wait_with_output().unwrap()
}

/// From here on the signal is the program's to answer.
fn catches_it(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & (1 << (Signal::SIGTERM as u64 - 1)) != 0)
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// Nothing is left, and a program that catches signals answers with this status.
fn assert_in_order(ended: &Output, status: i32, is_first_moment: bool, temporary: &Path) {
    let said = String::from_utf8_lossy(&ended.stderr);
    let was_too_early_to_answer = is_first_moment && ended.status.signal() == Some(Signal::SIGTERM as i32);
    assert!(ended.status.code() == Some(status) || was_too_early_to_answer, "{:?} {said}", ended.status);
    assert!(is_empty(temporary), "{:?} {said}", fs::read_dir(temporary).unwrap().collect::<Vec<_>>());
}

fn program(folder: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frognano-bot"));
    command.args(args).current_dir(folder).env("TMPDIR", folder.join("tmp")).env("FROGNANO_STORY_SECRET", "a secret of the story");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn fix_ends_in_order_however_early_it_is_asked() {
    let place = Place::new();
    let temporary = place.path().join("tmp");
    let out = place.path().join("out");
    let has_a_folder = |_: &Child| !is_empty(&temporary);
    let has_a_mirror = |_: &Child| fs::read_dir(&temporary).unwrap().flatten().any(|folder| folder.path().join("mirrors").exists());
    let has_begun = |_: &Child| out.join("kept/order.json").exists();
    let moments: [Moment<'_>; 5] = [None, Some(&catches_it), Some(&has_begun), Some(&has_a_folder), Some(&has_a_mirror)];
    for moment in moments {
        fs::remove_dir_all(&out).ok();
        let ended = asked_to_end_at(place.start(&[FIX, END], &[]), moment);
        assert_in_order(&ended, 1, moment.is_none(), &temporary);
        if moment.is_some() {
            let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
            assert_eq!(report["outcome"], "cancelled", "{report}");
        }
    }
}

#[test]
fn demo_ends_in_order_however_early_it_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let has_a_folder = |_: &Child| !is_empty(&temporary);
    let has_data = |_: &Child| fs::read_dir(&temporary).unwrap().flatten().any(|folder| folder.path().join("data").exists());
    let moments: [Moment<'_>; 4] = [None, Some(&catches_it), Some(&has_a_folder), Some(&has_data)];
    for moment in moments {
        let ended = asked_to_end_at(program(folder.path(), &["demo"]), moment);
        assert_in_order(&ended, 1, moment.is_none(), &temporary);
    }
}

#[test]
fn serve_ends_in_order_however_early_it_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let config = "[service]\nlisten = \"127.0.0.1:0\"\ndata = \"data\"\n[model]\nurl = \"http://127.0.0.1:1/v1\"\nname = \"m\"\n[[forge]]\nname = \"here\"\nkind = \"gitea\"\nurl = \"http://127.0.0.1:1\"\nwebhook_secrets = [{ env = \"FROGNANO_STORY_SECRET\" }]\ntoken = { env = \"FROGNANO_STORY_SECRET\" }\n";
    fs::write(folder.path().join("config.toml"), config).unwrap();
    let has_data = |_: &Child| folder.path().join("data").exists();
    let has_a_database = |_: &Child| folder.path().join("data/frognano.sqlite").exists();
    let moments: [Moment<'_>; 4] = [None, Some(&catches_it), Some(&has_data), Some(&has_a_database)];
    for moment in moments {
        fs::remove_dir_all(folder.path().join("data")).ok();
        let ended = asked_to_end_at(program(folder.path(), &["serve", "--config", "config.toml"]), moment);
        assert_in_order(&ended, 0, moment.is_none(), &temporary);
    }
}
