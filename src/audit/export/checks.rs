//! The checks of a file, one a part of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Export, Exported, Record, named, records};
use crate::audit::{Broken, Checked, Checkpoint, Digest, Envelope, Kind, PublicKey, Row, Statement, Who, transcript};

impl Export {
    pub(super) fn rows_hold(&self) -> Result<Checked, Broken> {
        let Some(first) = self.rows.first() else { return Err(Broken::at(0, "there is no row")) };
        if first.link.number < 1 {
            return Err(Broken::at(0, format!("its first row has the number {}; rows are counted from 1", first.link.number)));
        }
        let mut checked = Checked { number: first.link.number - 1, hash: self.before };
        let mut of_run = 0;
        for Exported { link, hash, event } in &self.rows {
            let at = link.number;
            if let Some(event) = event {
                let digest = event.digest().map_err(|error| Broken::at(at, error.to_string()))?;
                if digest != link.event {
                    return Err(Broken::at(at, "its event was changed: its hash is another"));
                }
            }
            checked.next(&Row { link: link.clone(), hash: *hash })?;
            let is_of_run = link.run.as_deref() == Some(self.run.as_str());
            match (is_of_run, event.is_some()) {
                (true, false) => return Err(Broken::at(at, "belongs to the run, and its event is left out")),
                (false, true) => return Err(Broken::at(at, "does not belong to the run, and its event is here")),
                _ => {}
            }
            if is_of_run {
                of_run += 1;
                if link.nth != Some(of_run) {
                    return Err(Broken::at(at, format!("is not event {of_run} of the run: one before it is missing")));
                }
            }
        }
        if of_run == 0 { Err(Broken::at(first.link.number, "no row belongs to the run")) } else { Ok(checked) }
    }

    pub(super) fn checkpoint_holds(&self, last: Checked, trusted: Option<&PublicKey>) -> Result<Checkpoint, Broken> {
        if let Some(trusted) = trusted.filter(|trusted| **trusted != self.key) {
            return Err(Broken::at(0, format!("it is signed with the key {}, not with the one you gave, {}", self.key.id(), trusted.id())));
        }
        let checkpoint = Checkpoint::open(&self.checkpoint, &self.key)
            .map_err(|why| Broken::at(last.number, format!("the checkpoint does not hold: {why}")))?;
        if checkpoint.number != last.number {
            let why = format!("the file ends here, and the checkpoint at row {}: rows are missing at the end", checkpoint.number);
            return Err(Broken::at(last.number, why));
        }
        if checkpoint.hash != last.hash {
            return Err(Broken::at(last.number, "the checkpoint was signed over another row: this one, or one before it, was made anew"));
        }
        Ok(checkpoint)
    }

    /// Every record is the one that is named; the names of those that were erased.
    pub(super) fn records_hold(&self) -> Result<BTreeSet<String>, Broken> {
        let (mut named, mut erased) = (BTreeMap::<&str, (i64, BTreeSet<&str>)>::new(), BTreeSet::new());
        for (row, event) in self.events() {
            for (kind, name) in records(&event.facts) {
                if event.kind == Kind::Erased {
                    erased.insert(name);
                } else {
                    named.entry(name).or_insert_with(|| (row, BTreeSet::new())).1.insert(kind);
                }
            }
        }
        for (name, record) in &self.records {
            let Some((row, kinds)) = named.get(name.as_str()) else {
                return Err(Broken::at(0, format!("the {} {name} is named by no event", record.kind)));
            };
            let digest = record.bytes().map(|bytes| Digest::of(&bytes).to_string());
            if digest.as_deref() != Some(name) {
                return Err(Broken::at(*row, format!("the {} that it names was changed: its hash is another", record.kind)));
            }
            if !kinds.contains(record.kind.as_str()) {
                return Err(Broken::at(*row, format!("what it names is called {:?} in the file", record.kind)));
            }
        }
        let missing = named.iter().filter(|(name, _)| !self.records.contains_key(**name)).collect::<Vec<_>>();
        if let Some((name, (row, _))) = missing.iter().find(|(name, _)| !erased.contains(*name)) {
            return Err(Broken::at(*row, format!("what it names is missing, and no event says that it was erased: {name}")));
        }
        Ok(missing.into_iter().map(|(name, _)| (*name).to_owned()).collect())
    }

