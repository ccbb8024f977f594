//! The house of the stories: the real service over real HTTP, git, SQLite and the real sandbox, against the demonstration forge and a scripted model.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use frognano_bot::app::{self, TimeIds};
use frognano_bot::config::Config;
use frognano_bot::demo::forge::{Delivery, Forge, Issue, On, deliver};
use frognano_bot::demo::model_server::ModelServer;
use frognano_bot::demo::{self, Kind, Running, project};
use frognano_bot::domain::{Clock, Outcome, SystemClock};
use frognano_bot::model::{RestartOn, Script, Scripted};
use frognano_bot::store::{JobRow, Store};
use frognano_bot::worker::{Ended, Worker};
use sqlx::{Connection as _, Row as _};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::databases::Database;

pub const SECRET: &str = "the webhook secret of the stories";
pub const TOKEN: &str = "the-token-of-the-bot-7f3a";
/// The two faces that differ the most in their words.
pub const BOTH: [Kind; 2] = [Kind::Gitea, Kind::GitHub];

/// No wait of a story is longer; one that is has failed.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Forge, model server and a folder for the service's data.
pub struct House {
    pub running: Running,
    pub model: ModelServer,
    pub kind: Kind,
    pub folder: TempDir,
    clock: Arc<StoryClock>,
    settings: String,
    /// Lines for the forge's entry in place of its token.
    entry: Option<String>,
    /// In place of a file of SQLite, where `FROGNANO_TEST_DATABASE` is `postgres`.
    server: Option<Database>,
}

/// The machine's clock, moved on by hand where a story would have to wait.
pub struct StoryClock(AtomicI64);

impl StoryClock {
    /// Moves it on.
    pub fn pass(&self, milliseconds: i64) {
        self.0.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl Clock for StoryClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + self.0.load(Ordering::Relaxed)
    }
}

/// The service in this process: its door is open, its worker is driven step by step.
pub struct Service {
    pub worker: Arc<Worker>,
    pub store: Store,
    pub door: String,
    stop: CancellationToken,
    web: tokio::task::JoinHandle<std::io::Result<()>>,
    _lock: app::DataLock,
}

impl House {
    /// With the sample project and its script.
    pub async fn new(kind: Kind) -> Self {
        Self::with_script(kind, project::SCRIPT).await
    }

    /// With the sample project and another script.
    pub async fn with_script(kind: Kind, script: &str) -> Self {
        Self::with(kind, script, RestartOn::Conversation).await
    }

    /// The same with a script that goes on from conversation to conversation.
    pub async fn with_script_of_turns(kind: Kind, script: &str) -> Self {
        Self::with(kind, script, RestartOn::Never).await
    }

