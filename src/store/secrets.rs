//! Secrets that are given away once and known again by their digest: what a browser holds of a session, and the keys of programs.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::StoreError;
use crate::audit::Digest;

/// A new secret of 256 bits, of letters, digits, `-` and `_`.
///
/// # Errors
/// When the machine has no random numbers.
pub fn new_secret() -> Result<String, StoreError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| StoreError::Failed("the machine gives no random numbers".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// What a secret is looked up by. Who reads the database can't use it; and as what is compared is a digest, how long that takes tells nothing.
pub(super) fn digest_of(secret: &str) -> String {
    Digest::of(secret.as_bytes()).to_string()
}
