//! The status `frognano/human-review`: fails from the moment on that a commit of ours is on the forge, and passes only for the commit that
//! a person has approved.
//!
//! What must hold: an approval counts for exactly the commit that was looked at, while it is the head; never that of the bot, of whoever
//! asked for the change, of a bot, or of somebody who may not write now. Whatever is not known counts as missing.

use crate::domain::{Permission, RepoRef, ReviewState};
use crate::forge::{CommitStatus, Forge, ForgeError, Review};

/// The name of the status, to be demanded in the protection of the default branch.
pub const CONTEXT: &str = crate::forge::HUMAN_REVIEW;

/// The longest description that every forge takes, in characters.
const LONGEST: usize = 140;

/// The longest login that is written out, in characters.
const LONGEST_LOGIN: usize = 40;

/// Who must not approve, and who alone may.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The login of our own account.
    pub myself: &'a str,
    /// The logins of who asked for the change.
    pub asked_by: &'a [String],
    /// When there are any, who approves must be in one of these teams, `organization/team`.
    pub teams: &'a [String],
}

/// What the reviews of a pull request come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Approved at its head, by this login.
    Approved(String),
    /// Not yet, or not any more; what is missing, for people.
    Waiting(String),
}

impl Standing {
    /// The status that says so.
    #[must_use]
    pub fn status(&self, head: &str) -> CommitStatus {
        let (passed, description) = match self {
            Self::Approved(by) => (true, format!("{} approved {}", shown(by), short(head))),
            Self::Waiting(missing) => (false, missing.clone()),
        };
        CommitStatus { context: CONTEXT, passed, description: description.chars().take(LONGEST).collect::<String>().into() }
    }
}

/// The status of a commit that nobody has looked at.
#[must_use]
pub fn unreviewed(commit: &str) -> CommitStatus {
    Standing::Waiting(missing(commit, &Rules { myself: "", asked_by: &[], teams: &[] })).status(commit)
}

/// The status of a commit that was approved and is not the head any more.
#[must_use]
pub fn superseded(commit: &str, head: &str) -> CommitStatus {
    Standing::Waiting(format!("{} is not the head any more, {} is", short(commit), short(head))).status(commit)
}

/// What these reviews come to for this head, by the forge's word of now on who may write and who is in a team.
///
/// # Errors
/// When the forge does not answer.
pub async fn standing(
    forge: &dyn Forge,
    repo: &RepoRef,
    head: &str,
    reviews: &[Review],
    rules: &Rules<'_>,
) -> Result<Standing, ForgeError> {
    if let Some(unknown) = unknown_asker(head, rules) {
        return Ok(unknown);
    }
    let mut refused = None;
    for login in approvers(reviews, head) {
        if same(login, rules.myself) || rules.asked_by.iter().any(|by| same(by, login)) {
            refused = refused.or_else(|| Some(format!("{} asked for the change", shown(login))));
        } else if forge.permission(repo, login).await? < Permission::Write {
            refused = refused.or_else(|| Some(format!("{} has no write access", shown(login))));
        } else if is_in_one(forge, rules.teams, login).await? {
            return Ok(Standing::Approved(login.to_owned()));
        } else {
            refused = refused.or_else(|| Some(format!("{} is in no team that may approve", shown(login))));
        }
    }
    let missing = missing(head, rules);
    Ok(Standing::Waiting(match refused {
        Some(why) => format!("{missing} ({why})"),
        None => missing,
    }))
}

/// Nobody may approve where it is not known who must not.
fn unknown_asker(head: &str, rules: &Rules<'_>) -> Option<Standing> {
    let waits = || Standing::Waiting(format!("{} (it is not known who asked for the change)", missing(head, rules)));
    rules.asked_by.iter().all(String::is_empty).then(waits)
}

/// Whose last word on the pull request is an approval of exactly this commit, in the order of their approvals.
fn approvers<'a>(reviews: &'a [Review], head: &str) -> Vec<&'a str> {
    let is_a_word = |review: &&Review| review.state != ReviewState::Commented && !review.author.is_empty();
    let words = || reviews.iter().filter(is_a_word);
    let is_last = |at: usize, review: &Review| words().skip(at + 1).all(|later| !same(&later.author, &review.author));
    let approves = |review: &Review| {
        review.state == ReviewState::Approved && !head.is_empty() && review.commit.as_deref().is_some_and(|commit| same(commit, head))
    };
    words().enumerate().filter(|(at, review)| approves(review) && is_last(*at, review)).map(|(_, review)| review.author.as_str()).collect()
}