    pub(super) fn people_hold(&self) -> Result<(), Broken> {
        let named = self.pseudonyms();
        for (pseudonym, person) in &self.people {
            let row = self.events().find(|(_, event)| event.who == Who::Person(pseudonym.clone())).map_or(0, |(row, _)| row);
            if !named.contains(pseudonym) {
                return Err(Broken::at(0, format!("{pseudonym} is named by no event")));
            }
            if person.pseudonym() != *pseudonym {
                return Err(Broken::at(row, format!("the person behind {pseudonym} was changed")));
            }
        }
        Ok(())
    }

    /// Each turn in the chain is the one in the transcript, and there are no others.
    pub(super) fn turns_hold(&self, erased: &BTreeSet<String>) -> Result<(), Broken> {
        let mut transcripts = BTreeMap::new();
        for (row, event) in self.events() {
            for (kind, digest) in records(&event.facts) {
                let Some(attempt) = kind.strip_prefix("trajectory-").and_then(|number| number.parse::<u32>().ok()) else { continue };
                if !erased.contains(digest) {
                    transcripts.insert(attempt, (row, digest.to_owned()));
                }
            }
        }
        for (attempt, (row, digest)) in transcripts {
            let bytes = self.records.get(&digest).and_then(Record::bytes).unwrap_or_default();
            let Some(turns) = transcript::turns(&bytes) else {
                return Err(Broken::at(row, "the transcript that it names can't be read"));
            };
            let told = self.told(attempt);
            for turn in &turns {
                let facts = turn.facts(attempt).map_err(|error| Broken::at(row, error.to_string()))?;
                match told.get(&turn.step) {
                    Some((_, in_chain)) if facts == **in_chain => {}
                    Some((row, _)) => return Err(Broken::at(*row, format!("step {} of the transcript is another", turn.step))),
                    None => return Err(Broken::at(row, format!("step {} of the transcript is in no row", turn.step))),
                }
            }
            if let Some((step, (row, _))) = told.iter().find(|(step, _)| !turns.iter().any(|turn| turn.step == **step)) {
                return Err(Broken::at(*row, format!("step {step} is not in the transcript")));
            }
        }
        Ok(())
    }

    /// The steps of an attempt as the chain has them: where it was begun anew, or went on behind a step that was lost, what was told last.
    fn told(&self, attempt: u32) -> BTreeMap<u64, (i64, &Value)> {
        let mut told = BTreeMap::new();
        for (row, event) in self.events().filter(|(_, event)| event.facts.get("attempt") == Some(&Value::from(attempt))) {
            match (event.kind, event.facts.get("step").and_then(Value::as_u64)) {
                (Kind::Turn, Some(step)) => drop(told.insert(step, (row, &event.facts))),
                (Kind::Attempt, _) if event.facts.get("begins") == Some(&Value::Bool(true)) => told.clear(),
                (Kind::Attempt, _) if let Some(before) = event.facts.get("goes_on_before").and_then(Value::as_u64) => {
                    told.retain(|step, _| *step < before);
                }
                _ => {}
            }
        }
        told
    }

    /// The statement is signed with the same key and names what the events name; the commit that it is about.
    pub(super) fn statement_holds(&self) -> Result<Option<String>, Broken> {
        let mut commit = None;
        for (name, record) in self.records.iter().filter(|(_, record)| record.kind == "statement") {
            let row = self.events().find(|(_, event)| named(&event.facts).iter().any(|named| named == name)).map_or(0, |(row, _)| row);
            let wrong = |why: String| Broken::at(row, format!("the statement does not hold: {why}"));
            let envelope: Envelope =
                serde_json::from_slice(&record.bytes().unwrap_or_default()).map_err(|error| wrong(format!("it can't be read: {error}")))?;
            let statement = Statement::open(&envelope, &self.key).map_err(wrong)?;
            if statement.predicate.get("run").and_then(Value::as_str) != Some(self.run.as_str()) {
                return Err(wrong("it is about another run".to_owned()));
            }
            commit = statement.commit().map(str::to_owned);
        }
        Ok(commit)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut before: BTreeMap<&str, (i64, u64)> = BTreeMap::new();
        for (row, event) in self.events() {
            if let Some((at_ms, ticks_ms)) = before.insert(&event.process, (event.at_ms, event.ticks_ms)) {
                let passed = event.at_ms.saturating_sub(at_ms);
                let back = i64::try_from(event.ticks_ms.saturating_sub(ticks_ms)).unwrap_or(i64::MAX).saturating_sub(passed);
                if back > 2_000 {
                    notes.push(format!("row {row}: the clock on the wall was set back by {} s", back / 1000));
                }
            }
        }
        notes
    }
}
