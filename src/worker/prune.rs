//! Old deliveries are let go: they hold what people wrote, and explain what nobody asks about any more.
//!
//! What must hold: a delivery goes only when nothing can come of it any more; the database is never held for long.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Worker, millis};
use crate::store::StoreError;

/// How often it is looked for old ones.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// So many go in one step; between two steps others have their turn at the database.
const STEP: i64 = 200;

const BETWEEN: Duration = Duration::from_millis(50);

impl Worker {
    /// Deletes every delivery that is older than they are kept, step by step; how many there were. None where they are kept for ever.
    ///
    /// # Errors
    /// When the database fails; what was deleted stays so.
    pub async fn prune(&self) -> Result<u64, StoreError> {
        if self.settings.keep_deliveries.is_zero() {
            return Ok(0);
        }
        let before_ms = self.parts.clock.now_ms() - millis(self.settings.keep_deliveries);
        let mut pruned = 0;
        loop {
            let step = self.store.prune_deliveries(before_ms, STEP).await?;
            pruned += step;
            if step == 0 {
                return Ok(pruned);
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    /// Prunes at the start and then once an hour, until `stop`.
    pub(super) async fn prune_again_and_again(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                pruned = self.prune() => match pruned {
                    Ok(0) => {}
                    Ok(deliveries) => tracing::info!(deliveries, "old deliveries were deleted"),
                    Err(error) => tracing::error!(%error, "old deliveries can't be deleted"),
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }
}
