//! The same data as on the pages, for programs: JSON under `/api/v1`, described at `/api/openapi.json`.
//!
//! What must hold: what a viewer may not see is not found, as if it were not there; every error is JSON with one sentence; every list has an end;
//! who changes something shows a key, or is a program that no page of another site can play.

mod acts;
mod asked;
mod audit;
mod runs;
mod shape;
mod table;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::any;
use serde_json::json;

use super::{Door, Sees, Viewer, answer};
use crate::store::StoreError;
use table::Table;

const DESCRIPTION: &str = include_str!("openapi.json");

pub(super) fn routes() -> Router<Door> {
    table()
        .router
        .method_not_allowed_fallback(async || answer(StatusCode::METHOD_NOT_ALLOWED, "this address has no such method"))
        .route("/api/{*rest}", any(async || answer(StatusCode::NOT_FOUND, "there is no such address; /api/openapi.json lists all")))
        .layer(axum::middleware::map_response(guarded))
}

fn table() -> Table {
    Table::default()
        .get("/api/openapi.json", describe)
        .get("/api/v1/me", me)
        .get("/api/v1/runs", runs::list)
        .get("/api/v1/runs/{run}", runs::one)
        .get("/api/v1/runs/{run}/steps", runs::steps)
        .get("/api/v1/runs/{run}/log", runs::log)
        .post("/api/v1/runs/{run}/cancel", acts::cancel)
        .post("/api/v1/runs/{run}/retry", acts::retry)
        .get("/api/v1/queue", acts::queue)
        .post("/api/v1/queue/pause", acts::pause)
        .post("/api/v1/queue/resume", acts::resume)
        .post("/api/v1/queue/kill", acts::kill)
        .get("/api/v1/repositories", repositories)
        .get("/api/v1/reviews", reviews)
        .get("/api/v1/audit", audit::state)
}

/// Nothing of it is kept by anybody on the way, nor taken for a page.
async fn guarded(mut response: Response) -> Response {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn describe(State(door): State<Door>) -> Response {
    let prefix = door.gate.prefix();
    let here = format!("\"url\": \"{}\"", if prefix.is_empty() { "/" } else { prefix });
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], DESCRIPTION.replacen("\"url\": \"/\"", &here, 1))
        .into_response()
}

async fn me(viewer: Viewer) -> Response {
    let repositories = match &viewer.sees {
        Sees::All => None,
        Sees::Only(repositories) => Some(repositories),
    };
    Json(json!({"name": viewer.name, "forge": viewer.forge, "role": shape::role(viewer.role), "repositories": repositories}))
        .into_response()
}

async fn repositories(State(door): State<Door>, viewer: Viewer) -> Response {
    match door.store.repositories_with_runs().await {
        Ok(all) => {
            let seen = all.iter().filter(|row| viewer.sees(&crate::store::repository_name(&row.repo)));
            Json(json!({"repositories": seen.map(shape::repository).collect::<Vec<_>>()})).into_response()
        }
        Err(error) => down(&error),
    }
}

async fn reviews(State(door): State<Door>, viewer: Viewer) -> Response {
    match door.store.open_pull_requests().await {
        Ok(all) => {
            let seen = all.iter().filter(|row| viewer.sees(&crate::store::repository_name(&row.repo)));
            Json(json!({"reviews": seen.map(shape::review).collect::<Vec<_>>()})).into_response()
        }
        Err(error) => down(&error),
    }
}

fn down(error: &StoreError) -> Response {
    tracing::error!(%error, "the API can't answer");
    answer(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer; nothing is known to have changed")
}

fn no_run() -> Response {
    answer(StatusCode::NOT_FOUND, "there is no such run, or you may not see it")
}

#[cfg(test)]
mod tests {
    use super::{DESCRIPTION, table};

    #[test]
    fn the_description_names_every_address_and_no_other() {
        let description: serde_json::Value = serde_json::from_str(DESCRIPTION).unwrap();
        let mut described = Vec::new();
        for (path, methods) in description["paths"].as_object().unwrap() {
            described.extend(
                methods.as_object().unwrap().keys().filter(|key| *key != "parameters").map(|method| (method.clone(), path.clone())),
            );
        }
        let mut listed = table().listed.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect::<Vec<_>>();
        described.sort();
        listed.sort();
        assert_eq!(described, listed);
    }
}
