//! How often somebody may try.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// So many within a time, for one address and for all together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    within_ms: i64,
    of_one: u32,
    of_all: u32,
}

/// Sign-ins that the forge is asked about.
pub(super) const SIGN_INS: Most = Most { within_ms: 60_000, of_one: 60, of_all: 600 };
/// What strangers may have written into the chain, which only grows, and into the log.
pub(super) const REFUSALS: Most = Most { within_ms: 60 * 60_000, of_one: 20, of_all: 100 };

/// Counts tries.
#[derive(Debug)]
pub(super) struct Limit(Most, Mutex<Tries>);

#[derive(Debug, Default)]
struct Tries {
    time: i64,
    all: u32,
    of: HashMap<Option<IpAddr>, u32>,
}

impl Limit {
    /// Of so many.
    pub(super) fn of(most: Most) -> Self {
        Self(most, Mutex::default())
    }

    /// Counts a try; false when there were too many.
    pub(super) fn takes(&self, peer: Option<IpAddr>, now_ms: i64) -> bool {
        let Self(most, tries) = self;
        let mut tries = tries.lock().unwrap_or_else(PoisonError::into_inner);
        let time = now_ms.div_euclid(most.within_ms);
        if tries.time != time {
            *tries = Tries { time, ..Tries::default() };
        }
        if tries.all >= most.of_all {
            return false;
        }
        let of_one = tries.of.entry(peer).or_default();
        if *of_one >= most.of_one {
            return false;
        }
        *of_one += 1;
        tries.all += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, REFUSALS, SIGN_INS};

    #[test]
    fn one_address_does_not_use_up_the_tries_of_others_and_time_gives_new_ones() {
        for most in [SIGN_INS, REFUSALS] {
            let limit = Limit::of(most);
            let (one, all) = (most.of_one as usize, most.of_all as usize);
            let peer = |last: u8| Some(std::net::IpAddr::from([10, 0, 0, last]));
            let taken = |of: u8, at: i64| (0..most.of_all).filter(|_| limit.takes(peer(of), at)).count();
            assert_eq!((taken(1, 5), taken(1, 6), taken(2, 7)), (one, 0, one));
            assert_eq!(taken(1, most.within_ms), one);
            assert_eq!((2..=50).map(|of| taken(of, most.within_ms)).sum::<usize>(), all - one);
        }
    }
}
