//! Reads a JUnit report out of a sandbox: untrusted bytes that the judged code may have written itself.
//!
//! What must hold: anything odd is an error and so "no result": never green, never a panic, never more memory than the report is long.
//! The totals must be those of the rows: `failures`, `errors` and `skipped` count the marks, `tests` the rows.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::domain::{TestCase, TestResult};

/// The largest report that is read, in bytes.
pub const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The most rows that are read.
const MAX_ROWS: usize = 200_000;
/// The deepest element that is read; pytest needs five.
const MAX_DEPTH: usize = 32;
/// The longest name of a test, in bytes.
const MAX_NAME: usize = 16 * 1024;

/// The tests of a report in order; of several marks of one test the worst counts, and a name that stands there twice is odd.
///
/// # Errors
/// What is odd about the report, one sentence.
pub fn parse(bytes: &[u8]) -> Result<Vec<TestCase>, String> {
    if u64::try_from(bytes.len()).is_ok_and(|size| size > MAX_BYTES) {
        return Err(format!("the report is larger than {MAX_BYTES} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| format!("the report is not UTF-8: {error}"))?;
    let mut reading = Reading::default();
    let mut reader = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    loop {
        let event = reader.read_event().map_err(|error| format!("the report is no XML: {}", shortened(&error)))?;
        if matches!(event, Event::Eof) {
            return reading.end();
        }
        reading.take(event)?;
    }
}

fn shortened(error: &dyn std::fmt::Display) -> String {
    error.to_string().chars().take(200).collect()
}

#[derive(Default)]
struct Reading {
    depth: usize,
    has_root: bool,
    suites: Vec<Suite>,
    rows: Vec<Row>,
    case_depth: Option<usize>,
}

/// A suite that is open: what it says of itself, and where its rows start.
struct Suite {
    depth: usize,
    first_row: usize,
    totals: BTreeMap<String, usize>,
}

struct Row {
    name: String,
    failures: usize,
    errors: usize,
    skips: usize,
    exception: Option<String>,
    ms: u64,
}

impl Row {
    const fn result(&self) -> TestResult {
        match self {
            Self { errors: 1.., .. } => TestResult::Error,
            Self { failures: 1.., .. } => TestResult::Failed,
            Self { skips: 1.., .. } => TestResult::Skipped,
            _ => TestResult::Passed,
        }
    }
}

impl Reading {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(element) => {
                self.open(&element)?;
                self.depth += 1;
                Ok(())
            }
            Event::Empty(element) => {
                self.open(&element)?;
                self.close()
            }
            Event::End(_) => {
                self.depth = self.depth.checked_sub(1).ok_or("the report closes an element that is not open")?;
                self.close()
            }
            Event::Decl(declaration) => match declaration.encoding() {
                None => Ok(()),
                Some(Ok(encoding)) if encoding.eq_ignore_ascii_case("utf-8") => Ok(()),
                Some(_) => Err("the report says that it is not UTF-8".to_owned()),
            },
            Event::DocType(_) => Err("the report has a document type, and may define entities".to_owned()),
            Event::GeneralRef(reference) if !is_harmless(&reference) => Err("the report uses an entity that XML does not know".to_owned()),
            Event::Text(text) if self.depth == 0 && !text.trim().is_empty() => {
                Err("the report has text outside of its elements".to_owned())
            }
            Event::CData(_) | Event::GeneralRef(_) if self.depth == 0 => Err("the report has text outside of its elements".to_owned()),
            _ => Ok(()),
        }
    }

    fn open(&mut self, element: &BytesStart<'_>) -> Result<(), String> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("the report is nested deeper than {MAX_DEPTH} elements"));
        }
        let name = element.name();
        let name: &str = name.as_ref();
        if self.depth == 0 && (self.has_root || !matches!(name, "testsuites" | "testsuite")) {
            return Err("the report is not one element testsuites or testsuite".to_owned());
        }
        self.has_root = true;
        let attributes = attributes(element)?;
        match name {
            "testsuites" | "testsuite" if self.case_depth.is_none() => self.open_suite(&attributes),
            "testsuites" | "testsuite" => Err("the report has a suite inside of a test".to_owned()),
            "testcase" => self.open_case(&attributes),
            mark => {
                if let Some(row) = self.rows.last_mut().filter(|_| self.case_depth.is_some_and(|depth| self.depth == depth + 1)) {
                    row.failures += usize::from(mark == "failure");
                    row.errors += usize::from(mark == "error");
                    row.skips += usize::from(mark == "skipped");
                    if matches!(mark, "failure" | "error") {
                        row.exception = row.exception.take().or_else(|| exception(&attributes));
                    }
                }
                Ok(())
            }
        }
    }

    fn open_suite(&mut self, attributes: &BTreeMap<String, String>) -> Result<(), String> {
        let mut totals = BTreeMap::new();
        for (name, value) in attributes.iter().filter(|(name, _)| matches!(name.as_str(), "tests" | "failures" | "errors" | "skipped")) {
            let total = value.parse().map_err(|_| format!("the report's total {name} is no number"))?;
            totals.insert(name.clone(), total);
        }
        self.suites.push(Suite { depth: self.depth, first_row: self.rows.len(), totals });
        Ok(())
    }

    fn open_case(&mut self, attributes: &BTreeMap<String, String>) -> Result<(), String> {
        if self.case_depth.is_some() {
            return Err("the report has a test inside of a test".to_owned());
        }
        if self.suites.is_empty() {
            return Err("the report has a test outside of a suite".to_owned());
        }
        if self.rows.len() >= MAX_ROWS {
            return Err(format!("the report has more than {MAX_ROWS} rows"));
        }
        let name = attributes.get("name").filter(|name| !name.is_empty()).ok_or("the report has a test without a name")?;
        let name = match attributes.get("classname").filter(|class| !class.is_empty()) {
            Some(class) => format!("{class}::{name}"),
            None => name.clone(),
        };
        if name.len() > MAX_NAME {
            return Err(format!("the report has a name of more than {MAX_NAME} bytes"));
        }
        let ms = attributes.get("time").map_or(0, |seconds| milliseconds(seconds));
        self.rows.push(Row { name, failures: 0, errors: 0, skips: 0, exception: None, ms });
        self.case_depth = Some(self.depth);
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        if self.case_depth == Some(self.depth) {
            self.case_depth = None;
        }
        match self.suites.pop_if(|suite| suite.depth == self.depth) {
            Some(suite) => compare_totals(&suite, &self.rows[suite.first_row..]),
            None => Ok(()),
        }
    }

    fn end(self) -> Result<Vec<TestCase>, String> {
        if !self.has_root {
            return Err("the report is empty".to_owned());
        }
        if self.depth != 0 {
            return Err("the report ends in the middle".to_owned());
        }
        let mut cases = BTreeMap::new();
        for row in self.rows {
            let case = TestCase { result: row.result(), name: row.name, exception: row.exception, ms: row.ms };
            if let Some(other) = cases.insert(case.name.clone(), case) {
                return Err(format!("the report has two rows for {:?}", shortened(&other.name)));
            }
        }
        Ok(cases.into_values().collect())
    }
}

