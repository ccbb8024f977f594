//! The configuration file: typed, every key known, every complaint at once.
//!
//! Secrets are never in the file itself: they come from a file or an environment variable that it names. Nothing here can open a network.

mod secrets;

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::domain::Attribution;

pub use secrets::SecretSource;

/// The whole file, checked: what is here can be worked with.
#[derive(Debug)]
pub struct Config {
    /// The checked file.
    pub file: File,
    /// The forges with their secrets read.
    pub forges: Vec<ForgeSecrets>,
    /// The model's key, where one is configured.
    pub model_key: Option<SecretString>,
}

/// One forge's secrets.
#[derive(Debug)]
pub struct ForgeSecrets {
    /// The webhook secrets, several while they are rotated; never empty.
    pub webhook: Vec<SecretString>,
    /// The token for the API and for git.
    pub token: SecretString,
}

/// The file as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Where the service listens and keeps its data.
    #[serde(default)]
    pub service: Service,
    /// One entry a forge; its name is the last part of the webhook's address.
    #[serde(default, rename = "forge")]
    pub forges: Vec<Forge>,
    /// The model's server.
    pub model: Model,
    /// The sandbox.
    #[serde(default)]
    pub sandbox: Sandbox,
    /// The budgets of a run.
    #[serde(default)]
    pub run: Run,
    /// The limits on repositories.
    #[serde(default)]
    pub repositories: Repositories,
    /// The rules for patches.
    #[serde(default)]
    pub guard: Guard,
}

/// `[service]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Service {
    /// The address to listen on.
    pub listen: String,
    /// The folder for the database, mirrors and records.
    pub data: PathBuf,
    /// The database; by default a SQLite file in `data`.
    pub database: Option<String>,
    /// The name of this worker; the same after a restart.
    pub worker: String,
    /// How many jobs run at once.
    pub concurrency: usize,
    /// How long a lease holds without a heartbeat, in seconds.
    pub lease_seconds: u64,
    /// How often a job whose worker was lost is started again before it is given up.
    pub max_leases: u64,
    /// How long a run may go on after SIGTERM before it is put back, in seconds.
    pub grace_seconds: u64,
    /// The largest webhook body, in bytes.
    pub max_body_bytes: usize,
    /// The label that starts a run.
    pub label: String,
    /// The name in our commits.
    pub commit_name: String,
    /// The mail address in our commits.
    pub commit_email: String,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8087".to_owned(),
            data: PathBuf::from("frognano-data"),
            database: None,
            worker: "worker".to_owned(),
            concurrency: 2,
            lease_seconds: 60,
            max_leases: 5,
            grace_seconds: 20,
            max_body_bytes: 25 * 1024 * 1024,
            label: "frognano-fix".to_owned(),
            commit_name: "frognano-bot".to_owned(),
            commit_email: "frognano-bot@localhost".to_owned(),
        }
    }
}

/// The kinds of forges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForgeKind {
    /// GitHub or GitHub Enterprise Server.
    Github,
    /// Gitea.
    Gitea,
    /// Forgejo.
    Forgejo,
}

/// `[[forge]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forge {
    /// The name; deliveries come to `/webhooks/NAME`.
    pub name: String,
    /// Its kind.
    pub kind: ForgeKind,
    /// The address of the forge for git and for people, `https://git.example.com`.
    pub url: Url,
    /// The address of its API, where it is not the kind's own place below `url`.
    pub api_url: Option<Url>,
    /// Where the webhook secrets are; several while they are rotated.
    #[serde(default)]
    pub webhook_secrets: Vec<SecretSource>,
    /// Where the token is.
    pub token: SecretSource,
    /// A PEM file with the certificates of a private authority.
    pub ca_file: Option<PathBuf>,
    /// Allows `http://` to another machine than this one. The token then crosses the network in the clear.
    #[serde(default)]
    pub allow_plain_http: bool,
}

