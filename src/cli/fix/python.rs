//! The Python of the user's shell, made visible in the sandbox: a project's tests find inside what they find outside.

use std::path::{Path, PathBuf};

/// Where the shell's own `python3` lives, so that a project's tests find in the sandbox what they find outside.
pub(super) struct Python {
    /// The environment that is active.
    pub(super) prefix: PathBuf,
    /// The installation that it was made from.
    pub(super) base_prefix: PathBuf,
}

/// None when it is Debian's own, which every sandbox has.
pub(super) fn python_of_this_shell() -> Option<Python> {
    let mut command = std::process::Command::new("python3");
    command.args(["-I", "-c", "import sys; print(sys.prefix); print(sys.base_prefix)"]).current_dir("/").stdin(std::process::Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines().map(PathBuf::from);
    let python = Python { prefix: lines.next()?, base_prefix: lines.next()? };
    let known = |path: &Path| path.starts_with("/usr");
    (!known(&python.prefix)).then_some(Python {
        base_prefix: if known(&python.base_prefix) { python.prefix.clone() } else { python.base_prefix },
        prefix: python.prefix,
    })
}
