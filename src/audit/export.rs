//! One run in one file, that anybody can check without the service: its rows, what they speak of, and the signed end of the chain.
//!
//! What must hold: every byte of the file is held by a hash, by a signature, or by there being one way only to write it. Rows of other runs are
//! there as hashes alone.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Broken, Checked, Checkpoint, Digest, Envelope, Event, Kind, Link, PublicKey, Row, Statement, Who, canonical, transcript};

const FORMAT: &str = "frognano-export/1";

/// The file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// What it is.
    pub format: String,
    /// The run.
    pub run: String,
    /// The hash of the row before the first one here.
    pub before: Digest,
    /// Every row from the first of the run to the checkpoint.
    pub rows: Vec<Exported>,
    /// What the events name by its SHA-256.
    pub records: BTreeMap<String, Record>,
    /// Who stands behind the pseudonyms, but for people who were forgotten.
    pub people: BTreeMap<String, Person>,
    /// The signed end of the chain.
    pub checkpoint: Envelope,
    /// The key that signed it.
    pub key: PublicKey,
}

/// A row of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exported {
    /// What is hashed.
    pub link: Link,
    /// The hash.
    pub hash: Digest,
    /// The event, where it is one of the run.
    pub event: Option<Event>,
}

/// A text or some bytes that an event names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What it is: `issue`, `trajectory`, `patch`, `report`, `policy`, `statement`, …
    pub kind: String,
    /// Its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its bytes in base64, where they are no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// A person behind a pseudonym.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// The forge.
    pub forge: String,
    /// The login there.
    pub login: String,
    /// Random; without it nobody can try out logins.
    pub salt: String,
}

impl Person {
    /// The name in the chain.
    #[must_use]
    pub fn pseudonym(&self) -> String {
        let whole = Digest::of(format!("{}\0{}\0{}", self.salt, self.forge, self.login).as_bytes()).to_string();
        format!("p-{}", &whole[..24])
    }
}

impl Record {
    /// Of bytes.
    #[must_use]
    pub fn of(kind: &str, bytes: &[u8]) -> Self {
        let (text, base64) = match std::str::from_utf8(bytes) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => (None, Some(STANDARD.encode(bytes))),
        };
        Self { kind: kind.to_owned(), text, base64 }
    }

    /// The bytes; none when it can't be read.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Some(text.clone().into_bytes()),
            (None, Some(base64)) => STANDARD.decode(base64).ok(),
            _ => None,
        }
    }
}

/// What a file that holds says, in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// The run.
    pub run: String,
    /// How many events of the run there are, and rows in all.
    pub events: usize,
    /// Rows in all.
    pub rows: usize,
    /// The signed end of the chain.
    pub checkpoint: Checkpoint,
    /// The name of the key.
    pub key: String,
    /// The outcome, once the run has ended.
    pub outcome: Option<String>,
    /// The commit that the statement is about, where there is one.
    pub commit: Option<String>,
    /// The records that were erased since.
    pub erased: Vec<String>,
    /// What holds, and yet should be known: a clock that was set back.
    pub notes: Vec<String>,
}

impl Export {
    /// A file.
    #[must_use]
    pub fn new(run: &str, before: Digest, rows: Vec<Exported>, checkpoint: Envelope, key: PublicKey) -> Self {
        let (format, run) = (FORMAT.to_owned(), run.to_owned());
        Self { format, run, before, rows, records: BTreeMap::new(), people: BTreeMap::new(), checkpoint, key }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        canonical(self)
    }

    /// The digests that its events name.
    #[must_use]
    pub fn named(&self) -> BTreeSet<String> {
        self.events().flat_map(|(_, event)| named(&event.facts)).collect()
    }

    /// The pseudonyms that its events name.
    #[must_use]
    pub fn pseudonyms(&self) -> BTreeSet<String> {
        let people = self.events().filter_map(|(_, event)| match &event.who {
            Who::Person(name) => Some(name.clone()),
            _ => None,
        });
        people.collect()
    }

    /// The bytes of the record of a kind that was named last; none where there is none, or it was erased.
    #[must_use]
    pub fn last_record(&self, kind: &str) -> Option<Vec<u8>> {
        let named = self.events().flat_map(|(_, event)| records(&event.facts)).filter(|(of_kind, _)| *of_kind == kind);
        self.records.get(named.last()?.1)?.bytes()
    }

