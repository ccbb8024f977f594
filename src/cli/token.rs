//! `frognano-bot token`: the keys by which programs use the API.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use time::OffsetDateTime;
use time::macros::format_description;

use super::{fault, print, say, table, usage};
use crate::app::{self, TimeIds};
use crate::config::Config;
use crate::domain::SystemClock;
use crate::store::{ApiToken, Doer, Scope, Store, StoreError, repository_name};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Keys for programs that use the API.
#[derive(Debug, Args)]
pub(super) struct Token {
    /// The configuration file.
    #[arg(long, default_value = "config/frognano.toml", global = true)]
    config: PathBuf,
    /// For machines.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Make a key and show it, this once.
    New(New),
    /// All keys, without themselves.
    List,
    /// End a key for good.
    Revoke {
        /// Its id, as the list has it.
        id: String,
    },
}

#[derive(Debug, Args)]
struct New {
    /// What it is for.
    #[arg(long)]
    name: String,
    /// What it may do.
    #[arg(long, value_enum)]
    scope: Kind,
    /// The only repositories that it reaches, `FORGE:owner/name`; without, all.
    #[arg(long = "repo", value_name = "REPOSITORY")]
    repositories: Vec<String>,
    /// After so many days it is a key no more.
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..=3650))]
    days: Option<i64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Look.
    Read,
    /// Look, also at the audit chain.
    Audit,
    /// Everything.
    Operate,
}

impl Token {
    pub(super) async fn run(self) -> ExitCode {
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(complaints) => return usage(&complaints),
        };
        let store = match app::open_store(&config).await {
            Ok(store) => store,
            Err(why) => return fault(&why),
        };
        let status = match self.done(&store).await {
            Ok(status) => status,
            Err(error) => fault(&error.to_string()),
        };
        store.close().await;
        status
    }

    async fn done(&self, store: &Store) -> Result<ExitCode, StoreError> {
        let by = Doer::operator("the command line");
        match &self.act {
            Act::New(new) => {
                let repositories = match new.reaches(store).await? {
                    Ok(repositories) => repositories,
                    Err(complaint) => return Ok(usage(&[complaint])),
                };
                let scope = match new.scope {
                    Kind::Read => Scope::Read,
                    Kind::Audit => Scope::Audit,
                    Kind::Operate => Scope::Operate,
                };
                let holds = new.days.map(|days| days * DAY_MS);
                let (id, key) = store.make_token((&new.name, scope, repositories.as_deref()), holds, &by, &SystemClock, &TimeIds).await?;
                if self.json {
                    print(&json!({"id": id, "key": key}).to_string());
                } else {
                    say(&format!("the key {id}; it is not shown again:"));
                    print(&key);
                }
            }
            Act::List => {
                let tokens = store.tokens().await?;
                print(&if self.json { for_machines(&tokens) } else { for_people(&tokens) });
            }
            Act::Revoke { id } => {
                if !store.end_token(id, &by).await? {
                    return Ok(usage(&[format!("there is no key {id:?}")]));
                }
                say("it is ended");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl New {
    /// The repositories as the database names them: by their ids, which outlive a rename.
    async fn reaches(&self, store: &Store) -> Result<Result<Option<Vec<String>>, String>, StoreError> {
        if matches!(self.scope, Kind::Audit) && !self.repositories.is_empty() {
            return Ok(Err("--repo: the audit chain is one for all repositories; --scope read looks at some of them".to_owned()));
        }
        let mut named = Vec::new();
        for text in &self.repositories {
            let Some((forge, path)) = text.split_once(':') else { return Ok(Err(format!("--repo {text}: is not FORGE:owner/name"))) };
            let known = store.repositories(forge).await?;
            let mut of_this_path = known.iter().filter(|repo| repo.path.eq_ignore_ascii_case(path) || repo.id == path);
            match (of_this_path.next(), of_this_path.next()) {
                (Some(repo), None) => named.push(repository_name(repo)),
                (None, _) => return Ok(Err(format!("--repo {text}: nothing was ever heard of this repository"))),
                (Some(_), Some(_)) => {
                    let all = known.iter().filter(|repo| repo.path.eq_ignore_ascii_case(path)).map(|repo| repo.id.as_str());
                    let all = all.collect::<Vec<_>>().join(", ");
                    return Ok(Err(format!("--repo {text}: several had this path; name one by its id, {forge}:ID with one of {all}")));
                }
            }
        }
        Ok(Ok(Some(named).filter(|named| !named.is_empty())))
    }
}

fn for_machines(tokens: &[ApiToken]) -> String {
    let row = |token: &ApiToken| {
        json!({
            "id": token.id, "name": token.name, "scope": token.scope.name(), "repositories": token.repositories, "made_ms": token.made_ms,
            "ends_ms": token.ends_ms, "used_ms": token.used_ms,
        })
    };
    json!({"tokens": tokens.iter().map(row).collect::<Vec<_>>()}).to_string()
}

fn for_people(tokens: &[ApiToken]) -> String {
    if tokens.is_empty() {
        return "no keys".to_owned();
    }
    let day = |ms: i64| {
        let moment = OffsetDateTime::from_unix_timestamp(ms.div_euclid(1000)).ok();
        moment.and_then(|moment| moment.format(format_description!("[year]-[month]-[day]")).ok()).unwrap_or_default()
    };
    let row = |token: &ApiToken| {
        [
            token.id.clone(),
            token.scope.name().to_owned(),
            token.ends_ms.map_or_else(|| "never".to_owned(), day),
            token.used_ms.map_or_else(|| "never".to_owned(), day),
            token.repositories.as_ref().map_or_else(|| "all".to_owned(), |named| named.join(", ")),
            token.name.clone(),
        ]
    };
    table::table(["id", "may", "ends", "used", "repositories", "name"], &tokens.iter().map(row).collect::<Vec<_>>())
}
