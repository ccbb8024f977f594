//! How the repositories fare: what comes out, what it costs, and what fails.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;

use super::errors::{unavailable, wrong};
use super::frame::{Frame, show, within};
use super::plots::{self, Column, Share};
use super::text::{Moment, number, outcome_words, span, words};
use crate::store::{Day, Fates, Sums, Tally};
use crate::web::{Door, Viewer};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The lengths of time that can be chosen, in days.
const WINDOWS: [i64; 3] = [7, 30, 90];
/// So many reasons of what fails are shown.
const MOST_REASONS: usize = 12;

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    days: Option<i64>,
}

#[derive(Template)]
#[template(path = "repositories.html")]
struct RepositoriesPage {
    frame: Frame,
    days: i64,
    windows: [i64; 3],
    repositories: Vec<Fares>,
    columns: Vec<Column>,
    width: i64,
    first: String,
    last: String,
    failures: Vec<Failure>,
}

/// How one repository fares.
#[derive(Debug, Default)]
struct Fares {
    path: String,
    runs: i64,
    proposed: i64,
    share: i64,
    proofs: Vec<(String, i64)>,
    fates: Option<Fates>,
    /// Of those that ended, in hundredths.
    merge_rate: String,
    /// Of the merged ones, in hundredths.
    revert_rate: String,
    review_wait: String,
    queue_wait: String,
    minutes: String,
    tokens: String,
    tokens_each: String,
}

/// What fails, and how often.
#[derive(Debug)]
struct Failure {
    outcome: &'static str,
    reason: String,
    runs: i64,
    share: i64,
    /// The repository with most of them.
    most_in: String,
}

pub(super) async fn page(State(door): State<Door>, viewer: Viewer, Query(wanted): Query<Wanted>) -> Response {
    let days = wanted.days.unwrap_or(30);
    if !WINDOWS.contains(&days) {
        return wrong("days: 7, 30 or 90");
    }
    let today = door.clock.now_ms() / DAY_MS;
    let first = today - days + 1;
    let sums = match door.store.sums(first * DAY_MS, within(&viewer).as_deref()).await {
        Ok(sums) => sums,
        Err(error) => return unavailable(&error),
    };
    let columns = plots::columns(&by_day(&sums.days, first, today));
    show(&RepositoriesPage {
        frame: Frame::of(&door, &viewer, "repositories"),
        days,
        windows: WINDOWS,
        width: i64::try_from(columns.len()).unwrap_or(0) * 10,
        first: day_name(first),
        last: day_name(today),
        columns,
        repositories: fares(&sums),
        failures: failures(&sums.tallies),
    })
}

fn day_name(day: i64) -> String {
    Moment::of(day * DAY_MS).shown.chars().take(10).collect()
}

/// The parts of each day, those without a run included.
fn by_day(days: &[Day], first: i64, last: i64) -> Vec<(String, Vec<Share>)> {
    let kinds = [("proposed", "good"), ("no_patch", "plain"), ("refused", "warn"), ("abandoned", "bad"), ("cancelled", "waits")];
    let count = |day: i64, outcome: &str| days.iter().filter(|row| row.day == day && row.outcome == outcome).map(|row| row.runs).sum();
    let parts = |day| kinds.map(|(outcome, class)| (outcome_words("done", Some(outcome)), class, count(day, outcome))).to_vec();
    (first..=last).map(|day| (day_name(day), parts(day))).collect()
}

fn fares(sums: &Sums) -> Vec<Fares> {
    let mut by_repository = BTreeMap::<&str, Vec<&Tally>>::new();
    for tally in &sums.tallies {
        by_repository.entry(&tally.repository).or_default().push(tally);
    }
    let mut all = by_repository
        .into_iter()
        .map(|(name, tallies)| of_one(&tallies, sums.fates.iter().find(|fates| fates.repository == name)))
        .collect::<Vec<_>>();
    all.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.path.cmp(&b.path)));
    all
}

fn of_one(tallies: &[&Tally], fates: Option<&Fates>) -> Fares {
    let sum = |of: fn(&Tally) -> i64| tallies.iter().map(|tally| of(tally)).sum::<i64>();
    let (runs, tokens, worked_ms) = (sum(|tally| tally.runs), sum(|tally| tally.tokens), sum(|tally| tally.worked_ms));
    let proposals = tallies.iter().filter(|tally| tally.outcome == "proposed");
    let proposed = proposals.clone().map(|tally| tally.runs).sum::<i64>();
    let mut proofs = BTreeMap::<String, i64>::new();
    for tally in proposals {
        *proofs.entry(tally.proof.clone().unwrap_or_else(|| "not known".to_owned())).or_default() += tally.runs;
    }
    let rate = |part: i64, of: i64| if of == 0 { "–".to_owned() } else { format!("{} %", part * 100 / of) };
    let ended = fates.map_or(0, |fates| fates.merged + fates.closed);
    let mean = |sum: i64, of: i64| if of == 0 { "–".to_owned() } else { span(sum / of) };
    Fares {
        path: tallies.first().map(|tally| tally.path.clone()).unwrap_or_default(),
        runs,
        proposed,
        share: proposed * 100 / runs.max(1),
        proofs: proofs.into_iter().collect(),
        merge_rate: rate(fates.map_or(0, |fates| fates.merged), ended),
        revert_rate: fates.map_or_else(|| "–".to_owned(), |fates| rate(fates.reverted, fates.merged)),
        review_wait: mean(fates.map_or(0, |fates| fates.ended_after_ms), ended),
        fates: fates.cloned(),
        queue_wait: mean(sum(|tally| tally.waited_ms), runs),
        minutes: number(worked_ms / 60_000),
        tokens: number(tokens),
        tokens_each: if proposed == 0 { "–".to_owned() } else { number(tokens / proposed) },
    }
}

fn failures(tallies: &[Tally]) -> Vec<Failure> {
    let failed = tallies.iter().filter(|tally| matches!(tally.outcome.as_str(), "refused" | "no_patch" | "abandoned"));
    let mut by_reason = BTreeMap::<(&str, &str), Vec<&Tally>>::new();
    for tally in failed {
        by_reason.entry((&tally.outcome, &tally.reason)).or_default().push(tally);
    }
    let runs = |tallies: &[&Tally]| tallies.iter().map(|tally| tally.runs).sum::<i64>();
    let all = by_reason.values().map(|tallies| runs(tallies)).sum::<i64>().max(1);
    let mut failures = by_reason
        .into_iter()
        .map(|((outcome, reason), tallies)| Failure {
            outcome: outcome_words("done", Some(outcome)),
            reason: words(reason),
            runs: runs(&tallies),
            share: runs(&tallies) * 100 / all,
            most_in: tallies.iter().max_by_key(|tally| tally.runs).map(|tally| tally.path.clone()).unwrap_or_default(),
        })
        .collect::<Vec<_>>();
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.runs));
    failures.truncate(MOST_REASONS);
    failures
}
