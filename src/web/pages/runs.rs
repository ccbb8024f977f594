//! The list of runs.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use time::Date;
use time::macros::format_description;

use super::errors::{unavailable, wrong};
use super::frame::{Frame, show, within};
use super::line::Line;
use crate::store::{Cursor, Part, RunFilter};
use crate::web::{Door, Viewer};

/// Rows a page.
const ROWS: usize = 50;
/// A longer word is none of a search.
const LONGEST: usize = 300;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The outcomes that can be looked for, with their words.
const OUTCOMES: [(&str, &str); 7] = [
    ("queued", "waiting"),
    ("running", "running"),
    ("proposed", "draft opened"),
    ("no_patch", "no patch"),
    ("refused", "refused"),
    ("cancelled", "stopped"),
    ("abandoned", "given up"),
];

/// What the form asks for, as it was written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    pub repository: String,
    pub person: String,
    pub outcome: String,
    pub from: String,
    pub until: String,
    older: String,
    newer: String,
}

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage {
    frame: Frame,
    wanted: Wanted,
    outcomes: [(&'static str, &'static str); 7],
    is_filtered: bool,
    runs: Vec<Line>,
    older: Option<String>,
    newer: Option<String>,
    newest: Option<String>,
}

pub(super) async fn page(State(door): State<Door>, viewer: Viewer, Query(wanted): Query<Wanted>) -> Response {
    let (filter, part) = match wanted.read() {
        Ok((filter, part)) => (RunFilter { within: within(&viewer), ..filter }, part),
        Err(why) => return wrong(&why),
    };
    let page = match door.store.runs_page(&filter, &part, ROWS).await {
        Ok(page) => page,
        Err(error) => return unavailable(&error),
    };
    let now_ms = door.clock.now_ms();
    let to = |name: &str, cursor: Cursor| wanted.with(name, &format!("{}.{}", cursor.queued_ms, cursor.id));
    show(&RunsPage {
        frame: Frame::of(&door, &viewer, "runs"),
        outcomes: OUTCOMES,
        is_filtered: wanted.is_filtered(),
        older: page.runs.last().filter(|_| page.has_older).map(|row| to("older", row.cursor())),
        newer: page.runs.first().filter(|_| page.has_newer).map(|row| to("newer", row.cursor())),
        newest: (part != Part::Newest).then(|| wanted.with("", "")),
        runs: page.runs.iter().map(|row| Line::of(row, now_ms)).collect(),
        wanted,
    })
}

impl Wanted {
    fn is_filtered(&self) -> bool {
        [&self.repository, &self.person, &self.outcome, &self.from, &self.until].into_iter().any(|word| !word.is_empty())
    }

    fn read(&self) -> Result<(RunFilter, Part), String> {
        let filter = RunFilter {
            within: None,
            repository: word("repository", &self.repository)?,
            person: word("person", &self.person)?,
            outcome: match self.outcome.as_str() {
                "" => None,
                outcome if OUTCOMES.iter().any(|(name, _)| *name == outcome) => Some(outcome.to_owned()),
                _ => return Err("there is no such outcome".to_owned()),
            },
            from_ms: day_ms("from", &self.from)?,
            until_ms: day_ms("until", &self.until)?.map(|day| day + DAY_MS),
        };
        let part = match (cursor(&self.older)?, cursor(&self.newer)?) {
            (None, None) => Part::Newest,
            (Some(cursor), None) => Part::OlderThan(cursor),
            (None, Some(cursor)) => Part::NewerThan(cursor),
            (Some(_), Some(_)) => return Err("a page is older than one row or newer than one, not both".to_owned()),
        };
        Ok((filter, part))
    }

    /// The address of another part of the same list.
    fn with(&self, name: &str, cursor: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let words = [
            ("repository", self.repository.as_str()),
            ("person", &self.person),
            ("outcome", &self.outcome),
            ("from", &self.from),
            ("until", &self.until),
            (name, cursor),
        ];
        query.extend_pairs(words.into_iter().filter(|(_, word)| !word.is_empty()));
        format!("/runs?{}", query.finish())
    }
}

/// A word of a search.
pub(super) fn word(name: &str, text: &str) -> Result<Option<String>, String> {
    let text = text.trim();
    if text.chars().count() > LONGEST {
        return Err(format!("{name}: more than {LONGEST} characters"));
    }
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

/// The begin of a day in UTC, in milliseconds since the Unix epoch.
pub(super) fn day_ms(name: &str, text: &str) -> Result<Option<i64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let day = Date::parse(text, format_description!("[year]-[month]-[day]")).map_err(|_| format!("{name}: a day is written 2026-11-30"))?;
    Ok(Some(day.midnight().assume_utc().unix_timestamp() * 1000))
}

fn cursor(text: &str) -> Result<Option<Cursor>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let read = || {
        let (queued_ms, id) = text.split_once('.')?;
        let is_id = !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        is_id.then_some(Cursor { queued_ms: queued_ms.parse().ok()?, id: id.to_owned() })
    };
    read().map(Some).ok_or_else(|| "the place in the list can't be read: begin with the newest again".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Part, Wanted};

    #[test]
    fn what_is_asked_is_read_or_refused_with_what_is_wrong() {
        let asked = Wanted { from: "2026-11-30".into(), until: "2026-11-30".into(), older: "17.a1".into(), ..Wanted::default() };
        let (filter, part) = asked.read().unwrap();
        assert_eq!((filter.from_ms, filter.until_ms), (Some(1_795_996_800_000), Some(1_796_083_200_000)));
        assert!(matches!(&part, Part::OlderThan(cursor) if cursor.queued_ms == 17 && cursor.id == "a1"));
        assert_eq!(asked.with("newer", "1.b"), "/runs?from=2026-11-30&until=2026-11-30&newer=1.b");
        for (wrong, words) in [
            (Wanted { from: "30.11.2026".into(), ..Wanted::default() }, "from"),
            (Wanted { outcome: "great".into(), ..Wanted::default() }, "outcome"),
            (Wanted { older: "x.a".into(), ..Wanted::default() }, "place"),
            (Wanted { older: "1.".into(), ..Wanted::default() }, "place"),
            (Wanted { newer: "1.a' or 1=1".into(), ..Wanted::default() }, "place"),
            (Wanted { older: "99999999999999999999.a".into(), ..Wanted::default() }, "place"),
            (Wanted { older: "1.a".into(), newer: "1.a".into(), ..Wanted::default() }, "both"),
            (Wanted { person: "x".repeat(301), ..Wanted::default() }, "person"),
        ] {
            assert!(wrong.read().unwrap_err().contains(words), "{wrong:?}");
        }
    }
}
