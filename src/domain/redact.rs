//! Secrets are taken out of what is stored and shown: the service's own by their very words, others by the shape of their kind.
//!
//! What must hold: one redactor for records, comments, reports and logs; the same text always comes to the same; what is redacted once is not
//! changed again. What the model is sent, and what a run that goes on is taken up from, is never redacted.

use std::borrow::Cow;

use regex::{Regex, RegexSet};
use serde_json::Value;

/// What a token is called, and its shape as a regular expression, by what its issuer says. Its boundaries are those of ASCII words: Unicode ones make
/// the search of a text beyond ASCII a thousand times slower.
pub const SECRET_SHAPES: &[(&str, &str)] = &[
    ("a private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    ("a private key of PuTTY", r"(?-u:\b)PuTTY-User-Key-File-[23]:"),
    ("an AWS access key", r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?-u:\b)"),
    ("a GitHub token", r"(?-u:\b)gh[pousr]_[A-Za-z0-9]{36,}"),
    ("a GitHub token", r"(?-u:\b)github_pat_[A-Za-z0-9_]{36,}"),
    ("a GitLab token", r"(?-u:\b)gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_-]{20,}"),
    ("a Slack token", r"(?-u:\b)xox[abeoprs]-(?:[0-9]-)?[A-Za-z0-9-]{10,}"),
    ("a Slack token", r"(?-u:\b)xapp-[0-9]-[A-Za-z0-9-]{20,}"),
    ("a Slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{40,}"),
    ("a Stripe key", r"(?-u:\b)[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("a Google API key", r"(?-u:\b)AIza[0-9A-Za-z_-]{35}"),
    ("a Google OAuth secret", r"(?-u:\b)GOCSPX-[A-Za-z0-9_-]{28}"),
    ("an Anthropic or OpenAI key", r"(?-u:\b)sk-[A-Za-z0-9_-]{32,}"),
    ("an npm token", r"(?-u:\b)npm_[A-Za-z0-9]{36}"),
    ("a PyPI token", r"(?-u:\b)pypi-AgE[A-Za-z0-9_-]{40,}"),
    ("a Hugging Face token", r"(?-u:\b)hf_[A-Za-z0-9]{34,}"),
    ("a SendGrid key", r"(?-u:\b)SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("a Twilio key", r"(?-u:\b)SK[0-9a-f]{32}(?-u:\b)"),
    ("a DigitalOcean token", r"(?-u:\b)do[opr]_v1_[a-f0-9]{64}"),
    ("a Vault token", r"(?-u:\b)hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    ("an Azure storage key", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    ("a Telegram bot token", r"(?-u:\b)[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("a Google OAuth token", r"(?-u:\b)ya29\.[A-Za-z0-9_-]{20,}"),
    ("a Stripe webhook secret", r"(?-u:\b)whsec_[A-Za-z0-9+/]{24,}"),
    ("a Discord webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]{15,}/[A-Za-z0-9_-]{40,}"),
    ("a Discord bot token", r"(?-u:\b)[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    ("a Docker Hub token", r"(?-u:\b)dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    ("a Mailgun key", r"(?-u:\b)key-[0-9a-f]{32}(?-u:\b)"),
    ("a Mailchimp key", r"(?-u:\b)[0-9a-f]{32}-us[0-9]{1,2}(?-u:\b)"),
    ("a Square token", r"(?-u:\b)sq0(?:atp|csp)-[A-Za-z0-9_-]{20,}"),
    ("a Shopify token", r"(?-u:\b)shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("an age key", r"(?-u:\b)AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    ("a Databricks token", r"(?-u:\b)dapi[0-9a-f]{32}"),
    ("a Linear key", r"(?-u:\b)lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    ("a Notion token", r"(?-u:\b)(?:secret|ntn)_[A-Za-z0-9]{40,}"),
    ("a New Relic key", r"(?-u:\b)NR(?:AK|AA|RA|II|JS)-[A-Za-z0-9_-]{19,}"),
    ("a Grafana token", r"(?-u:\b)gl(?:sa|c)_[A-Za-z0-9_+/=]{32,}"),
    ("an Atlassian token", r"(?-u:\b)AT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{40,}"),
    ("a Sentry token", r"(?-u:\b)sntry[su]_[A-Za-z0-9_+/=-]{40,}"),
    ("a Postman key", r"(?-u:\b)PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("a Doppler token", r"(?-u:\b)dp\.(?:pt|st|ct|scim|audit|sa)\.[A-Za-z0-9.]{40,}"),
    ("a Fly token", r"(?-u:\b)fo1_[A-Za-z0-9_-]{40,}"),
    ("an npm token", r"//\S+/:_auth(?:Token)?\s*=\s*[A-Za-z0-9+/=_-]{20,}"),
    ("a password of .netrc", r"(?-u:\b)machine\s+\S+\s+login\s+\S+\s+password\s+\S{6,}"),
    ("an AWS secret key", r"(?i)aws_?secret_?(?:access_?)?key\W{1,5}[A-Za-z0-9+/]{40}(?-u:\b)"),
    ("a Facebook token", r"(?-u:\b)EAA[A-Za-z0-9]{40,}"),
    ("a Typeform token", r"(?-u:\b)tfp_[A-Za-z0-9_-]{40,}"),
    ("a RubyGems key", r"(?-u:\b)rubygems_[0-9a-f]{48}"),
    ("a Terraform token", r"(?-u:\b)[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}"),
    ("a JSON web token", r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
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

    use super::{REDACTED, Redactor, SECRET_SHAPES};

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
    fn texts_beyond_ascii_are_searched_as_fast_and_a_token_beside_any_letter_is_found() {
        for (name, shape) in SECRET_SHAPES {
            assert!(!shape.replace(r"(?-u:\b)", "").contains(r"\b"), "{name}: a Unicode boundary");
        }
        let github = format!("ghp_{}", "a1B2".repeat(9));
        assert_eq!(redactor().text(&format!("cl\u{e9}{github}")), format!("cl\u{e9}{REDACTED}"));
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
