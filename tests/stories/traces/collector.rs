//! A collector of traces by OTLP over HTTP, as far as the stories ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use frognano_bot::telemetry::traces::trace_of;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::sync::watch;

use crate::house::PATIENCE;

/// How it answers.
#[derive(Debug, Clone, Copy)]
pub enum Mood {
    /// It takes everything.
    Takes,
    /// It says that it left out so many spans of each request.
    LeavesOut(i64),
    /// It answers with this status.
    Answers(u16),
    /// It never answers.
    Hangs,
}

/// What it heard.
#[derive(Debug, Default)]
pub struct Heard {
    pub spans: Vec<Span>,
    pub resource: BTreeMap<String, String>,
    /// The very bytes.
    pub bodies: Vec<Bytes>,
    pub headers: Vec<HeaderMap>,
}

#[derive(Clone)]
struct Room {
    mood: Arc<Mutex<Mood>>,
    heard: watch::Sender<Heard>,
}

pub struct Collector {
    pub endpoint: String,
    room: Room,
    server: tokio::task::JoinHandle<()>,
}

impl Collector {
    pub async fn start(mood: Mood) -> Self {
        let room = Room { mood: Arc::new(Mutex::new(mood)), heard: watch::Sender::new(Heard::default()) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let routes = Router::new().route("/v1/traces", post(take)).with_state(room.clone());
        let server = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { endpoint, room, server }
    }

    /// The lines of the configuration that send traces here.
    pub fn lines(&self) -> String {
        format!("[telemetry.traces]\nendpoint = \"{}\"\n", self.endpoint)
    }

    pub fn set(&self, mood: Mood) {
        *self.room.mood.lock().unwrap() = mood;
    }

    pub fn heard<T>(&self, of: impl FnOnce(&Heard) -> T) -> T {
        of(&self.room.heard.borrow())
    }

    /// Waits until it has heard what is looked for.
    pub async fn until(&self, looks: impl FnMut(&Heard) -> bool) {
        let mut heard = self.room.heard.subscribe();
        let names = || self.heard(|heard| heard.spans.iter().map(|span| span.name.clone()).collect::<Vec<_>>());
        let came = tokio::time::timeout(PATIENCE, heard.wait_for(looks)).await.map(|came| came.map(drop));
        assert!(came.is_ok_and(|came| came.is_ok()), "the collector never heard it; only {:#?}", names());
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(room): State<Room>, headers: HeaderMap, body: Bytes) -> (StatusCode, Vec<u8>) {
    let mood = *room.mood.lock().unwrap();
    let asked = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let left_out = if let Mood::LeavesOut(spans) = mood { spans } else { 0 };
    room.heard.send_modify(|heard| {
        for of_one in asked.resource_spans {
            let attributes = of_one.resource.unwrap_or_default().attributes;
            heard.resource.extend(attributes.iter().map(|pair| (pair.key.clone(), text(pair))));
            heard.spans.extend(of_one.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        heard.bodies.push(body);
        heard.headers.push(headers);
    });
    match mood {
        Mood::Hangs => std::future::pending().await,
        Mood::Answers(status) => (StatusCode::from_u16(status).unwrap(), Vec::new()),
        Mood::Takes | Mood::LeavesOut(_) => {
            let partial_success = Some(ExportTracePartialSuccess { rejected_spans: left_out, error_message: String::new() });
            (StatusCode::OK, ExportTraceServiceResponse { partial_success }.encode_to_vec())
        }
    }
}

fn text(pair: &KeyValue) -> String {
    match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => panic!("{}: {other:?}", pair.key),
    }
}

pub fn is_root(span: &Span) -> bool {
    span.parent_span_id.is_empty()
}

/// What a span says under a key.
pub fn said(span: &Span, key: &str) -> Option<String> {
    let mut found = span.attributes.iter().filter(|pair| pair.key == key);
    let one = found.next().map(text);
    assert!(found.next().is_none(), "{key} is said twice of {}", span.name);
    one
}

/// All that a span says.
pub fn texts(span: &Span) -> Vec<String> {
    span.attributes.iter().map(text).collect()
}

/// The spans of a whole trace: their names from the top down, each with what it says, as `run > agent > model turn`.
pub fn tree<'a>(spans: &'a [Span], job: &str) -> Vec<(String, &'a Span)> {
    let by_id = spans.iter().map(|span| (&span.span_id, span)).collect::<BTreeMap<_, _>>();
    assert_eq!(by_id.len(), spans.len(), "an id was given twice");
    assert_eq!(spans.iter().filter(|span| is_root(span)).map(|span| span.name.as_str()).collect::<Vec<_>>(), ["run"]);
    let whole = spans.iter().map(|span| {
        assert_eq!(hex(&span.trace_id), trace_of(job));
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano && span.start_time_unix_nano > 0, "{span:?}");
        let mut names = vec![span.name.as_str()];
        let mut at = span;
        while !is_root(at) {
            at = by_id.get(&at.parent_span_id).unwrap_or_else(|| panic!("what {} is below was not sent: {names:?}", at.name));
            names.insert(0, &at.name);
        }
        (names.join(" > "), span)
    });
    let mut whole = whole.collect::<Vec<_>>();
    whole.sort_by_key(|(_, span)| span.start_time_unix_nano);
    whole
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
