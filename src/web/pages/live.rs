//! What changes by itself: server-sent events, from the database each second, so that it is no matter which process works.
//!
//! What must hold: however many look, the database is asked once a second, and not at all while nobody looks; a listener is told only of what it
//! may see, which is asked again and again: who signs out or loses a right is soon told nothing more; none holds up the end of the service.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::now::version;
use super::text::span;
use crate::store::Now;
use crate::web::{Door, Viewer, answer};

/// How often the database is asked.
const EACH: Duration = Duration::from_secs(1);
/// So many listen at once; the pages of others stay as they were loaded.
const MOST_LISTENERS: usize = 64;
/// So many of them for one person, so that nobody takes the places of all.
const MOST_OF_ONE: usize = 16;
/// A listener comes again after so long, and is looked at as a new one.
const LONGEST: Duration = Duration::from_secs(300);
/// So often it is asked whether a listener may still look, and at what.
const LOOKED_AT_MS: i64 = 10_000;

/// The word to stop, for what would go on for as long as its connection.
#[derive(Debug, Clone)]
pub struct Stopping(pub CancellationToken);

/// The one that asks the database, and those who listen to it.
pub(super) struct Live {
    newest: watch::Sender<Option<Arc<Now>>>,
    is_asking: AtomicBool,
    places: Arc<Semaphore>,
    of_one: Mutex<HashMap<String, usize>>,
}

/// A listener's place, given back when it goes.
struct Place {
    live: Arc<Live>,
    who: String,
    _of_all: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut of_one = self.live.of_one.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = of_one.get_mut(&self.who) {
            *places -= 1;
        }
        of_one.retain(|_, places| *places > 0);
    }
}

impl Default for Live {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(MOST_LISTENERS));
        Self { newest: watch::Sender::new(None), is_asking: AtomicBool::new(false), places, of_one: Mutex::default() }
    }
}

impl Live {
    /// A listener's ear, and its place; none where all places are taken.
    fn listen(self: &Arc<Self>, door: &Door, viewer: &Viewer) -> Option<(watch::Receiver<Option<Arc<Now>>>, Place)> {
        let place = self.place(viewer)?;
        let ear = self.newest.subscribe();
        if !self.is_asking.swap(true, Ordering::SeqCst) {
            tokio::spawn(self.clone().ask(door.clone()));
        }
        Some((ear, place))
    }

    fn place(self: &Arc<Self>, viewer: &Viewer) -> Option<Place> {
        let of_all = self.places.clone().try_acquire_owned().ok()?;
        let who = format!("{:?} {}", viewer.forge, viewer.name);
        let mut of_one = self.of_one.lock().unwrap_or_else(PoisonError::into_inner);
        let places = of_one.entry(who.clone()).or_default();
        if *places >= MOST_OF_ONE {
            return None;
        }
        *places += 1;
        Some(Place { live: self.clone(), who, _of_all: of_all })
    }

    /// Asks the database while somebody listens.
    async fn ask(self: Arc<Self>, door: Door) {
        loop {
            match door.store.now().await {
                Ok(now) => drop(self.newest.send_replace(Some(Arc::new(now)))),
                Err(error) => tracing::warn!(%error, "what goes on now can't be read"),
            }
            tokio::time::sleep(EACH).await;
            if self.newest.receiver_count() == 0 {
                self.newest.send_replace(None);
                self.is_asking.store(false, Ordering::SeqCst);
                // Who came in between found somebody asking.
                if self.newest.receiver_count() == 0 || self.is_asking.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct About {
    /// One run, in place of all that goes on.
    run: Option<String>,
}

struct Listener {
    ear: watch::Receiver<Option<Arc<Now>>>,
    viewer: Viewer,
    /// What it came with.
    parts: Parts,
    looked_at_ms: i64,
    about: About,
    door: Door,
    stop: CancellationToken,
    until: tokio::time::Instant,
    last: String,
    _place: Place,
}

pub(super) async fn events(
    State(door): State<Door>,
    viewer: Viewer,
    Query(about): Query<About>,
    stopping: Option<Extension<Stopping>>,
    request: Request,
) -> Response {
    let Some((ear, place)) = door.pages.live.listen(&door, &viewer) else {
        return answer(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many pages are open that change by themselves; load the page again to see it anew",
        );
    };
    let stop = stopping.map(|Extension(Stopping(stop))| stop).unwrap_or_default();
    let until = tokio::time::Instant::now() + LONGEST;
    let (parts, looked_at_ms) = (request.into_parts().0, door.clock.now_ms());
    let listener = Listener { ear, viewer, parts, looked_at_ms, about, door, stop, until, last: String::new(), _place: place };
    let events = stream::unfold(listener, |mut listener| async {
        let text = listener.next().await?;
        Some((Ok::<_, Infallible>(Event::default().data(text)), listener))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

impl Listener {
    /// What is new; none at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep_until(self.until) => return None,
                changed = self.ear.changed() => changed.ok()?,
            }
            let Some(now) = self.ear.borrow_and_update().clone() else { continue };
            self.look_at_again().await?;
            let text = self.told(&now);
            if text != self.last {
                self.last.clone_from(&text);
                return Some(text);
            }
        }
    }

    /// None when it may look no more.
    async fn look_at_again(&mut self) -> Option<()> {
        let now_ms = self.door.clock.now_ms();
        if (0..LOOKED_AT_MS).contains(&(now_ms - self.looked_at_ms)) {
            return Some(());
        }
        self.viewer = self.door.gate.still(&self.parts, &self.door).await?;
        self.looked_at_ms = now_ms;
        Some(())
    }

    fn told(&self, now: &Now) -> String {
        let seen = now.clone().within(|repository| self.viewer.sees(repository));
        let now_ms = self.door.clock.now_ms();
        let mut cells = BTreeMap::new();
        for row in &seen.running {
            let name = row.name();
            if self.about.run.as_deref().is_none_or(|run| run == name) {
                cells.insert(format!("took-{name}"), span(now_ms - row.started_ms.unwrap_or(now_ms)));
                cells.insert(format!("steps-{name}"), row.steps.to_string());
                cells.insert(format!("tokens-{name}"), super::text::number(row.tokens));
            }
        }
        let version = match &self.about.run {
            None => version(&seen),
            Some(run) => version_of(&seen, run),
        };
        json!({"version": version, "cells": cells}).to_string()
    }
}

/// Changes with every step and stage of a run.
pub(super) fn version_of(now: &Now, run: &str) -> String {
    match now.running.iter().find(|row| row.name() == run) {
        Some(row) => format!("{} {}", row.stage, row.steps),
        None => "still".to_owned(),
    }
}