    /// The bytes of the records of a kind, in the order of their names.
    pub fn records_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, Vec<u8>)> {
        let of_kind = self.records.iter().filter(move |(_, record)| record.kind == kind);
        of_kind.filter_map(|(name, record)| Some((name.as_str(), record.bytes()?)))
    }

    /// Reads and checks a file; `trusted` is the key that must have signed it, where one is known from elsewhere.
    ///
    /// # Errors
    /// The first row that does not hold, or row 0 for what is no row.
    pub fn verify(bytes: &[u8], trusted: Option<&PublicKey>) -> Result<(Self, Held), Broken> {
        let export: Self = serde_json::from_slice(bytes).map_err(|error| Broken::at(0, format!("the file can't be read: {error}")))?;
        if export.format != FORMAT {
            return Err(Broken::at(0, format!("the file is {:?}, this program reads {FORMAT:?}", export.format)));
        }
        let last = export.rows_hold()?;
        let checkpoint = export.checkpoint_holds(last, trusted)?;
        let erased = export.records_hold()?;
        export.people_hold()?;
        export.turns_hold(&erased)?;
        let commit = export.statement_holds()?;
        if export.to_bytes().ok().as_deref() != Some(bytes) {
            return Err(Broken::at(
                0,
                "the file is not written in the one way that it can be (RFC 8785): something was changed between the values",
            ));
        }
        let ended = export.events().find(|(_, event)| event.kind == Kind::RunEnded);
        let held = Held {
            run: export.run.clone(),
            events: export.events().count(),
            rows: export.rows.len(),
            checkpoint,
            key: export.key.id(),
            outcome: ended.and_then(|(_, event)| Some(event.facts.get("outcome")?.as_str()?.to_owned())),
            commit,
            erased: erased.into_iter().collect(),
            notes: export.notes(),
        };
        Ok((export, held))
    }

    /// The events of the run with the numbers of their rows.
    pub fn events(&self) -> impl Iterator<Item = (i64, &Event)> {
        self.rows.iter().filter_map(|row| Some((row.link.number, row.event.as_ref()?)))
    }

    fn rows_hold(&self) -> Result<Checked, Broken> {
        let Some(first) = self.rows.first() else { return Err(Broken::at(0, "there is no row")) };
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

    fn checkpoint_holds(&self, last: Checked, trusted: Option<&PublicKey>) -> Result<Checkpoint, Broken> {
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
    fn records_hold(&self) -> Result<BTreeSet<String>, Broken> {
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

    fn people_hold(&self) -> Result<(), Broken> {
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
    fn turns_hold(&self, erased: &BTreeSet<String>) -> Result<(), Broken> {
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
    fn statement_holds(&self) -> Result<Option<String>, Broken> {
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

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut before: BTreeMap<&str, (i64, u64)> = BTreeMap::new();
        for (row, event) in self.events() {
            if let Some((at_ms, ticks_ms)) = before.insert(&event.process, (event.at_ms, event.ticks_ms)) {
                let (passed, ticked) = (event.at_ms - at_ms, i64::try_from(event.ticks_ms.saturating_sub(ticks_ms)).unwrap_or(i64::MAX));
                if ticked - passed > 2_000 {
                    notes.push(format!("row {row}: the clock on the wall was set back by {} s", (ticked - passed) / 1000));
                }
            }
        }
        notes
    }
}

/// What facts name by its SHA-256: objects `{"record": digest, "kind": kind}`, anywhere.
fn records(facts: &Value) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
    match facts {
        Value::Object(fields) => {
            let own = fields.get("record").and_then(Value::as_str).zip(fields.get("kind").and_then(Value::as_str));
            Box::new(own.map(|(digest, kind)| (kind, digest)).into_iter().chain(fields.values().flat_map(records)))
        }
        Value::Array(values) => Box::new(values.iter().flat_map(records)),
        _ => Box::new(std::iter::empty()),
    }
}

fn named(facts: &Value) -> Vec<String> {
    records(facts).map(|(_, digest)| digest.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Export, Exported, Person, Record};
    use crate::audit::{Checked, Checkpoint, Digest, Event, Kind, Link, SigningKey, Who};

    fn key() -> SigningKey {
        SigningKey::read(&SigningKey::generate().unwrap()).unwrap()
    }

    /// A run of three events with a row of another run between them, a record and a person.
    fn small(key: &SigningKey, clocks: [(i64, u64); 3]) -> Export {
        let person = Person { forge: "here".to_owned(), login: "ada".to_owned(), salt: "s".to_owned() };
        let record = Record::of("policy", b"{}");
        let facts = [json!({}), json!({"rules": {"record": Digest::of(b"{}"), "kind": "policy"}}), json!({"outcome": "refused"})];
        let kinds = [Kind::Asked, Kind::Policy, Kind::RunEnded];
        let before = Digest::of(b"what was before");
        let (mut last, mut rows) = (Checked { number: 6, hash: before }, Vec::new());
        for (at, ((at_ms, ticks_ms), (facts, kind))) in clocks.into_iter().zip(facts.into_iter().zip(kinds)).enumerate() {
            if at == 1 {
                let link = Link { number: 8, event: Digest::of(b"another's"), run: None, nth: None, previous: last.hash };
                let row = link.seal().unwrap();
                last.next(&row).unwrap();
                rows.push(Exported { link: row.link, hash: row.hash, event: None });
            }
            let who = if at == 0 { Who::Person(person.pseudonym()) } else { Who::Service };
            let (process, repository) = ("life".to_owned(), Some("here/1".to_owned()));
            let event = Event { at_ms, process, ticks_ms, kind, who, repository, number: Some(3), job: None, facts };
            let nth = i64::try_from(at).unwrap() + 1;
            let digest = event.digest().unwrap();
            let link = Link { number: last.number + 1, event: digest, run: Some("r".to_owned()), nth: Some(nth), previous: last.hash };
            let row = link.seal().unwrap();
            last.next(&row).unwrap();
            rows.push(Exported { link: row.link, hash: row.hash, event: Some(event) });
        }
        let signed = Checkpoint { log: "log".to_owned(), number: last.number, hash: last.hash, at_ms: 9 }.sign(key).unwrap();
        let mut export = Export::new("r", before, rows, signed, key.public());
        export.records.insert(Digest::of(b"{}").to_string(), record);
        export.people.insert(person.pseudonym(), person);
        export
    }

    const STEADY: [(i64, u64); 3] = [(1_000, 0), (2_000, 1_000), (3_000, 2_000)];

    #[test]
    fn a_change_of_any_byte_of_an_export_is_found() {
        let key = key();
        let bytes = small(&key, STEADY).to_bytes().unwrap();
        let (_, held) = Export::verify(&bytes, Some(&key.public())).unwrap();
        assert_eq!((held.events, held.rows, held.outcome.as_deref(), held.notes.len()), (3, 4, Some("refused"), 0));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bent = bytes.clone();
                bent[at] ^= 1 << bit;
                assert!(Export::verify(&bent, None).is_err(), "bit {bit} of byte {at}, {:?}", bytes[at] as char);
            }
            let (mut without, mut twice) = (bytes.clone(), bytes.clone());
            without.remove(at);
            twice.insert(at, bytes[at]);
            for bent in [without, twice, bytes[..at].to_vec()] {
                assert!(Export::verify(&bent, None).is_err(), "byte {at} removed or twice, or the end cut there");
            }
        }
    }

    #[test]
    fn a_file_of_another_kind_or_key_says_what_is_wrong_with_it() {
        let (key, other) = (key(), key());
        let why = |bytes: &[u8]| Export::verify(bytes, Some(&other.public())).unwrap_err().to_string();
        assert!(why(&small(&key, STEADY).to_bytes().unwrap()).contains("not with the one you gave"));
        for (broken, said) in [("", "can't be read"), ("{}", "missing field"), ("[1]", "can't be read"), ("PK\u{3}\u{4}", "can't be read")]
        {
            assert!(why(broken.as_bytes()).contains(said), "{broken}: {}", why(broken.as_bytes()));
        }
        let mut older = small(&key, STEADY);
        older.format = "frognano-export/0".to_owned();
        assert!(why(&older.to_bytes().unwrap()).contains("this program reads"));
        let mut without = small(&key, STEADY);
        without.records.clear();
        let broken = Export::verify(&without.to_bytes().unwrap(), None).unwrap_err();
        assert_eq!(broken.row, 9, "{broken}: the row that names what is missing");
    }

    #[test]
    fn a_clock_that_was_set_back_is_noted_and_the_order_holds_all_the_same() {
        let key = key();
        let export = small(&key, [(100_000, 0), (40_000, 1_000), (41_000, 2_000)]);
        let (_, held) = Export::verify(&export.to_bytes().unwrap(), Some(&key.public())).unwrap();
        assert_eq!(held.notes, ["row 9: the clock on the wall was set back by 61 s"]);
    }
}
