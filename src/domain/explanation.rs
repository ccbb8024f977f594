//! The answer to "why did the bot not react?", for one delivery.

use serde::Serialize;

use super::{Event, Verb};

/// What a delivery came to, in the words that an administrator gets. What isn't known is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Whether a configured secret is proved to stand behind it.
    pub verified: bool,
    /// The forge's name of the event.
    pub event: String,
    /// The name of a [`Verb`].
    pub verb: String,
    /// Why that verb.
    pub why: String,
    /// The repository's path.
    pub repository: Option<String>,
    /// The number of the issue or pull request.
    pub issue: Option<i64>,
    /// The login of who caused it.
    pub actor: Option<String>,
}

impl Explanation {
    /// Explains a delivery of this event, read or unreadable for this reason: what can't be read is ignored.
    #[must_use]
    pub fn of(verified: bool, event: &str, read: Result<&Event, &str>) -> Self {
        let (verb, why) = match read {
            Ok(event) => (event.verb, event.why.clone()),
            Err(why) => (Verb::Ignore, format!("the delivery can't be read: {why}")),
        };
        let read = read.ok();
        Self {
            verified,
            event: event.to_owned(),
            verb: verb.name().to_owned(),
            why,
            repository: read.and_then(|event| event.repository.as_ref()).map(|repository| repository.path.clone()),
            issue: read.and_then(|event| event.trigger.as_ref()).map(|trigger| trigger.number),
            actor: read.and_then(|event| event.actor.as_ref()).map(|actor| actor.login.clone()),
        }
    }
}
