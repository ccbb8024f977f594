//! Where a secret is kept: a file or an environment variable, never the configuration itself.

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde::Deserialize;

/// `{ file = "..." }` or `{ env = "..." }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum SecretSource {
    /// A file whose content, without the white space around it, is the secret.
    File(PathBuf),
    /// An environment variable.
    Env(String),
}

impl SecretSource {
    /// Reads the secret; a relative file is looked for below `folder`.
    ///
    /// # Errors
    /// A sentence that names the place and never the secret.
    pub fn read(&self, folder: &Path) -> Result<SecretString, String> {
        let (place, value) = match self {
            Self::File(path) => {
                let path = folder.join(path);
                let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: can't be read: {error}", path.display()))?;
                (path.display().to_string(), text)
            }
            Self::Env(name) => (
                format!("the environment variable {name}"),
                std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?,
            ),
        };
        let value = value.trim();
        if value.is_empty() { Err(format!("{place} is empty")) } else { Ok(SecretString::from(value.to_owned())) }
    }
}
