//! Hooks that are set above a project: on a group, which repeat what a project's hook tells, and on the whole instance, the system hooks, which
//! tell of merge requests but of no issue and no note, and call every event `System Hook` (forges.md, section 3.1).

use crate::demo::forge::state::{Hook, Spot, State};
use crate::demo::forge::webhook::News;
use crate::demo::forge::{Forge, Kind};

/// A hook, and the path of the group that it is of; none for the whole instance.
pub(in crate::demo::forge) type Above = (Option<String>, Hook);

impl Forge {
    /// Adds a hook to a group, or to the whole instance; deliveries come beside those of the projects' own hooks.
    pub fn add_hook_above(&self, group: Option<&str>, secret: &str) {
        let mut state = self.state();
        let id = state.next_id();
        state.hooks_above.push((group.map(str::to_owned), Hook { id, secret: secret.to_owned(), url: None }));
    }
}

/// The hooks that hear of this, each with the event's name in its deliveries.
pub(super) fn hooks(state: &State, spot: Spot, event: &'static str, news: &News) -> Vec<(Hook, &'static str)> {
    debug_assert_eq!(state.kind, Kind::GitLab);
    let (repository, issue) = state.at(spot);
    let own = repository.hooks.iter().map(|hook| (hook.clone(), event));
    let above = state.hooks_above.iter().filter_map(|(group, hook)| match group {
        Some(group) => repository.path.starts_with(&format!("{group}/")).then(|| (hook.clone(), event)),
        None => (issue.pull.is_some() && news.comment().is_none()).then(|| (hook.clone(), "System Hook")),
    });
    own.chain(above).collect()
}
