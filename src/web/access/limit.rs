//! How often somebody may try.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// So many tries a minute for one address.
const FOR_ONE: u32 = 60;
/// So many for all together.
const FOR_ALL: u32 = 600;
const MINUTE_MS: i64 = 60_000;

/// Counts tries by the minute.
#[derive(Debug, Default)]
pub(super) struct Limit(Mutex<Tries>);

#[derive(Debug, Default)]
struct Tries {
    minute: i64,
    all: u32,
    of: HashMap<Option<IpAddr>, u32>,
}

impl Limit {
    /// Counts a try; false when there were too many within this minute.
    pub(super) fn takes(&self, peer: Option<IpAddr>, now_ms: i64) -> bool {
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now_ms.div_euclid(MINUTE_MS);
        if tries.minute != minute {
            *tries = Tries { minute, ..Tries::default() };
        }
        if tries.all >= FOR_ALL {
            return false;
        }
        let of_one = tries.of.entry(peer).or_default();
        if *of_one >= FOR_ONE {
            return false;
        }
        *of_one += 1;
        tries.all += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{FOR_ALL, FOR_ONE, Limit, MINUTE_MS};

    #[test]
    fn one_address_does_not_use_up_the_tries_of_others_and_a_minute_gives_new_ones() {
        let limit = Limit::default();
        let peer = |last: u8| Some(std::net::IpAddr::from([10, 0, 0, last]));
        let taken = |of: u8, at: i64| (0..FOR_ALL).filter(|_| limit.takes(peer(of), at)).count();
        assert_eq!((taken(1, 5), taken(1, 6), taken(2, 7)), (FOR_ONE as usize, 0, FOR_ONE as usize));
        assert_eq!(taken(1, MINUTE_MS), FOR_ONE as usize);
        let all = (2..=50).map(|of| taken(of, MINUTE_MS)).sum::<usize>();
        assert_eq!(all, (FOR_ALL - FOR_ONE) as usize);
    }
}
