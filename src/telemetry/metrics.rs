//! What is counted and measured, for Prometheus.
//!
//! What must hold: the values of every label come from a list in this program or in the configuration, so that no repository, person or model can make
//! the number of series grow; a name that is given here is never given another meaning.

use std::sync::OnceLock;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Seconds, from a quick stage to a long run.
const SECONDS: [f64; 14] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 10_800.0];

/// Starts to count. What happened before is not counted.
pub fn start() {
    HANDLE.get_or_init(|| {
        let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS).ok()?;
        let handle = builder.install_recorder().ok()?;
        describe();
        Some(handle)
    });
}

fn describe() {
    describe_counter!("frognano_deliveries_total", "Verified deliveries, by forge and what they came to; refused ones too.");
    describe_counter!("frognano_runs_total", "Runs that ended, by outcome and reason.");
    describe_counter!("frognano_attempts_total", "Ways in which the agent's loop ended, by its exit reason.");
    describe_counter!("frognano_verdicts_total", "Proofs of the pull requests that were opened.");
    describe_counter!("frognano_false_greens_total", "Verdicts that a person called wrong.");
    describe_counter!("frognano_fates_total", "What became of our pull requests.");
    describe_counter!("frognano_tokens_total", "Tokens of the model, read and written.");
    describe_counter!("frognano_turns_total", "Turns of the model, by how they were read.");
    describe_counter!("frognano_recovered_tool_calls_total", "Tool calls that the model's server lost and that were found in its text.");
    describe_counter!("frognano_faults_total", "Faults of ours or the machine's, by kind.");
    describe_counter!("frognano_forge_calls_total", "Calls of a forge's API, by the answer's class.");
    describe_counter!("frognano_trace_spans_total", "Spans of traces, by what they came to: sent, or lost as dropped, refused or unsent.");
    describe_histogram!("frognano_stage_seconds", Unit::Seconds, "How long each stage of a run took.");
    describe_histogram!("frognano_queue_wait_seconds", Unit::Seconds, "From the label to the first work on it.");
    describe_gauge!("frognano_jobs", "Jobs in the database, by state.");
    describe_gauge!("frognano_queue_held", "1 while somebody holds the queue.");
    describe_gauge!("frognano_open_pull_requests", "Our pull requests that are open.");
    describe_gauge!("frognano_audit_waiting", "Events that are in no row of the audit chain yet.");
    describe_gauge!("frognano_audit_signed_seconds", Unit::Seconds, "How long ago the end of the audit chain was signed; -1: never.");
}

/// Everything, in the text format of Prometheus; none where counting was not started.
#[must_use]
pub fn exposition() -> Option<String> {
    let handle = HANDLE.get()?.as_ref()?;
    handle.run_upkeep();
    Some(handle.render())
}

/// A delivery came.
pub fn delivery(forge: &str, came_to: &'static str) {
    counter!("frognano_deliveries_total", "forge" => forge.to_owned(), "came_to" => came_to).increment(1);
}

/// A run ended. `reason` is a stable name.
pub fn run_ended(outcome: &'static str, reason: &str) {
    counter!("frognano_runs_total", "outcome" => outcome, "reason" => reason.to_owned()).increment(1);
}

/// The agent's loop ended.
pub fn attempt_ended(exit_reason: &str) {
    counter!("frognano_attempts_total", "exit_reason" => exit_reason.to_owned()).increment(1);
}

/// A pull request was opened with this proof.
pub fn verdict(proof: &str) {
    counter!("frognano_verdicts_total", "proof" => proof.to_owned()).increment(1);
}

/// A person found a verdict wrong.
pub fn false_green() {
    counter!("frognano_false_greens_total").increment(1);
}

/// A pull request of ours was merged, closed or reverted.
pub fn fate(became: &'static str) {
    counter!("frognano_fates_total", "became" => became).increment(1);
}

/// A turn of the model.
pub fn turn(kind: &'static str, prompt_tokens: u64, completion_tokens: u64) {
    counter!("frognano_turns_total", "kind" => kind).increment(1);
    counter!("frognano_tokens_total", "of" => "prompt").increment(prompt_tokens);
    counter!("frognano_tokens_total", "of" => "completion").increment(completion_tokens);
}

/// Tool calls were found that the model's server had lost.
pub fn recovered(channel: &'static str, form: &'static str, calls: u64) {
    counter!("frognano_recovered_tool_calls_total", "channel" => channel, "form" => form).increment(calls);
}

/// A fault that is not the model's.
pub fn fault(kind: &str) {
    counter!("frognano_faults_total", "kind" => kind.to_owned()).increment(1);
}

/// A forge was asked. `answer` is `2xx` to `5xx`, or `none`.
pub fn forge_call(forge: &str, answer: &'static str) {
    counter!("frognano_forge_calls_total", "forge" => forge.to_owned(), "answer" => answer).increment(1);
}

/// So many spans came to this.
pub fn spans(came_to: &'static str, spans: u64) {
    counter!("frognano_trace_spans_total", "came_to" => came_to).increment(spans);
}

/// A stage took so long.
pub fn stage(stage: &'static str, milliseconds: u64) {
    histogram!("frognano_stage_seconds", "stage" => stage).record(seconds(milliseconds));
}

/// A job waited so long for its first work.
pub fn waited(milliseconds: u64) {
    histogram!("frognano_queue_wait_seconds").record(seconds(milliseconds));
}

/// How things stand in the database, read when they are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standing {
    /// Jobs in the queue, under a lease, with an outcome.
    pub jobs: [i64; 3],
    /// Somebody holds the queue.
    pub held: bool,
    /// Our pull requests that are open.
    pub open_pull_requests: i64,
    /// Events that are in no row of the chain yet.
    pub audit_waiting: i64,
    /// How long ago the end of the chain was signed, in milliseconds.
    pub signed_ago_ms: Option<i64>,
}

/// Sets what was read.
pub fn stands(standing: &Standing) {
    let count = |value: i64| value as f64;
    for (state, jobs) in ["queued", "running", "done"].into_iter().zip(standing.jobs) {
        gauge!("frognano_jobs", "state" => state).set(count(jobs));
    }
    gauge!("frognano_queue_held").set(if standing.held { 1.0 } else { 0.0 });
    gauge!("frognano_open_pull_requests").set(count(standing.open_pull_requests));
    gauge!("frognano_audit_waiting").set(count(standing.audit_waiting));
    gauge!("frognano_audit_signed_seconds").set(standing.signed_ago_ms.map_or(-1.0, |ago| count(ago) / 1000.0));
}

fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}