impl Forge {
    /// The address of the API: as configured, or where this kind has it.
    #[must_use]
    pub fn api_base(&self) -> Url {
        if let Some(url) = &self.api_url {
            return url.clone();
        }
        let mut url = self.url.clone();
        let root = url.path().trim_end_matches('/').to_owned();
        match self.kind {
            ForgeKind::Github if url.host_str() == Some("github.com") => {
                url.set_host(Some("api.github.com")).ok();
                url.set_path("/");
            }
            ForgeKind::Github => url.set_path(&format!("{root}/api/v3")),
            ForgeKind::Gitea | ForgeKind::Forgejo => url.set_path(&format!("{root}/api/v1")),
        }
        url
    }
}

/// `[model]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The OpenAI-compatible address, `http://sglang:30000/v1`.
    pub url: Url,
    /// The model's name there.
    pub name: String,
    /// Where the key is, for a server that wants one.
    pub key: Option<SecretSource>,
    /// A PEM file with the certificates of a private authority.
    pub ca_file: Option<PathBuf>,
    /// The model's `tokenizer.json`: counts what its server has not counted yet.
    pub tokenizer: Option<PathBuf>,
    /// How often the queue asks a model's server that is down whether it is back, in seconds.
    #[serde(default = "retry_seconds")]
    pub retry_seconds: u64,
    /// How often a request that failed is tried again.
    #[serde(default = "retries")]
    pub retries: u32,
    /// The longest that one request may take, in seconds.
    #[serde(default = "request_seconds")]
    pub request_seconds: u64,
    /// Who reads the calls out of the model's text.
    #[serde(default)]
    pub parse_tool_calls: ParseToolCalls,
}

/// Who reads the calls out of the model's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParseToolCalls {
    /// The server; what it loses is recovered.
    #[default]
    Server,
    /// This program: the server was started without a parser of tool calls and leaves the text whole.
    Here,
}

const fn retry_seconds() -> u64 {
    15
}

const fn retries() -> u32 {
    5
}

const fn request_seconds() -> u64 {
    7200
}

/// `[sandbox]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// The bubblewrap program; by default `bwrap` on the `PATH`.
    pub bwrap: Option<PathBuf>,
    /// The program frognano-tools; by default beside this one.
    pub tools: Option<PathBuf>,
    /// Folders that are visible inside, read-only: a virtualenv, a toolchain.
    pub binds: Vec<PathBuf>,
    /// Folders put before the sandbox's `PATH`.
    pub path: Vec<PathBuf>,
    /// Further variables of the sandbox's environment.
    pub env: std::collections::BTreeMap<String, String>,
    /// The size of the workspace, in bytes of memory.
    pub workspace_bytes: u64,
    /// The size of /tmp, in bytes of memory.
    pub tmp_bytes: u64,
    /// The memory of everything inside, in bytes, workspace and /tmp included.
    pub memory_bytes: u64,
    /// Processes at once.
    pub max_processes: u64,
    /// Open files a process.
    pub max_open_files: u64,
    /// The largest file, in bytes.
    pub max_file_bytes: u64,
    /// Processors' worth of time.
    pub cpus: f64,
    /// The user that the sandbox runs as when the service is root.
    pub uid: u32,
}

impl Default for Sandbox {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            bwrap: None,
            tools: None,
            binds: Vec::new(),
            path: Vec::new(),
            env: std::collections::BTreeMap::new(),
            workspace_bytes: 1024 * MIB,
            tmp_bytes: 512 * MIB,
            memory_bytes: 4096 * MIB,
            max_processes: 512,
            max_open_files: 1024,
            max_file_bytes: 1024 * MIB,
            cpus: 2.0,
            uid: 61_457,
        }
    }
}

