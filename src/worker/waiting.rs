//! How a worker waits for work: its hands look for a job one at a time, so that one without work asks the database as if it had one hand.
//!
//! What must hold: what another process stored is begun within a second; many workers do not all ask at once; nobody who sets a label waits for
//! a sign until a hand is free.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::{Claimed, StoreError, Which};

use super::{Part, Worker};

impl Worker {
    pub(super) async fn one_after_the_other(self: Arc<Self>, stop: CancellationToken, abort: CancellationToken) {
        while let Some((claimed, part)) = self.next_for_a_hand(&stop).await {
            self.work_on(&claimed, part, &abort).await;
        }
    }

    /// Waits for a job and claims it; none once the service is to stop.
    async fn next_for_a_hand(&self, stop: &CancellationToken) -> Option<(Claimed, Part)> {
        let _looks_alone = tokio::select! {
            () = stop.cancelled() => return None,
            alone = self.looking.lock() => alone,
        };
        while !stop.is_cancelled() {
            let pause = match self.claim_next().await {
                Ok(Some(next)) => return Some(next),
                Ok(None) => look_again_after(&self.settings.owner),
                Err(error) => {
                    tracing::error!(%error, "no job could be claimed");
                    Duration::from_secs(5)
                }
            };
            let pause = if self.model_is_down.load(Ordering::Relaxed) { self.settings.model_retry } else { pause };
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        None
    }

    /// Sees to it that nobody who sets a label waits for a sign until a hand is free.
    pub(super) async fn greet_while_busy(self: Arc<Self>, hands: usize, stop: CancellationToken, abort: CancellationToken) {
        while !stop.is_cancelled() {
            if self.busy.load(Ordering::Relaxed) >= hands {
                match self.greet_next(&abort).await {
                    Ok(Some(_)) => continue,
                    Ok(None) => {}
                    Err(error) => tracing::error!(%error, "no job could be claimed"),
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(Duration::from_secs(2)) => {}
            }
        }
    }

    /// Looks for deliveries that nobody would ever look at again, at the start and once a minute.
    pub(super) async fn take_up_waiting(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.store.take_up_waiting(self.parts.clock.as_ref(), self.ids.as_ref()).await {
                Ok(0) => {}
                Ok(jobs) => {
                    tracing::info!(jobs, "took up deliveries that were waiting");
                    self.wake.notify_one();
                }
                Err(error) => tracing::error!(%error, "waiting deliveries could not be looked for"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(Duration::from_secs(60)) => {}
            }
        }
    }

    /// Claims the next job, and says how much of it is done now.
    pub(super) async fn claim_next(&self) -> Result<Option<(Claimed, Part)>, StoreError> {
        let (which, part) = match self.store.paused().await? {
            Some(_) => (Which::NewForAnAnswer, Part::Greeting),
            // A new label gets its answer all the same: its job goes as far as it can without a model.
            None if self.model_is_still_down().await => (Which::New, Part::Whole),
            None => (Which::Any, Part::Whole),
        };
        Ok(self.claim(which).await?.map(|claimed| (claimed, part)))
    }

    async fn model_is_still_down(&self) -> bool {
        if self.model_is_down.load(Ordering::Relaxed) && self.parts.model.is_up().await {
            tracing::info!("the model's server answers again");
            self.model_is_down.store(false, Ordering::Relaxed);
        }
        self.model_is_down.load(Ordering::Relaxed)
    }
}

/// Less than a second, for each worker another: they do not all ask the database at once, and what another process stored waits no longer.
fn look_again_after(owner: &str) -> Duration {
    let sum = owner.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    Duration::from_millis(500 + sum % 400)
}
