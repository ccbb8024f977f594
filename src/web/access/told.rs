//! What is answered to who may not come in: a page to browsers, JSON to programs.

use askama::Template;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};

use super::gate::{Access, Gate};
use super::{Refused, cookies};
use crate::web::answer;

/// Nothing is loaded but our own style, and no other page shows ours in a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

#[derive(Template)]
#[template(path = "refused.html")]
struct Page<'a> {
    prefix: &'a str,
    title: &'a str,
    words: &'a str,
    may_sign_in: bool,
}

/// The answer to somebody who may not come in. Who only has to sign in for a page is brought there.
pub(super) fn refused(parts: &Parts, gate: &Gate, why: Refused) -> Response {
    let Refused { status, words } = why;
    if !wants_a_page(&parts.headers) || parts.uri.path().starts_with("/api/") {
        return answer(status, words);
    }
    let signs_in = matches!(&*gate.access, Access::Forge(_));
    if signs_in && status == StatusCode::UNAUTHORIZED && parts.method == axum::http::Method::GET {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("back", path).finish();
        return go(&format!("{}/sign-in?{query}", gate.prefix()));
    }
    let title = match status {
        StatusCode::UNAUTHORIZED => "Sign in first",
        StatusCode::FORBIDDEN => "Not for you",
        StatusCode::TOO_MANY_REQUESTS => "Too often",
        StatusCode::SERVICE_UNAVAILABLE => "Not now",
        _ => "Not like this",
    };
    let page = Page { prefix: gate.prefix(), title, words, may_sign_in: signs_in && status != StatusCode::SERVICE_UNAVAILABLE };
    html(status, page.render())
}

/// A page of ours with the headers that all have.
pub(super) fn html(status: StatusCode, page: askama::Result<String>) -> Response {
    match page {
        Ok(page) => guarded((status, Html(page)).into_response()),
        Err(error) => {
            tracing::error!(%error, "a page can't be made");
            answer(StatusCode::INTERNAL_SERVER_ERROR, "the page can't be made")
        }
    }
}

/// Sends a browser to another address by a GET.
pub(super) fn go(address: &str) -> Response {
    let location = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/"));
    guarded((StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response())
}

fn guarded(mut response: Response) -> Response {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The same, with a cookie to keep or to forget.
pub(super) fn with_cookie(mut response: Response, kind: &cookies::Kind, value: &str, seconds: i64, public: &url::Url) -> Response {
    if let Some(cookie) = kind.keep(value, seconds, public) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

fn wants_a_page(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok()).is_some_and(|kinds| kinds.contains("text/html"))
}
