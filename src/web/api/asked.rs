//! What a request asks, read strictly: what is not understood is said, not passed over.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::store::{Cursor, Part, RunFilter};
use crate::web::{Door, Viewer, answer};

/// The longest name or value, in characters.
const LONGEST: usize = 300;
const MOST_ROWS: usize = 200;
const MOST_LINES: i64 = 1000;

/// The query of a request.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Door> for Asked<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &Door) -> Result<Self, Self::Rejection> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|Query(asked)| Self(asked)).map_err(|error| wrong(&format!("the query can't be read: {}", error.body_text())))
    }
}

/// The run that a path names.
pub(super) struct Run(pub(super) String);

impl FromRequestParts<Door> for Run {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Self::Rejection> {
        match Path::<String>::from_request_parts(parts, door).await {
            Ok(Path(run)) if is_plain(&run) => Ok(Self(run)),
            _ => Err(super::no_run()),
        }
    }
}

/// The query of the list of runs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    repository: Option<String>,
    person: Option<String>,
    outcome: Option<String>,
    from_ms: Option<i64>,
    until_ms: Option<i64>,
    before: Option<String>,
    limit: Option<usize>,
}

/// The query of a log.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Followed {
    after: Option<i64>,
    limit: Option<i64>,
}

const OUTCOMES: [&str; 7] = ["queued", "running", "proposed", "no_patch", "refused", "cancelled", "abandoned"];

impl Listed {
    /// Which runs, which part of them, how many.
    pub(super) fn read(self, viewer: &Viewer) -> Result<(RunFilter, Part, usize), String> {
        let limit = self.limit.unwrap_or(50);
        if limit == 0 || limit > MOST_ROWS {
            return Err(format!("limit: from 1 to {MOST_ROWS}"));
        }
        if self.outcome.as_deref().is_some_and(|outcome| !OUTCOMES.contains(&outcome)) {
            return Err(format!("outcome: one of {}", OUTCOMES.join(", ")));
        }
        for (name, value) in [("repository", &self.repository), ("person", &self.person)] {
            if value.as_deref().is_some_and(|value| !is_plain(value)) {
                return Err(format!("{name}: from 1 to {LONGEST} characters, none of them a control character"));
            }
        }
        let part = match &self.before {
            None => Part::Newest,
            Some(cursor) => {
                Part::OlderThan(read_cursor(cursor).ok_or_else(|| "before: the next of an earlier answer, and nothing else".to_owned())?)
            }
        };
        let within = viewer.sees.within().map(<[String]>::to_vec);
        let (repository, person, outcome) = (self.repository, self.person, self.outcome);
        Ok((RunFilter { within, repository, person, outcome, from_ms: self.from_ms, until_ms: self.until_ms }, part, limit))
    }
}

impl Followed {
    /// After which line, and how many.
    pub(super) fn read(&self) -> Result<(i64, i64), String> {
        let limit = self.limit.unwrap_or(MOST_LINES);
        if !(1..=MOST_LINES).contains(&limit) {
            return Err(format!("limit: from 1 to {MOST_LINES}"));
        }
        Ok((self.after.unwrap_or(0), limit))
    }
}

/// A place in the list of runs, for the next question.
pub(super) fn cursor(cursor: &Cursor) -> String {
    format!("{}-{}", cursor.queued_ms, cursor.id)
}

fn read_cursor(text: &str) -> Option<Cursor> {
    let (queued_ms, id) = text.split_once('-')?;
    let is_id = !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_number = !queued_ms.is_empty() && queued_ms.bytes().all(|byte| byte.is_ascii_digit());
    (is_id && is_number).then(|| Some(Cursor { queued_ms: queued_ms.parse().ok()?, id: id.to_owned() })).flatten()
}

fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.chars().count() <= LONGEST && !value.chars().any(char::is_control)
}

pub(super) fn wrong(words: &str) -> Response {
    answer(StatusCode::BAD_REQUEST, words)
}

/// The header that a program sends with what changes something. A page of another site can't: browsers would ask us first, and we say no.
const OURS: &str = "x-frognano-request";

/// Whether who asks is a program, not a page that uses somebody's browser.
pub(super) fn is_a_program(viewer: &Viewer, headers: &HeaderMap) -> bool {
    viewer.is_program() || headers.contains_key(OURS)
}

/// To who is none.
pub(super) fn not_a_program() -> Response {
    answer(StatusCode::FORBIDDEN, "what changes something needs a key (Authorization: Bearer) or the header X-Frognano-Request: 1")
}

#[cfg(test)]
mod tests {
    use super::{cursor, read_cursor};
    use crate::store::Cursor;

    #[test]
    fn a_place_in_a_list_is_read_as_it_was_written_and_nothing_else_is() {
        let place = Cursor { queued_ms: 1_700_000_000_000, id: "018f2b".to_owned() };
        assert_eq!(read_cursor(&cursor(&place)), Some(place));
        for other in ["", "-", "1-", "-a", "1", "x-a", "1-a b", "-1-a", "+1-a", "99999999999999999999-a", "1-' or 1=1", "1-\0"] {
            assert_eq!(read_cursor(other), None, "{other:?}");
        }
    }
}
