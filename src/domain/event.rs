//! What a forge told us, in one form for all forges.

use serde::{Deserialize, Serialize};

/// A repository on a configured forge. The numeric id is the identity (a rename keeps it); the path is for people and for requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RepoRef {
    /// The name of the forge's entry in the configuration.
    pub forge: String,
    /// The forge's own id of the repository, as text.
    pub id: String,
    /// `owner/name`, on GitLab with every group: `group/subgroup/name`.
    pub path: String,
}

/// An account on a forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The forge's own id of the account, as text; empty where the payload has none.
    pub id: String,
    /// The login name.
    pub login: String,
    /// True where the forge says that the account is a bot.
    pub is_bot: bool,
}

/// What a delivery asks of us (forges.md, section 6, rule 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// The trigger label was set, and the payload itself says so.
    Start,
    /// The labels changed but the payload does not say how (Gitea, Forgejo): read the issue, then start or cancel.
    Recheck,
    /// The reason to work on the issue is gone.
    Cancel,
    /// A person wrote a command.
    Command,
    /// A review of one of our pull requests.
    Feedback,
    /// One of our pull requests ended, or stopped being a draft.
    Finish,
    /// The installation changed.
    Admin,
    /// Nothing for us.
    Ignore,
}

impl Verb {
    /// The stable name, as stored and shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Recheck => "recheck",
            Self::Cancel => "cancel",
            Self::Command => "command",
            Self::Feedback => "feedback",
            Self::Finish => "finish",
            Self::Admin => "admin",
            Self::Ignore => "ignore",
        }
    }
}

/// The issue a delivery is about, as it stood when the event was sent: this text is what the model gets, later edits do not reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Where the issue is.
    pub repo: RepoRef,
    /// The number shown to people.
    pub number: i64,
    /// The title at that time.
    pub title: String,
    /// The body at that time, empty where the forge sends null.
    pub body: String,
    /// The page of the issue for people, as sent; never requested by us.
    pub url: String,
}

/// The words that people may say to the service: `/frognano WORD` as the whole first line of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Work on the issue again.
    Retry,
    /// Stop what is going on.
    Cancel,
    /// Say how far it is.
    Status,
    /// Say which commands there are.
    Help,
    /// Work once more on an open pull request of ours, with the rest of the comment as the task.
    Revise,
    /// Say that the verdict of a pull request of ours was wrong, in one word.
    Wrong,
}

impl Command {
    /// Every command.
    pub const ALL: [Self; 6] = [Self::Retry, Self::Cancel, Self::Status, Self::Help, Self::Revise, Self::Wrong];

    /// The word as people write it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Status => "status",
            Self::Help => "help",
            Self::Revise => "revise",
            Self::Wrong => "wrong",
        }
    }

    /// The command of this word; case and everything else must fit. Behind `wrong` stands one more word of letters, digits and dashes.
    #[must_use]
    pub fn of(words: &str) -> Option<Self> {
        match words.split_once(' ') {
            Some(("wrong", what)) if Self::is_word(what.trim()) => Some(Self::Wrong),
            _ => Self::ALL.into_iter().find(|command| command.word() == words),
        }
    }

    /// The one word behind `/frognano wrong` in the first line of a comment.
    #[must_use]
    pub fn word_of_wrong(text: &str) -> Option<&str> {
        let word = text.lines().next()?.strip_prefix("/frognano ")?.trim().strip_prefix("wrong ")?.trim();
        Self::is_word(word).then_some(word)
    }

    fn is_word(text: &str) -> bool {
        (1..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    }
}

/// What a review of a pull request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// The reviewer would merge it.
    Approved,
    /// The reviewer wants it changed.
    ChangesRequested,
    /// It was an approval or a rejection, and counts no more.
    Dismissed,
    /// Neither.
    Commented,
}

/// What a person wrote: a comment, or a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The forge's own id of it, as text; empty where the payload has none.
    pub id: String,
    /// The text as it was sent.
    pub text: String,
    /// Which review it is; none for a plain comment.
    pub review: Option<ReviewState>,
}

/// A delivery in the one form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What is asked.
    pub verb: Verb,
    /// Why that verb, one sentence for the administrator who asks "why did the bot not react?".
    pub why: String,
    /// The repository, where the event is about one.
    pub repository: Option<RepoRef>,
    /// The issue or pull request, where the event is about one.
    pub trigger: Option<Trigger>,
    /// Whether [`Event::trigger`] is a pull request.
    pub about_pull_request: bool,
    /// Which command, for [`Verb::Command`].
    pub command: Option<Command>,
    /// What the person wrote, for [`Verb::Command`] and [`Verb::Feedback`].
    pub note: Option<Note>,
    /// Who caused the event.
    pub actor: Option<Actor>,
}

impl Event {
    /// Whether the forge itself says that the issue is gone for good: then it can't be asked any more, and nobody can be told.
    #[must_use]
    pub fn says_gone(&self) -> bool {
        self.verb == Verb::Cancel && ["deleted", "transferred"].iter().any(|word| self.why.contains(&format!("the issue was {word}")))
    }
}
