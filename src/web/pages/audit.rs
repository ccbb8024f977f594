//! The audit chain for auditors: how it stands, what is in it, and its runs as files.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use super::errors::{absent, failed, unavailable, wrong};
use super::frame::{Frame, show};
use super::run::ChainLine;
use super::runs::{day_ms, word};
use super::text::{Moment, number, words};
use crate::audit::Kind;
use crate::store::ChainFilter;
use crate::web::{Auditor, Door, answer};

/// Rows a page.
const ROWS: usize = 50;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The kinds that can be looked for.
const KINDS: [Kind; 23] = [
    Kind::Delivery,
    Kind::JobMade,
    Kind::JobClaimed,
    Kind::Asked,
    Kind::JobPutBack,
    Kind::Stage,
    Kind::Policy,
    Kind::Sandbox,
    Kind::Turn,
    Kind::Attempt,
    Kind::Verdict,
    Kind::ForgeWrite,
    Kind::RunEnded,
    Kind::Review,
    Kind::Fate,
    Kind::FalseGreen,
    Kind::CancelAsked,
    Kind::Answered,
    Kind::Configuration,
    Kind::Operator,
    Kind::Access,
    Kind::Erased,
    Kind::Forgotten,
];

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    run: String,
    person: String,
    kind: String,
    from: String,
    until: String,
    before: String,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    wanted: Wanted,
    kinds: Vec<(String, String)>,
    log: String,
    last: String,
    waiting: String,
    signed: Option<(String, Moment, String)>,
    behind: String,
    key: Option<String>,
    rows: Vec<ChainLine>,
    older: Option<String>,
    looked_on: bool,
    newest: Option<String>,
}

pub(super) async fn page(State(door): State<Door>, Auditor(viewer): Auditor, Query(wanted): Query<Wanted>) -> Response {
    let (filter, before) = match wanted.read() {
        Ok(read) => read,
        Err(why) => return wrong(&why),
    };
    let state = match door.store.chain_state().await {
        Ok(state) => state,
        Err(error) => return unavailable(&error),
    };
    let page = match door.store.chain_page(&filter, before, ROWS).await {
        Ok(page) => page,
        Err(error) => return unavailable(&error),
    };
    let behind = state.signed.as_ref().map_or(state.last, |(signed, ..)| state.last - signed);
    show(&AuditPage {
        frame: Frame::of(&door, &viewer, "audit"),
        kinds: KINDS.iter().map(|kind| (kind.name(), words(&kind.name()))).collect(),
        log: state.log,
        last: number(state.last),
        waiting: number(state.waiting),
        signed: state.signed.map(|(row, at_ms, key)| (number(row), Moment::of(at_ms), key)),
        behind: number(behind),
        key: door.pages.key.as_ref().map(|key| key.public().pem()),
        looked_on: page.rows.len() < ROWS && page.before.is_some(),
        older: page.before.map(|before| wanted.before(&before.to_string())),
        newest: before.map(|_| wanted.before("")),
        rows: page.rows.iter().map(ChainLine::of).collect(),
        wanted,
    })
}

/// The file of a run that anybody can check.
pub(super) async fn export(State(door): State<Door>, Auditor(_): Auditor, Path(run): Path<String>) -> Response {
    let Some(key) = &door.pages.key else {
        return answer(
            StatusCode::SERVICE_UNAVAILABLE,
            "this machine has not the key that exports are signed with: set [audit] key, or ask a worker's machine",
        );
    };
    let export = match door.store.export(&run, key).await {
        Ok(Some(export)) => export,
        Ok(None) => return absent("the audit chain has nothing of a run of this name"),
        Err(error) => return unavailable(&error),
    };
    match export.to_bytes() {
        Ok(bytes) => {
            let name =
                format!("attachment; filename=\"{}.export.json\"", export.run.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"));
            ([(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)], bytes).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "an export can't be written");
            failed()
        }
    }
}

impl Wanted {
    fn read(&self) -> Result<(ChainFilter, Option<i64>), String> {
        let kind = match self.kind.as_str() {
            "" => None,
            name => Some(KINDS.into_iter().find(|kind| kind.name() == name).ok_or("there is no such kind of event")?),
        };
        let filter = ChainFilter {
            run: word("run", &self.run)?,
            person: word("person", &self.person)?,
            kind,
            from_ms: day_ms("from", &self.from)?,
            until_ms: day_ms("until", &self.until)?.map(|day| day + DAY_MS),
        };
        let before = match self.before.as_str() {
            "" => None,
            text => Some(text.parse().map_err(|_| "the place in the chain is no number: begin with the newest again".to_owned())?),
        };
        Ok((filter, before))
    }

    fn before(&self, before: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let words = [
            ("run", self.run.as_str()),
            ("person", &self.person),
            ("kind", &self.kind),
            ("from", &self.from),
            ("until", &self.until),
            ("before", before),
        ];
        query.extend_pairs(words.into_iter().filter(|(_, word)| !word.is_empty()));
        format!("/audit?{}", query.finish())
    }
}
