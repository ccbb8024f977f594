//! The one signature that GitHub Apps need, RS256, by ring: jsonwebtoken leaves the arithmetic to whom we choose, and ring is here for TLS.

use std::sync::OnceLock;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};

static PROVIDER: CryptoProvider =
    CryptoProvider { signer_factory: signer, verifier_factory: no_verifier, key_utils: KeyUtils::new_unimplemented() };

struct Signer(RsaKeyPair);

impl signature::Signer<Vec<u8>> for Signer {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        let mut signed = vec![0; self.0.public().modulus_len()];
        self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signed).map_err(|_| signature::Error::new())?;
        Ok(signed)
    }
}

impl JwtSigner for Signer {
    fn algorithm(&self) -> Algorithm {
        Algorithm::RS256
    }
}

/// Makes `jsonwebtoken` sign with ring from now on.
pub(super) fn install() {
    static ONCE: OnceLock<()> = OnceLock::new();
    // Whoever installed another one before has one that signs as well.
    ONCE.get_or_init(|| _ = PROVIDER.install_default().ok());
}

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    if *algorithm != Algorithm::RS256 {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let pair = RsaKeyPair::from_der(key.as_bytes()).map_err(|why| ErrorKind::InvalidRsaKey(why.to_string()))?;
    Ok(Box::new(Signer(pair)))
}

fn no_verifier(_: &Algorithm, _: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}
