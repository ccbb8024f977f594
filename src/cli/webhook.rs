//! `frognano-bot webhook explain`: what the service makes of a recorded delivery. Nothing is started, stored or sent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};

use crate::config::{File, Forge, ForgeKind};
use crate::domain::{Explanation, Verb};
use crate::forge::gitlab::Age;
use crate::forge::{Ears, Headers, Inbound};

use super::{print, usage};

/// Look into deliveries of webhooks.
#[derive(Debug, Args)]
pub(super) struct Webhook {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what the service makes of one recorded delivery, and why: the answer to "why did the bot not react?".
    ///
    /// Prints one line of JSON: {"verified": true, "event": "issues", "verb": "start", "why": "...", "repository": "o/n", "issue": 7,
    /// "actor": "..."}; what isn't known is null. The verb is start, recheck (the issue is read again, then started or cancelled), cancel,
    /// command, feedback, finish, admin or ignore. The forge is asked nothing: whether the actor may start a run, and whether the issue
    /// still has its label, is found out by the service when the time comes.
    ///
    /// Exit status: 0 explained (a body that can't be read is ignored, and that is explained too), 1 the signature does not fit, so the
    /// service would answer 401, 2 the command line, the configuration, the headers' or the body's file is wrong.
    Explain(Explain),
}

#[derive(Debug, Args)]
struct Explain {
    /// The configuration file; its secrets check the signature.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The name of a configured forge; without a configuration one of github, gitlab, gitea, forgejo.
    #[arg(long)]
    forge: String,
    /// A file with the delivery's headers, `Name: value` lines.
    #[arg(long)]
    headers: PathBuf,
    /// A file with the delivery's body, byte for byte.
    #[arg(long)]
    body: PathBuf,
    /// Do not check the signature; the answer says "verified": false.
    ///
    /// Without this a signature is checked as the service does, but however old it is: a recorded delivery always is.
    #[arg(long)]
    no_verify: bool,
    /// A login of one of our own accounts on the forge, which are never heard.
    #[arg(long = "self", value_name = "LOGIN", default_values_t = ["frognano[bot]".to_owned(), "frognano-bot".to_owned()])]
    myself: Vec<String>,
}

impl Webhook {
    pub(super) fn run(self) -> ExitCode {
        let Command::Explain(explain) = self.command;
        match explain.explain() {
            Ok((explanation, code)) => {
                print(&serde_json::to_string(&explanation).unwrap_or_default());
                code
            }
            Err(complaints) => usage(&complaints),
        }
    }
}

impl Explain {
    fn explain(&self) -> Result<(Explanation, ExitCode), Vec<String>> {
        let inbound = self.inbound()?;
        let headers = parse_headers(&read(&self.headers)?).map_err(|why| vec![format!("{}: {why}", self.headers.display())])?;
        let body = read(&self.body)?;
        let claims = inbound.claims(&headers, &body);
        if !self.no_verify
            && let Err(why) = inbound.verify(&headers, &body)
        {
            return Ok((not_believed(claims.event, &why.to_string()), ExitCode::from(1)));
        }
        let event = inbound.read(&claims.event, &claims.body);
        let read = event.as_ref().map_err(String::as_str);
        Ok((Explanation::of(!self.no_verify, &claims.event, read), ExitCode::SUCCESS))
    }

    fn inbound(&self) -> Result<Arc<dyn Inbound>, Vec<String>> {
        let Some(path) = &self.config else {
            let kind = kind_named(&self.forge)?;
            return if self.no_verify { Ok(self.ears(kind, default_label()).reading()) } else { Err(vec![no_secret()]) };
        };
        let file = File::load_without_secrets(path)?;
        let names = || file.forges.iter().map(|forge| forge.name.as_str()).collect::<Vec<_>>().join(", ");
        let entry = file.forges.iter().find(|forge| forge.name == self.forge);
        let entry =
            entry.ok_or_else(|| vec![format!("--forge {:?}: {} names no such forge, but: {}", self.forge, path.display(), names())])?;
        let ears = self.ears(entry.kind, file.service.label.clone());
        if self.no_verify {
            return Ok(ears.reading());
        }
        ears.believing(secrets(entry, path)?, Age::Any).map_err(|why| vec![why])
    }