    async fn with(kind: Kind, script: &str, restart: RestartOn) -> Self {
        let folder = tempfile::Builder::new().prefix("house-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        let forge = Forge::new(kind, Arc::new(SystemClock));
        project::put_on(&forge, folder.path(), SECRET, TOKEN).unwrap();
        let scripted = Scripted::new(Script::parse(script).unwrap(), restart);
        let (running, model) = (demo::start(forge).await.unwrap(), ModelServer::start(scripted).await.unwrap());
        Self {
            running,
            model,
            kind,
            folder,
            clock: Arc::new(StoryClock(AtomicI64::new(0))),
            settings: String::new(),
            entry: None,
            server: server(),
        }
    }

    /// With this database for the service.
    pub fn on(mut self, database: Database) -> Self {
        self.server = Some(database);
        self
    }

    /// The address of the service's database.
    pub fn database(&self) -> String {
        let file = || format!("sqlite://{}", self.folder.path().join("data/frognano.sqlite").display());
        self.server.as_ref().map_or_else(file, |database| database.url.clone())
    }

    /// Every event that was written down for the audit, in order.
    pub async fn events(&self) -> Vec<frognano_bot::audit::Event> {
        let mut connection = sqlx::AnyConnection::connect(&self.database()).await.unwrap();
        let rows = sqlx::query("select event from audit_events order by arrival").fetch_all(&mut connection).await.unwrap();
        rows.iter().map(|row| serde_json::from_str(&row.get::<String, _>(0)).unwrap()).collect()
    }

    /// Adds settings to the service's configuration: whole sections in TOML, and `key = value` lines of `[service]` first.
    pub fn set(mut self, settings: &str) -> Self {
        self.settings.push_str(settings);
        self.settings.push('\n');
        self
    }

    /// Adds lines to the forge's entry; those of an App take the place of the token.
    pub fn forge_entry(mut self, lines: &str) -> Self {
        self.entry.get_or_insert_default().push_str(&format!("{lines}\n"));
        self
    }

    /// The clock of the service.
    pub fn clock(&self) -> Arc<StoryClock> {
        self.clock.clone()
    }

    pub fn forge(&self) -> &Forge {
        &self.running.forge
    }

    /// Opens the sample issue as its reader would.
    pub fn open_issue(&self) -> i64 {
        self.forge().open_issue(project::PATH, project::READER, project::issue_title(), project::issue_body(), &[]).unwrap().number
    }

    /// Sets the label as the maintainer would.
    pub fn label(&self, issue: i64) -> Vec<Delivery> {
        self.forge().set_label(project::PATH, issue, project::LABEL, project::MAINTAINER).unwrap()
    }

    /// The configuration file of the service, written.
    pub fn write_config(&self) -> PathBuf {
        let kind = self.kind.name();
        let path = self.folder.path().join("frognano.toml");
        std::fs::write(self.folder.path().join("webhook-secret"), SECRET).unwrap();
        std::fs::write(self.folder.path().join("token"), TOKEN).unwrap();
        let (keys, sections) = self.settings.split_at(self.settings.find("[").unwrap_or(self.settings.len()));
        // What is looked for again and again would ask the forge at moments that no story chose.
        let keys = if keys.contains("reconcile_seconds") { keys.to_owned() } else { format!("reconcile_seconds = 0\n{keys}") };
        let keys_of_run = sections.split("[run]\n").nth(1).unwrap_or_default();
        // Most stories are of one attempt; those of several say so.
        let sections = match (sections.contains("[run]\n"), keys_of_run.contains("attempts = ")) {
            (true, true) => sections.to_owned(),
            (true, false) => sections.replace("[run]\n", "[run]\nattempts = 1\n"),
            (false, _) => format!("{sections}[run]\nattempts = 1\n"),
        };
        let tools = format!("[sandbox]\ntools = {:?}\n", tools());
        let sections =
            if sections.contains("[sandbox]\n") { sections.replace("[sandbox]\n", &tools) } else { format!("{sections}{tools}") };
        let entry = self.entry.as_deref().unwrap_or_default();
        let keys = match &self.server {
            Some(database) => format!("database = {:?}\n{keys}", database.url),
            None => keys,
        };
        let text = format!(
            "[service]\nlisten = \"127.0.0.1:0\"\ndata = {data:?}\ngrace_seconds = 1\n{settings}\n\
             [[forge]]\nname = \"here\"\nkind = \"{kind}\"\nurl = \"{forge}\"\nwrite_spacing_ms = 0\n\
             webhook_secrets = [{{ file = \"webhook-secret\" }}]\n{token}{entry}\
             [model]\nurl = \"{model}\"\nname = \"scripted\"\nretry_seconds = 1\nretries = 0\n\
             {sections}",
            data = self.folder.path().join("data"),
            settings = keys.trim_end(),
            token = if entry.contains("app_id") { "" } else { "token = { file = \"token\" }\n" },
            forge = self.running.base_url,
            model = self.model.base_url,
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Starts the service in this process.
    pub async fn service(&self) -> Service {
        self.service_of(&Config::load(&self.write_config()).unwrap()).await
    }

    /// Starts the service of another configuration in this process.
    pub async fn service_of(&self, config: &Config) -> Service {
        let service = app::build_with(config, self.clock.clone(), Arc::new(TimeIds)).await.unwrap();
        service.open()
    }

    /// The issue as the forge has it.
    pub fn issue(&self, on: impl Into<On>) -> Issue {
        self.forge().state().repository(project::PATH).unwrap().issue(on).unwrap().clone()
    }

    /// What the bot said on an issue or pull request, which is always in the words of the forge's users.
    pub fn said(&self, on: impl Into<On>) -> Vec<String> {
        let foreign = if self.kind == Kind::GitLab { "pull request" } else { "merge request" };
        let said = self.issue(on).comments.into_iter().filter(|comment| comment.author == project::BOT).map(|comment| comment.body);
        said.inspect(|body| assert!(!body.contains(foreign), "people on {:?} do not say {foreign:?}: {body}", self.kind)).collect()
    }

    /// What people on the forge call a pull request.
    pub fn pull_request_word(&self) -> &'static str {
        if self.kind == Kind::GitLab { "merge request" } else { "pull request" }
    }

    /// Whether the bot said that it opened one.
    pub fn has_proposed(&self, on: impl Into<On>) -> bool {
        self.said(on).concat().contains(&format!("opened a draft {}", self.pull_request_word()))
    }

    /// All pull requests.
    pub fn pull_requests(&self) -> Vec<Issue> {
        let state = self.forge().state();
        state.repository(project::PATH).unwrap().issues.iter().filter(|issue| issue.pull.is_some()).cloned().collect()
    }

    /// Does to a pull request what a person would; to the issue of this number where there is none.
    pub fn with_pull_request(&self, number: i64, change: impl FnOnce(&mut Issue)) {
        let found = |repository: &mut frognano_bot::demo::forge::Repository| {
            let with_number = repository.issues.iter_mut().filter(|issue| issue.number == number);
            change(with_number.max_by_key(|issue| issue.pull.is_some()).unwrap());
        };
        self.forge().with_repository(project::PATH, found).unwrap();
    }

    /// The names of our branches.
    pub fn branches(&self) -> Vec<String> {
        let git_dir = self.folder.path().join("tallybook.git");
        let output = std::process::Command::new("git")
            .arg("-C")
            .arg(git_dir)
            .args(["for-each-ref", "--format=%(refname:short)", "refs/heads"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().lines().filter(|name| name.starts_with("frognano/")).map(str::to_owned).collect()
    }

    /// The commits at the tips of our branches.
    pub fn branch_tips(&self) -> Vec<String> {
        self.branches().iter().filter_map(|branch| demo::branch_tip(&self.folder.path().join("tallybook.git"), branch)).collect()
    }

    /// Puts other files into the project's default branch, by a clone of its own.
    pub fn commit(&self, change: impl FnOnce(&Path)) {
        self.commit_saying("change", change);
    }

    /// The same with a message.
    pub fn commit_saying(&self, message: &str, change: impl FnOnce(&Path)) {
        let clone = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let mut command = std::process::Command::new("git");
            command
                .arg("-C")
                .arg(clone.path())
                .args(["-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always"])
                .args(args);
            let output = command.output().unwrap();
            assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let bare = self.folder.path().join("tallybook.git");
        git(&["clone", "--quiet", bare.to_str().unwrap(), "."]);
        change(clone.path());
        git(&["add", "--all", "--force"]);
        git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        let fetched = std::process::Command::new("git")
            .arg("-C")
            .arg(&bare)
            .args(["fetch", "--quiet"])
            .arg(clone.path())
            .arg("+HEAD:refs/heads/main")
            .output()
            .unwrap();
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    }

    /// Moves the service's clock on to the next day, so that none begins while a story goes on.
    pub fn begin_a_day(&self) {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        self.pass(DAY_MS - self.clock.now_ms().rem_euclid(DAY_MS));
    }

    /// Moves the service's clock on.
    pub fn pass(&self, milliseconds: i64) {
        self.clock.0.fetch_add(milliseconds, Ordering::Relaxed);
    }

    /// Lets the time pass after which a job that was put back is due, and gives its outcome.
    pub async fn later(&self, service: &Service) -> Outcome {
        self.let_time_pass();
        service.outcome().await
    }

    /// A minute.
    pub fn let_time_pass(&self) {
        self.clock.0.fetch_add(60_000, Ordering::Relaxed);
    }

    /// Waits until the forge looks like this.
    pub async fn until(&self, looks: impl Fn(&Self) -> bool) {
        let mut answered = self.forge().answered();
        let wait = async {
            while !looks(self) {
                answered.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            panic!(
                "the forge never looked as awaited; the bot said: {:#?}",
                self.forge().state().repositories.first().map(|repository| {
                    repository.issues.iter().flat_map(|issue| issue.comments.iter().map(|comment| comment.body.clone())).collect::<Vec<_>>()
                })
            );
        }
    }
}

/// The kind of database for every house of this run of the stories.
fn server() -> Option<Database> {
    match std::env::var("FROGNANO_TEST_DATABASE").as_deref() {
        Ok("postgres") => Some(Database::postgres().expect("FROGNANO_TEST_DATABASE asks for PostgreSQL")),
        Ok(other) => panic!("FROGNANO_TEST_DATABASE: {other:?} is not postgres"),
        Err(_) => None,
    }
}

/// Opens the door of a built service without its worker.
trait Open {
    fn open(self) -> Service;
}

impl Open for app::Service {
    fn open(self) -> Service {
        let stop = CancellationToken::new();
        let parts = self.into_parts();
        let web = tokio::spawn(frognano_bot::web::serve(parts.listener, parts.routes, stop.clone()));
        Service {
            worker: parts.worker,
            store: parts.store,
            door: format!("http://{}/webhooks/here", parts.address),
            stop,
            web,
            _lock: parts.lock,
        }
    }
}

impl Service {
    /// Sends deliveries in order; each must be taken.
    pub async fn take(&self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            assert_eq!(deliver(delivery, &self.door).await.unwrap(), 202, "{}", delivery.what);
        }
    }

    /// One job, as far as it goes; none when there is none.
    pub async fn step(&self) -> Option<Ended> {
        self.worker.run_next(&CancellationToken::new()).await.unwrap()
    }

    /// One job, which must end with an outcome.
    pub async fn outcome(&self) -> Outcome {
        match self.step().await {
            Some(Ended::Outcome(outcome)) => outcome,
            other => panic!("no outcome but {other:?}; {:#?}", self.jobs().await),
        }
    }

    /// Every job to its end; how many there were.
    pub async fn work_off(&self) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some(end) = self.step().await {
            assert_ne!(end, Ended::PutBack, "{:#?}", self.jobs().await);
            ended.push(end);
        }
        ended
    }

    pub async fn jobs(&self) -> Vec<JobRow> {
        self.store.jobs(1000).await.unwrap()
    }

    /// Ends it in order.
    pub async fn end(self) {
        self.stop.cancel();
        self.web.await.unwrap().unwrap();
        self.store.close().await;
    }
}

/// The program that runs inside the sandbox: the static one where the test script built it.
pub fn tools() -> PathBuf {
    std::env::var_os("FROGNANO_TOOLS").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_frognano-tools")), PathBuf::from)
}
