//! HTTP: the webhook's door, the pages, and what tells whether the service is well.
//!
//! What must hold: the forge is the configured entry of the path's name; a body is read with a cap and a deadline, verified over its bytes,
//! and written down before it is answered, unless it is no JSON at all; nothing else is done in the request.

mod access;
mod api;
mod journals;
mod operator;
mod pages;
mod serve;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use secrecy::SecretString;
use serde_json::json;
use tokio::sync::Notify;

use crate::domain::{Clock, Explanation, Ids};
use crate::forge::{Headers, Inbound};
use crate::store::{Intake, NewDelivery, Standing, Store};
use crate::telemetry::metrics;

pub use access::{Access, Auditor, FrontDoor, Gate, Operator, Proxied, Rights, Role, Roles, Sees, Viewer};
pub use pages::{Examine, Pages};
pub use serve::serve;

/// A peer that does not send its body within this time is let go; forges wait 5 s for an answer at the shortest (forges.md, section 1).
const BODY_TIME: Duration = Duration::from_secs(20);

/// What the door works with.
#[derive(Clone)]
pub struct Door {
    /// How each configured forge speaks.
    pub inbound: Arc<HashMap<String, Arc<dyn Inbound>>>,
    /// Where deliveries are written down.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
    /// Wakes the worker.
    pub wake: Arc<Notify>,
    /// The largest body, in bytes.
    pub max_body_bytes: usize,
    /// Tells who looks at the pages.
    pub gate: Gate,
    /// What only the pages need.
    pub pages: Pages,
    /// The key of the operator's routes; none: they are not there.
    pub operator_token: Option<SecretString>,
}

/// What is served.
pub type Routes = Router;

/// The routes.
pub fn routes(door: Door) -> Routes {
    let prefix = door.gate.prefix().to_owned();
    let routes = Router::new()
        .route("/webhooks/{name}", post(webhook))
        .merge(pages::routes())
        .merge(access::routes(&door))
        .merge(api::routes())
        .merge(routes_without_webhooks(&door))
        .fallback(pages::nothing_here)
        .layer(middleware::from_fn_with_state(door.clone(), pages::dressed))
        .with_state(door);
    also_below(&prefix, routes)
}

/// The same below the path of `public_url`: the reverse proxy may pass that on or take it away.
fn also_below(prefix: &str, routes: Routes) -> Routes {
    if prefix.is_empty() { routes } else { Router::new().nest_service(prefix, routes.clone()).fallback_service(routes) }
}

/// The routes of a process that only works: health, and the operator's.
pub fn working_routes(door: Door) -> Routes {
    routes_without_webhooks(&door).with_state(door)
}

fn routes_without_webhooks(door: &Door) -> Router<Door> {
    Router::new()
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
        .route("/metrics", get(counted))
        .merge(operator::routes(door))
}

async fn ready(State(door): State<Door>) -> Response {
    match door.store.ping().await {
        Ok(()) => Json(json!({"status": "ready"})).into_response(),
        Err(error) => {
            tracing::error!(%error, "not ready");
            answer(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer")
        }
    }
}

/// Everything that is counted, for Prometheus. No label names a repository or a person, so that it is answered to whoever reaches the port.
async fn counted(State(door): State<Door>) -> Response {
    match door.store.standing().await {
        Ok(standing) => metrics::stands(&standing_of(&standing, door.clock.now_ms())),
        Err(error) => tracing::warn!(%error, "what is in the database could not be counted"),
    }
    match metrics::exposition() {
        Some(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        None => answer(StatusCode::NOT_FOUND, "nothing is counted in this process"),
    }
}

fn standing_of(standing: &Standing, now_ms: i64) -> metrics::Standing {
    metrics::Standing {
        jobs: [standing.jobs.queued, standing.jobs.running, standing.jobs.done],
        held: standing.held,
        open_pull_requests: standing.open_pull_requests,
        audit_waiting: standing.audit_waiting,
        signed_ago_ms: standing.signed_ms.map(|signed| now_ms.saturating_sub(signed)),
    }
}

async fn webhook(State(door): State<Door>, Path(name): Path<String>, headers: HeaderMap, body: Body) -> Response {
    let Some(inbound) = door.inbound.get(&name) else {
        return answer(StatusCode::NOT_FOUND, "no forge of this name is configured");
    };
    let body = match read(&headers, body, door.max_body_bytes).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let headers =
        Headers(headers.iter().filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))).collect());
    let delivery = match inbound.verify(&headers, &body) {
        Ok(delivery) => delivery,
        Err(error) => {
            tracing::warn!(forge = name, %error, "a delivery was refused");
            metrics::delivery(&name, "refused");
            return answer(StatusCode::UNAUTHORIZED, &error.to_string());
        }
    };
    if !is_json(delivery.body()) {
        tracing::warn!(forge = name, delivery = delivery.id(), "a signed body was no JSON");
        return answer(
            StatusCode::BAD_REQUEST,
            "the body is not JSON: set the hook's content type to JSON or form, without a template of its own",
        );
    }
    let read = inbound.event(&delivery);
    let text = String::from_utf8_lossy(delivery.body());
    let row = NewDelivery {
        forge: &name,
        delivery: delivery.id(),
        event: delivery.event(),
        body: &text,
        read: read.as_ref().map_err(String::as_str),
    };
    match door.store.take_in(&row, door.clock.as_ref(), door.ids.as_ref()).await {
        Ok(intake) => {
            let Explanation { verb, why, .. } = Explanation::of(true, delivery.event(), row.read);
            tracing::info!(forge = name, delivery = delivery.id(), event = delivery.event(), verb, ?intake, "taken in");
            metrics::delivery(&name, intake.name());
            if matches!(intake, Intake::Job(_)) {
                door.wake.notify_one();
            }
            (StatusCode::ACCEPTED, Json(json!({"delivery": delivery.id(), "verb": verb, "why": why}))).into_response()
        }
        Err(error) => {
            tracing::error!(%error, forge = name, delivery = delivery.id(), "a delivery could not be written down");
            answer(StatusCode::SERVICE_UNAVAILABLE, "the delivery could not be written down; send it again")
        }
    }
}

/// The whole body, if it is not larger than the limit and arrives in time; else what is answered.
async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Response> {
    let larger = || answer(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than the limit");
    if too_large(headers, limit) {
        return Err(larger());
    }
    match tokio::time::timeout(BODY_TIME, to_bytes(body, limit)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if is_length_limit(&error) => Err(larger()),
        Ok(Err(_)) => Err(answer(StatusCode::BAD_REQUEST, "the body broke off")),
        Err(_) => Err(let_go(answer(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))),
    }
}

/// The peer would go on sending: nothing more is read from it.
fn let_go(mut refusal: Response) -> Response {
    refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    refusal
}

fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

fn too_large(headers: &HeaderMap, limit: usize) -> bool {
    let announced = headers.get("content-length").and_then(|value| value.to_str().ok()).and_then(|value| value.parse::<u64>().ok());
    announced.is_some_and(|bytes| bytes > limit as u64)
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.to_string().contains("length limit exceeded") {
            return true;
        }
        cause = error.source();
    }
    error.to_string().contains("length limit exceeded")
}

fn answer(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"message": message}))).into_response()
}
