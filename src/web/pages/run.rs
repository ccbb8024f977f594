//! The page of one run: what was asked, what was done, what it came to, and what the chain holds of it.

use std::collections::HashMap;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;

use super::diff::{self, FileDiff, Found};
use super::errors::{absent, unavailable};
use super::frame::{Frame, show, within};
use super::line::Line;
use super::plots::{self, Piece};
use super::steps::{self, Attempt};
use super::text::{Moment, cut, link, number, outcome_sentence, short_span, words};
use crate::audit::Who;
use crate::domain::Kept;
use crate::publish::report::{Report, Told};
use crate::store::{ChainRow, Fate, RunDetail, StoreError};
use crate::web::journals::{MOST_ATTEMPTS, journals, patch};
use crate::web::{Door, Viewer};

/// So many names of a list of tests are shown.
const MOST_NAMES: usize = 100;

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    frame: Frame,
    line: Line,
    is_active: bool,
    may_cancel: bool,
    may_retry: bool,
    cancel: Option<String>,
    sentence: &'static str,
    detail: String,
    issue_url: Option<String>,
    pull_request: Option<String>,
    title: String,
    body: String,
    /// The command or review that it comes from.
    origin: Option<String>,
    /// What became of its pull request; empty where it opened none.
    became: String,
    /// The word of who found the verdict wrong.
    wrong: Option<String>,
    leases: i64,
    /// The id of its trace, and the trace's page.
    trace: Option<(String, Option<String>)>,
    tokens: String,
    version: String,
    stages: Vec<Piece>,
    report: Report,
    tests: Vec<[String; 3]>,
    tests_note: Option<String>,
    names: Vec<Names>,
    findings: Vec<Found>,
    files: Vec<FileDiff>,
    is_cut: bool,
    has_patch: bool,
    attempts: Vec<Attempt>,
    chain: Vec<ChainLine>,
    chain_holds: bool,
    others: Vec<Line>,
}

/// A list of tests.
struct Names {
    what: &'static str,
    is_bad: bool,
    names: Vec<String>,
    more: usize,
}

/// A row of the chain.
pub(super) struct ChainLine {
    pub number: i64,
    pub at: Moment,
    pub kind: String,
    pub who: String,
    pub facts: String,
    pub run: Option<String>,
    pub holds: bool,
}

impl ChainLine {
    pub(super) fn of(row: &ChainRow) -> Self {
        let who = match (&row.event.who, &row.person) {
            (_, Some(person)) => person.clone(),
            (Who::Person(pseudonym), None) => format!("{pseudonym} (forgotten)"),
            (who, None) => who.to_string(),
        };
        Self {
            number: row.number,
            at: Moment::of(row.event.at_ms),
            kind: words(&row.event.kind.name()),
            who,
            facts: cut(&row.event.facts.to_string(), 2000),
            run: row.run.clone(),
            holds: row.holds,
        }
    }

    /// The same with its number in the run: the number in the chain counts what went on elsewhere.
    fn within_its_run(row: &ChainRow) -> Self {
        Self { number: row.nth.unwrap_or(0), ..Self::of(row) }
    }
}

/// What is known of a run's work.
#[derive(Default)]
struct Work {
    attempts: Vec<Attempt>,
    patch: Option<Vec<u8>>,
}

pub(super) async fn page(State(door): State<Door>, viewer: Viewer, Path(name): Path<String>) -> Response {
    let found = match door.store.run_detail(&name, within(&viewer).as_deref()).await {
        Ok(Some(found)) => found,
        Ok(None) => return absent("there is no run of this name, or you may not see its repository"),
        Err(error) => return unavailable(&error),
    };
    match filled(&door, &viewer, found).await {
        Ok(page) => show(&page),
        Err(error) => unavailable(&error),
    }
}

async fn filled(door: &Door, viewer: &Viewer, found: RunDetail) -> Result<RunPage, StoreError> {
    let now_ms = door.clock.now_ms();
    let run = found.row.run.clone().unwrap_or_default();
    let records = door.store.records_of_run(&run).await?.into_iter().collect::<HashMap<_, _>>();
    let work = if records.keys().any(|kind| kind.starts_with("trajectory-")) {
        kept(records)
    } else {
        going_on(door, &run, found.checkpoint.tried.len()).await?
    };
    let chain = door.store.chain_of_run(&run).await?;
    let fate = door.store.fate(&run).await?;
    let report = found.report.as_deref().map(report).unwrap_or_default();
    let stages = if report.stage_ms.is_empty() { &found.checkpoint.stage_ms } else { &report.stage_ms };
    let (before, after) = tests_of(&report, &found);
    let shown = String::from_utf8_lossy(work.patch.as_deref().unwrap_or_default()).into_owned();
    let (files, is_cut) = diff::files(&shown, &report.findings);
    let is_active = found.row.state != "done";
    let outcome = found.row.outcome.as_deref();
    let is_proposed = outcome == Some("proposed");
    let spent = work.attempts.iter().map(|attempt| attempt.tokens).sum::<i64>().max(found.row.tokens);
    let frame = Frame::of(door, viewer, "runs");
    let sees_all = frame.is_auditor;
    Ok(RunPage {
        frame,
        line: Line::of(&found.row, now_ms),
        is_active,
        may_cancel: is_active && found.cancel.is_none(),
        may_retry: !is_active,
        cancel: found.cancel.as_ref().filter(|_| is_active).map(|cancel| cancel.why.clone()),
        sentence: outcome_sentence(&found.row.state, outcome),
        detail: if is_proposed { String::new() } else { found.row.detail.clone().unwrap_or_default() },
        issue_url: link(&found.issue_url),
        pull_request: found.row.detail.as_deref().filter(|_| is_proposed).and_then(link),
        title: found.text.title.clone(),
        body: cut(&found.text.body, 20_000),
        origin: found.origin.as_ref().map(|origin| match &origin.round {
            Some(round) => format!("round {} on pull request {}, asked by {}", round.number, round.pull_request, origin.by.login),
            None => format!("asked by {}", origin.by.login),
        }),
        became: fate.as_ref().map(became).unwrap_or_default(),
        wrong: fate.and_then(|fate| fate.wrong),
        leases: found.leases,
        trace: door.pages.trace_of(&found.row.id),
        tokens: number(spent),
        version: format!("{} {}", found.row.stage, found.row.steps),
        stages: plots::bar(stages),
        tests: before_and_after(&before, &after),
        tests_note: after.unavailable.clone().or_else(|| before.unavailable.clone()),
        names: names(&report),
        findings: report.findings.iter().map(Found::of).collect(),
        has_patch: !files.is_empty(),
        files,
        is_cut,
        attempts: work.attempts,
        chain_holds: chain.iter().all(|row| row.holds),
        chain: chain.iter().map(|row| if sees_all { ChainLine::of(row) } else { ChainLine::within_its_run(row) }).collect(),
        others: door.store.runs_of_issue(&found.row).await?.iter().map(|row| Line::of(row, now_ms)).collect(),
        report,
    })
}

