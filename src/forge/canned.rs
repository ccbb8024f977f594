//! A server for the tests of this room: gives prepared answers in order, and remembers what was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::settings::{Pause, Settings};
use crate::domain::{Clock, RepoRef};

/// The token that must not be seen anywhere but in its header.
pub(super) const TOKEN: &str = "token-of-the-tests";

/// What the server does with one request.
pub(super) enum Reply {
    /// Status, headers, body.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Reads the request and breaks the connection.
    HangUp,
}

/// An answer with this status and body.
pub(super) fn answer(status: u16, body: &str) -> Reply {
    Reply::Answer(status, vec![], body.as_bytes().to_vec())
}

/// One request as it came.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// `GET /path?query`.
    pub(super) line: String,
    /// Headers with lower-case names.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The server, with the settings of a client of it.
pub(super) struct Canned {
    pub(super) settings: Settings,
    seen: Arc<Mutex<Vec<Seen>>>,
    pauses: Arc<Mutex<Vec<Duration>>>,
}

/// The time of every canned answer, in milliseconds since the epoch.
pub(super) const NOW_MS: i64 = 1_800_000_000_000;

struct Standing;

impl Clock for Standing {
    fn now_ms(&self) -> i64 {
        NOW_MS
    }
}

struct Noted(Arc<Mutex<Vec<Duration>>>);

#[async_trait]
impl Pause for Noted {
    async fn pause(&self, time: Duration) {
        self.0.lock().unwrap().push(time);
    }
}

impl Canned {
    /// A server that gives these answers in order, each on a connection of its own, and is gone after the last.
    pub(super) async fn new(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/api/", listener.local_addr().unwrap());
        let (seen, pauses) = (Arc::new(Mutex::new(vec![])), Arc::new(Mutex::new(vec![])));
        let settings = Settings {
            name: "canned".into(),
            api_base: Url::parse(&base).unwrap(),
            git_base: Url::parse("https://forge.example/").unwrap(),
            web_base: None,
            token: SecretString::from(TOKEN),
            ca_bundle: None,
            ca_file: None,
            write_spacing: Duration::ZERO,
            pause: Arc::new(Noted(Arc::clone(&pauses))),
            clock: Arc::new(Standing),
        };
        tokio::spawn(serve(listener, replies.into(), Arc::clone(&seen)));
        Self { settings, seen, pauses }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The first lines of the requests.
    pub(super) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    pub(super) fn pauses(&self) -> Vec<u64> {
        self.pauses.lock().unwrap().iter().map(Duration::as_secs).collect()
    }
}

/// The repository `o/n` with id 7.
pub(super) fn repo() -> RepoRef {
    RepoRef { forge: "canned".into(), id: "7".into(), path: "o/n".into() }
}

async fn serve(listener: TcpListener, mut replies: VecDeque<Reply>, seen: Arc<Mutex<Vec<Seen>>>) {
    while let Some(reply) = replies.pop_front() {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = request(&mut stream).await;
        seen.lock().unwrap().push(request);
        if let Reply::Answer(status, headers, body) = reply {
            let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n{more}\r\n", body.len());
            stream.write_all(head.as_bytes()).await.unwrap();
            // The client may have enough before the end.
            let _ = stream.write_all(&body).await;
        }
    }
}

async fn request(stream: &mut TcpStream) -> Seen {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request ended in its head");
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let line = lines.next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<_> =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < end + 4 + length {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request ended in its body");
    }
    Seen { line, headers, body: String::from_utf8(bytes[end + 4..].to_vec()).unwrap() }
}
