//! The one way in which a forge is asked over HTTP.
//!
//! What must hold: requests go below the configured base and nowhere else, no redirect is followed and no proxy of the environment used;
//! the token is in one sensitive header and in no error, log or debug text; answers are capped; whatever creates something is sent once; a
//! forge that names a time before which it wants no call gets none, whoever asks.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION};
use reqwest::{Certificate, Method, StatusCode, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::ForgeError;
use super::address::{below, check_base};
use super::answer::{Answer, Trouble, shorten};
use super::credentials::{Credentials, Fixed};
use super::etags::Etags;
use super::limits::{Limits, Writes};
use super::route::route;
use super::settings::{Pause, Settings};
use crate::domain::Clock;
use crate::telemetry::{metrics, traces};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);
const LARGEST_ANSWER: usize = 8 << 20;
const ATTEMPTS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Longer waits are the caller's: a job goes back to the queue meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const MOST_PAGES: usize = 50;

/// Whether a call may be sent again when it is not known how the first one ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// It changes nothing, or the same thing once more.
    Harmless,
    /// It creates something: only when no connection was made. The caller looks before it asks again.
    WouldCreateTwice,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call<'a> {
    what: String,
    method: Method,
    path: &'a [&'a str],
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
    repeat: Repeat,
}

impl<'a> Call<'a> {
    /// A call that may be repeated. `what` is for people (`issue 7 of owner/name`), `path` the segments below the base, not yet encoded.
    pub(super) fn new(what: String, method: Method, path: &'a [&'a str]) -> Self {
        Self { what: shorten(&what), method, path, query: vec![], body: None, repeat: Repeat::Harmless }
    }

    /// Sends this along.
    pub(super) fn with(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }

    /// With these parameters.
    pub(super) fn asking(self, query: Vec<(&'static str, String)>) -> Self {
        Self { query, ..self }
    }

    /// It creates something, and must not be sent twice.
    pub(super) fn creating(self, body: Value) -> Self {
        Self { body: Some(body), repeat: Repeat::WouldCreateTwice, ..self }
    }
}

/// How a forge cuts its lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paging {
    /// The name of the parameter.
    pub(super) size_name: &'static str,
    /// The most rows of a page.
    pub(super) size: usize,
    /// Whether a page with fewer rows is surely the last. Otherwise only an empty one is (the server may cut smaller than asked).
    pub(super) short_is_last: bool,
}

/// The rows of a list.
#[derive(Debug)]
pub(super) struct Rows<T> {
    pub(super) rows: Vec<T>,
    /// False when there are more than 50 pages.
    pub(super) complete: bool,
}

/// A client of one forge.
pub(super) struct Http {
    client: reqwest::Client,
    base: Url,
    header: HeaderName,
    before: String,
    credentials: Arc<dyn Credentials>,
    pause: Arc<dyn Pause>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    etags: Option<Etags>,
    writes: Option<Writes>,
    /// The name of the forge's entry in the configuration.
    name: String,
}

impl Http {
    /// A client with the token of the settings; `scheme` is the word before it in the `Authorization` header.
    ///
    /// # Errors
    /// A sentence when the address, the token or the certificates can't be used.
    pub(super) fn new(settings: &Settings, scheme: &str, more: &[(&'static str, &'static str)]) -> Result<Self, String> {
        Self::with_token_in(settings, AUTHORIZATION, &format!("{scheme} "), more)
    }

