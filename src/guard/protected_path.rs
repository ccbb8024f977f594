//! Paths that decide what others run, see or must approve. A bot that may change them may change its own rules.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::LazyLock;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{Patch, of_file};
use crate::domain::{Finding, Severity};

pub(super) const RULE: &str = "protected-path";

/// What is protected everywhere, in the form of a `.gitignore`, and why.
const ALWAYS: &[(&str, &[&str])] = &[
    ("it is this service's own configuration", &[".frognano.toml"]),
    ("it says who must review what", &["CODEOWNERS"]),
    (
        "it is run by the forge or by continuous integration",
        &[
            ".github/",
            ".gitlab/",
            ".gitlab-ci*",
            "*.gitlab-ci.yml",
            "*.gitlab-ci.yaml",
            ".gitea/",
            ".forgejo/",
            ".woodpecker/",
            ".woodpecker.y*ml",
            ".drone.*",
            ".circleci/",
            ".travis.yml",
            "Jenkinsfile*",
            "azure-pipelines*",
            ".azure-pipelines/",
            ".azuredevops/",
            "bitbucket-pipelines.yml",
            "appveyor.y*ml",
            ".appveyor.y*ml",
            ".appveyor/",
            ".buildkite/",
            ".cirrus.*",
            ".semaphore/",
            ".teamcity/",
            ".tekton/",
            ".builds/",
            ".build.yml",
            ".ci/",
            ".zuul.*",
            ".zuul.d/",
            "zuul.d/",
            "cloudbuild.y*ml",
            "buildspec*.y*ml",
            ".harness/",
            ".gitpod.*",
            "codecov.y*ml",
            ".codecov.y*ml",
            ".coveralls.yml",
            ".readthedocs.y*ml",
            "readthedocs.yml",
            ".mergify.yml",
            "renovate.json*",
            ".renovaterc*",
            "dependabot.yml",
            "bors.toml",
            ".lgtm.yml",
            "sonar-project.properties",
            ".sourcery.yaml",
            "vercel.json",
            "netlify.toml",
            "wercker.yml",
            "shippable.yml",
            "heroku.yml",
            "app.yaml",
            ".scrutinizer.yml",
            ".codeclimate.yml",
        ],
    ),
    (
        "it tells an agent what to do",
        &[
            "AGENTS.md",
            "AGENTS.override.md",
            "AGENT.md",
            "CLAUDE.md",
            "CLAUDE.local.md",
            "GEMINI.md",
            "QWEN.md",
            "WARP.md",
            ".claude/",
            ".agents/",
            ".agent/",
            ".codex/",
            ".gemini/",
            ".cursor/",
            ".cursorrules",
            ".cursorignore",
            ".windsurf/",
            ".windsurfrules",
            ".clinerules",
            ".clinerules/",
            ".roo/",
            ".roorules*",
            ".kilocode/",
            ".aider*",
            ".continue/",
            ".junie/",
            ".kiro/",
            ".augment/",
            ".augment-guidelines",
            ".amazonq/",
            ".opencode/",
            "opencode.json*",
            ".openhands/",
            ".openhands_instructions",
            ".goosehints",
            ".rules",
            ".mcp.json",
            "mcp.json",
            "copilot-instructions.md",
            ".qwen/",
            ".trae/",
        ],
    ),
    ("git reads it", &[".git*"]),
    (
        "it is run by git, by an editor or by a shell without being asked",
        &[
            ".husky/",
            ".hooks/",
            ".pre-commit-config.y*ml",
            ".pre-commit-hooks.y*ml",
            "lefthook.*",
            ".lefthook.*",
            ".overcommit.yml",
            "pre-commit",
            "prepare-commit-msg",
            "commit-msg",
            "post-commit",
            "post-checkout",
            "post-merge",
            "post-rewrite",
            "pre-push",
            "pre-rebase",
            "applypatch-msg",
            "pre-applypatch",
            "post-applypatch",
            "pre-receive",
            "post-receive",
            "post-update",
            "pre-auto-gc",
            "fsmonitor-watchman",
            ".vscode/tasks.json",
            ".vscode/settings.json",
            ".vscode/launch.json",
            "*.code-workspace",
            ".idea/",
            ".devcontainer/",
            ".devcontainer.json",
            ".envrc",
        ],
    ),
    ("Python runs it at each start", &["*.pth", "sitecustomize.*", "sitecustomize/", "usercustomize.*", "usercustomize/"]),
];

