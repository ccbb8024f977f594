//! One run with everything that is known of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sqlx::Row as _;

use super::sql::Sql;
use super::{COLUMNS, RunRow, run_row};
use crate::audit::{Digest, Event};
use crate::domain::{Cancel, IssueText, Origin, RepoRef};
use crate::store::audit::link;
use crate::store::{Checkpoint, Store, StoreError};

/// More rows of one run are not shown.
const MOST_ROWS: i64 = 2000;

/// A run with what its page shows.
#[derive(Debug, Clone)]
pub struct RunDetail {
    /// As in the list.
    pub row: RunRow,
    /// The issue's page.
    pub issue_url: String,
    /// The issue's words when it was asked.
    pub text: IssueText,
    /// Where it comes from, when it is not a label.
    pub origin: Option<Origin>,
    /// What is finished.
    pub checkpoint: Checkpoint,
    /// The report as JSON, once it has ended.
    pub report: Option<String>,
    /// Somebody asked for its end.
    pub cancel: Option<Cancel>,
    /// How often it was claimed.
    pub leases: i64,
}

impl RunDetail {
    /// The repository as it was named.
    #[must_use]
    pub fn repo(&self) -> RepoRef {
        RepoRef { forge: self.row.forge.clone(), id: self.row.repo_id.clone(), path: self.row.repo_path.clone() }
    }
}

/// A row of the chain with its event.
#[derive(Debug, Clone)]
pub struct ChainRow {
    /// Its number.
    pub number: i64,
    /// The run that it belongs to.
    pub run: Option<String>,
    /// Its number within the run.
    pub nth: Option<i64>,
    /// The event.
    pub event: Event,
    /// The person behind the event's pseudonym, `forge:login`; none where there is none, or they were forgotten.
    pub person: Option<String>,
    /// Its hash and its event's are what they must be. That the rows before it hold too is another question.
    pub holds: bool,
}

impl Store {
    /// A run by its name, or the job of one that was not begun by its id; none where there is none among these repositories.
    ///
    /// # Errors
    /// When the database fails, or the row can't be read.
    pub async fn run_detail(&self, name: &str, within: Option<&[String]>) -> Result<Option<RunDetail>, StoreError> {
        for column in ["run", "id"] {
            let mut sql = Sql::new(&format!(
                "select {COLUMNS}, issue_url, title as whole_title, body, origin, checkpoint, report, cancel_asked, leases from jobs where {column} = "
            ));
            sql.bind(name).and_within(within).push(" limit 1");
            if let Some(row) = sql.query().fetch_optional(&self.pool).await? {
                return detail(&row).map(Some);
            }
        }
        Ok(None)
    }

