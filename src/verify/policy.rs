//! A repository's own `.frognano.toml`, read from its default branch. It may only tighten what the service allows.

use std::time::Duration;

use ignore::gitignore::GitignoreBuilder;
use toml::{Table, Value};

use crate::domain::Proof;

/// What a repository asks for; none where it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepoPolicy {
    /// `[tests] command`: the command that runs the tests.
    pub test_command: Option<String>,
    /// `[tests] timeout_seconds`: how long one run of them may take.
    pub test_timeout_seconds: Option<u64>,
    /// `[guard] protected`: further protected paths, written as in a `.gitignore`.
    pub protected: Vec<String>,
    /// `[guard] max_files`: how many paths a patch may change.
    pub max_files: Option<u64>,
    /// `[guard] max_lines`: how many lines a patch may add and remove together.
    pub max_lines: Option<u64>,
    /// `[run] attempts`: how many fresh attempts are made at most.
    pub attempts: Option<u64>,
    /// `[run] max_steps`: how many turns the model has.
    pub max_steps: Option<u64>,
    /// `[run] max_seconds`: how long the agent may work.
    pub max_seconds: Option<u64>,
    /// `[run] stuck_after`: so many steps in a row with the same calls and answers end the run.
    pub stuck_after: Option<u64>,
    /// `[verify] open_with`: the proofs that may open a pull request.
    pub open_with: Option<Vec<Proof>>,
}

/// The limits of one run: the service's floor, or that floor tightened by a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLimits {
    /// How long one run of the tests may take.
    pub test_timeout: Duration,
    /// How long the agent may work.
    pub agent_time: Duration,
    /// How many fresh attempts are made at most.
    pub attempts: u64,
    /// How many turns the model has.
    pub max_steps: u64,
    /// So many steps in a row with the same calls and answers end the run.
    pub stuck_after: Option<u64>,
    /// How many paths a patch may change.
    pub max_files: u64,
    /// How many lines a patch may add and remove together.
    pub max_lines: u64,
    /// Further protected paths, written as in a `.gitignore`.
    pub protected: Vec<String>,
    /// The proofs that may open a pull request.
    pub open_with: Vec<Proof>,
}

const KEYS: &[(&str, &[&str])] = &[
    ("tests", &["command", "timeout_seconds"]),
    ("guard", &["protected", "max_files", "max_lines"]),
    ("run", &["attempts", "max_steps", "max_seconds", "stuck_after"]),
    ("verify", &["open_with"]),
];

impl RepoPolicy {
    /// The largest file that is read, in bytes.
    pub const MAX_BYTES: u64 = 64 * 1024;

    /// Reads the file.
    ///
    /// # Errors
    /// Every complaint at once, each one sentence with the key it is about.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<String>> {
        let file = table(bytes).map_err(|complaint| vec![complaint])?;
        let mut reading = Reading { complaints: unknown_keys(&file), file: &file };
        let policy = Self {
            test_command: reading.command(),
            test_timeout_seconds: reading.number("tests", "timeout_seconds"),
            protected: reading.globs(),
            max_files: reading.number("guard", "max_files"),
            max_lines: reading.number("guard", "max_lines"),
            attempts: reading.number("run", "attempts"),
            max_steps: reading.number("run", "max_steps"),
            max_seconds: reading.number("run", "max_seconds"),
            stuck_after: reading.number_from("run", "stuck_after", 2),
            open_with: reading.proofs(),
        };
        if reading.complaints.is_empty() { Ok(policy) } else { Err(reading.complaints) }
    }

    /// The floor, made tighter where the repository asks for less. A larger value is ignored, and a note says so.
    #[must_use]
    pub fn tighten(&self, floor: &RunLimits) -> (RunLimits, Vec<String>) {
        let mut notes = Vec::new();
        let mut smaller = |key: &str, asked: Option<u64>, allowed: u64| match asked {
            Some(asked) if asked > allowed => {
                notes.push(format!(".frognano.toml asks for {key} = {asked}; the service allows {allowed}, so that is used"));
                allowed
            }
            asked => asked.unwrap_or(allowed),
        };
        let mut seconds = |key, asked: Option<u64>, allowed: Duration| match smaller(key, asked, allowed.as_secs()) {
            limit if limit == allowed.as_secs() => allowed,
            limit => Duration::from_secs(limit),
        };
        let test_timeout = seconds("tests.timeout_seconds", self.test_timeout_seconds, floor.test_timeout);
        let agent_time = seconds("run.max_seconds", self.max_seconds, floor.agent_time);
        let limits = RunLimits {
            test_timeout,
            agent_time,
            attempts: smaller("run.attempts", self.attempts, floor.attempts),
            max_steps: smaller("run.max_steps", self.max_steps, floor.max_steps),
            stuck_after: floor.stuck_after.map_or(self.stuck_after, |allowed| Some(smaller("run.stuck_after", self.stuck_after, allowed))),
            max_files: smaller("guard.max_files", self.max_files, floor.max_files),
            max_lines: smaller("guard.max_lines", self.max_lines, floor.max_lines),
            protected: [floor.protected.as_slice(), &self.protected].concat(),
            open_with: self.open_with.as_ref().map_or_else(
                || floor.open_with.clone(),
                |asked| floor.open_with.iter().filter(|proof| asked.contains(proof)).copied().collect(),
            ),
        };
        let more = self.open_with.iter().flatten().filter(|proof| !floor.open_with.contains(proof));
        notes.extend(more.map(|proof| {
            format!(".frognano.toml asks for verify.open_with = {:?}; the service does not allow it, so it is left out", proof.name())
        }));
        (limits, notes)
    }
}

