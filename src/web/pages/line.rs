//! A run as one line of a list.

use super::text::{Moment, number, outcome_class, outcome_words, span, words};
use crate::store::RunRow;

/// A run as one line of a list.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub name: String,
    pub repository: String,
    pub issue: i64,
    pub title: String,
    pub person: String,
    pub words: &'static str,
    pub class: &'static str,
    /// The stage of a run that goes on, or the reason of one that ended.
    pub more: String,
    pub asked: Moment,
    /// When it ended.
    pub ended: Moment,
    pub steps: i64,
    pub tokens: String,
    /// What the tests prove.
    pub proof: String,
    /// From its begin to its end, or until now.
    pub took: String,
    /// From the question to its begin, or until now.
    pub waited: String,
}

impl Line {
    pub(super) fn of(row: &RunRow, now_ms: i64) -> Self {
        let outcome = row.outcome.as_deref();
        let more = match row.state.as_str() {
            "running" => words(&row.stage),
            "queued" if row.started_ms.is_some() => format!("again: {}", words(&row.stage)),
            "queued" => String::new(),
            _ if outcome == Some("proposed") => String::new(),
            _ => words(row.reason.as_deref().unwrap_or_default()),
        };
        Self {
            name: row.name().to_owned(),
            repository: row.repo_path.clone(),
            issue: row.issue,
            title: row.title.clone(),
            person: row.requested_by.clone().unwrap_or_default(),
            words: outcome_words(&row.state, outcome),
            class: outcome_class(&row.state, outcome),
            more,
            asked: Moment::of(row.queued_ms),
            ended: row.done_ms.map(Moment::of).unwrap_or_default(),
            steps: row.steps,
            tokens: number(row.tokens),
            proof: row.proof.clone().unwrap_or_default(),
            took: row.started_ms.map(|began| span(row.done_ms.unwrap_or(now_ms) - began)).unwrap_or_default(),
            waited: span(row.started_ms.or(row.done_ms).unwrap_or(now_ms) - row.queued_ms),
        }
    }
}
