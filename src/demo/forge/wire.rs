//! HTTP in and out: takes a request apart, lets failures strike, hands it to the face that is asked for, and logs the answer.
//!
//! The faces are plain functions over the locked state (they may ask git, which blocks), so they run on a thread for blocking work.
//! Only git's own transport streams.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use base64::Engine as _;
use serde_json::{Value, json};

use super::Kind;
use super::knobs::{Failure, Logged, Strike};
use super::state::{Repository, State};
use super::{Forge, Token, gitea, github, gitlab, oauth, pages};
use crate::demo::git_backend::{self, SmartRequest};
use crate::domain::Permission;

/// The largest body that the API takes, in bytes.
const BODY_CAP: usize = 4 << 20;

/// A request to the API or the pages.
pub(super) struct Ask {
    pub method: String,
    /// The parts of the path between slashes, decoded one by one: a `%2F` stays in its part.
    pub path: Vec<String>,
    pub raw_path: String,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Ask {
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as a JSON object.
    pub fn object(&self) -> Option<Value> {
        serde_json::from_slice::<Value>(&self.body).ok().filter(Value::is_object)
    }

    /// The part of a list that `page` and the size parameter ask for, and the headers `Link` (next and last) and `X-Total-Count`.
    pub fn page<T>(
        &self,
        base_url: &str,
        items: Vec<T>,
        size_name: &str,
        (default, most): (usize, usize),
    ) -> (Vec<T>, Vec<(String, String)>) {
        let number = |name: &str| self.query(name).and_then(|text| text.parse::<usize>().ok()).filter(|&number| number > 0);
        let (page, size) = (number("page").unwrap_or(1), number(size_name).unwrap_or(default).min(most));
        let (total, last) = (items.len(), items.len().div_ceil(size).max(1));
        let address = |page: usize| {
            let others = self.query.iter().filter(|(key, _)| key != "page" && key != size_name);
            let query = url::form_urlencoded::Serializer::new(String::new())
                .extend_pairs(others)
                .append_pair(size_name, &size.to_string())
                .append_pair("page", &page.to_string())
                .finish();
            format!("<{base_url}{}?{query}>", self.raw_path)
        };
        let mut headers = vec![("X-Total-Count".to_owned(), total.to_string())];
        if page < last {
            headers.push(("Link".to_owned(), format!("{}; rel=\"next\", {}; rel=\"last\"", address(page + 1), address(last))));
        }
        (items.into_iter().skip((page - 1).saturating_mul(size)).take(size).collect(), headers)
    }
}

/// An answer of the API or the pages.
pub(super) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("Content-Type".to_owned(), "application/json;charset=utf-8".to_owned())];
        Self { status, headers, body: serde_json::to_vec(body).unwrap_or_default() }
    }

    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    pub fn with(mut self, headers: impl IntoIterator<Item = (String, String)>) -> Self {
        self.headers.extend(headers);
        self
    }

    pub fn with_body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                response.headers_mut().append(name, value);
            }
        }
        response
    }
}

/// Who asks, and with which token.
#[derive(Clone, Default)]
pub(super) struct Caller {
    /// Empty for a visitor.
    pub login: String,
    token: Option<Token>,
}

impl Caller {
    pub fn visitor() -> Self {
        Self::default()
    }

    pub fn with(token: Token) -> Self {
        Self { login: token.login.clone(), token: Some(token) }
    }

    pub fn is_visitor(&self) -> bool {
        self.token.is_none()
    }

    /// Whether an App asks, within an installation.
    pub fn is_installation(&self) -> bool {
        self.token.as_ref().is_some_and(|token| token.ends_ms.is_some())
    }

    /// Whether the token has exactly this scope.
    pub fn has(&self, scope: &str) -> bool {
        self.token.as_ref().is_some_and(|token| token.scopes.contains(scope))
    }

    /// All scopes of the token.
    pub fn scopes(&self) -> Vec<&str> {
        self.token.iter().flat_map(|token| &token.scopes).map(String::as_str).collect()
    }

    /// Whether the token is for this repository too.
    pub fn reaches(&self, repository: &Repository) -> bool {
        let only = self.token.as_ref().and_then(|token| token.repositories.as_ref());
        only.is_none_or(|only| only.contains(&repository.id))
    }

