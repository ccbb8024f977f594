//! A lost sandbox or worker costs at most the step that was under way: whatever is lost and whenever, the patch is the same.

use std::path::Path;
use std::process::{Child, Command as Program, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use frognano_bot::app;
use frognano_bot::config::File;
use frognano_bot::demo::model_server::ModelServer;
use frognano_bot::demo::project;
use frognano_bot::domain::{IssueText, RunId, Stage, SystemClock};
use frognano_bot::git::Remote;
use frognano_bot::leaf::Trajectory;
use frognano_bot::model::{Client, Endpoint, RestartOn, Script, Scripted, Settings};
use frognano_bot::pipeline::{self, Record, Stop, Work};
use frognano_bot::publish::report::Report;
use frognano_bot::sandbox::{Command, Entry, Listing, ProbeReport, Ran, Sandbox, SandboxError, Sandboxes, TakenFile, local};
use frognano_bot::store::Checkpoint;
use tokio_util::sync::CancellationToken;

use crate::house::tools;

/// Real sandboxes; at one word of the agent to them the sandbox under it is ended for real.
struct Losing {
    inner: local::Local,
    countdown: Arc<AtomicUsize>,
}

struct Lost {
    inner: Option<Box<dyn Sandbox>>,
    proved: ProbeReport,
    countdown: Arc<AtomicUsize>,
}

impl Lost {
    /// The inner sandbox, unless this is the moment.
    async fn inner(&mut self) -> Result<&mut Box<dyn Sandbox>, SandboxError> {
        if self.countdown.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(inner) = self.inner.take()
        {
            inner.close().await;
        }
        self.inner.as_mut().ok_or_else(|| SandboxError::Lost("ended by the story".to_owned()))
    }
}

#[async_trait]
impl Sandboxes for Losing {
    async fn start(&self, name: &str) -> Result<Box<dyn Sandbox>, SandboxError> {
        let inner = self.inner.start(name).await?;
        if !name.ends_with("-agent") {
            return Ok(inner);
        }
        Ok(Box::new(Lost { proved: inner.probe_report().clone(), inner: Some(inner), countdown: self.countdown.clone() }))
    }
}

#[async_trait]
impl Sandbox for Lost {
    fn probe_report(&self) -> &ProbeReport {
        &self.proved
    }
    async fn put(&mut self, tar: Vec<u8>) -> Result<(), SandboxError> {
        self.inner.as_mut().unwrap().put(tar).await
    }
    async fn put_into(&mut self, folder: &str, tar: Vec<u8>) -> Result<(), SandboxError> {
        self.inner.as_mut().unwrap().put_into(folder, tar).await
    }
    async fn call(&mut self, tool: &str, args: &serde_json::Value) -> Result<String, SandboxError> {
        self.inner().await?.call(tool, args).await
    }
    async fn run(&mut self, command: &Command) -> Result<Ran, SandboxError> {
        self.inner().await?.run(command).await
    }
    async fn list(&mut self, how: Listing) -> Result<Vec<Entry>, SandboxError> {
        self.inner().await?.list(how).await
    }
    async fn take(&mut self, folder: &str, paths: &[Vec<u8>], limit: u64) -> Result<Vec<TakenFile>, SandboxError> {
        self.inner().await?.take(folder, paths, limit).await
    }
    async fn close(mut self: Box<Self>) {
        if let Some(inner) = self.inner.take() {
            inner.close().await;
        }
    }
}

struct Silent;

#[async_trait]
impl Record for Silent {
    async fn enter(&mut self, _: Stage) -> Result<(), Stop> {
        Ok(())
    }
    async fn keep(&mut self, _: &Checkpoint) -> Result<(), Stop> {
        Ok(())
    }
    fn step(&mut self, _: &Trajectory) {}
}

/// Files of every kind changed, made, moved, deleted, over several steps; each step builds on the one before.
const SCRIPT: &str = r##"{"content": "", "tool_calls": [{"name": "Write", "arguments": {"file_path": "notes/a.txt", "content": "one\n"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "printf 'two\n' >> notes/a.txt; ln -s a.txt notes/link; printf '#!/bin/sh\n' > run.sh; chmod +x run.sh; printf 'x\\000\\377' > bytes.bin"}}, {"name": "Read", "arguments": {"file_path": "notes/a.txt"}}]}
{"content": "", "tool_calls": [{"name": "Glob", "arguments": {"pattern": "**/*.txt"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "rm README.md bytes.bin; mv run.sh go.sh; printf 'three\n' >> notes/a.txt; wc -l < notes/a.txt > notes/count.txt"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "mkdir -p empty/inner made/__pycache__; printf x > made/__pycache__/m.pyc; printf 'stashed\n' > stashed.txt; git add stashed.txt; git stash --quiet; git stash list | wc -l"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "git stash pop --quiet; printf y > empty/inner/f.txt; printf z > made/g.txt; git add -A; git commit --quiet -m wip; git log --oneline | wc -l"}}]}
{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "git log --oneline | wc -l > count-of-commits.txt; mv tallybook/money.py money.tmp; rm -r tallybook/__init__.py; git checkout --quiet HEAD -- tallybook; rm money.tmp"}}]}
{"content": "", "tool_calls": [{"name": "Edit", "arguments": {"file_path": "tallybook/plan.py", "old_string": "    share = total // parts\n    return [share] * parts", "new_string": "    share, rest = divmod(total, parts)\n    return [share + 1] * rest + [share] * (parts - rest)"}}]}
{"content": "done"}"##;

