//! Looking through the audit chain, from its end back.

use sqlx::Row as _;

use super::ChainRow;
use crate::audit::{Kind, Who};
use crate::store::{Store, StoreError};

/// So many rows are read at once.
const PIECE: i64 = 2000;
/// So many rows are looked at for one page; a search that finds little says how far it came.
const MOST: i64 = 20_000;

/// Which rows are looked for; what is none is not asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChainFilter {
    /// Of this run.
    pub run: Option<String>,
    /// By the person with this login, on whatever forge, or by the operator of this name.
    pub person: Option<String>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// Written at this time or later, in milliseconds since the Unix epoch.
    pub from_ms: Option<i64>,
    /// Written before this time, in milliseconds since the Unix epoch.
    pub until_ms: Option<i64>,
}

/// One page of what was found.
#[derive(Debug, Clone, Default)]
pub struct ChainPage {
    /// The newest first.
    pub rows: Vec<ChainRow>,
    /// The search goes on before this row; none at the beginning of the chain.
    pub before: Option<i64>,
}

impl Store {
    /// The rows before this one (none: before the end) that are looked for, the newest first. At most 20,000 rows are looked at.
    ///
    /// # Errors
    /// When the database fails, or an event can't be read.
    pub async fn chain_page(&self, filter: &ChainFilter, before: Option<i64>, limit: usize) -> Result<ChainPage, StoreError> {
        let pseudonyms = match &filter.person {
            Some(login) => Some(self.pseudonyms_of(login).await?),
            None => None,
        };
        let (mut page, mut end, mut looked) = (ChainPage::default(), before.unwrap_or(i64::MAX), 0);
        while looked < MOST {
            let rows = sqlx::query(
                "select c.number, c.run, c.nth, c.event, c.previous, c.hash, e.event as text from audit_chain c \
                 join audit_events e on e.arrival = c.arrival where c.number < $1 and ($2 = 0 or c.run = $3) order by c.number desc limit $4",
            )
            .bind(end)
            .bind(i64::from(filter.run.is_some()))
            .bind(crate::store::plain(filter.run.as_deref().unwrap_or_default()))
            .bind(PIECE)
            .fetch_all(&self.pool)
            .await?;
            let found = self.chain_rows(&rows).await?;
            looked += PIECE;
            let is_last = i64::try_from(found.len()).unwrap_or(i64::MAX) < PIECE;
            for row in found {
                end = row.number;
                if filter.from_ms.is_some_and(|from| row.event.at_ms < from) {
                    page.before = None;
                    return Ok(page);
                }
                if !filter.is_for(&row, pseudonyms.as_deref()) {
                    continue;
                }
                if page.rows.len() == limit {
                    page.before = page.rows.last().map(|last| last.number);
                    return Ok(page);
                }
                page.rows.push(row);
            }
            if is_last {
                return Ok(page);
            }
        }
        page.before = Some(end);
        Ok(page)
    }

    async fn pseudonyms_of(&self, login: &str) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query("select pseudonym from people where lower(login) = lower($1) limit 100")
            .bind(crate::store::plain(login))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }
}

impl ChainFilter {
    fn is_for(&self, row: &ChainRow, pseudonyms: Option<&[String]>) -> bool {
        let event = &row.event;
        let is_by = |pseudonyms: &[String]| match &event.who {
            Who::Person(name) => pseudonyms.contains(name) || self.person.as_ref() == Some(name),
            Who::Operator(name) => self.person.as_ref() == Some(name),
            _ => false,
        };
        self.kind.is_none_or(|kind| event.kind == kind)
            && self.until_ms.is_none_or(|until| event.at_ms < until)
            && pseudonyms.is_none_or(is_by)
    }
}
