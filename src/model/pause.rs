//! Waiting between two tries, as something that can be handed in: tests record the pauses and wait for none.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use async_trait::async_trait;

/// How the client waits.
#[async_trait]
pub trait Pause: Send + Sync {
    /// Waits so long.
    async fn pause(&self, duration: Duration);
    /// A number from 0 to 1 that spreads the retries of several workers.
    fn jitter(&self) -> f64;
}

/// Real waiting and real chance.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioPause;

#[async_trait]
impl Pause for TokioPause {
    async fn pause(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn jitter(&self) -> f64 {
        let chance = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or_default();
        f64::from(chance) / f64::from(u32::MAX)
    }
}
