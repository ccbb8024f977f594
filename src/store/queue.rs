//! The queue: who is next, how many may run, and the switch that holds it.
//!
//! What must hold: a job is claimed by one worker; a flood of one repository holds up no other (each repository's jobs stand one behind the
//! other, and beside those of the others); limits hold over all workers together; a job that must wait is never lost.

use serde_json::json;
use sqlx::Row as _;

use super::lease::claimed;
use super::{Alone, Claimed, Doer, Store, StoreError, plain};
use crate::audit::{Digest, Kind};
use crate::domain::{Cancel, Clock, Ids, RepoRef};

/// How many runs there may be; 0: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLimits {
    /// At once, over all workers.
    pub in_all: i64,
    /// At once on one forge.
    pub per_forge: i64,
    /// At once in one repository.
    pub per_repository: i64,
    /// At once for one person.
    pub per_person: i64,
    /// Begun within one day (UTC) in one repository.
    pub daily_per_repository: i64,
    /// Begun within one day (UTC) for one person.
    pub daily_per_person: i64,
    /// Our open pull requests in one repository; further rounds of one do not count.
    pub open_per_repository: i64,
}

impl QueueLimits {
    fn is_any(&self) -> bool {
        *self != Self::default()
    }
}

/// Which jobs may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Every job that waits.
    Any,
    /// Only jobs whose label nobody has looked at yet.
    New,
    /// The same, for their first answer alone: also while somebody holds the queue, and beside every limit.
    NewForAnAnswer,
}

/// How early the jobs of some repositories come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priority {
    /// A path, or the beginning of paths with `/*` at its end: `group/*`.
    pub repositories: String,
    /// Higher is earlier; 0 for all others.
    pub priority: i64,
}

impl Priority {
    pub(super) fn is_for(&self, path: &str) -> bool {
        let (path, named) = (path.to_lowercase(), self.repositories.to_lowercase());
        named.strip_suffix('*').filter(|start| start.ends_with('/')).map_or(path == named, |start| path.starts_with(start))
    }
}

/// Who held the queue, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paused {
    /// Who.
    pub by: String,
    /// Why, in their words.
    pub why: String,
    /// When, in milliseconds since the Unix epoch.
    pub on_ms: i64,
}

/// What there is to claim.
struct Due {
    /// The time by which leases run out.
    now: i64,
    lease_is_over: bool,
    waits: bool,
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

const LEASE_IS_OVER: &str = "j.state = 'running' and j.lease_until_ms < $4";
const WAITS: &str = "j.state = 'queued' and j.not_before_ms <= $4";
const NEW: &str = "j.episode is null";
const NOT_HELD: &str = "not exists (select 1 from switches where name = 'pause')";
const WITHIN_THE_LIMITS: &str = "\
    ($6 = 0 or (select count(*) from jobs r where r.state = 'running') < $6) \
    and ($7 = 0 or (select count(*) from jobs r where r.state = 'running' and r.forge = j.forge) < $7) \
    and ($8 = 0 or (select count(*) from jobs r where r.state = 'running' and r.forge = j.forge and r.repo_id = j.repo_id) < $8) \
    and ($9 = 0 or j.requested_by is null \
      or (select count(*) from jobs r where r.state = 'running' and r.forge = j.forge and r.requested_by = j.requested_by) < $9) \
    and ($10 = 0 or j.started_ms is not null or (select count(*) from jobs d \
      where d.forge = j.forge and d.repo_id = j.repo_id and d.started_ms >= $12) < $10) \
    and ($11 = 0 or j.started_ms is not null or j.requested_by is null or (select count(*) from jobs d \
      where d.forge = j.forge and d.requested_by = j.requested_by and d.started_ms >= $12) < $11) \
    and ($13 = 0 or j.started_ms is not null or (j.origin is not null and j.origin not like '%\"round\":null%') \
      or (select count(*) from fates f where f.forge = j.forge and f.repo_id = j.repo_id and f.became = 'open') < $13)";

impl Store {
    /// How early a repository's jobs come: by the first line that names it.
    pub(super) fn priority_of(&self, repo: &RepoRef) -> i64 {
        self.priorities.iter().find(|line| line.is_for(&repo.path)).map_or(0, |line| line.priority)
    }

