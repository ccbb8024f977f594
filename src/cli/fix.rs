//! `frognano-bot fix`: the way from a commit to a verdict for one local repository, without any forge.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::app;
use crate::config::File;
use crate::domain::{Fault, Ids as _, IssueText, Outcome, RunId, Stage, SystemClock};
use crate::git::Remote;
use crate::leaf::Trajectory;
use crate::model::{Client, Endpoint, RestartOn, Script, Scripted, Settings};
use crate::pipeline::{self, Record, Stop, Work};
use crate::publish::report::Report;
use crate::publish::text;
use crate::sandbox::local;
use crate::store::Checkpoint;

use super::progress::Bar;
use super::{asked_to_stop, print, say, usage};

/// Work on one local repository.
#[derive(Debug, Args)]
pub(super) struct Fix {
    /// The git repository; its HEAD is worked on, nothing in it is changed.
    #[arg(long)]
    repo: PathBuf,
    /// A file with the issue: the title on the first line, then the text.
    #[arg(long)]
    issue: PathBuf,
    /// The command that runs the project's tests; by default it is found out.
    #[arg(long, value_name = "CMD")]
    test: Option<String>,
    /// The OpenAI-compatible address of the model's server.
    #[arg(long, value_name = "URL", requires = "model", conflicts_with = "script", required_unless_present = "script")]
    model_url: Option<url::Url>,
    /// The model's name there.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// A script in the model's place: JSON lines, one assistant message a line.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Where patch.diff, trajectory.json, report.json and pull-request.md are written.
    #[arg(long, default_value = "frognano-out")]
    out: PathBuf,
    /// Print report.json alone on the standard output.
    #[arg(long)]
    json: bool,
    /// A further folder that is visible in the sandbox, read-only; may be given several times.
    #[arg(long, value_name = "DIR")]
    bind: Vec<PathBuf>,
    /// A configuration whose [sandbox], [run], [guard] and [repositories] hold here too.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Fix {
    pub(super) async fn run(self) -> ExitCode {
        let prepared = match self.prepare().await {
            Ok(prepared) => prepared,
            Err(complaints) => return usage(&complaints),
        };
        let cancel = CancellationToken::new();
        let stopping = cancel.clone();
        tokio::spawn(async move {
            asked_to_stop().await;
            stopping.cancel();
        });
        let mut record = Watched { bar: Bar::new() };
        let (outcome, report) = prepared.solve(&mut record, cancel).await;
        record.bar.end();
        if let Err(error) = write_out(&self.out, &outcome, &report) {
            say(&format!("frognano-bot: {}: can't be written: {error}", self.out.display()));
            return ExitCode::from(1);
        }
        if self.json {
            print(&serde_json::to_string_pretty(&report).unwrap_or_default());
        } else {
            tell(&outcome, &report, &self.out);
        }
        ExitCode::from(match outcome {
            Outcome::Proposed { .. } => 0,
            Outcome::NoPatch { .. } => 3,
            Outcome::Refused { .. } => 4,
            Outcome::Cancelled { .. } | Outcome::Abandoned { .. } => 1,
        })
    }

    async fn prepare(&self) -> Result<Prepared, Vec<String>> {
        let mut complaints = Vec::new();
        let text = read_issue(&self.issue).map_err(|why| complaints.push(format!("--issue {why}"))).ok();
        let repo = repository(&self.repo).map_err(|why| complaints.push(format!("--repo {}: {why}", self.repo.display()))).ok();
        if self.test.as_ref().is_some_and(|test| test.trim().is_empty()) {
            complaints.push("--test: the command is empty".to_owned());
        }
        let model = self.model().map_err(|why| complaints.push(why)).ok();
        let file = self.file().map_err(|more| complaints.extend(more)).ok();
        if complaints.is_empty()
            && let Err(error) = make_out(&self.out)
        {
            complaints.push(format!("--out {}: can't be made or written: {error}", self.out.display()));
        }
        let data = tempfile::Builder::new().prefix("frognano-").tempdir().map_err(|error| vec![format!("no temporary folder: {error}")])?;
        open_for_the_sandbox(data.path());
        let (Some(text), Some(repo), Some(model), Some(file)) = (text, repo, model, file) else { return Err(complaints) };
        let sandboxes = app::sandboxes(&file, data.path(), Vec::new()).map_err(|more| complaints.extend(more)).ok();
        let (Some(sandboxes), true) = (sandboxes, complaints.is_empty()) else { return Err(complaints) };
        let parts = assemble(&file, data.path(), sandboxes, model, self.test.clone()).await?;
        Ok(Prepared { parts, text, repo, out: self.out.clone(), _data: data })
    }