async fn is_in_one(forge: &dyn Forge, teams: &[String], login: &str) -> Result<bool, ForgeError> {
    if teams.is_empty() {
        return Ok(true);
    }
    for team in teams {
        if forge.is_in_team(team, login).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn missing(head: &str, rules: &Rules<'_>) -> String {
    let who = if rules.teams.is_empty() { "somebody with write access" } else { "a writer of the named teams" };
    let other_than = rules.asked_by.first().map_or_else(String::new, |by| format!(" other than {}", shown(by)));
    format!("waits for an approving review of {} by {who}{other_than}", short(head))
}

fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

/// A login is data of the forge: bounded, and of plain letters.
fn shown(login: &str) -> String {
    login.chars().filter(|letter| letter.is_alphanumeric() || "-_.[]".contains(*letter)).take(LONGEST_LOGIN).collect()
}

fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::{Rules, Standing, approvers, missing, unknown_asker, unreviewed};
    use crate::domain::ReviewState::{self, Approved, ChangesRequested, Commented, Dismissed};
    use crate::forge::Review;

    fn review(author: &str, state: ReviewState, commit: Option<&str>) -> Review {
        Review { id: "1".to_owned(), author: author.to_owned(), state, body: String::new(), commit: commit.map(str::to_owned) }
    }

    type Words<'a> = &'a [(&'a str, ReviewState, Option<&'a str>)];

    #[test]
    fn the_last_word_of_each_person_on_exactly_the_head_counts() {
        let table: [(Words<'_>, &[&str]); 10] = [
            (&[], &[]),
            (&[("olga", Approved, Some("a"))], &["olga"]),
            (&[("olga", Approved, Some("b"))], &[]),
            (&[("olga", Approved, None)], &[]),
            (&[("", Approved, Some("a"))], &[]),
            (&[("olga", Approved, Some("a")), ("Olga", ChangesRequested, Some("a"))], &[]),
            (&[("olga", Approved, Some("a")), ("olga", Dismissed, Some("a"))], &[]),
            (&[("olga", Approved, Some("a")), ("olga", Commented, Some("b"))], &["olga"]),
            (&[("olga", ChangesRequested, Some("b")), ("rita", Approved, Some("a")), ("olga", Approved, Some("a"))], &["rita", "olga"]),
            (&[("olga", Approved, Some("a")), ("rita", ChangesRequested, Some("a"))], &["olga"]),
        ];
        for (reviews, expected) in table {
            let reviews = reviews.iter().map(|(author, state, commit)| review(author, *state, *commit)).collect::<Vec<_>>();
            assert_eq!(approvers(&reviews, "a"), expected, "{reviews:?}");
            assert!(approvers(&reviews, "").is_empty());
        }
    }

    #[test]
    fn nobody_approves_where_it_is_not_known_who_asked() {
        for (asked_by, waits) in [(vec![], true), (vec![String::new()], true), (vec!["wren".to_owned()], false)] {
            let rules = Rules { myself: "bot", asked_by: &asked_by, teams: &[] };
            assert_eq!(unknown_asker("abcdef1234", &rules).is_some(), waits, "{asked_by:?}");
        }
    }

    #[test]
    fn the_status_says_what_is_missing_in_at_most_140_characters() {
        assert_eq!(unreviewed("abcdef1234").description, "waits for an approving review of abcdef1 by somebody with write access");
        let (asked_by, teams) = (["x".repeat(90)], ["acme/owners".to_owned()]);
        let rules = Rules { myself: "bot", asked_by: &asked_by, teams: &teams };
        let status =
            Standing::Waiting(format!("{} ({} has no write access)", missing("abcdef1234", &rules), "y".repeat(40))).status("abcdef1234");
        assert!(status.description.chars().count() == 140 && !status.passed, "{status:?}");
        let status = Standing::Approved("olga\u{202e}<b>".to_owned()).status("abcdef1234");
        assert_eq!((&*status.description, status.passed), ("olgab approved abcdef1", true));
    }
}
