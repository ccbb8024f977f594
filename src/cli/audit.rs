//! `frognano-bot audit`

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::app;
use crate::audit::{Broken, Envelope, Export, Held, PublicKey, SigningKey, Statement};
use crate::config::Config;
use crate::store::{ChainError, Forgotten};

use super::{fault, print, say, usage};

/// Take a run out of the audit chain as one file, and check such a file, or the chain itself.
#[derive(Debug, Args)]
pub(super) struct Audit {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Write a run's events, what they speak of and the signed end of the chain into one file.
    Export(ExportOf),
    /// Check such a file without the service; or, with --database, the whole chain.
    ///
    /// Exit status: 0 when it holds, 1 with the first row that does not, 2 for a file or key that can't be read.
    Verify(Verify),
    /// Forget a person: their login is replaced by a pseudonym wherever the database has it, and texts that name them are erased.
    ///
    /// The chain and every export stay whole. Where the login is the name of a namespace (login/repository) it stays. Exit status: 0 done, 1 a
    /// fault, 2 a job of theirs has not ended.
    Forget(Forget),
    /// Show the public key that signatures are checked with; or make a new private one.
    Key(Key),
}

#[derive(Debug, Args)]
struct ExportOf {
    /// The configuration file.
    #[arg(long, default_value = "config/frognano.toml")]
    config: PathBuf,
    /// The run's id.
    #[arg(long)]
    run: String,
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
}

#[derive(Debug, Args)]
struct Verify {
    /// The file of an export, or a statement by itself (--key).
    #[arg(required_unless_present = "database", conflicts_with = "database")]
    file: Option<PathBuf>,
    /// Check the whole chain in the database of the configuration.
    #[arg(long)]
    database: bool,
    /// The configuration file, for --database.
    #[arg(long, default_value = "config/frognano.toml")]
    config: PathBuf,
    /// The public key that must have signed, as PEM: what `audit key` shows, from somebody you trust.
    #[arg(long)]
    key: Option<PathBuf>,
    /// Signed ends that were kept outside of the database, for --database: the file that `anchor_file` names.
    #[arg(long)]
    anchor: Option<PathBuf>,
    /// The same from a clone of the repository that `anchor_repository` names, with its branch frognano-audit.
    #[arg(long, value_name = "DIR")]
    anchor_repo: Option<PathBuf>,
    /// For machines.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Forget {
    /// The configuration file.
    #[arg(long, default_value = "config/frognano.toml")]
    config: PathBuf,
    /// The forge's name in the configuration.
    #[arg(long)]
    forge: String,
    /// The login there.
    #[arg(long)]
    login: String,
    /// Your name, for the record.
    #[arg(long)]
    by: String,
}

#[derive(Debug, Args)]
struct Key {
    /// The configuration file.
    #[arg(long, default_value = "config/frognano.toml")]
    config: PathBuf,
    /// Make a new private key and write it here, for `[audit] key`.
    #[arg(long)]
    new: Option<PathBuf>,
}

impl Audit {
    pub(super) async fn run(self) -> ExitCode {
        let done = match self.act {
            Act::Export(export) => export.run().await,
            Act::Verify(verify) => verify.run().await,
            Act::Forget(forget) => forget.run().await,
            Act::Key(key) => key.run(),
        };
        done.unwrap_or_else(|failed| failed)
    }
}

impl ExportOf {
    async fn run(&self) -> Result<ExitCode, ExitCode> {
        let config = load(&self.config)?;
        let key = app::signing_key(&config).map_err(|why| fault(&why))?;
        let store = app::open_store(&config).await.map_err(|why| fault(&why))?;
        let export = store.export(&self.run, &key).await;
        store.close().await;
        let export = export.map_err(|error| fault(&error.to_string()))?;
        let Some(export) = export else {
            return Err(usage(&[format!("--run {}: there is no run of this id in the audit chain", self.run)]));
        };
        let bytes = export.to_bytes().map_err(|error| fault(&error.to_string()))?;
        write(&self.out, &bytes).map_err(|error| fault(&format!("--out {}: {error}", self.out.display())))?;
        let (rows, events) = (export.rows.len(), export.events().count());
        say(&format!("{}: {events} events of the run in {rows} rows, signed with the key {}", self.out.display(), export.key.id()));
        Ok(ExitCode::SUCCESS)
    }
}