    /// Takes the next job: first one whose worker let its lease run out, then the one whose turn it is. While somebody holds the queue, none is
    /// given but for its first answer ([`Which::NewForAnAnswer`]).
    ///
    /// # Errors
    /// When the database fails.
    pub async fn claim(
        &self,
        limits: &QueueLimits,
        which: Which,
        owner: &str,
        lease_ms: i64,
        clock: &dyn Clock,
        ids: &dyn Ids,
    ) -> Result<Option<Claimed>, StoreError> {
        let Due { now, lease_is_over, waits } = self.due(clock).await?;
        let for_an_answer = which == Which::NewForAnAnswer;
        let limits = if for_an_answer { &QueueLimits::default() } else { limits };
        let may_begin = match which {
            Which::Any => NOT_HELD.to_owned(),
            Which::New => format!("{NEW} and {NOT_HELD}"),
            Which::NewForAnAnswer => NEW.to_owned(),
        };
        let kinds = [(lease_is_over, LEASE_IS_OVER, "j.queued_ms, j.id"), (waits, WAITS, "j.priority desc, j.turn, j.queued_ms, j.id")];
        for (_, due, order) in kinds.into_iter().filter(|(there_is_one, ..)| *there_is_one) {
            let mut transaction = if limits.is_any() { self.alone(Alone::Claims).await? } else { self.beside(Alone::Claims).await? };
            let row = sqlx::query(sqlx::AssertSqlSafe(format!(
                "update jobs set state = 'running', lease_owner = $1, lease_until_ms = $2, fence = fence + 1, leases = leases + 1, \
                 run = coalesce(run, $3), started_ms = case when $5 = 1 then coalesce(started_ms, $4) else started_ms end \
                 where id = (select j.id from jobs j where {due} and {may_begin} and {limited} \
                 order by {order} limit 1{one_each}) and {still_due} \
                 returning queued_ms, started_ms, id, fence, run, leases, stage, episode, forge, repo_id, repo_path, issue, issue_url, title, body, checkpoint, origin",
                limited = if due == WAITS { WITHIN_THE_LIMITS } else { "$6 + $7 + $8 + $9 + $10 + $11 + $12 + $13 >= 0" },
                one_each = self.one_each(),
                still_due = due.replace("j.", ""),
            )))
            .bind(owner)
            .bind(now + lease_ms)
            .bind(ids.next())
            .bind(now)
            .bind(i64::from(!for_an_answer))
            .bind(limits.in_all)
            .bind(limits.per_forge)
            .bind(limits.per_repository)
            .bind(limits.per_person)
            .bind(limits.daily_per_repository)
            .bind(limits.daily_per_person)
            .bind(now - now.rem_euclid(DAY_MS))
            .bind(limits.open_per_repository)
            .fetch_optional(&mut *transaction)
            .await?;
            let Some(row) = row else {
                transaction.commit().await?;
                continue;
            };
            let mut claimed = claimed(&row)?;
            let started: Option<i64> = row.try_get("started_ms")?;
            claimed.waited_ms = started.filter(|started| *started == now).map(|started| started.saturating_sub(claimed.queued_ms).max(0));
            let facts = json!({"worker": Digest::of(owner.as_bytes()), "leases": claimed.leases, "was_at": claimed.stage});
            self.note(&mut transaction, &claimed.lease.note(Kind::JobClaimed, facts)).await?;
            transaction.commit().await?;
            return Ok(Some(claimed));
        }
        Ok(None)
    }

