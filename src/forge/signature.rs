//! Signatures over webhook deliveries: no byte of a delivery is read before one of the secrets is proved to stand behind it.
//!
//! What must hold: an absent, empty, doubled or foreign signature is refused; comparing takes the same time whichever secret or byte
//! differs; a [`VerifiedDelivery`] exists only for bytes whose signature fits.

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use super::{Headers, NotVerified};

const LONGEST_DELIVERY_ID: usize = 128;

/// A delivery whose signature was checked. Made by [`super::Inbound::verify`] and in no other way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedDelivery {
    id: String,
    event: String,
    body: Vec<u8>,
}

impl VerifiedDelivery {
    /// The forge's id of this delivery, or one derived from the body where the forge sent none: a repeat has the same.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The event's name as the forge's header gives it, empty where it gives none.
    #[must_use]
    pub fn event(&self) -> &str {
        &self.event
    }

    /// The JSON text: the body as received, or what stood in `payload=` of a form.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

/// The secrets that a forge may sign with: at least one, none empty; several while one is being replaced.
#[derive(Debug, Clone)]
pub(super) struct Secrets(Vec<SecretString>);

impl Secrets {
    /// # Errors
    /// A sentence when there is no secret, or an empty one: then anybody could sign.
    pub(super) fn new(forge: &str, secrets: Vec<SecretString>) -> Result<Self, String> {
        if secrets.is_empty() {
            return Err(format!("forge `{forge}` has no webhook secret: without one anybody could start a run; configure one"));
        }
        if secrets.iter().any(|secret| secret.expose_secret().trim().is_empty()) {
            return Err(format!("forge `{forge}` has an empty webhook secret: anybody could sign with it; remove or replace it"));
        }
        Ok(Self(secrets))
    }

    /// The delivery, when `claimed` is the lower-case hexadecimal HMAC-SHA256 of `signed` under one of the secrets. All are always tried.
    pub(super) fn open(&self, signed: &[u8], claimed: &str, delivery: Unproved) -> Result<VerifiedDelivery, NotVerified> {
        let fits = self.0.iter().fold(Choice::from(0), |fits, secret| {
            fits | hmac_sha256_hex(secret.expose_secret().as_bytes(), signed).as_bytes().ct_eq(claimed.as_bytes())
        });
        delivery.believed_if(fits)
    }

    /// No secret at all: nothing is believed.
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }
}

/// What a delivery says of itself before its signature is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unproved {
    /// Its id.
    pub id: String,
    /// The name of its event.
    pub event: String,
    /// Its JSON text.
    pub body: Vec<u8>,
}

impl Unproved {
    /// The delivery, when the comparing of its signature came out well.
    pub(super) fn believed_if(self, fits: Choice) -> Result<VerifiedDelivery, NotVerified> {
        let Self { id, event, body } = self;
        if bool::from(fits) { Ok(VerifiedDelivery { id, event, body }) } else { Err(NotVerified::Wrong) }
    }
}

/// The HMAC-SHA256 of a message as 64 lower-case hexadecimal digits, as GitHub, Gitea and Forgejo sign.
#[must_use]
pub fn hmac_sha256_hex(key: &[u8], message: &[u8]) -> String {
    hex::encode(hmac_sha256(key, message))
}

/// The HMAC-SHA256 of a message. The key is brought to the length of a block as RFC 2104 says, so that keys of every length are good.
pub(super) fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut mac = <Hmac<Sha256>>::new(&block.into());
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The signature of the first of these headers that came. A header that came empty or doubled is refused, and no later one is asked.
pub(super) fn claimed<'a>(headers: &'a Headers, names: &[(&str, &str)]) -> Result<&'a str, NotVerified> {
    for (name, prefix) in names {
        if headers.0.iter().any(|(key, _)| key.eq_ignore_ascii_case(name)) {
            let value = headers.get(name).filter(|value| !value.is_empty()).ok_or(NotVerified::Missing)?;
            return match value.strip_prefix(prefix) {
                Some("") => Err(NotVerified::Missing),
                Some(digest) => Ok(digest),
                None => Err(NotVerified::Wrong),
            };
        }
    }
    Err(NotVerified::Missing)
}

/// The delivery's id from the first of these headers with a usable value (visible ASCII, at most 128 characters), else from the body.
pub(super) fn delivery_id(headers: &Headers, names: &[&str], body: &[u8]) -> String {
    let usable = |id: &&str| !id.is_empty() && id.len() <= LONGEST_DELIVERY_ID && id.bytes().all(|byte| byte.is_ascii_graphic());
    names
        .iter()
        .find_map(|name| headers.get(name).filter(usable))
        .map_or_else(|| format!("sha256-{}", hex::encode(Sha256::digest(body))), str::to_owned)
}

