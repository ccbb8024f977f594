//! The first page: what goes on now.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::errors::unavailable;
use super::frame::{Frame, show, within};
use super::line::Line;
use super::text::{Moment, number};
use crate::store::Now;
use crate::web::{Door, Viewer};

/// So many of those that ended last are shown.
const ENDED: usize = 10;
/// So many of those that wait are shown.
const NEXT: usize = 20;

#[derive(Template)]
#[template(path = "now.html")]
struct NowPage {
    frame: Frame,
    version: String,
    held: Option<Held>,
    running: Vec<Line>,
    next: Vec<Line>,
    ended: Vec<Line>,
    waiting: i64,
    unshown: i64,
    open: i64,
    unreviewed: i64,
}

/// Who holds the queue.
struct Held {
    by: String,
    why: String,
    since: Moment,
}

pub(super) async fn page(State(door): State<Door>, viewer: Viewer) -> Response {
    let now = match door.store.now().await {
        Ok(now) => now.within(|repository| viewer.sees(repository)),
        Err(error) => return unavailable(&error),
    };
    // Told of the same lists as by the events; what went on elsewhere pushes nothing out of the page.
    let version = version(&now);
    let ended = match within(&viewer) {
        None => now.ended.iter().take(ENDED).cloned().collect(),
        Some(seen) => match door.store.ended_within(&seen, ENDED).await {
            Ok(ended) => ended,
            Err(error) => return unavailable(&error),
        },
    };
    let now_ms = door.clock.now_ms();
    let line = |row| Line::of(row, now_ms);
    let waiting = now.waiting.values().sum::<i64>();
    let next = now.next.iter().take(NEXT).map(|waiting| line(&waiting.row)).collect::<Vec<_>>();
    show(&NowPage {
        frame: Frame::of(&door, &viewer, "now"),
        version,
        held: now.paused.as_ref().map(|held| Held { by: held.by.clone(), why: held.why.clone(), since: Moment::of(held.on_ms) }),
        unshown: waiting - i64::try_from(next.len()).unwrap_or(0),
        running: now.running.iter().map(line).collect(),
        next,
        ended: ended.iter().map(line).collect(),
        waiting,
        open: now.reviews.values().map(|(open, _)| open).sum(),
        unreviewed: now.reviews.values().map(|(_, waiting)| waiting).sum(),
    })
}

/// Changes whenever the page must be made anew, and not while only its times and steps go on.
pub(super) fn version(now: &Now) -> String {
    use sha2::{Digest as _, Sha256};
    let mut hash = Sha256::new();
    let mut add = |text: &str| hash.update(format!("{}:{text}", text.len()));
    for row in now.running.iter().chain(now.next.iter().take(NEXT).map(|waiting| &waiting.row)).chain(now.ended.iter().take(ENDED)) {
        add(&row.id);
        add(&row.state);
        add(&row.stage);
    }
    add(&number(now.waiting.values().sum()));
    add(&format!("{:?} {:?}", now.reviews, now.paused));
    hex::encode(&hash.finalize()[..8])
}
