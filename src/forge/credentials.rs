//! Who asks: where the token of each call comes from.

use async_trait::async_trait;
use secrecy::SecretString;

use super::ForgeError;

/// The tokens of one account on one forge.
#[async_trait]
pub(super) trait Credentials: Send + Sync {
    /// The token for a call to these segments below the API's base.
    ///
    /// # Errors
    /// When there is none for that place, or none can be had now.
    async fn token(&self, path: &[&str]) -> Result<SecretString, ForgeError>;

    /// The forge answered 401 to this token, at this time by its own clock (milliseconds since the epoch). Whether another one is worth a try.
    async fn refused(&self, token: &SecretString, forge_time_ms: Option<i64>) -> bool;
}

/// One token for everything, which nobody here can renew.
pub(super) struct Fixed(pub(super) SecretString);

#[async_trait]
impl Credentials for Fixed {
    async fn token(&self, _: &[&str]) -> Result<SecretString, ForgeError> {
        Ok(self.0.clone())
    }

    async fn refused(&self, _: &SecretString, _: Option<i64>) -> bool {
        false
    }
}
