//! A key in a patch is a key in the history for ever. The finding says where it is and of which kind, never what it is.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexSet};

use super::{Patch, file_name, lines, of_file};
use crate::domain::{Finding, Severity, is_test_file};

pub(super) const RULE: &str = "secret";

/// What the issuers say of the shapes of their tokens.
const SHAPES: &[(&str, &str)] = &[
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

static SET: LazyLock<Result<RegexSet, regex::Error>> = LazyLock::new(|| RegexSet::new(SHAPES.iter().map(|(_, shape)| shape)));

/// A name that says secret, and the text that it is given.
static GIVEN: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)[a-z0-9_.-]*(?:secret|passw|api[_-]?key|token|private[_-]?key|access[_-]?key|credential|auth)[a-z0-9_-]*["']?\]?\s*(?::\s*str\s*)?(?:=|:)\s*["']([^"'\s]{8,})["']|^\s*(?:export\s+)?[A-Z][A-Z0-9_]*(?:SECRET|PASSW(?:OR)?D|TOKEN|API_KEY)[A-Z0-9_]*=([^\s"'$]{8,})$|://[^/\s:@"']*:([^/\s@"']{4,})@|\b(?:bearer|basic)\s+([a-z0-9._~+/=-]{24,})"#,
    )
});

static SET_PLAINLY: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)^\s*(?:export\s+)?[a-z0-9_.-]*(?:secret|passw(?:or)?d|token|api[_-]?key)[a-z0-9_.-]*\s*[=:]\s*([^\s"'$(){}\[\]]{20,})$"#,
    )
});

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let set = SET.as_ref().map_err(ToString::to_string)?;
    let mut findings = Vec::new();
    for file in patch.changed {
        for (number, line) in lines::added(file) {
            if let Some(severity) = given(line, is_test_file(&file.path))?.or(set_in_a_file(line, &file.path)?) {
                findings.push(of_file(
                    RULE,
                    severity,
                    file,
                    Some(number),
                    "the line looks like a secret that is written down; take it out and revoke it if it was real",
                ));
            }
            if let Some(kind) = set.matches(line).into_iter().next() {
                let why = format!("the line has the shape of {}; take it out and revoke it if it was real", SHAPES[kind].0);
                findings.push(of_file(RULE, Severity::Refuse, file, Some(number), why));
            }
        }
    }
    Ok(findings)
}

/// How much a text weighs that is given to a secret's name: a random one is refused, another one shown.
fn given(line: &[u8], in_tests: bool) -> Result<Option<Severity>, String> {
    let shape = GIVEN.as_ref().map_err(ToString::to_string)?;
    let Some(found) = shape.captures(line) else { return Ok(None) };
    let value = (1..=4).find_map(|group| found.get(group)).map(|value| value.as_bytes()).unwrap_or_default();
    let in_address = found.get(3).is_some() && value.len() >= 10 && has_all_kinds(value);
    let is_header = found.get(4).is_some();
    Ok(match (is_random(value) || in_address, in_tests) {
        (false, _) if is_header => None,
        (true, false) => Some(Severity::Refuse),
        (true, true) => Some(Severity::Flag),
        (false, false) => Some(Severity::Flag),
        (false, true) => None,
    })
}

fn is_random(value: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| value.iter().any(kind);
    value.len() >= 20 && entropy(value) > 3.5 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && !value.contains(&b'{')
}

fn has_all_kinds(value: &[u8]) -> bool {
    [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase].iter().all(|kind| value.iter().any(kind)) && !value.contains(&b'{')
}

/// A line of settings without quotes: `password = …`. In a program that could be the name of something.
fn set_in_a_file(line: &[u8], path: &[u8]) -> Result<Option<Severity>, String> {
    let shape = SET_PLAINLY.as_ref().map_err(ToString::to_string)?;
    let value = shape.captures(line).and_then(|found| found.get(1)).map(|value| value.as_bytes());
    let is_settings = file_name(path).starts_with(b".")
        || [".ini", ".cfg", ".conf", ".env", ".properties", ".yml", ".yaml", ".toml", "credentials"]
            .iter()
            .any(|ending| path.ends_with(ending.as_bytes()));
    Ok((is_settings && value.is_some_and(is_random)).then_some(Severity::Refuse))
}

/// Bits a byte, by how often each occurs.
fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    value.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let length = value.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / length).map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::guard::tests::{changed, findings};

    #[test]
    fn token_shapes_are_refused_without_being_repeated() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let keys = [
            token.clone(),
            "-----BEGIN OPENSSH PRIVATE KEY-----".to_owned(),
            format!("AKIA{}", "Q".repeat(16)),
            format!("glpat-{}", "x".repeat(20)),
            format!("sk-ant-{}", "0".repeat(40)),
        ];
        let found = findings(check, &[changed("a.py", None, Some(&keys.join("\n")))]);
        assert_eq!(found.iter().map(|finding| finding.line.unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert!(!found.iter().any(|finding| finding.why.contains(&token)));
    }

    #[test]
    fn old_keys_and_ordinary_words_are_not() {
        let old = "-----BEGIN PRIVATE KEY-----\n";
        assert!(findings(check, &[changed("a", Some(old), Some(&format!("{old}more\n")))]).is_empty());
        let words =
            "-----BEGIN CERTIFICATE-----\nrisk-adjusted-returns-of-the-whole-portfolio\ntask-name\nghp_short\nhttps://example.invalid/\n";
        assert!(findings(check, &[changed("a", None, Some(words))]).is_empty());
    }
}