impl Verify {
    async fn run(&self) -> Result<ExitCode, ExitCode> {
        let key = self.key.as_deref().map(public_key).transpose()?;
        match &self.file {
            Some(file) => {
                let bytes = std::fs::read(file).map_err(|error| usage(&[format!("{}: {error}", file.display())]))?;
                if let Ok(envelope) = serde_json::from_slice::<Envelope>(&bytes) {
                    return self.statement(&envelope, key.as_ref());
                }
                Ok(match Export::verify(&bytes, key.as_ref()) {
                    Ok((_, held)) => self.holds(&held, key.is_some()),
                    Err(broken) => self.is_broken(&broken),
                })
            }
            None => self.database(key).await,
        }
    }

    fn holds(&self, held: &Held, key_is_given: bool) -> ExitCode {
        if self.json {
            print(&json!({"holds": true, "held": held}).to_string());
            return ExitCode::SUCCESS;
        }
        let ended = held.outcome.as_ref().map_or_else(|| "it has not ended".to_owned(), |outcome| format!("it ended as {outcome}"));
        print(&format!(
            "holds: run {}, {ended}; {} events in {} rows, up to row {}",
            held.run, held.events, held.rows, held.checkpoint.number
        ));
        print(&format!("signed with the key {}, at {} ms since 1970, in the log {}", held.key, held.checkpoint.at_ms, held.checkpoint.log));
        if let Some(commit) = &held.commit {
            print(&format!("its statement is about the commit {commit}"));
        }
        for erased in &held.erased {
            print(&format!("erased since, as the chain says: {erased}"));
        }
        for note in &held.notes {
            print(&format!("note: {note}"));
        }
        if !key_is_given {
            print("the key is the one in the file itself: give --key FILE to know whose it is");
        }
        ExitCode::SUCCESS
    }

    /// A statement by itself has no key beside it.
    fn statement(&self, envelope: &Envelope, key: Option<&PublicKey>) -> Result<ExitCode, ExitCode> {
        let Some(key) = key else {
            return Err(usage(&["--key: a statement by itself is checked with a key that you have from elsewhere: give it".to_owned()]));
        };
        let statement = match Statement::open(envelope, key) {
            Ok(statement) => statement,
            Err(why) => return Ok(self.is_broken(&Broken::at(0, format!("the statement does not hold: {why}")))),
        };
        if self.json {
            print(&json!({"holds": true, "statement": statement}).to_string());
            return Ok(ExitCode::SUCCESS);
        }
        let subject = statement.subject.first();
        print(&format!(
            "holds: a statement signed with the key {}, on the commit {} of {}",
            key.id(),
            statement.commit().unwrap_or_default(),
            subject.map_or("", |subject| subject.name.as_str())
        ));
        print(&serde_json::to_string_pretty(&statement.predicate).unwrap_or_default());
        Ok(ExitCode::SUCCESS)
    }

    fn is_broken(&self, broken: &Broken) -> ExitCode {
        if self.json {
            print(&json!({"holds": false, "row": broken.row, "why": broken.why}).to_string());
        } else {
            print(&format!("broken: {broken}"));
        }
        ExitCode::from(1)
    }

