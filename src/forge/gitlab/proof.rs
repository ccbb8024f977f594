//! What proves that a delivery is from GitLab: its token in plain text, its signature by the Standard Webhooks scheme, or both.
//!
//! What must hold: each kind of secret that is configured is demanded, so that who learns the weaker one (the token crosses the network)
//! gains nothing; comparing takes the same time whichever secret or byte differs; a signed delivery can't be sent again later.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use crate::domain::Clock;
use crate::forge::signature::{Unproved, hmac_sha256};
use crate::forge::{Headers, NotVerified, VerifiedDelivery};

/// By this the secrets of the signing scheme are known.
const SIGNING: &str = "whsec_";
/// The signed time may be so far from ours (the scheme's own number).
const TOLERANCE_MS: i64 = 5 * 60 * 1000;

/// How old a signed delivery may be.
#[derive(Clone)]
pub enum Age {
    /// At most five minutes off this clock, in both directions: for what arrives.
    Fresh(Arc<dyn Clock>),
    /// As old as it likes: for an administrator who asks about a recorded delivery. It starts nothing.
    Any,
}

/// The secrets of one GitLab's hooks; several of a kind while one is being replaced.
pub(super) struct Proof {
    tokens: Vec<SecretString>,
    keys: Vec<SecretSlice<u8>>,
    age: Age,
}

impl Proof {
    /// Secrets that begin with `whsec_` sign, all others are tokens.
    ///
    /// # Errors
    /// A sentence when there is no secret, an empty one, or a signing one that is no base64.
    pub(super) fn new(forge: &str, secrets: Vec<SecretString>, age: Age) -> Result<Self, String> {
        if secrets.is_empty() {
            return Err(format!("forge `{forge}` has no webhook secret: without one anybody could start a run; configure one"));
        }
        let (mut tokens, mut keys) = (Vec::new(), Vec::new());
        for secret in secrets {
            match secret.expose_secret().strip_prefix(SIGNING) {
                Some(key) => match STANDARD.decode(key) {
                    Ok(key) if !key.is_empty() => keys.push(SecretSlice::from(key)),
                    _ => return Err(format!("forge `{forge}` has a signing secret that is not `{SIGNING}` and base64: copy it again")),
                },
                None if secret.expose_secret().trim().is_empty() => {
                    return Err(format!("forge `{forge}` has an empty webhook secret: anybody could send it; remove or replace it"));
                }
                None => tokens.push(secret),
            }
        }
        Ok(Self { tokens, keys, age })
    }

    /// No secret at all: nothing is believed.
    pub(super) const fn none() -> Self {
        Self { tokens: Vec::new(), keys: Vec::new(), age: Age::Any }
    }

    /// Whether deliveries must be signed, so that their signed id is the one to go by.
    pub(super) const fn is_signed(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The delivery, when everything fits that is configured.
    pub(super) fn open(&self, headers: &Headers, body: &[u8], delivery: Unproved) -> Result<VerifiedDelivery, NotVerified> {
        let mut fits = Choice::from(u8::from(!self.tokens.is_empty() || !self.keys.is_empty()));
        if !self.tokens.is_empty() {
            fits &= self.token_fits(present(headers, "x-gitlab-token")?);
        }
        if !self.keys.is_empty() {
            fits &= self.signature_fits(headers, body)?;
        }
        delivery.believed_if(fits)
    }

    /// Digests are compared, so that not even the length of a token shows.
    fn token_fits(&self, sent: &str) -> Choice {
        let sent = Sha256::digest(sent.as_bytes());
        let fits = |token: &SecretString| Sha256::digest(token.expose_secret().as_bytes()).as_slice().ct_eq(sent.as_slice());
        self.tokens.iter().fold(Choice::from(0), |any, token| any | fits(token))
    }

    /// One of the signatures in the header must be that of `id.time.body` under one of the keys. All are always tried.
    fn signature_fits(&self, headers: &Headers, body: &[u8]) -> Result<Choice, NotVerified> {
        let (signatures, id, time) =
            (present(headers, "webhook-signature")?, present(headers, "webhook-id")?, present(headers, "webhook-timestamp")?);
        self.fresh(time)?;
        let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
        let mut fits = Choice::from(0);
        for key in &self.keys {
            let ours = STANDARD.encode(hmac_sha256(key.expose_secret(), &signed));
            for theirs in signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1,")) {
                fits |= ours.as_bytes().ct_eq(theirs.as_bytes());
            }
        }
        Ok(fits)
    }

    fn fresh(&self, time: &str) -> Result<(), NotVerified> {
        let sent_ms = time.parse::<i64>().ok().and_then(|seconds| seconds.checked_mul(1000)).ok_or(NotVerified::Stale)?;
        match &self.age {
            Age::Fresh(clock) if clock.now_ms().abs_diff(sent_ms) > TOLERANCE_MS.unsigned_abs() => Err(NotVerified::Stale),
            _ => Ok(()),
        }
    }
}

fn present<'a>(headers: &'a Headers, name: &str) -> Result<&'a str, NotVerified> {
    headers.get(name).filter(|value| !value.is_empty()).ok_or(NotVerified::Missing)
}
