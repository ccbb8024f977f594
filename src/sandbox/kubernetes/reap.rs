//! The reaper: pods and policies of sandboxes that nobody holds any more.
//!
//! What must hold: a sandbox of a run under a lease is left alone, and so is one that was just made, since its run may have been claimed a moment
//! after the runs were listed; nothing but what carries our label is touched.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use super::super::SandboxError;
use super::held::Kinds;
use super::pod::{PART, RUN, label_value};
use super::trouble::of_answer;

/// Removes what is older than `grace` and of no run in `held`; the names of what was removed.
///
/// # Errors
/// When the cluster can't be asked.
pub(super) async fn reap(kinds: &Kinds, held: &HashSet<String>, now_ms: i64, grace: Duration) -> Result<Vec<String>, SandboxError> {
    let ours = ListParams::default().labels(&format!("{}={}", PART.0, PART.1));
    let pods = kinds.pods.list_metadata(&ours).await.map_err(|error| of_answer(&error).at_the_start())?;
    let policies = kinds.policies.list_metadata(&ours).await.map_err(|error| of_answer(&error).at_the_start())?;
    let found = pods.items.iter().map(|pod| &pod.metadata).chain(policies.items.iter().map(|policy| &policy.metadata));
    let held: HashSet<String> = held.iter().map(|run| label_value(run)).collect();
    let left: BTreeSet<String> =
        found.filter(|about| is_left(about, &held, now_ms, grace)).filter_map(|about| about.name.clone()).collect();
    let mut removed = Vec::new();
    for name in left {
        match kinds.remove(&name).await {
            Ok(()) => removed.push(name),
            Err(told) => tracing::warn!(name, words = told.words, "what is left of a sandbox could not be removed"),
        }
    }
    Ok(removed)
}

fn is_left(about: &ObjectMeta, held: &HashSet<String>, now_ms: i64, grace: Duration) -> bool {
    let run = about.labels.as_ref().and_then(|labels| labels.get(RUN));
    let made_ms = about.creation_timestamp.as_ref().map_or(i64::MAX, |time| time.0.as_millisecond());
    let grace = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
    run.is_some_and(|run| !held.contains(run)) && now_ms.saturating_sub(made_ms) >= grace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_old_and_of_no_run_under_a_lease_is_left() {
        let about = |run: &str, made_ms: i64| -> ObjectMeta {
            let made = k8s_openapi::jiff::Timestamp::from_millisecond(made_ms).unwrap().to_string();
            serde_json::from_value(serde_json::json!({"name": "x", "labels": {RUN: run}, "creationTimestamp": made})).unwrap()
        };
        let held = HashSet::from(["living".to_owned()]);
        let is_left = |about: &ObjectMeta| is_left(about, &held, 1_000_000, Duration::from_secs(100));
        assert!(is_left(&about("dead", 900_000)));
        assert!(!is_left(&about("dead", 901_000)), "just made");
        assert!(!is_left(&about("living", 0)));
        assert!(!is_left(&ObjectMeta::default()), "not ours");
    }
}
