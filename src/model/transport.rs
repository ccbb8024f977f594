//! How a request reaches the server: over HTTP, or into a script inside the process. Everything above is the same code for both.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Certificate, Url};
use secrecy::{ExposeSecret as _, SecretString};

use super::script::Scripted;

/// No answer of a model is larger, in bytes.
const ANSWER_LIMIT: usize = 32 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IS_UP_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Where the model is.
#[derive(Debug)]
pub enum Endpoint {
    /// An OpenAI-compatible server.
    Http {
        /// Its address, with or without `/v1` and a slash at the end.
        base_url: String,
        /// Sent as a bearer token.
        api_key: Option<SecretString>,
        /// A file of certificates in PEM form, trusted besides those of the machine.
        ca_bundle: Option<PathBuf>,
    },
    /// A script inside this process.
    Script(Scripted),
}

/// Why no client can be made from an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// The address can't be used.
    #[error("the model's address is not usable: {0}; write it like http://127.0.0.1:30000/v1")]
    Address(String),
    /// The key can't be sent.
    #[error("the model's API key holds characters that no HTTP header may have; check the file or variable it comes from")]
    Key,
    /// The certificates can't be read.
    #[error("the certificates in {path} can't be read: {why}")]
    Certificates {
        /// The file.
        path: String,
        /// What was wrong.
        why: String,
    },
    /// The HTTP client can't be made.
    #[error("the HTTP client for the model can't be set up: {0}")]
    Client(String),
}

/// An answer, whatever its status.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub status: u16,
    pub retry_after: Option<String>,
    pub content_type: String,
    pub location: Option<String>,
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The connection could not be made or broke.
    Broken(String),
    /// The answer is above [`ANSWER_LIMIT`].
    TooLarge,
}

#[derive(Debug)]
pub(super) enum Transport {
    Http { client: reqwest::Client, completions: Url, models: Url },
    Script(Scripted),
}

impl Transport {
    /// Each request has a connection of its own: between two turns the tools may run for minutes, and a server closes what is idle.
    pub fn new(endpoint: Endpoint, request_timeout: Duration) -> Result<Self, SetUpError> {
        let (base_url, api_key, ca_bundle) = match endpoint {
            Endpoint::Script(scripted) => return Ok(Self::Script(scripted)),
            Endpoint::Http { base_url, api_key, ca_bundle } => (base_url, api_key, ca_bundle),
        };
        install_ring_once();
        let base = base_of(&base_url)?;
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(KEEPALIVE)
            .pool_max_idle_per_host(0)
            .timeout(request_timeout)
            .user_agent(concat!("frognano-bot/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(api_key.as_ref())?);
        if base.starts_with("http:") {
            builder = builder.tls_certs_only([]);
        } else if let Some(path) = ca_bundle {
            builder = builder.tls_certs_merge(certificates(&path)?);
        }
        let client = builder.build().map_err(|error| SetUpError::Client(causes(&error)))?;
        let url = |end: &str| Url::parse(&format!("{base}{end}")).map_err(|error| SetUpError::Address(error.to_string()));
        Ok(Self::Http { client, completions: url("/chat/completions")?, models: url("/models")? })
    }

    /// The address for people, without what may be secret in it.
    pub fn shown(&self) -> String {
        match self {
            Self::Http { completions, .. } => shown(completions),
            Self::Script(_) => "the script".to_owned(),
        }
    }

    pub async fn post(&self, body: Bytes) -> Result<Answer, NoAnswer> {
        match self {
            Self::Http { client, completions, .. } => {
                let sent = client.post(completions.clone()).header(CONTENT_TYPE, "application/json").body(body).send().await;
                received(sent.map_err(broken)?).await
            }
            Self::Script(scripted) => {
                let request = serde_json::from_slice(&body).map_err(|error| NoAnswer::Broken(error.to_string()))?;
                let reply = scripted.reply(&request);
                Ok(Answer {
                    status: reply.status,
                    retry_after: reply.retry_after,
                    content_type: "application/json".to_owned(),
                    location: None,
                    body: reply.body.to_string().into_bytes(),
                })
            }
        }
    }

    /// Whether something answers at the address that is neither failing nor starting.
    pub async fn is_up(&self) -> bool {
        match self {
            Self::Http { client, models, .. } => {
                let asked = client.get(models.clone()).timeout(IS_UP_TIMEOUT).send().await;
                asked.is_ok_and(|response| !response.status().is_server_error() && response.status().as_u16() != 429)
            }
            Self::Script(_) => true,
        }
    }
}

/// reqwest is built without a default TLS provider; the process gets ring, unless it has one.
fn install_ring_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a TLS provider was installed before");
        }
    });
}

