//! What `doctor` says, on a page.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use tokio::sync::{Mutex, watch};

use super::acts::{Pressed, foreign};
use super::frame::{Frame, show};
use super::text::Moment;
use crate::domain::{Check, Health};
use crate::web::{Auditor, Door};

/// An examination asks the forges, the model and the sandbox: it is made once within this time, however often it is asked for.
const FRESH_MS: i64 = 60_000;

/// The last examination; whoever asks for another while one is made waits for that one.
pub(super) struct Examined {
    last: watch::Sender<Option<(i64, Vec<Check>)>>,
    turn: Mutex<()>,
}

impl Default for Examined {
    fn default() -> Self {
        Self { last: watch::Sender::new(None), turn: Mutex::new(()) }
    }
}

#[derive(Template)]
#[template(path = "health.html")]
struct HealthPage {
    frame: Frame,
    made: Option<Moment>,
    groups: Vec<(String, Vec<Row>)>,
    fails: usize,
    warns: usize,
}

struct Row {
    check: String,
    class: &'static str,
    word: &'static str,
    detail: String,
}

pub(super) async fn page(State(door): State<Door>, Auditor(viewer): Auditor) -> Response {
    let last = door.pages.health.last.borrow().clone();
    let checks = last.as_ref().map(|(_, checks)| checks.as_slice()).unwrap_or_default();
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let mut groups = Vec::<(String, Vec<Row>)>::new();
    for check in checks {
        match groups.iter_mut().find(|(subject, _)| *subject == check.subject) {
            Some((_, rows)) => rows.push(row(check)),
            None => groups.push((check.subject.clone(), vec![row(check)])),
        }
    }
    show(&HealthPage {
        frame: Frame::of(&door, &viewer, "health"),
        made: last.as_ref().map(|(at_ms, _)| Moment::of(*at_ms)),
        groups,
        fails: count(Health::Fail),
        warns: count(Health::Warn),
    })
}

/// Looks now, unless that was done within the last minute.
pub(super) async fn examine_now(State(door): State<Door>, Auditor(viewer): Auditor, pressed: Pressed) -> Response {
    if !viewer.wrote(&pressed.csrf) {
        return foreign();
    }
    let health = &door.pages.health;
    let turn = health.turn.lock().await;
    let now_ms = door.clock.now_ms();
    let is_fresh = health.last.borrow().as_ref().is_some_and(|(at_ms, _)| (0..FRESH_MS).contains(&(now_ms - at_ms)));
    if !is_fresh {
        let checks = (door.pages.examine)().await;
        health.last.send_replace(Some((door.clock.now_ms(), checks)));
    }
    drop(turn);
    Redirect::to(&format!("{}/health", door.gate.prefix())).into_response()
}

fn row(check: &Check) -> Row {
    let (class, word) = match check.status {
        Health::Ok => ("good", "ok"),
        Health::Warn => ("warn", "look at it"),
        Health::Fail => ("bad", "fails"),
    };
    Row { check: super::text::words(check.check), class, word, detail: check.detail.clone() }
}
