//! The way to the collector: a queue of bounded length, and one task that sends what is in it by OTLP over HTTP.
//!
//! What must hold: who puts a span into the queue never waits; every span is counted once, as sent or as lost; of loss there is a line in the log now and
//! then, not one a span; no variable of the environment changes where spans go.

use std::error::Error as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, StatusCode, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::value::pair;
use crate::telemetry::metrics;

/// So many spans wait at most.
const WAITING: usize = 4096;
/// So many are sent at once.
const TOGETHER: usize = 512;
/// More of an answer is not read, in bytes.
const LARGEST_ANSWER: usize = 64 * 1024;
/// Loss is told of no more often.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// Where spans go, and what is said with them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The collector's address for traces, `https://collector:4318/v1/traces`.
    pub endpoint: Url,
    /// A header that it wants, with its secret.
    pub header: Option<(String, SecretString)>,
    /// The only certificates that are trusted, in PEM form; those of the machine for none.
    pub ca_bundle: Option<Vec<u8>>,
    /// What is said of this service.
    pub resource: Vec<(String, String)>,
    /// The share of runs of which a trace is sent, 0 to 1.
    pub share: f64,
    /// How long is waited for what.
    pub pace: Pace,
}

/// How long is waited for what.
#[derive(Debug, Clone)]
pub struct Pace {
    /// For more spans, to send them together.
    pub gather: Duration,
    /// For the collector's answer.
    pub patience: Duration,
    /// Before each further try of what failed in a way that may pass.
    pub again: Vec<Duration>,
    /// For the rest to be sent when the service ends.
    pub closing: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { gather: Duration::from_millis(500), patience: seconds(10), again: vec![seconds(1), seconds(5)], closing: seconds(3) }
    }
}

/// What became of the spans so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// The collector took them.
    pub sent: u64,
    /// There was no room for them.
    pub dropped: u64,
    /// The collector did not want them.
    pub refused: u64,
    /// The collector could not be reached, or did not answer.
    pub unsent: u64,
}

impl Counted {
    const fn lost(self) -> u64 {
        self.dropped + self.refused + self.unsent
    }
}

#[derive(Debug, Default)]
struct Counts {
    /// In the queue or under way.
    waiting: AtomicU64,
    sent: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
    unsent: AtomicU64,
}

impl Counts {
    fn add(&self, came_to: CameTo, spans: u64) {
        if spans > 0 {
            let (of, name) = match came_to {
                CameTo::Sent => (&self.sent, "sent"),
                CameTo::Dropped => (&self.dropped, "dropped"),
                CameTo::Refused => (&self.refused, "refused"),
                CameTo::Unsent => (&self.unsent, "unsent"),
            };
            of.fetch_add(spans, Ordering::Relaxed);
            metrics::spans(name, spans);
        }
    }

