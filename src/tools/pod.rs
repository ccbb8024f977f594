//! The two small parts that the program plays in a pod: it brings itself into the pod's tools folder, and it waits as the pod's first process.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

/// Copies the program into a folder, under its own name, to be run by anybody and changed by nobody.
///
/// # Errors
/// One sentence.
pub(super) fn install(folder: &Path) -> Result<(), String> {
    let to = folder.join("frognano-tools");
    let copied = fs::copy("/proc/self/exe", &to).and_then(|_| fs::set_permissions(&to, fs::Permissions::from_mode(0o555)));
    copied.map_err(|why| format!("can't copy itself to {}: {why}", to.display()))
}

/// Waits for SIGTERM, unreadable to others, reaps what they leave, and takes connections on a port without a word: what other pods try to reach.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn wait(port: u16) -> Result<(), String> {
    prctl::set_dumpable(false).map_err(|why| format!("can't make the program undumpable: {why}"))?;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    signals.add(Signal::SIGTERM);
    signals.thread_block().map_err(|why| format!("can't wait for signals: {why}"))?;
    if let Ok(door) = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
        std::thread::spawn(move || while door.accept().is_ok() {});
    }
    loop {
        match signals.wait() {
            Ok(Signal::SIGTERM) => return Ok(()),
            Ok(_) | Err(Errno::EINTR) => reap(),
            Err(why) => return Err(format!("can't wait for signals: {why}")),
        }
    }
}

fn reap() {
    while !matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD)) {}
}
