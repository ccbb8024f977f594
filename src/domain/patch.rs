//! What an agent changed, and what the rules say of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A git object id in lower-case hexadecimal: 40 digits for SHA-1, 64 for SHA-256 repositories.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectId(String);

impl ObjectId {
    /// Takes a full object id; none for anything else (so that no text of a stranger is ever used as a revision).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (hex && matches!(text.len(), 40 | 64)).then(|| Self(text.to_owned()))
    }

    /// The hexadecimal text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The kinds of entries that git keeps in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlobMode {
    /// A file.
    File,
    /// A file with the executable bit.
    Executable,
    /// A symbolic link; its content is the target.
    Symlink,
    /// A commit of another repository.
    Submodule,
}

impl BlobMode {
    /// The mode as git writes it.
    #[must_use]
    pub const fn octal(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Submodule => "160000",
        }
    }

    /// Reads git's mode; the old `100664` is a plain file.
    #[must_use]
    pub fn parse(octal: &str) -> Option<Self> {
        match octal {
            "100644" | "100664" => Some(Self::File),
            "100755" => Some(Self::Executable),
            "120000" => Some(Self::Symlink),
            "160000" => Some(Self::Submodule),
            _ => None,
        }
    }
}

/// One path that differs from the base commit. Paths and contents come from the sandbox: untrusted bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// The path from the top of the repository, `/` between the parts, in whatever bytes it has.
    pub path: Vec<u8>,
    /// Mode and content at base; none for a new path.
    pub before: Option<(BlobMode, Vec<u8>)>,
    /// Mode and content now; none for a deleted path.
    pub after: Option<(BlobMode, Vec<u8>)>,
}

impl ChangedFile {
    /// The path for people, undecodable bytes replaced.
    #[must_use]
    pub fn shown_path(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Shown to the reviewer.
    Flag,
    /// No pull request.
    Refuse,
}

/// What a rule has to say of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The stable name of the rule.
    pub rule: String,
    /// How much it weighs.
    pub severity: Severity,
    /// The path it is about, undecodable bytes replaced; empty for the patch as a whole.
    pub path: String,
    /// The line in the new file from 1; none where no line can be named.
    pub line: Option<u64>,
    /// One sentence.
    pub why: String,
}
