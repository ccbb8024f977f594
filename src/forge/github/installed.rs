//! The repositories that a GitHub App is installed on. GitHub tells an App of none of them by itself, and lists them for one installation at a
//! time, to a token of that installation alone (forges.md, section 2.4).
//!
//! What must hold: a repository is found without any delivery about it; an installation that can't be asked hides no other.

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use serde::Deserialize;

use super::app::App;
use super::client::{HEADERS, PAGES};
use crate::domain::RepoRef;
use crate::forge::answer::Answer;
use crate::forge::credentials::Credentials;
use crate::forge::http::{Http, read};
use crate::forge::rows::RepositoryRow;
use crate::forge::{ForgeError, Settings};

/// The App within one of its installations.
struct Within {
    app: Arc<App>,
    installation: i64,
}

#[async_trait]
impl Credentials for Within {
    async fn token(&self, _: &[&str]) -> Result<SecretString, ForgeError> {
        self.app.list_token(self.installation).await
    }

    async fn refused(&self, token: &SecretString, forge_time_ms: Option<i64>) -> bool {
        self.app.refused(token, forge_time_ms).await
    }
}

#[derive(Deserialize)]
struct Page {
    repositories: Vec<RepositoryRow>,
}

/// Every repository of every installation that is not archived, as many as are read of a list.
///
/// # Errors
/// When the installations can't be listed, or the forge does not answer.
pub(super) async fn repositories(app: &Arc<App>, settings: &Settings) -> Result<Vec<RepoRef>, ForgeError> {
    let mut found = Vec::new();
    for installation in app.installations().await? {
        match of_one(app, settings, installation).await {
            Ok(repositories) => found.extend(repositories),
            Err(error @ ForgeError::Unavailable { .. }) => return Err(error),
            Err(error) => tracing::warn!(installation, %error, "the repositories of an installation can't be listed"),
        }
    }
    Ok(found)
}

async fn of_one(app: &Arc<App>, settings: &Settings, installation: i64) -> Result<Vec<RepoRef>, ForgeError> {
    let within = Arc::new(Within { app: app.clone(), installation });
    let http = Http::with_credentials(settings, &HEADERS, within)
        .map_err(|message| ForgeError::Unreadable { what: format!("installation {installation} of the app"), message })?;
    let what = format!("the repositories of installation {installation} of the app");
    let rows_of = |what: &str, answer: &Answer| Ok(read::<Page>(what, answer)?.repositories);
    let rows = http.pages(what, &["installation", "repositories"], &[], PAGES, rows_of).await?;
    Ok(rows.rows.into_iter().filter(|row| !row.is_archived()).map(|row| row.reference(&settings.name)).collect())
}
