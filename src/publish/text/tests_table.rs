//! The project's tests before and after, in numbers.

use std::fmt::Write as _;

use crate::publish::inert::{code, inert};
use crate::publish::report::{Report, Told};

use super::count;

/// So many names of a list are shown.
const SHOWN: usize = 20;

pub(super) fn tests(report: &Report) -> String {
    let mut text = String::new();
    let Some(command) = &report.tests.command else {
        return "No way to run this project's tests was found, so none ran.\n".to_owned();
    };
    writeln!(text, "| tests | before | after |\n|---|---:|---:|").ok();
    let (before, after) = (report.tests.before.clone().unwrap_or_default(), report.tests.after.clone().unwrap_or_default());
    if before.per_test || after.per_test {
        for (name, count) in [
            ("passed", (|told: &Told| told.passed) as fn(&Told) -> usize),
            ("failed", |told| told.failed),
            ("errors", |told| told.errors),
            ("skipped", |told| told.skipped),
        ] {
            writeln!(text, "| {name} | {} | {} |", number(&before, count), number(&after, count)).ok();
        }
    }
    writeln!(text, "| exit status | {} | {} |", exit(&before), exit(&after)).ok();
    writeln!(text, "| time | {:.2} s | {:.2} s |\n", seconds(&before), seconds(&after)).ok();
    let why = report.tests.why.as_deref().unwrap_or("configured").trim_end_matches('.');
    writeln!(text, "Run as `{}` ({}).", code(command), inert(why)).ok();
    if let Some(why) = after.unavailable.as_ref().or(before.unavailable.as_ref()) {
        writeln!(text, "\nThe tests could not run: {}.", inert(why.trim_end_matches('.'))).ok();
    }
    if !report.tests.restored.is_empty() {
        text.push_str(
            "\nThe tests were judged as they are at base: changes of this patch to existing tests were put back for the judgement.\n",
        );
    }
    let reversed = report.evidence.reversed;
    if reversed > 0 {
        let failed = if reversed == 1 { "its check" } else { "their checks" };
        writeln!(text, "\n{} ran once more with {failed} reversed and did not pass, as it must be.", count(reversed, "test")).ok();
    }
    let comparison = report.comparison.clone().unwrap_or_default();
    names(&mut text, "Red without this change, green with it", &report.evidence.proving);
    names(&mut text, "Pass now and did not before", &comparison.fixed);
    names(&mut text, "New and passing", &comparison.added);
    names(&mut text, "Not passing, before and after", &comparison.still_failing);
    names(&mut text, "Not the same in every run of the same code", &report.evidence.flaky);
    text
}

fn number(told: &Told, count: fn(&Told) -> usize) -> String {
    if told.per_test { count(told).to_string() } else { "?".to_owned() }
}

fn exit(told: &Told) -> String {
    match (told.timed_out, told.exit_code) {
        (true, _) => "stopped for time".to_owned(),
        (false, Some(code)) => code.to_string(),
        (false, None) => "did not run".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a duration for people, to a hundredth of a second")]
fn seconds(told: &Told) -> f64 {
    told.duration_ms as f64 / 1000.0
}

fn names(text: &mut String, heading: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    writeln!(text, "\n<details><summary>{heading}: {}</summary>\n", names.len()).ok();
    for name in names.iter().take(SHOWN) {
        writeln!(text, "- `{}`", code(name)).ok();
    }
    if names.len() > SHOWN {
        writeln!(text, "- and {} more", names.len() - SHOWN).ok();
    }
    text.push_str("\n</details>\n");
}
