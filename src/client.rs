//! The other side of the API: how the command line asks a running service.
//!
//! What must hold: the key goes to the given address and nowhere else, and over `http://` only to this machine; what the service says is not
//! trusted to be small, nor to be text that a terminal may be shown as it is.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

const CONNECT: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_secs(60);
const LARGEST: usize = 64 << 20;

/// Why the service did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It can't be used like this: the address or the key is wrong.
    #[error("{0}")]
    Usage(String),
    /// It did not answer, or not as it should.
    #[error("{0}")]
    Failed(String),
    /// It knows of no such thing, or does not show it.
    #[error("{0}")]
    NotFound(String),
    /// It says no: to who asks, or because things are not so.
    #[error("{0}")]
    Refused(String),
}

/// A service that is asked over HTTP.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<SecretString>,
}

impl Client {
    /// Of the service at this address; `authority` is the PEM of the certificates that alone are trusted.
    ///
    /// # Errors
    /// [`ClientError::Usage`] when the address or the certificates can't be used.
    pub fn new(base: Url, key: Option<SecretString>, authority: Option<&[u8]>) -> Result<Self, ClientError> {
        let usage = |why: &str| ClientError::Usage(format!("{base}: {why}"));
        if !matches!(base.scheme(), "http" | "https")
            || base.host_str().is_none()
            || !base.username().is_empty()
            || base.password().is_some()
        {
            return Err(usage("is no http(s) address without a credential in it"));
        }
        if key.is_some() && base.scheme() == "http" && !is_here(&base) {
            return Err(usage("the key would cross the network in the clear; use https://"));
        }
        // Another part of the program may have chosen the same provider before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("frognano-bot/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(WHOLE);
        if let Some(authority) = authority {
            let certificates = reqwest::Certificate::from_pem_bundle(authority).unwrap_or_default();
            if certificates.is_empty() {
                return Err(usage("the file of certificates holds none in PEM form"));
            }
            builder = builder.tls_certs_only(certificates);
        }
        let http = builder.build().map_err(|error| usage(&error.to_string()))?;
        Ok(Self { http, base, key })
    }

    /// Looks at something; `path` are the parts of the address below `/api/v1`, not yet encoded.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Value, ClientError> {
        let mut url = self.address(path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.answer(self.http.get(url)).await
    }

    /// Does something.
    ///
    /// # Errors
    /// Why it was not done.
    pub async fn post(&self, path: &[&str]) -> Result<Value, ClientError> {
        self.answer(self.http.post(self.address(path)?).header("x-frognano-request", "1")).await
    }

    fn address(&self, path: &[&str]) -> Result<Url, ClientError> {
        let mut url = self.base.clone();
        if path.iter().any(|part| matches!(*part, "" | "." | "..")) {
            return Err(ClientError::NotFound("there is no such run".to_owned()));
        }
        match url.path_segments_mut() {
            Ok(mut parts) => drop(parts.pop_if_empty().extend(["api", "v1"]).extend(path)),
            Err(()) => return Err(ClientError::Usage(format!("{}: nothing can be put behind it", self.base))),
        }
        Ok(url)
    }

    async fn answer(&self, ask: reqwest::RequestBuilder) -> Result<Value, ClientError> {
        let failed = |why: String| ClientError::Failed(format!("{}: {why}", self.base));
        let ask = match &self.key {
            Some(key) => ask.bearer_auth(key.expose_secret()),
            None => ask,
        };
        let mut got = ask.send().await.map_err(|error| failed(format!("the service can't be reached: {}", causes(&error))))?;
        let status = got.status();
        let mut body = Vec::new();
        while let Some(part) = got.chunk().await.map_err(|error| failed(causes(&error)))? {
            if body.len() + part.len() > LARGEST {
                return Err(failed("its answer is too large".to_owned()));
            }
            body.extend_from_slice(&part);
        }
        let value = serde_json::from_slice::<Value>(&body);
        if status.is_success() {
            return value.map_err(|_| failed("it is not the API of frognano-bot".to_owned()));
        }
        let words = value.ok().and_then(|value| Some(value.get("message")?.as_str()?.to_owned()));
        let words = words.unwrap_or_else(|| format!("it answers {}: is it the address of frognano-bot?", status.as_u16()));
        Err(match status.as_u16() {
            400 => ClientError::Usage(words),
            404 => ClientError::NotFound(words),
            401 | 403 | 409 => ClientError::Refused(words),
            _ => failed(words),
        })
    }
}

fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn causes(error: &reqwest::Error) -> String {
    let first: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    let last = std::iter::successors(first, |&cause| cause.source()).last();
    last.map_or_else(|| "no answer".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::{Client, ClientError};

    #[test]
    fn a_key_does_not_cross_the_network_in_the_clear() {
        let client = |url: &str| Client::new(url.parse().unwrap(), Some("k".into()), None);
        for good in ["https://bot.example", "https://bot.example/below/", "http://127.0.0.1:8087", "http://localhost", "http://[::1]:1"] {
            assert!(client(good).is_ok(), "{good}");
        }
        for bad in ["http://bot.example", "http://10.0.0.1", "ftp://127.0.0.1", "https://u:p@bot.example"] {
            assert!(matches!(client(bad), Err(ClientError::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn a_name_stays_below_the_api() {
        let client = Client::new("https://bot.example/below".parse().unwrap(), None, None).unwrap();
        assert_eq!(client.address(&["runs", "a/../b?c#d"]).unwrap().as_str(), "https://bot.example/below/api/v1/runs/a%2F..%2Fb%3Fc%23d");
        for bad in ["", ".", ".."] {
            assert!(client.address(&["runs", bad]).is_err(), "{bad:?}");
        }
    }
}
