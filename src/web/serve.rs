//! Connections: taken in one after the other, and let go when their peer is slow.
//!
//! What must hold: a peer that sends nothing, or a byte now and then, or takes no answer, costs one connection for a short time and no more; there are never so many
//! connections that the rest of the service finds no open file left; what is being answered when the service stops is answered.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use super::Routes;
use super::pages::Stopping;

/// A peer that has not sent the whole head of its request within this time is let go, also where it sent others before.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// A peer that takes nothing of its answer within this time is let go.
const ANSWER_TIME: Duration = Duration::from_secs(15);

/// So many connections are open at once; others wait until one is free.
const MOST_CONNECTIONS: usize = 256;

/// After the word to stop, requests that go on have so long to end; a peer that holds one open does not hold up the stop.
const LAST_REQUESTS: Duration = Duration::from_secs(3);

/// A listener that takes nothing in for so many seconds is broken.
const MOST_FAILURES: u32 = 60;

/// Serves until `stop`, then lets the requests that go on end, for a short time.
///
/// # Errors
/// When the listener takes nothing in any more.
pub async fn serve(listener: TcpListener, routes: Routes, stop: CancellationToken) -> io::Result<()> {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    let routes = routes.layer(Extension(Stopping(stop.clone())));
    let (connections, free) = (GracefulShutdown::new(), Arc::new(Semaphore::new(MOST_CONNECTIONS)));
    loop {
        let (stream, place) = tokio::select! {
            () = stop.cancelled() => break,
            (stream, place) = async {
                let place = free.clone().acquire_owned().await;
                (accept(&listener).await, place)
            } => (stream?, place),
        };
        let (stream, peer) = stream;
        let routes = TowerToHyperService::new(routes.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            routes.call(request)
        });
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(ANSWER_TIME));
        let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
        let served = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = served.await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    tokio::time::timeout(LAST_REQUESTS, connections.shutdown()).await.ok();
    Ok(())
}

/// The next connection. One that its peer gave up already is passed over; where the machine has no more to give, it is waited.
async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let mut failures = 0;
    loop {
        match listener.accept().await {
            Ok(connection) => return Ok(connection),
            Err(error) if is_the_peers(&error) => {}
            Err(error) if failures >= MOST_FAILURES => return Err(error),
            Err(error) => {
                tracing::error!(%error, "no connection can be taken in");
                failures += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn is_the_peers(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}