fn table(bytes: &[u8]) -> Result<Table, String> {
    if bytes.len() as u64 > RepoPolicy::MAX_BYTES {
        return Err(format!("it is larger than {} bytes", RepoPolicy::MAX_BYTES));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| format!("it is not UTF-8: {error}"))?;
    text.parse().map_err(|error: toml::de::Error| format!("it is no TOML: {}", error.message()))
}

fn unknown_keys(file: &Table) -> Vec<String> {
    let mut complaints = Vec::new();
    for (section, value) in file {
        match (KEYS.iter().find(|(known, _)| known == section), value) {
            (None, _) => complaints.push(format!("{section}: there is no such key; known are tests, guard, run and verify")),
            (Some((_, keys)), Value::Table(table)) => {
                let unknown = table.keys().filter(|key| !keys.contains(&key.as_str()));
                complaints.extend(unknown.map(|key| format!("{section}.{key}: there is no such key; known are {}", keys.join(", "))));
            }
            (Some(_), _) => complaints.push(format!("{section}: it must be a table, [{section}]")),
        }
    }
    complaints
}

struct Reading<'a> {
    file: &'a Table,
    complaints: Vec<String>,
}

impl Reading<'_> {
    fn value(&self, section: &str, key: &str) -> Option<&Value> {
        self.file.get(section)?.as_table()?.get(key)
    }

    fn number(&mut self, section: &str, key: &str) -> Option<u64> {
        self.number_from(section, key, 1)
    }

    fn number_from(&mut self, section: &str, key: &str, least: u64) -> Option<u64> {
        let value = self.value(section, key)?;
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok()).filter(|number| *number >= least);
        if number.is_none() {
            self.complaints.push(format!("{section}.{key}: it must be a whole number from {least}"));
        }
        number
    }

    fn command(&mut self) -> Option<String> {
        let value = self.value("tests", "command")?;
        let command = value.as_str().map(str::trim).filter(|command| !command.is_empty() && !command.contains('\0')).map(str::to_owned);
        if command.is_none() {
            self.complaints.push("tests.command: it must be the text of a command".to_owned());
        }
        command
    }

    fn proofs(&mut self) -> Option<Vec<Proof>> {
        let value = self.value("verify", "open_with")?;
        let known = |name: &Value| Proof::ALL.into_iter().find(|proof| name.as_str() == Some(proof.name()));
        let proofs = value.as_array().and_then(|list| list.iter().map(known).collect::<Option<Vec<_>>>()).filter(|list| !list.is_empty());
        if proofs.is_none() {
            self.complaints.push("verify.open_with: it must be a list of some of proved, fixed, consistent, unproved".to_owned());
        }
        proofs
    }

    fn globs(&mut self) -> Vec<String> {
        let Some(value) = self.value("guard", "protected") else { return Vec::new() };
        let globs = value.as_array().and_then(|list| list.iter().map(|glob| glob.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>());
        let Some(globs) = globs else {
            self.complaints.push("guard.protected: it must be a list of texts".to_owned());
            return Vec::new();
        };
        self.complaints.extend(globs.iter().filter_map(|glob| complaint_about_glob(glob)).map(|why| format!("guard.protected: {why}")));
        globs
    }
}

