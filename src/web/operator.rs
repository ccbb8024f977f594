//! The operator's routes: hold the queue, let it go on, stop everything. They are there only where a key is configured.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::{get, post};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use subtle::ConstantTimeEq as _;

use super::{Door, answer, read};
use crate::store::{Doer, StoreError};

/// The longest form, in bytes.
const LONGEST_FORM: usize = 64 * 1024;

/// Why, in the operator's words; shown to who asks how things stand.
#[derive(Debug, Default)]
struct Said {
    by: String,
    why: String,
}

impl Said {
    /// The fields of a form; a body that is none says nothing.
    fn of(form: &[u8]) -> Self {
        let mut said = Self::default();
        for (name, value) in url::form_urlencoded::parse(form) {
            match &*name {
                "by" => value.trim().clone_into(&mut said.by),
                "why" => value.trim().clone_into(&mut said.why),
                _ => {}
            }
        }
        said
    }
}

/// `GET /operator/queue` and `POST /operator/queue/{pause,resume,kill}` with `Authorization: Bearer KEY`; the form fields `by` and `why` may be left out.
pub(super) fn routes(door: &Door) -> Router<Door> {
    let Some(key) = door.operator_token.clone() else { return Router::new() };
    Router::new()
        .route("/operator/queue", get(show))
        .route("/operator/queue/{act}", post(act))
        .layer(middleware::from_fn(move |request: Request, next: Next| only_with(key.clone(), request, next)))
}

async fn only_with(key: SecretString, request: Request, next: Next) -> Response {
    if has_key(request.headers(), &key) {
        next.run(request).await
    } else {
        answer(StatusCode::UNAUTHORIZED, "the operator's key is missing or wrong")
    }
}

fn has_key(headers: &HeaderMap, key: &SecretString) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.strip_prefix("Bearer "));
    given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(key.expose_secret().as_bytes())))
}

async fn show(State(door): State<Door>) -> Response {
    match how_it_stands(&door).await {
        Ok(stands) => Json(stands).into_response(),
        Err(error) => failed(&error),
    }
}

async fn act(State(door): State<Door>, Path(act): Path<String>, headers: HeaderMap, body: Body) -> Response {
    let form = match read(&headers, body, LONGEST_FORM).await {
        Ok(form) => form,
        Err(refusal) => return refusal,
    };
    let said = Said::of(&form);
    let by = Doer::operator(if said.by.is_empty() { "an operator" } else { said.by.as_str() });
    let done = match act.as_str() {
        "pause" => door.store.pause(&by, &said.why, door.clock.as_ref()).await,
        "resume" => door.store.resume(&by).await.map(|_| ()),
        "kill" => door.store.kill(&by, &said.why, door.clock.as_ref()).await.map(|_| ()),
        _ => return answer(StatusCode::NOT_FOUND, "there are pause, resume and kill"),
    };
    tracing::warn!(act, by = by.name, "the operator spoke");
    door.wake.notify_waiters();
    match done {
        Ok(()) => show(State(door)).await,
        Err(error) => failed(&error),
    }
}

pub(super) async fn how_it_stands(door: &Door) -> Result<serde_json::Value, StoreError> {
    let summary = door.store.summary().await?;
    let paused = door.store.paused().await?.map(|paused| json!({"by": paused.by, "why": paused.why, "on_ms": paused.on_ms}));
    Ok(json!({"queued": summary.queued, "running": summary.running, "done": summary.done, "paused": paused}))
}

fn failed(error: &StoreError) -> Response {
    tracing::error!(%error, "the operator's word could not be kept");
    answer(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer; nothing is known to have changed")
}
