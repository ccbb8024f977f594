//! The examination of everything that a run would need, before the first label: nothing is changed on any forge.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use url::Url;

use super::{forge, model_endpoint, model_settings, reachable_for_us, sandboxes};
use crate::config::Config;
use crate::domain::{Check, Checks, Clock, RepoRef, SystemClock};
use crate::forge::{Examination, OwnAccounts};
use crate::leaf::tools;
use crate::model::qwen::{self, Kind, Tools};
use crate::model::{self, Client, Model as _, TurnRequest};
use crate::store::{ChainState, Store};
use crate::telemetry::traces;

/// More known repositories than this are not looked at.
const MOST_REPOSITORIES: i64 = 200;
const ANSWER_TOKENS: u64 = 2048;

/// Examines all that the configuration names; `named` repositories are looked at in place of those that the database knows.
pub async fn examine(config: &Config, named: &[RepoRef]) -> Vec<Check> {
    let mut made = Vec::new();
    let mut database = Checks::of("database");
    let known = the_database(config, &mut database).await;
    let repositories = if named.is_empty() { &known } else { named };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    for (entry, secrets) in config.file.forges.iter().zip(&config.forges) {
        let here = repositories.iter().filter(|repo| repo.forge == entry.name).cloned().collect::<Vec<_>>();
        match forge(entry, secrets, &config.file.service.label, &OwnAccounts::default(), &clock) {
            Ok((_, hands)) => made.extend(hands.examine(&Examination { repositories: &here }).await),
            Err(why) => {
                let mut checks = Checks::of(&entry.name);
                checks.fail("configuration", why);
                made.extend(checks.done());
            }
        }
    }
    made.extend(the_model(config).await);
    made.extend(the_sandbox(config).await);
    made.extend(the_collector(config).await);
    made.extend(database.done());
    made
}

async fn the_database(config: &Config, checks: &mut Checks) -> Vec<RepoRef> {
    let data = &config.file.service.data;
    if let Err(error) = std::fs::create_dir_all(data) {
        checks.fail("opens", format!("[service] data: {}: can't be made: {error}", data.display()));
        return Vec::new();
    }
    let store = match super::open_store(config).await {
        Ok(store) => store,
        Err(why) => {
            checks.fail("opens", why);
            return Vec::new();
        }
    };
    checks.ok("opens", "and has the tables of this version");
    if let Some(why) = config.file.service.database.as_deref().and_then(unproved_server) {
        checks.warn("encrypted", why);
    }
    match store.try_writing().await {
        Ok(()) => checks.ok("writable", "something could be written"),
        Err(error) => checks.fail("writable", format!("{error}; see the disk and the rights on {}", data.display())),
    }
    the_chain(config, &store, checks).await;
    let known = store.known_repositories(MOST_REPOSITORIES).await;
    store.close().await;
    known.unwrap_or_else(|error| {
        checks.warn("repositories", format!("those worked on can't be listed: {error}"));
        Vec::new()
    })
}

/// Where the audit chain is signed and anchored, and whether its last signature is of today.
async fn the_chain(config: &Config, store: &Store, checks: &mut Checks) {
    const MONTH_MS: i64 = 30 * 24 * 60 * 60 * 1000;
    let audit = &config.file.audit;
    let own = config.file.service.data.join(super::KEY_FILE);
    match (&config.audit_key, own.is_file()) {
        (Some(_), _) => checks.ok("audit_key", "configured"),
        (None, true) => checks.ok("audit_key", format!("{}: keep a copy of its public half elsewhere", own.display())),
        (None, false) => checks.ok("audit_key", format!("{}: made at the first start", own.display())),
    }
    match (&audit.anchor_file, &audit.anchor_repository) {
        (None, None) => checks.warn(
            "audit_anchor",
            "signed ends of the audit chain are in the database alone: whoever holds it and the key could make the chain anew; name \
             [audit] anchor_file or anchor_repository",
        ),
        (file, repository) => {
            let file = file.as_ref().map(|file| file.display().to_string());
            let repository = repository.as_ref().map(|at| format!("{} on {}", at.path, at.forge));
            checks.ok("audit_anchor", file.into_iter().chain(repository).collect::<Vec<_>>().join(", "));
        }
    }
    let now = SystemClock.now_ms();
    match store.chain_state().await {
        Err(error) => checks.fail("audit_signed", error.to_string()),
        Ok(ChainState { last: 0, .. }) => checks.ok("audit_signed", "nothing has happened yet"),
        Ok(ChainState { last, signed, .. }) => match signed {
            Some((number, at_ms, _)) if number == last || now - at_ms < 2000 * i64::try_from(audit.sign_seconds).unwrap_or(0) => {
                checks.ok("audit_signed", format!("up to row {number} of {last}"));
            }
            Some((number, ..)) => checks.warn("audit_signed", format!("only up to row {number} of {last}: is a worker running?")),
            None => checks.warn("audit_signed", format!("none of {last} rows: is a worker running?")),
        },
    }
    match store.signing_keys(now - MONTH_MS).await {
        Ok(keys) if keys.len() > 1 => checks.warn(
            "audit_keys",
            format!(
                "several keys signed within a month ({}): give every machine the same [audit] key, unless it was changed",
                keys.join(", ")
            ),
        ),
        Ok(_) => {}
        Err(error) => checks.fail("audit_keys", error.to_string()),
    }
}

