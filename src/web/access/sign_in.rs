//! Signing in with a forge, and out again.
//!
//! What must hold: only the browser that began a sign-in ends it, once and within minutes; the session is new each time; nobody is sent to a place
//! that is not ours; a sign-in, a sign-out and a refusal stand in the audit chain, but no word of a stranger, and no more refusals than the limit takes.

use askama::Template;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use subtle::ConstantTimeEq as _;
use url::Url;

use super::cookies::{SESSION, TICKET};
use super::gate::{Access, FrontDoor, Gate, down, peer};
use super::told::{go, html, refused, with_cookie};
use super::{Door, Refused, Viewer};
use crate::audit::{Kind, Note};
use crate::forge::ForgeError;
use crate::store::new_secret;
use crate::web::read;

/// A sign-in that takes longer is begun anew.
const TICKET_SECONDS: i64 = 600;
const LONGEST_BACK: usize = 1000;
const LONGEST_CODE: usize = 2000;
const LONGEST_FORM: usize = 64 * 1024;

const BEGIN_ANEW: Refused =
    Refused::new(StatusCode::BAD_REQUEST, "this sign-in was not begun in this browser, or too long ago: begin it anew");
const TOO_OFTEN: Refused = Refused::new(StatusCode::TOO_MANY_REQUESTS, "too many sign-ins within a minute: try again a little later");
const NO_SUCH_WAY: Refused = Refused::new(StatusCode::NOT_FOUND, "nobody signs in with this forge here");

#[derive(Template)]
#[template(path = "sign_in.html")]
struct Ways<'a> {
    prefix: &'a str,
    ways: Vec<Way>,
}

struct Way {
    forge: String,
    address: String,
}

/// What the browser keeps of a sign-in that has begun.
#[derive(Serialize, Deserialize)]
struct Ticket {
    forge: String,
    state: String,
    verifier: String,
    back: String,
    at_ms: i64,
}

#[derive(Default, Deserialize)]
struct Back {
    #[serde(default)]
    back: String,
}

#[derive(Deserialize)]
struct Came {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
}

/// The pages for it; none where people do not sign in here.
pub(crate) fn routes(door: &Door) -> Router<Door> {
    if !matches!(&*door.gate.access, Access::Forge(_)) {
        return Router::new();
    }
    Router::new()
        .route("/sign-in", get(choose))
        .route("/sign-in/{forge}", get(begin))
        .route("/sign-in/{forge}/done", get(done))
        .route("/sign-out", post(sign_out))
}

fn front(gate: &Gate) -> Result<&FrontDoor, Refused> {
    match &*gate.access {
        Access::Forge(front) => Ok(front),
        Access::Loopback | Access::Proxy(_) => Err(NO_SUCH_WAY),
    }
}

async fn choose(State(door): State<Door>, Query(Back { back }): Query<Back>) -> Response {
    let Ok(front) = front(&door.gate) else { return go("/") };
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("back", ours(&back)).finish();
    let prefix = door.gate.prefix();
    let way = |forge: &String| Way { forge: forge.clone(), address: format!("{prefix}/sign-in/{forge}?{query}") };
    html(StatusCode::OK, Ways { prefix, ways: front.ways.keys().map(way).collect() }.render())
}

/// Costs nothing that anybody would miss: it is not counted, so that nobody uses up the tries of who comes back from the forge.
async fn begin(State(door): State<Door>, Path(forge): Path<String>, Query(Back { back }): Query<Back>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match begun(&door, &forge, &back) {
        Ok(response) => response,
        Err(why) => refused(&parts, &door.gate, why),
    }
}

fn begun(door: &Door, forge: &str, back: &str) -> Result<Response, Refused> {
    let front = front(&door.gate)?;
    let way = front.ways.get(forge).ok_or(NO_SUCH_WAY)?;
    let (state, verifier) = (new_secret().map_err(down)?, new_secret().map_err(down)?);
    let page = way.page(&state, &verifier, &redirect(front, forge)?);
    let ticket = Ticket { forge: forge.to_owned(), state, verifier, back: ours(back).to_owned(), at_ms: door.clock.now_ms() };
    Ok(with_cookie(go(page.as_str()), &TICKET, &sealed(&door.gate, &ticket), TICKET_SECONDS, &front.public_url))
}

async fn done(State(door): State<Door>, Path(forge): Path<String>, Query(came): Query<Came>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let response = match ended(&door, &parts, &forge, came).await {
        Ok(response) => response,
        Err(why) => {
            let is_a_way = front(&door.gate).is_ok_and(|front| front.ways.contains_key(&forge));
            if is_a_way && door.gate.refusals.takes(peer(&parts), door.clock.now_ms()) {
                tracing::warn!(forge, why = why.words, "a sign-in was refused");
                let note = Note::new(Kind::Access, json!({"did": "refused", "forge": forge, "why": why.words}));
                if let Err(error) = door.store.witness(&note).await {
                    return refused(&parts, &door.gate, down(error));
                }
            }
            refused(&parts, &door.gate, why)
        }
    };
    match front(&door.gate) {
        Ok(front) => with_cookie(response, &TICKET, "", 0, &front.public_url),
        Err(_) => response,
    }
}

