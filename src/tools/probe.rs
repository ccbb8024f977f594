//! Tries the walls of the sandbox from inside: what can be reached is reported, what can't be reached gives the reason.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, VsockAddr, connect, socket};
use serde::{Deserialize, Serialize};

const PATIENCE: Duration = Duration::from_millis(300);

/// One thing to try.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Target {
    kind: Kind,
    address: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Tcp,
    Udp,
    Dns,
    Abstract,
    Vsock,
}

/// What became of it.
#[derive(Debug, Serialize)]
pub(super) struct Attempt {
    kind: Kind,
    address: String,
    reached: bool,
    why: String,
}

/// Tries all targets at once; each has 300 ms, and one that takes longer is not reached.
///
/// # Errors
/// When a target could not be tried at all (a bad address, no room for the attempt): that proves nothing, and must not look like a closed wall.
pub(super) fn probe(targets: Vec<Target>) -> Result<Vec<Attempt>, String> {
    let deadline = Instant::now() + PATIENCE;
    let mut waiting = Vec::new();
    for target in targets {
        let (sender, receiver) = channel();
        let (kind, address) = (target.kind, target.address.clone());
        let started = std::thread::Builder::new().stack_size(256 * 1024).spawn(move || sender.send(attempt(kind, &address)));
        started.map_err(|why| format!("{:?} could not be tried: {why}", target.address))?;
        waiting.push((target, receiver));
    }
    let mut attempts = Vec::new();
    for (Target { kind, address }, receiver) in waiting {
        let (reached, why) = match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(what)) => (true, what.to_owned()),
            Ok(Err(why)) if was_not_tried(&why) => return Err(format!("{address:?} could not be tried: {why}")),
            Ok(Err(why)) => (false, why.to_string()),
            Err(_) => (false, "no answer within 300 ms".to_owned()),
        };
        attempts.push(Attempt { kind, address, reached, why });
    }
    Ok(attempts)
}

fn was_not_tried(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::InvalidInput
        || matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
}

fn attempt(kind: Kind, address: &str) -> io::Result<&'static str> {
    match kind {
        Kind::Tcp => TcpStream::connect_timeout(&parsed(address)?, PATIENCE).map(|_| "connected"),
        Kind::Udp => {
            let target: SocketAddr = parsed(address)?;
            let own = UdpSocket::bind(if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
            own.connect(target)?;
            own.send(b"frognano").map(|_| "a datagram was sent")
        }
        Kind::Dns => {
            let mut found = (address, 80).to_socket_addrs()?;
            found.next().map(|_| "the name has an address").ok_or_else(|| io::Error::other("the name has no address"))
        }
        Kind::Abstract => UnixStream::connect_addr(&UnixAddr::from_abstract_name(address)?).map(|_| "connected"),
        Kind::Vsock => vsock(address),
    }
}

/// A vsock socket is outside of the network namespace: that it can be made at all is a way out.
fn vsock(address: &str) -> io::Result<&'static str> {
    let (cid, port) = address
        .split_once(':')
        .and_then(|(cid, port)| Some((cid.parse().ok()?, port.parse().ok()?)))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{address:?} is not CID:PORT")))?;
    let made = socket(AddressFamily::Vsock, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    Ok(match connect(made.as_raw_fd(), &VsockAddr::new(cid, port)) {
        Ok(()) => "connected",
        Err(_) => "the socket could be made",
    })
}

fn parsed(address: &str) -> io::Result<SocketAddr> {
    address.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{address:?} is not ADDRESS:PORT")))
}
