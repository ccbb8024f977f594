//! Texts that were kept long enough are erased, and people who are to be forgotten: the chain stays whole, for it holds hashes and pseudonyms alone.
//!
//! What must hold: what is erased is named by an event of the same transaction; of a person no table keeps the login, but where it is the name of
//! a namespace (`login/repository`).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::json;
use sqlx::Row as _;

use super::{repository_name, unwritable};
use crate::audit::{Kind, Note, Who};
use crate::domain::RepoRef;
use crate::store::{Priority, Store, StoreError, run_files};

/// So many records are looked through at once for a login.
const PAGE: i64 = 50;

/// How long the texts of runs are kept.
#[derive(Debug, Clone, Default)]
pub struct Keeping {
    /// Of most repositories, in milliseconds; none: for ever.
    pub of_all: Option<i64>,
    /// Of some, by path or `group/*`; the first that fits counts.
    pub of_some: Vec<(String, Option<i64>)>,
}

impl Keeping {
    fn of(&self, path: &str) -> Option<i64> {
        let is_for = |line: &&(String, Option<i64>)| Priority { repositories: line.0.clone(), priority: 0 }.is_for(path);
        self.of_some.iter().find(is_for).map_or(self.of_all, |(_, kept)| *kept)
    }

    fn shortest(&self) -> Option<i64> {
        self.of_some.iter().map(|(_, kept)| *kept).chain([self.of_all]).flatten().min()
    }
}

/// A job that has ended and whose texts are still there.
#[derive(Debug, Clone)]
pub struct EndedJob {
    /// Its id.
    pub id: String,
    /// Its run, where it began.
    pub run: Option<String>,
    /// When it ended, in milliseconds since the Unix epoch.
    pub done_ms: i64,
    repo: RepoRef,
    issue: i64,
}

/// What became of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// What stands in their place from now on.
    pub pseudonym: String,
    /// Runs whose records named them; those were erased.
    pub runs: Vec<String>,
    /// Texts of the database in which the login was replaced.
    pub replaced: u64,
}