    async fn database(&self, key: Option<PublicKey>) -> Result<ExitCode, ExitCode> {
        let config = load(&self.config)?;
        let key = match key {
            Some(key) => key,
            None => app::signing_key(&config).map_err(|why| fault(&why))?.public(),
        };
        let mut outside = self.anchor.as_deref().map(anchored).transpose()?.unwrap_or_default();
        if let Some(clone) = &self.anchor_repo {
            outside.extend(app::anchored_in(clone).await.map_err(|why| usage(&[format!("--anchor-repo {why}")]))?);
        }
        let store = app::open_store(&config).await.map_err(|why| fault(&why))?;
        let bar = indicatif::ProgressBar::new(0).with_style(
            indicatif::ProgressStyle::with_template("{pos} of {len} rows hold, {eta} left")
                .unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()),
        );
        let checked = store
            .check_chain(Some(&key), &outside, |done, all| {
                bar.set_length(u64::try_from(all).unwrap_or(0));
                bar.set_position(u64::try_from(done).unwrap_or(0));
            })
            .await;
        let state = store.chain_state().await;
        store.close().await;
        bar.finish_and_clear();
        match (checked, state) {
            (Ok(checked), Ok(state)) => {
                if self.json {
                    print(&json!({"holds": true, "rows": checked.number, "hash": checked.hash, "waiting": state.waiting}).to_string());
                } else {
                    print(&format!(
                        "holds: {} rows, the last one {}; {} events wait for a row",
                        checked.number, checked.hash, state.waiting
                    ));
                }
                Ok(ExitCode::SUCCESS)
            }
            (Err(ChainError::Broken(broken)), _) => Ok(self.is_broken(&broken)),
            (Err(ChainError::Store(error)), _) | (_, Err(error)) => Err(fault(&error.to_string())),
        }
    }
}

impl Forget {
    async fn run(&self) -> Result<ExitCode, ExitCode> {
        let config = load(&self.config)?;
        if self.login.trim().is_empty() || !config.file.forges.iter().any(|forge| forge.name == self.forge) {
            return Err(usage(&["--forge: the name of a [[forge]]; --login: a login there".to_owned()]));
        }
        let store = app::open_store(&config).await.map_err(|why| fault(&why))?;
        let forgotten = store.forget(&self.forge, &self.login, &self.by).await;
        store.close().await;
        let Some(Forgotten { pseudonym, runs, replaced }) = forgotten.map_err(|error| fault(&error.to_string()))? else {
            return Err(usage(&["--login: a job of theirs has not ended; cancel it, or wait for its end".to_owned()]));
        };
        for run in &runs {
            let folder = config.file.service.data.join("runs").join(run);
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fault(&format!("{}: {error}", folder.display()))),
                _ => {}
            }
        }
        print(&format!("forgotten: {pseudonym} stands in {replaced} places; texts of {} runs were erased", runs.len()));
        say("where several machines work, remove the folders of those runs on the others: data/runs/RUN of:");
        runs.iter().for_each(|run| say(run));
        Ok(ExitCode::SUCCESS)
    }
}

impl Key {
    fn run(&self) -> Result<ExitCode, ExitCode> {
        let key = match &self.new {
            Some(file) => {
                let text = SigningKey::generate().map_err(|why| fault(&why))?;
                app::write_key(file, &text).map_err(|why| usage(&[format!("--new {why}")]))?;
                say(&format!("{}: the private key; its public half:", file.display()));
                SigningKey::read(&text).map_err(|why| fault(&why))?
            }
            None => app::signing_key(&load(&self.config)?).map_err(|why| fault(&why))?,
        };
        print(key.public().pem().trim_end());
        say(&format!("its name in signatures is {}", key.public().id()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes what only its owner may read; not through a link that somebody put in its place.
fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits());
    options.open(file)?.write_all(bytes)
}

fn load(file: &Path) -> Result<Config, ExitCode> {
    Config::load(file).map_err(|complaints| usage(&complaints))
}

pub(super) fn public_key(file: &Path) -> Result<PublicKey, ExitCode> {
    let text = std::fs::read_to_string(file).map_err(|error| usage(&[format!("--key {}: {error}", file.display())]))?;
    PublicKey::parse(&text).ok_or_else(|| usage(&[format!("--key {}: is no Ed25519 public key, as PEM", file.display())]))
}

fn anchored(file: &Path) -> Result<Vec<Envelope>, ExitCode> {
    let text = std::fs::read_to_string(file).map_err(|error| usage(&[format!("--anchor {}: {error}", file.display())]))?;
    let envelope = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| usage(&[format!("--anchor {}: line {}: {error}", file.display(), at + 1)]))
    };
    text.lines().enumerate().map(envelope).collect()
}
