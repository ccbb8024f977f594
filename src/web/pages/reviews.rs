//! The open pull requests of ours, the oldest first: what waits for people.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::errors::unavailable;
use super::frame::{Frame, show, within};
use super::text::{Moment, link, span};
use crate::store::OpenReview;
use crate::web::{Door, Viewer};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[derive(Template)]
#[template(path = "reviews.html")]
struct ReviewsPage {
    frame: Frame,
    groups: Vec<Group>,
    all: usize,
    waiting: usize,
    ages: [(&'static str, usize); 4],
    /// 0: no limit.
    most_open: u32,
}

/// The open pull requests of one repository.
struct Group {
    path: String,
    rows: Vec<Row>,
}

impl Group {
    /// Whether no further run begins in the repository until people have looked at some.
    fn is_full(&self, most_open: &u32) -> bool {
        *most_open > 0 && self.rows.len() >= *most_open as usize
    }
}

struct Row {
    run: String,
    number: Option<i64>,
    issue: i64,
    title: String,
    address: Option<String>,
    asked_by: String,
    is_approved: bool,
    said: String,
    opened: Moment,
    age: String,
    is_old: bool,
}

pub(super) async fn page(State(door): State<Door>, viewer: Viewer) -> Response {
    let open = match door.store.open_reviews(within(&viewer).as_deref()).await {
        Ok(open) => open,
        Err(error) => return unavailable(&error),
    };
    let now_ms = door.clock.now_ms();
    let days = |review: &OpenReview| review.opened_ms.map_or(0, |opened| (now_ms - opened) / DAY_MS);
    let of_age = |from: i64, until: i64| open.iter().filter(|review| (from..until).contains(&days(review))).count();
    let ages = [
        ("today", of_age(i64::MIN, 1)),
        ("1 to 6 days", of_age(1, 7)),
        ("1 to 4 weeks", of_age(7, 30)),
        ("30 days and more", of_age(30, i64::MAX)),
    ];
    let mut groups = Vec::<Group>::new();
    for review in &open {
        let row = Row {
            run: review.run.clone(),
            number: review.number,
            issue: review.issue,
            title: review.title.clone(),
            address: review.address.as_deref().and_then(link),
            asked_by: review.requested_by.clone().unwrap_or_default(),
            is_approved: review.state == "approved",
            said: review.said.clone().unwrap_or_else(|| "not looked at yet".to_owned()),
            opened: review.opened_ms.map(Moment::of).unwrap_or_default(),
            age: review.opened_ms.map(|opened| span(now_ms - opened)).unwrap_or_default(),
            is_old: days(review) >= 7,
        };
        match groups.iter_mut().find(|group| group.path == review.path) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { path: review.path.clone(), rows: vec![row] }),
        }
    }
    let waiting = open.iter().filter(|review| review.state != "approved").count();
    show(&ReviewsPage {
        frame: Frame::of(&door, &viewer, "reviews"),
        groups,
        all: open.len(),
        waiting,
        ages,
        most_open: door.pages.most_open,
    })
}
