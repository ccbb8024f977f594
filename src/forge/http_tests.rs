//! Tests of the one way in which a forge is asked.

use reqwest::Method;
use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;

use super::{Call, Http, LARGEST_ANSWER, MOST_PAGES, Paging, Settings};
use crate::forge::ForgeError;
use crate::forge::canned::{Canned, Reply, TOKEN, answer};

const PAGES: Paging = Paging { size_name: "limit", size: 2, short_is_last: false };
const FULL_PAGES: Paging = Paging { short_is_last: true, ..PAGES };

fn http(canned: &Canned) -> Http {
    Http::new(&canned.settings, "token", &[("accept", "application/json")]).unwrap()
}

async fn read(canned: &Canned) -> Result<Value, ForgeError> {
    http(canned).get("thing".to_owned(), &["thing"]).await
}

async fn create(canned: &Canned) -> Result<Value, ForgeError> {
    http(canned).ask(&Call::new("thing".to_owned(), Method::POST, &["things"]).creating(json!({"a": 1}))).await
}

#[tokio::test]
async fn requests_carry_what_the_forges_demand() {
    let canned = Canned::new(vec![answer(200, "{}")]).await;
    let call = Call::new("thing".to_owned(), Method::PATCH, &["repos", "o", "a b/../c?d"]).with(json!({"x": "ü"}));
    http(&canned).send(&call).await.unwrap();
    let seen = &canned.seen()[0];
    assert_eq!(seen.line, "PATCH /api/repos/o/a%20b%2F..%2Fc%3Fd");
    assert_eq!(seen.header("authorization"), Some(&*format!("token {TOKEN}")));
    assert_eq!(seen.header("user-agent"), Some(concat!("frognano-bot/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(seen.header("accept"), Some("application/json"));
    assert_eq!(seen.body, r#"{"x":"ü"}"#);
}

#[tokio::test]
async fn reading_is_tried_again_while_the_forge_is_ill() {
    let late = Reply::Answer(429, vec![("retry-after", "7".to_owned())], vec![]);
    let canned = Canned::new(vec![answer(502, "<html>"), Reply::HangUp, late, answer(200, "[1]")]).await;
    assert_eq!(read(&canned).await.unwrap(), json!([1]));
    assert_eq!(canned.pauses(), [1, 2, 7]);
}

#[tokio::test]
async fn after_four_tries_it_is_unavailable() {
    let canned = Canned::new((0..5).map(|_| answer(500, "{\"message\": \"boom\"}")).collect()).await;
    let error = read(&canned).await.unwrap_err();
    assert!(matches!(error, ForgeError::Unavailable { retry_after_ms: None, .. }), "{error:?}");
    assert!(error.to_string().contains("status 500: boom"));
    assert_eq!((canned.lines().len(), canned.pauses()), (4, vec![1, 2, 4]));
}

#[tokio::test]
async fn a_long_wait_is_left_to_the_caller() {
    let canned = Canned::new(vec![Reply::Answer(403, vec![("retry-after", "3600".to_owned())], vec![])]).await;
    let error = read(&canned).await.unwrap_err();
    assert!(matches!(error, ForgeError::Unavailable { retry_after_ms: Some(3_600_000), .. }), "{error:?}");
    assert!(canned.pauses().is_empty());
}

#[tokio::test]
async fn what_creates_is_sent_once_unless_no_connection_was_made() {
    for reply in [answer(503, ""), answer(429, ""), Reply::HangUp] {
        let canned = Canned::new(vec![reply, answer(201, "{}")]).await;
        assert!(matches!(create(&canned).await.unwrap_err(), ForgeError::Unavailable { .. }));
        assert_eq!((canned.lines().len(), canned.pauses()), (1, vec![]));
    }
    let mut nowhere = Canned::new(vec![]).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    nowhere.settings.api_base = Url::parse(&format!("http://{closed}/")).unwrap();
    assert!(matches!(create(&nowhere).await.unwrap_err(), ForgeError::Unavailable { .. }));
    assert_eq!(nowhere.pauses(), [1, 2, 4]);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Canned::new(vec![answer(200, "{}")]).await;
    let place = elsewhere.settings.api_base.to_string();
    for status in [301, 302, 307, 308] {
        let canned = Canned::new(vec![Reply::Answer(status, vec![("location", place.clone())], vec![])]).await;
        let error = read(&canned).await.unwrap_err();
        assert!(matches!(&error, ForgeError::NotFound { what } if what.contains(&place)), "{error:?}");
    }
    assert!(elsewhere.lines().is_empty());
}

#[tokio::test]
async fn an_answer_has_an_end() {
    let canned = Canned::new(vec![Reply::Answer(200, vec![], vec![b' '; LARGEST_ANSWER + 1])]).await;
    assert!(matches!(read(&canned).await.unwrap_err(), ForgeError::Unreadable { message, .. } if message.contains("8 MiB")));
    let mut largest = vec![b' '; LARGEST_ANSWER];
    largest[0] = b'1';
    let canned = Canned::new(vec![Reply::Answer(200, vec![], largest)]).await;
    assert_eq!(read(&canned).await.unwrap(), json!(1));
}

#[tokio::test]
async fn answers_that_are_something_else_are_named_without_their_text() {
    let canned = Canned::new(vec![answer(200, "<html>private words</html>")]).await;
    let error = read(&canned).await.unwrap_err().to_string();
    assert!(error.contains("not JSON") && !error.contains("private"), "{error}");
    let canned = Canned::new(vec![answer(200, "\"private words\"")]).await;
    let error = http(&canned).get::<u32>("thing".to_owned(), &["thing"]).await.unwrap_err().to_string();
    assert!(error.contains("another type") && !error.contains("private"), "{error}");
}

#[tokio::test]
async fn the_token_is_never_shown() {
    let echo = format!("{{\"message\": \"bad credentials {TOKEN}\"}}");
    let place = format!("https://x/?t={TOKEN}");
    let moved = Reply::Answer(301, vec![("location", place)], vec![]);
    for reply in [answer(401, &echo), answer(422, &echo), moved] {
        let canned = Canned::new(vec![reply]).await;
        let error = read(&canned).await.unwrap_err();
        let shown = format!("{error} {error:?} {:?}", canned.settings);
        assert!(shown.contains("[token]") && !shown.contains(TOKEN), "{shown}");
    }
}

/// A token may be longer than all that is shown of an answer, and a shortened answer may end within it.
#[tokio::test]
async fn no_part_of_a_token_is_shown_however_long_it_is_and_wherever_an_answer_is_cut() {
    let long = format!("ghs_7_{}", "a1B2".repeat(130));
    for before in [0, 10, 150, 190, 196, 199] {
        let words = "w".repeat(before);
        let echo = format!("{{\"message\": \"{words}{long}\"}}");
        let moved = Reply::Answer(301, vec![("location", format!("https://x/{words}{long}"))], vec![]);
        for reply in [answer(401, &echo), answer(422, &echo), answer(403, &format!("{words}{long}")), moved] {
            let mut canned = Canned::new(vec![reply]).await;
            canned.settings.token = long.clone().into();
            let error = read(&canned).await.unwrap_err();
            assert!(!format!("{error} {error:?}").contains("ghs_"), "{before}: {error}");
        }
    }
}

#[tokio::test]
async fn lists_are_read_page_by_page_to_their_end() {
    let canned = Canned::new(vec![answer(200, "[1,2]"), answer(200, "[3]"), answer(200, "[]")]).await;
    let rows = http(&canned).list::<u32>("list".to_owned(), &["list"], &[("state", "open".to_owned())], PAGES).await.unwrap();
    assert_eq!((rows.rows, rows.complete), (vec![1, 2, 3], true));
    assert_eq!(canned.lines()[1], "GET /api/list?state=open&limit=2&page=2");

    let canned = Canned::new(vec![answer(200, "[1,2]"), answer(200, "[3]")]).await;
    let rows = http(&canned).list::<u32>("list".to_owned(), &["list"], &[], FULL_PAGES).await.unwrap();
    assert_eq!((rows.rows, rows.complete), (vec![1, 2, 3], true));
}

#[tokio::test]
async fn a_list_without_pages_and_one_without_end_both_end() {
    let canned = Canned::new(vec![answer(200, "[1,2]"), answer(200, "[1,2]")]).await;
    let rows = http(&canned).list::<u32>("list".to_owned(), &["list"], &[], PAGES).await.unwrap();
    assert_eq!((rows.rows, rows.complete), (vec![1, 2], true));

    let endless = (0..=MOST_PAGES).map(|page| answer(200, &format!("[{page},{page}]"))).collect();
    let canned = Canned::new(endless).await;
    let rows = http(&canned).list::<u32>("list".to_owned(), &["list"], &[], FULL_PAGES).await.unwrap();
    assert_eq!((rows.rows.len(), rows.complete, canned.lines().len()), (2 * MOST_PAGES, false, MOST_PAGES));
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let good = Canned::new(vec![]).await.settings;
    let refused = |settings: Settings| Http::new(&settings, "token", &[]).err().unwrap();
    for token in ["", "a\nb"] {
        assert!(refused(Settings { token: SecretString::from(token), ..good.clone() }).contains("token"));
    }
    assert!(refused(Settings { ca_bundle: Some(b"no certificate".to_vec()), ..good.clone() }).contains("CA bundle"));
    assert!(refused(Settings { git_base: Url::parse("https://user@host/").unwrap(), ..good }).contains("address"));
}

/// A TLS server on loopback with a certificate for `localhost` that only `authority.pem` vouches for; it answers one request.
fn private_tls() -> u16 {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};

    let certificate = CertificateDer::from_pem_slice(include_bytes!("../../tests/fixtures/tls/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../tests/fixtures/tls/server.key.pem")).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let versions = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = std::sync::Arc::new(versions.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(4) {
            let connection = rustls::ServerConnection::new(std::sync::Arc::clone(&config)).unwrap();
            let mut stream = BufReader::new(rustls::StreamOwned::new(connection, stream.unwrap()));
            let head = stream.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            if head > 0 {
                stream.get_mut().write_all(b"HTTP/1.1 200 X\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            }
        }
    });
    port
}

#[tokio::test]
async fn a_private_authority_is_trusted_only_where_it_is_configured() {
    let mut canned = Canned::new(vec![]).await;
    let mut ask = async |bundle: Option<&[u8]>| {
        canned.settings.api_base = Url::parse(&format!("https://localhost:{}/", private_tls())).unwrap();
        canned.settings.ca_bundle = bundle.map(<[u8]>::to_vec);
        read(&canned).await
    };
    assert_eq!(ask(Some(include_bytes!("../../tests/fixtures/tls/authority.pem"))).await.unwrap(), json!({}));
    let error = ask(None).await.unwrap_err();
    assert!(matches!(&error, ForgeError::Unavailable { message, .. } if message.contains("certificate")), "{error:?}");
}

#[tokio::test]
async fn who_asks_after_a_limit_waits_as_well_and_does_not_ask() {
    let late = |seconds: &str| Reply::Answer(429, vec![("retry-after", seconds.to_owned())], vec![]);
    let canned = Canned::new(vec![late("3600"), answer(200, "{}")]).await;
    let http = http(&canned);
    for _ in 0..2 {
        let error = http.get::<Value>("thing".to_owned(), &["thing"]).await.unwrap_err();
        assert!(matches!(error, ForgeError::Unavailable { retry_after_ms: Some(3_600_000), .. }), "{error:?}");
    }
    assert_eq!((canned.lines().len(), canned.pauses()), (1, vec![]));
}

#[tokio::test]
async fn the_last_call_of_an_allowance_is_answered_and_the_next_one_waits_for_its_end() {
    let date = httpdate(0);
    let headers = vec![("date", date), ("x-ratelimit-remaining", "0".to_owned()), ("x-ratelimit-reset", "20".to_owned())];
    let canned = Canned::new(vec![Reply::Answer(200, headers, b"{}".to_vec()), answer(200, "{}")]).await;
    let http = http(&canned);
    for _ in 0..2 {
        http.get::<Value>("thing".to_owned(), &["thing"]).await.unwrap();
    }
    assert_eq!((canned.lines().len(), canned.pauses()), (2, vec![20]));
}

fn httpdate(seconds: i64) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp(seconds).unwrap();
    time.format(&time::format_description::well_known::Rfc2822).unwrap()
}

#[tokio::test]
async fn an_answer_that_still_holds_is_not_sent_again() {
    let tagged = Reply::Answer(200, vec![("etag", "W/\"1\"".to_owned())], b"[1]".to_vec());
    let canned = Canned::new(vec![tagged, answer(304, ""), answer(200, "[2]")]).await;
    let http = http(&canned).conditional();
    for expected in [json!([1]), json!([1]), json!([2])] {
        assert_eq!(http.get::<Value>("thing".to_owned(), &["thing"]).await.unwrap(), expected);
    }
    let sent = canned.seen().iter().map(|seen| seen.header("if-none-match").map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(sent, [None, Some("W/\"1\"".to_owned()), Some("W/\"1\"".to_owned())]);
}

#[tokio::test]
async fn what_changes_something_is_sent_one_after_the_other_where_the_forge_asks_for_it() {
    for (one_at_a_time, at_once) in [(false, 2), (true, 1)] {
        let (settings, most) = counting().await;
        let http = Http::new(&settings, "token", &[]).unwrap();
        let http = if one_at_a_time { http.one_write_at_a_time() } else { http };
        let write = || async { http.send(&Call::new("thing".to_owned(), Method::PATCH, &["thing"]).with(json!({}))).await.map(drop) };
        let (first, second) = tokio::join!(write(), write());
        assert_eq!((first.is_ok(), second.is_ok()), (true, true));
        assert_eq!(most.load(std::sync::atomic::Ordering::Relaxed), at_once);
    }
}

#[tokio::test]
async fn what_changes_something_keeps_its_distance_and_reading_does_not() {
    let mut canned = Canned::new((0..4).map(|_| answer(200, "{}")).collect()).await;
    canned.settings.write_spacing = std::time::Duration::from_secs(1);
    let http = http(&canned);
    for (method, pauses) in [(Method::POST, 0), (Method::GET, 0), (Method::PATCH, 1), (Method::DELETE, 2)] {
        http.send(&Call::new("thing".to_owned(), method.clone(), &["thing"])).await.unwrap();
        assert_eq!(canned.pauses(), vec![1; pauses], "{method}");
    }
}

/// A server that answers a request once another one has come as well, or none has for a while; it counts how many there were at once.
async fn counting() -> (Settings, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = Canned::new(vec![]).await.settings;
    settings.api_base = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let (most, now, second) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let counted = Arc::clone(&most);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (most, now, second) = (Arc::clone(&counted), Arc::clone(&now), Arc::clone(&second));
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let here = now.fetch_add(1, Ordering::Relaxed) + 1;
                most.fetch_max(here, Ordering::Relaxed);
                if here == 2 {
                    second.notify_one();
                } else {
                    let _ = tokio::time::timeout(Duration::from_millis(200), second.notified()).await;
                }
                now.fetch_sub(1, Ordering::Relaxed);
                let _ = stream.write_all(b"HTTP/1.1 200 X\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}").await;
            });
        }
    });
    (settings, most)
}
