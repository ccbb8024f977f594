//! New dependencies and lock files are shown; where packages come from is not a patch's to change.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::{Patch, file_name, lines, of_file};
use crate::domain::{ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "dependency";

/// Files that only say what is installed.
const LISTS: &[&str] = &[
    "pipfile",
    "pipfile.lock",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "pixi.lock",
    "pixi.toml",
    "pylock.toml",
    "environment.yml",
    "environment.yaml",
    "conda-lock.yml",
    "package.json",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "cargo.toml",
    "cargo.lock",
    "go.mod",
    "go.sum",
    "gemfile",
    "gemfile.lock",
    "pip.conf",
    ".npmrc",
];

/// Files that say it among other things.
const MIXED: &[&str] = &["pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "noxfile.py", "dockerfile"];

static ELSEWHERE: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)--(?:extra-)?index-url|--trusted-host|--find-links|\bindex-url\s*=|\bfind-links\s*=|\[\[tool\.(?:uv\.index|poetry\.source|pdm\.source)|dependency[_-]links|PIP_(?:EXTRA_)?INDEX_URL|^\s*registry\s*="#,
    )
});

static REQUIREMENT: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    Regex::new(r#"(?i)^\s*["']?[a-z][a-z0-9._-]*(?:\[[a-z0-9,._-]+\])?\s*(?:(?:[=~<>!]=|[<>@])|["']\s*[,\]])|dependenc|requires|install\("#)
});

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let (elsewhere, requirement) = (ELSEWHERE.as_ref().map_err(ToString::to_string)?, REQUIREMENT.as_ref().map_err(ToString::to_string)?);
    Ok(patch.changed.iter().filter_map(|file| finding(file, elsewhere, requirement)).collect())
}

fn finding(file: &ChangedFile, elsewhere: &Regex, requirement: &Regex) -> Option<Finding> {
    let name = String::from_utf8_lossy(file_name(&file.path)).to_lowercase();
    let is_list = LISTS.contains(&name.as_str())
        || (name.contains("requirements") || name.contains("constraints"))
            && (name.ends_with(".txt") || name.ends_with(".in") || name.ends_with(".lock"))
        || file.path.windows(13).any(|part| part == b"requirements/") && name.ends_with(".txt");
    if !is_list && !MIXED.contains(&name.as_str()) {
        return None;
    }
    let added = lines::added(file);
    if let Some((number, _)) = added.iter().find(|(_, line)| elsewhere.is_match(line)) {
        return Some(of_file(RULE, Severity::Refuse, file, Some(*number), "the line changes where packages come from"));
    }
    let number = added.iter().find(|(_, line)| is_list || requirement.is_match(line)).map(|(number, _)| *number);
    let touched = is_list || number.is_some() || lines::removed(file).iter().any(|(_, line)| requirement.is_match(line));
    touched.then(|| of_file(RULE, Severity::Flag, file, number, "the patch changes what is installed"))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{changed, severities};

    #[test]
    fn what_is_installed_is_shown_and_from_where_refused() {
        for path in ["requirements.lock", "requirements-dev.txt", "uv.lock", "sub/poetry.lock"] {
            assert_eq!(severities(check, &[changed(path, Some("a==1\n"), Some("a==2\n"))]), [Flag], "{path}");
        }
        let project = |line: &str| changed("pyproject.toml", Some("[project]\n"), Some(&format!("[project]\n{line}\n")));
        assert_eq!(severities(check, &[project("dependencies = [\"click\"]")]), [Flag]);
        assert_eq!(severities(check, &[project("  \"click>=8\",")]), [Flag]);
        assert!(severities(check, &[project("name = \"x\"")]).is_empty());
        assert_eq!(severities(check, &[changed("requirements.txt", Some(""), Some("--extra-index-url https://x\n"))]), [Refuse]);
    }
}
