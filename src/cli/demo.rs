//! `frognano-bot demo`: the real service against a small built-in forge, with a real project and, unless one is named, a script in the model's place.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use secrecy::SecretString;
use tokio::sync::broadcast::Receiver;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::app::{self, TimeIds};
use crate::config::{Access, Config, DraftFallback, File, Forge as ForgeEntry, ForgeKind, ForgeSecrets};
use crate::demo::{self, Kind, model_server::ModelServer, project};
use crate::domain::{Ids as _, Outcome, SystemClock};
use crate::model::{RestartOn, Script, Scripted};
use crate::publish::report::{Report, Told};
use crate::worker::Progress;

use super::progress::Bar;
use super::{fault, print, say};

/// Show the whole way on this machine.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// A real model's server, OpenAI-compatible; without it a script plays the model.
    #[arg(long, value_name = "URL", requires = "model")]
    model_url: Option<Url>,
    /// The model's name there.
    #[arg(long, value_name = "NAME", requires = "model_url")]
    model: Option<String>,
    /// The kind of forge that the built-in one plays.
    #[arg(long, value_enum, default_value_t = Plays::Gitea)]
    forge: Plays,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Plays {
    Gitea,
    Forgejo,
    Github,
    Gitlab,
}

impl Demo {
    pub(super) async fn run(self, stop: CancellationToken) -> ExitCode {
        match self.show(&stop).await {
            Ok(Outcome::Proposed { .. }) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::from(1),
            Err(why) => fault(&why),
        }
    }

    async fn show(&self, asked: &CancellationToken) -> Result<Outcome, String> {
        let folder =
            tempfile::Builder::new().prefix("frognano-demo-").tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).ok();
        let token = TimeIds.next();
        let secret = TimeIds.next();
        let forge = self.forge(folder.path(), &token, &secret)?;
        let forge = demo::start(forge).await.map_err(|error| format!("the built-in forge can't start: {error}"))?;
        let model = self.model().await?;
        let (model_url, model_name) = match (&model, &self.model_url, &self.model) {
            (Some(script), _, _) => (Url::parse(&script.base_url).map_err(|error| error.to_string())?, "scripted".to_owned()),
            (None, Some(url), Some(name)) => (url.clone(), name.clone()),
            _ => return Err("--model-url URL needs --model NAME".to_owned()),
        };
        let config = self.config(folder.path(), &forge.base_url, &token, &secret, model_url, &model_name)?;
        let service = app::build(&config).await.map_err(|complaints| complaints.join("\n"))?;
        let hook = format!("http://{}/webhooks/demo", service.address);
        let watch = service.worker.watch();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(service.run(stop.clone()));
        self.introduce(&forge.base_url, model.is_some(), &model_name);
        let outcome = tokio::select! {
            outcome = label_and_watch(&forge.forge, &hook, watch) => outcome,
            () = asked.cancelled() => Err("stopped before there was an outcome".to_owned()),
        };
        if outcome.is_ok() && std::io::stdout().is_terminal() {
            say("\nThe pages stay up until you press Ctrl-C.");
            asked.cancelled().await;
        }
        stop.cancel();
        serving.await.ok();
        forge.stop().await;
        if let Some(model) = model {
            model.stop().await;
        }
        outcome
    }

    fn introduce(&self, forge: &str, scripted: bool, model: &str) {
        let model =
            if scripted { "a script, no model: it replays a recorded way of working".to_owned() } else { format!("{model}, a real one") };
        say("frognano-bot demo");
        say(&format!("  forge:   the built-in one (plays {:?}) at {forge}/{}/{}/1", self.forge, project::PATH, self.kind().issues_page()));
        say(&format!("  model:   {model}"));
        say("  service: the real one: webhook, queue, sandbox, judge, draft pull request\n");
    }

    const fn kind(&self) -> Kind {
        match self.forge {
            Plays::Gitea => Kind::Gitea,
            Plays::Forgejo => Kind::Forgejo,
            Plays::Github => Kind::GitHub,
            Plays::Gitlab => Kind::GitLab,
        }
    }

    fn forge(&self, folder: &Path, token: &str, secret: &str) -> Result<demo::forge::Forge, String> {
        let forge = demo::forge::Forge::new(self.kind(), Arc::new(SystemClock));
        let mistake = |error: demo::forge::Mistake| error.to_string();
        project::put_on(&forge, folder, secret, token).map_err(mistake)?;
        forge.open_issue(project::PATH, project::READER, project::issue_title(), project::issue_body(), &[]).map_err(mistake)?;
        Ok(forge)
    }

    async fn model(&self) -> Result<Option<ModelServer>, String> {
        if self.model_url.is_some() {
            return Ok(None);
        }
        let script = Script::parse(project::SCRIPT)?;
        let server = ModelServer::start(Scripted::new(script, RestartOn::Conversation)).await;
        server.map(Some).map_err(|error| format!("the scripted model can't start: {error}"))
    }

    fn config(&self, folder: &Path, forge: &str, token: &str, secret: &str, model_url: Url, model_name: &str) -> Result<Config, String> {
        let mut file = File::local(model_url, model_name);
        file.service.listen = "127.0.0.1:0".to_owned();
        file.service.data = folder.join("data");
        file.service.label = project::LABEL.to_owned();
        file.service.grace_seconds = 1;
        file.model.retry_seconds = 2;
        file.forges.push(ForgeEntry {
            name: "demo".to_owned(),
            kind: match self.forge {
                Plays::Gitea => ForgeKind::Gitea,
                Plays::Forgejo => ForgeKind::Forgejo,
                Plays::Github => ForgeKind::Github,
                Plays::Gitlab => ForgeKind::Gitlab,
            },
            url: Url::parse(forge).map_err(|error| error.to_string())?,
            api_url: None,
            webhook_secrets: Vec::new(),
            internal_url: None,
            token: None,
            app_id: None,
            app_key: None,
            allowed_users: Vec::new(),
            allowed_teams: Vec::new(),
            reviewers: Vec::new(),
            human_review_teams: Vec::new(),
            draft_fallback: DraftFallback::Refuse,
            // The forge is this program.
            write_spacing_ms: Some(0),
            ca_file: None,
            allow_plain_http: false,
        });
        let secrets = ForgeSecrets {
            webhook: vec![SecretString::from(secret.to_owned())],
            access: Access::Token(SecretString::from(token.to_owned())),
        };
        Ok(Config {
            file,
            forges: vec![secrets],
            model_key: None,
            database_password: None,
            operator_token: None,
            audit_key: None,
            traces_header: None,
            sign_in: Vec::new(),
        })
    }
}

