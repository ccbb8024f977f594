//! The main stories on a forge that is known by its address and tokens alone: everything is set up and looked at through its API, and its
//! deliveries come when it sends them.
//!
//! Without further words it is the built-in forge. A real one takes its place where these variables are set, `KIND` being `GITEA`,
//! `FORGEJO`, `GITHUB` or `GITLAB`:
//!
//! - `FROGNANO_TEST_KIND_URL`: the address for people and git, `https://git.example.com`;
//! - `FROGNANO_TEST_KIND_TOKEN`: a token of the service's own account, with the scopes that its page in the documentation names;
//! - `FROGNANO_TEST_KIND_MAINTAINER_TOKEN`: a token of another account that may make repositories of its own, let others in, make webhooks
//!   and push (Gitea and Forgejo: `write:repository`, `write:issue`, `write:user`; GitLab: `api`; GitHub: classic, `repo` and `admin:repo_hook`);
//! - `FROGNANO_TEST_DOOR`: the address of this machine that the forge reaches, where that is not `127.0.0.1`.
//!
//! The forge must be willing to send webhooks there (Gitea and Forgejo: `[webhook] ALLOWED_HOST_LIST`; GitLab: "Allow requests to the local
//! network"). Each run makes private repositories `tallybook-…` of the maintainer's and leaves them for people to look at.

use std::path::Path;
use std::sync::Arc;

use frognano_bot::app::{self, TimeIds};
use frognano_bot::config::Config;
use frognano_bot::demo::model_server::ModelServer;
use frognano_bot::demo::{self, Kind, Running, forge::Forge as BuiltIn, project};
use frognano_bot::domain::{Ids as _, NoPatch, Outcome, RepoRef, Stage, SystemClock};
use frognano_bot::forge::{Forge, LabelSpec, PullRequest, Settings, Sleep, gitea, github, gitlab};
use frognano_bot::model::{RestartOn, Script, Scripted};
use frognano_bot::worker::Progress;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio_util::sync::CancellationToken;

use crate::faces::on_each_forge;
use crate::house::{PATIENCE, SECRET};

const LABEL: LabelSpec = LabelSpec { name: project::LABEL, color: "1f883d", description: "frognano-bot proposes a fix" };
/// An agent that is in the middle of a command for longer than a story waits.
const BUSY: &str = r#"{"content": "", "tool_calls": [{"name": "Bash", "arguments": {"command": "sleep 100"}}]}"#;
const NOTHING: &str = r#"{"content": "I see nothing to change."}"#;

/// Where the forge is, and who asks it.
struct Address {
    kind: Kind,
    url: String,
    bot: String,
    maintainer: String,
    _built_in: Option<Running>,
}

impl Address {
    async fn of(kind: Kind, folder: &Path) -> Self {
        match Self::named(kind, |variable| std::env::var(variable).ok()) {
            Some(address) => address,
            None => Self::of_the_built_in(kind, folder).await,
        }
    }

    /// As the variables say; none when there is no URL among them.
    fn named(kind: Kind, variables: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let variable = |what: &str| format!("FROGNANO_TEST_{}_{what}", kind.name().to_uppercase());
        let url = variables(&variable("URL"))?;
        let token =
            |what: &str| variables(&variable(what)).unwrap_or_else(|| panic!("{} is set, {} is not", variable("URL"), variable(what)));
        Some(Self { kind, url, bot: token("TOKEN"), maintainer: token("MAINTAINER_TOKEN"), _built_in: None })
    }

    /// The built-in forge, named by the same variables.
    async fn of_the_built_in(kind: Kind, folder: &Path) -> Self {
        let forge = BuiltIn::new(kind, Arc::new(SystemClock));
        let (bot, maintainer) = ("token-of-the-bot".to_owned(), "token-of-ada".to_owned());
        for (login, is_bot, token) in [(project::BOT, true, &bot), (project::MAINTAINER, false, &maintainer)] {
            forge.add_user(login, is_bot);
            forge.add_token(token, login, &["all"]).unwrap();
        }
        forge.state().new_repositories = Some(folder.to_owned());
        let running = demo::start(forge).await.unwrap();
        let variables = |name: &str| match name.rsplit_once(&format!("_{}_", kind.name().to_uppercase()))?.1 {
            "URL" => Some(running.base_url.clone()),
            "TOKEN" => Some(bot.clone()),
            "MAINTAINER_TOKEN" => Some(maintainer.clone()),
            _ => None,
        };
        let address = Self::named(kind, variables).unwrap();
        Self { _built_in: Some(running), ..address }
    }
}

/// Somebody with a token.
struct Person {
    client: Box<dyn Forge>,
    http: reqwest::Client,
    api: String,
    token: String,
}