    fn model(&self) -> Result<Client, String> {
        let (endpoint, name) = match (&self.script, &self.model_url) {
            (Some(script), _) => {
                let text = std::fs::read_to_string(script).map_err(|error| format!("--script {}: {error}", script.display()))?;
                let script = Script::parse(&text).map_err(|why| format!("--script {}: {why}", script.display()))?;
                (Endpoint::Script(Scripted::new(script, RestartOn::Never)), "script".to_owned())
            }
            (None, Some(url)) => {
                let endpoint = Endpoint::Http { base_url: url.to_string(), api_key: None, ca_bundle: None };
                (endpoint, self.model.clone().unwrap_or_default())
            }
            (None, None) => return Err("--script FILE, or --model-url URL with --model NAME".to_owned()),
        };
        Client::new(endpoint, Settings { name, ..Settings::default() }).map_err(|error| format!("--model-url: {error}"))
    }

    fn file(&self) -> Result<File, Vec<String>> {
        let mut file = match &self.config {
            Some(path) => File::load_without_forges(path)?,
            None => File::local(nowhere()?, "local"),
        };
        file.sandbox.binds.extend(self.bind.iter().cloned());
        if let Some(python) = python_of_this_shell() {
            file.sandbox.path.push(python.prefix.join("bin"));
            file.sandbox.binds.extend([python.prefix, python.base_prefix]);
            file.sandbox.binds.sort();
            file.sandbox.binds.dedup();
        }
        Ok(file)
    }
}

async fn assemble(
    file: &File,
    data: &Path,
    sandboxes: local::Local,
    model: Client,
    test: Option<String>,
) -> Result<pipeline::Parts, Vec<String>> {
    app::assemble(file, data, Arc::new(sandboxes), Arc::new(model), Arc::new(SystemClock), test).await
}

/// Everything that a run needs.
struct Prepared {
    parts: pipeline::Parts,
    text: IssueText,
    /// Its absolute path.
    repo: String,
    out: PathBuf,
    _data: tempfile::TempDir,
}

impl Prepared {
    async fn solve(&self, record: &mut Watched, cancel: CancellationToken) -> (Outcome, Report) {
        let run = RunId(app::TimeIds.next());
        let mut work = Work {
            parts: &self.parts,
            record,
            folder: self.out.clone(),
            report: Report { run: run.0.clone(), model: self.parts.model.name().to_owned(), ..Report::default() },
            run,
            text: self.text.clone(),
            issue: 0,
            issue_url: String::new(),
            checkpoint: Checkpoint::default(),
            cancel,
            stage_began: None,
        };
        let remote = Remote { url: self.repo.clone(), credential: None, ca_file: None };
        let solved = match pipeline::start_from_folder(&mut work, &remote).await {
            Ok(start) => pipeline::propose(&mut work, &start).await.map(|_| ()),
            Err(stop) => Err(stop),
        };
        work.finish_stage();
        let outcome = match solved {
            Ok(()) => Outcome::Proposed { url: String::new() },
            Err(stop) => outcome_of(stop),
        };
        let mut report = std::mem::take(&mut work.report);
        report.stage_ms.clone_from(&work.checkpoint.stage_ms);
        report.close(&outcome);
        (outcome, report)
    }
}

/// Without a queue there is no later: what would put a job back ends it here.
fn outcome_of(stop: Stop) -> Outcome {
    match stop {
        Stop::Outcome(outcome) => outcome,
        Stop::Quiet(reason) => Outcome::Cancelled { by: reason.to_owned() },
        Stop::ModelDown(detail) => Outcome::Abandoned { fault: Fault::ModelFailed, detail },
        Stop::Later(detail) => Outcome::Abandoned { fault: Fault::ForgeFailed, detail },
        Stop::TryAgain(fault, detail) => Outcome::Abandoned { fault, detail },
        Stop::LeaseLost => Outcome::Abandoned { fault: Fault::WorkerLost, detail: String::new() },
        Stop::Shutdown | Stop::InQueue => Outcome::Cancelled { by: "you".to_owned() },
    }
}

/// The model of a local run is named on the command line, not in a file.
fn nowhere() -> Result<url::Url, Vec<String>> {
    url::Url::parse("http://localhost/").map_err(|error| vec![error.to_string()])
}

fn read_issue(path: &Path) -> Result<IssueText, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    let (title, body) = text.trim_start().split_once('\n').unwrap_or((text.trim(), ""));
    let title = title.trim_start_matches('#').trim().to_owned();
    if title.is_empty() { Err(format!("{}: is empty", path.display())) } else { Ok(IssueText { title, body: body.trim().to_owned() }) }
}

