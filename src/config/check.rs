//! What is impossible in a file that could be read: every complaint, each with its place and what to do.

use url::Url;

use super::{File, ForgeKind, Medium, SandboxKind};

impl File {
    /// Everything that is wrong, one sentence each.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut demand = |holds: bool, complaint: String| {
            if !holds {
                complaints.push(complaint);
            }
        };
        demand(!self.verify.open_with.is_empty(), "[verify] open_with: empty, so no pull request could ever be opened".to_owned());
        let service = &self.service;
        demand(
            service.listen.parse::<std::net::SocketAddr>().is_ok(),
            format!("[service] listen: {:?} is no address with a port, like \"127.0.0.1:8087\"", service.listen),
        );
        demand(service.concurrency > 0, "[service] concurrency: at least 1".to_owned());
        demand(service.lease_seconds >= 10, "[service] lease_seconds: at least 10".to_owned());
        demand(service.max_leases > 0, "[service] max_leases: at least 1".to_owned());
        demand(service.comments_per_hour > 0, "[service] comments_per_hour: at least 1, or nobody would be answered".to_owned());
        demand(service.max_body_bytes >= 64 * 1024, "[service] max_body_bytes: at least 65536, forges send more".to_owned());
        demand(
            service.public_url.as_ref().is_none_or(|url| is_web(url) && url.query().is_none() && url.fragment().is_none()),
            "[service] public_url: an http(s) address that a path can be put behind".to_owned(),
        );
        demand(
            service.public_url.as_ref().is_none_or(has_plain_path),
            "[service] public_url: its path may have letters, digits, `-`, `_`, `.`, `~` and `%` between single slashes, and may not begin like one of \
             the service's own (/runs, /api, …)"
                .to_owned(),
        );
        demand(!service.label.trim().is_empty(), "[service] label: empty".to_owned());
        demand(!service.worker.trim().is_empty(), "[service] worker: empty".to_owned());
        if let Some(database) = &service.database {
            let shared = database.strip_prefix("postgres://").or_else(|| database.strip_prefix("postgresql://"));
            demand(
                shared.is_some() || database.starts_with("sqlite:"),
                "[service] database: sqlite:// and a file, or postgres://user@host/name".to_owned(),
            );
            let told = shared.and_then(|rest| rest.split(['/', '?']).next()?.rsplit_once('@')).is_some_and(|(user, _)| user.contains(':'));
            demand(
                !told && !database.contains("password="),
                "[service] database: a password stands in the address; name its place by database_password instead".to_owned(),
            );
        }
        demand(
            service.database_password.is_none() || service.database.as_deref().is_some_and(|database| database.starts_with("postgres")),
            "[service] database_password: only a postgres:// database has one".to_owned(),
        );
        for line in &self.queue.priority {
            let name = &line.repositories;
            let plain = !name.is_empty() && !name.strip_suffix("/*").unwrap_or(name).contains('*');
            demand(plain, format!("[[queue.priority]] repositories: {name:?} is neither a repository's path nor group/*"));
        }
        for (at, forge) in self.forges.iter().enumerate() {
            let place = format!("[[forge]] {:?}", forge.name);
            let plain =
                !forge.name.is_empty() && forge.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            demand(plain, format!("{place} name: letters, digits, - and _ only, since it stands in the webhook's address"));
            demand(self.forges.iter().take(at).all(|other| other.name != forge.name), format!("{place} name: given twice"));
            demand(!forge.webhook_secrets.is_empty(), format!("{place} webhook_secrets: none; without a secret anybody could start a run"));
            let app = (forge.app_id.is_some(), forge.app_key.is_some());
            match (forge.token.is_some(), app) {
                (true, (false, false)) => {}
                (false, (true, true)) => {
                    demand(forge.kind == ForgeKind::Github, format!("{place} app_id: only GitHub has Apps; use token"));
                }
                (false, (false, false)) => demand(false, format!("{place} token: missing; or app_id and app_key for a GitHub App")),
                (true, _) => demand(false, format!("{place} token: given beside app_id or app_key; use one of both ways")),
                (false, _) => demand(false, format!("{place} app_id and app_key: an App needs both")),
            }
            for (key, teams) in [("allowed_teams", &forge.allowed_teams), ("human_review_teams", &forge.human_review_teams)] {
                for team in teams {
                    let parts = team.rsplit_once('/').filter(|(group, team)| !group.is_empty() && !team.is_empty());
                    demand(parts.is_some(), format!("{place} {key}: {team:?} is not organization/team"));
                }
            }
            for name in forge.allowed_users.iter().chain(&forge.reviewers) {
                demand(!name.trim().is_empty(), format!("{place} allowed_users and reviewers: an empty name"));
            }
            for (key, url) in
                [("url", Some(&forge.url)), ("internal_url", forge.internal_url.as_ref()), ("api_url", forge.api_url.as_ref())]
            {
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
        let audit = &self.audit;
        demand(audit.sign_seconds > 0, "[audit] sign_seconds: at least 1".to_owned());
        if let Some(at) = &audit.anchor_repository {
            let is_there = self.forges.iter().any(|forge| forge.name == at.forge);
            demand(is_there, format!("[audit.anchor_repository] forge: {:?} is no [[forge]] of this file", at.forge));
            demand(at.path.trim_matches('/').contains('/'), format!("[audit.anchor_repository] path: {:?} is not owner/name", at.path));
        }
        for line in &audit.repositories {
            let name = &line.repositories;
            let plain = !name.is_empty() && !name.strip_suffix("/*").unwrap_or(name).contains('*');
            demand(plain, format!("[[audit.repositories]] repositories: {name:?} is neither a repository's path nor group/*"));
        }
        let model = &self.model;
        demand(is_web(&model.url), format!("[model] url: {} is no http(s) address", model.url));
        demand(!model.name.trim().is_empty(), "[model] name: empty".to_owned());
        let is_sha256 = |text: &String| text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        demand(
            model.weights_sha256.as_ref().is_none_or(is_sha256),
            "[model] weights_sha256: a SHA-256 is 64 lower-case hexadecimal digits".to_owned(),
        );
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
        let in_a_cluster = sandbox.kind == SandboxKind::Kubernetes;
        let on_disk = in_a_cluster && sandbox.kubernetes.medium == Medium::Disk;
        // In a cluster the home folder is a room of its own, as large as /tmp.
        let small_rooms = sandbox.tmp_bytes.saturating_mul(if in_a_cluster { 2 } else { 1 });
        demand(
            on_disk || sandbox.workspace_bytes.saturating_add(small_rooms) <= sandbox.memory_bytes,
            "[sandbox] memory_bytes: less than workspace_bytes and tmp_bytes together, which are held in memory (in a cluster tmp_bytes twice: for /tmp and for the home folder)".to_owned(),
        );
        demand(sandbox.max_processes >= 16, "[sandbox] max_processes: at least 16".to_owned());
        demand(
            !in_a_cluster || sandbox.binds.is_empty(),
            "[sandbox] binds: a pod sees nothing of this machine; put the toolchain into [sandbox.kubernetes] image".to_owned(),
        );
        let of_the_cluster = if in_a_cluster { sandbox.kubernetes.complaints() } else { Vec::new() };
        let run = &self.run;
        demand(run.max_steps > 0, "[run] max_steps: at least 1".to_owned());
        demand(run.attempts > 0, "[run] attempts: at least 1".to_owned());
        demand(run.max_seconds > 0, "[run] max_seconds: at least 1".to_owned());
        demand(run.test_seconds > 0, "[run] test_seconds: at least 1".to_owned());
        demand(
            run.max_tokens_per_turn > 0 && run.max_tokens_per_turn < run.max_context,
            "[run] max_tokens_per_turn: between 1 and max_context".to_owned(),
        );
        demand(run.stuck_after.is_none_or(|times| times >= 2), "[run] stuck_after: at least 2, or left out".to_owned());
        demand((0.0..=2.0).contains(&run.temperature), "[run] temperature: between 0 and 2".to_owned());
        demand(self.repositories.max_bytes > 0, "[repositories] max_bytes: more than 0".to_owned());
        complaints.extend(of_the_cluster);
        complaints.extend(self.complaints_of_web());
        complaints.extend(self.complaints_of_telemetry());
        complaints
    }
}

pub(super) fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host().is_some()
}

/// The first parts of the paths of our own addresses.
const OURS: [&str; 15] = [
    "api",
    "audit",
    "events",
    "health",
    "healthz",
    "metrics",
    "operator",
    "readyz",
    "repositories",
    "reviews",
    "runs",
    "sign-in",
    "sign-out",
    "static",
    "webhooks",
];

/// Its path can stand before all of ours, and is told from them.
fn has_plain_path(url: &Url) -> bool {
    let path = url.path().strip_suffix('/').unwrap_or(url.path());
    let mut parts = path.split('/').skip(1);
    let is_plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~%".contains(&byte));
    parts.clone().all(is_plain) && parts.next().is_none_or(|first| !OURS.contains(&first))
}

pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
