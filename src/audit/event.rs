//! What is written down of something that happened.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Digest;

/// What happened; the names stay for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A verified delivery was written down.
    Delivery,
    /// A job was put into the queue.
    JobMade,
    /// A worker took the job.
    JobClaimed,
    /// The job is tied to the act that asked for it.
    Asked,
    /// The job went back into the queue.
    JobPutBack,
    /// A stage began.
    Stage,
    /// A rule of policy was applied: who may ask, which tests and limits hold.
    Policy,
    /// The walls of a sandbox were tried.
    Sandbox,
    /// A turn of the model: what it said, which tools it called, what they answered.
    Turn,
    /// An attempt ended.
    Attempt,
    /// The rules and the tests spoke of a patch.
    Verdict,
    /// Something was written on the forge, or was to be.
    ForgeWrite,
    /// A run ended.
    RunEnded,
    /// A pull request's human review was looked at and changed.
    Review,
    /// What became of a pull request.
    Fate,
    /// A person said that a verdict was wrong.
    FalseGreen,
    /// The end of a job was asked for.
    CancelAsked,
    /// A command or another word of a person was answered.
    Answered,
    /// The service started with another configuration.
    Configuration,
    /// An operator did something.
    Operator,
    /// Somebody signed in or out, or was refused.
    Access,
    /// Texts of a run were erased.
    Erased,
    /// A person was forgotten.
    Forgotten,
}

impl Kind {
    /// The stable name.
    #[must_use]
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "name")]
pub enum Who {
    /// This service.
    Service,
    /// The model.
    Model,
    /// Code that ran in a sandbox.
    Sandbox,
    /// A person, by the pseudonym that the database keeps for them.
    Person(String),
    /// Who holds the operator's key or sits at the machine, by the name they gave.
    Operator(String),
}

impl fmt::Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service => out.write_str("service"),
            Self::Model => out.write_str("model"),
            Self::Sandbox => out.write_str("sandbox"),
            Self::Person(name) => write!(out, "person {name}"),
            Self::Operator(name) => write!(out, "operator {name}"),
        }
    }
}

/// An event as it is hashed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The clock on the wall, in milliseconds since the Unix epoch. Somebody may set it back.
    pub at_ms: i64,
    /// The life of the process that wrote it.
    pub process: String,
    /// Milliseconds since that life began, by a clock that nobody sets.
    pub ticks_ms: u64,
    /// What happened.
    pub kind: Kind,
    /// Who did it.
    pub who: Who,
    /// The repository, `forge/id`.
    pub repository: Option<String>,
    /// The issue or pull request.
    pub number: Option<i64>,
    /// The job.
    pub job: Option<String>,
    /// The facts: names, numbers and hashes.
    pub facts: Value,
}

/// Something to write down; the time is put to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// What happened.
    pub kind: Kind,
    /// Who did it, where it was no person.
    pub who: Who,
    /// The person who did it: the forge, and the login there.
    pub person: Option<(String, String)>,
    /// The run that it belongs to.
    pub run: Option<String>,
    /// The repository, `forge/id`.
    pub repository: Option<String>,
    /// The issue or pull request.
    pub number: Option<i64>,
    /// The job.
    pub job: Option<String>,
    /// The facts: names, numbers and hashes.
    pub facts: Value,
    /// A second event of this name is the same one told again, and is not written.
    pub once: Option<String>,
}

impl Note {
    /// Of the service itself, about nothing in particular.
    #[must_use]
    pub fn new(kind: Kind, facts: Value) -> Self {
        Self { kind, who: Who::Service, person: None, run: None, repository: None, number: None, job: None, facts, once: None }
    }

    /// The same of somebody else.
    #[must_use]
    pub fn by(self, who: Who) -> Self {
        Self { who, ..self }
    }

    /// The same of a person.
    #[must_use]
    pub fn by_person(self, forge: &str, login: &str) -> Self {
        Self { person: Some((forge.to_owned(), login.to_owned())), ..self }
    }

    /// The same about a repository, `forge/id`, and an issue or pull request of it.
    #[must_use]
    pub fn about(self, repository: String, number: Option<i64>) -> Self {
        Self { repository: Some(repository), number, ..self }
    }

    /// The same about a job.
    #[must_use]
    pub fn of_job(self, job: &str) -> Self {
        Self { job: Some(job.to_owned()), ..self }
    }

    /// The same about a run.
    #[must_use]
    pub fn of_run(self, run: &str) -> Self {
        Self { run: Some(run.to_owned()), ..self }
    }

    /// The same, told once.
    #[must_use]
    pub fn once(self, name: String) -> Self {
        Self { once: Some(name), ..self }
    }

    /// The event, now.
    #[must_use]
    pub fn now(&self, at_ms: i64, life: &Life) -> Event {
        Event {
            at_ms,
            process: life.process.clone(),
            ticks_ms: u64::try_from(life.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            kind: self.kind,
            who: self.who.clone(),
            repository: self.repository.clone(),
            number: self.number,
            job: self.job.clone(),
            facts: self.facts.clone(),
        }
    }
}

/// The life of this process, from its start on.
#[derive(Debug, Clone)]
pub struct Life {
    process: String,
    began: Instant,
}

impl Life {
    /// A life that begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self { process: uuid::Uuid::now_v7().simple().to_string(), began: Instant::now() }
    }
}

impl Event {
    /// The hash that its row holds.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Digest::of_value(self)
    }
}
