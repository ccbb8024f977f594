//! Which new files are by-products and not part of a patch: what the repository's own `.gitignore` files name, and what running Python leaves.

use std::collections::BTreeMap;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Left by interpreters and test runners. A compiled file in a patch would hide what runs; it is never taken.
const BY_PRODUCTS: [&str; 12] = [
    "__pycache__/",
    "*.pyc",
    "*.pyo",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    ".coverage",
    ".coverage.*",
    ".tox/",
    ".nox/",
    "*.egg-info/",
];

/// The ignore rules of one commit.
pub struct IgnoreRules {
    by_folder: BTreeMap<Vec<u8>, Gitignore>,
    by_products: Gitignore,
}

impl IgnoreRules {
    /// Takes the contents of a tree's `.gitignore` files by their paths.
    #[must_use]
    pub fn new(files: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let by_folder = files
            .iter()
            .map(|(path, content)| {
                let folder = path.strip_suffix(b".gitignore").unwrap_or(path).strip_suffix(b"/").unwrap_or_default();
                (folder.to_vec(), rules(String::from_utf8_lossy(content).lines()))
            })
            .collect();
        Self { by_folder, by_products: rules(BY_PRODUCTS.into_iter()) }
    }

    /// Whether git would not add this new path, or it is a by-product.
    #[must_use]
    pub fn leave_out(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let folders = ends.map(|at| (path.get(..at).unwrap_or_default(), true));
        folders.chain([(path, false)]).any(|(prefix, is_folder)| self.names(prefix, is_folder))
    }

    fn names(&self, path: &[u8], is_folder: bool) -> bool {
        if self.by_products.matched(as_path(path), is_folder).is_ignore() {
            return true;
        }
        let mut folder = path;
        loop {
            folder = folder.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |at| folder.get(..at).unwrap_or_default());
            if let Some(rules) = self.by_folder.get(folder) {
                let below = path.strip_prefix(folder).map(|rest| rest.strip_prefix(b"/").unwrap_or(rest)).unwrap_or(path);
                let found = rules.matched(as_path(below), is_folder);
                if !found.is_none() {
                    return found.is_ignore();
                }
            }
            if folder.is_empty() {
                return false;
            }
        }
    }
}

fn rules<'a>(lines: impl Iterator<Item = &'a str>) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for line in lines {
        builder.add_line(None, line).ok();
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

fn as_path(bytes: &[u8]) -> &std::path::Path {
    std::path::Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::IgnoreRules;

    #[test]
    fn rules_of_the_deepest_folder_win_and_an_ignored_folder_hides_all_below_it() {
        let rules = IgnoreRules::new(&[
            (b".gitignore".to_vec(), b"*.log\nbuild/\n/only-top\n".to_vec()),
            (b"docs/.gitignore".to_vec(), b"!keep.log\n".to_vec()),
        ]);
        assert!(rules.leave_out(b"a.log"));
        assert!(rules.leave_out(b"docs/other.log"));
        assert!(!rules.leave_out(b"docs/keep.log"));
        assert!(rules.leave_out(b"build/keep.txt"));
        assert!(rules.leave_out(b"only-top"));
        assert!(!rules.leave_out(b"docs/only-top"));
        assert!(rules.leave_out(b"pkg/__pycache__/m.cpython-311.pyc"));
        assert!(!rules.leave_out(b"pkg/m.py"));
    }
}
