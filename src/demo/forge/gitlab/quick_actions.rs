//! Lines of a text that GitLab takes for commands and carries out in the name of whoever wrote them.
//!
//! What is carried out here is remembered by [`State::quick_actions`], so that a story can demand that nothing of ours ever was.

use crate::demo::forge::state::{Spot, State};

/// Those that would do harm, of the many there are.
const KNOWN: [&str; 12] =
    ["approve", "assign", "close", "confidential", "draft", "label", "merge", "ready", "relabel", "reopen", "title", "unlabel"];

/// A text without its quick actions, and these.
pub(super) fn split(text: &str) -> (String, Vec<String>) {
    let (mut fence, mut left, mut actions) = (None, Vec::new(), Vec::new());
    for line in text.lines() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) if is_quick_action(line) => {
                actions.push(line.trim_end().to_owned());
                continue;
            }
            _ => {}
        }
        left.push(line);
    }
    if actions.is_empty() { (text.to_owned(), actions) } else { (left.join("\n"), actions) }
}

fn is_quick_action(line: &str) -> bool {
    line.strip_prefix('/').and_then(|words| words.split_whitespace().next()).is_some_and(|word| KNOWN.contains(&word))
}

/// Does what quick actions say, as far as it is known here.
pub(super) fn carry_out(state: &mut State, spot: Spot, by: &str, actions: Vec<String>) {
    for action in actions {
        state.quick_actions.push(format!("{by}: {action}"));
        match action.as_str() {
            "/close" => state.set_open(spot, by, false),
            "/reopen" => state.set_open(spot, by, true),
            "/confidential" => state.issue_mut(spot).confidential = true,
            "/ready" => {
                let title = state.at(spot).1.title.trim_start_matches("Draft: ").to_owned();
                state.edit(spot, by, Some(&title), None);
            }
            _ => {}
        }
    }
}