impl Store {
    /// The next jobs whose texts are older than they are kept, and how far it was looked; none when it was looked at all. `after` is where the last
    /// look ended.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn jobs_to_erase(
        &self,
        keeping: &Keeping,
        now_ms: i64,
        after: Option<&(i64, String)>,
        most: i64,
    ) -> Result<(Vec<EndedJob>, Option<(i64, String)>), StoreError> {
        let Some(shortest) = keeping.shortest() else { return Ok((Vec::new(), None)) };
        let (after_ms, after_id) = after.map_or((i64::MIN, ""), |(at, id)| (*at, id));
        let rows = sqlx::query(
            "select id, run, forge, repo_id, repo_path, issue, done_ms from jobs where state = 'done' and erased_ms is null and done_ms < $1 \
             and (done_ms > $2 or (done_ms = $2 and id > $3)) order by done_ms, id limit $4",
        )
        .bind(now_ms - shortest)
        .bind(after_ms)
        .bind(after_id)
        .bind(most)
        .fetch_all(&self.pool)
        .await?;
        let jobs = rows.iter().map(ended_job).collect::<Result<Vec<_>, _>>()?;
        let next = jobs.last().map(|job| (job.done_ms, job.id.clone()));
        let is_old = |job: &EndedJob| keeping.of(&job.repo.path).is_some_and(|kept| job.done_ms < now_ms - kept);
        Ok((jobs.into_iter().filter(is_old).collect(), next))
    }

    /// Erases the texts of a job that has ended: the issue's words, the report, and every record of its run, which an event names by their hashes.
    ///
    /// # Errors
    /// When the database fails; nothing was erased then.
    pub async fn erase(&self, job: &EndedJob) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let erased = sqlx::query(
            "update jobs set title = '', body = '', report = null, checkpoint = '{}', cancel_asked = null, erased_ms = $1, \
             detail = case when outcome = 'proposed' then detail else '' end where id = $2 and state = 'done' and erased_ms is null",
        )
        .bind(self.clock.now_ms())
        .bind(&job.id)
        .execute(&mut *transaction)
        .await?;
        if erased.rows_affected() == 0 {
            return Ok(());
        }
        sqlx::query("update deliveries set body = '', asked = null where job = $1").bind(&job.id).execute(&mut *transaction).await?;
        sqlx::query(
            "update asks set event = '{}', answer = null where state = 'done' and forge = $1 and repo_id = $2 and issue = $3 and asked_ms <= $4",
        )
        .bind(&job.repo.forge)
        .bind(&job.repo.id)
        .bind(job.issue)
        .bind(job.done_ms)
        .execute(&mut *transaction)
        .await?;
        if let Some(run) = &job.run {
            let rows = sqlx::query("select digest, kind from audit_records where run = $1 order by digest")
                .bind(run)
                .fetch_all(&mut *transaction)
                .await?;
            let records = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<Vec<_>, StoreError>>()?;
            let about = Note::new(Kind::Erased, json!({})).about(repository_name(&job.repo), Some(job.issue)).of_job(&job.id);
            self.erase_records(&mut transaction, run, &records, about).await?;
            run_files::forget(&mut transaction, run).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Deletes records of a run and names them in an event.
    async fn erase_records(
        &self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
        run: &str,
        records: &[(String, String)],
        note: Note,
    ) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let named = records.iter().map(|(digest, kind)| json!({"record": digest, "kind": kind})).collect::<Vec<_>>();
        self.note(transaction, &Note { facts: json!({"erased": named}), ..note }.of_run(run)).await?;
        for (digest, _) in records {
            sqlx::query("delete from audit_records where run = $1 and digest = $2")
                .bind(run)
                .bind(digest)
                .execute(&mut **transaction)
                .await?;
        }
        Ok(())
    }

    /// Whether the texts of a run were erased.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn is_erased(&self, run: &str) -> Result<bool, StoreError> {
        let row = sqlx::query("select id from jobs where run = $1 and erased_ms is not null").bind(run).fetch_optional(&self.pool).await?;
        Ok(row.is_some())
    }

    /// Forgets a person: nobody knows any more who stands behind their pseudonym, which takes the place of the login in every table that names a
    /// forge; records that name them are erased, and the bodies of deliveries, and their sessions end. None while a job of theirs has not ended.
    ///
    /// # Errors
    /// When the database fails; nothing was forgotten then.
    pub async fn forget(&self, forge: &str, login: &str, by: &str) -> Result<Option<Forgotten>, StoreError> {
        let named = Login::new(login)?;
        let mut transaction = self.pool.begin().await?;
        let pseudonym = self.pseudonym_for_good(&mut transaction, forge, login).await?;
        let busy = sqlx::query(
            "select id from jobs where state <> 'done' and forge = $1 and (lower(requested_by) = lower($2) or lower(origin) like $3 escape '!') \
             union all select d.id from deliveries d left join jobs j on j.id = d.job where d.forge = $1 and lower(d.actor) = lower($2) \
             and (j.state <> 'done' or (d.job is null and d.asked is not null))",
        )
        .bind(forge)
        .bind(login)
        .bind(named.like())
        .fetch_optional(&mut *transaction)
        .await?;
        if busy.is_some() {
            return Ok(None);
        }
        sqlx::query("delete from people where forge = $1 and lower(login) = lower($2)")
            .bind(forge)
            .bind(login)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("delete from sessions where forge = $1 and lower(login) = lower($2)")
            .bind(forge)
            .bind(login)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("update deliveries set body = '' where forge = $1 and lower(body) like $2 escape '!'")
            .bind(forge)
            .bind(named.like())
            .execute(&mut *transaction)
            .await?;
        let operator = Who::Operator(by.to_owned());
        let mut runs = Vec::new();
        for (run, records) in self.records_that_name(&mut transaction, forge, &named).await? {
            self.erase_records(&mut transaction, &run, &records, Note::new(Kind::Erased, json!({})).by(operator.clone())).await?;
            runs.push(run);
        }
        let mut replaced = 0;
        for (table, column) in self.texts_of_forges(&mut transaction).await? {
            replaced += rename(&mut transaction, (&table, &column), forge, &named, &pseudonym).await?;
        }
        self.note(&mut transaction, &Note::new(Kind::Forgotten, json!({"person": pseudonym})).by(operator)).await?;
        transaction.commit().await?;
        self.pseudonyms.forget(|(of, who)| of == forge && who.eq_ignore_ascii_case(login));
        Ok(Some(Forgotten { pseudonym, runs, replaced }))
    }

    /// The pseudonym of a person however their login is written; a new one for who has none.
    async fn pseudonym_for_good(
        &self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
        forge: &str,
        login: &str,
    ) -> Result<String, StoreError> {
        // Written before anything is read, so that SQLite's one writer waits for its turn here.
        sqlx::query("update people set salt = salt where forge = $1 and lower(login) = lower($2)")
            .bind(forge)
            .bind(login)
            .execute(&mut **transaction)
            .await?;
        let known = sqlx::query("select pseudonym from people where forge = $1 and lower(login) = lower($2) order by pseudonym limit 1")
            .bind(forge)
            .bind(login)
            .fetch_optional(&mut **transaction)
            .await?;
        match known {
            Some(row) => Ok(row.try_get("pseudonym")?),
            None => self.pseudonym(transaction, forge, login).await,
        }
    }

    /// The records of a forge's runs that have the login in them, by run: digest and kind.
    async fn records_that_name(
        &self,
        transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
        forge: &str,
        named: &Login,
    ) -> Result<BTreeMap<String, Vec<(String, String)>>, StoreError> {
        let (mut found, mut after) = (BTreeMap::<String, Vec<_>>::new(), (String::new(), String::new()));
        loop {
            let rows = sqlx::query(
                "select r.run, r.digest, r.kind, r.body from audit_records r where (r.run > $1 or (r.run = $1 and r.digest > $2)) \
                 and exists (select 1 from jobs j where j.run = r.run and j.forge = $3) order by r.run, r.digest limit $4",
            )
            .bind(&after.0)
            .bind(&after.1)
            .bind(forge)
            .bind(PAGE)
            .fetch_all(&mut **transaction)
            .await?;
            for row in &rows {
                let (run, digest): (String, String) = (row.try_get("run")?, row.try_get("digest")?);
                let body = STANDARD.decode(row.try_get::<String, _>("body")?).unwrap_or_default();
                if named.replaced(&String::from_utf8_lossy(&body), "").is_some() {
                    found.entry(run.clone()).or_default().push((digest.clone(), row.try_get("kind")?));
                }
                after = (run, digest);
            }
            if rows.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Every column of text in a table that says of which forge its rows are; those of the audit log are never changed.
    async fn texts_of_forges(&self, transaction: &mut sqlx::Transaction<'_, sqlx::Any>) -> Result<Vec<(String, String)>, StoreError> {
        let columns = if self.is_shared {
            "select cast(table_name as text) as t, cast(column_name as text) as c from information_schema.columns \
             where table_schema = current_schema() and data_type = 'text' order by 1, 2"
        } else {
            "select m.name as t, p.name as c from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' and lower(p.type) = 'text' \
             order by 1, 2"
        };
        let rows = sqlx::query(columns).fetch_all(&mut **transaction).await?;
        let all =
            rows.iter().map(|row| Ok((row.try_get("t")?, row.try_get("c")?))).collect::<Result<Vec<(String, String)>, StoreError>>()?;
        let is_of_forges = |table: &str| all.iter().any(|(other, column)| other == table && column == "forge");
        let is_text = |(table, column): &&(String, String)| is_of_forges(table) && table != "people" && !PLACES.contains(&column.as_str());
        Ok(all.iter().filter(is_text).cloned().collect())
    }
}

/// Columns that say of what a row is, not what somebody wrote.
const PLACES: [&str; 9] = ["forge", "repository", "id", "repo_id", "repo_path", "path", "run", "job", "delivery"];

/// Replaces the login in a column of a table; in how many texts.
async fn rename(
    transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
    (table, column): (&str, &str),
    forge: &str,
    named: &Login,
    pseudonym: &str,
) -> Result<u64, StoreError> {
    let look = format!("select distinct \"{column}\" as text from \"{table}\" where forge = $1 and lower(\"{column}\") like $2 escape '!'");
    let rows = sqlx::query(sqlx::AssertSqlSafe(look)).bind(forge).bind(named.like()).fetch_all(&mut **transaction).await?;
    let mut replaced = 0;
    for row in rows {
        let text: String = row.try_get("text")?;
        let Some(new) = named.replaced(&text, pseudonym) else { continue };
        let change = format!("update \"{table}\" set \"{column}\" = $1 where forge = $2 and \"{column}\" = $3");
        let done = sqlx::query(sqlx::AssertSqlSafe(change)).bind(new).bind(forge).bind(&text).execute(&mut **transaction).await?;
        replaced += done.rows_affected();
    }
    Ok(replaced)
}

fn ended_job(row: &sqlx::any::AnyRow) -> Result<EndedJob, StoreError> {
    Ok(EndedJob {
        id: row.try_get("id")?,
        run: row.try_get("run")?,
        done_ms: row.try_get("done_ms")?,
        repo: RepoRef { forge: row.try_get("forge")?, id: row.try_get("repo_id")?, path: row.try_get("repo_path")? },
        issue: row.try_get("issue")?,
    })
}

/// A login, to be found as a word of its own.
struct Login {
    login: String,
    anywhere: Regex,
}

impl Login {
    fn new(login: &str) -> Result<Self, StoreError> {
        let anywhere = Regex::new(&format!("(?i){}", regex::escape(login))).map_err(unwritable)?;
        Ok(Self { login: login.to_lowercase(), anywhere })
    }

    /// For SQL, with `!` before what else would stand for anything.
    fn like(&self) -> String {
        format!("%{}%", self.login.replace('!', "!!").replace('%', "!%").replace('_', "!_"))
    }

    /// The text with another name in its place; none where it is not in it.
    fn replaced(&self, text: &str, by: &str) -> Option<String> {
        let found = self.anywhere.find_iter(text).filter(|found| is_a_word(&text[..found.start()], &text[found.end()..]));
        let (mut new, mut done) = (String::new(), 0);
        for found in found {
            new.push_str(&text[done..found.start()]);
            new.push_str(by);
            done = found.end();
        }
        (done > 0).then(|| new + &text[done..])
    }
}

/// Whether what stands between these two is a login by itself: no part of a longer one, and no namespace.
fn is_a_word(before: &str, after: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
    let escaped = ["\\n", "\\t", "\\r"].iter().any(|escape| before.ends_with(escape));
    let mut back = before.chars().rev();
    let begins = match back.next() {
        Some('.') => !back.next().is_some_and(is_part),
        Some(letter) => escaped || !is_part(letter),
        None => true,
    };
    let mut on = after.chars();
    let ends = match on.next() {
        Some('.') => !on.next().is_some_and(is_part),
        Some(letter) => letter != '/' && !is_part(letter),
        None => true,
    };
    begins && ends
}

#[cfg(test)]
mod tests {
    use super::{Keeping, Login};

    #[test]
    fn a_login_is_found_as_a_word_and_never_in_a_longer_name_or_as_a_namespace() {
        let ada = Login::new("ada").unwrap();
        for (text, new) in [
            ("ada", "p"),
            ("Ada and @ada, ADA.", "p and @p, p."),
            (r#"{"by":"ada","said":"thanks\nada"}"#, r#"{"by":"p","said":"thanks\np"}"#),
            ("https://git.example.com/ada", "https://git.example.com/p"),
        ] {
            assert_eq!(ada.replaced(text, "p").as_deref(), Some(new));
        }
        for other in
            ["adamant canada ada-2 x_ada ada.lovelace byron.ada", "https://git.example.com/ada/project/issues/1", "ada/project", ""]
        {
            assert_eq!(ada.replaced(other, "p"), None, "{other}");
        }
        assert_eq!(Login::new("a_b%").unwrap().like(), "%a!_b!%%");
    }

    #[test]
    fn the_first_line_that_names_a_repository_says_how_long_it_is_kept() {
        let keeping = Keeping { of_all: Some(9), of_some: vec![("pay/slow".to_owned(), None), ("pay/*".to_owned(), Some(3))] };
        assert_eq!(["pay/slow", "pay/fast", "other/one"].map(|path| keeping.of(path)), [None, Some(3), Some(9)]);
        assert_eq!((keeping.shortest(), Keeping::default().shortest()), (Some(3), None));
    }
}