async fn ended(door: &Door, parts: &Parts, forge: &str, came: Came) -> Result<Response, Refused> {
    let front = front(&door.gate)?;
    let way = front.ways.get(forge).ok_or(NO_SUCH_WAY)?;
    let now = door.clock.now_ms();
    let ticket = TICKET.read(&parts.headers, &front.public_url).and_then(|ticket| opened(&door.gate, &ticket)).ok_or(BEGIN_ANEW)?;
    let is_in_time = (0..=TICKET_SECONDS * 1000).contains(&(now - ticket.at_ms));
    let state = came.state.unwrap_or_default();
    if ticket.forge != forge || !is_in_time || !bool::from(ticket.state.as_bytes().ct_eq(state.as_bytes())) {
        return Err(BEGIN_ANEW);
    }
    if came.error.is_some() {
        return Err(Refused::new(StatusCode::FORBIDDEN, "the forge did not sign you in; if you said no there, that is all"));
    }
    let code = came.code.filter(|code| !code.is_empty() && code.len() <= LONGEST_CODE).ok_or(BEGIN_ANEW)?;
    if !door.gate.sign_ins.takes(peer(parts), now) {
        return Err(TOO_OFTEN);
    }
    let account = way.account(&code, &ticket.verifier, &redirect(front, forge)?).await.map_err(|error| {
        tracing::warn!(forge, %error, "a sign-in failed");
        match error {
            ForgeError::Unavailable { .. } => {
                Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the forge does not answer: try again a little later")
            }
            _ => Refused::new(StatusCode::FORBIDDEN, "the forge does not take this sign-in: begin it anew"),
        }
    })?;
    let before = SESSION.read(&parts.headers, &front.public_url);
    let session = door.store.begin_session(forge, &account, before.as_deref(), front.times, door.clock.as_ref()).await.map_err(down)?;
    door.gate.rights.forget(forge, &account.login, now);
    tracing::info!(forge, login = account.login, "somebody signed in");
    let response = go(&format!("{}{}", door.gate.prefix(), ours(&ticket.back)));
    Ok(with_cookie(response, &SESSION, &session, front.times.most_ms / 1000, &front.public_url))
}

async fn sign_out(State(door): State<Door>, viewer: Viewer, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = match read(&parts.headers, body, LONGEST_FORM).await {
        Ok(form) => form,
        Err(refusal) => return refusal,
    };
    match signed_out(&door, &viewer, &parts, &form).await {
        Ok(response) => response,
        Err(why) => refused(&parts, &door.gate, why),
    }
}

async fn signed_out(door: &Door, viewer: &Viewer, parts: &Parts, form: &Bytes) -> Result<Response, Refused> {
    let front = front(&door.gate)?;
    let csrf = url::form_urlencoded::parse(form).find(|(name, _)| name == "csrf").map(|(_, value)| value.into_owned());
    if !viewer.wrote(&csrf.unwrap_or_default()) {
        return Err(Refused::new(StatusCode::FORBIDDEN, "this form is not one of ours, or an old one: load the page anew"));
    }
    if let Some(session) = SESSION.read(&parts.headers, &front.public_url) {
        door.store.end_session(&session).await.map_err(down)?;
    }
    Ok(with_cookie(go(&format!("{}/sign-in", door.gate.prefix())), &SESSION, "", 0, &front.public_url))
}

/// Where the forge sends people back to; each forge has a place of its own, so that one can't answer for another.
fn redirect(front: &FrontDoor, forge: &str) -> Result<Url, Refused> {
    let mut url = front.public_url.clone();
    match url.path_segments_mut() {
        Ok(mut path) => drop(path.pop_if_empty().extend(["sign-in", forge, "done"])),
        Err(()) => return Err(NO_SUCH_WAY),
    }
    Ok(url)
}

fn sealed(gate: &Gate, ticket: &Ticket) -> String {
    let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(ticket).unwrap_or_default());
    let sign = gate.sign("sign-in", &text);
    format!("{text}.{sign}")
}

fn opened(gate: &Gate, sealed: &str) -> Option<Ticket> {
    let (text, sign) = sealed.split_once('.')?;
    let is_ours = bool::from(gate.sign("sign-in", text).as_bytes().ct_eq(sign.as_bytes()));
    is_ours.then(|| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()).flatten()
}

/// A path of ours, or our first page: nothing that a browser takes for another host, however it reads it.
fn ours(back: &str) -> &str {
    let is_plain = back.len() <= LONGEST_BACK && back.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_path = back.starts_with('/') && !back.starts_with("//") && !back.starts_with("/sign-");
    let base = Url::parse("https://here.invalid/").ok();
    let stays = base
        .and_then(|base| base.join(back).ok())
        .is_some_and(|url| url.host_str() == Some("here.invalid") && !url.path().starts_with("//"));
    if is_plain && is_path && stays { back } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::ours;

    #[test]
    fn nobody_is_sent_to_another_place() {
        for path in ["/", "/runs?outcome=refused", "/runs/0a1b#diff"] {
            assert_eq!(ours(path), path);
        }
        let long = format!("/{}", "a".repeat(2000));
        for other in [
            "",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil",
            "https://evil.example",
            "evil",
            "/a\r\nSet-Cookie: x",
            "/\t/evil.example",
            "/.//evil.example",
            "/..//evil",
            "javascript:alert(1)",
            "/sign-out",
            &long,
            "/ä",
        ] {
            assert_eq!(ours(other), "/", "{other:?}");
        }
    }
}
