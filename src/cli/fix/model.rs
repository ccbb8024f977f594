//! Who answers in a local run: named on the command line, else by the configuration, whose settings hold for either.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::app;
use crate::config::File;
use crate::model::{Client, Endpoint, RestartOn, Script, Scripted, Settings};

/// Who answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::cli) enum Named {
    /// A script.
    Script(PathBuf),
    /// A server.
    Server {
        /// Its address.
        url: url::Url,
        /// The model's name there.
        name: String,
    },
}

impl Named {
    /// The model, after the first `done` answers. `folder` is where the configuration names its key from.
    pub(super) fn client(&self, done: usize, file: &File, folder: &Path) -> Result<Client, String> {
        let (endpoint, name) = match self {
            Self::Script(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| format!("--script {}: {error}", path.display()))?;
                let script = Script::parse(&text).map_err(|why| format!("--script {}: {why}", path.display()))?;
                (Endpoint::Script(Scripted::after(script, RestartOn::Never, done)), "script".to_owned())
            }
            Self::Server { url, name } => (server(url, file, folder)?, name.clone()),
        };
        Client::new(endpoint, Settings { name, ..app::model_settings(file) }).map_err(|error| format!("the model's server: {error}"))
    }
}

/// Key and certificates are those of the configured address and go to no other.
fn server(url: &url::Url, file: &File, folder: &Path) -> Result<Endpoint, String> {
    let is_configured = url.as_str().trim_end_matches('/') == file.model.url.as_str().trim_end_matches('/');
    let key = file.model.key.as_ref().filter(|_| is_configured);
    let api_key = key.map(|key| key.read(folder)).transpose().map_err(|why| format!("[model] key: {why}"))?;
    let ca_bundle = file.model.ca_file.clone().filter(|_| is_configured);
    Ok(Endpoint::Http { base_url: url.to_string(), api_key, ca_bundle })
}
