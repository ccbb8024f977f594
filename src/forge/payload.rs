//! Reading a payload: the fields we use by name, all others ignored, and complaints that say which field was wrong.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::OwnAccounts;
use super::rows::{CommentRow, IssueRow, RepositoryRow, ReviewRow, User};
use crate::domain::{Command, Event, Note, RepoRef, Trigger, Verb};

/// What an event asks of us, with the reason in one sentence.
pub(super) type Asked = (Verb, String);

/// Nothing, because of this.
pub(super) fn ignore(why: impl Into<String>) -> Asked {
    (Verb::Ignore, why.into())
}

/// The JSON object of one delivery.
#[derive(Debug)]
pub(super) struct Payload(Value);

impl Payload {
    /// # Errors
    /// A sentence when the bytes are no JSON object.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        match serde_json::from_slice(body) {
            Ok(value @ Value::Object(_)) => Ok(Self(value)),
            Ok(_) => Err("the payload is JSON but no object: is the hook's content a custom template?".to_owned()),
            Err(error) => Err(format!("the payload is not JSON ({error}): set the hook's content type to JSON or form")),
        }
    }

    /// The text at a field of the top, empty where it is missing or null.
    pub(super) fn text(&self, field: &str) -> Result<&str, String> {
        match &self.0[field] {
            Value::Null => Ok(""),
            Value::String(text) => Ok(text),
            _ => Err(format!("the payload's `{field}` is not a text")),
        }
    }

    /// Whether there is something other than null at a place such as `/changes/old_issue`.
    pub(super) fn has(&self, pointer: &str) -> bool {
        self.0.pointer(pointer).is_some_and(|value| !value.is_null())
    }

    /// Whether a place such as `/object_attributes/system` is true.
    pub(super) fn is_true(&self, pointer: &str) -> bool {
        self.0.pointer(pointer) == Some(&Value::Bool(true))
    }

    /// The value at a place such as `/object_attributes`; null where there is none.
    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.0.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a place, empty where there is something else.
    pub(super) fn text_at(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// The whole number at a place, as text; empty where there is something else.
    pub(super) fn id_at(&self, pointer: &str) -> String {
        match self.at(pointer) {
            Value::Number(number) => number.as_i64().map(|number| number.to_string()).unwrap_or_default(),
            Value::String(text) => text.parse::<i64>().map(|number| number.to_string()).unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// The object at a field of the top; none where it is missing or null.
    pub(super) fn part<T: DeserializeOwned>(&self, field: &str) -> Result<Option<T>, String> {
        match &self.0[field] {
            Value::Null => Ok(None),
            value => T::deserialize(value).map(Some).map_err(|error| format!("the payload's `{field}` can't be read: {error}")),
        }
    }

    /// As [`Self::part`], but it must be there.
    pub(super) fn needed<T: DeserializeOwned>(&self, field: &str) -> Result<T, String> {
        self.part(field)?.ok_or_else(|| format!("the payload has no `{field}`"))
    }

    /// The issue, or else the pull request, that the event is about.
    fn subject(&self) -> Result<Option<IssueRow>, String> {
        match self.part("issue")? {
            Some(issue) => Ok(Some(issue)),
            None => self.part("pull_request"),
        }
    }

    fn trigger(&self, forge: &str) -> Result<Option<Trigger>, String> {
        let Some(subject) = self.subject()? else { return Ok(None) };
        let repository: RepositoryRow = self.needed("repository")?;
        let repo: RepoRef = repository.reference(forge);
        let number = subject.number().or_else(|| self.0["number"].as_i64()).ok_or("the payload's issue has no number")?;
        let (title, body, url) = subject.into_words();
        Ok(Some(Trigger { repo, number, title, body, url }))
    }

    /// The event in the one form. What is ignored may be as odd as it likes; what asks for something must name its repository and issue
    /// wherever the event is about an issue (`about_issue`).
    pub(super) fn event(&self, forge: &str, (verb, why): Asked, about_issue: bool) -> Result<Event, String> {
        let trigger = match self.trigger(forge) {
            Err(_) if verb == Verb::Ignore => None,
            Ok(None) if about_issue && verb != Verb::Ignore => return Err("the payload names no issue".to_owned()),
            read => read?,
        };
        let actor = self.sender().or_else(|| self.author_of_comment()).map(|user| user.actor());
        let repository = self.part::<RepositoryRow>("repository").unwrap_or_default().map(|repository| repository.reference(forge));
        let note = if matches!(verb, Verb::Command | Verb::Feedback) { self.note()? } else { None };
        let said = note.as_ref().filter(|_| verb == Verb::Command).and_then(|note| command(&note.text));
        Ok(Event { verb, why, repository, trigger, about_pull_request: self.is_about_pull_request(), command: said, note, actor })
    }

    fn is_about_pull_request(&self) -> bool {
        self.has("/pull_request") || self.has("/issue/pull_request") || self.is_true("/is_pull")
    }

    /// The comment, or else the review.
    fn note(&self) -> Result<Option<Note>, String> {
        if let Some(comment) = self.part::<CommentRow>("comment")? {
            return Ok(Some(comment.note()));
        }
        Ok(self.part::<ReviewRow>("review")?.map(ReviewRow::note))
    }

    /// Who caused the event, where the payload says it readably.
    pub(super) fn sender(&self) -> Option<User> {
        self.part("sender").unwrap_or_default()
    }

    /// Whether a bot caused the event.
    pub(super) fn is_sent_by_bot(&self) -> bool {
        self.sender().is_some_and(|user| user.is_bot())
    }

    fn author_of_comment(&self) -> Option<User> {
        self.part::<CommentRow>("comment").unwrap_or_default()?.user
    }

    /// Nothing, when one of our own accounts sent the event or wrote its comment.
    pub(super) fn sent_by_ourselves(&self, myself: &OwnAccounts) -> Option<Asked> {
        let accounts = self.sender().into_iter().chain(self.author_of_comment()).map(|user| user.actor());
        let own = accounts.into_iter().find(|account| myself.has(account))?;
        Some(ignore(format!("our own account `{}` caused it", own.login)))
    }

    /// What a new comment asks: a command where its first line is one, feedback on a pull request, else nothing. Only people are heard.
    pub(super) fn comment(&self, on_pull_request: bool) -> Result<Asked, String> {
        let comment: CommentRow = self.needed("comment")?;
        let by_bot = comment.user.as_ref().is_some_and(User::is_bot);
        if comment.performed_via_github_app.is_some() || self.is_sent_by_bot() || by_bot {
            return Ok(ignore("the comment was written by a bot or through an app: only people give commands"));
        }
        Ok(asked_by_words(&comment.body, on_pull_request))
    }
}

/// What a person's words in a new comment ask.
pub(super) fn asked_by_words(words: &str, on_pull_request: bool) -> Asked {
    match command(words) {
        Some(command) => (Verb::Command, format!("the comment's first line is the command `/frognano {}`", command.word())),
        None if on_pull_request => (Verb::Feedback, "a person commented on a pull request".to_owned()),
        None if words.contains("/frognano") => {
            ignore("the comment has a command, but not as its whole first line: no quote, no code, no options, one of the known words")
        }
        None => ignore("the comment's first line is no command `/frognano WORD`"),
    }
}

/// The command in a comment: the whole first line is `/frognano` and one of the words, nothing before it and no options after it.
pub(super) fn command(text: &str) -> Option<Command> {
    Command::of(text.lines().next()?.strip_prefix("/frognano ")?.trim())
}

#[cfg(test)]
mod tests {
    use super::{Payload, command};
    use crate::domain::Command;

    #[test]
    fn a_command_is_the_whole_first_line() {
        assert_eq!(command("/frognano retry"), Some(Command::Retry));
        assert_eq!(command("/frognano  cancel \r\nthank you"), Some(Command::Cancel));
        for text in [
            "",
            "/frognano",
            "/frognano ",
            "/frognanoretry",
            " /frognano retry",
            "> /frognano retry",
            "`/frognano retry`",
            "please\n/frognano retry",
            "/frognano retry --force",
            "/frognano Retry",
            "/frognano merge",
            "/frognano retry\u{200b}",
        ] {
            assert_eq!(command(text), None, "{text:?}");
        }
    }

    #[test]
    fn complaints_name_the_field() {
        assert!(Payload::parse(b"<html>").unwrap_err().contains("not JSON"));
        assert!(Payload::parse(b"[1]").unwrap_err().contains("no object"));
        let payload = Payload::parse(br#"{"action": 7, "issue": {"number": "seven"}}"#).unwrap();
        assert!(payload.text("action").unwrap_err().contains("`action`"));
        assert!(payload.trigger("f").unwrap_err().contains("`issue`"));
    }
}
