//! Paths that decide what others run, see or must approve. A bot that may change them may change its own rules.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::LazyLock;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{Blob, Patch, file_name, of_file};
use crate::domain::{BlobMode, ChangedFile, Finding, Severity};

pub(super) const RULE: &str = "protected-path";

/// What is protected everywhere, in the form of a `.gitignore`, and why.
const ALWAYS: &[(&str, &[&str])] = &[
    ("it is this service's own configuration", &[".frognano.toml", ".frognano/"]),
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
            "codefresh.yml",
            ".codefresh/",
            "skaffold.y*ml",
            ".concourse/",
            "screwdriver.y*ml",
            ".screwdriver.y*ml",
            ".packit.y*ml",
            ".copr/",
            ".dagger/",
            "dagger.json",
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
    ("git or another keeper of versions reads it", &[".git*", ".hg/", ".hgignore", ".svn/", ".bzr/", ".jj/"]),
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
    let finding = |(file, why): (&ChangedFile, &str)| {
        if is_harmless(file, patch)? && !list_holds(&configured.1, &file.path) {
            return Ok(of_file(RULE, Severity::Flag, file, None, "git will pass over more files than before"));
        }
        Ok(of_file(RULE, Severity::Refuse, file, None, format!("the path is protected: {why}")))
    };
    touched.map(finding).collect()
}

/// A `.gitignore` that only grew, by lines which match nothing that base has and no file of tests, and an empty `.gitkeep`.
fn is_harmless(file: &ChangedFile, patch: &Patch<'_>) -> Result<bool, String> {
    let text = |blob: Option<&Blob>| {
        blob.filter(|(mode, _)| *mode == BlobMode::File).map(|(_, content)| String::from_utf8_lossy(content).into_owned())
    };
    if file_name(&file.path) == b".gitkeep" {
        return Ok(text(file.after.as_ref()).is_some_and(|text| text.trim().is_empty()));
    }
    let Some(after) = text(file.after.as_ref()).filter(|_| file_name(&file.path) == b".gitignore") else { return Ok(false) };
    let before = text(file.before.as_ref()).unwrap_or_default();
    let added: Vec<&str> = after.lines().filter(|line| !before.lines().any(|known| known == *line)).collect();
    let list = matcher(added.iter().copied())?;
    let tests: [&[u8]; 4] = [b"test_new.py", b"tests/test_new.py", b"tests/conftest.py", b"conftest.py"];
    let mut paths = patch.base.paths.iter().map(Vec::as_slice).chain(patch.changed.iter().map(|file| file.path.as_slice())).chain(tests);
    let grows = before.lines().all(|line| after.lines().any(|known| known == line)) && !added.iter().any(|line| line.starts_with('!'));
    Ok(grows && !paths.any(|path| list_holds(&list, path)))
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
    use crate::domain::Severity::{Flag, Refuse};
    use crate::guard::tests::{base_with, changed, findings, findings_with};
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
    fn a_list_of_what_git_passes_over_may_grow() {
        let severity = |before: &str, after: &str| {
            let base = base_with(&["src/shop.py", "docs/a.md"], &[]);
            findings_with(check, &[changed(".gitignore", Some(before), Some(after))], &Limits::default(), &base)[0].severity
        };
        assert_eq!(severity("*.pyc\n", "*.pyc\n.cache/\n"), Flag);
        for after in ["", "*.pyc\n!secret.pyc\n", "*.pyc\ntests/\n", "*.pyc\ntest_*.py\n", "*.pyc\nsrc\n", "*.pyc\n*\n", "*.pyc\n*.py\n"] {
            assert_eq!(severity("*.pyc\n", after), Refuse, "{after}");
        }
        assert_eq!(findings(check, &[changed("a/.gitkeep", None, Some(""))])[0].severity, Flag);
        assert_eq!(findings(check, &[changed("a/.gitkeep", None, Some("x"))])[0].severity, Refuse);
        assert_eq!(findings(check, &[changed(".gitignore", Some("x\n"), None)])[0].severity, Refuse);
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
