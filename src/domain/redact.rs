//! Secrets are taken out of what is stored and shown: the service's own by their very words, others by the shape of their kind.
//!
//! What must hold: one redactor for records, comments, reports and logs; the same text always comes to the same; what is redacted once is not
//! changed again. What the model is sent, and what a run that goes on is taken up from, is never redacted.

use std::borrow::Cow;

use regex::{Regex, RegexSet};
use serde_json::Value;

/// What a token is called, and its shape as a regular expression, by what its issuer says.
pub const SECRET_SHAPES: &[(&str, &str)] = &[
    ("a private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    ("a private key of PuTTY", r"\bPuTTY-User-Key-File-[23]:"),
    ("an AWS access key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("a GitHub token", r"\bgh[pousr]_[A-Za-z0-9]{36,}"),
    ("a GitHub token", r"\bgithub_pat_[A-Za-z0-9_]{36,}"),
    ("a GitLab token", r"\bgl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_-]{20,}"),
    ("a Slack token", r"\bxox[abeoprs]-(?:[0-9]-)?[A-Za-z0-9-]{10,}"),
    ("a Slack token", r"\bxapp-[0-9]-[A-Za-z0-9-]{20,}"),
    ("a Slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{40,}"),
    ("a Stripe key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("a Google API key", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("a Google OAuth secret", r"\bGOCSPX-[A-Za-z0-9_-]{28}"),
    ("an Anthropic or OpenAI key", r"\bsk-[A-Za-z0-9_-]{32,}"),
    ("an npm token", r"\bnpm_[A-Za-z0-9]{36}"),
    ("a PyPI token", r"\bpypi-AgE[A-Za-z0-9_-]{40,}"),
    ("a Hugging Face token", r"\bhf_[A-Za-z0-9]{34,}"),
    ("a SendGrid key", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("a Twilio key", r"\bSK[0-9a-f]{32}\b"),
    ("a DigitalOcean token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("a Vault token", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    ("an Azure storage key", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    ("a Telegram bot token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("a Google OAuth token", r"\bya29\.[A-Za-z0-9_-]{20,}"),
    ("a Stripe webhook secret", r"\bwhsec_[A-Za-z0-9+/]{24,}"),
    ("a Discord webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]{15,}/[A-Za-z0-9_-]{40,}"),
    ("a Discord bot token", r"\b[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    ("a Docker Hub token", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    ("a Mailgun key", r"\bkey-[0-9a-f]{32}\b"),
    ("a Mailchimp key", r"\b[0-9a-f]{32}-us[0-9]{1,2}\b"),
    ("a Square token", r"\bsq0(?:atp|csp)-[A-Za-z0-9_-]{20,}"),
    ("a Shopify token", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("an age key", r"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    ("a Databricks token", r"\bdapi[0-9a-f]{32}"),
    ("a Linear key", r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    ("a Notion token", r"\b(?:secret|ntn)_[A-Za-z0-9]{40,}"),
    ("a New Relic key", r"\bNR(?:AK|AA|RA|II|JS)-[A-Za-z0-9_-]{19,}"),
    ("a Grafana token", r"\bgl(?:sa|c)_[A-Za-z0-9_+/=]{32,}"),
    ("an Atlassian token", r"\bAT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{40,}"),
    ("a Sentry token", r"\bsntry[su]_[A-Za-z0-9_+/=-]{40,}"),
    ("a Postman key", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("a Doppler token", r"\bdp\.(?:pt|st|ct|scim|audit|sa)\.[A-Za-z0-9.]{40,}"),
    ("a Fly token", r"\bfo1_[A-Za-z0-9_-]{40,}"),
    ("an npm token", r"//\S+/:_auth(?:Token)?\s*=\s*[A-Za-z0-9+/=_-]{20,}"),
    ("a password of .netrc", r"\bmachine\s+\S+\s+login\s+\S+\s+password\s+\S{6,}"),
    ("an AWS secret key", r"(?i)aws_?secret_?(?:access_?)?key\W{1,5}[A-Za-z0-9+/]{40}\b"),
    ("a Facebook token", r"\bEAA[A-Za-z0-9]{40,}"),
    ("a Typeform token", r"\btfp_[A-Za-z0-9_-]{40,}"),
    ("a RubyGems key", r"\brubygems_[0-9a-f]{48}"),
    ("a Terraform token", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}"),
    ("a JSON web token", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
];

/// Stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// A secret of fewer bytes is an ordinary word somewhere, and is not looked for.
const SHORTEST: usize = 8;

/// The first shape is the head of a private key; the key stands behind it.
const PRIVATE_KEY: &str = r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\s*(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]*)*[A-Za-z0-9+/=\s\\]*(?:-----END [A-Z0-9 ]*-----)?";

/// Finds secrets.
#[derive(Clone, Default)]
pub struct Redactor {
    set: RegexSet,
    each: Vec<Regex>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Redactor of {} kinds", self.each.len())
    }
}

impl Redactor {
    /// Finds these secrets, what has the shape of a token, and what these regular expressions say. `Redactor::default()` finds nothing.
    ///
    /// # Errors
    /// A pattern that is none.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>, patterns: &[String]) -> Result<Self, String> {
        let mut words = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST).flat_map(as_written).collect::<Vec<_>>();
        words.sort_by_key(|word| (std::cmp::Reverse(word.len()), word.clone()));
        words.dedup();
        let shapes = [PRIVATE_KEY].into_iter().chain(SECRET_SHAPES.iter().skip(1).map(|(_, shape)| *shape));
        let all = words.iter().map(|word| regex::escape(word)).chain(shapes.map(str::to_owned)).chain(patterns.iter().cloned());
        let all = all.collect::<Vec<_>>();
        let each = all.iter().map(|one| Regex::new(one)).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        if let Some(empty) = each.iter().find(|one| one.is_match("")) {
            return Err(format!("{empty}: fits where nothing stands"));
        }
        Ok(Self { set: RegexSet::new(&all).map_err(|error| error.to_string())?, each })
    }

    /// The text without secrets.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = self.set.matches(text);
        let mut redacted = Cow::Borrowed(text);
        for kind in &found {
            redacted = Cow::Owned(self.each[kind].replace_all(&redacted, REDACTED).into_owned());
        }
        redacted
    }

    /// Takes secrets out of every text of a value; whether there were any.
    pub fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.text(text) {
                Cow::Owned(redacted) => {
                    *text = redacted;
                    true
                }
                Cow::Borrowed(_) => false,
            },
            Value::Array(values) => values.iter_mut().fold(false, |found, value| self.value(value) | found),
            Value::Object(fields) => fields.values_mut().fold(false, |found, value| self.value(value) | found),
            _ => false,
        }
    }

    /// The bytes of a JSON document or of a text without secrets; bytes that are neither are left as they are.
    #[must_use]
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Cow::Borrowed(bytes) };
        if let Ok(mut value) = serde_json::from_str::<Value>(text)
            && (value.is_object() || value.is_array())
        {
            return if self.value(&mut value) { Cow::Owned(value.to_string().into_bytes()) } else { Cow::Borrowed(bytes) };
        }
        match self.text(text) {
            Cow::Borrowed(_) => Cow::Borrowed(bytes),
            Cow::Owned(redacted) => Cow::Owned(redacted.into_bytes()),
        }
    }
}

/// A secret as it is, and as it stands within a text of JSON.
fn as_written(secret: &str) -> [String; 2] {
    let quoted = Value::from(secret).to_string();
    [secret.to_owned(), quoted[1..quoted.len() - 1].to_owned()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{REDACTED, Redactor};

    fn redactor() -> Redactor {
        Redactor::new(["forge \"token\" 1", "short"], &["BADGE-[0-9]+".to_owned()]).unwrap()
    }

    #[test]
    fn our_own_secrets_those_of_known_shape_and_configured_ones_are_taken_out() {
        let github = format!("ghp_{}", "a1B2".repeat(9));
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA==\n-----END OPENSSH PRIVATE KEY-----";
        for secret in ["forge \"token\" 1", &github, key, "BADGE-17"] {
            assert_eq!(redactor().text(&format!("a {secret} b {secret}, c")), format!("a {REDACTED} b {REDACTED}, c"), "{secret}");
            let mut call = json!({"calls": [{"arguments": json!({"command": secret}).to_string()}]});
            assert!(redactor().value(&mut call) && !redactor().value(&mut call.clone()), "{secret}");
            assert_eq!(call, json!({"calls": [{"arguments": format!("{{\"command\":\"{REDACTED}\"}}")}]}));
        }
    }

    #[test]
    fn what_is_no_secret_is_left_byte_for_byte() {
        for text in ["a short word", "{\"b\": 1.50, \"a\": [1e3]}", "if '-----BEGIN CERTIFICATE-----' in text:", "\u{20ac}"] {
            assert_eq!(redactor().bytes(text.as_bytes()), text.as_bytes());
            assert_eq!(Redactor::default().text(text), text);
        }
        assert_eq!(redactor().bytes(&[0xff, 0]), &[0xff, 0][..]);
        let kept = redactor().text("x == '-----BEGIN PRIVATE KEY-----' or y").into_owned();
        assert_eq!(kept, format!("x == '{REDACTED}' or y"), "only what can be a key goes with its head");
    }

    #[test]
    fn a_pattern_that_is_none_or_fits_everywhere_is_refused() {
        assert!(Redactor::new([], &["(".to_owned()]).is_err());
        assert!(Redactor::new([], &["a*".to_owned()]).unwrap_err().contains("fits where nothing stands"));
    }
}
