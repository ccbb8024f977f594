//! Where a run of the worker is written down: in the database first, then for people on the issue.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::broadcast;

use crate::audit::{Kind, Note, Who};
use crate::domain::{IssueText, Stage};
use crate::forge::ForgeError;
use crate::leaf::Trajectory;
use crate::pipeline::{Episodes, Record, Stop};
use crate::publish::{StatusComment, text};
use crate::store::{Checkpoint, Claimed, Lease, RunFiles, Store, StoreError};

use super::Progress;
use super::stopping::Done;

/// The record of one leased run.
pub(super) struct JobRecord<'a, 'b> {
    store: &'a Store,
    claimed: &'a Claimed,
    status: &'a mut StatusComment<'b>,
    taken_up: String,
    attempt: Option<(u32, u32)>,
    progress: &'a broadcast::Sender<Progress>,
    done: &'a Done,
    /// Turns that the database did not take yet.
    untold: Vec<Note>,
}

impl<'a, 'b> JobRecord<'a, 'b> {
    pub(super) const fn new(
        store: &'a Store,
        claimed: &'a Claimed,
        status: &'a mut StatusComment<'b>,
        taken_up: String,
        progress: &'a broadcast::Sender<Progress>,
        done: &'a Done,
    ) -> Self {
        Self { store, claimed, status, taken_up, attempt: None, progress, done, untold: Vec::new() }
    }
}

#[async_trait]
impl Record for JobRecord<'_, '_> {
    async fn is_to_stop(&self) -> Result<bool, Stop> {
        Ok(self.store.cancel_asked(&self.claimed.lease).await?.0.is_some())
    }

    async fn enter(&mut self, stage: Stage) -> Result<(), Stop> {
        self.store.enter(&self.claimed.lease, stage).await?;
        tracing::info!(stage = stage.name(), "entering");
        self.progress.send(Progress::Stage { run: self.claimed.run.0.clone(), stage }).ok();
        if stage == Stage::Admitting {
            return Ok(());
        }
        let body = text::working(self.status.job(), stage, &self.taken_up, self.attempt);
        match self.status.write(&body).await {
            Ok(()) => Ok(()),
            // Who may not comment may not label a pull request either: better to stop before the work than after it.
            Err(error @ ForgeError::Denied { .. }) => Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "the status comment could not be written; the work goes on");
                Ok(())
            }
        }
    }

    async fn keep(&mut self, checkpoint: &Checkpoint) -> Result<(), Stop> {
        Ok(self.store.keep(&self.claimed.lease, checkpoint).await?)
    }

    fn files(&self) -> Option<RunFiles> {
        self.store.is_shared().then(|| self.store.run_files(&self.claimed.lease))
    }

    /// Of a turn it is enough that it is told with the next event: a database that is away for a while does not end the run.
    async fn witness(&mut self, kind: Kind, facts: Value) -> Result<(), Stop> {
        let by = if kind == Kind::Turn { Who::Model } else { Who::Service };
        self.untold.push(self.claimed.lease.note(kind, facts).by(by));
        match self.store.witness_run(&self.claimed.lease, &self.untold).await {
            Err(StoreError::Failed(why)) if kind == Kind::Turn => {
                tracing::warn!(why, "a turn is told to the audit chain with the next one")
            }
            Err(error) => return Err(error.into()),
            Ok(()) => self.untold.clear(),
        }
        Ok(())
    }

    async fn keep_record(&mut self, kind: &str, bytes: &[u8]) -> Result<(), Stop> {
        self.store.keep_record(&self.claimed.run.0, kind, bytes).await?;
        Ok(())
    }

    fn attempt(&mut self, number: u32, most: u32) {
        self.attempt = Some((number, most));
        self.progress.send(Progress::Attempt { run: self.claimed.run.0.clone(), number, most }).ok();
    }

    fn step(&mut self, trajectory: &Trajectory) {
        let done = trajectory.progress();
        self.done.steps.store(i64::try_from(done.steps).unwrap_or(i64::MAX), Ordering::Relaxed);
        let usage = trajectory.frognano.turns.last().and_then(|turn| turn.usage);
        self.done.spent.fetch_add(usage.map_or(0, |usage| i64::try_from(usage.total_tokens).unwrap_or(0)), Ordering::Relaxed);
        self.progress.send(Progress::Step { run: self.claimed.run.0.clone(), step: done.steps, tools: done.tools }).ok();
    }
}

/// Ties a job to the act of setting its label.
pub(super) struct JobEpisodes<'a> {
    pub(super) store: &'a Store,
    pub(super) lease: &'a Lease,
}

#[async_trait]
impl Episodes for JobEpisodes<'_> {
    async fn name(&self, episode: &str, requested_by: &str) -> Result<(), Stop> {
        Ok(self.store.name_episode(self.lease, episode, requested_by).await?)
    }

    async fn text_is_disputed(&self, text: &IssueText) -> Result<bool, Stop> {
        Ok(self.store.waiting_texts(self.lease).await?.iter().any(|other| other != text))
    }
}