/// `[run]`: the evaluated preset (leaf.md), unless said otherwise.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Turns of the model.
    pub max_steps: u64,
    /// Seconds for the agent in all.
    pub max_seconds: u64,
    /// Generated tokens a turn.
    pub max_tokens_per_turn: u64,
    /// Tokens of context.
    pub max_context: u64,
    /// A turn that was cut at `max_tokens_per_turn` is answered once by a note instead of ending the run.
    pub retry_cut_turns: bool,
    /// So many steps in a row with the same calls and the same answers end the run; none: never.
    pub stuck_after: Option<u64>,
    /// Seconds for one run of the project's tests.
    pub test_seconds: u64,
    /// The command that runs the tests, where neither the repository says it nor it can be found out.
    pub test_command: Option<String>,
    /// How often a run goes on in a new sandbox after its own was lost.
    pub max_recoveries: u32,
    /// The sampling temperature.
    pub temperature: f64,
    /// The seed sent with each request.
    pub seed: Option<u64>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            max_steps: 150,
            max_seconds: 10_800,
            max_tokens_per_turn: 8192,
            max_context: 131_072,
            retry_cut_turns: false,
            stuck_after: None,
            test_seconds: 1800,
            max_recoveries: 3,
            test_command: None,
            temperature: 0.6,
            seed: None,
        }
    }
}

/// `[repositories]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Repositories {
    /// The largest mirror, in bytes.
    pub max_bytes: u64,
    /// Seconds for one fetch or push.
    pub git_seconds: u64,
}

impl Default for Repositories {
    fn default() -> Self {
        Self { max_bytes: 2 * 1024 * 1024 * 1024, git_seconds: 600 }
    }
}

/// `[guard]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guard {
    /// Further globs that no patch may touch.
    pub protected: Vec<String>,
    /// The most files a patch may touch.
    pub max_files: Option<u64>,
    /// The most lines a patch may add and remove.
    pub max_lines: Option<u64>,
}

impl Config {
    /// Reads and checks a file and the secrets that it names.
    ///
    /// # Errors
    /// Every complaint at once, each with its place and what to do.
    pub fn load(path: &Path) -> Result<Self, Vec<String>> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            vec![format!("{}: can't be read: {error}; config/frognano.example.toml is an annotated example", path.display())]
        })?;
        Self::parse(&text, path.parent().unwrap_or(Path::new(".")))
            .map_err(|complaints| complaints.into_iter().map(|complaint| format!("{}: {complaint}", path.display())).collect())
    }

    /// The same from text; relative secret files are looked for below `folder`.
    ///
    /// # Errors
    /// Every complaint at once.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, Vec<String>> {
        let file = parse_every_section(text)?;
        let mut complaints = file.complaints();
        if file.forges.is_empty() {
            complaints.push("[[forge]]: none; the service needs one to serve".to_owned());
        }
        let forges = file.forges.iter().map(|forge| read_secrets(forge, folder, &mut complaints)).collect::<Vec<_>>();
        let model_key = file.model.key.as_ref().and_then(|source| match source.read(folder) {
            Ok(key) => Some(key),
            Err(why) => {
                complaints.push(format!("[model] key: {why}"));
                None
            }
        });
        if !complaints.is_empty() {
            return Err(complaints);
        }
        Ok(Self { file, forges: forges.into_iter().flatten().collect(), model_key })
    }
}

/// Reads each section by itself, so that a fault in one does not hide those in the others.
fn parse_every_section(text: &str) -> Result<File, Vec<String>> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| vec![error.to_string().trim().to_owned()])?;
    let whole = toml::from_str::<File>(text);
    if let Ok(file) = whole {
        return Ok(file);
    }
    let mut complaints = Vec::new();
    for (name, value) in &table {
        let place = format!("[{name}]");
        match name.as_str() {
            "service" => every_key::<Service>(value, &place, &[], &mut complaints),
            "model" => every_key::<Model>(value, &place, &["url", "name"], &mut complaints),
            "sandbox" => every_key::<Sandbox>(value, &place, &[], &mut complaints),
            "run" => every_key::<Run>(value, &place, &[], &mut complaints),
            "repositories" => every_key::<Repositories>(value, &place, &[], &mut complaints),
            "guard" => every_key::<Guard>(value, &place, &[], &mut complaints),
            "forge" => match value.as_array() {
                Some(forges) => {
                    for (at, forge) in forges.iter().enumerate() {
                        every_key::<Forge>(
                            forge,
                            &format!("[[forge]] number {}", at + 1),
                            &["name", "kind", "url", "token"],
                            &mut complaints,
                        );
                    }
                }
                None => complaints.push("[forge]: write [[forge]], one a forge".to_owned()),
            },
            other => complaints.push(format!("[{other}]: there is no such section")),
        }
    }
    if !table.contains_key("model") {
        complaints.push("[model]: missing; it names the model's server (url, name)".to_owned());
    }
    if complaints.is_empty() {
        complaints.push("the file can't be read".to_owned());
    }
    Err(complaints)
}

