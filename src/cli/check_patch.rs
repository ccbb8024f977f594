//! `frognano-bot check-patch`: what the rules say of a patch file, without running anything of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::app;
use crate::config::File;
use crate::domain::{BlobMode, Finding, Severity};
use crate::git::{Bench, Git, GitError};
use crate::guard::{self, Base, Limits};
use crate::verify::policy::{RepoPolicy, RunLimits};

use super::{fault, print, say, usage};

/// Ask the rules about a patch. Status 0: it may be published; 4: it is refused.
#[derive(Debug, Args)]
pub(super) struct CheckPatch {
    /// The git repository; the patch is for its HEAD, nothing in it is changed.
    #[arg(long, value_name = "DIR")]
    repo: PathBuf,
    /// The patch, as `git diff` writes it.
    #[arg(long, value_name = "FILE")]
    patch: PathBuf,
    /// A configuration whose [guard] is the floor; the repository's own .frognano.toml can only ask for less.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// A larger patch file is not read.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The repository's own settings.
const POLICY: &[u8] = b".frognano.toml";

impl CheckPatch {
    pub(super) async fn run(self) -> ExitCode {
        let limits = match self.config.as_deref().map(File::load_without_forges).transpose() {
            Ok(file) => file.map_or_else(Limits::default, |file| app::limits(&file)),
            Err(complaints) => return usage(&complaints),
        };
        let patch = match self.read_patch() {
            Ok(patch) => patch,
            Err(complaint) => return usage(&[complaint]),
        };
        match self.findings(patch, limits).await {
            Ok(findings) => self.tell(&findings),
            Err(error @ (GitError::RepositoryGone(_) | GitError::Empty)) => usage(&[format!("--repo {}: {error}", self.repo.display())]),
            Err(error) => fault(&error.to_string()),
        }
    }

    fn read_patch(&self) -> Result<Vec<u8>, String> {
        let shown = self.patch.display();
        let size = std::fs::metadata(&self.patch).map_err(|error| format!("--patch {shown}: can't be read: {error}"))?.len();
        if size > LARGEST {
            return Err(format!("--patch {shown}: {size} bytes; no patch of more than {LARGEST} bytes is read"));
        }
        std::fs::read(&self.patch).map_err(|error| format!("--patch {shown}: can't be read: {error}"))
    }

    async fn findings(&self, patch: Vec<u8>, limits: Limits) -> Result<Vec<Finding>, GitError> {
        let home = tempfile::Builder::new().prefix("frognano-").tempdir().map_err(|error| GitError::Failed(error.to_string()))?;
        let git = Git::new(home.path()).await.map_err(GitError::Failed)?;
        let bench = Bench::at_head(&git, &self.repo).await?;
        let changed = match bench.read(patch).await? {
            Ok(changed) => changed,
            Err(words) => return Ok(vec![of_patch("patch-unreadable", format!("git does not apply the patch: {words}"))]),
        };
        let limits = match tightened(&bench, &limits).await? {
            Ok(limits) => limits,
            Err(why) => return Ok(vec![of_patch("policy-unreadable", format!(".frognano.toml: {why}"))]),
        };
        let base = base_of(&bench).await?;
        Ok(match guard::check(changed, &limits, &base) {
            Ok(patch) => patch.flags().to_vec(),
            Err(findings) => findings,
        })
    }

    fn tell(&self, findings: &[Finding]) -> ExitCode {
        let refused = findings.iter().any(|finding| finding.severity == Severity::Refuse);
        let verdict = if refused { "refuse" } else { "publish" };
        if self.json {
            print(&json!({ "verdict": verdict, "findings": findings }).to_string());
        } else {
            print(&table(findings));
            say(&format!("verdict: {verdict}"));
        }
        ExitCode::from(if refused { 4 } else { 0 })
    }
}

/// The service's limits, made smaller where the repository asks for less.
async fn tightened(bench: &Bench, limits: &Limits) -> Result<Result<Limits, String>, GitError> {
    let Some(entry) = bench.base.entries.get(POLICY) else { return Ok(Ok(limits.clone())) };
    if !matches!(entry.mode, BlobMode::File | BlobMode::Executable) || entry.size > RepoPolicy::MAX_BYTES {
        return Ok(Err(format!("it is no file of at most {} bytes", RepoPolicy::MAX_BYTES)));
    }
    let content = bench.contents(&[POLICY]).await?.pop().unwrap_or_default();
    let policy = match RepoPolicy::parse(&content) {
        Ok(policy) => policy,
        Err(complaints) => return Ok(Err(complaints.join("; "))),
    };
    let floor = RunLimits {
        test_timeout: Duration::ZERO,
        attempts: 0,
        agent_time: Duration::ZERO,
        max_steps: 0,
        stuck_after: None,
        max_files: limits.max_files,
        max_lines: limits.max_lines,
        protected: limits.protected.clone(),
        open_with: Vec::new(),
    };
    let (tight, _) = policy.tighten(&floor);
    Ok(Ok(Limits { max_files: tight.max_files, max_lines: tight.max_lines, protected: tight.protected, ..limits.clone() }))
}

/// What the rules want to know of HEAD beside the changed files.
async fn base_of(bench: &Bench) -> Result<Base, GitError> {
    let wanted = bench.base.entries.iter().filter(|(path, entry)| {
        matches!(entry.mode, BlobMode::File | BlobMode::Executable) && entry.size <= Base::LARGEST && Base::wants(path)
    });
    let wanted: Vec<&[u8]> = wanted.map(|(path, _)| path.as_slice()).take(Base::MOST).collect();
    let contents = bench.contents(&wanted).await?;
    let files: BTreeMap<_, _> = wanted.into_iter().map(<[u8]>::to_vec).zip(contents).collect();
    Ok(Base { paths: bench.base.entries.keys().cloned().collect(), files })
}

fn of_patch(rule: &str, why: String) -> Finding {
    Finding { rule: rule.to_owned(), severity: Severity::Refuse, path: String::new(), line: None, why }
}

/// One finding a line; what a terminal would obey is shown as its number.
fn table(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "no rule has anything to say".to_owned();
    }
    let rows: Vec<[String; 4]> = findings.iter().map(row).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (severity, rule, place) = (width(0), width(1), width(2));
    let lines = rows.iter().map(|[a, b, c, why]| format!("{a:severity$}  {b:rule$}  {c:place$}  {why}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn row(finding: &Finding) -> [String; 4] {
    let severity = if finding.severity == Severity::Refuse { "refuse" } else { "flag" };
    let place = match (finding.path.as_str(), finding.line) {
        ("", _) => "(the patch)".to_owned(),
        (path, Some(line)) => format!("{path}:{line}"),
        (path, None) => path.to_owned(),
    };
    [severity.to_owned(), finding.rule.clone(), plain(&place), plain(&finding.why)]
}

fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || guard::is_invisible(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}
