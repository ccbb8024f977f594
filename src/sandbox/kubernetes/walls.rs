//! The proof that a pod reaches nothing: repeated until the cluster's walls stand, or the time for that is over.
//!
//! What must hold: the baits answer at the moment when the inside fails to reach them; a cluster that stores policies and enforces none is told from
//! one whose walls come late by time alone, so the time is bounded and nothing enters before.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

use super::super::probe::outside;
use super::super::{Attempt, Link, SandboxError, Target};

/// What one attempt is given: what is near answers within a few milliseconds.
const EACH: Duration = Duration::from_millis(125);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(25);
/// Where credentials are put into pods, and a file of every node.
const PATHS: [&str; 3] = ["/var/run/secrets/kubernetes.io", "/run/secrets", "/var/lib/kubelet"];

/// A listener of ours, reachable from pods wherever the network is open.
pub(super) struct Lure {
    at: SocketAddr,
    visits: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Lure {
    /// Listens for connections and datagrams at this address of ours.
    ///
    /// # Errors
    /// One sentence with what to do.
    pub(super) async fn lay(address: IpAddr) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("no listener could be made for the probe: {error}");
        let anywhere: IpAddr = if address.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
        let tcp = TcpListener::bind((anywhere, 0)).await.map_err(failed)?;
        let at = SocketAddr::new(address, tcp.local_addr().map_err(failed)?.port());
        let udp = UdpSocket::bind((anywhere, at.port())).await.map_err(failed)?;
        let visits = Arc::new(AtomicU64::new(0));
        let (seen, answered) = (Arc::clone(&visits), Arc::clone(&visits));
        let take = async move {
            while tcp.accept().await.is_ok() {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        };
        let answer = async move {
            let mut question = [0; 512];
            while let Ok((size, from)) = udp.recv_from(&mut question).await {
                answered.fetch_add(1, Ordering::Relaxed);
                let _ = udp.send_to(&question[..size], from).await;
            }
        };
        Ok(Self { at, visits, tasks: vec![tokio::spawn(take), tokio::spawn(answer)] })
    }

    /// Goes there from outside, so that a failure inside means something; returns when that visit was counted.
    async fn answers(&self) -> Result<(), String> {
        let at = self.at;
        let connected = tokio::task::spawn_blocking(move || TcpStream::connect_timeout(&at, Duration::from_secs(1))).await;
        match connected {
            Ok(Ok(_)) => {
                while self.visits.load(Ordering::Relaxed) == 0 {
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
            Ok(Err(error)) => Err(format!(
                "this service can't be reached at {at} even from itself ({error}), so a probe would prove nothing: set [sandbox.kubernetes] bait_address to an address of this machine at which pods would reach it"
            )),
            Err(error) => Err(error.to_string()),
        }
    }

    fn targets(&self) -> [Target; 2] {
        [Target::new("tcp", self.at.to_string()), Target::new("answer", self.at.to_string())]
    }
}

impl Drop for Lure {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What is tried from inside.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    /// The API server, the node, other pods.
    pub(super) near: Vec<SocketAddr>,
    /// The cluster's name servers.
    pub(super) name_servers: Vec<SocketAddr>,
    /// What else is known.
    pub(super) further: Vec<Target>,
}

impl Places {
    fn targets(&self) -> Vec<Target> {
        // A datagram can always leave a pod: what counts there is whether anything answers.
        let outside = outside().into_iter().map(|target| match target.kind.as_str() {
            "udp" => Target::new("answer", target.address),
            _ => target,
        });
        let near = self.near.iter().map(|address| Target::new("tcp", address.to_string()));
        let names = self.name_servers.iter().flat_map(|address| ["tcp", "answer"].map(|kind| Target::new(kind, address.to_string())));
        let name = Target::new("dns", "kubernetes.default.svc.cluster.local");
        let credentials = PATHS.into_iter().map(|path| Target::new("file", path));
        let variables = Target::new("variables", "KUBERNETES_");
        let mut targets: Vec<Target> =
            outside.chain(near).chain(names).chain(self.further.iter().cloned()).chain(credentials).chain([name, variables]).collect();
        let mut seen = std::collections::HashSet::new();
        targets.retain(|target| seen.insert((target.kind.clone(), target.address.clone())));
        targets
    }
}

/// Tries everything again and again until nothing is reached; what was tried the last time, and how long the walls took.
///
/// # Errors
/// [`SandboxError::NetworkOpen`] with what to do when something is still reached at the end of the time, [`SandboxError::NotStarted`] when the
/// baits are none, [`SandboxError::Lost`].
pub(super) async fn stand(link: &mut Link, lure: &Lure, places: &Places, most: Duration) -> Result<(Vec<Attempt>, Duration), SandboxError> {
    let began = Instant::now();
    lure.answers().await.map_err(SandboxError::NotStarted)?;
    let targets = [lure.targets().to_vec(), places.targets()].concat();
    loop {
        let before = lure.visits.load(Ordering::Relaxed);
        let mut attempts = link.probe_within(&targets, EACH).await?;
        let visited = lure.visits.load(Ordering::Relaxed) > before;
        if visited && !attempts.iter().any(|attempt| attempt.reached) {
            let why = "the listener of the service was visited during the probe".to_owned();
            attempts.push(Attempt { kind: "tcp".to_owned(), address: lure.at.to_string(), reached: true, why });
        }
        let reached: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.reached).collect();
        if reached.is_empty() {
            return Ok((attempts, began.elapsed()));
        }
        if reached.iter().any(|attempt| attempt.kind == "file") || began.elapsed() >= most {
            return Err(SandboxError::NetworkOpen(told(&reached, most)));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn told(reached: &[&Attempt], most: Duration) -> String {
    let list = reached.iter().map(|attempt| format!("{} {}", attempt.kind, attempt.address)).collect::<Vec<_>>().join(", ");
    if reached.iter().any(|attempt| attempt.kind == "file") {
        return format!("{list}, which something in the cluster mounted into its pod");
    }
    format!(
        "{list} {} s after its pod ran, although a NetworkPolicy denies it everything. NetworkPolicies are not enforced on this cluster: install a network plugin that does",
        most.as_secs()
    )
}