/// Tries each key of a section alone: a fault of one key does not hide the next.
fn every_key<T: serde::de::DeserializeOwned>(section: &toml::Value, place: &str, required: &[&str], complaints: &mut Vec<String>) {
    let Some(table) = section.as_table() else {
        complaints.push(format!("{place}: is no section"));
        return;
    };
    for (key, value) in table {
        let alone = toml::Value::Table(toml::Table::from_iter([(key.clone(), value.clone())]));
        if let Err(error) = alone.try_into::<T>() {
            let why = error.message().to_owned();
            if !why.starts_with("missing field") {
                complaints.push(format!("{place} {key}: {why}"));
            }
        }
    }
    for key in required.iter().filter(|key| !table.contains_key(**key)) {
        complaints.push(format!("{place} {key}: missing"));
    }
}

fn read_secrets(forge: &Forge, folder: &Path, complaints: &mut Vec<String>) -> Option<ForgeSecrets> {
    let mut read = |source: &SecretSource, what: &str| {
        source.read(folder).map_err(|why| complaints.push(format!("[[forge]] {:?} {what}: {why}", forge.name))).ok()
    };
    let webhook = forge.webhook_secrets.iter().filter_map(|source| read(source, "webhook_secrets")).collect();
    let token = read(&forge.token, "token")?;
    Some(ForgeSecrets { webhook, token })
}

impl File {
    /// A file without forges, for work on a local repository; its secrets are not read.
    ///
    /// # Errors
    /// Every complaint at once.
    pub fn load_without_forges(path: &Path) -> Result<Self, Vec<String>> {
        let text = std::fs::read_to_string(path).map_err(|error| vec![format!("{}: can't be read: {error}", path.display())])?;
        let placed = |complaints: Vec<String>| {
            complaints.into_iter().map(|complaint| format!("{}: {complaint}", path.display())).collect::<Vec<_>>()
        };
        let file = parse_every_section(&text).map_err(placed)?;
        let complaints = file.complaints();
        if complaints.is_empty() { Ok(file) } else { Err(placed(complaints)) }
    }

