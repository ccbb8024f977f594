//! A forge's wish to be left alone, kept for all calls to it: whoever asks next waits as well, instead of asking and being refused again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// GitHub's advice for limits that come without a time: a minute, then twice as long each time.
const WITHOUT_A_TIME: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_hours(1);

/// Until when a forge wants no calls.
#[derive(Debug, Default)]
pub(super) struct Limits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    closed_until_ms: i64,
    /// How many limits without a time came one after the other.
    in_a_row: u32,
}

impl Limits {
    /// How long the next call has to wait; zero when it may go.
    pub(super) fn wait(&self, now_ms: i64) -> Duration {
        Duration::from_millis(u64::try_from(self.state().closed_until_ms - now_ms).unwrap_or(0))
    }

    /// A call was refused by a limit, for as long as the forge says, if it says so. The wait that follows.
    pub(super) fn hit(&self, now_ms: i64, asked: Option<Duration>) -> Duration {
        let mut state = self.state();
        let wait = asked.unwrap_or_else(|| {
            let wait = WITHOUT_A_TIME.saturating_mul(2_u32.saturating_pow(state.in_a_row)).min(LONGEST);
            state.in_a_row += 1;
            wait
        });
        close(&mut state, now_ms, wait);
        wait
    }

    /// A call was answered; `spent` says for how long the allowance is used up by it.
    pub(super) fn answered(&self, now_ms: i64, spent: Option<Duration>) {
        let mut state = self.state();
        state.in_a_row = 0;
        if let Some(wait) = spent {
            close(&mut state, now_ms, wait);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn close(state: &mut State, now_ms: i64, wait: Duration) {
    let until = now_ms.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
    state.closed_until_ms = state.closed_until_ms.max(until);
}

/// What changes something, one call after the other and so far apart.
#[derive(Debug)]
pub(super) struct Writes {
    spacing: Duration,
    /// When the last one was answered.
    last_ms: tokio::sync::Mutex<Option<i64>>,
}

/// The right to change something, held until the answer is there.
pub(super) struct Turn<'a> {
    spacing: Duration,
    last_ms: tokio::sync::MutexGuard<'a, Option<i64>>,
}

impl Writes {
    pub(super) fn apart(spacing: Duration) -> Self {
        Self { spacing, last_ms: tokio::sync::Mutex::default() }
    }

    pub(super) async fn turn(&self) -> Turn<'_> {
        Turn { spacing: self.spacing, last_ms: self.last_ms.lock().await }
    }
}

impl Turn<'_> {
    /// How long the call still has to wait. A clock that was set back makes nobody wait longer than the distance.
    pub(super) fn wait(&self, now_ms: i64) -> Duration {
        let Some(last_ms) = *self.last_ms else { return Duration::ZERO };
        self.spacing.saturating_sub(Duration::from_millis(u64::try_from(now_ms - last_ms).unwrap_or(0)))
    }

    /// The call was answered, or broke off.
    pub(super) fn took_place(&mut self, now_ms: i64) {
        *self.last_ms = Some(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Limits, Writes};

    #[tokio::test]
    async fn writes_keep_their_distance_and_no_more() {
        let writes = Writes::apart(Duration::from_secs(1));
        assert_eq!(writes.turn().await.wait(5_000), Duration::ZERO, "the first waits for nothing");
        writes.turn().await.took_place(5_000);
        for (now, wait) in [(5_000, 1_000), (5_400, 600), (6_000, 0), (9_000, 0), (1_000, 1_000)] {
            assert_eq!(writes.turn().await.wait(now), Duration::from_millis(wait), "{now}");
        }
    }

    #[test]
    fn a_limit_without_a_time_doubles_until_an_answer_comes() {
        let limits = Limits::default();
        let waits = (0..9).map(|_| limits.hit(0, None).as_secs()).collect::<Vec<_>>();
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        limits.answered(0, None);
        assert_eq!(limits.hit(0, None).as_secs(), 60);
    }

    #[test]
    fn every_call_waits_for_the_longest_limit() {
        let limits = Limits::default();
        assert_eq!(limits.wait(1_000), Duration::ZERO);
        limits.hit(1_000, Some(Duration::from_secs(7)));
        limits.hit(1_000, Some(Duration::from_secs(3)));
        assert_eq!(limits.wait(2_000), Duration::from_secs(6));
        assert_eq!(limits.wait(8_000), Duration::ZERO);
        limits.answered(8_000, Some(Duration::from_secs(2)));
        assert_eq!(limits.wait(8_500), Duration::from_millis(1_500));
    }
}
