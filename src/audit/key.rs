//! Signatures: Ed25519 in a DSSE envelope (secure-systems-lab/dsse, protocol 1), for checkpoints and statements alike.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Digest, canonical};

const CHECKPOINT: &str = "application/vnd.frognano.checkpoint+json";

/// What stands before the 32 bytes of an Ed25519 key in its `SubjectPublicKeyInfo` (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The key that checkpoints and statements are signed with.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// A new key, as the PEM text that [`Self::read`] reads.
    ///
    /// # Errors
    /// When the machine gives no random numbers.
    pub fn generate() -> Result<SecretString, String> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| "the machine gives no random numbers")?;
        Ok(pem("PRIVATE KEY", document.as_ref()).into())
    }

    /// Reads a private key in PKCS #8, as PEM (`openssl genpkey -algorithm ed25519`).
    ///
    /// # Errors
    /// When it is none.
    pub fn read(text: &SecretString) -> Result<Self, String> {
        let no_key = "is no Ed25519 private key in PKCS #8, as PEM: make one with `frognano-bot audit key --new FILE`";
        let der = Zeroizing::new(unpem("PRIVATE KEY", text.expose_secret()).ok_or(no_key)?);
        Ok(Self(Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(|_| no_key)?))
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(key)
    }

    /// Signs a value in its canonical form.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn sign(&self, payload_type: &str, value: &impl Serialize) -> Result<Envelope, serde_json::Error> {
        let payload = canonical(value)?;
        let sig = self.0.sign(&to_be_signed(payload_type, &payload));
        Ok(Envelope {
            payload: STANDARD.encode(&payload),
            payload_type: payload_type.to_owned(),
            signatures: vec![Signature { keyid: self.public().id(), sig: STANDARD.encode(sig) }],
        })
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "SigningKey({})", self.public().id())
    }
}

/// A public key; written as 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The name by which signatures say which key they are by: the start of its SHA-256.
    #[must_use]
    pub fn id(&self) -> String {
        Digest::of(&self.0).to_string()[..16].to_owned()
    }

    /// Reads PEM (`SubjectPublicKeyInfo`), or 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Some(Self(hex::decode(text).ok()?.try_into().ok()?));
        }
        Some(Self(unpem("PUBLIC KEY", text)?.strip_prefix(&SPKI)?.try_into().ok()?))
    }

    /// As PEM, for other programs.
    #[must_use]
    pub fn pem(&self) -> String {
        pem("PUBLIC KEY", &[&SPKI[..], &self.0[..]].concat())
    }
}

impl Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(self.0))
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).filter(|_| text.len() == 64).ok_or_else(|| serde::de::Error::custom("a public key is 64 hexadecimal digits"))
    }
}

/// A signed value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The value in its canonical form, in base64.
    pub payload: String,
    /// What the value is.
    #[serde(rename = "payloadType")]
    pub payload_type: String,
    /// By whom.
    pub signatures: Vec<Signature>,
}

/// One signature of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The name of the key.
    pub keyid: String,
    /// The signature, in base64.
    pub sig: String,
}

impl Envelope {
    /// The value, if this key signed it as of this type.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn open<T: DeserializeOwned>(&self, payload_type: &str, key: &PublicKey) -> Result<T, String> {
        if self.payload_type != payload_type {
            return Err(format!("it is signed as {:?}, not as {payload_type:?}", self.payload_type));
        }
        let [signature] = self.signatures.as_slice() else { return Err("it has not exactly one signature".to_owned()) };
        if signature.keyid != key.id() {
            return Err(format!("it is signed with the key {}, not with {}", signature.keyid, key.id()));
        }
        let decode = |text: &str, what: &str| STANDARD.decode(text).map_err(|error| format!("the {what} is no base64: {error}"));
        let (payload, sig) = (decode(&self.payload, "payload")?, decode(&signature.sig, "signature")?);
        UnparsedPublicKey::new(&ED25519, key.0)
            .verify(&to_be_signed(payload_type, &payload), &sig)
            .map_err(|_| format!("the signature is not one of the key {}", key.id()))?;
        serde_json::from_slice(&payload).map_err(|error| format!("the payload can't be read: {error}"))
    }
}

impl Envelope {
    /// The end of the chain that it says it holds, believed or not; none where it holds something else.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        serde_json::from_slice(&STANDARD.decode(&self.payload).ok()?).ok()
    }
}

/// The last row of the chain at some time, signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Which chain.
    pub log: String,
    /// The number of the last row.
    pub number: i64,
    /// Its hash.
    pub hash: Digest,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

impl Checkpoint {
    /// Signs it.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn sign(&self, key: &SigningKey) -> Result<Envelope, serde_json::Error> {
        key.sign(CHECKPOINT, self)
    }

    /// Reads a signed one.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn open(envelope: &Envelope, key: &PublicKey) -> Result<Self, String> {
        envelope.open(CHECKPOINT, key)
    }
}

/// The pre-authentication encoding of DSSE.
fn to_be_signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

fn pem(what: &str, der: &[u8]) -> String {
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", STANDARD.encode(der))
}

fn unpem(what: &str, text: &str) -> Option<Vec<u8>> {
    let body = text.trim().strip_prefix(&format!("-----BEGIN {what}-----"))?.strip_suffix(&format!("-----END {what}-----"))?;
    STANDARD.decode(body.split_whitespace().collect::<String>()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The first test vector of RFC 8032, section 7.1.
    const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    fn key() -> SigningKey {
        let der = [hex::decode("302e020100300506032b657004220420").unwrap(), hex::decode(SEED).unwrap()].concat();
        SigningKey::read(&pem("PRIVATE KEY", &der).into()).unwrap()
    }

    #[test]
    fn keys_are_read_as_openssl_writes_them() {
        let key = key();
        assert_eq!(serde_json::to_value(key.public()).unwrap(), json!(PUBLIC));
        assert_eq!(PublicKey::parse(&key.public().pem()), Some(key.public()));
        assert_eq!(PublicKey::parse(PUBLIC), Some(key.public()));
        let other = SigningKey::read(&SigningKey::generate().unwrap()).unwrap();
        assert_ne!(other.public(), key.public());
        assert!(SigningKey::read(&"no key".to_owned().into()).unwrap_err().contains("audit key --new"));
    }

    #[test]
    fn an_envelope_is_believed_whole_and_from_one_key_only() {
        let signed = key().sign("a/b", &json!({"z": 1, "a": 2})).unwrap();
        assert_eq!(STANDARD.decode(&signed.payload).unwrap(), br#"{"a":2,"z":1}"#);
        assert_eq!(signed.open::<serde_json::Value>("a/b", &key().public()).unwrap(), json!({"a": 2, "z": 1}));
        let other = SigningKey::read(&SigningKey::generate().unwrap()).unwrap();
        assert!(signed.open::<serde_json::Value>("a/b", &other.public()).unwrap_err().contains("not with"));
        assert!(signed.open::<serde_json::Value>("a/c", &key().public()).unwrap_err().contains("signed as"));
        let mut forged = signed.clone();
        forged.payload = STANDARD.encode(br#"{"a":3,"z":1}"#);
        assert!(forged.open::<serde_json::Value>("a/b", &key().public()).unwrap_err().contains("not one of the key"));
    }

    #[test]
    fn what_is_signed_is_what_the_specification_of_dsse_says() {
        assert_eq!(
            to_be_signed("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }
}
