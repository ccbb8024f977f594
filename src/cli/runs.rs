//! `frognano-bot runs`: the runs of a service that is running, over its API.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use secrecy::SecretString;
use serde_json::Value;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};
use url::Url;

use super::{print, say, table};
use crate::client::{Client, ClientError};
use crate::config::File;

/// How often it is looked for more while a log is followed.
const AGAIN: Duration = Duration::from_secs(1);

/// Look at runs, follow one, end one, make one anew, over the API of a running service.
///
/// The service is at --url, with the key of `frognano-bot token new` in --token-file; without --url it is the one of the configuration on this
/// machine. Exit status: 0 done, 1 the service does not answer as it should, 2 usage, 3 there is no such run, 4 the service says no.
#[derive(Debug, Args)]
pub(super) struct Runs {
    /// The address of the service, `https://bot.example.com`.
    #[arg(long, global = true)]
    url: Option<Url>,
    /// The file with the key.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file with the certificates of a private authority.
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The configuration file, of which only the address is read.
    #[arg(long, global = true, default_value = "config/frognano.toml")]
    config: PathBuf,
    /// What the service answers, as JSON; a log as one object a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// The newest runs first.
    List(List),
    /// One run.
    Show(Named),
    /// What happened in a run.
    Logs(Logs),
    /// End a run.
    Cancel(Named),
    /// Make a job like that of a run that has ended.
    Retry(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// The run, as the list names it.
    run: String,
}

#[derive(Debug, Args)]
struct Logs {
    /// The run, as the list names it.
    run: String,
    /// Go on until the run has ended.
    #[arg(long, short)]
    follow: bool,
}

#[derive(Debug, Args)]
struct List {
    /// Of this repository, `owner/name`.
    #[arg(long = "repo", value_name = "REPOSITORY")]
    repository: Option<String>,
    /// Asked for by this login.
    #[arg(long, value_name = "LOGIN")]
    person: Option<String>,
    /// With this outcome, or `queued` or `running`.
    #[arg(long)]
    outcome: Option<String>,
    /// Asked for at this time or later: a date, or a date and time with its offset (RFC 3339).
    #[arg(long, value_parser = moment)]
    since: Option<i64>,
    /// Asked for before this time.
    #[arg(long, value_parser = moment)]
    until: Option<i64>,
    /// How many at most.
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

impl Runs {
    pub(super) async fn run(self) -> ExitCode {
        match self.done().await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("frognano-bot: {}", table::plain(&error.to_string())));
                ExitCode::from(match error {
                    ClientError::Failed(_) => 1,
                    ClientError::Usage(_) => 2,
                    ClientError::NotFound(_) => 3,
                    ClientError::Refused(_) => 4,
                })
            }
        }
    }

    async fn done(&self) -> Result<(), ClientError> {
        let client = self.client()?;
        match &self.act {
            Act::List(list) => {
                let runs = list.asked(&client).await?;
                if self.json {
                    print(&serde_json::json!({"runs": runs}).to_string());
                } else {
                    print(&listed(&runs));
                }
            }
            Act::Show(Named { run }) => {
                let run = client.get(&["runs", run], &[]).await?;
                print(&if self.json { run.to_string() } else { shown(&run) });
            }
            Act::Logs(logs) => self.follow(&client, logs).await?,
            Act::Cancel(Named { run }) => self.told(&client.post(&["runs", run, "cancel"]).await?),
            Act::Retry(Named { run }) => self.told(&client.post(&["runs", run, "retry"]).await?),
        }
        Ok(())
    }

    fn told(&self, answer: &Value) {
        let job = answer["job"].as_str().map(|job| format!(": {job}")).unwrap_or_default();
        print(&if self.json { answer.to_string() } else { table::plain(&format!("{}{job}", text(&answer["message"]))) });
    }

    async fn follow(&self, client: &Client, logs: &Logs) -> Result<(), ClientError> {
        let mut after = 0;
        loop {
            let answer = client.get(&["runs", &logs.run, "log"], &[("after", after.to_string())]).await?;
            let lines = answer["lines"].as_array().map(Vec::as_slice).unwrap_or_default();
            for line in lines {
                print(&if self.json { line.to_string() } else { told_line(line) });
            }
            after = answer["next"].as_i64().unwrap_or(after);
            let (has_ended, is_whole) = (answer["ended"] == true, lines.len() < MOST_LINES);
            if is_whole && (has_ended || !logs.follow) {
                if has_ended && !self.json {
                    say(&table::plain(&format!("ended: {}", text(&answer["outcome"]))));
                }
                return Ok(());
            }
            if is_whole {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    fn client(&self) -> Result<Client, ClientError> {
        let read =
            |file: &PathBuf| std::fs::read(file).map_err(|error| ClientError::Usage(format!("{}: can't be read: {error}", file.display())));
        let key = match &self.token_file {
            Some(file) => {
                let key = String::from_utf8(read(file)?).unwrap_or_default();
                Some(SecretString::from(key.trim().to_owned()))
            }
            None => None,
        };
        let url = match &self.url {
            Some(url) => url.clone(),
            None => self.on_this_machine()?,
        };
        let authority = self.ca_file.as_ref().map(read).transpose()?;
        Client::new(url, key, authority.as_deref())
    }

    fn on_this_machine(&self) -> Result<Url, ClientError> {
        let usage = |why: String| ClientError::Usage(format!("{why}; or name the service by --url"));
        let file = File::load_without_secrets(&self.config).map_err(|complaints| usage(complaints.join("\n")))?;
        let listen = &file.service.listen;
        let address = listen.parse::<std::net::SocketAddr>().map_err(|error| usage(format!("[service] listen: {listen}: {error}")))?;
        let host = match address.ip() {
            std::net::IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
            std::net::IpAddr::V6(ip) if ip.is_unspecified() || ip.is_loopback() => "[::1]".to_owned(),
            ip if ip.is_loopback() => ip.to_string(),
            ip => return Err(usage(format!("[service] listen: {ip} is not this machine's own"))),
        };
        format!("http://{host}:{}", address.port()).parse().map_err(|error: url::ParseError| usage(error.to_string()))
    }
}

/// More lines are not in one answer.
const MOST_LINES: usize = 1000;

impl List {
    async fn asked(&self, client: &Client) -> Result<Vec<Value>, ClientError> {
        let mut query = Vec::new();
        for (name, value) in [("repository", &self.repository), ("person", &self.person), ("outcome", &self.outcome)] {
            query.extend(value.clone().map(|value| (name, value)));
        }
        for (name, value) in [("from_ms", self.since), ("until_ms", self.until)] {
            query.extend(value.map(|value| (name, value.to_string())));
        }
        let (mut runs, mut next) = (Vec::new(), None::<String>);
        while runs.len() < self.limit {
            let mut page = query.clone();
            page.push(("limit", (self.limit - runs.len()).min(200).to_string()));
            page.extend(next.take().map(|next| ("before", next)));
            let answer = client.get(&["runs"], &page).await?;
            let more = answer["runs"].as_array().cloned().unwrap_or_default();
            next = answer["next"].as_str().map(str::to_owned);
            let is_last = next.is_none() || more.is_empty();
            runs.extend(more);
            if is_last {
                break;
            }
        }
        Ok(runs)
    }
}

/// A date, or a date and time, as milliseconds since the Unix epoch.
fn moment(text: &str) -> Result<i64, String> {
    let day = || Date::parse(text, format_description!("[year]-[month]-[day]")).ok().map(|day| day.midnight().assume_utc());
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok().or_else(day);
    let moment = moment.ok_or("is neither 2026-01-31 (UTC) nor 2026-01-31T12:00:00Z")?;
    Ok(moment.unix_timestamp() * 1000)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn time(value: &Value) -> String {
    let moment = value.as_i64().and_then(|ms| OffsetDateTime::from_unix_timestamp(ms.div_euclid(1000)).ok());
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    moment.and_then(|moment| moment.format(format).ok()).unwrap_or_default()
}

fn came(run: &Value) -> String {
    match (run["outcome"].as_str(), run["state"].as_str()) {
        (Some(outcome), _) => outcome.to_owned(),
        (None, Some("running")) => format!("running: {}", text(&run["stage"])),
        (None, state) => state.unwrap_or_default().to_owned(),
    }
}

fn listed(runs: &[Value]) -> String {
    if runs.is_empty() {
        return "no runs".to_owned();
    }
    let row = |run: &Value| {
        let issue = format!("{}#{}", text(&run["repository"]), run["issue"]);
        [text(&run["run"]), time(&run["queued_ms"]), issue, came(run), text(&run["title"])]
    };
    table::table(["run", "asked (UTC)", "issue", "came to", "title"], &runs.iter().map(row).collect::<Vec<_>>())
}

fn shown(run: &Value) -> String {
    let mut lines = vec![
        ("run", text(&run["run"])),
        ("issue", format!("{}#{} {}", text(&run["repository"]), run["issue"], text(&run["title"]))),
        ("", text(&run["issue_url"])),
        ("asked by", text(&run["requested_by"])),
        ("asked (UTC)", time(&run["queued_ms"])),
        ("begun", time(&run["started_ms"])),
        ("ended", time(&run["ended_ms"])),
        ("came to", came(run)),
        ("why", text(&run["reason"])),
        ("", text(&run["detail"])),
        ("steps", text(&run["steps"])),
        ("to stop", text(&run["cancel_asked"])),
        ("trace", text(&run["trace"])),
        ("", text(&run["trace_url"])),
    ];
    for stage in run["stages"].as_array().into_iter().flatten() {
        lines.push(("stage", format!("{} {:.1} s", text(&stage["stage"]), stage["took_ms"].as_f64().unwrap_or(0.0) / 1000.0)));
    }
    let filled = lines.iter().filter(|(_, value)| !value.is_empty());
    filled.map(|(name, value)| format!("{name:<12} {}", table::plain(value))).collect::<Vec<_>>().join("\n")
}

fn told_line(line: &Value) -> String {
    table::fitted(&format!("{}  {:<14} {}", time(&line["at_ms"]), text(&line["kind"]), facts_of(line)))
}

/// What people want to know of an event: names and numbers. Hashes say nothing to them.
fn facts_of(line: &Value) -> String {
    let facts = &line["facts"];
    match line["kind"].as_str() {
        Some("stage") => text(&facts["stage"]),
        Some("turn") => {
            let tools = facts["calls"].as_array().into_iter().flatten().map(|call| text(&call["tool"])).filter(|tool| !tool.is_empty());
            let tools = tools.collect::<Vec<_>>().join(", ");
            let step = facts["step"].as_i64().unwrap_or(0) + 1;
            format!("step {step}: {}", if tools.is_empty() { "answers" } else { &tools })
        }
        _ => {
            let facts = facts.as_object().into_iter().flatten().filter(|(_, value)| is_plain(value));
            facts.map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" ")
        }
    }
}

fn is_plain(value: &Value) -> bool {
    let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    value.is_number() || value.is_boolean() || value.as_str().is_some_and(|text| !text.is_empty() && !is_digest(text))
}

#[cfg(test)]
mod tests {
    use super::{listed, moment, shown, told_line};
    use serde_json::json;

    #[test]
    fn a_moment_is_a_date_or_a_time_with_its_offset() {
        assert_eq!(moment("2026-01-31"), Ok(1_769_817_600_000));
        assert_eq!(moment("2026-01-31T01:00:00+01:00"), Ok(1_769_817_600_000));
        for other in ["", "yesterday", "2026-1-31", "2026-02-30", "2026-01-31T12:00:00", "1769817600000"] {
            assert!(moment(other).is_err(), "{other}");
        }
    }

    #[test]
    fn what_others_wrote_does_not_control_the_terminal() {
        let run = json!({
            "run": "r1", "repository": "a/b", "issue": 7, "title": "x\u{1b}[2J\u{202e}y\nz", "state": "running", "stage": "agent", "queued_ms": 0,
            "detail": "\u{1b}]0;t\u{7}", "stages": [{"stage": "s\u{9b}", "took_ms": 1500}],
        });
        let line = json!({"at_ms": 0, "kind": "\u{1b}[31m", "facts": {"why": "\u{1b}[31m", "said": "a".repeat(64)}});
        for told in [listed(std::slice::from_ref(&run)), shown(&run), told_line(&line)] {
            assert!(!told.contains(['\u{1b}', '\u{202e}', '\u{7}', '\u{9b}']), "{told:?}");
            assert!(!told.contains(&"a".repeat(64)), "{told:?}");
        }
        assert_eq!(listed(&[run]).lines().count(), 2);
        assert_eq!(listed(&[]), "no runs");
        let turn = json!({"at_ms": 0, "kind": "turn", "facts": {"attempt": 1, "step": 2, "calls": [{"tool": "Read"}, {"tool": "Bash"}]}});
        assert_eq!(told_line(&turn), "1970-01-01 00:00:00  turn           step 3: Read, Bash");
    }
}
