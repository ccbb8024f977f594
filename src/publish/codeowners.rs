//! Who owns a path, by the repository's CODEOWNERS: the last line that fits counts, in GitLab's sections one of each.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Where the file is looked for, the first that is there counts.
pub const PLACES: [&str; 4] = [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"];

struct Line {
    section: usize,
    pattern: Gitignore,
    /// `docs/*`: what is directly inside, and nothing deeper.
    only_inside: bool,
    owners: Vec<String>,
}

/// A read file.
pub struct CodeOwners(Vec<Line>);

impl CodeOwners {
    /// Reads the file; lines that make no sense are left out, as the forges do.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (mut lines, mut section, mut usual) = (Vec::new(), 0, Vec::new());
        for line in text.lines().map(|line| line.trim_start_matches('\u{feff}').trim()) {
            if let Some(owners) = heading(line) {
                (section, usual) = (section + 1, owners);
            } else if let Some((pattern, owners)) = split(line) {
                let owners = if owners.is_empty() { usual.clone() } else { owners };
                if let Some(compiled) = compile(&pattern) {
                    lines.push(Line { section, pattern: compiled, only_inside: pattern.ends_with("/*"), owners });
                }
            }
        }
        Self(lines)
    }

    /// The owners of a path, logins and `organization/team` without `@`; mail addresses are nobody that a forge could ask.
    #[must_use]
    pub fn of(&self, path: &str) -> Vec<String> {
        let mut last: std::collections::BTreeMap<usize, &Line> = std::collections::BTreeMap::new();
        for line in self.0.iter().filter(|line| line.fits(path)) {
            last.insert(line.section, line);
        }
        last.into_values().flat_map(|line| line.owners.clone()).collect()
    }
}

impl Line {
    fn fits(&self, path: &str) -> bool {
        if self.only_inside { self.pattern.matched(path, false) } else { self.pattern.matched_path_or_any_parents(path, false) }.is_ignore()
    }
}

/// `[Section]`, `^[Optional section][2] @owners`.
fn heading(line: &str) -> Option<Vec<String>> {
    let rest = line.strip_prefix('^').unwrap_or(line).strip_prefix('[')?.split_once(']')?.1;
    Some(owners(rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(rest, |(_, rest)| rest)))
}

/// The pattern, in which `\ ` is a space, and its owners.
fn split(line: &str) -> Option<(String, Vec<String>)> {
    if line.is_empty() || line.starts_with('#') || line.starts_with('!') {
        return None;
    }
    let bytes = line.as_bytes();
    let end = (1..line.len()).find(|&at| bytes[at].is_ascii_whitespace() && bytes[at - 1] != b'\\').unwrap_or(line.len());
    Some((line[..end].to_owned(), owners(&line[end..])))
}

fn owners(text: &str) -> Vec<String> {
    let words = text.split_whitespace().take_while(|word| !word.starts_with('#'));
    words.filter_map(|word| word.strip_prefix('@')).filter(|name| !name.is_empty() && !name.starts_with('@')).map(str::to_owned).collect()
}

fn compile(pattern: &str) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    builder.add_line(None, pattern).ok()?;
    builder.build().ok().filter(|built| !built.is_empty())
}

#[cfg(test)]
mod tests {
    use super::CodeOwners;

    const FILE: &str = "\u{feff}# comment\n*       @everyone-a @everyone-b # why\n*.js @acme/web mail@example.org\n/build/logs/ @ops\n\
                        docs/* @writer\napps/ @apps\n/scripts/nobody.sh\n!x @no\nwith\\ space/ @space\n";

    #[test]
    fn the_last_line_that_fits_counts() {
        let file = CodeOwners::parse(FILE);
        for (path, owners) in [
            ("src/main.py", &["everyone-a", "everyone-b"][..]),
            ("a/b.js", &["acme/web"]),
            ("build/logs/today/x.js", &["ops"]),
            ("sub/build/logs/x", &["everyone-a", "everyone-b"]),
            ("docs/a.md", &["writer"]),
            ("docs/deep/a.md", &["everyone-a", "everyone-b"]),
            ("x/apps/y/z.js", &["apps"]),
            ("scripts/nobody.sh", &[]),
            ("with space/a", &["space"]),
        ] {
            assert_eq!(file.of(path), owners, "{path}");
        }
    }

    #[test]
    fn each_section_has_its_own_last_line() {
        let file = CodeOwners::parse("* @all\n[Docs] @docs-team\n*.md\nREADME.md @lead\n^[Ops][2] @ops\n/ci/\n");
        assert_eq!(file.of("a.md"), ["all", "docs-team"]);
        assert_eq!(file.of("README.md"), ["all", "lead"]);
        assert_eq!(file.of("ci/x.md"), ["all", "docs-team", "ops"]);
    }

    #[test]
    fn nonsense_is_nobody() {
        assert_eq!(CodeOwners::parse("").of("a"), Vec::<String>::new());
        assert_eq!(CodeOwners::parse("* @ @@x a@b.c x\n[").of("a"), Vec::<String>::new());
    }
}
