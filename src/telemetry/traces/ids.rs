//! The ids of a job's trace, made from the job's own: whoever knows the job knows where its trace is.

use sha2::{Digest as _, Sha256};

/// A trace, as it is sent.
pub(super) type TraceId = [u8; 16];
/// A span, as it is sent.
pub(super) type SpanId = [u8; 8];

/// The trace of a job, as 32 hexadecimal digits.
#[must_use]
pub fn trace_of(job: &str) -> String {
    hex::encode(trace(job))
}

pub(super) fn trace(job: &str) -> TraceId {
    u128::from_be_bytes(first(&format!("frognano-bot trace {job}"))).max(1).to_be_bytes()
}

/// The span above all others of the job.
pub(super) fn root(job: &str) -> SpanId {
    u64::from_be_bytes(first(&format!("frognano-bot span {job}"))).max(1).to_be_bytes()
}

fn first<const N: usize>(text: &str) -> [u8; N] {
    let digest = Sha256::digest(text);
    std::array::from_fn(|at| digest[at])
}

/// An id that no other span has; never all zeros, which the wire has no meaning for.
pub(super) fn next() -> SpanId {
    let random = uuid::Uuid::new_v4().into_bytes();
    std::array::from_fn(|at| random[at])
}

/// Whether the trace is among this share (0 to 1) of all: the same everywhere, so that no trace is told by halves.
pub(super) fn is_chosen(trace: &TraceId, share: f64) -> bool {
    let tail: [u8; 8] = std::array::from_fn(|at| trace[8 + at]);
    const ALL: f64 = (1_u64 << 63) as f64;
    (u64::from_be_bytes(tail) >> 1) < (share.clamp(0.0, 1.0) * ALL) as u64
}

/// What people are shown of the traces: their ids, and where they can be looked at.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The share of runs of which a trace is sent, 0 to 1.
    pub share: f64,
    /// The page of a trace, with `{trace}` in the place of its id.
    pub link: Option<String>,
}

impl Shown {
    /// The id of the job's trace and its page; none where no trace of it is sent.
    #[must_use]
    pub fn of(&self, job: &str) -> Option<(String, Option<String>)> {
        if !is_chosen(&trace(job), self.share) {
            return None;
        }
        let id = trace_of(job);
        let link = self.link.as_ref().map(|link| link.replace("{trace}", &id));
        Some((id, link))
    }
}

#[cfg(test)]
mod tests {
    use super::{Shown, is_chosen, next, root, trace, trace_of};

    #[test]
    fn the_ids_of_a_job_stay_for_ever() {
        assert_eq!(
            (trace_of("0193f0c2").as_str(), hex::encode(root("0193f0c2")).as_str()),
            ("51d1b54f8c7dc7c4efcc72baba1b3fb1", "a582edfad7a8e512")
        );
        assert_eq!((trace_of("a").len(), hex::encode(root("a")).len()), (32, 16));
        assert_ne!(trace("a")[..8], root("a"));
        assert_ne!(trace("a"), trace("b"));
        assert_ne!(next(), next());
    }

    #[test]
    fn a_share_of_the_jobs_is_chosen_and_a_larger_one_holds_it() {
        let jobs = (0..4000).map(|number| trace(&format!("job {number}"))).collect::<Vec<_>>();
        let chosen = |share: f64| jobs.iter().filter(|trace| is_chosen(trace, share)).collect::<Vec<_>>();
        assert_eq!((chosen(0.0).len(), chosen(1.0).len(), chosen(-1.0).len(), chosen(7.0).len()), (0, 4000, 0, 4000));
        assert!((900..1100).contains(&chosen(0.25).len()), "{}", chosen(0.25).len());
        assert!(chosen(0.25).iter().all(|trace| is_chosen(trace, 0.5)));
    }

    #[test]
    fn a_trace_is_shown_where_it_is_sent() {
        let link = Some("https://traces.example.com/t/{trace}?from={trace}".to_owned());
        let id = trace_of("a");
        let shown = Shown { share: 1.0, link }.of("a");
        assert_eq!(shown, Some((id.clone(), Some(format!("https://traces.example.com/t/{id}?from={id}")))));
        assert_eq!(Shown { share: 0.0, link: None }.of("a"), None);
    }
}
