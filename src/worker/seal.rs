//! The audit chain: sealed every second, its end signed on a schedule and when a run has ended, and what a run leaves for the auditor.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::audit::{Envelope, SigningKey};
use crate::pipeline::{folder_of_attempt, snapshot};
use crate::store::{Claimed, StoreError};

use super::Worker;

/// How long an event waits for its row at most.
const SEAL: Duration = Duration::from_secs(1);

/// How long a signed end may take to be put outside: a run that has ended waits for it.
const ANCHORING: Duration = Duration::from_secs(30);

/// How the end of the chain is signed.
#[derive(Clone)]
pub struct Signing {
    /// With which key.
    pub key: Arc<SigningKey>,
    /// How often, beside the end of each run.
    pub every: Duration,
    /// Where signed ends are put outside of the database.
    pub anchor: Arc<dyn Anchor>,
}

/// A place for signed ends of the chain that who holds the database can't change.
#[async_trait::async_trait]
pub trait Anchor: Send + Sync {
    /// Puts one there, behind those before.
    async fn put(&self, signed: &Envelope) -> Result<(), String>;
}

impl std::fmt::Debug for Signing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Signing").field("key", &self.key).field("every", &self.every).finish_non_exhaustive()
    }
}

impl Worker {
    /// Seals what waits, again and again, and signs the end of the chain when its time has come.
    pub(super) async fn seal_again_and_again(self: Arc<Self>, stop: CancellationToken) {
        let mut signed = tokio::time::Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(SEAL) => {}
            }
            if let Err(error) = self.store.seal().await {
                tracing::warn!(%error, "the audit chain could not be sealed; it is tried again");
            }
            if signed.elapsed() >= self.settings.signing.every {
                self.sign_the_end().await;
                signed = tokio::time::Instant::now();
            }
        }
        self.sign_the_end().await;
    }

    /// Signs the end of the chain and puts that outside. What fails is done at the next time: a later signature holds everything before it.
    pub(super) async fn sign_the_end(&self) {
        let signing = &self.settings.signing;
        match self.store.sign_the_end(&signing.key).await {
            Err(error) => tracing::warn!(%error, "the end of the audit chain could not be signed; it is tried again"),
            Ok(None) => {}
            Ok(Some(signed)) => {
                let put = tokio::time::timeout(ANCHORING, signing.anchor.put(&signed)).await;
                if let Err(why) = put.unwrap_or_else(|_| Err(format!("no end after {} s", ANCHORING.as_secs()))) {
                    tracing::error!(why, "the signed end of the audit chain could not be put outside of the database; it is tried again");
                }
            }
        }
    }

    /// Keeps what the run leaves: the issue's words, the transcripts, the patch and the report; the digests that its last event names.
    pub(super) async fn keep_records(&self, claimed: &Claimed, report: &str) -> Result<Value, StoreError> {
        let run = &claimed.run.0;
        let issue = snapshot(&claimed.text, &claimed.issue_url);
        let folder = self.parts.settings.runs.join(run);
        let mut records = vec![("issue".to_owned(), issue), ("report".to_owned(), report.as_bytes().to_vec())];
        records.extend(read(&folder.join("patch.diff")).await.map(|patch| ("patch".to_owned(), patch)));
        for number in 1..=u32::try_from(claimed.checkpoint.tried.len()).unwrap_or(u32::MAX).saturating_add(1) {
            let attempt = folder_of_attempt(&folder, number);
            match read(&attempt.join("trajectory.json")).await {
                Some(transcript) => records.push((format!("trajectory-{number}"), transcript)),
                // A fault of ours ended it: what there is of it goes with the run's end.
                None => {
                    records.extend(read(&attempt.join("kept/journal.jsonl")).await.map(|journal| (format!("journal-{number}"), journal)))
                }
            }
        }
        let mut named = Vec::new();
        for (kind, bytes) in records {
            named.push(json!({"record": self.store.keep_record(run, &kind, &bytes).await?, "kind": kind}));
        }
        Ok(Value::Array(named))
    }
}

async fn read(file: &Path) -> Option<Vec<u8>> {
    tokio::fs::read(file).await.ok()
}
