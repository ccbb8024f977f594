//! What a test turns to make the forge fail, and what it reads to know what was asked.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

/// One request that was answered. Headers, bodies and queries are not kept: they carry secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// The method.
    pub method: String,
    /// The path as it was sent, without the query.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
}

/// When a failure strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// Nothing is done.
    Before,
    /// The work is done, but the answer is lost: the asker does not know.
    After,
}

/// A failure to come.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The method, or `*`.
    pub method: String,
    /// The path, in which `*` stands for any characters.
    pub path: String,
    /// The status to answer.
    pub status: u16,
    /// How many more requests it hits.
    pub times: u32,
    /// Before or after the work.
    pub strike: Strike,
    /// Headers of the answer, for instance `Retry-After`.
    pub headers: BTreeMap<String, String>,
}

/// What happens on the forge at a moment that a test chose, once.
pub(super) struct Happening {
    /// The method, or `*`.
    pub method: String,
    /// The path, in which `*` stands for any characters.
    pub path: String,
    /// Before or after the request is answered that fits first.
    pub strike: Strike,
    /// What happens.
    pub act: Box<dyn FnOnce(&super::Forge) + Send>,
}

impl std::fmt::Debug for Happening {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Happening").field("path", &self.path).finish_non_exhaustive()
    }
}

/// All knobs and the log.
#[derive(Debug)]
pub(super) struct Knobs {
    pub drafts_supported: bool,
    pub failures: Vec<Failure>,
    pub happenings: Vec<Happening>,
    pub delays: Vec<(String, Duration)>,
    pub requests: Vec<Logged>,
    pub unexpected: Vec<String>,
    /// The request that hangs: how many come before it, when it hangs, and who hears of it.
    pub hold: Option<(usize, Strike, oneshot::Sender<()>)>,
    /// Counts the answers, for who waits for a change.
    pub answered: watch::Sender<usize>,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            drafts_supported: true,
            failures: Vec::new(),
            happenings: Vec::new(),
            delays: Vec::new(),
            requests: Vec::new(),
            unexpected: Vec::new(),
            hold: None,
            answered: watch::Sender::new(0),
        }
    }
}

impl Knobs {
    /// Whether this request is the one that hangs.
    pub fn held(&mut self) -> Option<(Strike, oneshot::Sender<()>)> {
        match self.hold.take() {
            Some((0, strike, reached)) => Some((strike, reached)),
            Some((before, strike, reached)) => {
                self.hold = Some((before - 1, strike, reached));
                None
            }
            None => None,
        }
    }

    /// Takes one hit from the first failure that fits.
    pub fn strike(&mut self, method: &str, path: &str) -> Option<Failure> {
        let fits = |failure: &&mut Failure| failure.times > 0 && fits(&failure.method, method) && fits(&failure.path, path);
        let failure = self.failures.iter_mut().find(fits)?;
        failure.times -= 1;
        Some(failure.clone())
    }

    /// What is to happen at this request, taken out.
    pub fn happening(&mut self, method: &str, path: &str, strike: Strike) -> Option<Happening> {
        let fits = |one: &Happening| one.strike == strike && fits(&one.method, method) && fits(&one.path, path);
        let position = self.happenings.iter().position(fits)?;
        Some(self.happenings.remove(position))
    }

    /// How long the answer to this path is held back.
    pub fn delay(&self, path: &str) -> Option<Duration> {
        self.delays.iter().find(|(pattern, _)| fits(pattern, path)).map(|(_, delay)| *delay)
    }
}

/// Whether a text fits a pattern in which `*` stands for any characters.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let ends = text.char_indices().map(|(index, _)| index).chain([text.len()]);
            ends.into_iter().any(|index| fits(rest, &text[index..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(fits("*/pulls", "/api/v1/repos/o/r/pulls"));
        assert!(!fits("*/pulls", "/api/v1/repos/o/r/pulls/1"));
        assert!(fits("/api/*/issues/*/labels", "/api/v1/repos/o/r/issues/3/labels"));
        assert!(fits("*", ""));
        assert!(!fits("POST", "PATCH"));
    }
}
