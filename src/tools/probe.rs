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
    /// A question to a name server, or to whatever else answers to one.
    Answer,
    /// A path that must not be there.
    File,
    /// The addresses that the variables of a cluster name, by the beginning of their names.
    Variables,
}

/// What became of it.
#[derive(Debug, Serialize)]
pub(super) struct Attempt {
    kind: Kind,
    address: String,
    reached: bool,
    why: String,
}

/// Tries all targets at once; each has so many milliseconds (300 when not said), and one that takes longer is not reached.
///
/// # Errors
/// When a target could not be tried at all (a bad address, no room for the attempt): that proves nothing, and must not look like a closed wall.
pub(super) fn probe(targets: Vec<Target>, patience_ms: Option<u64>) -> Result<Vec<Attempt>, String> {
    let patience = patience_ms.map_or(PATIENCE, |ms| Duration::from_millis(ms.clamp(1, 10_000)));
    let deadline = Instant::now() + patience;
    let mut waiting = Vec::new();
    for target in targets {
        let (sender, receiver) = channel();
        let (kind, address) = (target.kind, target.address.clone());
        let started = std::thread::Builder::new().stack_size(256 * 1024).spawn(move || sender.send(attempt(kind, &address, patience)));
        started.map_err(|why| format!("{:?} could not be tried: {why}", target.address))?;
        waiting.push((target, receiver));
    }
    let mut attempts = Vec::new();
    for (Target { kind, address }, receiver) in waiting {
        let (reached, why) = match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(what)) => (true, what.to_owned()),
            Ok(Err(why)) if was_not_tried(&why) => return Err(format!("{address:?} could not be tried: {why}")),
            Ok(Err(why)) => (false, why.to_string()),
            Err(_) => (false, format!("no answer within {} ms", patience.as_millis())),
        };
        attempts.push(Attempt { kind, address, reached, why });
    }
    Ok(attempts)
}

fn was_not_tried(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::InvalidInput
        || matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
}

fn attempt(kind: Kind, address: &str, patience: Duration) -> io::Result<&'static str> {
    match kind {
        Kind::Tcp => TcpStream::connect_timeout(&parsed(address)?, patience).map(|_| "connected"),
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
        Kind::Answer => asked(parsed(address)?, patience),
        Kind::File => std::fs::symlink_metadata(address).map(|_| "it is there"),
        Kind::Variables => named_by_variables(address, patience),
    }
}

/// Asks for the address of `kubernetes.default` as a resolver does; any datagram back is an answer.
fn asked(target: SocketAddr, patience: Duration) -> io::Result<&'static str> {
    const QUESTION: &[u8] =
        b"\x66\x72\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0akubernetes\x07default\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01";
    let own = UdpSocket::bind(if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    own.connect(target)?;
    own.set_read_timeout(Some(patience))?;
    own.send(QUESTION)?;
    own.recv(&mut [0; 512]).map(|_| "it answered")
}

fn named_by_variables(prefix: &str, patience: Duration) -> io::Result<&'static str> {
    let value = |name: &str| std::env::var(name).ok();
    let hosts = std::env::vars().filter(|(name, _)| name.starts_with(prefix) && name.ends_with("_SERVICE_HOST"));
    let addresses: Vec<SocketAddr> = hosts
        .filter_map(|(name, host)| {
            let port = value(&name.replace("_SERVICE_HOST", "_SERVICE_PORT"))?;
            format!("{host}:{port}").parse().or_else(|_| format!("[{host}]:{port}").parse()).ok()
        })
        .collect();
    let mut last = io::Error::other("there is no such variable");
    for address in addresses {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(_) => return Ok("an address of theirs could be connected"),
            Err(why) => last = why,
        }
    }
    Err(last)
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