/// The report of a run; an empty one in place of one that can't be read.
fn report(text: &str) -> Report {
    serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::warn!(%error, "the report of a run can't be read, and is not shown");
        Report::default()
    })
}

/// What became of a pull request, in words.
fn became(fate: &Fate) -> String {
    let changed = match fate.lines_changed {
        Some(0) => ", unchanged".to_owned(),
        Some(lines) => format!(", after people changed {lines} lines"),
        None => String::new(),
    };
    match (fate.became.as_str(), fate.reverted) {
        ("merged", true) => format!("merged{changed}, and reverted since"),
        ("merged", false) => format!("merged{changed}"),
        (other, _) => other.to_owned(),
    }
}

/// The work of a run that has ended, from what is kept for the audit.
fn kept(mut records: HashMap<String, Vec<u8>>) -> Work {
    let attempt = |number: usize| steps::from_record(number, records.get(&format!("trajectory-{number}"))?);
    let attempts = (1..=MOST_ATTEMPTS).filter_map(attempt).collect();
    Work { attempts, patch: records.remove("patch") }
}

/// The work of a run that goes on, or whose records were erased.
async fn going_on(door: &Door, run: &str, tried: usize) -> Result<Work, StoreError> {
    let journals = journals(door, run, tried).await?;
    let attempts = journals.iter().filter_map(|(number, journal)| steps::from_journal(*number, journal)).collect();
    Ok(Work { attempts, patch: patch(door, run).await })
}

fn tests_of(report: &Report, found: &RunDetail) -> (Told, Told) {
    let kept = |kept: &Option<Kept>| kept.as_ref().map(Told::of);
    let before = report.tests.before.clone().or_else(|| kept(&found.checkpoint.tests_before));
    let after = report.tests.after.clone().or_else(|| kept(&found.checkpoint.tests_after));
    (before.unwrap_or_default(), after.unwrap_or_default())
}

/// The rows of the table of tests; none where no test ran.
fn before_and_after(before: &Told, after: &Told) -> Vec<[String; 3]> {
    let ran = |told: &Told| told.duration_ms > 0 || told.exit_code.is_some() || told.timed_out;
    if !ran(before) && !ran(after) {
        return Vec::new();
    }
    let exit = |told: &Told| match told.exit_code {
        _ if !ran(told) => "–".to_owned(),
        Some(status) => status.to_string(),
        None => "stopped for time".to_owned(),
    };
    let time = |told: &Told| if ran(told) { short_span(i64::try_from(told.duration_ms).unwrap_or(0)) } else { "–".to_owned() };
    let count = |told: &Told, of: fn(&Told) -> usize| if told.per_test { of(told).to_string() } else { "–".to_owned() };
    let row = |name: &str, of: fn(&Told) -> usize| [name.to_owned(), count(before, of), count(after, of)];
    let mut rows = vec![
        row("passed", |told| told.passed),
        row("failed", |told| told.failed),
        row("errors", |told| told.errors),
        row("skipped", |told| told.skipped),
    ];
    rows.push(["exit status".to_owned(), exit(before), exit(after)]);
    rows.push(["time".to_owned(), time(before), time(after)]);
    rows
}

fn names(report: &Report) -> Vec<Names> {
    let comparison = report.comparison.clone().unwrap_or_default();
    let lists = [
        ("Passed before and not after", true, &comparison.broken),
        ("Red without the change, green with it", false, &report.evidence.proving),
        ("Pass now and did not before", false, &comparison.fixed),
        ("New and passing", false, &comparison.added),
        ("Not passing, before and after", true, &comparison.still_failing),
        ("Pass only in the form that the patch gave them", true, &report.evidence.changed_expectations),
        ("Not the same in every run", true, &report.evidence.flaky),
        ("Changed by the patch and put back for the judgement", false, &report.tests.restored),
    ];
    let made = lists.into_iter().filter(|(_, _, all)| !all.is_empty()).map(|(what, is_bad, all)| Names {
        what,
        is_bad,
        names: all.iter().take(MOST_NAMES).map(|name| name.chars().take(300).collect()).collect(),
        more: all.len().saturating_sub(MOST_NAMES),
    });
    made.collect()
}