/// The value of the first of these headers, empty when none came.
pub(super) fn event_name(headers: &Headers, names: &[&str]) -> String {
    names.iter().find_map(|name| headers.get(name)).unwrap_or_default().to_owned()
}

/// Whether the body is a form: as its content type says, or where none came, as it begins.
pub(super) fn is_form(headers: &Headers, body: &[u8]) -> bool {
    headers.get("content-type").map_or_else(
        || body.starts_with(b"payload="),
        |kind| kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"),
    )
}

/// The JSON text in the one `payload` field of a form; none when there is no such field or more than one.
pub(super) fn form_payload(body: &[u8]) -> Option<Vec<u8>> {
    let mut payloads = url::form_urlencoded::parse(body).filter(|(key, _)| key == "payload");
    match (payloads.next(), payloads.next()) {
        (Some((_, payload)), None) => Some(payload.into_owned().into_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::{Secrets, Unproved, claimed, delivery_id, form_payload, hmac_sha256_hex, is_form};
    use crate::forge::{Headers, NotVerified};

    fn headers(list: &[(&str, &str)]) -> Headers {
        Headers(list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn unproved() -> Unproved {
        Unproved { id: "1".into(), event: "issues".into(), body: b"{}".to_vec() }
    }

    #[test]
    fn hmac_agrees_with_published_vectors_for_short_and_long_keys() {
        assert_eq!(
            hmac_sha256_hex(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hmac_sha256_hex(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn each_of_several_secrets_is_accepted_and_no_other() {
        let secrets = Secrets::new("f", vec![SecretString::from("old"), SecretString::from("new")]).unwrap();
        for key in ["old", "new"] {
            assert!(secrets.open(b"body", &hmac_sha256_hex(key.as_bytes(), b"body"), unproved()).is_ok());
        }
        for key in ["", "other"] {
            let digest = hmac_sha256_hex(key.as_bytes(), b"body");
            assert_eq!(secrets.open(b"body", &digest, unproved()).unwrap_err(), NotVerified::Wrong);
        }
        assert_eq!(secrets.open(b"body", "", unproved()).unwrap_err(), NotVerified::Wrong);
    }

    #[test]
    fn no_secret_and_empty_secrets_are_refused_without_being_shown() {
        assert!(Secrets::new("f", vec![]).is_err());
        for empty in ["", "  "] {
            assert!(Secrets::new("f", vec![SecretString::from("good"), SecretString::from(empty)]).is_err());
        }
        let shown = format!("{:?}", Secrets::new("f", vec![SecretString::from("hidden-word")]).unwrap());
        assert!(!shown.contains("hidden-word"));
    }

    #[test]
    fn the_first_header_that_came_decides() {
        let names = [("x-own", ""), ("x-other", "sha256=")];
        assert_eq!(claimed(&headers(&[("X-Own", "aa"), ("X-Other", "sha256=bb")]), &names), Ok("aa"));
        assert_eq!(claimed(&headers(&[("x-other", "sha256=bb")]), &names), Ok("bb"));
        assert_eq!(claimed(&headers(&[("x-own", ""), ("x-other", "sha256=bb")]), &names), Err(NotVerified::Missing));
        assert_eq!(claimed(&headers(&[("x-own", "a"), ("x-own", "a"), ("x-other", "sha256=bb")]), &names), Err(NotVerified::Missing));
        assert_eq!(claimed(&headers(&[("x-other", "bb")]), &names), Err(NotVerified::Wrong));
        assert_eq!(claimed(&headers(&[]), &names), Err(NotVerified::Missing));
    }

    #[test]
    fn a_delivery_without_a_usable_id_is_known_by_its_body() {
        let derived = delivery_id(&headers(&[]), &["x-id"], b"body");
        assert_eq!(derived, "sha256-230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5");
        for odd in ["", "with space", "\u{fc}", &"x".repeat(129)] {
            assert_eq!(delivery_id(&headers(&[("x-id", odd)]), &["x-id"], b"body"), derived);
        }
        assert_ne!(delivery_id(&headers(&[]), &["x-id"], b"other"), derived);
        assert_eq!(delivery_id(&headers(&[("x-id", "guid")]), &["x-first", "x-id"], b"body"), "guid");
    }

    #[test]
    fn a_form_has_exactly_one_payload() {
        assert_eq!(form_payload(b"a=1&payload=%7B%22x%22%3A+1%7D").as_deref(), Some(&b"{\"x\": 1}"[..]));
        assert_eq!(form_payload(b"payload=1&payload=2"), None);
        assert_eq!(form_payload(b"\xff\x00"), None);
        assert!(is_form(&headers(&[("content-type", "Application/X-WWW-Form-Urlencoded; charset=utf-8")]), b""));
        assert!(!is_form(&headers(&[("content-type", "application/json")]), b"payload=1"));
        assert!(is_form(&headers(&[]), b"payload=1"));
    }
}
