//! Errors: a page for who reads pages, JSON for everybody else; and the headers of every answer.

use askama::Template;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};

use super::frame::Frame;
use crate::store::StoreError;
use crate::web::{Door, answer};

/// What a browser may do with our pages: nothing but show them with our own style, and run our own script.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

/// A longer error is shown without its words.
const LONGEST: usize = 64 * 1024;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: Frame,
    title: &'static str,
    message: String,
    advice: &'static str,
}

/// Nothing is at this address, or nothing that who asks may see.
pub(in crate::web) async fn nothing_here() -> Response {
    absent("there is nothing at this address")
}

pub(super) fn absent(message: &str) -> Response {
    answer(StatusCode::NOT_FOUND, message)
}

pub(super) fn wrong(message: &str) -> Response {
    answer(StatusCode::BAD_REQUEST, message)
}

pub(super) fn failed() -> Response {
    answer(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made; the service's log says why")
}

/// The database did not answer.
pub(super) fn unavailable(error: &StoreError) -> Response {
    tracing::error!(%error, "a page could not be filled");
    answer(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer")
}

/// Dresses every answer: the headers, and an error as a page where a browser asks.
pub(in crate::web) async fn dressed(State(door): State<Door>, request: Request, next: Next) -> Response {
    let (for_people, only_head) = (reads_pages(request.headers()), request.method() == axum::http::Method::HEAD);
    let mut response = next.run(request).await;
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if is_error && !has_type(&response, "text/html") && !only_head {
        response = told(&door, response, for_people).await;
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn reads_pages(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html")))
}

fn has_type(response: &Response, of: &str) -> bool {
    response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| value.starts_with(of))
}

/// The error in the form that its reader takes; its headers stay, but for what describes the body.
async fn told(door: &Door, response: Response, for_people: bool) -> Response {
    if !for_people && has_type(&response, "application/json") {
        return response;
    }
    let was_json = has_type(&response, "application/json");
    let (mut parts, body) = response.into_parts();
    let bytes = to_bytes(body, LONGEST).await.unwrap_or_default();
    let message = message(&bytes, was_json).unwrap_or_else(|| in_general(parts.status).to_owned());
    let body = if for_people { page(door, parts.status, &message) } else { answer(parts.status, &message) };
    for described in [header::CONTENT_LENGTH, header::CONTENT_TYPE] {
        parts.headers.remove(described);
    }
    let (made, body) = body.into_parts();
    parts.headers.extend(made.headers);
    Response::from_parts(parts, Body::new(body))
}

fn message(bytes: &[u8], is_json: bool) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty())?;
    if !is_json {
        return Some(text.to_owned());
    }
    Some(serde_json::from_str::<serde_json::Value>(text).ok()?.get("message")?.as_str()?.to_owned())
}

fn page(door: &Door, status: StatusCode, message: &str) -> Response {
    let (title, advice) = words(status);
    let message = capitalized(message);
    match (ErrorPage { frame: Frame::bare(door), title, message, advice }).render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(_) => (status, title).into_response(),
    }
}

fn capitalized(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn in_general(status: StatusCode) -> &'static str {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => "this address does not take this method",
        other => other.canonical_reason().unwrap_or("it did not work"),
    }
}

fn words(status: StatusCode) -> (&'static str, &'static str) {
    match status.as_u16() {
        400 | 413..=422 => ("This can't be read", "Go back, correct what you entered, and send it again."),
        401 | 403 => ("You may not do this", "Ask whoever runs this service for the role that it takes, or sign in as somebody else."),
        404 => (
            "Nothing is here",
            "The address may be misspelt, the run may be too old to be kept, or you may not see its repository. The list of runs has all that you see.",
        ),
        405 => ("This is no page", "Use the buttons of the pages; this address takes what they send."),
        409 => ("This does not fit how things stand", "Load the page again to see how they stand now."),
        429 | 503 => ("Not at this moment", "Try again in a minute; if it stays so, the page of the health says what fails."),
        _ => ("It did not work", "Try again; if it stays so, the service's log says why."),
    }
}
