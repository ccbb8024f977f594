//! The list of projects, and the projects that are read-only.

use super::{MAINTAINER, forbidden, level, logged_in, paged, shape};
use crate::demo::forge::state::{Repository, State};
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::domain::Permission;

/// Every project that the caller sees, newest first, or only those that `membership`, `min_access_level` and `archived` let through.
pub(super) fn list(state: &State, ask: &Ask, caller: &Caller) -> Answer {
    let own = |repository: &Repository| level(repository, &caller.login);
    let least = ask.query("min_access_level").and_then(|text| text.parse().ok()).unwrap_or(0);
    let archived = ask.query("archived").map(|asked| asked == "true");
    let fits = |repository: &&Repository| {
        repository.permission(&caller.login) >= Permission::Read
            && (ask.query("membership") != Some("true") || own(repository) > 0)
            && own(repository) >= least
            && archived.is_none_or(|asked| asked == repository.archived)
    };
    let rows = state.repositories.iter().rev().filter(fits);
    paged(state, ask, rows.map(|repository| shape::project_row(state, repository, &caller.login)).collect())
}

/// Makes a project read-only, or lets it be written to again.
pub(super) fn archive(state: &mut State, caller: &Caller, here: usize, archived: bool) -> Result<Answer, Answer> {
    logged_in(caller)?;
    if level(&state.repositories[here], &caller.login) < MAINTAINER {
        return Err(forbidden());
    }
    state.repositories[here].archived = archived;
    Ok(Answer::json(201, &shape::project_row(state, &state.repositories[here], &caller.login)))
}
