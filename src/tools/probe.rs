//! Tries the walls of the sandbox from inside: what can be reached is reported, what can't be reached gives the reason.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

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
pub(super) fn probe(targets: Vec<Target>) -> Vec<Attempt> {
    let deadline = Instant::now() + PATIENCE;
    let waiting: Vec<_> = targets
        .into_iter()
        .map(|target| {
            let (sender, receiver) = channel();
            let (kind, address) = (target.kind, target.address.clone());
            let started = std::thread::Builder::new().spawn(move || sender.send(attempt(kind, &address)));
            (target, started.map(|_| receiver))
        })
        .collect();
    waiting
        .into_iter()
        .map(|(target, receiver)| {
            let result = receiver.and_then(|receiver| {
                let left = deadline.saturating_duration_since(Instant::now());
                receiver.recv_timeout(left).unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 300 ms")))
            });
            let (reached, why) = match result {
                Ok(what) => (true, what.to_owned()),
                Err(why) => (false, why.to_string()),
            };
            Attempt { kind: target.kind, address: target.address, reached, why }
        })
        .collect()
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
