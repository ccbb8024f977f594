//! `frognano-bot fix`: the way from a commit to a verdict for one local repository, without any forge.

mod model;
mod order;
mod python;
mod replay;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use async_trait::async_trait;
use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::app;
use crate::config::File;
use crate::domain::{Fault, Ids as _, IssueText, Outcome, RunId, Stage};
use crate::git::Remote;
use crate::leaf::Trajectory;
use crate::pipeline::{self, Record, Stop, Work};
use crate::publish::report::Report;
use crate::publish::text::{self, Proposal};
use crate::store::Checkpoint;
use crate::telemetry;

use super::progress::Bar;
use super::{print, say, usage};

pub(super) use model::Named;
pub(super) use order::Order;
pub(super) use replay::{broken_off, repeat};
pub(super) use verdict::Finished;

/// The longest pull request that every forge takes, in characters.
const LONGEST: usize = 65_536;

/// Work on one local repository.
#[derive(Debug, Args)]
pub(super) struct Fix {
    /// The git repository; its HEAD is worked on, nothing in it is changed.
    #[arg(long, required_unless_present_any = ["resume", "replay"])]
    repo: Option<PathBuf>,
    /// A file with the issue: the title on the first line, then the text.
    #[arg(long, required_unless_present_any = ["resume", "replay"])]
    issue: Option<PathBuf>,
    /// The command that runs the project's tests; by default it is found out.
    #[arg(long, value_name = "CMD")]
    test: Option<String>,
    /// The OpenAI-compatible address of the model's server.
    #[arg(long, value_name = "URL", conflicts_with = "script", required_unless_present_any = ["script", "config", "resume", "replay"])]
    model_url: Option<url::Url>,
    /// The model's name there.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["script", "config", "resume", "replay"])]
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
    /// A configuration whose [model], [run], [sandbox], [guard] and [repositories] hold here too; what the command line says wins.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Go on with the run that was broken off in this folder (an earlier --out), from its last finished step.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["repo", "issue", "test", "model_url", "script", "out", "bind", "config", "replay"])]
    resume: Option<PathBuf>,
    /// Repeat the finished run of this folder from its kept answers, without any model, and say whether the patch is the same bytes. Status 0: it is.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["repo", "issue", "test", "model_url", "script", "out", "bind", "config"])]
    replay: Option<PathBuf>,
}

impl Fix {
    /// Its log, with the counters, is for who asks for it: people see the progress.
    pub(super) async fn run(self, stop: CancellationToken) -> ExitCode {
        if std::env::var_os("RUST_LOG").is_some() {
            telemetry::start();
        }
        if let Some(folder) = &self.replay {
            return replay::run(folder, self.json, stop).await;
        }
        let prepared = match self.prepare().await {
            Ok(prepared) => prepared,
            Err(complaints) => return usage(&complaints),
        };
        let (outcome, report) = prepared.solve_until(stop).await;
        let out = &prepared.out;
        if let Err(error) = write_out(out, &outcome, &report, &prepared.order.text) {
            say(&format!("frognano-bot: {}: can't be written: {error}", out.display()));
            return ExitCode::from(1);
        }
        if self.json {
            print(&serde_json::to_string_pretty(&report).unwrap_or_default());
        } else {
            tell(&outcome, &report, out);
        }
        ExitCode::from(match outcome {
            Outcome::Proposed { .. } => 0,
            Outcome::NoPatch { .. } => 3,
            Outcome::Refused { .. } => 4,
            Outcome::Cancelled { .. } | Outcome::Abandoned { .. } => 1,
        })
    }

    async fn prepare(&self) -> Result<Prepared, Vec<String>> {
        if let Some(folder) = &self.resume {
            let (order, checkpoint) = Order::read(folder).map_err(|why| vec![format!("--resume {}: {why}", folder.display())])?;
            return order.prepare(folder.clone(), checkpoint, true).await;
        }
        let order = self.order()?;
        if let Err(error) = make_out(&self.out).and_then(|()| order.write(&self.out)) {
            return Err(vec![format!("--out {}: can't be made or written: {error}", self.out.display())]);
        }
        order.prepare(self.out.clone(), Checkpoint::default(), false).await
    }

    /// What the command line asks for, checked.
    fn order(&self) -> Result<Order, Vec<String>> {
        let mut complaints = Vec::new();
        let issue = self.issue.as_deref().unwrap_or(Path::new(""));
        let text = read_issue(issue).map_err(|why| complaints.push(format!("--issue {why}"))).ok();
        let folder = self.repo.as_deref().unwrap_or(Path::new(""));
        let repo = repository(folder).map_err(|why| complaints.push(format!("--repo {}: {why}", folder.display()))).ok();
        if self.test.as_ref().is_some_and(|test| test.trim().is_empty()) {
            complaints.push("--test: the command is empty".to_owned());
        }
        let mut absolute =
            |path: &PathBuf| std::path::absolute(path).map_err(|error| complaints.push(format!("{}: {error}", path.display()))).ok();
        let script = self.script.as_ref().and_then(&mut absolute);
        let config = self.config.as_ref().and_then(&mut absolute);
        let bind = self.bind.iter().filter_map(&mut absolute).collect();
        let model = self.named(script).map_err(|why| complaints.extend(why)).ok();
        let order = match (text, repo, model) {
            (Some(text), Some(repo), Some(model)) => {
                Order { run: RunId(app::TimeIds.next()), repo, text, test: self.test.clone(), model, bind, config }
            }
            _ => return Err(complaints),
        };
        complaints.extend(order.complaints());
        if complaints.is_empty() { Ok(order) } else { Err(complaints) }
    }