    /// The other jobs of the same issue, the newest first, at most 20.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn runs_of_issue(&self, of: &RunRow) -> Result<Vec<RunRow>, StoreError> {
        let mut sql = Sql::new(&format!("select {COLUMNS} from jobs where forge = "));
        sql.bind(of.forge.as_str()).push(" and repo_id = ").bind(of.repo_id.as_str()).push(" and issue = ").bind(of.issue);
        sql.push(" and id <> ").bind(of.id.as_str()).push(" order by queued_ms desc, id desc limit 20");
        sql.query().fetch_all(&self.pool).await?.iter().map(run_row).collect()
    }

    /// What the audit kept of a run, each kind once, the newest: `report`, `patch`, `trajectory-1`, …
    ///
    /// # Errors
    /// When the database fails, or a record can't be read.
    pub async fn records_of_run(&self, run: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let rows = sqlx::query("select kind, body from audit_records where run = $1 order by kind, kept_ms desc, digest limit 50")
            .bind(run)
            .fetch_all(&self.pool)
            .await?;
        let mut records = Vec::<(String, Vec<u8>)>::new();
        for row in rows {
            let kind: String = row.try_get("kind")?;
            if records.last().is_some_and(|(last, _)| *last == kind) {
                continue;
            }
            let bytes = STANDARD
                .decode(row.try_get::<String, _>("body")?)
                .map_err(|error| StoreError::Unreadable { row: format!("audit_records {run} {kind}"), why: error.to_string() })?;
            records.push((kind, bytes));
        }
        Ok(records)
    }

    /// The journal of a run's attempt (`""`, `attempt-2/`, …) as far as workers on several machines keep it in the database.
    ///
    /// # Errors
    /// When the database fails, or a part can't be read.
    pub async fn kept_journal(&self, run: &str, place: &str) -> Result<Vec<u8>, StoreError> {
        let name = format!("{place}kept/journal.jsonl");
        let rows = sqlx::query("select body from run_files where run = $1 and name = $2 order by part")
            .bind(run)
            .bind(&name)
            .fetch_all(&self.pool)
            .await?;
        let mut whole = Vec::new();
        for row in rows {
            let part = STANDARD.decode(row.try_get::<String, _>("body")?);
            whole.extend(part.map_err(|error| StoreError::Unreadable { row: format!("run_files {run} {name}"), why: error.to_string() })?);
        }
        Ok(whole)
    }

    /// The rows of a run in the chain, in order, each checked by itself; at most 2,000.
    ///
    /// # Errors
    /// When the database fails, or an event can't be read.
    pub async fn chain_of_run(&self, run: &str) -> Result<Vec<ChainRow>, StoreError> {
        let rows = sqlx::query(
            "select c.number, c.run, c.nth, c.event, c.previous, c.hash, e.event as text from audit_chain c \
             join audit_events e on e.arrival = c.arrival where c.run = $1 order by c.nth limit $2",
        )
        .bind(run)
        .bind(MOST_ROWS)
        .fetch_all(&self.pool)
        .await?;
        self.chain_rows(&rows).await
    }

    pub(super) async fn chain_rows(&self, rows: &[sqlx::any::AnyRow]) -> Result<Vec<ChainRow>, StoreError> {
        let mut people = std::collections::HashMap::<String, Option<String>>::new();
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let text: String = row.try_get("text")?;
            let (link, hash) = link(row)?;
            let event = serde_json::from_str::<Event>(&text)
                .map_err(|error| StoreError::Unreadable { row: format!("the event of row {}", link.number), why: error.to_string() })?;
            let person = match &event.who {
                crate::audit::Who::Person(pseudonym) => match people.get(pseudonym) {
                    Some(known) => known.clone(),
                    None => {
                        let found = self.person_behind(pseudonym).await?;
                        people.insert(pseudonym.clone(), found.clone());
                        found
                    }
                },
                _ => None,
            };
            let (number, run, nth) = (link.number, link.run.clone(), link.nth);
            let holds = Digest::of(text.as_bytes()) == link.event && link.seal().is_ok_and(|sealed| sealed.hash == hash);
            all.push(ChainRow { number, run, nth, event, person, holds });
        }
        Ok(all)
    }

    async fn person_behind(&self, pseudonym: &str) -> Result<Option<String>, StoreError> {
        let row = sqlx::query("select forge, login from people where pseudonym = $1").bind(pseudonym).fetch_optional(&self.pool).await?;
        row.map(|row| Ok(format!("{}:{}", row.try_get::<String, _>(0)?, row.try_get::<String, _>(1)?))).transpose()
    }
}

fn detail(row: &sqlx::any::AnyRow) -> Result<RunDetail, StoreError> {
    let listed = run_row(row)?;
    let unreadable = |column: &str, error: serde_json::Error| StoreError::Unreadable {
        row: format!("jobs.{}.{column}", listed.id),
        why: error.to_string(),
    };
    let checkpoint: String = row.try_get("checkpoint")?;
    let origin: Option<String> = row.try_get("origin")?;
    let cancel: Option<String> = row.try_get("cancel_asked")?;
    Ok(RunDetail {
        issue_url: row.try_get("issue_url")?,
        text: IssueText { title: row.try_get("whole_title")?, body: row.try_get("body")? },
        checkpoint: serde_json::from_str(&checkpoint).map_err(|error| unreadable("checkpoint", error))?,
        origin: origin.map(|origin| serde_json::from_str(&origin)).transpose().map_err(|error| unreadable("origin", error))?,
        cancel: cancel.and_then(|cancel| serde_json::from_str(&cancel).ok()),
        report: row.try_get("report")?,
        leases: row.try_get("leases")?,
        row: listed,
    })
}
