//! The only place that builds the concrete parts from the configuration and wires them.

mod access;
mod audit;
pub mod doctor;
mod door;
mod forges;
mod lock;
mod settings;
mod traces;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::Url;

pub use audit::{KEY_FILE, anchored_in, redactor, signing_key, write_key};
pub use door::{DoorOnly, build_door};
pub use lock::DataLock;
pub use settings::limits;
pub(crate) use settings::model_settings;

use forges::{Forges, all_forges, forge, learn_accounts};
use settings::{database, model_endpoint, preset, priorities, queue_limits, rules, verify_rules};

use crate::audit::SigningKey;
use crate::config::{Config, File, SandboxKind};
use crate::domain::{Clock, Ids, SystemClock};
use crate::forge::{Forge, Inbound, OwnAccounts};
use crate::git::{Git, Mirrors, which};
use crate::model::{Client, Model};
use crate::pipeline::{self, Parts};
use crate::sandbox::{Sandboxes, Target, kubernetes, local};
use crate::store::Store;
use crate::telemetry::traces::Traces;
use crate::web::{self, Door, Routes};
use crate::worker::{self, Worker};

/// The service, ready to run.
pub struct Service {
    /// The worker.
    pub worker: Arc<Worker>,
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The database.
    pub store: Store,
    /// What is served.
    pub routes: Routes,
    working_routes: Routes,
    accounts: Vec<(String, Arc<dyn Forge>, OwnAccounts)>,
    listener: TcpListener,
    concurrency: usize,
    grace: Duration,
    traces: Traces,
    lock: DataLock,
}

/// The parts of a service, for who drives them one by one.
pub struct ServiceParts {
    /// The worker; nothing is done unless it is told to.
    pub worker: Arc<Worker>,
    /// The database.
    pub store: Store,
    /// What is served.
    pub routes: Routes,
    /// Where.
    pub listener: TcpListener,
    /// The address of the listener.
    pub address: SocketAddr,
    /// Held for as long as the data folder is used.
    pub lock: DataLock,
}

/// Identifiers that sort by the time they were made: UUIDv7 without dashes.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeIds;

impl Ids for TimeIds {
    fn next(&self) -> String {
        uuid::Uuid::now_v7().simple().to_string()
    }
}

/// Builds the service from a checked configuration.
///
/// # Errors
/// Every complaint at once, each with what to do.
pub async fn build(config: &Config) -> Result<Service, Vec<String>> {
    build_with(config, Arc::new(SystemClock), Arc::new(TimeIds)).await
}

/// The same with another clock and other identifiers.
///
/// # Errors
/// As [`build`].
pub async fn build_with(config: &Config, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Service, Vec<String>> {
    let one = |complaint: String| vec![complaint];
    let file = &config.file;
    let data = &file.service.data;
    std::fs::create_dir_all(data).map_err(|error| one(format!("[service] data: {}: can't be made: {error}", data.display())))?;
    let lock = DataLock::take(data).map_err(one)?;
    let Forges { inbound, hands: forges, accounts, mut complaints } = all_forges(config, &clock);
    let parts = match parts(config, clock.clone()).await {
        Ok(parts) => Some(parts),
        Err(more) => {
            complaints.extend(more);
            None
        }
    };
    let (Some(mut parts), true) = (parts, complaints.is_empty()) else { return Err(complaints) };
    let key = Arc::new(signing_key(config).map_err(one)?);
    parts.redactor = Arc::new(redactor(config).map_err(one)?);
    let store = open_store(config).await.map_err(one)?.with_priorities(priorities(file)).with_clock(clock.clone());
    let store = store.with_redactor(parts.redactor.clone());
    audit::note_configuration(&store, config).await.map_err(one)?;
    parts.baselines = Some(store.clone());
    parts.signing = Some(key.clone());
    if store.is_shared() {
        parts.settings.kept = pipeline::KeepLimits::in_a_database();
    }
    let (listener, address) = listen(file).await.map_err(one)?;
    let wake = Arc::new(Notify::new());
    let traces = traces::sent(config, &clock).map_err(one)?;
    let settings = worker::Settings {
        owner: owner(file),
        lease: Duration::from_secs(file.service.lease_seconds),
        max_leases: i64::try_from(file.service.max_leases).unwrap_or(i64::MAX),
        retry: Duration::from_secs(10),
        model_retry: Duration::from_secs(file.model.retry_seconds),
        reconcile: Duration::from_secs(file.service.reconcile_seconds),
        keep_deliveries: Duration::from_secs(u64::from(file.service.keep_deliveries_days) * 24 * 60 * 60),
        comments_per_hour: i64::from(file.service.comments_per_hour),
        limits: queue_limits(file),
        keeping: audit::keeping(&file.audit),
        signing: audit::signing(config, key.clone(), &forges, &parts.mirrors),
        traces: traces.clone(),
    };
    let gate = access::gate(config, forges.clone(), &store, &clock).await.map_err(one)?;
    let worker = Arc::new(Worker::new(store.clone(), forges, parts, settings, ids.clone(), wake.clone()));
    let door = door(config, inbound, (gate, Some(key)), &store, clock, ids, wake);
    Ok(Service {
        worker,
        address,
        store,
        routes: web::routes(door.clone()),
        working_routes: web::working_routes(door),
        accounts,
        listener,
        concurrency: file.service.concurrency,
        grace: Duration::from_secs(file.service.grace_seconds),
        traces,
        lock,
    })
}

fn door(
    config: &Config,
    inbound: HashMap<String, Arc<dyn Inbound>>,
    (gate, key): (web::Gate, Option<Arc<SigningKey>>),
    store: &Store,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    wake: Arc<Notify>,
) -> Door {
    let looked_into = config.clone();
    let examine: web::Examine = Arc::new(move || {
        let config = looked_into.clone();
        Box::pin(async move { doctor::examine(&config, &[]).await })
    });
    Door {
        inbound: Arc::new(inbound),
        store: store.clone(),
        clock,
        ids,
        wake,
        max_body_bytes: config.file.service.max_body_bytes,
        gate,
        pages: web::Pages::new(examine, key, config.file.service.data.join("runs"))
            .with_most_open(config.file.queue.open_per_repository)
            .with_traces(traces::shown(config)),
        operator_token: config.operator_token.clone(),
    }
}

async fn listen(file: &File) -> Result<(TcpListener, SocketAddr), String> {
    let listen = &file.service.listen;
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("[service] listen: {listen}: {error}"))?;
    let address = listener.local_addr().map_err(|error| format!("[service] listen: {error}"))?;
    Ok((listener, address))
}