/// The absolute path of a repository as git takes it: the path and no `file://` address, in which a `%` would not be itself.
fn repository(folder: &Path) -> Result<String, String> {
    let top = std::fs::canonicalize(folder).ok().filter(|top| top.is_dir()).ok_or("there is no such folder")?;
    let is_repository = |folder: &Path| folder.join(".git").exists() || (folder.join("HEAD").is_file() && folder.join("objects").is_dir());
    if !is_repository(&top) {
        return Err(match top.ancestors().find(|above| is_repository(above)) {
            Some(above) => format!("it is a folder of the git repository {}; give that", above.display()),
            None => "it is no git repository; make it one with git init, and commit its files".to_owned(),
        });
    }
    top.into_os_string().into_string().map_err(|_| "its path is not UTF-8".to_owned())
}

/// What an earlier run wrote there must not be taken for what this one writes.
fn make_out(out: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(out)?;
    for name in ["patch.diff", "trajectory.json", "report.json", "pull-request.md"] {
        match std::fs::remove_file(out.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    tempfile::tempfile_in(out).map(|_| ())
}

/// The pull request is written where a patch was proposed.
fn write_out(out: &Path, outcome: &Outcome, report: &Report) -> std::io::Result<()> {
    std::fs::write(out.join("report.json"), serde_json::to_string_pretty(report).unwrap_or_default())?;
    match outcome {
        Outcome::Proposed { .. } => std::fs::write(out.join("pull-request.md"), text::pull_request(report, 0)),
        _ => Ok(()),
    }
}

fn tell(outcome: &Outcome, report: &Report, out: &Path) {
    print(&format!("{}{}", outcome.name(), if report.reason.is_empty() { String::new() } else { format!(" ({})", report.reason) }));
    if !report.detail.is_empty() {
        print(&report.detail);
    }
    for finding in &report.findings {
        print(&format!("{:?} {} {}: {}", finding.severity, finding.rule, finding.path, finding.why));
    }
    if let (Some(before), Some(after)) = (&report.tests.before, &report.tests.after) {
        print(&format!(
            "tests: {} passed, {} failed before; {} passed, {} failed after",
            before.passed,
            before.failed + before.errors,
            after.passed,
            after.failed + after.errors
        ));
    }
    print(&format!("written to {}", out.display()));
}

/// Where the shell's own `python3` lives, so that a project's tests find in the sandbox what they find outside.
struct Python {
    prefix: PathBuf,
    base_prefix: PathBuf,
}

fn python_of_this_shell() -> Option<Python> {
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

/// The sandbox's own small files lie below this folder and are read by its user, who is not ours when we are root.
fn open_for_the_sandbox(folder: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(folder, mode).ok();
}

/// Shows the progress; nothing is kept, since nothing is resumed.
struct Watched {
    bar: Bar,
}

#[async_trait]
impl Record for Watched {
    async fn enter(&mut self, stage: Stage) -> Result<(), Stop> {
        self.bar.stage(stage);
        Ok(())
    }

    async fn keep(&mut self, _: &Checkpoint) -> Result<(), Stop> {
        Ok(())
    }

    fn step(&mut self, trajectory: &Trajectory) {
        let done = trajectory.progress();
        self.bar.step(done.steps, &done.tools);
    }
}

#[cfg(test)]
mod tests {
    use super::{make_out, repository};

    #[test]
    fn only_the_top_of_a_repository_is_taken() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().canonicalize().unwrap();
        std::fs::create_dir_all(path.join("a%41 b/sub")).unwrap();
        assert!(repository(&path.join("nothing")).unwrap_err().contains("no such folder"));
        assert!(repository(&path.join("a%41 b")).unwrap_err().contains("no git repository"));
        std::fs::create_dir(path.join("a%41 b/.git")).unwrap();
        assert_eq!(repository(&path.join("a%41 b")).unwrap(), path.join("a%41 b").display().to_string());
        assert!(repository(&path.join("a%41 b/sub")).unwrap_err().contains("a%41 b; give that"));
    }

    #[test]
    fn what_an_earlier_run_wrote_is_gone() {
        let out = tempfile::tempdir().unwrap();
        for name in ["patch.diff", "mine.txt"] {
            std::fs::write(out.path().join(name), "old").unwrap();
        }
        make_out(out.path()).unwrap();
        assert!(!out.path().join("patch.diff").exists() && out.path().join("mine.txt").exists());
        assert!(make_out(&out.path().join("mine.txt")).is_err());
    }
}