    /// The scopes as GitHub lists those of a classic token: what is written as a permission belongs to another kind and is not listed.
    pub fn classic_scopes(&self) -> String {
        let scopes = self.token.iter().flat_map(|token| &token.scopes);
        scopes
            .filter(|scope| !scope.starts_with("write:") && !scope.starts_with("read:") && *scope != "all")
            .cloned()
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Whether the token's scopes cover this; a visitor has no scopes to lack.
    pub fn covers(&self, what: &str, write: bool) -> bool {
        if self.is_visitor() {
            return !write;
        }
        let has = |scope: &str| self.has(scope);
        has("all") || has("repo") || has(&format!("write:{what}")) || (!write && has(&format!("read:{what}")))
    }

    /// Whether the token's scopes let git in.
    fn covers_git(&self, kind: Kind, push: bool) -> bool {
        match kind {
            Kind::Gitea | Kind::Forgejo => self.covers("repository", push),
            Kind::GitHub => self.covers("contents", push),
            Kind::GitLab if self.is_visitor() => !push,
            Kind::GitLab => {
                ["all", "api", "write_repository"].iter().any(|scope| self.has(scope)) || (!push && self.has("read_repository"))
            }
        }
    }
}

/// Answers any request to the forge.
pub(in crate::demo) async fn serve(Shared(forge): Shared<Forge>, request: Request) -> Response<Body> {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let (failure, delay, held) = {
        let mut state = forge.state();
        (state.knobs.strike(&method, &path), state.knobs.delay(&path), state.knobs.held())
    };
    if let Some((strike, reached)) = held {
        if strike == Strike::After {
            dispatch(&forge, request).await;
        }
        reached.send(()).ok();
        return std::future::pending().await;
    }
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    happen(&forge, &method, &path, Strike::Before);
    let response = match failure {
        Some(failure) => {
            if failure.strike == Strike::After {
                dispatch(&forge, request).await;
            }
            let kind = forge.state().kind;
            failed(kind, &failure)
        }
        None => dispatch(&forge, request).await,
    };
    happen(&forge, &method, &path, Strike::After);
    forge.send_out();
    let mut state = forge.state();
    state.knobs.requests.push(Logged { method, path, status: response.status().as_u16() });
    state.knobs.answered.send_modify(|answered| *answered += 1);
    response
}

/// Does what a test wants to have happened at this moment.
fn happen(forge: &Forge, method: &str, path: &str, strike: Strike) {
    let due = forge.state().knobs.happening(method, path, strike);
    if let Some(happening) = due {
        (happening.act)(forge);
    }
}

/// GitLab's limits answer a plain text.
fn failed(kind: Kind, failure: &Failure) -> Response<Body> {
    if (kind, failure.status) == (Kind::GitLab, 429) {
        return Answer::empty(429).with(failure.headers.clone()).with_body(b"Retry later\n".to_vec()).into_response();
    }
    let body = json!({ "message": "the demonstration forge was told to fail" });
    Answer::json(failure.status, &body).with(failure.headers.clone()).into_response()
}

async fn dispatch(forge: &Forge, request: Request) -> Response<Body> {
    let path = request.uri().path().to_owned();
    if let Some((repository, service_path)) = git_route(&path) {
        return smart_http(forge, repository, service_path, request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_CAP).await else { return Answer::empty(413).into_response() };
    let query = url::form_urlencoded::parse(parts.uri.query().unwrap_or("").as_bytes());
    let ask = Ask {
        method: parts.method.to_string(),
        path: path.split('/').skip(1).map(percent_decoded).collect(),
        raw_path: path,
        query: query.into_owned().collect(),
        headers: parts.headers,
        body,
    };
    let forge = forge.clone();
    let answer = tokio::task::spawn_blocking(move || answer(&mut forge.state(), &ask)).await;
    answer.unwrap_or_else(|_| Answer::empty(500)).into_response()
}

fn answer(state: &mut State, ask: &Ask) -> Answer {
    let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
    let known = match (state.kind, path.as_slice()) {
        (Kind::Gitea | Kind::Forgejo, ["api", "v1", path @ ..]) => gitea::answer(state, ask, path),
        (Kind::Forgejo, ["api", "forgejo", "v1", "version"]) => Some(Answer::json(200, &json!({ "version": gitea::FORGEJO_VERSION }))),
        (Kind::GitHub, ["api", "v3", path @ ..]) => github::answer(state, ask, path),
        (Kind::GitLab, ["api", "v4", path @ ..]) => gitlab::answer(state, ask, path),
        (_, path) if path.first() != Some(&"api") => oauth::answer(state, ask, path).or_else(|| pages::answer(state, ask, path)),
        _ => None,
    };
    let is_page_that_is_missing = path.first() != Some(&"api") && known.as_ref().is_some_and(|answer| answer.status == 404);
    if known.is_none() || is_page_that_is_missing {
        state.knobs.unexpected.push(format!("{} {}", ask.method, ask.raw_path));
    }
    let answer = known.unwrap_or_else(|| Answer::json(404, &json!({ "message": "Not Found" })));
    let has_tags = matches!(state.kind, Kind::GitHub | Kind::GitLab) && path.first() == Some(&"api");
    if has_tags && ask.method == "GET" && answer.status == 200 { unless_known(ask, answer) } else { answer }
}

/// With a tag of its content, and without the content where the asker has it already. Headers, the next page among them, stay.
fn unless_known(ask: &Ask, answer: Answer) -> Answer {
    use sha2::Digest as _;
    let tag = format!("W/\"{}\"", &hex::encode(sha2::Sha256::digest(&answer.body))[..32]);
    let is_known = ask.header("if-none-match").is_some_and(|tags| tags.split(',').any(|one| one.trim() == tag));
    let answer = answer.with([("ETag".to_owned(), tag)]);
    if is_known { Answer { status: 304, ..answer.with_body(Vec::new()) } } else { answer }
}

fn percent_decoded(part: &str) -> String {
    let bytes = part.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = part.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        decoded.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn git_route(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('/')?;
    ["/info/refs", "/git-upload-pack", "/git-receive-pack"].into_iter().find_map(|service| {
        let repository = path.strip_suffix(service)?.strip_suffix(".git")?;
        (repository.split('/').count() >= 2).then_some((repository, service))
    })
}

async fn smart_http(forge: &Forge, path: &str, service_path: &str, request: Request) -> Response<Body> {
    let query = request.uri().query().unwrap_or("").to_owned();
    let is_push = service_path == "/git-receive-pack" || query.contains("service=git-receive-pack");
    let admitted = admit(&forge.state(), path, request.headers(), is_push);
    let (repository, login) = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.into_response(),
    };
    let (parts, body) = request.into_parts();
    let asked = SmartRequest { method: parts.method.as_str(), service_path, query: &query, headers: &parts.headers, login: &login };
    match git_backend::serve(&repository.git_dir, asked, body).await {
        Ok(response) => response,
        Err(error) => Answer { status: 500, headers: Vec::new(), body: error.to_string().into_bytes() }.into_response(),
    }
}

fn admit(state: &State, path: &str, headers: &HeaderMap, is_push: bool) -> Result<(Repository, String), Answer> {
    let say = |status: u16, words: &str| Answer { status, headers: Vec::new(), body: format!("{words}\n").into_bytes() };
    let log_in = |words: &str| say(401, words).with([("WWW-Authenticate".to_owned(), "Basic realm=\"demonstration forge\"".to_owned())]);
    let caller = match headers.get(header::AUTHORIZATION) {
        None => Caller::visitor(),
        Some(value) => {
            let token = value.to_str().ok().and_then(basic_password).and_then(|token| state.live_token(&token));
            Caller::with(token.ok_or_else(|| log_in("the token is wrong"))?.clone())
        }
    };
    let visible = |repository: &&Repository| caller.reaches(repository) && repository.permission(&caller.login) >= Permission::Read;
    let repository = state.repository(path).filter(visible);
    match repository {
        None if caller.is_visitor() => Err(log_in("log in with a token as the password")),
        None => Err(say(404, "there is no such repository, or it is hidden")),
        Some(_) if is_push && caller.is_visitor() => Err(log_in("log in with a token as the password to push")),
        Some(_) if !caller.covers_git(state.kind, is_push) => Err(say(403, "the token does not have the scope for this")),
        Some(repository) if is_push && repository.permission(&caller.login) < Permission::Write => Err(say(403, "you may not push here")),
        Some(repository) if is_push && repository.archived => Err(say(403, "the repository is archived")),
        Some(repository) => Ok((repository.clone(), caller.login)),
    }
}

fn basic_password(authorization: &str) -> Option<String> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
    let pair = String::from_utf8(decoded).ok()?;
    scheme.eq_ignore_ascii_case("basic").then(|| pair.split_once(':').map(|(_, password)| password.to_owned())).flatten()
}
