//! The buttons: a run is made once more, or its end is asked for.

use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};

use super::errors::{absent, unavailable};
use super::frame::within;
use crate::store::{Doer, KnownJob, Made, StoreError};
use crate::web::{Door, Operator, Viewer, answer, read};

/// The longest form, in bytes.
const LONGEST_FORM: usize = 64 * 1024;

/// What a button sends.
#[derive(Debug)]
pub(super) struct Pressed {
    pub(super) csrf: String,
}

impl FromRequest<Door> for Pressed {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Door) -> Result<Self, Self::Rejection> {
        let (parts, body) = request.into_parts();
        let of = parts.headers.get(header::CONTENT_TYPE).and_then(|of| of.to_str().ok()).unwrap_or_default();
        if !of.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded") {
            return Err(answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, "this address takes what the buttons of the pages send"));
        }
        let form = read(&parts.headers, body, LONGEST_FORM).await?;
        let csrf = url::form_urlencoded::parse(&form).find(|(name, _)| name == "csrf").map(|(_, value)| value.into_owned());
        Ok(Self { csrf: csrf.unwrap_or_default() })
    }
}

/// A form that is not one of ours, or of a page that was loaded before a start of the service.
pub(super) fn foreign() -> Response {
    answer(StatusCode::FORBIDDEN, "the form is not one that this page sent to you: load the page again, and press the button there")
}

pub(super) async fn retry(State(door): State<Door>, Operator(viewer): Operator, Path(run): Path<String>, pressed: Pressed) -> Response {
    let job = match job_for(&door, &viewer, &run, &pressed).await {
        Ok(job) => job,
        Err(refusal) => return refusal,
    };
    match door.store.retry_job(&job, &doer(&viewer), door.clock.as_ref(), door.ids.as_ref()).await {
        Ok(Made::Job(id)) => {
            door.wake.notify_one();
            to_run(&door, &id)
        }
        Ok(Made::Known) => {
            answer(StatusCode::CONFLICT, "this run was made once more before; the newer one is in the list of the issue's runs")
        }
        Ok(Made::Erased) => {
            answer(StatusCode::CONFLICT, "the words of the issue were erased in their time: set the label on the issue once more")
        }
        Ok(Made::Busy) => answer(StatusCode::CONFLICT, "the issue has a run that waits or goes on"),
        Err(error) => unavailable(&error),
    }
}

pub(super) async fn cancel(State(door): State<Door>, Operator(viewer): Operator, Path(run): Path<String>, pressed: Pressed) -> Response {
    let job = match job_for(&door, &viewer, &run, &pressed).await {
        Ok(job) => job,
        Err(refusal) => return refusal,
    };
    match door.store.cancel_job(&job, &doer(&viewer), door.clock.as_ref(), door.ids.as_ref()).await {
        Ok(_) => {
            door.wake.notify_waiters();
            to_run(&door, job.run.as_deref().unwrap_or(&job.id))
        }
        Err(error) => unavailable(&error),
    }
}

fn to_run(door: &Door, run: &str) -> Response {
    Redirect::to(&format!("{}/runs/{run}", door.gate.prefix())).into_response()
}

fn doer(viewer: &Viewer) -> Doer {
    Doer { name: viewer.name.clone(), forge: viewer.forge.clone() }
}

/// The job that a button is about, for who may press it and sees it.
async fn job_for(door: &Door, viewer: &Viewer, run: &str, pressed: &Pressed) -> Result<KnownJob, Response> {
    if !viewer.wrote(&pressed.csrf) {
        return Err(foreign());
    }
    let failed = |error: StoreError| unavailable(&error);
    let seen = door.store.run_detail(run, within(viewer).as_deref()).await.map_err(failed)?;
    let Some(seen) = seen else { return Err(absent("there is no run of this name, or you may not see its repository")) };
    door.store.job_of_run(&seen.row.id).await.map_err(failed)?.ok_or_else(|| absent("the run is gone"))
}