fn complaint_about_glob(glob: &str) -> Option<String> {
    if glob.trim().is_empty() || glob.starts_with(['!', '#']) {
        return Some(format!("the glob {glob:?} protects nothing"));
    }
    GitignoreBuilder::new("").add_line(None, glob).err().map(|error| format!("the glob {glob:?} can't be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Proof, RepoPolicy, RunLimits};

    const FULL: &str = r#"
        [tests]
        command = " pytest -q "
        timeout_seconds = 60
        [guard]
        protected = ["deploy/**"]
        max_files = 5
        max_lines = 9000
        [run]
        max_steps = 10
        max_seconds = 100
    "#;

    fn floor() -> RunLimits {
        RunLimits {
            test_timeout: Duration::from_millis(300_500),
            agent_time: Duration::from_secs(50),
            attempts: 3,
            max_steps: 40,
            stuck_after: None,
            max_files: 50,
            max_lines: 3000,
            protected: vec!["*.lock".to_owned()],
            open_with: vec![Proof::Proved, Proof::Fixed, Proof::Consistent],
        }
    }

    #[test]
    fn a_repository_may_only_tighten() {
        let policy = RepoPolicy::parse(FULL.as_bytes()).unwrap();
        assert_eq!(policy.test_command.as_deref(), Some("pytest -q"));
        let (limits, notes) = policy.tighten(&floor());
        assert_eq!(limits.protected, ["*.lock", "deploy/**"]);
        assert_eq!((limits.test_timeout, limits.agent_time), (Duration::from_secs(60), Duration::from_secs(50)));
        assert_eq!((limits.max_steps, limits.max_files, limits.max_lines), (10, 5, 3000));
        assert_eq!(notes.len(), 2);
        assert!(notes[0].contains("run.max_seconds = 100") && notes[1].contains("guard.max_lines = 9000"), "{notes:?}");
    }

    #[test]
    fn a_repository_may_end_a_stuck_run_sooner_but_not_later() {
        let asked = |times: u64| RepoPolicy::parse(format!("[run]\nstuck_after = {times}").as_bytes());
        let tightened = |allowed, times| {
            let (limits, notes) = asked(times).unwrap().tighten(&RunLimits { stuck_after: allowed, ..floor() });
            (limits.stuck_after, notes.len())
        };
        assert_eq!(tightened(None, 5), (Some(5), 0));
        assert_eq!(tightened(Some(8), 5), (Some(5), 0));
        assert_eq!(tightened(Some(3), 5), (Some(3), 1));
        assert_eq!(asked(1).unwrap_err(), ["run.stuck_after: it must be a whole number from 2"]);
        let untouched = RunLimits { stuck_after: Some(3), ..floor() };
        assert_eq!(RepoPolicy::default().tighten(&untouched), (untouched, vec![]));
    }

    #[test]
    fn a_repository_may_ask_for_more_proof_but_not_for_less() {
        let tightened = |asked: &str| {
            let policy = RepoPolicy::parse(format!("[verify]\nopen_with = {asked}").as_bytes()).unwrap();
            let (limits, notes) = policy.tighten(&floor());
            (limits.open_with, notes.len())
        };
        assert_eq!(tightened(r#"["fixed", "proved"]"#), (vec![Proof::Proved, Proof::Fixed], 0));
        assert_eq!(tightened(r#"["proved", "unproved"]"#), (vec![Proof::Proved], 1));
        for wrong in ["[]", "\"proved\"", "[\"green\"]", "[1]"] {
            let complaints = RepoPolicy::parse(format!("[verify]\nopen_with = {wrong}").as_bytes()).unwrap_err();
            assert!(complaints[0].starts_with("verify.open_with: "), "{complaints:?}");
        }
    }

    #[test]
    fn a_repository_may_ask_for_fewer_attempts_but_not_for_more() {
        let attempts = |asked: &str| {
            let (limits, notes) = RepoPolicy::parse(format!("[run]\nattempts = {asked}").as_bytes()).unwrap().tighten(&floor());
            (limits.attempts, notes.len())
        };
        assert_eq!((attempts("1"), attempts("3"), attempts("9")), ((1, 0), (3, 0), (3, 1)));
        assert!(RepoPolicy::parse(b"[run]\nattempts = 0").is_err());
    }

    #[test]
    fn an_empty_file_changes_nothing() {
        let policy = RepoPolicy::parse(b"# nothing\n[tests]\n").unwrap();
        assert_eq!(policy, RepoPolicy::default());
        assert_eq!(policy.tighten(&floor()), (floor(), vec![]));
    }

    #[test]
    fn all_complaints_come_at_once() {
        let file = r#"
            sandbox = true
            run = 1
            [tests]
            comand = "pytest"
            command = ""
            timeout_seconds = 0
            [guard]
            protected = ["!src", "{a"]
            max_files = -1
            max_lines = "many"
        "#;
        let complaints = RepoPolicy::parse(file.as_bytes()).unwrap_err();
        for key in [
            "sandbox",
            "run",
            "tests.comand",
            "tests.command",
            "tests.timeout_seconds",
            "guard.protected: the glob \"!src\"",
            "guard.protected: the glob \"{a\"",
            "guard.max_files",
            "guard.max_lines",
        ] {
            assert!(complaints.iter().any(|complaint| complaint.starts_with(key)), "{key}: {complaints:#?}");
        }
        assert_eq!(complaints.len(), 9);
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        assert!(RepoPolicy::parse(b"[tests").unwrap_err()[0].contains("no TOML"));
        assert!(RepoPolicy::parse(b"# \xff").unwrap_err()[0].contains("not UTF-8"));
        assert!(RepoPolicy::parse(&vec![b'#'; 70_000]).unwrap_err()[0].contains("larger"));
        assert!(RepoPolicy::parse(b"[guard]\nprotected = [1]").unwrap_err()[0].contains("list of texts"));
    }
}
