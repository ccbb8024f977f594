//! What a Python file is for: the same words weigh differently in a test, in what tests share, and in the project's own source.

use crate::domain::TestNames;

/// What a Python file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::guard) enum Role {
    /// The project's own code.
    Source,
    /// A file that a runner collects tests from.
    Tests,
    /// What tests share: `conftest.py`, helpers and packages below the tests.
    Support,
    /// A program that builds the project or runs its tests.
    Build,
}

impl Role {
    pub(super) fn of(path: &[u8], tests: &TestNames) -> Self {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        match name {
            b"conftest.py" => Self::Support,
            b"setup.py" | b"noxfile.py" | b"tasks.py" | b"fabfile.py" | b"dodo.py" | b"duties.py" | b"hatch_build.py" => Self::Build,
            _ if tests.is_collected_file(path) => Self::Tests,
            _ if tests.is_test_file(path) => Self::Support,
            _ => Self::Source,
        }
    }

    /// Whether only tests use it.
    pub(in crate::guard) fn is_of_tests(self) -> bool {
        matches!(self, Self::Tests | Self::Support)
    }
}
