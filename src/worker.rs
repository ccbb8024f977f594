//! The worker: wait, claim, keep the lease, run, conclude.
//!
//! What must hold: a job that was claimed ends in exactly one outcome, written on the forge before it is written in the database; whatever is
//! not an outcome puts the job back with all that is finished; a model's server that is down pauses the queue and fails nothing.

mod anchor;
mod asks;
mod commands;
mod conclude;
mod fates;
mod feedback;
mod prune;
mod reap;
mod reconcile;
mod record;
mod retain;
mod reviews;
mod seal;
mod stopping;
mod undo;
mod waiting;
mod witnessed;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::domain::{Cancel, Fault, Ids, Outcome, Refusal, RunId, Stage};
use crate::forge::Forge;
use crate::pipeline::{self, Asked, Parts, Stop, Work};
use crate::publish::report::Report;
use crate::publish::{Allowance, Place, StatusComment, text};
use crate::store::{Claimed, Keeping, QueueLimits, Store, StoreError, Which, repository_name};

use crate::telemetry::metrics;
use crate::telemetry::traces::{About, RunTrace, Traces};
use record::{JobEpisodes, JobRecord};
use stopping::Done;
use witnessed::Witnessed;

pub use anchor::{Anchors, FileAnchor, RepositoryAnchor};
pub use reconcile::Found;
pub use seal::{Anchor, Signing};

/// So many hands work off what is asked: a forge that is slow does not hold up a word to stop on another.
const ANSWERING: usize = 3;

/// How a worker does its work.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name, the same after a restart.
    pub owner: String,
    /// How long a lease holds without a heartbeat.
    pub lease: Duration,
    /// How often a job is claimed before its worker is taken to be lost for good.
    pub max_leases: i64,
    /// How long to wait before a forge or sandbox that failed is tried again.
    pub retry: Duration,
    /// How long to wait before a model's server that is down is asked again.
    pub model_retry: Duration,
    /// How often it is looked for what a lost delivery would have brought; never for zero.
    pub reconcile: Duration,
    /// How long deliveries are kept; for ever for zero.
    pub keep_deliveries: Duration,
    /// How many comments may be written on one issue or pull request within an hour.
    pub comments_per_hour: i64,
    /// How much may run at once, over all workers.
    pub limits: QueueLimits,
    /// How long the texts of runs are kept.
    pub keeping: Keeping,
    /// How the end of the audit chain is signed.
    pub signing: Signing,
    /// Where the traces of runs go.
    pub traces: Traces,
}

/// Something that happened, for who watches (the progress bars of the command line).
#[derive(Debug, Clone)]
pub enum Progress {
    /// A stage began.
    Stage {
        /// The run.
        run: String,
        /// The stage.
        stage: Stage,
    },
    /// An attempt begins.
    Attempt {
        /// The run.
        run: String,
        /// Its number, from 1.
        number: u32,
        /// So many are made at most.
        most: u32,
    },
    /// The agent made a step.
    Step {
        /// The run.
        run: String,
        /// Its number.
        step: u64,
        /// The tools that it called.
        tools: Vec<String>,
    },
    /// The job has its outcome.
    Ended {
        /// The run.
        run: String,
        /// The outcome.
        outcome: Outcome,
        /// All that is told.
        report: Box<Report>,
    },
}

/// One worker with its parts.
pub struct Worker {
    store: Store,
    forges: HashMap<String, Arc<dyn Forge>>,
    parts: Parts,
    settings: Settings,
    ids: Arc<dyn Ids>,
    wake: Arc<Notify>,
    model_is_down: AtomicBool,
    busy: AtomicUsize,
    /// Held by the hand that looks for a job: a worker without work asks the database as if it had one hand.
    looking: Mutex<()>,
    /// The same for what is asked.
    listening: Mutex<()>,
    progress: broadcast::Sender<Progress>,
}

/// What became of a claimed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It has its outcome.
    Outcome(Outcome),
    /// It was ended without a word.
    Quietly,
    /// It is in the queue again.
    PutBack,
    /// Another worker has it.
    LeaseLost,
}

/// How much of a job is done.
#[derive(Debug, Clone, Copy)]
enum Part {
    Whole,
    Greeting,
}

