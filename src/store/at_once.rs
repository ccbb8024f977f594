//! A label that becomes a job, in one statement where the database can (PostgreSQL): most deliveries of a busy day are that.
//!
//! What must hold: it writes the same rows as the transaction of [`Store::take_in`], or none; whatever is not plain is left to that.

use super::deliveries::{self, NewDelivery, Written};
use super::new_jobs::{self, NewJob};
use super::{Intake, Store, StoreError, places};
use crate::domain::Explanation;

impl Store {
    /// Writes a delivery, its job and their events; whether it did. It does not where the delivery is known, the issue has an active job, or
    /// something else must be looked up.
    ///
    /// # Errors
    /// When the database fails.
    pub(super) async fn take_in_at_once(
        &self,
        delivery: &NewDelivery<'_>,
        explained: &Explanation,
        id: &str,
        job: &NewJob<'_>,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let is_plain = self.is_shared && delivery.starts() && self.noted.get(&job.trigger.repo).is_some();
        if !is_plain {
            return Ok(false);
        }
        let told = deliveries::told(delivery, explained, &Intake::Job(job.id.to_owned()));
        let (Some(made), Some(told)) = (self.text_at_once(&job.told())?, self.text_at_once(&told)?) else { return Ok(false) };
        let query = self.bind_job(sqlx::query(sqlx::AssertSqlSafe(statement())), job, now_ms)?;
        let query = deliveries::bind_delivery(query, delivery, explained, &Written { id, job: Some(job.id), now_ms });
        match query.bind(made).bind(told).execute(&self.pool).await {
            Ok(written) => Ok(written.rows_affected() > 0),
            // The same delivery was written meanwhile, which undid this.
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn statement() -> String {
    let (job, delivery) = (new_jobs::PLACES, deliveries::PLACES);
    format!(
        "with job as (insert into jobs ({}) select {} where not exists (select 1 from deliveries where forge = ${} and delivery = ${}) {} returning id), \
         delivery as (insert into deliveries ({}) select {} from job returning job) \
         insert into audit_events (event) select told.event from delivery, (values (1, ${}), (2, ${})) told (nth, event) order by told.nth",
        new_jobs::COLUMNS,
        new_jobs::VALUES,
        job + 2,
        job + 3,
        new_jobs::UNLESS_ACTIVE,
        deliveries::COLUMNS,
        places(job, delivery),
        job + delivery + 1,
        job + delivery + 2,
    )
}
