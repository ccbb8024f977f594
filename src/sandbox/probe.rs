//! The proof that a sandbox reaches nothing, made before anything enters it.
//!
//! What must hold: the baits are really reachable from outside at the moment when the inside fails to reach them, or the failure would prove
//! nothing; one success of any attempt refuses the run; and the baits themselves count visitors, so that a lie from inside is not enough.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};

use serde::{Deserialize, Serialize};

use super::SandboxError;

/// Something that must not be reachable from inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// `tcp`, `udp`, `dns`, `abstract` (a unix socket by name) or `vsock`.
    pub kind: String,
    /// `address:port` for tcp and udp, a host name for dns, a name for abstract, `cid:port` for vsock.
    pub address: String,
}

impl Target {
    /// A target of a kind.
    pub fn new(kind: &str, address: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), address: address.into() }
    }
}

/// What came of trying a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The kind of the target.
    pub kind: String,
    /// The address of the target.
    pub address: String,
    /// Whether anything answered, or a datagram could leave.
    pub reached: bool,
    /// Why not, in the words of the system; or what answered.
    pub why: String,
}

/// What was tried against the walls of one sandbox before anything entered, and what bounds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Each attempt to reach something.
    pub attempts: Vec<Attempt>,
    /// The bounds in force, one phrase each, such as `cgroup v1: pids 512`.
    pub bounds: Vec<String>,
    /// From the first step of the start until the proof was complete, in milliseconds.
    pub elapsed_ms: u64,
}

impl ProbeReport {
    /// Refuses a sandbox that reached anything.
    ///
    /// # Errors
    /// [`SandboxError::NetworkOpen`] with all that was reached.
    pub fn judge(&self) -> Result<(), SandboxError> {
        let reached: Vec<String> = self.attempts.iter().filter(|attempt| attempt.reached).map(Attempt::shown).collect();
        if reached.is_empty() { Ok(()) } else { Err(SandboxError::NetworkOpen(reached.join(", "))) }
    }
}

impl Attempt {
    fn shown(&self) -> String {
        format!("{} {}", self.kind, self.address)
    }
}

/// What stands outside every wall: the documentation addresses of RFC 5737 and RFC 3849 (never anybody's, but a datagram to them leaves wherever
/// there is a route), the metadata address of clouds, a name, and the host of a virtual machine.
#[must_use]
pub fn outside() -> Vec<Target> {
    vec![
        Target::new("tcp", "192.0.2.1:443"),
        Target::new("udp", "192.0.2.1:53"),
        Target::new("udp", "[2001:db8::1]:53"),
        Target::new("tcp", "169.254.169.254:80"),
        Target::new("udp", "169.254.169.254:80"),
        Target::new("dns", "example.com"),
        Target::new("vsock", "2:1024"),
    ]
}

/// Listeners of ours on the host that a sandbox with an open network would reach.
#[derive(Debug)]
pub struct Bait {
    tcp: TcpListener,
    tcp_at: SocketAddr,
    unix: UnixListener,
    unix_name: String,
}

impl Bait {
    /// Listens on the host's loopback and on an abstract socket of this name, and checks from outside that both are reachable.
    ///
    /// # Errors
    /// What could not be set up, in one sentence: without a bait a probe means nothing.
    pub fn lay(unix_name: &str) -> Result<Self, String> {
        Self::listen(unix_name).map_err(|error| format!("the probe could not be prepared on the host: {error}"))
    }

    fn listen(unix_name: &str) -> std::io::Result<Self> {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let unix = UnixListener::bind_addr(&UnixAddr::from_abstract_name(unix_name)?)?;
        let bait = Self { tcp_at: tcp.local_addr()?, tcp, unix, unix_name: unix_name.to_owned() };
        TcpStream::connect(bait.tcp_at)?;
        UnixStream::connect_addr(&UnixAddr::from_abstract_name(unix_name)?)?;
        bait.tcp.accept()?;
        bait.unix.accept()?;
        bait.tcp.set_nonblocking(true)?;
        bait.unix.set_nonblocking(true)?;
        Ok(bait)
    }

    /// The baits as targets.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        vec![Target::new("tcp", self.tcp_at.to_string()), Target::new("abstract", self.unix_name.clone())]
    }

    /// Who came, as the host saw it: an attempt that reached its bait, whatever the inside said of it.
    #[must_use]
    pub fn visits(&self) -> Vec<Attempt> {
        let came = [self.tcp.accept().is_ok(), self.unix.accept().is_ok()];
        let visited = self.targets().into_iter().zip(came).filter(|(_, came)| *came);
        visited
            .map(|(target, _)| Attempt {
                kind: target.kind,
                address: target.address,
                reached: true,
                why: "the listener on the host was visited during the probe".to_owned(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(reached: bool) -> ProbeReport {
        let attempt = |kind: &str, reached| Attempt { kind: kind.into(), address: "x".into(), reached, why: String::new() };
        ProbeReport { attempts: vec![attempt("tcp", false), attempt("udp", reached)], bounds: Vec::new(), elapsed_ms: 1 }
    }

    #[test]
    fn one_success_refuses_the_sandbox() {
        assert!(report(false).judge().is_ok());
        assert!(matches!(report(true).judge(), Err(SandboxError::NetworkOpen(what)) if what == "udp x"));
    }

    #[test]
    fn a_bait_sees_its_visitors_and_only_them() {
        let bait = Bait::lay(&format!("frognano-test-{}", std::process::id())).unwrap();
        assert_eq!(bait.visits(), []);
        TcpStream::connect(&bait.targets()[0].address).unwrap();
        let visits = bait.visits();
        assert_eq!(visits.len(), 1);
        assert_eq!((visits[0].kind.as_str(), visits[0].reached), ("tcp", true));
    }
}
