//! What dead workers left of their sandboxes, looked for at the start and once a minute.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Worker;

const PAUSE: Duration = Duration::from_secs(60);

impl Worker {
    pub(super) async fn reap_again_and_again(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.reap().await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Removes what is left of sandboxes of runs that hold no lease; how much that was.
    pub async fn reap(&self) -> usize {
        let clock = self.parts.clock.as_ref();
        let held = match self.store.runs_under_lease(clock).await {
            Ok(held) => held,
            Err(error) => {
                tracing::error!(%error, "the runs under a lease could not be read, so nothing is removed");
                return 0;
            }
        };
        match self.parts.sandboxes.reap(&held, clock.now_ms()).await {
            Ok(removed) if removed.is_empty() => 0,
            Ok(removed) => {
                tracing::info!(sandboxes = removed.join(" "), "removed what dead runs left of their sandboxes");
                removed.len()
            }
            Err(error) => {
                tracing::warn!(%error, "what dead runs left of their sandboxes could not be looked for");
                0
            }
        }
    }
}