    fn read(&self) -> Counted {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted { sent: read(&self.sent), dropped: read(&self.dropped), refused: read(&self.refused), unsent: read(&self.unsent) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CameTo {
    Sent,
    Dropped,
    Refused,
    Unsent,
}

/// The queue, and the task behind it.
pub(super) struct Line {
    spans: mpsc::Sender<Span>,
    counts: Arc<Counts>,
    closing: CancellationToken,
    closes_within: Duration,
    hand: Mutex<Option<JoinHandle<()>>>,
}

impl Line {
    pub(super) fn open(settings: Settings) -> Result<Self, String> {
        let (spans, waiting) = mpsc::channel(WAITING);
        let (counts, closing, closes_within) = (Arc::<Counts>::default(), CancellationToken::new(), settings.pace.closing);
        let collector = Collector::new(settings, counts.clone())?;
        let hand = tokio::spawn(collector.work(waiting, closing.clone()));
        Ok(Self { spans, counts, closing, closes_within, hand: Mutex::new(Some(hand)) })
    }

    /// Puts a span into the queue, or counts it as lost where there is no room.
    pub(super) fn put(&self, span: Span) {
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        if self.spans.try_send(span).is_err() {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            self.lost(1);
        }
    }

    /// So many spans were not even made.
    pub(super) fn lost(&self, spans: u64) {
        self.counts.add(CameTo::Dropped, spans);
    }

    pub(super) fn counted(&self) -> Counted {
        self.counts.read()
    }

    pub(super) async fn close(&self) {
        self.closing.cancel();
        let hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut hand) = hand
            && tokio::time::timeout(self.closes_within, &mut hand).await.is_err()
        {
            hand.abort();
            hand.await.ok();
            let left = self.counts.waiting.swap(0, Ordering::Relaxed);
            self.counts.add(CameTo::Unsent, left);
            tracing::warn!(spans = left, "the service ends before the collector of [telemetry.traces] has taken all spans");
        }
    }
}

/// Why a batch was not taken.
struct Trouble {
    came_to: CameTo,
    may_pass: bool,
    why: String,
}

struct Collector {
    client: reqwest::Client,
    endpoint: Url,
    resource: Resource,
    pace: Pace,
    counts: Arc<Counts>,
    told: Option<Instant>,
    told_of: u64,
}

impl Collector {
    fn new(settings: Settings, counts: Arc<Counts>) -> Result<Self, String> {
        let Settings { endpoint, header, ca_bundle, resource, pace, .. } = settings;
        let client = client(header.as_ref(), ca_bundle.as_deref(), pace.patience)?;
        let attributes = resource.iter().map(|(key, value)| pair(key, any_value::Value::StringValue(value.clone()))).collect();
        let resource = Resource { attributes, ..Resource::default() };
        Ok(Self { client, endpoint, resource, pace, counts, told: None, told_of: 0 })
    }

    /// Sends what comes until nobody can put anything into the queue any more, or it is closed and empty.
    async fn work(mut self, mut spans: mpsc::Receiver<Span>, closing: CancellationToken) {
        loop {
            let first = tokio::select! {
                biased;
                span = spans.recv() => span,
                () = closing.cancelled() => None,
            };
            let Some(first) = first else { return };
            rest(self.pace.gather, &closing).await;
            let mut batch = vec![first];
            while batch.len() < TOGETHER
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            self.send(batch, &closing).await;
            self.tell_of_loss("there was no room for them");
        }
    }

    async fn send(&mut self, batch: Vec<Span>, closing: &CancellationToken) {
        let spans = batch.len() as u64;
        let body = Bytes::from(self.message(batch).encode_to_vec());
        let mut tries = self.pace.again.clone().into_iter();
        let came = loop {
            let came = self.once(body.clone()).await;
            let again = came.as_ref().is_err_and(|trouble| trouble.may_pass && !closing.is_cancelled());
            match tries.next().filter(|_| again) {
                Some(wait) => rest(wait, closing).await,
                None => break came,
            }
        };
        self.counts.waiting.fetch_sub(spans, Ordering::Relaxed);
        match came {
            Ok(refused) => {
                let refused = refused.min(spans);
                self.counts.add(CameTo::Sent, spans - refused);
                self.counts.add(CameTo::Refused, refused);
                self.tell_of_loss("it took only a part of what it was sent");
            }
            Err(trouble) => {
                self.counts.add(trouble.came_to, spans);
                self.tell_of_loss(&trouble.why);
            }
        }
    }

    fn message(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource: Some(self.resource.clone()), scope_spans, ..ResourceSpans::default() }],
        }
    }

    /// Sends once; how many spans the collector says that it left out.
    async fn once(&self, body: Bytes) -> Result<u64, Trouble> {
        let broken = |error: reqwest::Error| Trouble { came_to: CameTo::Unsent, may_pass: true, why: causes(&error.without_url()) };
        let request = self.client.post(self.endpoint.clone()).header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let mut answer = request.send().await.map_err(broken)?;
        let status = answer.status();
        if !status.is_success() {
            let may_pass = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
            );
            return Err(Trouble { came_to: CameTo::Refused, may_pass, why: format!("it answers with status {}", status.as_u16()) });
        }
        let mut told = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(broken)?
            && told.len() < LARGEST_ANSWER
        {
            told.extend_from_slice(&chunk);
        }
        // It has taken them, whatever it says besides.
        let told = ExportTraceServiceResponse::decode(&*told).unwrap_or_default();
        Ok(told.partial_success.map_or(0, |partly| u64::try_from(partly.rejected_spans).unwrap_or(0)))
    }

    /// Says that spans were lost since it was last said, unless that was just now.
    fn tell_of_loss(&mut self, why: &str) {
        let lost = self.counts.read().lost();
        if lost > self.told_of && self.told.is_none_or(|told| told.elapsed() >= TOLD_AGAIN) {
            let spans = lost - self.told_of;
            tracing::warn!(spans, why, "spans were lost on the way to the collector of [telemetry.traces]; runs go on as ever");
            (self.told, self.told_of) = (Some(Instant::now()), lost);
        }
    }
}

/// Sends the collector a message without a span.
///
/// # Errors
/// Why it would not take spans, or why it can't be asked.
pub async fn ask(settings: Settings) -> Result<(), String> {
    let collector = Collector::new(settings, Arc::default())?;
    let message = collector.message(Vec::new()).encode_to_vec();
    collector.once(message.into()).await.map(drop).map_err(|trouble| trouble.why)
}

/// Waits so long, or until it is closed.
async fn rest(time: Duration, closing: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = closing.cancelled() => {}
    }
}

/// What sends: to that address alone, without a proxy.
fn client(header: Option<&(String, SecretString)>, ca_bundle: Option<&[u8]>, patience: Duration) -> Result<reqwest::Client, String> {
    let mut headers = HeaderMap::new();
    if let Some((name, secret)) = header {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("header: {name:?} is no name of a header"))?;
        let mut value = HeaderValue::from_str(secret.expose_secret())
            .map_err(|_| "header_value: it has characters that no header may hold (a line end?)".to_owned())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    // Another part of the service may have chosen the same provider before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("frognano-bot/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .timeout(patience);
    if let Some(bundle) = ca_bundle {
        let certificates = Certificate::from_pem_bundle(bundle).unwrap_or_default();
        if certificates.is_empty() {
            return Err("ca_file: it holds no certificate in PEM form".to_owned());
        }
        builder = builder.tls_certs_only(certificates);
    }
    builder.build().map_err(|error| format!("no HTTP client can be made: {}", causes(&error)))
}

fn causes(error: &reqwest::Error) -> String {
    std::iter::successors(error.source(), |&cause| cause.source()).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