    /// Who answers: by the command line, else by the configuration.
    fn named(&self, script: Option<PathBuf>) -> Result<Named, Vec<String>> {
        if let Some(script) = script {
            return Ok(Named::Script(script));
        }
        if let (Some(url), Some(name)) = (&self.model_url, &self.model) {
            return Ok(Named::Server { url: url.clone(), name: name.clone() });
        }
        let configured = self.config.as_deref().map(File::load_without_forges).transpose()?.map(|file| file.model);
        let named = configured.map(|model| Named::Server {
            url: self.model_url.clone().unwrap_or(model.url),
            name: self.model.clone().unwrap_or(model.name),
        });
        named.ok_or_else(|| vec!["--script FILE, or --model-url URL with --model NAME, or --config FILE".to_owned()])
    }
}

/// Everything that a run needs.
struct Prepared {
    parts: pipeline::Parts,
    order: Order,
    checkpoint: Checkpoint,
    out: PathBuf,
    _data: tempfile::TempDir,
}

impl Prepared {
    /// Works until there is an outcome, or until it is to stop.
    async fn solve_until(&self, stop: CancellationToken) -> (Outcome, Report) {
        let mut record = Watched { bar: Bar::new(), out: self.out.clone() };
        let solved = self.solve(&mut record, stop).await;
        record.bar.end();
        solved
    }

    async fn solve(&self, record: &mut Watched, cancel: CancellationToken) -> (Outcome, Report) {
        let run = self.order.run.clone();
        let mut work = Work {
            parts: &self.parts,
            record,
            folder: self.out.clone(),
            report: Report { run: run.0.clone(), model: self.parts.model.name().to_owned(), ..Report::default() },
            run,
            text: self.order.text.clone(),
            issue: 0,
            issue_url: String::new(),
            origin: None,
            checkpoint: self.checkpoint.clone(),
            cancel,
            stage_began: None,
        };
        let remote = Remote { url: self.order.repo.clone(), credential: None, ca_file: None };
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
        Stop::Hidden => Outcome::Cancelled { by: "the issue is confidential".to_owned() },
        Stop::ModelDown(detail) => Outcome::Abandoned { fault: Fault::ModelFailed, detail },
        Stop::Later { why: detail, .. } => Outcome::Abandoned { fault: Fault::ForgeFailed, detail },
        Stop::TryAgain(fault, detail) => Outcome::Abandoned { fault, detail },
        Stop::LeaseLost => Outcome::Abandoned { fault: Fault::WorkerLost, detail: String::new() },
        Stop::Shutdown | Stop::InQueue => Outcome::Cancelled { by: "you".to_owned() },
    }
}

fn read_issue(path: &Path) -> Result<IssueText, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    let (title, body) = text.trim_start().split_once('\n').unwrap_or((text.trim(), ""));
    let title = title.trim_start_matches('#').trim().to_owned();
    if title.is_empty() { Err(format!("{}: is empty", path.display())) } else { Ok(IssueText { title, body: body.trim().to_owned() }) }
}

/// The absolute path of a repository as git takes it: the path and no `file://` address, in which a `%` would not be itself.
pub(super) fn repository(folder: &Path) -> Result<String, String> {
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
    let later = (2..).map(|number| pipeline::folder_of_attempt(out, number)).take_while(|folder| folder.is_dir());
    for folder in later.chain([out.join("kept")]) {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    for name in ["patch.diff", "trajectory.json", "report.json", "pull-request.md"] {
        match std::fs::remove_file(out.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    tempfile::tempfile_in(out).map(|_| ())
}

/// The pull request is written where a patch was proposed.
fn write_out(out: &Path, outcome: &Outcome, report: &Report, asked: &IssueText) -> std::io::Result<()> {
    std::fs::write(out.join("report.json"), serde_json::to_string_pretty(report).unwrap_or_default())?;
    match outcome {
        Outcome::Proposed { .. } => {
            let proposal = Proposal { report, issue: 0, asked, longest: LONGEST };
            std::fs::write(out.join("pull-request.md"), text::pull_request(&proposal))
        }
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
    if report.attempts.len() > 1 {
        for attempt in &report.attempts {
            let how = attempt.proof.as_deref().unwrap_or(&attempt.reason);
            let chosen = if attempt.chosen { ", the best" } else { "" };
            print(&format!("attempt {}: {} ({how}), {} steps{chosen}", attempt.number, attempt.outcome, attempt.steps));
        }
    }
    print(&format!("written to {}", out.display()));
}

/// Shows the progress, and keeps what is finished beside the results.
struct Watched {
    bar: Bar,
    out: PathBuf,
}

#[async_trait]
impl Record for Watched {
    async fn enter(&mut self, stage: Stage) -> Result<(), Stop> {
        self.bar.stage(stage);
        Ok(())
    }

    async fn keep(&mut self, checkpoint: &Checkpoint) -> Result<(), Stop> {
        order::keep(&self.out, checkpoint).map_err(|error| Stop::TryAgain(Fault::Internal, format!("{}: {error}", self.out.display())))
    }

    fn attempt(&mut self, number: u32, most: u32) {
        self.bar.attempt(number, most);
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
