//! Traces by OpenTelemetry: one trace a job, from its label to its outcome, sent to a collector inside the network.
//!
//! ```text
//! run                       the job, from the label to the outcome; written by who wrote the outcome
//!   queue wait
//!   admitting, cloning, …   the stages, as often as they were entered
//!     sandbox start         probe
//!     model turn, tool call
//!     test run              sandbox start
//!     push, pull request
//!     GET /repos/{}/{}      each request to a forge, below whatever made it
//!   put back
//! ```
//!
//! What must hold: what a span says is a number, a word of this program, or a name that a machine or the operator gave ([`Value`]), never a text that
//! a person, a model or a repository wrote; whoever works on a job, and however often, its trace is the same one; a collector that is slow, broken or
//! gone costs a run nothing, and the service no more than the spans, which are counted.
//!
//! The run that goes on is known by a value of the task ([`RunTrace::within`]), so that code which has a moment to tell needs no handle for it:
//! outside of a run that is traced, [`span`] and its like do nothing.

mod collector;
mod ids;
mod value;

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::trace::v1 as wire;

use crate::domain::Clock;

use collector::Line;
use ids::{SpanId, TraceId};

pub use collector::{Counted, Pace, Settings, ask};
pub use ids::{Shown, trace_of};
pub use value::Value;

/// More spans below the stages are not told of one run by one worker.
const MOST_SPANS: u32 = 10_000;

/// Where the spans of runs go: to a collector, or by default nowhere.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<On>>);

struct On {
    line: Line,
    clock: Arc<dyn Clock>,
    share: f64,
}

impl fmt::Debug for Traces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "Traces(on)" } else { "Traces(off)" })
    }
}

/// The run that a trace is of.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// The job, from which the trace has its id.
    pub job: &'a str,
    /// The run.
    pub run: &'a str,
    /// The repository as `forge/id`: a path may have the name of a person in it.
    pub repository: &'a str,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub asked_ms: i64,
    /// How often the job was claimed, this time included.
    pub lease: i64,
}

impl Traces {
    /// Sends spans to a collector from now on, by a task of its own.
    ///
    /// # Errors
    /// A sentence when the header or the certificates can't be used.
    pub fn start(settings: Settings, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let share = settings.share;
        Ok(Self(Some(Arc::new(On { line: Line::open(settings)?, clock, share }))))
    }

    /// The trace of a run; nothing is told of one that is not among those that are chosen.
    #[must_use]
    pub fn of(&self, about: &About<'_>) -> RunTrace {
        let Some(on) = self.0.as_ref().filter(|on| ids::is_chosen(&ids::trace(about.job), on.share)) else { return RunTrace(None) };
        let names = [("frognano.job", about.job), ("frognano.run", about.run), ("frognano.repository", about.repository)];
        let mut common = names.map(|(key, name)| (key, Value::name(name))).to_vec();
        common.push(("frognano.lease", about.lease.into()));
        RunTrace(Some(Arc::new(Going {
            on: on.clone(),
            trace: ids::trace(about.job),
            root: ids::root(about.job),
            asked_ms: about.asked_ms,
            common,
            attempt: AtomicU32::new(0),
            stage: Mutex::new(None),
            told: AtomicU32::new(0),
        })))
    }

    /// What became of the spans so far.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.0.as_ref().map(|on| on.line.counted()).unwrap_or_default()
    }

    /// Sends what is left and ends, within a few seconds; what was not taken by then is lost.
    pub async fn close(&self) {
        if let Some(on) = &self.0 {
            on.line.close().await;
        }
    }
}

/// The trace of one run, as far as this worker tells it; of nothing where it is not told.
#[derive(Clone, Default)]
pub struct RunTrace(Option<Arc<Going>>);

struct Going {
    on: Arc<On>,
    trace: TraceId,
    root: SpanId,
    asked_ms: i64,
    common: Vec<(&'static str, Value)>,
    /// The attempt that goes on; 0 for none.
    attempt: AtomicU32,
    stage: Mutex<Option<Open>>,
    told: AtomicU32,
}

/// A span that has begun.
struct Open {
    id: SpanId,
    parent: Option<SpanId>,
    name: Cow<'static, str>,
    began_ms: i64,
    is_call: bool,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

tokio::task_local! {
    static HERE: Here;
}

/// Where the work of a task is: in which run, and below which span.
#[derive(Clone)]
struct Here {
    run: Arc<Going>,
    parent: Option<SpanId>,
}

fn here() -> Option<Here> {
    HERE.try_with(Here::clone).ok()
}

/// Does work at this place. It is put on the heap at once: wrapped as it is, each layer would hold it twice, and the work of a run is large.
fn at<F: Future>(here: Option<Here>, work: F) -> impl Future<Output = F::Output> {
    let work = Box::pin(work);
    async {
        match here {
            Some(here) => HERE.scope(here, work).await,
            None => work.await,
        }
    }
}

impl RunTrace {
    /// Does work of this run: what it tells belongs to the trace.
    pub fn within<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        at(self.0.as_ref().map(|run| Here { run: run.clone(), parent: None }), work)
    }

    /// The job has waited until now, so long.
    pub fn waited(&self, milliseconds: i64) {
        if let Some(run) = &self.0 {
            let now_ms = run.on.clock.now_ms();
            let waited = Open::of("queue wait".into(), None, now_ms - milliseconds.max(0));
            run.end(waited);
        }
    }