impl Worker {
    /// A worker.
    #[must_use]
    pub fn new(
        store: Store,
        forges: HashMap<String, Arc<dyn Forge>>,
        parts: Parts,
        settings: Settings,
        ids: Arc<dyn Ids>,
        wake: Arc<Notify>,
    ) -> Self {
        let (progress, _) = broadcast::channel(1024);
        let (model_is_down, busy) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (looking, listening) = (Mutex::default(), Mutex::default());
        Self { store, forges, parts, settings, ids, wake, model_is_down, busy, looking, listening, progress }
    }

    /// What happens from now on.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Works until `stop`, up to `concurrency` jobs at once; runs that go on are given `grace` and are then put back.
    pub async fn work(self: Arc<Self>, concurrency: usize, stop: CancellationToken, grace: Duration) {
        match self.store.release_own(&self.settings.owner).await {
            Ok(0) => {}
            Ok(jobs) => tracing::info!(jobs, "taking up the jobs that were running when the service ended"),
            Err(error) => tracing::error!(%error, "the leases of the last start could not be ended; they run out by themselves"),
        }
        if let Err(error) = self.store.release_own_asks(&self.settings.owner).await {
            tracing::error!(%error, "what was asked before the restart is taken up a little later");
        }
        let abort = CancellationToken::new();
        let mut hands = tokio::task::JoinSet::new();
        for _ in 0..concurrency {
            hands.spawn(self.clone().one_after_the_other(stop.clone(), abort.clone()));
        }
        hands.spawn(self.clone().greet_while_busy(concurrency, stop.clone(), abort.clone()));
        hands.spawn(self.clone().take_up_waiting(stop.clone()));
        hands.spawn(self.clone().reap_again_and_again(stop.clone()));
        for _ in 0..ANSWERING {
            hands.spawn(self.clone().answer_asks(stop.clone()));
        }
        hands.spawn(self.clone().watch_reviews(stop.clone()));
        hands.spawn(self.clone().follow_fates(stop.clone()));
        hands.spawn(self.clone().seal_again_and_again(stop.clone()));
        hands.spawn(self.clone().prune_again_and_again(stop.clone()));
        hands.spawn(self.clone().erase_again_and_again(stop.clone()));
        if !self.settings.reconcile.is_zero() {
            hands.spawn(self.clone().reconcile_again_and_again(self.settings.reconcile, stop.clone()));
        }
        stop.cancelled().await;
        if tokio::time::timeout(grace, async { while hands.join_next().await.is_some() {} }).await.is_err() {
            tracing::info!("the grace time is over: runs that go on are put back");
            abort.cancel();
            while hands.join_next().await.is_some() {}
        }
    }

    /// Claims one job that nobody has looked at yet, answers its label, and puts it back if it may start; none when there is no such job.
    ///
    /// # Errors
    /// When the database does not give a job; nothing was begun then.
    pub async fn greet_next(&self, abort: &CancellationToken) -> Result<Option<Ended>, StoreError> {
        match self.claim(Which::NewForAnAnswer).await? {
            Some(claimed) => Ok(Some(self.keep_and_run(&claimed, Part::Greeting, abort).await)),
            None => Ok(None),
        }
    }

    /// Claims one job and works on it until it has an outcome or is put back; none when there is nothing to claim. While somebody holds the queue,
    /// it only answers labels.
    ///
    /// # Errors
    /// When the database does not give a job; nothing was begun then.
    pub async fn run_next(&self, abort: &CancellationToken) -> Result<Option<Ended>, StoreError> {
        let Some((claimed, part)) = self.claim_next().await? else { return Ok(None) };
        Ok(Some(self.work_on(&claimed, part, abort).await))
    }

    async fn work_on(&self, claimed: &Claimed, part: Part, abort: &CancellationToken) -> Ended {
        self.busy.fetch_add(1, Ordering::Relaxed);
        if let Some(waited) = claimed.waited_ms {
            metrics::waited(u64::try_from(waited).unwrap_or(0));
        }
        let ended = self.keep_and_run(claimed, part, abort).await;
        self.busy.fetch_sub(1, Ordering::Relaxed);
        ended
    }

    async fn claim(&self, which: Which) -> Result<Option<Claimed>, StoreError> {
        let lease_ms = millis(self.settings.lease);
        let (owner, clock) = (&self.settings.owner, self.parts.clock.as_ref());
        self.store.claim(&self.settings.limits, which, owner, lease_ms, clock, self.ids.as_ref()).await
    }

