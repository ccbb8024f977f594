//! The record that can't be bent: what is written of each event, how the rows hold each other, and how anybody checks them without us.
//!
//! What must hold: nothing here needs the service, its database or a network: the same code seals rows for the service and checks them for an auditor.
//! An event holds no text of people, repositories or models, only its SHA-256, so that the text can be erased and the chain stays whole.
//!
//! ```text
//! event (RFC 8785) --SHA-256--> row: number, run, number within the run, hash of the row before --SHA-256--> hash of the row
//! hash of the last row + its number + time --Ed25519 (DSSE)--> checkpoint, kept in the database and outside of it
//! ```

mod chain;
mod digest;
mod event;
mod export;
mod key;
mod statement;
mod transcript;

pub use chain::{Broken, Checked, Link, Row};
pub use digest::{Digest, canonical, is_canonical};
pub use event::{Event, Kind, Life, Note, Who};
pub use export::{Export, Exported, Held, Person, Record};
pub use key::{Checkpoint, Envelope, PublicKey, SigningKey};
pub use statement::{STATEMENT_TYPE, Statement, Subject};
pub use transcript::{Turn, turn};
