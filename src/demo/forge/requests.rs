//! What goes with a pull request on both faces: requests for review, statuses of commits, and who is in which team.

use serde_json::{Value, json};

use super::state::{Spot, State};
use super::wire::{Answer, Ask};
use crate::demo::git_backend;
use crate::domain::Permission;

/// A status of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The id of its repository.
    pub repository: u64,
    /// The commit.
    pub commit: String,
    /// Whose word it is.
    pub context: String,
    /// `failure`, `success` and so on.
    pub state: String,
    /// What it says to people.
    pub description: String,
}

impl State {
    /// Whether this person is in `organization/team`; none when there is no such team.
    pub(super) fn in_team(&self, team: &str, login: &str) -> Option<bool> {
        let (_, members) = self.teams.iter().find(|(name, _)| name.eq_ignore_ascii_case(team))?;
        Some(members.iter().any(|member| member.eq_ignore_ascii_case(login)))
    }
}

/// The names of a request for review; an error says which one may not be asked.
pub(super) fn ask_for_review(state: &mut State, ask: &Ask, spot: Spot) -> Result<(), String> {
    let body = ask.object().unwrap_or_default();
    let names = |list: &str| body[list].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let (people, teams) = (names("reviewers"), names("team_reviewers"));
    let (repository, issue) = state.at(spot);
    if people.iter().any(|name| name.eq_ignore_ascii_case(&issue.author)) {
        return Err("Review cannot be requested from pull request author.".to_owned());
    }
    if people.iter().any(|name| state.user(name).is_none() || repository.permission(name) < Permission::Read) {
        return Err("Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the repository.".to_owned());
    }
    let owner = repository.owner();
    if let Some(team) = teams.iter().find(|team| !state.teams.contains_key(&format!("{owner}/{team}"))) {
        return Err(format!("Could not resolve to a node with the slug {team}."));
    }
    let (id, number) = (repository.id, issue.number);
    state.review_requests.extend(people.into_iter().chain(teams).map(|who| (id, number, who)));
    Ok(())
}

/// The longest description of a status on GitHub, in characters.
const LONGEST: usize = 140;

/// Puts a status on a commit of this repository; none for a state that is no word of the forges, a description that is too long, or a
/// commit that is not there.
pub(super) fn put_status(state: &mut State, ask: &Ask, here: usize, commit: &str) -> Option<Answer> {
    let body = ask.object()?;
    let word = body["state"].as_str().filter(|word| ["error", "failure", "pending", "success"].contains(word))?.to_owned();
    let context = body["context"].as_str().unwrap_or("default").to_owned();
    let description = body["description"].as_str().unwrap_or_default().to_owned();
    if description.chars().count() > LONGEST {
        return None;
    }
    git_backend::commits_ahead(&state.repositories[here].git_dir, commit, commit)?;
    let repository = state.repositories[here].id;
    let answer = json!({"state": word, "status": word, "context": context, "description": body["description"]});
    state.statuses.push(Status { repository, commit: commit.to_owned(), context, state: word, description });
    Some(Answer::json(201, &answer))
}
