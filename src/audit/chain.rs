//! Rows that hold each other, and the check of a whole chain in one pass.

use serde::{Deserialize, Serialize};

use super::Digest;

/// A row of the chain, as it is hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its number, from 1.
    pub number: i64,
    /// The SHA-256 of the event.
    pub event: Digest,
    /// The run that the event belongs to.
    pub run: Option<String>,
    /// Its number within the run, from 1; none where there is no run.
    pub nth: Option<i64>,
    /// The hash of the row before.
    pub previous: Digest,
}

/// A row with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What is hashed.
    pub link: Link,
    /// The hash.
    pub hash: Digest,
}

impl Link {
    /// The row with its hash.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn seal(self) -> Result<Row, serde_json::Error> {
        Ok(Row { hash: Digest::of_value(&self)?, link: self })
    }
}

/// The first row that does not hold, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: {why}")]
pub struct Broken {
    /// The number that the row has, or that is missing.
    pub row: i64,
    /// What is wrong with it.
    pub why: String,
}

impl Broken {
    /// A row that does not hold.
    pub fn at(row: i64, why: impl Into<String>) -> Self {
        Self { row, why: why.into() }
    }
}

/// So much of a chain was checked, from some row on, and holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// The number of the last row.
    pub number: i64,
    /// Its hash.
    pub hash: Digest,
}

impl Checked {
    /// Nothing yet: the next row is the first of all.
    pub const START: Self = Self { number: 0, hash: Digest::NOTHING };

    /// Checks the next row.
    ///
    /// # Errors
    /// When it is not the next one, or not what its hash says.
    pub fn next(&mut self, row: &Row) -> Result<(), Broken> {
        let expected =
            self.number.checked_add(1).ok_or_else(|| Broken::at(self.number, "no row can follow it: its number is the last one"))?;
        let link = &row.link;
        if link.number != expected {
            let why = if link.number > expected { "is missing" } else { "stands twice, or in another place" };
            return Err(Broken::at(expected.min(link.number), why));
        }
        if link.previous != self.hash {
            return Err(Broken::at(expected, "does not follow from the row before: one of them was changed"));
        }
        let hash = Digest::of_value(link).map_err(|error| Broken::at(expected, error.to_string()))?;
        if hash != row.hash {
            return Err(Broken::at(expected, "was changed: its hash is another"));
        }
        *self = Self { number: expected, hash };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(rows: i64) -> Vec<Row> {
        let mut last = Checked::START;
        let mut chain = Vec::new();
        for number in 1..=rows {
            let event = Digest::of(&number.to_be_bytes());
            let run = (number % 2 == 0).then(|| "a".to_owned());
            let row = Link { number, event, nth: run.as_ref().map(|_| number / 2), run, previous: last.hash }.seal().unwrap();
            last.next(&row).unwrap();
            chain.push(row);
        }
        chain
    }

    fn first_broken(chain: &[Row]) -> Option<i64> {
        let mut checked = Checked::START;
        chain.iter().find_map(|row| checked.next(row).err()).map(|broken| broken.row)
    }

    #[test]
    fn a_row_that_is_changed_removed_inserted_swapped_or_twice_there_is_found() {
        let whole = chain(6);
        assert_eq!(first_broken(&whole), None);
        for row in 0..6 {
            let number = i64::try_from(row).unwrap() + 1;
            let mut changed = whole.clone();
            changed[row].link.event = Digest::of(b"another");
            assert_eq!(first_broken(&changed), Some(number));
            let mut resealed = whole.clone();
            resealed[row] = Link { event: Digest::of(b"another"), ..resealed[row].link.clone() }.seal().unwrap();
            assert_eq!(first_broken(&resealed), (row < 5).then_some(number + 1), "only the checkpoint holds the last row");
            let mut twice = whole.clone();
            twice.insert(row, whole[row].clone());
            assert_eq!(first_broken(&twice), Some(number));
            if row < 5 {
                let mut removed = whole.clone();
                removed.remove(row);
                assert_eq!(first_broken(&removed), Some(number));
                let mut swapped = whole.clone();
                swapped.swap(row, row + 1);
                assert_eq!(first_broken(&swapped), Some(number));
            }
        }
    }
}