/// The worker's name among all that share the database.
fn owner(file: &File) -> String {
    let (service, host) = (&file.service, std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default());
    let data = std::path::absolute(&service.data).unwrap_or_else(|_| service.data.clone());
    format!("{} on {} in {}", service.worker, host.trim(), data.display())
}

impl Service {
    /// The same without webhooks: other processes take them in.
    #[must_use]
    pub fn without_webhooks(mut self) -> Self {
        self.routes = self.working_routes.clone();
        self
    }

    /// Takes it apart instead of running it.
    #[must_use]
    pub fn into_parts(self) -> ServiceParts {
        let Self { worker, store, routes, listener, address, lock, .. } = self;
        ServiceParts { worker, store, routes, listener, address, lock }
    }

    /// Serves and works until `stop`; then takes nothing new in, gives runs their grace time, and closes the database.
    ///
    /// # Errors
    /// When the listener breaks.
    pub async fn run(self, stop: CancellationToken) -> std::io::Result<()> {
        learn_accounts(self.accounts, &stop);
        let hands = tokio::spawn(self.worker.clone().work(self.concurrency, stop.clone(), self.grace));
        let result = web::serve(self.listener, self.routes, stop.clone()).await;
        stop.cancel();
        hands.await.ok();
        self.traces.close().await;
        self.store.close().await;
        result
    }
}

/// The parts that every run works with, and the checks of what they need from the machine.
///
/// # Errors
/// Every complaint at once.
pub async fn parts(config: &Config, clock: Arc<dyn Clock>) -> Result<Parts, Vec<String>> {
    let file = &config.file;
    let model = Client::new(model_endpoint(config), model_settings(file)).map_err(|error| vec![format!("[model]: {error}")])?;
    let data = std::path::absolute(&file.service.data).map_err(|error| vec![format!("[service] data: {error}")])?;
    let sandboxes = sandboxes(file, &data, reachable_for_us(file).await).await?;
    assemble(file, &data, sandboxes, Arc::new(model), clock, None).await
}

