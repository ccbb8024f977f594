//! Runs: the list, one of them, its steps, its log.

use axum::extract::State;
use axum::response::{IntoResponse as _, Json, Response};
use serde_json::{Value, json};

use super::asked::{Asked, Followed, Listed, Run, cursor, wrong};
use super::{down, no_run, shape};
use crate::store::RunDetail;
use crate::web::journals::journals;
use crate::web::{Door, Viewer};

pub(super) async fn list(State(door): State<Door>, viewer: Viewer, Asked(asked): Asked<Listed>) -> Response {
    let (filter, part, limit) = match asked.read(&viewer) {
        Ok(read) => read,
        Err(words) => return wrong(&words),
    };
    match door.store.runs_page(&filter, &part, limit).await {
        Ok(page) => {
            let next = page.runs.last().filter(|_| page.has_older).map(|row| cursor(&row.cursor()));
            Json(json!({"runs": page.runs.iter().map(shape::run).collect::<Vec<_>>(), "next": next})).into_response()
        }
        Err(error) => down(&error),
    }
}

async fn found(door: &Door, viewer: &Viewer, run: &str) -> Result<RunDetail, Response> {
    match door.store.run_detail(run, viewer.sees.within()).await {
        Ok(found) => found.ok_or_else(no_run),
        Err(error) => Err(down(&error)),
    }
}

pub(super) async fn one(State(door): State<Door>, viewer: Viewer, Run(run): Run) -> Response {
    match found(&door, &viewer, &run).await {
        Ok(run) => Json(shape::detail(&run, door.pages.trace_of(&run.row.id))).into_response(),
        Err(refusal) => refusal,
    }
}

/// The steps of every attempt, from the record of a run that has ended or from the journal of one that goes on.
pub(super) async fn steps(State(door): State<Door>, viewer: Viewer, Run(run): Run) -> Response {
    let run = match found(&door, &viewer, &run).await {
        Ok(run) => run,
        Err(refusal) => return refusal,
    };
    let name = run.row.name();
    let attempts = match recorded(&door, name).await {
        Ok(attempts) if attempts.is_empty() => going_on(&door, name, run.checkpoint.tried.len()).await,
        attempts => attempts,
    };
    match attempts {
        Ok(attempts) => Json(json!({"run": name, "ended": run.row.state == "done", "attempts": attempts})).into_response(),
        Err(error) => down(&error),
    }
}

async fn recorded(door: &Door, run: &str) -> Result<Vec<Value>, crate::store::StoreError> {
    let records = door.store.records_of_run(run).await?;
    let of_attempts = records.iter().filter_map(|(kind, bytes)| Some((kind.strip_prefix("trajectory-")?.parse::<usize>().ok()?, bytes)));
    let mut attempts = of_attempts
        .filter_map(|(number, bytes)| Some((number, serde_json::from_slice::<Value>(bytes).ok()?.get_mut("steps")?.take())))
        .collect::<Vec<_>>();
    attempts.sort_by_key(|(number, _)| *number);
    Ok(attempts.into_iter().map(|(number, steps)| json!({"attempt": number, "steps": steps})).collect())
}

async fn going_on(door: &Door, run: &str, tried: usize) -> Result<Vec<Value>, crate::store::StoreError> {
    let steps_of = |journal: &[u8]| {
        let lines = journal.split(|byte| *byte == b'\n').map_while(|line| serde_json::from_slice::<Value>(line).ok());
        lines.filter_map(|mut line| Some(line.get_mut("step")?.get_mut("step")?.take())).collect::<Vec<_>>()
    };
    let attempts = journals(door, run, tried).await?;
    let attempts = attempts.iter().map(|(number, journal)| (number, steps_of(journal))).filter(|(_, steps)| !steps.is_empty());
    Ok(attempts.map(|(number, steps)| json!({"attempt": number, "steps": steps})).collect())
}

pub(super) async fn log(State(door): State<Door>, viewer: Viewer, Run(run): Run, Asked(asked): Asked<Followed>) -> Response {
    let (after, limit) = match asked.read() {
        Ok(read) => read,
        Err(words) => return wrong(&words),
    };
    // It is looked first whether it has ended: what is written before its end is then in the lines.
    let run = match found(&door, &viewer, &run).await {
        Ok(run) => run,
        Err(refusal) => return refusal,
    };
    match door.store.log_of_run(run.row.name(), after, limit).await {
        Ok(lines) => {
            let next = lines.last().map_or(after, |line| line.nth);
            let is_whole = i64::try_from(lines.len()).is_ok_and(|read| read < limit);
            let ended = run.row.state == "done" && is_whole;
            let lines = lines.iter().map(shape::line).collect::<Vec<_>>();
            Json(json!({"lines": lines, "next": next, "ended": ended, "outcome": run.row.outcome, "stage": run.row.stage})).into_response()
        }
        Err(error) => down(&error),
    }
}
