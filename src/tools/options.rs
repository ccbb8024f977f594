//! The command line and the limits of the observations.

use std::ffi::OsString;
use std::path::PathBuf;

use super::confine::Bounds;

/// What `frognano-tools` was started with.
#[derive(Debug)]
pub(super) struct Options {
    /// The folder that relative paths start from and commands run in.
    pub workdir: PathBuf,
    /// Whether the program takes rights from itself before it reads the first line.
    pub confine: bool,
    /// The resource limits that `--confine` sets.
    pub bounds: Bounds,
    /// How long observations may be.
    pub limits: Limits,
    /// Variables whose names begin so are not handed on to what is started.
    pub without_env: Vec<String>,
}

/// How long observations may be (leaf.md, "Evaluated configuration"). Zero or less means without a limit, as in the reference.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Characters of a Read: `LEAF_TOOL_OUTPUT_CHARS`.
    pub read_chars: i64,
    /// Characters of a Bash: `LEAF_BASH_OUTPUT_CHARS`.
    pub bash_chars: i64,
    /// Rows of a Glob: `LEAF_GLOB_LIMIT`.
    pub glob_rows: i64,
    /// Seconds of a Bash that asks for none: `LEAF_BASH_TIMEOUT_SEC`.
    pub bash_seconds: i64,
}

impl Options {
    /// Reads `--workdir DIR [--confine] [--max-processes N] [--max-file-bytes N] [--max-memory-bytes N] [--max-open-files N] [--without-env PREFIX]…`.
    ///
    /// # Errors
    /// One sentence about the first word that can't be understood.
    pub(super) fn from_command_line(words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut workdir = None;
        let mut confine = false;
        let mut bounds = Bounds::default();
        let mut without_env = Vec::new();
        let mut words = words;
        while let Some(word) = words.next() {
            let name = word.to_string_lossy().into_owned();
            let mut value = || words.next().ok_or(format!("{name} needs a value"));
            match name.as_str() {
                "--workdir" => workdir = Some(PathBuf::from(value()?)),
                "--confine" => confine = true,
                "--max-processes" => bounds.processes = Some(number(&name, &value()?)?),
                "--max-file-bytes" => bounds.file_bytes = Some(number(&name, &value()?)?),
                "--max-memory-bytes" => bounds.memory_bytes = Some(number(&name, &value()?)?),
                "--max-open-files" => bounds.open_files = Some(number(&name, &value()?)?),
                "--without-env" => without_env.push(value()?.to_string_lossy().into_owned()),
                _ => {
                    return Err(format!(
                        "unknown option {name:?}; known are --workdir, --confine, --without-env and --max-{{processes,file-bytes,memory-bytes,open-files}}"
                    ));
                }
            }
        }
        let workdir = workdir.ok_or("--workdir DIR is missing")?;
        Ok(Self { workdir, confine, bounds, limits: Limits::from_environment()?, without_env })
    }
}

impl Limits {
    fn from_environment() -> Result<Self, String> {
        Ok(Self {
            read_chars: from_variable("LEAF_TOOL_OUTPUT_CHARS", 20_000)?,
            bash_chars: from_variable("LEAF_BASH_OUTPUT_CHARS", 30_000)?,
            glob_rows: from_variable("LEAF_GLOB_LIMIT", 1_000)?,
            bash_seconds: from_variable("LEAF_BASH_TIMEOUT_SEC", 120)?,
        })
    }
}

fn from_variable(name: &str, default: i64) -> Result<i64, String> {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => value.trim().parse().map_err(|_| format!("{name} is {value:?}, not a whole number")),
        _ => Ok(default),
    }
}

fn number(name: &str, value: &OsString) -> Result<u64, String> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| format!("{name} is {value:?}, not a whole number"))
}