/// Why it is not sure that the database is the one that is meant, and that nobody reads along; none where the address demands it, or where
/// nothing leaves this machine.
fn unproved_server(address: &str) -> Option<String> {
    let url = Url::parse(address).ok().filter(|url| url.scheme().starts_with("postgres"))?;
    let value = |names: &[&str]| url.query_pairs().filter(|(name, _)| names.contains(&&**name)).last().map(|(_, value)| value.into_owned());
    let host = value(&["host", "hostaddr"]).unwrap_or_else(|| url.host_str().unwrap_or_default().replace("%2F", "/"));
    let host = host.trim_matches(['[', ']']);
    let is_here =
        host.is_empty() || host == "localhost" || host.starts_with('/') || host.parse::<IpAddr>().is_ok_and(|host| host.is_loopback());
    let mode = value(&["sslmode", "ssl-mode"]);
    let told = match mode.as_deref() {
        _ if is_here => return None,
        Some("verify-full") => return None,
        Some(mode) => format!("asks for sslmode={mode} only"),
        None => "names no sslmode".to_owned(),
    };
    Some(format!(
        "[service] database: {told}, so whoever stands between could read or answer for {host}: use sslmode=verify-full and sslrootcert"
    ))
}

async fn the_model(config: &Config) -> Vec<Check> {
    let mut checks = Checks::of("model");
    let settings = model::Settings { retries: 0, request_timeout: Duration::from_secs(300), ..model_settings(&config.file) };
    match Client::new(model_endpoint(config), settings) {
        Ok(client) => one_call(&client, &mut checks).await,
        Err(error) => checks.fail("configuration", format!("[model]: {error}")),
    }
    checks.done()
}

/// One small request that a tool call should answer.
async fn one_call(client: &Client, checks: &mut Checks) {
    let ask = "Call the tool Bash once with the command `true`. Write nothing else.";
    let request = TurnRequest {
        messages: vec![json!({"role": "user", "content": ask})],
        tools: tools(),
        max_completion_tokens: ANSWER_TOKENS,
        seed: None,
    };
    let turn = match client.turn(&request).await {
        Ok(turn) => turn,
        Err(error) => return checks.fail("answers", format!("{error}; see [model] url, name and key")),
    };
    checks.ok("answers", format!("as {}", client.name()));
    match qwen::read(&turn, ANSWER_TOKENS, &Tools::of(&tools())).kind {
        Kind::Native => checks.ok("tool_calls", "the server gave the call parsed"),
        Kind::Recovered => checks.ok("tool_calls", "the call was read from the model's text"),
        Kind::Malformed => {
            checks.fail("tool_calls", "a call came that can't be read: see the server's --tool-call-parser (README, \"Connect a model\")")
        }
        Kind::Truncated => checks.warn("tool_calls", format!("the answer was cut after {ANSWER_TOKENS} tokens, before any call")),
        Kind::Final => {
            checks.warn("tool_calls", "it answered without the call that was asked for: try again, or see the server's tool settings")
        }
    }
}

async fn the_sandbox(config: &Config) -> Vec<Check> {
    let mut checks = Checks::of("sandbox");
    let file = &config.file;
    let made = match std::path::absolute(&file.service.data) {
        Ok(data) => sandboxes(file, &data, reachable_for_us(file).await).await,
        Err(error) => Err(vec![error.to_string()]),
    };
    let sandboxes = match made {
        Ok(sandboxes) => sandboxes,
        Err(complaints) => {
            checks.fail("starts", complaints.join("; "));
            return checks.done();
        }
    };
    let mut found = sandboxes.examine().await;
    match sandboxes.start("doctor").await {
        Ok(sandbox) => {
            let report = sandbox.probe_report();
            checks.ok("starts", format!("within {} ms", report.elapsed_ms));
            checks.ok("reaches_nothing", format!("{} attempts to reach something from inside, none succeeded", report.attempts.len()));
            sandbox.close().await;
        }
        Err(error) => checks.fail("starts", error.to_string()),
    }
    found.extend(checks.done());
    found
}

/// Whether the collector of traces takes them, where one is configured: no run needs it.
async fn the_collector(config: &Config) -> Vec<Check> {
    let mut checks = Checks::of("traces");
    let asked = match super::traces::settings(config) {
        Ok(None) => return Vec::new(),
        Ok(Some(settings)) => traces::ask(settings).await,
        Err(why) => Err(why),
    };
    match asked {
        Ok(()) => checks.ok("answers", "the collector took an empty message"),
        Err(why) => checks.warn("answers", format!("{why}; see [telemetry.traces]. Runs go on without traces")),
    }
    checks.done()
}

#[cfg(test)]
mod tests {
    use super::unproved_server;

    #[test]
    fn a_server_elsewhere_must_be_proved() {
        for silent in [
            "sqlite:///var/lib/frognano/frognano.sqlite",
            "postgres://frognano@localhost/frognano",
            "postgres://frognano@127.0.0.7:5433/frognano?sslmode=disable",
            "postgres://frognano@[::1]/frognano",
            "postgres:///frognano?host=/run/postgresql",
            "postgres://%2Frun%2Fpostgresql/frognano",
            "postgresql://frognano@db.example.com/frognano?sslmode=verify-full&sslrootcert=/ca.pem",
        ] {
            assert_eq!(unproved_server(silent), None, "{silent}");
        }
        for (told, words) in [
            ("postgres://frognano@db.example.com/frognano", "names no sslmode"),
            ("postgres://frognano@db.example.com/frognano?sslmode=require", "sslmode=require only"),
            ("postgres://frognano@10.0.0.7/frognano?sslmode=verify-ca", "answer for 10.0.0.7"),
            ("postgres://frognano@localhost/frognano?host=db.example.com", "answer for db.example.com"),
            ("postgres://frognano@localhost.example.com/frognano?sslmode=verify-full&sslmode=prefer", "sslmode=prefer only"),
        ] {
            assert!(unproved_server(told).is_some_and(|why| why.contains(words)), "{told}: {:?}", unproved_server(told));
        }
    }
}