impl Person {
    fn new(kind: Kind, config: &Config, token: &str) -> Self {
        let entry = &config.file.forges[0];
        let settings = Settings {
            name: entry.name.clone(),
            api_base: entry.api_base(),
            git_base: entry.url.clone(),
            token: token.to_owned().into(),
            ca_bundle: None,
            ca_file: None,
            pause: Arc::new(Sleep),
            clock: Arc::new(SystemClock),
            write_spacing: std::time::Duration::ZERO,
            web_base: None,
        };
        let client: Box<dyn Forge> = match kind {
            Kind::Gitea | Kind::Forgejo => Box::new(gitea::Client::new(settings).unwrap()),
            Kind::GitHub => Box::new(github::Client::new(settings).unwrap()),
            Kind::GitLab => Box::new(gitlab::Client::new(settings).unwrap()),
        };
        let http = reqwest::Client::builder().no_proxy().user_agent("frognano-bot stories").build().unwrap();
        Self { client, http, api: entry.api_base().to_string().trim_end_matches('/').to_owned(), token: token.to_owned() }
    }

    /// A call that must succeed.
    async fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let mut request = self.http.request(method.parse().unwrap(), format!("{}/{path}", self.api)).bearer_auth(&self.token);
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{method} {path}: {status}: {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }
}

/// The service at work for a project on the forge.
struct Site {
    kind: Kind,
    repo: RepoRef,
    bot: Person,
    maintainer: Person,
    watch: Receiver<Progress>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
    _model: ModelServer,
    _address: Address,
    _folder: tempfile::TempDir,
}

