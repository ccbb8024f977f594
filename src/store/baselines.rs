//! What the tests said at base, kept so that an unchanged base costs nothing.
//!
//! What must hold: a row answers only for exactly the same repository, commit, sandbox and command; one that can't be read is as good as none.
//! They are its key, and PostgreSQL takes no key of some thousand bytes and no NUL: what is long or has one stands there as its digest.

use sha2::{Digest as _, Sha256};
use sqlx::Row as _;

use super::{Store, StoreError};
use crate::domain::{Clock, TestRun};

/// What a baseline is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineOf {
    /// The name of the repository's mirror.
    pub repository: String,
    /// The commit.
    pub base: String,
    /// What the sandbox is made of.
    pub image: String,
    /// The whole command, with all that decides how it is run.
    pub command: String,
}

/// The longest text that stands in the key as it is, in bytes.
const LONGEST: usize = 200;

impl BaselineOf {
    fn key(&self) -> [String; 4] {
        [&self.repository, &self.base, &self.image, &self.command].map(|text| part_of_key(text))
    }
}

fn part_of_key(text: &str) -> String {
    if text.len() <= LONGEST && !text.contains('\0') { text.to_owned() } else { hex::encode(Sha256::digest(text)) }
}

impl Store {
    /// The newest so many are kept of each repository.
    pub const BASELINES: i64 = 20;

    /// The runs that were kept; none where there are none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn baseline(&self, of: &BaselineOf) -> Result<Option<Vec<TestRun>>, StoreError> {
        let [repository, base, image, command] = of.key();
        let row = sqlx::query("select runs from baselines where repository = $1 and base = $2 and image = $3 and command = $4")
            .bind(repository)
            .bind(base)
            .bind(image)
            .bind(command)
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(serde_json::from_str(&row.try_get::<String, _>("runs")?).ok())
    }

    /// Keeps these runs, in place of earlier ones, and forgets the oldest of the repository.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn keep_baseline(&self, of: &BaselineOf, runs: &[TestRun], clock: &dyn Clock) -> Result<(), StoreError> {
        let [repository, base, image, command] = of.key();
        let text = serde_json::to_string(runs).map_err(|error| StoreError::Failed(error.to_string()))?;
        sqlx::query(
            "insert into baselines (repository, base, image, command, runs, measured_ms) values ($1, $2, $3, $4, $5, $6) \
             on conflict (repository, base, image, command) do update set runs = excluded.runs, measured_ms = excluded.measured_ms",
        )
        .bind(&repository)
        .bind(base)
        .bind(image)
        .bind(command)
        .bind(text)
        .bind(clock.now_ms())
        .execute(&self.pool)
        .await?;
        sqlx::query(
            "delete from baselines where repository = $1 and measured_ms < \
             (select min(measured_ms) from (select measured_ms from baselines where repository = $2 order by measured_ms desc limit $3) newest)",
        )
        .bind(&repository)
        .bind(&repository)
        .bind(Self::BASELINES)
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::{BaselineOf, Store};
    use crate::domain::{Clock, TestRun};

    struct Counted(AtomicI64);

    impl Clock for Counted {
        fn now_ms(&self) -> i64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn a_baseline_answers_for_exactly_the_same_and_only_the_newest_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&format!("sqlite://{}", folder.path().join("a.sqlite").display())).await.unwrap();
        let clock = Counted(AtomicI64::new(1));
        let of = |repository: &str, base: i64| BaselineOf {
            repository: repository.to_owned(),
            base: base.to_string(),
            image: "image".to_owned(),
            command: "pytest".to_owned(),
        };
        let run = |ms: u64| TestRun { exit_code: Some(0), per_test: true, duration_ms: ms, ..TestRun::default() };
        store.keep_baseline(&of("other", 0), &[run(1)], &clock).await.unwrap();
        for base in 0..Store::BASELINES + 3 {
            store.keep_baseline(&of("a", base), &[run(1), run(2)], &clock).await.unwrap();
        }
        store.keep_baseline(&of("a", 5), &[run(7)], &clock).await.unwrap();
        let kept = async |of: BaselineOf| store.baseline(&of).await.unwrap();
        assert_eq!(kept(of("a", 5)).await, Some(vec![run(7)]));
        assert_eq!(kept(of("a", 10)).await, Some(vec![run(1), run(2)]));
        assert_eq!((kept(of("a", 2)).await, kept(of("other", 0)).await.is_some()), (None, true));
        for other in [
            BaselineOf { image: "another".to_owned(), ..of("a", 10) },
            BaselineOf { command: "pytest -q".to_owned(), ..of("a", 10) },
            of("b", 10),
            of("a", 1000),
        ] {
            assert_eq!(kept(other).await, None);
        }
    }
}
