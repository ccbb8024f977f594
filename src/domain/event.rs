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

/// A delivery in the one form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What is asked.
    pub verb: Verb,
    /// Why that verb, one sentence for the administrator who asks "why did the bot not react?".
    pub why: String,
    /// The issue, where the event is about one.
    pub trigger: Option<Trigger>,
    /// Who caused the event.
    pub actor: Option<Actor>,
}
