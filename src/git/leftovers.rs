//! Git processes of a service that was killed: a fetch from a forge that hangs would outlive it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Kills every process whose `HOME` is the folder that git alone gets from us. The caller holds the lock of the data folder, so that none of
/// them can belong to a service that lives; how many there were.
pub(super) fn end(home: &Path) -> usize {
    let mut mark = b"HOME=".to_vec();
    mark.extend_from_slice(home.as_os_str().as_bytes());
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ours = pids.filter(|pid| has_variable(*pid, &mark)).collect::<Vec<_>>();
    ours.into_iter().filter(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).is_ok()).count()
}

fn has_variable(pid: i32, mark: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn what_another_life_left_is_ended_and_nothing_else() {
        let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sleeper = |home: &std::path::Path| Command::new("sleep").arg("600").env_clear().env("HOME", home).spawn().unwrap();
        let (mut left, mut foreign) = (sleeper(ours.path()), sleeper(other.path()));
        assert_eq!(super::end(ours.path()), 1);
        assert!(!left.wait().unwrap().success());
        assert!(foreign.try_wait().unwrap().is_none());
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }
}
