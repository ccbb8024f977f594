//! The way of a request without the names in it, for the traces: `/repos/{}/{}/issues/{}`.
//!
//! What must hold: only words of the forges' own APIs are in it, whatever a repository, a branch or a person is called.

/// The words of the ways that the clients of this room ask for.
const WORDS: [&str; 46] = [
    "access_tokens",
    "all",
    "app",
    "approvals",
    "attempts",
    "branch_protections",
    "branches",
    "check-runs",
    "collaborators",
    "comments",
    "commits",
    "config",
    "deliveries",
    "discussions",
    "events",
    "groups",
    "hook",
    "hooks",
    "installation",
    "installations",
    "issues",
    "labels",
    "members",
    "memberships",
    "merge_requests",
    "notes",
    "orgs",
    "permission",
    "projects",
    "pulls",
    "repos",
    "repositories",
    "repository",
    "requested_reviewers",
    "resource_label_events",
    "reviewers",
    "reviews",
    "rules",
    "search",
    "status",
    "statuses",
    "teams",
    "timeline",
    "user",
    "users",
    "versions",
];

/// So many segments behind these words are names, also where they look like a word.
const NAMES_BEHIND: [(&str, usize); 8] =
    [("repos", 2), ("projects", 1), ("orgs", 1), ("users", 1), ("collaborators", 1), ("memberships", 1), ("branches", 1), ("labels", 1)];

/// The segments of a path with `{}` in the place of each that is no word of an API.
pub(super) fn route(path: &[&str]) -> String {
    let mut names = 0_usize;
    let mut told = String::new();
    for segment in path {
        let is_word = names == 0 && WORDS.contains(segment);
        names = match NAMES_BEHIND.iter().find(|(word, _)| is_word && word == segment) {
            Some((_, behind)) => *behind,
            None => names.saturating_sub(1),
        };
        told.push('/');
        told.push_str(if is_word { segment } else { "{}" });
    }
    told
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use regex::Regex;

    use super::{WORDS, route};

    #[test]
    fn names_are_left_out_whatever_they_are() {
        for (path, told) in [
            (&["repos", "ada", "tallybook", "issues", "7"][..], "/repos/{}/{}/issues/{}"),
            (&["repos", "issues", "labels", "labels", "status"], "/repos/{}/{}/labels/{}"),
            (&["projects", "17", "merge_requests", "3", "notes"], "/projects/{}/merge_requests/{}/notes"),
            (&["repos", "a", "b", "collaborators", "search", "permission"], "/repos/{}/{}/collaborators/{}/permission"),
            (&["user"], "/user"),
            (&[], ""),
        ] {
            assert_eq!(route(path), told);
        }
    }

    fn sources(folder: &Path) -> String {
        let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        entries.map(|path| if path.is_dir() { sources(&path) } else { std::fs::read_to_string(path).unwrap() }).collect()
    }

    #[test]
    fn every_word_that_a_client_asks_for_is_known() {
        let source = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/forge"));
        let paths = Regex::new(r#"\["(?:repos|projects|orgs|users?|teams|app|installation)"[^\]\n]*\]"#).unwrap();
        let words = Regex::new(r#""([a-z_-]+)""#).unwrap();
        let asked =
            paths.find_iter(&source).flat_map(|path| words.captures_iter(path.as_str()).map(|word| word[1].to_owned()).collect::<Vec<_>>());
        let mut asked = asked.collect::<Vec<_>>();
        asked.sort();
        asked.dedup();
        assert!(asked.len() > 30, "the clients were not found: {asked:?}");
        let of_the_tests = ["a", "b", "o", "ada", "tallybook"];
        let unknown = asked.iter().filter(|word| !WORDS.contains(&word.as_str()));
        let unknown = unknown.filter(|word| !of_the_tests.contains(&word.as_str())).collect::<Vec<_>>();
        assert_eq!(unknown, Vec::<&String>::new(), "a trace would show {{}} in their place");
    }
}