/// The address up to and with `/v1`.
fn base_of(base_url: &str) -> Result<String, SetUpError> {
    let trimmed = base_url.trim().trim_end_matches('/').trim_end_matches("/chat/completions").trim_end_matches('/');
    let parsed = Url::parse(trimmed).map_err(|error| SetUpError::Address(error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(SetUpError::Address(format!("`{}` is no scheme for it", parsed.scheme())));
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(SetUpError::Address("it has a query or a fragment".to_owned()));
    }
    let base = parsed.as_str().trim_end_matches('/');
    Ok(if base.ends_with("/v1") { base.to_owned() } else { format!("{base}/v1") })
}

fn headers(api_key: Option<&SecretString>) -> Result<HeaderMap, SetUpError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = api_key {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret().trim())).map_err(|_| SetUpError::Key)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

fn certificates(path: &std::path::Path) -> Result<Vec<Certificate>, SetUpError> {
    let unreadable = |why: String| SetUpError::Certificates { path: path.display().to_string(), why };
    let pem = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| unreadable(causes(&error)))?;
    if certificates.is_empty() { Err(unreadable("there is none in it".to_owned())) } else { Ok(certificates) }
}

async fn received(mut response: reqwest::Response) -> Result<Answer, NoAnswer> {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut answer = Answer {
        status: response.status().as_u16(),
        retry_after: header(RETRY_AFTER),
        content_type: header(CONTENT_TYPE).unwrap_or_default(),
        location: header(LOCATION),
        body: Vec::new(),
    };
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if answer.body.len() + chunk.len() > ANSWER_LIMIT {
            return Err(NoAnswer::TooLarge);
        }
        answer.body.extend_from_slice(&chunk);
    }
    Ok(answer)
}

fn broken(error: reqwest::Error) -> NoAnswer {
    NoAnswer::Broken(causes(&error.without_url()))
}

/// An error with all its causes on one line.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Scheme, host, port and path: no user, password or query.
pub(super) fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Endpoint, SetUpError, Transport, base_of};

    fn http(base_url: &str, key: Option<&str>, ca_bundle: Option<&str>) -> Result<Transport, SetUpError> {
        let endpoint = Endpoint::Http { base_url: base_url.into(), api_key: key.map(Into::into), ca_bundle: ca_bundle.map(Into::into) };
        Transport::new(endpoint, Duration::from_secs(1))
    }

    #[test]
    fn addresses_may_end_as_people_write_them() {
        for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", " http://h:1/v1/chat/completions "] {
            assert_eq!(base_of(base).unwrap(), "http://h:1/v1", "{base}");
        }
        assert_eq!(base_of("https://h/models/frog/").unwrap(), "https://h/models/frog/v1");
        for base in ["", "h:1/v1", "ftp://h/v1", "http://h/v1?key=x", "http://"] {
            assert!(base_of(base).is_err(), "{base}");
        }
    }

    #[test]
    fn no_secret_of_an_address_is_shown() {
        let transport = http("http://user:geheim@127.0.0.1:1/v1", None, None).unwrap();
        assert_eq!(transport.shown(), "http://127.0.0.1:1/v1/chat/completions");
    }

    #[test]
    fn an_unusable_key_or_bundle_is_said_before_any_request_and_the_key_is_not_shown() {
        let key = http("http://h/v1", Some("ge\nheim"), None).unwrap_err();
        assert!(matches!(key, SetUpError::Key) && !key.to_string().contains("heim"));
        let missing = http("https://h/v1", None, Some("/no/such/bundle.pem")).unwrap_err().to_string();
        assert!(missing.contains("/no/such/bundle.pem") && missing.contains("No such file"), "{missing}");
    }
}