/// One run without a forge; the patch and the number of recoveries.
async fn patch_of(countdown: usize) -> (Vec<u8>, usize, usize) {
    let folder = tempfile::Builder::new().prefix("recovery-").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let bare = folder.path().join("project.git");
    project::make_bare(&bare).unwrap();
    let file = File::local("http://localhost/".parse().unwrap(), "script");
    let inner = local::Local::new(local::Settings::new(tools(), folder.path())).unwrap();
    let countdown = Arc::new(AtomicUsize::new(countdown));
    let sandboxes = Losing { inner, countdown: countdown.clone() };
    // A step that is not finished is asked again: the script starts over at the step that the conversation has come to.
    let model = Repeating(Script::parse(SCRIPT).unwrap());
    let parts = app::assemble(&file, folder.path(), Arc::new(sandboxes), Arc::new(model), Arc::new(SystemClock), None).await.unwrap();
    let mut record = Silent;
    let mut work = Work {
        parts: &parts,
        record: &mut record,
        folder: folder.path().join("run"),
        run: RunId("run".to_owned()),
        text: IssueText { title: "t".to_owned(), body: "b".to_owned() },
        issue: 0,
        issue_url: String::new(),
        origin: None,
        checkpoint: Checkpoint::default(),
        report: Report::default(),
        cancel: CancellationToken::new(),
        stage_began: None,
    };
    let start =
        pipeline::start_from_folder(&mut work, &Remote { url: bare.display().to_string(), credential: None, ca_file: None }).await.unwrap();
    pipeline::propose(&mut work, &start).await.map(|_| ()).unwrap();
    let trajectory: Trajectory = serde_json::from_slice(&std::fs::read(folder.path().join("run/trajectory.json")).unwrap()).unwrap();
    assert_eq!(trajectory.steps.len(), 9);
    let left = countdown.load(Ordering::SeqCst);
    (std::fs::read(folder.path().join("run/patch.diff")).unwrap(), trajectory.frognano.recoveries.len(), left)
}

/// Answers with the line that belongs to the conversation's length.
struct Repeating(Script);

