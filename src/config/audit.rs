//! `[audit]`: the record that can't be bent.

use std::path::PathBuf;

use serde::Deserialize;

use super::SecretSource;

/// `[audit]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// The Ed25519 key that checkpoints and statements are signed with, as PEM in PKCS #8; by default one that is made once in the data folder.
    pub key: Option<SecretSource>,
    /// How often the end of the chain is signed beside the end of each run, in seconds.
    pub sign_seconds: u64,
    /// A file outside of the database, on storage that keeps what is written, to which each signed end is added.
    pub anchor_file: Option<PathBuf>,
    /// A repository of a configured forge, for the auditor alone, to whose branch each signed end is pushed.
    pub anchor_repository: Option<AnchorRepository>,
    /// How many days the texts of a run are kept; their hashes stay. 0: for ever.
    pub keep_days: u32,
    /// The same for some repositories; the first that fits counts.
    pub repositories: Vec<KeepFor>,
    /// Regular expressions of what is taken out of everything that is stored and shown, beside the service's own secrets and the shapes of tokens.
    pub redact: Vec<String>,
}

/// `[audit.anchor_repository]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorRepository {
    /// The forge's name in this file.
    pub forge: String,
    /// The repository, `owner/name`.
    pub path: String,
}

/// `[[audit.repositories]]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepFor {
    /// A path, or all below a group: `group/*`.
    pub repositories: String,
    /// How many days the texts of a run are kept there. 0: for ever.
    pub keep_days: u32,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            key: None,
            sign_seconds: 3600,
            anchor_file: None,
            anchor_repository: None,
            keep_days: 365,
            repositories: Vec::new(),
            redact: Vec::new(),
        }
    }
}
