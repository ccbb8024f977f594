//! The sample project: a small Python package with a real bug, a test that shows it, and the issue that reports it.
//!
//! It needs nothing but python3 and its standard library, so that its tests run in a sandbox without a network on any machine.

use std::io;
use std::path::Path;

use super::forge::{Forge, Mistake};
use super::git_backend;
use crate::domain::Permission;

/// `owner/name` of the project on the demonstration forge.
pub const PATH: &str = "acme/tallybook";

/// The branch that its bare repository starts with.
pub const DEFAULT_BRANCH: &str = "main";

/// Who maintains the project: may do everything in its repository.
pub const MAINTAINER: &str = "ada";

/// Who may only read the project, and so may not ask for a run.
pub const READER: &str = "rita";

/// The service's own account.
pub const BOT: &str = "frognano";

/// The label that asks for a run.
pub const LABEL: &str = "frognano-fix";

/// The test that fails on the committed code, and passes once the bug is gone; in unittest's words `tests.test_tallybook.PlanTest.…`.
pub const FAILING_TEST: &str = "test_a_plan_adds_up_to_the_total";

/// The recorded session of an agent that mends it: one assistant message a line.
pub const SCRIPT: &str = include_str!("script.jsonl");

const ISSUE: &str = include_str!("issue.md");

const FILES: [(&str, &str); 9] = [
    (".gitignore", include_str!("gitignore")),
    ("README.md", include_str!("README.md")),
    ("pyproject.toml", include_str!("pyproject.toml")),
    ("tallybook/__init__.py", include_str!("tallybook/__init__.py")),
    ("tallybook/invoice.py", include_str!("tallybook/invoice.py")),
    ("tallybook/money.py", include_str!("tallybook/money.py")),
    ("tallybook/plan.py", include_str!("tallybook/plan.py")),
    ("tests/__init__.py", include_str!("tests/__init__.py")),
    ("tests/test_tallybook.py", include_str!("tests/test_tallybook.py")),
];

/// The title of the issue.
#[must_use]
pub fn issue_title() -> &'static str {
    ISSUE.split_once("\n\n").map_or(ISSUE, |(title, _)| title)
}

/// The text of the issue, in Markdown.
#[must_use]
pub fn issue_body() -> &'static str {
    ISSUE.split_once("\n\n").map_or("", |(_, body)| body)
}

/// Writes the project's files into a folder, which is made when missing.
///
/// # Errors
/// When a file can't be written.
pub fn write_to(folder: &Path) -> io::Result<()> {
    for (path, text) in FILES {
        let file = folder.join(path);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(file, text)?;
    }
    Ok(())
}

/// Makes the project's bare repository with its one commit on [`DEFAULT_BRANCH`]. Its id is the same on every machine.
///
/// # Errors
/// When git can't be run or the folder can't be written.
pub fn make_bare(repository: &Path) -> io::Result<()> {
    let files = tempfile::tempdir()?;
    write_to(files.path())?;
    git_backend::init_bare(repository, DEFAULT_BRANCH)?;
    git_backend::commit_folder(repository, files.path(), "Import tallybook 0.4.1")
}

/// Puts the project on a forge as a private repository below `folder`, with [`MAINTAINER`], [`READER`] and [`BOT`] (whose token is
/// `bot_token`, with administration rights, as Gitea demands of who asks for others' permissions), one webhook and the label [`LABEL`].
///
/// # Errors
/// When the repository can't be made or the forge has something of that name already.
pub fn put_on(forge: &Forge, folder: &Path, hook_secret: &str, bot_token: &str) -> Result<(), Mistake> {
    let git_dir = folder.join("tallybook.git");
    make_bare(&git_dir).map_err(|error| Mistake(format!("{}: the project's repository can't be made: {error}", git_dir.display())))?;
    forge.add_repository(PATH, &git_dir)?;
    for (login, is_bot, permission) in
        [(MAINTAINER, false, Permission::Admin), (READER, false, Permission::Read), (BOT, true, Permission::Admin)]
    {
        forge.add_user(login, is_bot);
        forge.permit(PATH, login, permission)?;
    }
    forge.add_token(bot_token, BOT, &["all"])?;
    forge.add_hook(PATH, hook_secret)?;
    forge.add_label(PATH, LABEL, "1f883d")?;
    Ok(())
}