#[async_trait]
impl frognano_bot::model::Model for Repeating {
    async fn turn(&self, request: &frognano_bot::model::TurnRequest) -> Result<frognano_bot::model::Turn, frognano_bot::model::ModelError> {
        let done = request.messages.iter().filter(|message| message["role"] == "assistant").count();
        let scripted = Scripted::after(self.0.clone(), RestartOn::Never, done);
        let client = Client::new(Endpoint::Script(scripted), Settings::default()).unwrap();
        client.turn(request).await
    }
    async fn is_up(&self) -> bool {
        true
    }
    fn name(&self) -> &str {
        "script"
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_lost_at_any_word_gives_the_same_patch() {
    const NEVER: usize = 1_000_000;
    let (undisturbed, none, left) = patch_of(NEVER).await;
    assert_eq!(none, 0);
    assert!(!undisturbed.is_empty());
    let words = NEVER - left;
    assert!(words > 10, "{words}");
    let mut recovered = 0;
    for moment in 1..=words {
        let (patch, recoveries, _) = patch_of(moment).await;
        assert_eq!(String::from_utf8_lossy(&patch), String::from_utf8_lossy(&undisturbed), "lost at word {moment}");
        recovered += recoveries;
    }
    assert!(recovered + 3 >= words, "{recovered} recoveries in {words} losses: the last words are those of taking the result out");
}

/// `frognano-bot fix` on the sample project, the model being a server that a story can hold.
fn fix(folder: &Path, args: &[&str]) -> Child {
    let mut command = Program::new(env!("CARGO_BIN_EXE_frognano-bot"));
    command.arg("fix").args(args).current_dir(folder).env("TMPDIR", folder.join("tmp"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn report(output: &std::process::Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("tmp")).unwrap();
    std::fs::write(place.path().join("issue.md"), format!("# {}\n\n{}", project::issue_title(), project::issue_body())).unwrap();
    project::make_bare(&place.path().join("repo")).unwrap();
    place
}

async fn model() -> ModelServer {
    ModelServer::start(Scripted::new(Script::parse(project::SCRIPT).unwrap(), RestartOn::Conversation)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fix_that_was_killed_at_any_turn_is_gone_on_with_and_repeated_without_a_model() {
    let whole = place();
    let server = model().await;
    let order = ["--repo", "repo", "--issue", "issue.md", "--model", "scripted", "--out", "out", "--json", "--model-url"];
    let run = |folder: &Path, url: &str| fix(folder, &[&order[..], &[url]].concat());
    let undisturbed = run(whole.path(), &server.base_url).wait_with_output().unwrap();
    assert_eq!(report(&undisturbed)["outcome"], "proposed");
    let patch = std::fs::read(whole.path().join("out/patch.diff")).unwrap();
    let turns = server.requests().len();

    for turn in 0..turns {
        let place = place();
        let server = model().await;
        let reached = server.hold(turn);
        let mut killed = run(place.path(), &server.base_url);
        reached.await.unwrap();
        killed.kill().unwrap();
        killed.wait().unwrap();
        let resumed = fix(place.path(), &["--resume", "out", "--json"]).wait_with_output().unwrap();
        assert_eq!(resumed.status.code(), Some(0), "turn {turn}: {}", String::from_utf8_lossy(&resumed.stderr));
        assert_eq!(std::fs::read(place.path().join("out/patch.diff")).unwrap(), patch, "turn {turn}");
        assert_eq!(server.requests().len(), turns + 1, "turn {turn}: the turn that was under way is asked again, no other");
    }

    let asked = server.requests().len();
    let replayed = fix(whole.path(), &["--replay", "out", "--json"]).wait_with_output().unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{}", String::from_utf8_lossy(&replayed.stderr));
    assert_eq!((report(&replayed)["same_patch"].as_bool(), report(&replayed)["steps"].as_u64()), (Some(true), Some(turns as u64)));
    assert_eq!(server.requests().len(), asked);

    std::fs::write(whole.path().join("out/patch.diff"), b"another").unwrap();
    let differs = fix(whole.path(), &["--replay", "out", "--json"]).wait_with_output().unwrap();
    assert_eq!((differs.status.code(), report(&differs)["same_patch"].as_bool()), (Some(1), Some(false)));
    for args in [["--resume", "nowhere"], ["--replay", "nowhere"]] {
        assert_eq!(fix(whole.path(), &args).wait_with_output().unwrap().status.code(), Some(2));
    }
}
