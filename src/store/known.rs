//! What was found in the database a moment ago and seldom changes, so that each delivery need not ask for it again.
//!
//! What must hold: only what was committed is remembered, for a minute, and never so much that memory grows.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const REMEMBERED: Duration = Duration::from_secs(60);
const MOST: usize = 4096;

/// Values by their key.
pub(super) struct Known<K, V>(Mutex<HashMap<K, (V, Instant)>>);

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Known<K, V> {
    /// What was remembered within the last minute.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let known = self.0.lock().ok()?;
        known.get(key).filter(|(_, since)| since.elapsed() < REMEMBERED).map(|(value, _)| value.clone())
    }

    /// Forgets what is in the database no more.
    pub(super) fn forget(&self, is_gone: impl Fn(&K) -> bool) {
        if let Ok(mut known) = self.0.lock() {
            known.retain(|key, _| !is_gone(key));
        }
    }

    /// Remembers what is in the database.
    pub(super) fn put(&self, key: K, value: V) {
        if let Ok(mut known) = self.0.lock() {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(key, (value, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, MOST};

    #[test]
    fn it_is_remembered_and_bounded() {
        let known = Known::default();
        known.put(1, "a");
        assert_eq!((known.get(&1), known.get(&2)), (Some("a"), None));
        for key in 0..=MOST {
            known.put(key, "b");
        }
        assert!(known.0.lock().unwrap().len() <= MOST);
        known.put(7, "c");
        known.forget(|key| *key == 7);
        assert_eq!(known.get(&7), None);
    }
}
