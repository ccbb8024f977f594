//! One run in one file, that anybody can check without the service: its rows, what they speak of, and the signed end of the chain.
//!
//! What must hold: every byte of the file is held by a hash, by a signature, or by there being one way only to write it. Rows of other runs are
//! there as hashes alone.

mod checks;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Broken, Checkpoint, Digest, Envelope, Event, Kind, Link, PublicKey, Who, canonical};

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
        small_behind(6, key, clocks)
    }

    fn small_behind(number: i64, key: &SigningKey, clocks: [(i64, u64); 3]) -> Export {
        let person = Person { forge: "here".to_owned(), login: "ada".to_owned(), salt: "s".to_owned() };
        let record = Record::of("policy", b"{}");
        let facts = [json!({}), json!({"rules": {"record": Digest::of(b"{}"), "kind": "policy"}}), json!({"outcome": "refused"})];
        let kinds = [Kind::Asked, Kind::Policy, Kind::RunEnded];
        let before = Digest::of(b"what was before");
        let (mut last, mut rows) = (Checked { number, hash: before }, Vec::new());
        for (at, ((at_ms, ticks_ms), (facts, kind))) in clocks.into_iter().zip(facts.into_iter().zip(kinds)).enumerate() {
            if at == 1 {
                let link = Link { number: number + 2, event: Digest::of(b"another's"), run: None, nth: None, previous: last.hash };
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
    fn numbers_at_the_ends_of_what_is_a_number_break_nothing() {
        let key = key();
        let verified = |export: &Export| Export::verify(&export.to_bytes().unwrap(), None).map(|(_, held)| held.notes.len());
        // RFC 8785 writes numbers as doubles: the next ones can't be told apart.
        assert_eq!(verified(&small_behind((1 << 53) - 4, &key, STEADY)), Ok(0));
        let (early, late, long) = (-9_223_372_036_854_775_000, 9_223_372_036_854_775_000, 18_446_744_073_709_550_000);
        for clocks in [[(early, 0), (late, long), (early, long)], [(late, long), (early, 0), (0, long)]] {
            verified(&small(&key, clocks)).unwrap();
        }
        for first in [i64::MIN, -1, 0, i64::MAX] {
            let mut export = small_behind(i64::MAX - 4, &key, STEADY);
            export.rows.iter_mut().zip(0..).for_each(|(row, at)| row.link.number = first.wrapping_add(at));
            export.before = Digest::NOTHING;
            assert!(verified(&export).is_err(), "{first}");
            // The same with hashes that fit.
            let mut last = export.before;
            for row in &mut export.rows {
                row.link.previous = last;
                row.hash = row.link.clone().seal().unwrap().hash;
                last = row.hash;
            }
            assert!(verified(&export).is_err(), "{first}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_is_noted_and_the_order_holds_all_the_same() {
        let key = key();
        let export = small(&key, [(100_000, 0), (40_000, 1_000), (41_000, 2_000)]);
        let (_, held) = Export::verify(&export.to_bytes().unwrap(), Some(&key.public())).unwrap();
        assert_eq!(held.notes, ["row 9: the clock on the wall was set back by 61 s"]);
    }
}
