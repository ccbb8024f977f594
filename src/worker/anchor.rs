//! Signed ends of the chain outside of the database: who holds the database can't make the chain anew unseen.

use std::io::{self, Write as _};
use std::path::PathBuf;

use async_trait::async_trait;

use super::Anchor;
use crate::audit::Envelope;
use crate::publish::anchor::{Anchorage, SignedEnd};

/// A file to which lines are only added, for storage that keeps what is written.
pub struct FileAnchor {
    file: PathBuf,
}

impl FileAnchor {
    /// The file is made when it is missing; its folder must be there.
    #[must_use]
    pub const fn new(file: PathBuf) -> Self {
        Self { file }
    }
}

#[async_trait]
impl Anchor for FileAnchor {
    async fn put(&self, signed: &Envelope) -> Result<(), String> {
        let (file, line) = (self.file.clone(), serde_json::to_string(signed).map_err(|error| error.to_string())?);
        let add = move || -> io::Result<()> {
            let mut out = std::fs::OpenOptions::new().append(true).create(true).open(&file)?;
            // One write: lines of several processes do not mix.
            out.write_all(format!("{line}\n").as_bytes())?;
            out.sync_data()
        };
        let added = tokio::task::spawn_blocking(add).await.map_err(|error| error.to_string())?;
        added.map_err(|error| format!("{}: {error}", self.file.display()))
    }
}

/// A repository to whose branch files are only added.
pub struct RepositoryAnchor(pub Anchorage);

#[async_trait]
impl Anchor for RepositoryAnchor {
    async fn put(&self, signed: &Envelope) -> Result<(), String> {
        let envelope = serde_json::to_string(signed).map_err(|error| error.to_string())?;
        let checkpoint = signed.checkpoint().ok_or("it is no signed end of a chain")?;
        let key = signed.signatures.first().map_or("", |signature| signature.keyid.as_str());
        let end = SignedEnd { number: checkpoint.number, at_ms: checkpoint.at_ms, key, envelope: &envelope };
        self.0.put(&end).await.map_err(|error| error.to_string())
    }
}

/// Several places, one after the other; what fails at one is still put at the others.
pub struct Anchors(pub Vec<Box<dyn Anchor>>);

#[async_trait]
impl Anchor for Anchors {
    async fn put(&self, signed: &Envelope) -> Result<(), String> {
        let mut failed = Vec::new();
        for anchor in &self.0 {
            failed.extend(anchor.put(signed).await.err());
        }
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }
}
