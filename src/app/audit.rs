//! The key that the audit chain is signed with, and where its signed ends go.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use crate::audit::{Digest, Envelope, Kind, Note, SigningKey};
use crate::config::{self, Access, Config, ForgeSecrets};
use crate::domain::Redactor;
use crate::forge::Forge;
use crate::git::{Git, Mirrors};
use crate::publish::anchor::{Anchorage, anchored};
use crate::store::{Keeping, Store};
use crate::worker::{Anchor, Anchors, FileAnchor, RepositoryAnchor, Signing};

/// The name of the key in the data folder.
pub const KEY_FILE: &str = "audit-key.pem";

/// How the end of the chain is signed.
pub(super) fn signing(config: &Config, key: Arc<SigningKey>, forges: &HashMap<String, Arc<dyn Forge>>, mirrors: &Mirrors) -> Signing {
    let audit = &config.file.audit;
    let mut anchors: Vec<Box<dyn Anchor>> = Vec::new();
    if let Some(file) = &audit.anchor_file {
        anchors.push(Box::new(FileAnchor::new(file.clone())));
    }
    if let Some((at, forge)) = audit.anchor_repository.as_ref().and_then(|at| Some((at, forges.get(&at.forge)?))) {
        let (forge, by) = (forge.clone(), config.file.attribution());
        let anchorage = Anchorage { forge, forge_name: at.forge.clone(), path: at.path.clone(), mirrors: mirrors.clone(), by };
        anchors.push(Box::new(RepositoryAnchor(anchorage)));
    }
    Signing { key, every: Duration::from_secs(audit.sign_seconds), anchor: Arc::new(Anchors(anchors)) }
}

/// How long the texts of runs are kept.
pub(super) fn keeping(audit: &config::Audit) -> Keeping {
    let days = |days: u32| (days > 0).then(|| i64::from(days) * 24 * 60 * 60 * 1000);
    let of_some = audit.repositories.iter().map(|line| (line.repositories.clone(), days(line.keep_days)));
    Keeping { of_all: days(audit.keep_days), of_some: of_some.collect() }
}

/// The signed ends in a clone of the repository that they are pushed to.
///
/// # Errors
/// When the clone has none, or one can't be read.
pub async fn anchored_in(clone: &Path) -> Result<Vec<Envelope>, String> {
    let failed = |why: String| format!("{}: {why}", clone.display());
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let git = Git::new(folder.path()).await.map_err(failed)?;
    let mirrors = Mirrors::new(git, folder.path().join("mirrors"), 1 << 32, Duration::from_secs(600));
    let clone = std::fs::canonicalize(clone).map_err(|error| failed(error.to_string()))?.display().to_string();
    let files = anchored(&mirrors, &clone).await.map_err(|error| failed(error.to_string()))?;
    let envelope = |(name, text): (String, Vec<u8>)| serde_json::from_slice(&text).map_err(|error| failed(format!("{name}: {error}")));
    files.into_iter().map(envelope).collect()
}

/// Takes the service's own secrets, what has the shape of one, and what the configuration says out of what is stored and shown.
///
/// # Errors
/// A pattern of the configuration that is none.
pub fn redactor(config: &Config) -> Result<Redactor, String> {
    let of_forge = |secrets: &ForgeSecrets| {
        let access = match &secrets.access {
            Access::Token(token) => token,
            Access::App { key, .. } => key,
        };
        secrets.webhook.iter().chain([access]).cloned().collect::<Vec<_>>()
    };
    let others = [&config.model_key, &config.database_password, &config.operator_token, &config.audit_key, &config.traces_header];
    let all = config
        .forges
        .iter()
        .flat_map(of_forge)
        .chain(others.into_iter().flatten().cloned())
        .chain(config.sign_in.clone())
        .collect::<Vec<_>>();
    Redactor::new(all.iter().map(|secret| secret.expose_secret()), &config.file.audit.redact)
        .map_err(|why| format!("[audit] redact: {why}"))
}

/// The configured key, or the one of the data folder, which is made when it is missing.
///
/// # Errors
/// When it can't be read or made.
pub fn signing_key(config: &Config) -> Result<SigningKey, String> {
    let text = match &config.audit_key {
        Some(key) => key.clone(),
        None => own_key(&config.file.service.data.join(KEY_FILE))?,
    };
    SigningKey::read(&text).map_err(|why| format!("[audit] key: {why}"))
}

fn own_key(file: &Path) -> Result<SecretString, String> {
    let failed = |error: std::io::Error| format!("[audit] key: {}: {error}", file.display());
    match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = SigningKey::generate()?;
            write_key(file, &key).map_err(|why| format!("[audit] key: {why}"))?;
            Ok(key)
        }
        read => read.map(SecretString::from).map_err(failed),
    }
}

/// Writes a private key into a new file that only its owner reads.
///
/// # Errors
/// When the file is there already, or can't be written.
pub fn write_key(file: &Path, key: &SecretString) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    out.write_all(key.expose_secret().as_bytes()).and_then(|()| out.sync_all()).map_err(failed)
}

/// Writes into the chain that the service started with another configuration than the last time. No secret is in a configuration.
pub(super) async fn note_configuration(store: &Store, config: &Config) -> Result<(), String> {
    let digest = Digest::of(format!("{:?}", config.file).as_bytes()).to_string();
    let facts = json!({"configuration": digest, "version": env!("CARGO_PKG_VERSION")});
    let note = Note::new(Kind::Configuration, facts);
    store.note_change("configuration", &digest, &note).await.map_err(|error| format!("[service] database: {error}"))
}
