//! The key that the audit chain is signed with, and where its signed ends go.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use crate::audit::{Digest, Kind, Note, SigningKey};
use crate::config::{Access, Config, ForgeSecrets};
use crate::domain::Redactor;
use crate::store::Store;
use crate::worker::{Anchor, FileAnchor, NoAnchor, Signing};

/// The name of the key in the data folder.
pub const KEY_FILE: &str = "audit-key.pem";

/// How the end of the chain is signed.
pub(super) fn signing(config: &Config, key: Arc<SigningKey>) -> Signing {
    let audit = &config.file.audit;
    let anchor: Arc<dyn Anchor> = match &audit.anchor_file {
        Some(file) => Arc::new(FileAnchor::new(file.clone())),
        None => Arc::new(NoAnchor),
    };
    Signing { key, every: Duration::from_secs(audit.sign_seconds), anchor }
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
    let others = [&config.model_key, &config.database_password, &config.operator_token, &config.audit_key];
    let all = config.forges.iter().flat_map(of_forge).chain(others.into_iter().flatten().cloned()).collect::<Vec<_>>();
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
