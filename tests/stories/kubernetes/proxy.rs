//! A wire between the service and the API server that can be cut.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::config::Kubeconfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

/// The wire; it ends with this value.
pub struct Proxy {
    pub kubeconfig: PathBuf,
    cut: broadcast::Sender<()>,
    is_down: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// To the cluster of `KUBECONFIG`; the kubeconfig of the wire is written into the folder.
    pub async fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap();
        let mut config = Kubeconfig::read().unwrap();
        let cluster = config.clusters[0].cluster.as_mut().unwrap();
        let server: url::Url = cluster.server.as_deref().unwrap().parse().unwrap();
        let host = server.host_str().unwrap().to_owned();
        let target: SocketAddr =
            tokio::net::lookup_host((host.as_str(), server.port_or_known_default().unwrap())).await.unwrap().next().unwrap();
        cluster.server = Some(format!("https://{own}"));
        cluster.tls_server_name = Some(host);
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, serde_json::to_string(&config).unwrap()).unwrap();
        let (cut, _) = broadcast::channel(1);
        let is_down = Arc::new(AtomicBool::new(false));
        let (wires, down) = (cut.clone(), Arc::clone(&is_down));
        let task = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if down.load(Ordering::SeqCst) {
                    continue;
                }
                let mut ends = wires.subscribe();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = ends.recv() => {}
                    }
                });
            }
        });
        Self { kubeconfig, cut, is_down, task }
    }

    /// Cuts every connection that is there.
    pub fn cut(&self) {
        let _ = self.cut.send(());
    }

    /// Takes no connection any more, or again.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}
