//! What an examination found, one line each.

use serde::Serialize;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As it should be.
    Ok,
    /// It works, or may work, but somebody should look at it.
    Warn,
    /// Something would fail.
    Fail,
}

/// One check of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was examined: a forge's name, a forge's name with a repository, `model`, `sandbox`, `database`.
    pub subject: String,
    /// What was looked at, a stable name.
    pub check: &'static str,
    /// How it came out.
    pub status: Health,
    /// One sentence; where it is not ok, with what to do.
    pub detail: String,
}

/// Checks of one subject as they are made.
#[derive(Debug)]
pub struct Checks {
    subject: String,
    made: Vec<Check>,
}

impl Checks {
    /// None yet.
    #[must_use]
    pub fn of(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), made: Vec::new() }
    }

    /// Adds one.
    pub fn add(&mut self, check: &'static str, status: Health, detail: impl Into<String>) {
        self.made.push(Check { subject: self.subject.clone(), check, status, detail: detail.into() });
    }

    /// Adds one that is as it should be.
    pub fn ok(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, Health::Ok, detail);
    }

    /// Adds one that somebody should look at.
    pub fn warn(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, Health::Warn, detail);
    }

    /// Adds one that would fail.
    pub fn fail(&mut self, check: &'static str, detail: impl Into<String>) {
        self.add(check, Health::Fail, detail);
    }

    /// All that were made, in order.
    #[must_use]
    pub fn done(self) -> Vec<Check> {
        self.made
    }
}
