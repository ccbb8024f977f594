//! The configuration file: typed, every key known, every complaint at once.
//!
//! Secrets are never in the file itself: they come from a file or an environment variable that it names. Nothing here can open a network.

mod audit;
mod check;
mod cluster;
mod forge;
mod queue;
mod read;
mod secrets;
mod telemetry;
mod web;

use std::path::PathBuf;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::domain::{Attribution, Proof};

pub use audit::{AnchorRepository, Audit, KeepFor};
pub use cluster::{Cluster, Medium, PullPolicy, Toleration};
pub use forge::{DraftFallback, Forge, ForgeKind};
pub use queue::{Priority, Queue};
pub use secrets::SecretSource;
pub use telemetry::{Telemetry, Traces};
pub use web::{Proxy, Roles, SignIn, Web, WebAccess};

/// The whole file, checked: what is here can be worked with.
#[derive(Debug, Clone)]
pub struct Config {
    /// The checked file.
    pub file: File,
    /// The forges with their secrets read.
    pub forges: Vec<ForgeSecrets>,
    /// The model's key, where one is configured.
    pub model_key: Option<SecretString>,
    /// The database's password, where one is configured.
    pub database_password: Option<SecretString>,
    /// The key of the operator's routes, where one is configured.
    pub operator_token: Option<SecretString>,
    /// The key that the audit chain is signed with, where one is configured.
    pub audit_key: Option<SecretString>,
    /// The value of the header that the collector of traces wants, where one is configured.
    pub traces_header: Option<SecretString>,
    /// The secrets of the applications that people sign in by, one for each `[[web.sign_in]]`.
    pub sign_in: Vec<SecretString>,
}

/// One forge's secrets.
#[derive(Debug, Clone)]
pub struct ForgeSecrets {
    /// The webhook secrets, several while they are rotated; never empty.
    pub webhook: Vec<SecretString>,
    /// How the service gets in.
    pub access: Access,
}

/// How the service gets into a forge, for the API and for git.
#[derive(Debug, Clone)]
pub enum Access {
    /// With the token of an account.
    Token(SecretString),
    /// As a GitHub App.
    App {
        /// The App's client id, or its number.
        id: String,
        /// Its private key, in PEM form.
        key: SecretString,
    },
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
    /// How much runs at once.
    #[serde(default)]
    pub queue: Queue,
    /// The budgets of a run.
    #[serde(default)]
    pub run: Run,
    /// The limits on repositories.
    #[serde(default)]
    pub repositories: Repositories,
    /// The rules for patches.
    #[serde(default)]
    pub guard: Guard,
    /// The judge.
    #[serde(default)]
    pub verify: Verify,
    /// The audit chain.
    #[serde(default)]
    pub audit: Audit,
    /// Who may look.
    #[serde(default)]
    pub web: Web,
    /// What is told to other programs.
    #[serde(default)]
    pub telemetry: Telemetry,
}

/// `[service]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Service {
    /// The address to listen on.
    pub listen: String,
    /// The folder for the database, mirrors and records.
    pub data: PathBuf,
    /// The database: `sqlite://` and a file, by default one in `data`, or `postgres://user@host/name`.
    pub database: Option<String>,
    /// The password of the PostgreSQL database.
    pub database_password: Option<SecretSource>,
    /// The key of the operator's routes; without one there are none.
    pub operator_token: Option<SecretSource>,
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
    /// How often it is looked for what a lost delivery would have brought, in seconds; 0: never.
    pub reconcile_seconds: u64,
    /// How many days deliveries are kept; 0: for ever.
    pub keep_deliveries_days: u32,
    /// The most comments on one issue or pull request within an hour; edits of the status comment do not count.
    pub comments_per_hour: u32,
    /// Where people reach the pages of this service, which has one for each run at `{public_url}/runs/{run}`; given, pull requests and comments
    /// link to it.
    pub public_url: Option<Url>,
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
            database_password: None,
            operator_token: None,
            worker: "worker".to_owned(),
            concurrency: 2,
            lease_seconds: 60,
            max_leases: 5,
            grace_seconds: 20,
            reconcile_seconds: 300,
            keep_deliveries_days: 90,
            comments_per_hour: 20,
            public_url: None,
            max_body_bytes: 25 * 1024 * 1024,
            label: "frognano-fix".to_owned(),
            commit_name: "frognano-bot".to_owned(),
            commit_email: "frognano-bot@localhost".to_owned(),
        }
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
    /// The SHA-256 of the weights that the server was started with: said in statements on pull requests, and nowhere looked up.
    pub weights_sha256: Option<String>,
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

/// Where sandboxes are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxKind {
    /// On this machine, by bubblewrap.
    #[default]
    Local,
    /// Pods of a Kubernetes cluster.
    Kubernetes,
}

/// `[sandbox]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// Where sandboxes are.
    pub kind: SandboxKind,
    /// The cluster, for `kind = "kubernetes"`.
    pub kubernetes: Cluster,
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
    /// The size of the workspace, in bytes of memory; in a cluster of its `medium`.
    pub workspace_bytes: u64,
    /// The size of /tmp, in bytes of memory; in a cluster of its `medium`.
    pub tmp_bytes: u64,
    /// The memory of everything inside, in bytes, workspace and /tmp included where they are memory.
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
            kind: SandboxKind::default(),
            kubernetes: Cluster::default(),
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
    /// Seconds for the agent in all, over all attempts.
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
    /// How many fresh attempts a run makes at most, within `max_seconds`, while none of them is accepted.
    pub attempts: u32,
    /// A patch that breaks nothing and that no test proves is not accepted at once: further attempts look for one that a test proves.
    pub attempts_for_proof: bool,
    /// How often a run goes on in a new sandbox after its own or its worker was lost, over all restarts; stops in order do not count.
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
            attempts: 3,
            attempts_for_proof: false,
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

/// `[verify]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Verify {
    /// The proofs that may open a pull request.
    pub open_with: Vec<Proof>,
    /// Whether each part of a small patch is taken back alone, to learn which of them a test notices.
    pub hunks: bool,
    /// Seconds for the runs that try the patch's own tests with and without its source, and its parts, together.
    pub proof_seconds: u64,
}

impl Default for Verify {
    fn default() -> Self {
        Self { open_with: Proof::ALL.to_vec(), hunks: true, proof_seconds: 1800 }
    }
}

impl File {
    /// Every default, with no forge and a model that is named elsewhere.
    #[must_use]
    pub fn local(model_url: Url, model_name: &str) -> Self {
        Self {
            service: Service::default(),
            forges: Vec::new(),
            model: Model {
                url: model_url,
                name: model_name.to_owned(),
                weights_sha256: None,
                key: None,
                ca_file: None,
                tokenizer: None,
                retry_seconds: retry_seconds(),
                retries: retries(),
                request_seconds: request_seconds(),
                parse_tool_calls: ParseToolCalls::Server,
            },
            sandbox: Sandbox::default(),
            queue: Queue::default(),
            run: Run::default(),
            repositories: Repositories::default(),
            guard: Guard::default(),
            verify: Verify::default(),
            audit: Audit::default(),
            web: Web::default(),
            telemetry: Telemetry::default(),
        }
    }

    /// Who is named in our commits.
    #[must_use]
    pub fn attribution(&self) -> Attribution {
        Attribution { name: self.service.commit_name.clone(), email: self.service.commit_email.clone() }
    }
}
