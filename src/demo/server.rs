//! A server on the loopback that ends when it is told to, or when nobody holds it any more.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long answers under way may take once the server is told to end.
const GRACE: Duration = Duration::from_secs(2);

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Serves on a free port of 127.0.0.1; `routes` is given the base address, without a slash at the end.
    pub async fn start(routes: impl FnOnce(&str) -> Router) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = axum::serve(listener, routes(&format!("http://{address}"))).with_graceful_shutdown(async {
            // A sender that was dropped means the same as one that sent.
            let _ = stopped.await;
        });
        Ok(Self { address, stop, task: tokio::spawn(async move { serving.await }) })
    }

    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes no more connections, lets answers under way end, and returns when the port is free again.
    pub async fn stop(mut self) {
        drop(self.stop);
        if tokio::time::timeout(GRACE, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}