/// A time in seconds; 0 for what is none.
fn milliseconds(seconds: &str) -> u64 {
    seconds
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(0))
}

/// The type of an exception, where it looks like one.
fn exception(attributes: &BTreeMap<String, String>) -> Option<String> {
    let is_name = |name: &&String| name.len() <= 200 && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    attributes.get("type").filter(|name| !name.is_empty()).filter(is_name).cloned()
}

fn compare_totals(suite: &Suite, rows: &[Row]) -> Result<(), String> {
    let sum = |of: fn(&Row) -> usize| rows.iter().map(of).sum::<usize>();
    let counted = [
        ("tests", rows.len()),
        ("failures", sum(|row| row.failures)),
        ("errors", sum(|row| row.errors)),
        ("skipped", sum(|row| row.skips)),
    ];
    for (what, count) in counted {
        if let Some(total) = suite.totals.get(what).filter(|total| **total != count) {
            return Err(format!("the report contradicts itself: it says {total} {what} and has {count}"));
        }
    }
    Ok(())
}

fn attributes(element: &BytesStart<'_>) -> Result<BTreeMap<String, String>, String> {
    let read = |attribute: Result<quick_xml::events::attributes::Attribute<'_>, _>| {
        let attribute = attribute.map_err(|error| format!("the report has a broken attribute: {}", shortened(&error)))?;
        let value = attribute
            .normalized_value(XmlVersion::Explicit1_0)
            .map_err(|error| format!("the report has a broken attribute: {}", shortened(&error)))?;
        Ok((attribute.key.as_ref().to_owned(), value.into_owned()))
    };
    element.attributes().map(read).collect()
}

fn is_harmless(reference: &str) -> bool {
    reference.starts_with('#') || matches!(reference, "lt" | "gt" | "amp" | "apos" | "quot")
}

#[cfg(test)]
#[path = "junit_tests.rs"]
mod tests;
