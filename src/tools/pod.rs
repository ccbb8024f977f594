//! The two small parts that the program plays in a pod: it brings itself into the pod's tools folder, and it waits as the pod's first process.
//!
//! What must hold: when the program that answers is killed, the pod ends and tells by its exit code whether that was for memory, since the cluster
//! itself says nothing of a process that it did not start as a container's first one.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

use super::memory;

/// Where the program that answers is watched; a name of this pod's network alone.
const WATCH: &str = "frognano-tools";
/// The exit code of the first process when that program ended without a word.
const LEFT_ALONE: i32 = 70;
/// The same where the kernel has killed processes of this pod for want of memory.
const LEFT_ALONE_FOR_MEMORY: i32 = 71;

/// The program that answers, as long as this value lives; where nobody watches, nothing.
pub(super) struct Watched(Option<UnixStream>);

impl Watched {
    /// Begins to be watched. Must be called before anything else can run in the pod: who comes first is the one.
    pub(super) fn begin() -> Self {
        Self(SocketAddr::from_abstract_name(WATCH).and_then(|address| UnixStream::connect_addr(&address)).ok())
    }

    /// Says that the end that follows is in order.
    pub(super) fn end(mut self) {
        if let Some(watch) = &mut self.0 {
            let _ = watch.write_all(b".");
        }
    }
}

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
/// Ends the process, and so the pod, when the program that answers ends without a word.
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
    if let Ok(watch) = SocketAddr::from_abstract_name(WATCH).and_then(|address| UnixListener::bind_addr(&address)) {
        std::thread::spawn(move || {
            if !ends_in_order(watch) {
                std::process::exit(if memory::kills() > 0 { LEFT_ALONE_FOR_MEMORY } else { LEFT_ALONE });
            }
        });
    }
    loop {
        match signals.wait() {
            Ok(Signal::SIGTERM) => return Ok(()),
            Ok(_) | Err(Errno::EINTR) => reap(),
            Err(why) => return Err(format!("can't wait for signals: {why}")),
        }
    }
}

/// Waits for the first that comes to be watched, and for its end.
fn ends_in_order(watch: UnixListener) -> bool {
    let Ok((watched, _)) = watch.accept() else { return true };
    drop(watch);
    let mut word = Vec::new();
    watched.take(1).read_to_end(&mut word).is_ok() && !word.is_empty()
}

fn reap() {
    while !matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD)) {}
}
