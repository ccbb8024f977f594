//! What the configuration file comes to, in the words of the room that it is for.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::config::{self, Config, File, Forge as ForgeEntry};
use crate::guard::Limits;
use crate::leaf::{Preset, Tokenizer};
use crate::model::{self, Endpoint};
use crate::pipeline;
use crate::store::{Priority, QueueLimits};

/// The database's address, with its password in it.
pub(super) fn database(file: &File, password: Option<&SecretString>) -> Result<SecretString, String> {
    let Some(address) = &file.service.database else {
        return Ok(format!("sqlite://{}", file.service.data.join("frognano.sqlite").display()).into());
    };
    let Some(password) = password else { return Ok(address.clone().into()) };
    let mut url = Url::parse(address).map_err(|error| format!("[service] database: {error}"))?;
    url.set_password(Some(password.expose_secret()))
        .map_err(|()| "[service] database: names no server to give the password to".to_owned())?;
    Ok(String::from(url).into())
}

pub(super) fn queue_limits(file: &File) -> QueueLimits {
    let queue = &file.queue;
    QueueLimits {
        in_all: queue.in_all.into(),
        per_forge: queue.per_forge.into(),
        per_repository: queue.per_repository.into(),
        per_person: queue.per_person.into(),
        daily_per_repository: queue.daily_per_repository.into(),
        daily_per_person: queue.daily_per_person.into(),
        open_per_repository: queue.open_per_repository.into(),
    }
}

pub(super) fn priorities(file: &File) -> Vec<Priority> {
    let line = |line: &config::Priority| Priority { repositories: line.repositories.clone(), priority: line.level.into() };
    file.queue.priority.iter().map(line).collect()
}

pub(super) fn rules(forge: &ForgeEntry) -> pipeline::ForgeRules {
    pipeline::ForgeRules {
        allowed_users: forge.allowed_users.clone(),
        allowed_teams: forge.allowed_teams.clone(),
        reviewers: forge.reviewers.clone(),
        human_review_teams: forge.human_review_teams.clone(),
        draft_fallback: forge.draft_fallback,
    }
}

pub(super) fn preset(file: &File) -> Result<Preset, Vec<String>> {
    let run = &file.run;
    let tokenizer = file.model.tokenizer.as_deref().map(Tokenizer::load).transpose();
    Ok(Preset {
        max_steps: run.max_steps,
        max_time: Duration::from_secs(run.max_seconds),
        max_tokens_per_turn: run.max_tokens_per_turn,
        max_context_tokens: run.max_context,
        retry_cut_turns: run.retry_cut_turns,
        stuck_after: run.stuck_after,
        tokenizer: tokenizer.map_err(|why| vec![format!("[model] tokenizer: {why}")])?,
    })
}

pub(super) fn verify_rules(file: &File) -> pipeline::VerifyRules {
    pipeline::VerifyRules {
        open_with: file.verify.open_with.clone(),
        hunks: file.verify.hunks,
        time: Duration::from_secs(file.verify.proof_seconds),
    }
}

/// What a patch may do by a configuration.
#[must_use]
pub fn limits(file: &File) -> Limits {
    let mut limits = Limits::default();
    limits.protected.extend(file.guard.protected.iter().cloned());
    limits.max_files = file.guard.max_files.unwrap_or(limits.max_files);
    limits.max_lines = file.guard.max_lines.unwrap_or(limits.max_lines);
    limits
}

pub(super) fn model_endpoint(config: &Config) -> Endpoint {
    let model = &config.file.model;
    Endpoint::Http { base_url: model.url.to_string(), api_key: config.model_key.clone(), ca_bundle: model.ca_file.clone() }
}

/// What the model is asked with, as configured.
pub(crate) fn model_settings(file: &File) -> model::Settings {
    model::Settings {
        name: file.model.name.clone(),
        temperature: file.run.temperature,
        retries: file.model.retries,
        parse_tool_calls: file.model.parse_tool_calls,
        request_timeout: Duration::from_secs(file.model.request_seconds),
        ..model::Settings::default()
    }
}