async fn label_and_watch(forge: &demo::forge::Forge, hook: &str, mut watch: Receiver<Progress>) -> Result<Outcome, String> {
    drop(forge.take_deliveries());
    let deliveries = forge.set_label(project::PATH, 1, project::LABEL, project::MAINTAINER).map_err(|error| error.to_string())?;
    let mut bar = Bar::new();
    let began = Instant::now();
    for delivery in &deliveries {
        let status = demo::forge::deliver(delivery, hook).await.map_err(|error| format!("the webhook was not taken: {error}"))?;
        if status != 202 {
            return Err(format!("the webhook was answered {status}"));
        }
    }
    let answered = began.elapsed();
    let ended = follow(&mut bar, &mut watch).await;
    let took = began.elapsed();
    bar.end();
    let (outcome, report) = ended?;
    tell(forge, &outcome, &report, answered, took);
    Ok(outcome)
}

async fn follow(bar: &mut Bar, watch: &mut Receiver<Progress>) -> Result<(Outcome, Report), String> {
    loop {
        match watch.recv().await {
            Ok(Progress::Stage { stage, .. }) => bar.stage(stage),
            Ok(Progress::Attempt { number, most, .. }) => bar.attempt(number, most),
            Ok(Progress::Step { step, tools, .. }) => bar.step(step, &tools),
            Ok(Progress::Ended { outcome, report, .. }) => return Ok((outcome, *report)),
            Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
            Err(error) => return Err(format!("the worker ended: {error}")),
        }
    }
}

fn tell(forge: &demo::forge::Forge, outcome: &Outcome, report: &Report, answered: Duration, took: Duration) {
    let Outcome::Proposed { url } = outcome else {
        print(&format!("No pull request: {} ({}). {}", outcome.name(), report.reason, report.detail));
        if let Some(said) = said_on_the_issue(forge) {
            print(&format!("\nThe comment on the issue:\n\n{said}"));
        }
        return;
    };
    print(&format!("Draft pull request: {url}"));
    print(&format!("Labels:             {}", labels_of(forge).join(", ")));
    print(&format!("Verdict:            {}\n", report.proof.as_deref().unwrap_or("unproved")));
    if let (Some(before), Some(after)) = (&report.tests.before, &report.tests.after) {
        print("tests      before   after");
        for (name, count) in rows() {
            print(&format!("{name:<9} {:>7} {:>7}", count(before), count(after)));
        }
    }
    if let Some(diff) = diff_of(forge) {
        print(&format!("\n{diff}"));
    }
    print(&format!(
        "Webhook answered in {:.1} ms; from the webhook to the draft pull request {:.2} s:",
        answered.as_secs_f64() * 1000.0,
        took.as_secs_f64()
    ));
    for (stage, milliseconds) in &report.stage_ms {
        print(&format!("  {stage:<14} {milliseconds:>6} ms"));
    }
}

type Row = (&'static str, fn(&Told) -> usize);

fn rows() -> [Row; 4] {
    [("passed", |told| told.passed), ("failed", |told| told.failed), ("errors", |told| told.errors), ("skipped", |told| told.skipped)]
}

fn labels_of(forge: &demo::forge::Forge) -> Vec<String> {
    let state = forge.state();
    let pull_request = state.repository(project::PATH).and_then(|repository| repository.issues.iter().find(|issue| issue.pull.is_some()));
    pull_request.map(|issue| issue.labels.iter().map(|label| label.name.clone()).collect()).unwrap_or_default()
}

/// The bot's last comment, without its hidden mark.
fn said_on_the_issue(forge: &demo::forge::Forge) -> Option<String> {
    let state = forge.state();
    let issue = state.repository(project::PATH)?.issue(1)?;
    let said = issue.comments.iter().rev().find(|comment| comment.author == project::BOT)?;
    let lines = said.body.lines().filter(|line| !line.starts_with("<!--"));
    Some(lines.collect::<Vec<_>>().join("\n").trim().to_owned())
}

fn diff_of(forge: &demo::forge::Forge) -> Option<String> {
    let state = forge.state();
    let repository = state.repository(project::PATH)?;
    let pull = repository.issues.iter().find_map(|issue| issue.pull.as_ref())?;
    demo::diff(&repository.git_dir, &pull.base, &pull.head).ok()
}