    /// Every default, with no forge and a model that is named elsewhere.
    #[must_use]
    pub fn local(model_url: Url, model_name: &str) -> Self {
        Self {
            service: Service::default(),
            forges: Vec::new(),
            model: Model {
                url: model_url,
                name: model_name.to_owned(),
                key: None,
                ca_file: None,
                tokenizer: None,
                retry_seconds: retry_seconds(),
                retries: retries(),
                request_seconds: request_seconds(),
                parse_tool_calls: ParseToolCalls::Server,
            },
            sandbox: Sandbox::default(),
            run: Run::default(),
            repositories: Repositories::default(),
            guard: Guard::default(),
        }
    }

    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut demand = |holds: bool, complaint: String| {
            if !holds {
                complaints.push(complaint);
            }
        };
        let service = &self.service;
        demand(
            service.listen.parse::<std::net::SocketAddr>().is_ok(),
            format!("[service] listen: {:?} is no address with a port, like \"127.0.0.1:8087\"", service.listen),
        );
        demand(service.concurrency > 0, "[service] concurrency: at least 1".to_owned());
        demand(service.lease_seconds >= 10, "[service] lease_seconds: at least 10".to_owned());
        demand(service.max_leases > 0, "[service] max_leases: at least 1".to_owned());
        demand(service.max_body_bytes >= 64 * 1024, "[service] max_body_bytes: at least 65536, forges send more".to_owned());
        demand(!service.label.trim().is_empty(), "[service] label: empty".to_owned());
        demand(!service.worker.trim().is_empty(), "[service] worker: empty".to_owned());
        if let Some(database) = &service.database {
            demand(database.starts_with("sqlite:"), "[service] database: only sqlite:// is supported".to_owned());
        }
        for (at, forge) in self.forges.iter().enumerate() {
            let place = format!("[[forge]] {:?}", forge.name);
            let plain =
                !forge.name.is_empty() && forge.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            demand(plain, format!("{place} name: letters, digits, - and _ only, since it stands in the webhook's address"));
            demand(self.forges.iter().take(at).all(|other| other.name != forge.name), format!("{place} name: given twice"));
            demand(!forge.webhook_secrets.is_empty(), format!("{place} webhook_secrets: none; without a secret anybody could start a run"));
            for (key, url) in [("url", Some(&forge.url)), ("api_url", forge.api_url.as_ref())] {
                if let Some(url) = url {
                    demand(is_web(url), format!("{place} {key}: {url} is no http(s) address"));
                    demand(
                        url.username().is_empty() && url.password().is_none(),
                        format!("{place} {key}: a credential stands in it; use token"),
                    );
                    let safe = url.scheme() == "https" || is_loopback(url) || forge.allow_plain_http;
                    demand(
                        safe,
                        format!("{place} {key}: http:// would send the token in the clear; use https://, or set allow_plain_http = true"),
                    );
                }
            }
            if let Some(ca) = &forge.ca_file {
                demand(ca.is_file(), format!("{place} ca_file: {} is not there", ca.display()));
            }
        }
        let model = &self.model;
        demand(is_web(&model.url), format!("[model] url: {} is no http(s) address", model.url));
        demand(!model.name.trim().is_empty(), "[model] name: empty".to_owned());
        demand(model.retry_seconds > 0, "[model] retry_seconds: at least 1".to_owned());
        if let Some(ca) = &model.ca_file {
            demand(ca.is_file(), format!("[model] ca_file: {} is not there", ca.display()));
        }
        if let Some(tokenizer) = &model.tokenizer {
            demand(tokenizer.is_file(), format!("[model] tokenizer: {} is not there", tokenizer.display()));
        }
        let sandbox = &self.sandbox;
        for (key, program) in [("bwrap", &sandbox.bwrap), ("tools", &sandbox.tools)] {
            if let Some(program) = program {
                demand(program.is_file(), format!("[sandbox] {key}: {} is not there", program.display()));
            }
        }
        for bind in &sandbox.binds {
            demand(
                bind.is_absolute() && bind.exists(),
                format!("[sandbox] binds: {} is no folder that is there; write its full path", bind.display()),
            );
        }
        demand(sandbox.uid != 0, "[sandbox] uid: never 0".to_owned());
        demand(sandbox.cpus > 0.0, "[sandbox] cpus: more than 0".to_owned());
        demand(
            sandbox.workspace_bytes + sandbox.tmp_bytes <= sandbox.memory_bytes,
            "[sandbox] memory_bytes: less than workspace_bytes and tmp_bytes together, which are held in memory".to_owned(),
        );
        demand(sandbox.max_processes >= 16, "[sandbox] max_processes: at least 16".to_owned());
        let run = &self.run;
        demand(run.max_steps > 0, "[run] max_steps: at least 1".to_owned());
        demand(run.max_seconds > 0, "[run] max_seconds: at least 1".to_owned());
        demand(run.test_seconds > 0, "[run] test_seconds: at least 1".to_owned());
        demand(
            run.max_tokens_per_turn > 0 && run.max_tokens_per_turn < run.max_context,
            "[run] max_tokens_per_turn: between 1 and max_context".to_owned(),
        );
        demand(run.stuck_after.is_none_or(|times| times >= 2), "[run] stuck_after: at least 2, or left out".to_owned());
        demand((0.0..=2.0).contains(&run.temperature), "[run] temperature: between 0 and 2".to_owned());
        demand(self.repositories.max_bytes > 0, "[repositories] max_bytes: more than 0".to_owned());
        complaints
    }

    /// Who is named in our commits.
    #[must_use]
    pub fn attribution(&self) -> Attribution {
        Attribution { name: self.service.commit_name.clone(), email: self.service.commit_email.clone() }
    }
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host().is_some()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