impl Site {
    async fn open(kind: Kind, script: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("house-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        let address = Address::of(kind, folder.path()).await;
        let model = ModelServer::start(Scripted::new(Script::parse(script).unwrap(), RestartOn::Conversation)).await.unwrap();
        let config = config(&address, folder.path(), &model.base_url);
        let (bot, maintainer) = (Person::new(kind, &config, &address.bot), Person::new(kind, &config, &address.maintainer));
        let repo = make_repository(kind, &maintainer).await;
        push_the_sample(&maintainer, &repo, folder.path()).await;
        let service = app::build(&config).await.unwrap();
        make_hook(kind, &maintainer, &repo, &format!("http://{}/webhooks/here", service.address)).await;
        let_in(kind, &maintainer, &bot, &repo).await;
        let (watch, stop) = (service.worker.watch(), CancellationToken::new());
        let serving = tokio::spawn(service.run(stop.clone()));
        Self { kind, repo, bot, maintainer, watch, stop, serving, _model: model, _address: address, _folder: folder }
    }

    async fn open_issue(&self) -> i64 {
        let (title, text) = (project::issue_title(), project::issue_body());
        let made = match self.kind {
            Kind::GitLab => {
                let path = format!("projects/{}/issues", self.repo.id);
                self.maintainer.call("POST", &path, json!({ "title": title, "description": text })).await
            }
            _ => self.maintainer.call("POST", &format!("repos/{}/issues", self.repo.path), json!({ "title": title, "body": text })).await,
        };
        made["iid"].as_i64().or(made["number"].as_i64()).unwrap()
    }

    /// Sets the label and waits for what the service makes of it; the run's id and its outcome.
    async fn label(&mut self, issue: i64) -> (String, Outcome) {
        self.maintainer.client.add_label(&self.repo, issue, LABEL).await.unwrap();
        self.ended().await
    }

    /// Waits for the end of a run; its id and its outcome.
    async fn ended(&mut self) -> (String, Outcome) {
        self.until(|progress| match progress {
            Progress::Ended { run, outcome, .. } => Some((run, outcome)),
            _ => None,
        })
        .await
    }

    /// Waits until the agent is at work.
    async fn at_work(&mut self) -> String {
        self.until(|progress| match progress {
            Progress::Stage { run, stage: Stage::Agent } => Some(run),
            _ => None,
        })
        .await
    }

    async fn until<T>(&mut self, is_it: impl Fn(Progress) -> Option<T>) -> T {
        let watch = &mut self.watch;
        let waited = async move {
            loop {
                if let Some(found) = is_it(watch.recv().await.unwrap()) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waited).await.expect("nothing came: did the forge send its delivery here?")
    }

    /// The pull request of a run, as the service's account finds it.
    async fn pull_request(&self, issue: i64, run: &str) -> Option<PullRequest> {
        self.bot.client.find_pull_request(&self.repo, &format!("frognano/issue-{issue}-{run}")).await.unwrap()
    }

    /// That the older of two pull requests says which one supersedes it.
    async fn assert_superseded(&self, old: &PullRequest, new: &PullRequest) {
        let said = self.maintainer.client.pull_request_comments(&self.repo, old.number).await.unwrap();
        assert!(said.iter().any(|said| said.body.contains("supersedes") && said.body.contains(&new.url)), "{said:?}");
    }

    async fn labels_of_pull_request(&self, number: i64) -> Vec<String> {
        let row = match self.kind {
            Kind::GitLab => self.bot.call("GET", &format!("projects/{}/merge_requests/{number}", self.repo.id), Value::Null).await,
            _ => self.bot.call("GET", &format!("repos/{}/issues/{number}", self.repo.path), Value::Null).await,
        };
        let labels = row["labels"].as_array().unwrap();
        labels.iter().map(|label| label.as_str().or(label["name"].as_str()).unwrap().to_owned()).collect()
    }

    async fn said(&self, issue: i64) -> Vec<String> {
        let own = self.bot.client.myself().await.unwrap().login;
        let comments = self.maintainer.client.comments(&self.repo, issue).await.unwrap();
        comments.into_iter().filter(|comment| comment.author == own).map(|comment| comment.body).collect()
    }

    async fn end(self) {
        self.stop.cancel();
        self.serving.await.unwrap().unwrap();
    }
}

fn config(address: &Address, folder: &Path, model: &str) -> Config {
    let door = std::env::var("FROGNANO_TEST_DOOR").unwrap_or_else(|_| "127.0.0.1".to_owned());
    std::fs::write(folder.join("webhook-secret"), SECRET).unwrap();
    std::fs::write(folder.join("token"), &address.bot).unwrap();
    let text = format!(
        "[service]\nlisten = \"{door}:0\"\ndata = {data:?}\ngrace_seconds = 1\n\
         [[forge]]\nname = \"here\"\nkind = \"{kind}\"\nurl = \"{url}\"\nallow_plain_http = true\n\
         webhook_secrets = [{{ file = \"webhook-secret\" }}]\ntoken = {{ file = \"token\" }}\n\
         [model]\nurl = \"{model}\"\nname = \"scripted\"\nretry_seconds = 1\nretries = 0\n\
         [sandbox]\ntools = {tools:?}\n",
        data = folder.join("data"),
        kind = address.kind.name(),
        url = address.url,
        tools = crate::house::tools(),
    );
    Config::parse(&text, folder).unwrap()
}

async fn make_repository(kind: Kind, maintainer: &Person) -> RepoRef {
    let name = format!("tallybook-{}", TimeIds.next());
    let made = match kind {
        Kind::GitLab => maintainer.call("POST", "projects", json!({ "name": name, "path": name, "visibility": "private" })).await,
        Kind::GitHub => maintainer.call("POST", "user/repos", json!({ "name": name, "private": true })).await,
        _ => maintainer.call("POST", "user/repos", json!({ "name": name, "private": true, "default_branch": "main" })).await,
    };
    let path = made["path_with_namespace"].as_str().or(made["full_name"].as_str()).unwrap().to_owned();
    RepoRef { forge: "here".to_owned(), id: made["id"].to_string(), path }
}

async fn push_the_sample(maintainer: &Person, repo: &RepoRef, folder: &Path) {
    let bare = folder.join("sample.git");
    project::make_bare(&bare).unwrap();
    let access = maintainer.client.git_access(repo).await.unwrap();
    let credentials = format!("://{}:{}@", access.username, access.token.expose_secret());
    let remote = access.url.replacen("://", &credentials, 1);
    let mut git = tokio::process::Command::new("git");
    git.arg("-C").arg(&bare).args(["push", "--quiet", &remote, "main:refs/heads/main"]).env("GIT_TERMINAL_PROMPT", "0");
    let pushed = git.output().await.unwrap();
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
}

/// With the least that the service needs: on Gitea and Forgejo that is administration, as they tell nobody else of others' rights.
async fn let_in(kind: Kind, maintainer: &Person, bot: &Person, repo: &RepoRef) {
    let own = bot.client.myself().await.unwrap();
    let path = format!("repos/{}/collaborators/{}", repo.path, own.login);
    match kind {
        Kind::GitLab => {
            let id: i64 = own.id.parse().unwrap();
            maintainer.call("POST", &format!("projects/{}/members", repo.id), json!({ "user_id": id, "access_level": 30 })).await;
        }
        Kind::GitHub => {
            let invitation = maintainer.call("PUT", &path, json!({ "permission": "push" })).await;
            if let Some(id) = invitation["id"].as_i64() {
                bot.call("PATCH", &format!("user/repository_invitations/{id}"), Value::Null).await;
            }
        }
        Kind::Gitea | Kind::Forgejo => drop(maintainer.call("PUT", &path, json!({ "permission": "admin" })).await),
    }
}

async fn make_hook(kind: Kind, maintainer: &Person, repo: &RepoRef, door: &str) {
    let config = json!({ "url": door, "content_type": "json", "secret": SECRET });
    let events = ["issues", "issue_comment", "pull_request"];
    match kind {
        Kind::GitLab => {
            let body = json!({
                "url": door, "token": SECRET, "push_events": false, "issues_events": true, "confidential_issues_events": true,
                "note_events": true, "merge_requests_events": true,
            });
            maintainer.call("POST", &format!("projects/{}/hooks", repo.id), body).await;
        }
        _ => {
            let name = if kind == Kind::GitHub { "name" } else { "type" };
            let value = if kind == Kind::GitHub { "web" } else { kind.name() };
            let body = json!({ name: value, "active": true, "events": events, "config": config });
            maintainer.call("POST", &format!("repos/{}/hooks", repo.path), body).await;
        }
    }
}

on_each_forge! {
    async fn a_label_becomes_a_draft_and_set_again_another_that_supersedes_it(kind: Kind) {
        let mut site = Site::open(kind, project::SCRIPT).await;
        let issue = site.open_issue().await;
        let mut opened = Vec::new();
        for times in 1..=2 {
            let (run, outcome) = site.label(issue).await;
            let Outcome::Proposed { url } = outcome else { panic!("{kind:?}: {outcome:?}") };
            let pull_request = site.pull_request(issue, &run).await.unwrap();
            assert!(pull_request.draft && pull_request.url == url, "{pull_request:?}");
            assert_eq!(site.labels_of_pull_request(pull_request.number).await, ["needs-human-review"]);
            assert!(site.said(issue).await.len() == times && site.said(issue).await.concat().contains(&url));
            opened.push(pull_request);
            site.maintainer.client.remove_label(&site.repo, issue, LABEL.name).await.unwrap();
        }
        assert_ne!(opened[0].number, opened[1].number);
        site.assert_superseded(&opened[0], &opened[1]).await;
        site.end().await;
    }
}

on_each_forge! {
    async fn a_command_is_answered_and_retry_is_another_run_that_supersedes(kind: Kind) {
        let mut site = Site::open(kind, project::SCRIPT).await;
        let issue = site.open_issue().await;
        let (first, outcome) = site.label(issue).await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{kind:?}: {outcome:?}");
        let old = site.pull_request(issue, &first).await.unwrap();
        for words in ["/frognano status", "/frognano retry"] {
            site.maintainer.client.comment(&site.repo, issue, words).await.unwrap();
        }
        let (second, outcome) = site.ended().await;
        assert!(matches!(outcome, Outcome::Proposed { .. }), "{kind:?}: {outcome:?}");
        let new = site.pull_request(issue, &second).await.unwrap();
        site.assert_superseded(&old, &new).await;
        let said = site.said(issue).await;
        assert_eq!(said.len(), 3, "{kind:?}: one status comment a run and one answer: {said:#?}");
        site.end().await;
    }
}

on_each_forge! {
    async fn a_label_taken_off_stops_the_run(kind: Kind) {
        let mut site = Site::open(kind, BUSY).await;
        let issue = site.open_issue().await;
        site.maintainer.client.add_label(&site.repo, issue, LABEL).await.unwrap();
        let run = site.at_work().await;
        site.maintainer.client.remove_label(&site.repo, issue, LABEL.name).await.unwrap();
        let (stopped, outcome) = site.ended().await;
        assert_eq!(stopped, run);
        assert!(matches!(&outcome, Outcome::Cancelled { by } if by.contains("the label was taken off")), "{kind:?}: {outcome:?}");
        assert_eq!(site.pull_request(issue, &run).await, None);
        let [said] = &site.said(issue).await[..] else { panic!("{kind:?}: one comment") };
        assert!(said.contains("the label was taken off"), "{said}");
        site.end().await;
    }
}

on_each_forge! {
    async fn nothing_to_change_is_said_and_labelled(kind: Kind) {
        let mut site = Site::open(kind, NOTHING).await;
        let issue = site.open_issue().await;
        let (_, outcome) = site.label(issue).await;
        assert!(matches!(outcome, Outcome::NoPatch { reason: NoPatch::NothingChanged, .. }), "{kind:?}: {outcome:?}");
        let now = site.maintainer.client.issue(&site.repo, issue).await.unwrap();
        assert!(now.has_label("frognano-no-fix"), "{:?}", now.labels);
        assert_eq!(site.said(issue).await.len(), 1);
        site.end().await;
    }
}