    /// The same for a forge that takes the token in a header of its own, behind these words.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn with_token_in(
        settings: &Settings,
        header: HeaderName,
        before: &str,
        more: &[(&'static str, &'static str)],
    ) -> Result<Self, String> {
        let name = &settings.name;
        let token = settings.token.expose_secret();
        if token.is_empty() {
            return Err(format!("forge `{name}`: its token is empty"));
        }
        if HeaderValue::from_str(token).is_err() {
            return Err(format!("forge `{name}`: its token has characters that no header may hold (a line end?)"));
        }
        let http = Self::with_credentials(settings, more, Arc::new(Fixed(settings.token.clone())))?;
        Ok(Self { header, before: before.to_owned(), ..http })
    }

    /// A client whose bearer tokens come from elsewhere.
    ///
    /// # Errors
    /// A sentence when the address or the certificates can't be used.
    pub(super) fn with_credentials(
        settings: &Settings,
        more: &[(&'static str, &'static str)],
        credentials: Arc<dyn Credentials>,
    ) -> Result<Self, String> {
        check_base(&settings.name, &settings.api_base)?;
        check_base(&settings.name, &settings.git_base)?;
        let client = client(settings, more)?;
        Ok(Self {
            client,
            base: settings.api_base.clone(),
            header: AUTHORIZATION,
            before: "Bearer ".to_owned(),
            credentials,
            pause: Arc::clone(&settings.pause),
            clock: Arc::clone(&settings.clock),
            limits: Limits::default(),
            etags: None,
            name: settings.name.clone(),
            writes: (!settings.write_spacing.is_zero()).then(|| Writes::apart(settings.write_spacing)),
        })
    }

    /// Keeps answers with their `ETag`, for forges that give one.
    pub(super) fn conditional(self) -> Self {
        Self { etags: Some(Etags::default()), ..self }
    }

    /// Sends what changes something one after the other, as GitHub asks.
    pub(super) fn one_write_at_a_time(self) -> Self {
        Self { writes: self.writes.or_else(|| Some(Writes::apart(Duration::ZERO))), ..self }
    }

    /// Reads something.
    pub(super) async fn get<T: DeserializeOwned>(&self, what: String, path: &[&str]) -> Result<T, ForgeError> {
        self.ask(&Call::new(what, Method::GET, path)).await
    }

    /// Sends a call and reads its answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, ForgeError> {
        read(&call.what, &self.send(call).await?)
    }

    /// All rows of a list, page after page.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        what: String,
        path: &[&str],
        query: &[(&'static str, String)],
        paging: Paging,
    ) -> Result<Rows<T>, ForgeError> {
        // Gitea and Forgejo write `null` for an empty page of some lists.
        let rows = |what: &str, answer: &Answer| Ok(read::<Option<_>>(what, answer)?.unwrap_or_default());
        self.pages(what, path, query, paging, rows).await
    }

    /// The same where `rows_of` finds the rows in each page.
    pub(super) async fn pages<T>(
        &self,
        what: String,
        path: &[&str],
        query: &[(&'static str, String)],
        paging: Paging,
        rows_of: impl Fn(&str, &Answer) -> Result<Vec<T>, ForgeError> + Send,
    ) -> Result<Rows<T>, ForgeError> {
        let mut call = Call::new(what, Method::GET, path);
        let mut rows = Vec::new();
        let mut previous = Vec::new();
        for page in 1..=MOST_PAGES {
            call.query = query.to_vec();
            call.query.extend([(paging.size_name, paging.size.to_string()), ("page", page.to_string())]);
            let answer = self.send(&call).await?;
            let more = rows_of(&call.what, &answer)?;
            let ignores_pages = answer.body == previous;
            if more.is_empty() || ignores_pages {
                return Ok(Rows { rows, complete: true });
            }
            let last = answer.is_last_page().unwrap_or(paging.short_is_last && more.len() < paging.size);
            rows.extend(more);
            if last {
                return Ok(Rows { rows, complete: true });
            }
            previous = answer.body;
        }
        tracing::warn!(what = call.what, pages = MOST_PAGES, "the list is longer than is read");
        Ok(Rows { rows, complete: false })
    }

    /// Sends a call until it succeeds, fails for good, or may not be sent again.
    pub(super) async fn send(&self, call: &Call<'_>) -> Result<Answer, ForgeError> {
        let what = &call.what;
        let mut url = below(&self.base, call.path).ok_or_else(|| ForgeError::NotFound { what: what.clone() })?;
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        let mut turn = match &self.writes {
            Some(writes) if call.method != Method::GET => Some(writes.turn().await),
            _ => None,
        };
        let (mut attempt, mut renewed) = (1, false);
        loop {
            self.respect_limits(what).await?;
            let distance = turn.as_ref().map_or(Duration::ZERO, |turn| turn.wait(self.clock.now_ms()));
            if !distance.is_zero() {
                self.pause.pause(distance).await;
            }
            let token = self.credentials.token(call.path).await?;
            let hidden = |error: ForgeError| without_token(error, &token);
            let answered = self.once(call, url.clone(), &token).await;
            if let Some(turn) = &mut turn {
                turn.took_place(self.clock.now_ms());
            }
            let (trouble, sent) = match answered {
                Ok(answer) if answer.status == StatusCode::UNAUTHORIZED && !renewed => {
                    renewed = true;
                    if self.credentials.refused(&token, answer.time_ms()).await {
                        continue;
                    }
                    (answer.trouble(what), true)
                }
                Ok(answer) => (answer.trouble(what), true),
                Err((trouble, sent)) => (Err(trouble), sent),
            };
            let (message, asked, limited) = match trouble {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Final(error)) => return Err(hidden(error)),
                Err(Trouble::Later { message, wait }) => (message, wait, false),
                Err(Trouble::Limited { message, wait }) => {
                    let wait = self.limits.hit(self.clock.now_ms(), wait);
                    (message, Some(wait), true)
                }
            };
            let wait = asked.unwrap_or_else(|| self.pause.spread(FIRST_WAIT * 2_u32.pow(attempt - 1)));
            let may_repeat = call.repeat == Repeat::Harmless || !sent;
            tracing::debug!(what, attempt, message = hide(&message, &token), "the forge does not answer as it should");
            if attempt == ATTEMPTS || !may_repeat || wait > LONGEST_WAIT {
                return Err(hidden(ForgeError::Unavailable { what: what.clone(), message, retry_after_ms: asked.map(millis) }));
            }
            if !limited {
                self.pause.pause(wait).await;
            }
            attempt += 1;
        }
    }

    /// Waits until the forge wants calls again; a long wait is the caller's.
    async fn respect_limits(&self, what: &str) -> Result<(), ForgeError> {
        let wait = self.limits.wait(self.clock.now_ms());
        if wait > LONGEST_WAIT {
            let message = "its limit on the number of calls is used up".to_owned();
            return Err(ForgeError::Unavailable { what: what.to_owned(), message, retry_after_ms: Some(millis(wait)) });
        }
        if !wait.is_zero() {
            self.pause.pause(wait).await;
        }
        Ok(())
    }

    /// Asks once, counts the answer and tells the trace; a failure says whether the request may have reached the forge.
    async fn once(&self, call: &Call<'_>, url: Url, token: &SecretString) -> Result<Answer, (Trouble, bool)> {
        let mut span = traces::call(format!("{} {}", call.method, route(call.path)));
        let answered = span.around(self.unseen(call, url, token)).await;
        let status = answered.as_ref().map_or(0, |answer| answer.status.as_u16());
        span.set("frognano.forge", traces::Value::name(&self.name));
        span.set("http.request.method", traces::Value::name(call.method.as_str()));
        span.set("http.response.status_code", u32::from(status));
        let class = match answered.as_ref().map(|answer| answer.status.as_u16() / 100) {
            Ok(2 | 3) => "2xx",
            Ok(4) => "4xx",
            Ok(5) => "5xx",
            _ => "none",
        };
        metrics::forge_call(&self.name, class);
        answered
    }

    async fn unseen(&self, call: &Call<'_>, url: Url, token: &SecretString) -> Result<Answer, (Trouble, bool)> {
        let broken = |error: reqwest::Error| {
            let sent = !error.is_connect();
            (Trouble::Later { message: shorten(&causes(&error.without_url())), wait: None }, sent)
        };
        let address = url.to_string();
        let etags = self.etags.as_ref().filter(|_| call.method == Method::GET);
        let mut request = self.client.request(call.method.clone(), url).header(self.header.clone(), self.authorization(call, token)?);
        if let Some(tag) = etags.and_then(|etags| etags.tag(&address)) {
            request = request.header(IF_NONE_MATCH, tag);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(broken)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                let message = format!("it is larger than {} MiB", LARGEST_ANSWER >> 20);
                return Err((Trouble::Final(ForgeError::Unreadable { what: call.what.clone(), message }), true));
            }
            body.extend_from_slice(&chunk);
        }
        let answer =
            if status.is_success() { Answer { status, headers, body } } else { repeats_no_token(Answer { status, headers, body }, token) };
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            self.limits.answered(self.clock.now_ms(), answer.spent_for());
        }
        Ok(match etags {
            Some(etags) => etags.settle(&address, answer),
            None => answer,
        })
    }

    fn authorization(&self, call: &Call<'_>, token: &SecretString) -> Result<HeaderValue, (Trouble, bool)> {
        let mut value = HeaderValue::from_str(&format!("{}{}", self.before, token.expose_secret())).map_err(|_| {
            let message = "the token has characters that no header may hold".to_owned();
            (Trouble::Final(ForgeError::Denied { what: call.what.clone(), message }), false)
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

fn hide(text: &str, token: &SecretString) -> String {
    text.replace(token.expose_secret(), "[token]")
}

/// A complaint, should the forge have repeated our token in it: taken out before anything is shortened, for a part of a token is no less secret.
fn repeats_no_token(mut answer: Answer, token: &SecretString) -> Answer {
    answer.body = hide(&String::from_utf8_lossy(&answer.body), token).into_bytes();
    if let Some(place) = answer.headers.get(LOCATION).map(|place| hide(&String::from_utf8_lossy(place.as_bytes()), token))
        && let Ok(place) = HeaderValue::from_str(&place)
    {
        answer.headers.insert(LOCATION, place);
    }
    answer
}

/// What sends requests: with these headers, to the machine that the settings trust, without a proxy, and never on to another place.
///
/// # Errors
/// A sentence when the certificates can't be used.
pub(super) fn client(settings: &Settings, more: &[(&'static str, &'static str)]) -> Result<reqwest::Client, String> {
    let name = &settings.name;
    let headers: HeaderMap = more.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();

    // Another part of the service may have chosen the same provider before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("frognano-bot/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT);
    if let Some(bundle) = &settings.ca_bundle {
        let certificates = Certificate::from_pem_bundle(bundle).unwrap_or_default();
        if certificates.is_empty() {
            return Err(format!("forge `{name}`: its CA bundle holds no certificate in PEM form"));
        }
        builder = builder.tls_certs_only(certificates);
    }
    builder.build().map_err(|error| format!("forge `{name}`: no HTTP client can be made: {}", causes(&error)))
}

/// The same error, should our token stand in it by another way.
fn without_token(mut error: ForgeError, token: &SecretString) -> ForgeError {
    match &mut error {
        ForgeError::NotFound { what } => *what = hide(what, token),
        ForgeError::Denied { message, .. }
        | ForgeError::Rejected { message, .. }
        | ForgeError::Unavailable { message, .. }
        | ForgeError::Unreadable { message, .. } => *message = hide(message, token),
    }
    error
}

/// The answer as the wanted type. The complaint names a missing field, but repeats no value: it may be anybody's text.
pub(super) fn read<T: DeserializeOwned>(what: &str, answer: &Answer) -> Result<T, ForgeError> {
    serde_json::from_slice(&answer.body).map_err(|error| {
        let text = error.to_string();
        let message = match (text.starts_with("missing field"), error.is_data()) {
            (true, _) => text,
            (_, true) => format!("a field has another type than expected, line {} column {}", error.line(), error.column()),
            _ => "it is not JSON: is the address that of the forge's API?".to_owned(),
        };
        ForgeError::Unreadable { what: what.to_owned(), message }
    })
}

fn causes(error: &reqwest::Error) -> String {
    let first: Option<&(dyn Error + 'static)> = error.source();
    std::iter::successors(first, |&cause| cause.source()).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
