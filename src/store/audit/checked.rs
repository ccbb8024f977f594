//! The check of the whole chain, page by page.

use sqlx::Row as _;

use super::{ChainError, envelope, link};
use crate::audit::{Broken, Checked, Checkpoint, Digest, Envelope, PublicKey, Row};
use crate::store::Store;

/// So many rows are read at once.
const PAGE: i64 = 5000;

impl Store {
    /// Checks the whole chain: every row, every event, every signed end (`outside` too: those that were kept elsewhere). `progress` is told how many
    /// rows of how many hold.
    ///
    /// # Errors
    /// The first row that does not hold; or the database fails.
    pub async fn check_chain(
        &self,
        key: Option<&PublicKey>,
        outside: &[Envelope],
        mut progress: impl FnMut(i64, i64) + Send,
    ) -> Result<Checked, ChainError> {
        let state = self.chain_state().await?;
        let mut signed = self.signed_ends(key, outside).await?;
        let mut checked = Checked::START;
        while checked.number < state.last {
            let rows = sqlx::query(
                "select c.number, c.arrival, c.run, c.nth, c.event, c.previous, c.hash, e.event as text, e.run as of_run from audit_chain c \
                 left join audit_events e on e.arrival = c.arrival where c.number > $1 order by c.number limit $2",
            )
            .bind(checked.number)
            .bind(PAGE)
            .fetch_all(&self.pool)
            .await?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                let (link, hash) = link(row)?;
                let at = link.number;
                let Some(text) = row.try_get::<Option<String>, _>("text")? else {
                    return Err(Broken::at(at, "its event is missing").into());
                };
                if Digest::of(text.as_bytes()) != link.event || row.try_get::<Option<String>, _>("of_run")? != link.run {
                    return Err(Broken::at(at, "its event was changed: its hash is another").into());
                }
                checked.next(&Row { link, hash })?;
                while signed.last().is_some_and(|(number, _)| *number == checked.number) {
                    if signed.pop().is_some_and(|(_, hash)| hash != checked.hash) {
                        return Err(
                            Broken::at(at, "a checkpoint was signed over another row: this one, or one before it, was made anew").into()
                        );
                    }
                }
            }
            progress(checked.number, state.last);
        }
        if let Some((number, _)) = signed.last() {
            return Err(Broken::at(checked.number + 1, format!("is missing: a checkpoint was signed at row {number}")).into());
        }
        self.nothing_is_left_out(state.last).await?;
        Ok(checked)
    }

    /// The rows at which the end was signed, the first of them last.
    async fn signed_ends(&self, key: Option<&PublicKey>, outside: &[Envelope]) -> Result<Vec<(i64, Digest)>, ChainError> {
        let Some(key) = key else { return Ok(Vec::new()) };
        let rows = sqlx::query("select envelope from audit_checkpoints where keyid = $1").bind(key.id()).fetch_all(&self.pool).await?;
        let inside = rows.iter().map(envelope).collect::<Result<Vec<_>, _>>()?;
        let mut signed = Vec::new();
        for envelope in inside.iter().chain(outside) {
            let checkpoint = Checkpoint::open(envelope, key).map_err(|why| Broken::at(0, format!("a checkpoint does not hold: {why}")))?;
            signed.push((checkpoint.number, checkpoint.hash));
        }
        signed.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        Ok(signed)
    }

    /// Every event that was there is in a row, or waits for one.
    async fn nothing_is_left_out(&self, last: i64) -> Result<(), ChainError> {
        let row = sqlx::query(
            "select min(e.arrival) as arrival from audit_events e where not exists (select 1 from audit_chain c where c.arrival = e.arrival) \
             and not exists (select 1 from audit_unsealed u where u.arrival = e.arrival)",
        )
        .fetch_one(&self.pool)
        .await?;
        match row.try_get::<Option<i64>, _>("arrival")? {
            Some(arrival) => {
                Err(Broken::at(last + 1, format!("the event that arrived as number {arrival} is in no row and does not wait for one"))
                    .into())
            }
            None => Ok(()),
        }
    }
}