    async fn keep_and_run(&self, claimed: &Claimed, part: Part, abort: &CancellationToken) -> Ended {
        let span =
            tracing::info_span!("run", job = %claimed.lease.job(), run = %claimed.run, repo = %claimed.repo.path, issue = claimed.issue);
        let (cancel, done) = (abort.child_token(), Done::default());
        let trace = self.trace_of(claimed);
        if let Some(waited) = claimed.waited_ms {
            trace.waited(waited);
        }
        let kept = async {
            let asked = tokio::select! {
                ended = trace.within(self.run(claimed, part, cancel.clone(), &done)) => return ended,
                () = self.heartbeat(claimed) => {
                    tracing::warn!("the lease was lost: this run stops without a further word");
                    return Ended::LeaseLost;
                }
                asked = self.until_cancelled(claimed, &cancel, &done) => asked,
            };
            trace.within(self.end_from_outside(claimed, asked)).await
        };
        tracing::Instrument::instrument(kept, span).await
    }

    fn trace_of(&self, claimed: &Claimed) -> RunTrace {
        self.settings.traces.of(&About {
            job: &claimed.lease.job().0,
            run: &claimed.run.0,
            repository: &repository_name(&claimed.repo),
            asked_ms: claimed.queued_ms,
            lease: claimed.leases,
        })
    }

    /// Prolongs the lease again and again; returns when it is lost.
    async fn heartbeat(&self, claimed: &Claimed) {
        let mut beat = tokio::time::interval(self.settings.lease / 3);
        loop {
            beat.tick().await;
            match self.store.heartbeat(&claimed.lease, millis(self.settings.lease), self.parts.clock.as_ref()).await {
                Err(StoreError::LeaseLost(_)) => return,
                Err(error) => tracing::warn!(%error, "a heartbeat could not be written"),
                Ok(()) => {}
            }
        }
    }

    /// Ends a run that did not end by itself when it was told to stop; it is gone, and its sandbox with it.
    async fn end_from_outside(&self, claimed: &Claimed, asked: Cancel) -> Ended {
        let report = self.new_report(claimed);
        let Some(forge) = self.forge_of(&claimed.repo.forge, Some(&claimed.run)) else { return Ended::PutBack };
        let comments = self.comments();
        let place = place_of(forge.as_ref(), claimed, &comments);
        let mut status = StatusComment::new(place, &claimed.lease.job().0);
        self.conclude_stopped(claimed, forge.as_ref(), &mut status, asked, report).await
    }

    fn new_report(&self, claimed: &Claimed) -> Report {
        let page = self.parts.settings.page_of(&claimed.run);
        Report { run: claimed.run.0.clone(), page, model: self.parts.model.name().to_owned(), ..Report::default() }
    }

