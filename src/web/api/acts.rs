//! What operators do by the API; each act stands in the audit chain.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Json, Response};
use serde::Deserialize;
use serde_json::json;

use super::asked::{Run, is_a_program, not_a_program, wrong};
use super::{down, no_run};
use crate::store::{KnownJob, Made, repository_name};
use crate::web::operator::how_it_stands;
use crate::web::{Door, Operator, Sees, Viewer, answer, read};

const LONGEST_BODY: usize = 64 * 1024;
const LONGEST_WHY: usize = 1000;

/// The body of an act on the queue; it may be left out.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default)]
    why: String,
}

async fn found(door: &Door, viewer: &Viewer, headers: &HeaderMap, run: &str) -> Result<KnownJob, Response> {
    if !is_a_program(viewer, headers) {
        return Err(not_a_program());
    }
    let job = door.store.job_of_run(run).await.map_err(|error| down(&error))?;
    job.filter(|job| viewer.sees(&repository_name(&job.repo))).ok_or_else(no_run)
}

pub(super) async fn cancel(State(door): State<Door>, Operator(viewer): Operator, Run(run): Run, headers: HeaderMap) -> Response {
    let job = match found(&door, &viewer, &headers, &run).await {
        Ok(job) => job,
        Err(refusal) => return refusal,
    };
    match door.store.cancel_job(&job, &viewer.doer(), door.clock.as_ref(), door.ids.as_ref()).await {
        Ok(true) => (StatusCode::ACCEPTED, Json(json!({"message": "it is told to stop"}))).into_response(),
        Ok(false) if job.state == "done" => answer(StatusCode::CONFLICT, "it has ended"),
        Ok(false) => answer(StatusCode::CONFLICT, "it has ended, or was told to stop before"),
        Err(error) => down(&error),
    }
}

pub(super) async fn retry(State(door): State<Door>, Operator(viewer): Operator, Run(run): Run, headers: HeaderMap) -> Response {
    let job = match found(&door, &viewer, &headers, &run).await {
        Ok(job) => job,
        Err(refusal) => return refusal,
    };
    match door.store.retry_job(&job, &viewer.doer(), door.clock.as_ref(), door.ids.as_ref()).await {
        Ok(Made::Job(job)) => {
            door.wake.notify_one();
            (StatusCode::ACCEPTED, Json(json!({"message": "it is in the queue", "job": job}))).into_response()
        }
        Ok(Made::Known) => answer(StatusCode::CONFLICT, "it was retried before: retry the newer run of this issue"),
        Ok(Made::Erased) => {
            answer(StatusCode::CONFLICT, "the words of the issue were erased in their time: set the label on the issue once more")
        }
        Ok(Made::Busy) => answer(StatusCode::CONFLICT, "the issue has a run under way"),
        Err(error) => down(&error),
    }
}

pub(super) async fn queue(State(door): State<Door>, viewer: Viewer) -> Response {
    match viewer.sees {
        Sees::All => shown(&door).await,
        Sees::Only(_) => only_for_all(),
    }
}

pub(super) async fn pause(State(door): State<Door>, Operator(viewer): Operator, headers: HeaderMap, body: Body) -> Response {
    let said = match said(&viewer, &headers, body).await {
        Ok(said) => said,
        Err(refusal) => return refusal,
    };
    told(&door, door.store.pause(&viewer.doer(), &said.why, door.clock.as_ref()).await).await
}

pub(super) async fn resume(State(door): State<Door>, Operator(viewer): Operator, headers: HeaderMap, body: Body) -> Response {
    if let Err(refusal) = said(&viewer, &headers, body).await {
        return refusal;
    }
    told(&door, door.store.resume(&viewer.doer()).await.map(|_| ())).await
}

pub(super) async fn kill(State(door): State<Door>, Operator(viewer): Operator, headers: HeaderMap, body: Body) -> Response {
    let said = match said(&viewer, &headers, body).await {
        Ok(said) => said,
        Err(refusal) => return refusal,
    };
    told(&door, door.store.kill(&viewer.doer(), &said.why, door.clock.as_ref()).await.map(|_| ())).await
}

/// The queue is one for all repositories.
fn only_for_all() -> Response {
    answer(StatusCode::FORBIDDEN, "the queue is shown to who sees all repositories")
}

async fn said(viewer: &Viewer, headers: &HeaderMap, body: Body) -> Result<Said, Response> {
    if !is_a_program(viewer, headers) {
        return Err(not_a_program());
    }
    if viewer.sees != Sees::All {
        return Err(only_for_all());
    }
    let body = read(headers, body, LONGEST_BODY).await?;
    if body.is_empty() {
        return Ok(Said::default());
    }
    let said: Said = serde_json::from_slice(&body).map_err(|error| wrong(&format!("the body is not {{\"why\": \"…\"}}: {error}")))?;
    if said.why.chars().count() > LONGEST_WHY {
        return Err(wrong(&format!("why: at most {LONGEST_WHY} characters")));
    }
    Ok(said)
}

async fn told(door: &Door, done: Result<(), crate::store::StoreError>) -> Response {
    door.wake.notify_waiters();
    match done {
        Ok(()) => shown(door).await,
        Err(error) => down(&error),
    }
}

async fn shown(door: &Door) -> Response {
    match how_it_stands(door).await {
        Ok(stands) => Json(stands).into_response(),
        Err(error) => down(&error),
    }
}
