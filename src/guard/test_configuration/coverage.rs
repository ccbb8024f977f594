//! What a change of coverage's settings means.

use super::Weighed;
use super::settings::Settings;
use crate::domain::Severity::{Flag, Refuse};

/// The share of the code, in percent, that must be covered.
pub(super) fn bar(settings: &Settings) -> f64 {
    settings.text("report.fail_under").parse().unwrap_or(0.0)
}

pub(super) fn weigh(was: &Settings, is: &Settings) -> Vec<Weighed> {
    let mut weighed = Vec::new();
    if bar(is) < bar(was) {
        weighed.push((Refuse, format!("fail_under of coverage was {} and is {}", bar(was), bar(is))));
    } else if bar(is) > bar(was) {
        weighed.push((Flag, "fail_under of coverage is higher than before".to_owned()));
    }
    for key in ["run.omit", "report.omit", "run.plugins", "run.include", "report.include", "run.source", "run.source_pkgs"] {
        let (old, new) = (was.get(key), is.get(key));
        let more = new.iter().any(|one| !old.contains(one));
        let fewer = old.iter().any(|one| !new.contains(one));
        let narrows =
            if key.ends_with("omit") || key.ends_with("plugins") { more } else { more && old.is_empty() && !was.0.is_empty() || fewer };
        if narrows && (bar(was) + bar(is) > 0.0 || key == "run.plugins") {
            weighed.push((Refuse, format!("{} of coverage leaves out code, or loads some", key.rsplit('.').next().unwrap_or(key))));
        }
    }
    for key in ["report.exclude_lines", "report.exclude_also", "report.partial_branches"] {
        let new = is.get(key).iter().filter(|one| !was.get(key).contains(one));
        let broad = |pattern: &str| {
            pattern.len() < 4
                || pattern.trim_matches(['^', '$', '.', '*', ' ', '\\', 's']).len() < 3
                || matches!(pattern.trim(), "def" | "class" | "return" | "pass" | "raise" | "else")
        };
        if new.into_iter().any(|pattern| broad(pattern)) {
            weighed.push((Refuse, format!("{} of coverage leaves out nearly every line", key.rsplit('.').next().unwrap_or(key))));
        }
    }
    if matches!(was.text("run.branch").as_str(), "true" | "1" | "yes") && !matches!(is.text("run.branch").as_str(), "true" | "1" | "yes") {
        weighed.push((Refuse, "branch of coverage is no longer measured".to_owned()));
    }
    weighed
}