    /// The job has its outcome: tells the span above all others. `reason` is a stable name.
    pub fn ended(&self, outcome: &'static str, reason: &str, proof: Option<&str>) {
        let Some(run) = &self.0 else { return };
        run.stage_ended();
        run.attempt.store(0, Ordering::Relaxed);
        let mut root = Open { id: run.root, ..Open::of("run".into(), None, run.asked_ms) };
        root.failed = outcome == "abandoned";
        root.attributes.push(("frognano.outcome", outcome.into()));
        let names = [("frognano.reason", Some(reason).filter(|reason| !reason.is_empty())), ("frognano.proof", proof)];
        root.attributes.extend(names.into_iter().filter_map(|(key, name)| Some((key, Value::name(name?)))));
        run.end(root);
    }
}

impl Open {
    fn of(name: Cow<'static, str>, parent: Option<SpanId>, began_ms: i64) -> Self {
        Self { id: ids::next(), parent, name, began_ms, is_call: false, attributes: Vec::new(), failed: false }
    }
}

impl Going {
    fn stage_is(&self) -> std::sync::MutexGuard<'_, Option<Open>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage_ended(&self) {
        let ended = self.stage_is().take();
        if let Some(stage) = ended {
            self.end(stage);
        }
    }

    /// A span that was begun ends now, and is told.
    fn end(&self, open: Open) {
        let is_detail = open.parent.is_some();
        if is_detail && self.told.fetch_add(1, Ordering::Relaxed) >= MOST_SPANS {
            self.on.line.lost(1);
            return;
        }
        let ended_ms = self.on.clock.now_ms().max(open.began_ms);
        let is_root = open.id == self.root;
        let parent = if is_root { Vec::new() } else { open.parent.unwrap_or(self.root).to_vec() };
        let attempt = self.attempt.load(Ordering::Relaxed);
        let attempt = (attempt > 0).then(|| ("frognano.attempt", Value::from(attempt)));
        let attributes = self.common.iter().cloned().chain(attempt).chain(open.attributes);
        let kind = if open.is_call { wire::span::SpanKind::Client } else { wire::span::SpanKind::Internal };
        let status = wire::Status { message: String::new(), code: wire::status::StatusCode::Error.into() };
        self.on.line.put(wire::Span {
            trace_id: self.trace.to_vec(),
            span_id: open.id.to_vec(),
            parent_span_id: parent,
            name: open.name.into_owned(),
            kind: kind.into(),
            start_time_unix_nano: nanoseconds(open.began_ms),
            end_time_unix_nano: nanoseconds(ended_ms),
            attributes: attributes.map(|(key, value)| value.under(key)).collect(),
            status: open.failed.then_some(status),
            flags: 1,
            ..wire::Span::default()
        });
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.stage_ended();
    }
}

fn nanoseconds(milliseconds: i64) -> u64 {
    u64::try_from(milliseconds).unwrap_or(0).saturating_mul(1_000_000)
}

/// A stage of the run begins, and the one before ends.
pub fn stage(name: &'static str) {
    if let Some(Here { run, .. }) = here() {
        run.stage_ended();
        let begun = Open::of(name.into(), None, run.on.clock.now_ms());
        *run.stage_is() = Some(begun);
    }
}

/// The stage that goes on ends.
pub fn stage_ended() {
    if let Some(Here { run, .. }) = here() {
        run.stage_ended();
    }
}

/// What follows belongs to this attempt, counted from 1; to none for 0.
pub fn attempt(number: u32) {
    if let Some(Here { run, .. }) = here() {
        run.attempt.store(number, Ordering::Relaxed);
    }
}

/// The job goes back into the queue. `why` is a stable name.
pub fn put_back(why: &'static str, delay_ms: i64) {
    stage_ended();
    drop(span("put back").with("frognano.reason", why).with("frognano.delay_ms", delay_ms));
}

/// The run has its outcome: see [`RunTrace::ended`].
pub fn run_ended(outcome: &'static str, reason: &str, proof: Option<&str>) {
    RunTrace(here().map(|here| here.run)).ended(outcome, reason, proof);
}

/// Something begins: below what goes on around it, or the stage, or the run. It ends when the span is dropped.
#[must_use]
pub fn span(name: impl Into<Cow<'static, str>>) -> Span {
    Span(here().map(|Here { run, parent }| {
        let parent = parent.or_else(|| run.stage_is().as_ref().map(|stage| stage.id));
        let open = Open::of(name.into(), parent, run.on.clock.now_ms());
        (run, open)
    }))
}

/// A call of another server begins, as [`span`].
#[must_use]
pub fn call(name: impl Into<Cow<'static, str>>) -> Span {
    let mut span = span(name);
    if let Some((_, open)) = &mut span.0 {
        open.is_call = true;
    }
    span
}

/// Something that goes on; of nothing outside of a run that is traced.
pub struct Span(Option<(Arc<Going>, Open)>);

impl Span {
    /// The same, of which this is said.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.set(key, value);
        self
    }

    /// Says this of it.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some((_, open)) = &mut self.0 {
            open.attributes.push((key, value.into()));
        }
    }

    /// It did not do what it was for.
    pub fn fail(&mut self) {
        if let Some((_, open)) = &mut self.0 {
            open.failed = true;
        }
    }

    /// Does work that belongs to it: what that tells stands below it. It has failed where the work did.
    pub fn around<T, E>(&mut self, work: impl Future<Output = Result<T, E>>) -> impl Future<Output = Result<T, E>> {
        let work = at(self.0.as_ref().map(|(run, open)| Here { run: run.clone(), parent: Some(open.id) }), work);
        async {
            let came = work.await;
            if came.is_err() {
                self.fail();
            }
            came
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some((run, open)) = self.0.take() {
            run.end(open);
        }
    }
}
