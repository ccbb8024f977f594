//! What administrators look at: the version, the webhooks and their deliveries, the rules for branches.

use serde_json::{Value, json};

use crate::demo::forge::state::State;
use crate::demo::forge::wire::{Answer, Ask, Caller};
use crate::domain::Permission;

/// Answers a look at a repository; none for all else.
pub(super) fn answer(state: &State, ask: &Ask, caller: &Caller, here: usize, path: &[&str]) -> Option<Answer> {
    let repository = &state.repositories[here];
    let may_see = repository.permission(&caller.login) >= Permission::Admin && caller.covers("repository_hooks", false);
    Some(match (ask.method.as_str(), path) {
        ("GET", ["rules", "branches", branch @ ..]) => Answer::json(200, &state.rules_for(repository, &branch.join("/"))),
        ("GET", ["hooks", ..]) if !may_see => super::not_found(),
        ("GET", ["hooks"]) => Answer::json(200, &state.hooks_of(here)),
        ("GET", ["hooks", _, "deliveries"]) => {
            let tries = state.hook_tries.iter().map(|status| json!({"id": 1, "guid": "x", "status_code": status}));
            Answer::json(200, &tries.collect::<Value>())
        }
        _ => return None,
    })
}
