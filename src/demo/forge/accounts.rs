//! Who there is on the demonstration forge: accounts, and the tokens that let them in.

use std::collections::BTreeSet;

/// What an account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// A person.
    Person,
    /// A bot.
    Bot,
    /// An organisation: owns repositories, never logs in.
    Organization,
}

/// An account.
#[derive(Debug, Clone)]
pub struct User {
    /// The forge's id of it.
    pub id: u64,
    /// The login name; found without regard to case.
    pub login: String,
    /// What it is.
    pub account: Account,
}

/// What a token may do, for whom.
#[derive(Debug, Clone)]
pub struct Token {
    /// The account that it belongs to.
    pub login: String,
    /// `all`, `repo`, or entries like `read:issue`, `write:repository` (GitHub: `write:issues`, `write:contents`, `write:pull_requests`).
    pub scopes: BTreeSet<String>,
    /// The ids of the only repositories that it reaches; none: all that the account does.
    pub repositories: Option<BTreeSet<u64>>,
    /// When it ends, in milliseconds since the epoch.
    pub ends_ms: Option<i64>,
}
