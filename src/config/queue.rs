//! `[queue]`: how much runs at once, and whose jobs come first.

use serde::Deserialize;

/// `[queue]`; 0 stands for no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// Runs at once, over all workers.
    pub in_all: u32,
    /// Runs at once on one forge.
    pub per_forge: u32,
    /// Runs at once in one repository.
    pub per_repository: u32,
    /// Runs at once for one person.
    pub per_person: u32,
    /// Runs that begin within one day (UTC) in one repository; more wait for the next day.
    pub daily_per_repository: u32,
    /// Runs that begin within one day (UTC) for one person; more wait for the next day.
    pub daily_per_person: u32,
    /// Pull requests of the bot that are open in one repository: with so many, no further run begins there until people have looked at some. A further
    /// round of an open one is not held up.
    pub open_per_repository: u32,
    /// Whose jobs come earlier; the first line that names a repository counts.
    pub priority: Vec<Priority>,
}

/// One line of `[[queue.priority]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Priority {
    /// A repository's path, or `group/*` for all below a group.
    pub repositories: String,
    /// Higher is earlier; others have 0.
    pub level: i32,
}