    /// Whether there is anything to claim, by one look that holds up nobody: workers without work ask no more than this of a shared database.
    async fn due(&self, clock: &dyn Clock) -> Result<Due, StoreError> {
        let text = format!(
            "with clock as (select {} as now) select now, \
             case when exists (select 1 from jobs j where j.state = 'running' and j.lease_until_ms < clock.now) then 1 else 0 end as lease_is_over, \
             case when exists (select 1 from jobs j where j.state = 'queued' and j.not_before_ms <= clock.now) then 1 else 0 end as waits \
             from clock",
            self.lease_clock(clock)
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(text)).fetch_one(&self.pool).await?;
        let is = |column: &str| row.try_get::<i64, _>(column).map(|there_is_one| there_is_one == 1);
        Ok(Due { now: row.try_get("now")?, lease_is_over: is("lease_is_over")?, waits: is("waits")? })
    }

    /// Holds the queue: nothing more is begun by any worker, and new labels get their answer all the same. The first reason stays.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn pause(&self, by: &Doer, why: &str, clock: &dyn Clock) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        hold(&mut transaction, &by.name, why, clock).await?;
        self.note(&mut transaction, &by.note(Kind::Operator, json!({"did": "pause", "why": Digest::of(why.as_bytes())}))).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Lets the queue go on; false when nobody held it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn resume(&self, by: &Doer) -> Result<bool, StoreError> {
        let mut transaction = self.pool.begin().await?;
        let was_held = sqlx::query("delete from switches where name = 'pause'").execute(&mut *transaction).await?.rows_affected() == 1;
        self.note(&mut transaction, &by.note(Kind::Operator, json!({"did": "resume", "was_held": was_held}))).await?;
        transaction.commit().await?;
        Ok(was_held)
    }

    /// Who holds the queue, if anybody does.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn paused(&self) -> Result<Option<Paused>, StoreError> {
        let row = sqlx::query("select by_whom, why, on_ms from switches where name = 'pause'").fetch_optional(&self.pool).await?;
        row.map(|row| Ok(Paused { by: row.try_get("by_whom")?, why: row.try_get("why")?, on_ms: row.try_get("on_ms")? })).transpose()
    }

    /// Holds the queue and asks for the end of every run that goes on, on whatever worker; how many were asked. No claim comes between the two:
    /// what is given before is asked to end, and after it nothing is given.
    ///
    /// # Errors
    /// When the database fails; then nothing was done.
    pub async fn kill(&self, by: &Doer, why: &str, clock: &dyn Clock) -> Result<u64, StoreError> {
        let because = if why.is_empty() { String::new() } else { format!(": {why}") };
        let cancel = Cancel { why: format!("{} stopped all runs{because}", by.name), quiet: false, at_ms: clock.now_ms() };
        let text = serde_json::to_string(&cancel).map_err(|error| StoreError::Failed(error.to_string()))?;
        let mut transaction = self.alone(Alone::Claims).await?;
        hold(&mut transaction, &by.name, why, clock).await?;
        let asked = sqlx::query("update jobs set cancel_asked = $1 where state = 'running' and cancel_asked is null")
            .bind(text)
            .execute(&mut *transaction)
            .await?;
        let facts = json!({"did": "kill", "why": Digest::of(why.as_bytes()), "asked": asked.rows_affected()});
        self.note(&mut transaction, &by.note(Kind::Operator, facts)).await?;
        transaction.commit().await?;
        Ok(asked.rows_affected())
    }
}

async fn hold(transaction: &mut sqlx::Transaction<'_, sqlx::Any>, by: &str, why: &str, clock: &dyn Clock) -> Result<(), StoreError> {
    sqlx::query("insert into switches (name, by_whom, why, on_ms) values ('pause', $1, $2, $3) on conflict (name) do nothing")
        .bind(plain(by))
        .bind(plain(why))
        .bind(clock.now_ms())
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Priority;

    #[test]
    fn a_priority_is_for_a_repository_or_for_all_below_a_group() {
        let is_for = |named: &str, path: &str| Priority { repositories: named.to_owned(), priority: 1 }.is_for(path);
        assert!(is_for("Group/*", "group/a") && is_for("group/*", "group/sub/a") && is_for("group/a", "Group/A"));
        assert!(!is_for("group/*", "grouped/a") && !is_for("group/a", "group/ab") && !is_for("group*", "group/a"));
    }
}
