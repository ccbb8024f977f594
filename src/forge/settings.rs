//! How one configured forge is reached, and how its client waits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use url::Url;

use crate::domain::Clock;

/// How a call waits before it is tried again; tests hand in one that does not.
#[async_trait]
pub trait Pause: Send + Sync {
    /// Returns after this time.
    async fn pause(&self, time: Duration);

    /// A little more than this time, so that those who failed together do not come back together.
    fn spread(&self, time: Duration) -> Duration {
        time
    }
}

/// Waits by the runtime's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sleep;

#[async_trait]
impl Pause for Sleep {
    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Up to a quarter more.
    fn spread(&self, time: Duration) -> Duration {
        let random = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
        time + time / 1024 * random
    }
}

/// One configured forge, as its client needs it.
#[derive(Clone)]
pub struct Settings {
    /// The name of its entry in the configuration.
    pub name: String,
    /// Where its API is: `https://HOST/api/v1`, `https://api.github.com`, `https://HOST/api/v3`.
    pub api_base: Url,
    /// What its repositories' paths are below of, for git: `https://HOST`.
    pub git_base: Url,
    /// What stands in place of `git_base` in links for people, where they reach the forge by another address than the service.
    pub web_base: Option<Url>,
    /// The token of our account; empty for a GitHub App, which makes its own.
    pub token: SecretString,
    /// The certificates (PEM) that alone are trusted for the API, instead of the machine's own; for a private authority.
    pub ca_bundle: Option<Vec<u8>>,
    /// The file of these certificates, for git.
    pub ca_file: Option<PathBuf>,
    /// The least time between calls that change something; zero for none.
    pub write_spacing: Duration,
    /// How to wait between tries.
    pub pause: Arc<dyn Pause>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (api_base, git_base) = (self.api_base.as_str(), self.git_base.as_str());
        out.debug_struct("Settings")
            .field("name", &self.name)
            .field("api_base", &api_base)
            .field("git_base", &git_base)
            .finish_non_exhaustive()
    }
}