    async fn run(&self, claimed: &Claimed, part: Part, cancel: CancellationToken, done: &Done) -> Ended {
        let mut report = self.new_report(claimed);
        let Some(forge) = self.forge_of(&claimed.repo.forge, Some(&claimed.run)) else {
            let detail = format!("the forge {:?} is not in the configuration any more", claimed.repo.forge);
            return self.conclude(claimed, None, Outcome::Abandoned { fault: Fault::ForgeFailed, detail }, report).await;
        };
        let claimed = &at_its_present_path(forge.as_ref(), claimed).await;
        let comments = self.comments();
        let mut status = StatusComment::new(place_of(forge.as_ref(), claimed, &comments), &claimed.lease.job().0);
        if claimed.leases > self.settings.max_leases {
            let detail = format!("the worker was lost {} times while it was at {}", claimed.leases - 1, claimed.stage);
            return self
                .conclude(claimed, Some((forge.as_ref(), &mut status)), Outcome::Abandoned { fault: Fault::WorkerLost, detail }, report)
                .await;
        }
        tracing::info!(leases = claimed.leases, was_at = claimed.stage, "working");
        let mut record = JobRecord::new(&self.store, claimed, &mut status, self.taken_up(claimed), &self.progress, done);
        let episodes = JobEpisodes { store: &self.store, lease: &claimed.lease };
        let mut work = Work {
            parts: &self.parts,
            record: &mut record,
            folder: self.parts.settings.runs.join(&claimed.run.0),
            run: claimed.run.clone(),
            text: claimed.text.clone(),
            issue: claimed.issue,
            issue_url: claimed.issue_url.clone(),
            origin: claimed.origin.clone(),
            checkpoint: claimed.checkpoint.clone(),
            report: std::mem::take(&mut report),
            cancel,
            stage_began: None,
        };
        let asked = Asked { forge: forge.as_ref(), repo: &claimed.repo, episodes: &episodes };
        let solved = match part {
            Part::Whole => pipeline::solve(&mut work, &asked).await,
            Part::Greeting => pipeline::greet(&mut work, &asked).await,
        };
        work.finish_stage();
        self.note_done(claimed, done).await;
        let mut report = std::mem::take(&mut work.report);
        report.stage_ms.clone_from(&work.checkpoint.stage_ms);
        let claimed = &Claimed { checkpoint: std::mem::take(&mut work.checkpoint), ..claimed.clone() };
        let forge = forge.as_ref();
        match solved {
            Err(Stop::Outcome(Outcome::Abandoned { fault: Fault::RepositoryGone, .. }))
                if at_its_present_path(forge, claimed).await.repo != claimed.repo =>
            {
                self.put_back(claimed, &mut status, Stop::later("the repository was renamed meanwhile")).await
            }
            Ok(outcome) | Err(Stop::Outcome(outcome)) => match self.looked_into(forge, claimed, outcome).await {
                Outcome::Cancelled { by } => self.cancelled(claimed, forge, &mut status, by, report).await,
                outcome => self.conclude(claimed, Some((forge, &mut status)), outcome, report).await,
            },
            Err(Stop::Hidden) => match self.undo(forge, claimed, None).await {
                Ok(()) => self.end_quietly(claimed, Refusal::Confidential.name(), report).await,
                Err(later) => self.put_back(claimed, &mut status, later).await,
            },
            Err(Stop::Quiet(_)) if claimed.taken_up => {
                self.cancelled(claimed, forge, &mut status, "the label was taken off meanwhile".to_owned(), report).await
            }
            Err(Stop::Quiet(reason)) => self.end_quietly(claimed, reason, report).await,
            Err(Stop::TryAgain(fault, detail)) if claimed.leases >= self.settings.max_leases => {
                self.conclude(claimed, Some((forge, &mut status)), Outcome::Abandoned { fault, detail }, report).await
            }
            Err(stop @ Stop::Shutdown) => match self.is_to_stop(claimed).await {
                Some(asked) => self.conclude_stopped(claimed, forge, &mut status, asked, report).await,
                None => self.put_back(claimed, &mut status, stop).await,
            },
            Err(stop) => self.put_back(claimed, &mut status, stop).await,
        }
    }

    /// A forge whose writes go into the audit chain, as those of a run where it is for one.
    fn forge_of(&self, name: &str, run: Option<&RunId>) -> Option<Arc<dyn Forge>> {
        let forge = self.forges.get(name)?.clone();
        Some(Arc::new(Witnessed::new(forge, self.store.clone(), run.map(|run| run.0.clone()))))
    }

    /// What the bot took up with this job, in words.
    fn taken_up(&self, claimed: &Claimed) -> String {
        match &claimed.origin {
            Some(origin) => text::the_request(&origin.by.login, origin.round.as_ref().map(|round| round.number)),
            None => text::the_label(&self.parts.settings.label),
        }
    }
}

/// Where a job is spoken of: on its issue, or on the pull request that it works on once more.
fn place_of<'a>(forge: &'a dyn Forge, claimed: &'a Claimed, allowance: &'a dyn Allowance) -> Place<'a> {
    let round = claimed.origin.as_ref().and_then(|origin| origin.round.as_ref());
    let number = round.map_or(claimed.issue, |round| round.pull_request);
    Place { forge, repo: &claimed.repo, number, on_pull_request: round.is_some(), allowance }
}

/// The job with the path that its repository has now. What is wrong with the repository is judged and told by the run.
async fn at_its_present_path(forge: &dyn Forge, claimed: &Claimed) -> Claimed {
    let mut claimed = claimed.clone();
    if let Ok(repository) = forge.repository(&claimed.repo).await
        && repository.repo.path != claimed.repo.path
    {
        tracing::info!(now = repository.repo.path, "the repository was renamed");
        claimed.repo = repository.repo;
    }
    claimed
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