static LISTS: LazyLock<Result<Vec<(&str, Gitignore)>, String>> =
    LazyLock::new(|| ALWAYS.iter().map(|(why, globs)| Ok((*why, matcher(globs.iter().copied())?))).collect());

pub(super) fn check(patch: &Patch<'_>) -> Result<Vec<Finding>, String> {
    let lists = LISTS.as_ref().map_err(Clone::clone)?;
    let configured = ("the configuration protects it", matcher(patch.limits.protected.iter().map(String::as_str))?);
    let protects = |path: &[u8]| lists.iter().chain([&configured]).find(|(_, list)| list_holds(list, path)).map(|(why, _)| *why);
    let touched = patch.changed.iter().filter_map(|file| Some((file, protects(&file.path)?)));
    Ok(touched.map(|(file, why)| of_file(RULE, Severity::Refuse, file, None, format!("the path is protected: {why}"))).collect())
}

fn matcher<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<Gitignore, String> {
    let mut builder = GitignoreBuilder::new("");
    builder.case_insensitive(true).map_err(|error| error.to_string())?;
    for glob in globs {
        builder.add_line(None, glob).map_err(|error| format!("the glob {glob:?} can't be read: {error}"))?;
    }
    builder.build().map_err(|error| error.to_string())
}

fn list_holds(list: &Gitignore, path: &[u8]) -> bool {
    let relative = path.iter().position(|byte| *byte != b'/').map_or(path, |start| &path[start..]);
    !relative.is_empty() && list.matched_path_or_any_parents(Path::new(OsStr::from_bytes(relative)), false).is_ignore()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::guard::tests::{changed, findings, findings_with};
    use crate::guard::{Base, Limits};

    #[test]
    fn what_others_run_or_obey_is_protected() {
        for path in [
            ".github/workflows/a.yml",
            ".forgejo/workflows/test.yaml",
            "sub/.gitlab-ci.yml",
            ".frognano.toml",
            "docs/CODEOWNERS",
            ".gitattributes",
            "a/.gitmodules",
            "agents.md",
            "sub/CLAUDE.md",
            ".cursor/rules/x.mdc",
            ".githooks/post-checkout",
            "scripts/pre-commit",
            "src/x.pth",
            "src/sitecustomize.py",
            "usercustomize/__init__.py",
            ".vscode/tasks.json",
            ".Github/workflows/x",
            "Jenkinsfile.release",
            "/.github/x",
        ] {
            assert_eq!(findings(check, &[changed(path, None, Some("x"))]).len(), 1, "{path}");
        }
        for path in ["src/agents.py", "docs/codeowners.rst", "src/git.py", "src/path.py", "ci/x.py", "customize.py", "github/workflows/x"] {
            assert!(findings(check, &[changed(path, None, Some("x"))]).is_empty(), "{path}");
        }
    }

    #[test]
    fn configured_globs_are_protected_too() {
        let limits = Limits { protected: vec!["/deploy/".to_owned(), "*.lock".to_owned()], ..Limits::default() };
        let patch =
            [changed("deploy/a/b", Some("x"), None), changed("a/uv.lock", None, Some("x")), changed("src/deploy/a", None, Some("x"))];
        let found = findings_with(check, &patch, &limits, &Base::default());
        assert_eq!(found.iter().map(|finding| finding.path.as_str()).collect::<Vec<_>>(), ["deploy/a/b", "a/uv.lock"]);
    }
}