    fn ears(&self, kind: ForgeKind, label: String) -> Ears {
        Ears { kind, name: self.forge.clone(), label, myself: self.myself.clone().into() }
    }
}

/// The service answers such a delivery with 401 and reads nothing of it.
fn not_believed(event: String, why: &str) -> Explanation {
    let why = format!("the delivery is refused: {why}");
    Explanation { verified: false, event, verb: Verb::Ignore.name().to_owned(), why, repository: None, issue: None, actor: None }
}

fn kind_named(name: &str) -> Result<ForgeKind, Vec<String>> {
    Ok(match name {
        "github" => ForgeKind::Github,
        "gitlab" => ForgeKind::Gitlab,
        "gitea" => ForgeKind::Gitea,
        "forgejo" => ForgeKind::Forgejo,
        other => {
            return Err(vec![format!("--forge {other:?}: without --config it is one of github, gitlab, gitea, forgejo")]);
        }
    })
}

fn default_label() -> String {
    crate::config::Service::default().label
}

fn no_secret() -> String {
    "no secret is known to check the signature with: name the service's configuration by --config, or skip the check by --no-verify"
        .to_owned()
}

fn secrets(entry: &Forge, config: &Path) -> Result<Vec<secrecy::SecretString>, Vec<String>> {
    let folder = config.parent().unwrap_or(Path::new("."));
    let read = entry.webhook_secrets.iter().map(|source| source.read(folder));
    read.collect::<Result<_, _>>().map_err(|why| vec![format!("[[forge]] {:?} webhook_secrets: {why}", entry.name)])
}

fn read(path: &Path) -> Result<Vec<u8>, Vec<String>> {
    std::fs::read(path).map_err(|error| vec![format!("{}: can't be read: {error}", path.display())])
}

/// Reads `Name: value` lines. What recording tools put around them is passed over: blank lines, the request's or answer's first line, and
/// HTTP/2's `:method` and its like.
fn parse_headers(bytes: &[u8]) -> Result<Headers, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut headers = Vec::new();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(':') || is_first_line(line) {
            continue;
        }
        match line.split_once(':') {
            Some((name, value)) if is_token(name.trim_end()) => headers.push((name.trim_end().to_owned(), value.trim().to_owned())),
            _ => return Err(format!("line {}: is no `Name: value`", at + 1)),
        }
    }
    Ok(Headers(headers))
}

fn is_first_line(line: &str) -> bool {
    line.starts_with("HTTP/") || line.rsplit_once(' ').is_some_and(|(_, last)| last.starts_with("HTTP/"))
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::parse_headers;

    #[test]
    fn headers_are_read_out_of_what_tools_record() {
        let text = "\u{feff}POST http://bot:8087/webhooks/x HTTP/1.1\r\nX-GitHub-Event: issues\r\n\r\n:method: POST\nX-Empty:\nx-url: http://a:1/b \n";
        let headers = parse_headers(text.as_bytes()).unwrap();
        assert_eq!(headers.get("x-github-event"), Some("issues"));
        assert_eq!(headers.get("X-Empty"), Some(""));
        assert_eq!(headers.get("x-url"), Some("http://a:1/b"));
        assert_eq!(headers.0.len(), 3);
        assert_eq!(parse_headers(b"HTTP/2 200\nA: b").unwrap().0.len(), 1);
        assert_eq!(parse_headers(b"").unwrap().0.len(), 0);
    }

    #[test]
    fn other_lines_are_complained_about_by_number() {
        for text in ["A: b\n{\"json\": 1}", "A: b\nno header", "A: b\ntwo words: c"] {
            assert!(parse_headers(text.as_bytes()).unwrap_err().contains("line 2"), "{text}");
        }
    }
}
