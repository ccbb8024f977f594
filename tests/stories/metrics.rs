//! What the service counts, for Prometheus.

use std::collections::BTreeSet;

use frognano_bot::demo::{Kind, project};
use frognano_bot::telemetry::metrics;

use crate::house::House;

/// The words that begin with our prefix.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = words.filter(|word| word.starts_with("frognano_"));
    ours.map(|word| ["_bucket", "_sum", "_count"].iter().fold(word, |word, end| word.strip_suffix(end).unwrap_or(word)).to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_counted_without_a_name_of_a_repository_or_person() {
    metrics::start();
    let house = House::new(Kind::Gitea).await;
    let service = house.service().await;
    let issue = house.open_issue();
    service.take(&house.label(issue)).await;
    service.outcome().await;
    let address = service.door.replace("/webhooks/here", "/metrics");
    let text = reqwest::get(&address).await.unwrap().error_for_status().unwrap().text().await.unwrap();
    for line in [
        "frognano_runs_total{outcome=\"proposed\",reason=\"\"}",
        "frognano_verdicts_total{proof=\"fixed\"}",
        "frognano_deliveries_total{forge=\"here\",came_to=\"job\"}",
        "frognano_forge_calls_total{forge=\"here\",answer=\"2xx\"}",
        "frognano_turns_total{kind=\"native\"}",
        "frognano_stage_seconds_count{stage=\"agent\"}",
        "frognano_queue_wait_seconds_count",
        "frognano_attempts_total{exit_reason=",
        "frognano_jobs{state=\"done\"} 1",
        "frognano_open_pull_requests 1",
        "frognano_audit_waiting 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let path = project::PATH.split('/').collect::<Vec<_>>();
    for hidden in [project::MAINTAINER, path[0], path[1]] {
        assert!(!text.contains(&format!("\"{hidden}")), "{hidden} is in\n{text}");
    }
    let known = names(&text);
    let told = include_str!("../../src/telemetry/metrics.rs");
    for file in ["deploy/monitoring/alerts.yaml", "deploy/monitoring/grafana.json"] {
        let shown = std::fs::read_to_string(file).unwrap();
        let unknown =
            names(&shown).into_iter().filter(|name| !known.contains(name) && !told.contains(&format!("\"{name}\""))).collect::<Vec<_>>();
        assert_eq!(unknown, Vec::<String>::new(), "{file} asks for what is not counted");
    }
    service.end().await;
}
