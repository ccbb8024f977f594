//! A model server that replays a script over real HTTP, in OpenAI's protocol. No model is behind it, and it says so.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::server::Server;
use crate::model::Scripted;

/// The name of the one model that it offers.
pub const MODEL: &str = "scripted";

/// What the server does with the next requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mood {
    /// It answers from the script.
    #[default]
    Up,
    /// It answers 503 to everything.
    Down,
    /// It answers 200 and a page of HTML, as a proxy's login does.
    Html,
}

#[derive(Default)]
struct Behaviour {
    mood: Mood,
    delay: Option<Duration>,
    requests: Vec<Value>,
    hold: Option<(usize, oneshot::Sender<()>)>,
}

impl Behaviour {
    fn held(&mut self) -> Option<oneshot::Sender<()>> {
        match self.hold.take() {
            Some((0, reached)) => Some(reached),
            Some((before, reached)) => {
                self.hold = Some((before - 1, reached));
                None
            }
            None => None,
        }
    }
}

struct Shared {
    scripted: Scripted,
    behaviour: Mutex<Behaviour>,
}

impl Shared {
    fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running model server.
pub struct ModelServer {
    /// The address to configure as the model's: `http://127.0.0.1:PORT/v1`.
    pub base_url: String,
    shared: Arc<Shared>,
    server: Server,
}

impl std::fmt::Debug for ModelServer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ModelServer").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

impl ModelServer {
    /// Starts it on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(scripted: Scripted) -> io::Result<Self> {
        let shared = Arc::new(Shared { scripted, behaviour: Mutex::default() });
        let routes =
            Router::new().route("/v1/chat/completions", post(complete)).route("/v1/models", get(models)).with_state(Arc::clone(&shared));
        let server = Server::start(|_| routes).await?;
        Ok(Self { base_url: format!("{}/v1", server.base_url()), shared, server })
    }

    /// Changes what it does from the next request on.
    pub fn set_mood(&self, mood: Mood) {
        self.shared.behaviour().mood = mood;
    }

    /// Lets every turn take this long.
    pub fn set_delay(&self, delay: Option<Duration>) {
        self.shared.behaviour().delay = delay;
    }

    /// The bodies of all requests for a turn so far, those it refused included; null for one that was no JSON.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        self.shared.behaviour().requests.clone()
    }

    /// Lets one request for a turn hang for ever: the next one for `after` = 0. The receiver hears when it has come.
    #[must_use]
    pub fn hold(&self, after: usize) -> oneshot::Receiver<()> {
        let (reached, hears) = oneshot::channel();
        self.shared.behaviour().hold = Some((after, reached));
        hears
    }

    /// Ends it.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

async fn complete(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let request: Option<Value> = serde_json::from_slice(&body).ok();
    let (mood, delay, held) = {
        let mut behaviour = shared.behaviour();
        behaviour.requests.push(request.clone().unwrap_or_default());
        (behaviour.mood, behaviour.delay, behaviour.held())
    };
    if let Some(reached) = held {
        reached.send(()).ok();
        return std::future::pending().await;
    }
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    match (moody(mood), request) {
        (Some(answer), _) => answer,
        (None, Some(request)) => {
            let reply = shared.scripted.reply(&request);
            let mut answer = json_answer(StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &reply.body);
            if let Some(wait) = reply.retry_after.and_then(|wait| HeaderValue::try_from(wait).ok()) {
                answer.headers_mut().insert(header::RETRY_AFTER, wait);
            }
            answer
        }
        (None, None) => json_answer(StatusCode::BAD_REQUEST, &error("the body is no JSON", "invalid_request_error")),
    }
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let mood = shared.behaviour().mood;
    let models = json!({ "object": "list", "data": [{ "id": MODEL, "object": "model", "created": 0, "owned_by": "frognano-bot demo" }] });
    moody(mood).unwrap_or_else(|| json_answer(StatusCode::OK, &models))
}

fn moody(mood: Mood) -> Option<Response> {
    match mood {
        Mood::Up => None,
        Mood::Down => {
            Some(json_answer(StatusCode::SERVICE_UNAVAILABLE, &error("the scripted model was told to be down", "service_unavailable")))
        }
        Mood::Html => Some(Html("<!doctype html><title>Sign in</title><p>Please sign in to the proxy.").into_response()),
    }
}

fn error(message: &str, kind: &str) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": null } })
}

fn json_answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
