//! What browsers keep for us.
//!
//! What must hold: no script reads it, no other site's form sends it, no other host of the same domain can set it (`__Host-`), and it crosses the
//! network only under TLS. Only where the service is on the machine itself, without TLS, has it another name, for browsers would not take it.

use axum::http::{HeaderMap, HeaderValue, header};
use cookie::{Cookie, SameSite};
use url::Url;

/// A kind of cookie.
pub(super) struct Kind {
    name: &'static str,
    plain_name: &'static str,
}

/// Who is signed in.
pub(super) const SESSION: Kind = Kind { name: "__Host-frognano", plain_name: "frognano" };

/// A sign-in that has begun.
pub(super) const TICKET: Kind = Kind { name: "__Host-frognano-sign-in", plain_name: "frognano-sign-in" };

impl Kind {
    const fn of(&self, is_secure: bool) -> &'static str {
        if is_secure { self.name } else { self.plain_name }
    }

    /// The value that a browser sends; none where it is there twice, for one of the two is somebody else's.
    pub(super) fn read(&self, headers: &HeaderMap, public: &Url) -> Option<String> {
        let name = self.of(is_secure(public));
        let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut values = sent.flat_map(Cookie::split_parse).flatten().filter(|cookie| cookie.name() == name);
        match (values.next(), values.next()) {
            (Some(cookie), None) if !cookie.value().is_empty() => Some(cookie.value().to_owned()),
            _ => None,
        }
    }

    /// What tells a browser to keep a value for so many seconds; 0: to forget it.
    pub(super) fn keep(&self, value: &str, seconds: i64, public: &Url) -> Option<HeaderValue> {
        let cookie = Cookie::build((self.of(is_secure(public)), value))
            .path("/")
            .http_only(true)
            .secure(is_secure(public))
            .same_site(SameSite::Lax)
            .max_age(cookie::time::Duration::seconds(seconds));
        HeaderValue::from_str(&cookie.build().to_string()).ok()
    }
}

fn is_secure(public: &Url) -> bool {
    public.scheme() == "https"
}

#[cfg(test)]
mod tests {
    use super::SESSION;
    use axum::http::{HeaderMap, HeaderValue};

    fn sent(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (axum::http::header::COOKIE, HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn a_cookie_is_ours_when_it_is_there_once_and_under_the_name_that_no_other_host_can_set() {
        let (tls, plain) = ("https://bot.example/x".parse().unwrap(), "http://127.0.0.1:8087".parse().unwrap());
        assert_eq!(SESSION.read(&sent(&["a=1; __Host-frognano=s; b=2"]), &tls).as_deref(), Some("s"));
        assert_eq!(SESSION.read(&sent(&["frognano=s"]), &plain).as_deref(), Some("s"));
        for not_ours in [
            &["frognano=s"][..],
            &["__Host-frognano="],
            &["__Host-frognano=a; __Host-frognano=b"],
            &["__Host-frognano=a", "__Host-frognano=a"],
            &[],
        ] {
            assert_eq!(SESSION.read(&sent(not_ours), &tls), None, "{not_ours:?}");
        }
        let kept = SESSION.keep("s", 60, &tls).unwrap();
        let kept = kept.to_str().unwrap();
        for words in ["__Host-frognano=s", "HttpOnly", "Secure", "SameSite=Lax", "Path=/", "Max-Age=60"] {
            assert!(kept.contains(words), "{kept}");
        }
        assert!(!kept.contains("Domain"), "{kept}");
    }
}
