//! The open pull requests of ours, the oldest first: what waits for people.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;

use super::errors::{unavailable, wrong};
use super::frame::{Frame, show, within};
use super::text::{Moment, link, span};
use crate::store::OpenReview;
use crate::web::{Door, Viewer};

const NOBODY: &str = "Nobody was asked";
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[derive(Template)]
#[template(path = "reviews.html")]
struct ReviewsPage {
    frame: Frame,
    groups: Vec<Group>,
    by_team: bool,
    all: usize,
    waiting: usize,
    ages: [(&'static str, usize); 4],
    /// 0: no limit.
    most_open: u32,
}

/// The open pull requests of one repository, or those that one team or person was asked to review.
struct Group {
    name: String,
    /// No further run begins in the repository until people have looked at some.
    is_full: bool,
    rows: Vec<Row>,
}

#[derive(Clone)]
struct Row {
    path: String,
    asked: String,
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

/// How the page is asked for.
#[derive(Deserialize)]
pub(super) struct Asked {
    /// `team`: grouped by who was asked to review.
    by: Option<String>,
}

pub(super) async fn page(State(door): State<Door>, Query(asked): Query<Asked>, viewer: Viewer) -> Response {
    let by_team = match asked.by.as_deref() {
        None | Some("repository") => false,
        Some("team") => true,
        Some(_) => return wrong("by: repository or team"),
    };
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
            path: review.path.clone(),
            asked: review.asked.join(", "),
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
        let names = match review.asked.as_slice() {
            _ if !by_team => std::slice::from_ref(&review.path),
            [] => &[NOBODY.to_owned()],
            asked => asked,
        };
        for name in names {
            match groups.iter_mut().find(|group| &group.name == name) {
                Some(group) => group.rows.push(row.clone()),
                None => groups.push(Group { name: name.clone(), is_full: false, rows: vec![row.clone()] }),
            }
        }
    }
    let most_open = door.pages.most_open;
    for group in &mut groups {
        group.is_full = !by_team && most_open > 0 && group.rows.len() >= most_open as usize;
    }
    let waiting = open.iter().filter(|review| review.state != "approved").count();
    show(&ReviewsPage { frame: Frame::of(&door, &viewer, "reviews"), groups, by_team, all: open.len(), waiting, ages, most_open })
}
