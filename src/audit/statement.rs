//! The statement on a commit: an in-toto statement (in-toto attestation framework, Statement v1) in a DSSE envelope.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Digest, Envelope, PublicKey, SigningKey};

/// The payload's type in the envelope.
pub const STATEMENT_TYPE: &str = "application/vnd.in-toto+json";

const IN_TOTO: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://frognano-bot/verdict/v1";

/// What we say of a commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Always in-toto's name of its first version.
    #[serde(rename = "_type")]
    pub of_type: String,
    /// The commit.
    pub subject: Vec<Subject>,
    /// What the predicate is.
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    /// The facts: run, issue, who asked, policy, model, preset, image, transcript and verdict.
    pub predicate: Value,
}

/// What a statement is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// `git+` and the address of the repository.
    pub name: String,
    /// The commit, as in-toto names its digest.
    pub digest: SubjectDigest,
}

/// The digest of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectDigest {
    /// The full object id.
    #[serde(rename = "gitCommit")]
    pub git_commit: String,
}

impl Statement {
    /// About a commit of a repository.
    #[must_use]
    pub fn about(repository: &str, commit: &str, predicate: Value) -> Self {
        let subject = Subject { name: format!("git+{repository}"), digest: SubjectDigest { git_commit: commit.to_owned() } };
        Self { of_type: IN_TOTO.to_owned(), subject: vec![subject], predicate_type: PREDICATE.to_owned(), predicate }
    }

    /// Signs it.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn sign(&self, key: &SigningKey) -> Result<Envelope, serde_json::Error> {
        key.sign(STATEMENT_TYPE, self)
    }

    /// Reads a signed one.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn open(envelope: &Envelope, key: &PublicKey) -> Result<Self, String> {
        let statement: Self = envelope.open(STATEMENT_TYPE, key)?;
        if statement.of_type != IN_TOTO || statement.predicate_type != PREDICATE {
            return Err(format!("it is a {} about {}, which this program does not know", statement.of_type, statement.predicate_type));
        }
        Ok(statement)
    }

    /// The commit that it is about.
    #[must_use]
    pub fn commit(&self) -> Option<&str> {
        self.subject.first().map(|subject| subject.digest.git_commit.as_str())
    }

    /// A digest that the predicate names.
    #[must_use]
    pub fn digest(&self, name: &str) -> Option<Digest> {
        Digest::parse(self.predicate.get(name)?.as_str()?)
    }
}