/// Puts parts together around a model and a place for sandboxes.
///
/// # Errors
/// Every complaint at once.
pub async fn assemble(
    file: &File,
    data: &Path,
    sandboxes: Arc<dyn Sandboxes>,
    model: Arc<dyn Model>,
    clock: Arc<dyn Clock>,
    test_command: Option<String>,
) -> Result<Parts, Vec<String>> {
    let git = Git::new(data).await.map_err(|why| vec![why])?;
    let limits = limits(file);
    let mirrors = Mirrors::new(git, data.join("mirrors"), file.repositories.max_bytes, Duration::from_secs(file.repositories.git_seconds));
    let settings = pipeline::Settings {
        label: file.service.label.clone(),
        attribution: file.attribution(),
        preset: preset(file)?,
        attempts: file.run.attempts,
        attempts_for_proof: file.run.attempts_for_proof,
        max_recoveries: file.run.max_recoveries,
        kept: pipeline::KeepLimits::default(),
        seed: file.run.seed,
        test_time: Duration::from_secs(file.run.test_seconds),
        test_override: test_command,
        test_fallback: file.run.test_command.clone(),
        limits,
        verify: verify_rules(file),
        public_url: file.service.public_url.clone(),
        weights_sha256: file.model.weights_sha256.clone(),
        runs: data.join("runs"),
        workspace_bytes: file.sandbox.workspace_bytes,
        forges: file.forges.iter().map(|forge| (forge.name.clone(), rules(forge))).collect(),
        no_rules: pipeline::ForgeRules::default(),
    };
    Ok(Parts { mirrors, sandboxes, model, clock, baselines: None, signing: None, redactor: Arc::default(), settings })
}

/// Opens the database of a configuration, for a look or a word beside the service.
///
/// # Errors
/// When it can't be opened.
pub async fn open_store(config: &Config) -> Result<Store, String> {
    let address = database(&config.file, config.database_password.as_ref())?;
    Store::open(address.expose_secret()).await.map_err(|error| format!("[service] database: {error}"))
}

/// Where PostgreSQL listens when nothing else is said.
const POSTGRES_PORT: u16 = 5432;

/// The addresses that the service itself reaches, the forges, the model, the database and the collector of traces: a sandbox must prove that it does not.
async fn reachable_for_us(file: &File) -> Vec<Target> {
    let urls = file
        .forges
        .iter()
        .flat_map(|forge| [forge.url.clone(), forge.service_url().clone(), forge.api_base()])
        .chain([file.model.url.clone()])
        .chain(file.telemetry.traces.as_ref().map(|traces| traces.endpoint.clone()))
        .chain(file.service.database.as_deref().and_then(|database| Url::parse(database).ok()));
    let mut targets = Vec::new();
    for url in urls {
        let port = url.port_or_known_default().or_else(|| url.scheme().starts_with("postgres").then_some(POSTGRES_PORT));
        let (Some(host), Some(port)) = (url.host_str(), port) else { continue };
        match tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await {
            Ok(addresses) => targets.extend(addresses.map(|address| address.to_string())),
            Err(error) => tracing::warn!(host, %error, "the name can't be looked up, so sandboxes are not tested against it"),
        }
    }
    targets.sort();
    targets.dedup();
    targets.into_iter().map(|address| Target::new("tcp", address)).collect()
}

/// The configured sandboxes, which must not reach `targets`.
///
/// # Errors
/// Every complaint at once.
pub async fn sandboxes(file: &File, data: &Path, targets: Vec<Target>) -> Result<Arc<dyn Sandboxes>, Vec<String>> {
    Ok(match file.sandbox.kind {
        SandboxKind::Local => Arc::new(sandboxes_here(file, data, targets)?),
        SandboxKind::Kubernetes => {
            let settings = kubernetes::Settings::new(&file.sandbox, targets)?;
            Arc::new(kubernetes::Kubernetes::new(settings).await?)
        }
    })
}

/// The sandboxes of this machine, which must not reach `targets`; what a killed service left of earlier ones is removed.
///
/// # Errors
/// Every complaint at once.
pub fn sandboxes_here(file: &File, data: &Path, targets: Vec<Target>) -> Result<local::Local, Vec<String>> {
    let sandbox = &file.sandbox;
    let tools = sandbox.tools.clone().unwrap_or_else(beside_this_program);
    let defaults = local::Settings::new(tools, data);
    let settings = local::Settings {
        bwrap: sandbox.bwrap.clone().or_else(|| which("bwrap")).unwrap_or_else(|| defaults.bwrap.clone()),
        binds: sandbox.binds.clone(),
        path: sandbox.path.clone(),
        env: sandbox.env.clone().into_iter().collect(),
        workspace_bytes: sandbox.workspace_bytes,
        tmp_bytes: sandbox.tmp_bytes,
        memory_bytes: sandbox.memory_bytes,
        max_processes: sandbox.max_processes,
        max_open_files: sandbox.max_open_files,
        max_file_bytes: sandbox.max_file_bytes,
        cpus: sandbox.cpus,
        uid: sandbox.uid,
        probe_targets: targets,
        ..defaults
    };
    let local = local::Local::new(settings)?;
    let swept = local.sweep();
    if swept > 0 {
        tracing::info!(sandboxes = swept, "removed what a killed service left of its sandboxes");
    }
    Ok(local)
}

fn beside_this_program() -> PathBuf {
    let here = std::env::current_exe().ok().and_then(|program| program.parent().map(Path::to_path_buf)).unwrap_or_default();
    here.join("frognano-tools")
}
